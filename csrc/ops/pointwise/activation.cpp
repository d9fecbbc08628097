// Activation functions. Those of nn.functional that take `inplace` are composites over a kernel.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

template <class Op, int Inputs>
struct Functional : detail::PointwiseDefaults<Op, Inputs> {
  static constexpr auto module = "nn.functional";
  static constexpr bool inplace = false;
};

// A function of nn.functional: the kernel's parameters, then `inplace`.
template <class Self, class Kernel, class... Params>
struct Activation : Composite {
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static constexpr bool out = false;
  static const Pointwise& kernel(bool, Params...) { return pointwise_info<Kernel>(); }
  static std::array<double, 4> arguments(Params... params) { return {params...}; }

  static Var forward(const Var& input, Params... params, bool inplace) {
    return run_pointwise(Self::kernel(inplace, params...), &input,
                         Self::arguments(params...).data(), inplace ? input.get() : nullptr,
                         inplace);
  }
  static void into(Tensor* into, bool inplace, const Var& input, Params... params, bool) {
    run_pointwise(Self::kernel(inplace, params...), &input, Self::arguments(params...).data(), into,
                  inplace);
  }
};

struct Relu : Unary<Relu> {
  static constexpr auto name = "relu";
  static constexpr auto doc = "relu(x): x where it is positive, else 0.";
  static constexpr Types types = Types::Real;
  static constexpr bool selects = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V value(V x) { return where(x < V(0), V(0), x); }
  template <class V> static V partial(V, V y) { return where(y <= V(0), V(0), V(1)); }
};
RL_POINTWISE(Relu)

struct ReluF : Activation<ReluF, Relu> {
  static constexpr auto signature = "relu(Tensor input, bool inplace=False)";
  static constexpr auto doc = "relu(x): x where it is positive, else 0.";
  static constexpr bool inplace = true;
};
RL_OP(ReluF)

struct HardtanhKernel : Hidden<HardtanhKernel, 1> {
  static constexpr auto name = "hardtanh";
  static constexpr auto signature = "hardtanh(Tensor input, float min_val, float max_val)";
  static constexpr auto doc = "hardtanh(x, a, b): x, but at least a and at most b.";
  static constexpr Types types = Types::Real;
  static constexpr int params = 2;
  static constexpr bool selects = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V low, V high) {
    return where(x < low, low, where(x > high, high, x));
  }
  template <class V> static V slope(V x, V low, V high) {
    return where(either(x <= low, x >= high), V(0), V(1));
  }
  template <class V> static V partial(V x, V low, V high, V) { return slope(x, low, high); }
};
RL_POINTWISE(HardtanhKernel)

// In place the input is gone; the output says as much. Elsewhere the output stays free to be
// written.
struct HardtanhInPlace : HardtanhKernel {
  static constexpr auto name = "hardtanh_";
  static constexpr auto grad_name = "HardtanhBackward0";
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V partial(V, V low, V high, V y) { return slope(y, low, high); }
};
RL_POINTWISE(HardtanhInPlace)

struct Hardtanh : Activation<Hardtanh, HardtanhKernel, double, double> {
  static constexpr auto signature =
      "hardtanh(Tensor input, float min_val=-1.0, float max_val=1.0, bool inplace=False)";
  static constexpr auto doc = "hardtanh(x, min_val, max_val): x, limited to an interval.";
  static constexpr bool inplace = true;
  static const Pointwise& kernel(bool inplace, double low, double high) {
    if (low > high)
      fail_as(PyExc_ValueError, "min_val cannot be greater than max_val: hardtanh got ", low,
              " and ", high);
    return inplace ? pointwise_info<HardtanhInPlace>() : pointwise_info<HardtanhKernel>();
  }
};
RL_OP(Hardtanh)

struct Relu6 : Activation<Relu6, HardtanhKernel> {
  static constexpr auto signature = "relu6(Tensor input, bool inplace=False)";
  static constexpr auto doc = "relu6(x): x, limited to [0, 6].";
  static const Pointwise& kernel(bool inplace) { return Hardtanh::kernel(inplace, 0, 6); }
  static std::array<double, 4> arguments() { return {0, 6}; }
};
RL_OP(Relu6)

struct LeakyReluKernel : Hidden<LeakyReluKernel, 1> {
  static constexpr auto name = "leaky_relu";
  static constexpr auto signature = "leaky_relu(Tensor input, float negative_slope)";
  static constexpr auto doc = "leaky_relu(x, slope): x where it is positive, else slope * x.";
  static constexpr int params = 1;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V slope) { return where(x > V(0), x, slope * x); }
  template <class V> static V partial(V x, V slope, V) { return where(x > V(0), V(1), slope); }
};
RL_POINTWISE(LeakyReluKernel)

// In place, for a slope that keeps the input's sign.
struct LeakyReluInPlace : LeakyReluKernel {
  static constexpr auto name = "leaky_relu_";
  static constexpr auto grad_name = "LeakyReluBackward1";
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V partial(V, V slope, V y) { return where(y > V(0), V(1), slope); }
};
RL_POINTWISE(LeakyReluInPlace)

struct LeakyRelu : Activation<LeakyRelu, LeakyReluKernel, double> {
  static constexpr auto signature =
      "leaky_relu(Tensor input, float negative_slope=0.01, bool inplace=False)";
  static constexpr auto doc =
      "leaky_relu(x, negative_slope): x where it is positive, else negative_slope * x.";
  static constexpr bool inplace = true;
  static const Pointwise& kernel(bool inplace, double slope) {
    return inplace && slope >= 0 ? pointwise_info<LeakyReluInPlace>()
                                 : pointwise_info<LeakyReluKernel>();
  }
};
RL_OP(LeakyRelu)

struct EluKernel : Hidden<EluKernel, 1> {
  static constexpr auto name = "elu";
  static constexpr auto signature =
      "elu(Tensor input, float alpha, float scale, float input_scale)";
  static constexpr auto doc =
      "elu(x, a, s, r): s * x where it is positive, else s * a * (exp(r * x) - 1).";
  static constexpr int params = 3;
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V alpha, V scale, V rate) {
    return where(x > V(0), scale * x, scale * alpha * expm1(rate * x));
  }
  template <class V> static V partial(V x, V alpha, V scale, V rate, V) {
    V below = where(x > V(0), V(0), x);
    return where(x <= V(0), scale * alpha * rate * exp(rate * below), scale);
  }
};
RL_POINTWISE(EluKernel)

struct Elu : Activation<Elu, EluKernel, double> {
  static constexpr auto signature = "elu(Tensor input, float alpha=1.0, bool inplace=False)";
  static constexpr auto doc = "elu(x, alpha): x where it is positive, else alpha * (exp(x) - 1).";
  static constexpr bool inplace = true;
  static std::array<double, 4> arguments(double alpha) { return {alpha, 1, 1}; }
};
RL_OP(Elu)

struct SeluF : Activation<SeluF, EluKernel> {
  static constexpr auto signature = "selu(Tensor input, bool inplace=False)";
  static constexpr auto doc = "selu(x): the elu whose constants keep mean 0 and variance 1.";
  static constexpr bool inplace = true;
  static std::array<double, 4> arguments() {
    return {1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1};
  }
};
RL_OP(SeluF)

struct CeluF : Activation<CeluF, EluKernel, double> {
  static constexpr auto signature = "celu(Tensor input, float alpha=1.0, bool inplace=False)";
  static constexpr auto doc =
      "celu(x, alpha): x where it is positive, else alpha * (exp(x / alpha) - 1).";
  static constexpr bool inplace = true;
  static const Pointwise& kernel(bool, double alpha) {
    static const Pointwise celu = renamed(pointwise_info<EluKernel>(), "CeluBackward0");
    check(alpha != 0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    return celu;
  }
  static std::array<double, 4> arguments(double alpha) { return {alpha, 1, 1 / alpha}; }
};
RL_OP(CeluF)

struct ThresholdKernel : Hidden<ThresholdKernel, 1> {
  static constexpr auto name = "threshold";
  static constexpr auto signature = "threshold(Tensor input, float threshold, float value)";
  static constexpr auto doc = "threshold(x, t, v): x where it is above t, else v.";
  static constexpr Types types = Types::Real;
  static constexpr int params = 2;
  static constexpr bool selects = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V at, V v) { return where(x <= at, v, x); }
  template <class V> static V partial(V x, V at, V, V) { return where(x <= at, V(0), V(1)); }
};
RL_POINTWISE(ThresholdKernel)

struct ThresholdF : Activation<ThresholdF, ThresholdKernel, double, double> {
  static constexpr auto signature =
      "threshold(Tensor input, float threshold, float value, bool inplace=False)";
  static constexpr auto doc = "threshold(x, threshold, value): x where it is above, else value.";
  static constexpr bool inplace = true;
};
RL_OP(ThresholdF)

// The functions that torch itself has as well.
struct Selu : SeluF {
  static constexpr auto module = "";
  static constexpr bool method = false;
};
RL_OP(Selu)

struct Celu : CeluF {
  static constexpr auto module = "";
  static constexpr bool method = false;
};
RL_OP(Celu)

struct Threshold : ThresholdF {
  static constexpr auto module = "";
  static constexpr bool method = false;
};
RL_OP(Threshold)

struct GeluKernel : Hidden<GeluKernel, 1> {
  static constexpr auto name = "gelu";
  static constexpr auto doc = "gelu(x): x times the normal distribution function.";
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return V(0.5) * x * (V(1) + erf(x * V(M_SQRT1_2))); }
  template <class V> static V partial(V x, V) {
    V density = V(M_2_SQRTPI * M_SQRT1_2 / 2) * exp(V(-0.5) * x * x);
    return V(0.5) * (V(1) + erf(x * V(M_SQRT1_2))) + x * density;
  }
};
RL_POINTWISE(GeluKernel)

struct GeluTanhKernel : Hidden<GeluTanhKernel, 1> {
  static constexpr auto name = "gelu_tanh";
  static constexpr auto grad_name = "GeluBackward0";
  static constexpr auto doc = "gelu_tanh(x): gelu with tanh in place of erf.";
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  static constexpr double kRoot = M_2_SQRTPI * M_SQRT1_2, kCube = 0.044715;
  template <class V> static V inner(V x) { return tanh(V(kRoot) * (x + V(kCube) * x * x * x)); }
  template <class V> static V value(V x) { return V(0.5) * x * (V(1) + inner(x)); }
  template <class V> static V partial(V x, V) {
    V t = inner(x), slope = V(kRoot) * (V(1) + V(3 * kCube) * x * x);
    return V(0.5) * (V(1) + t) + V(0.5) * x * (V(1) - t * t) * slope;
  }
};
RL_POINTWISE(GeluTanhKernel)

struct Gelu : Composite {
  static constexpr auto signature = "gelu(Tensor input, *, str approximate='none')";
  static constexpr auto doc =
      "gelu(x): x times the normal distribution function, or its approximation by 'tanh'.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static Var forward(const Var& input, const std::string& approximate) {
    if (approximate == "tanh") return apply<GeluTanhKernel>(input);
    check(approximate == "none", "approximate argument must be either none or tanh, got '",
          approximate, "'");
    return apply<GeluKernel>(input);
  }
};
RL_OP(Gelu)

struct SiluKernel : Hidden<SiluKernel, 1> {
  static constexpr auto name = "silu";
  static constexpr auto doc = "silu(x): x * sigmoid(x).";
  static constexpr Types types = Types::FloatComplex;
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return x * sigmoid(x); }
  template <class V> static V partial(V x, V) {
    V s = sigmoid(x);
    return s * (V(1) + x * (V(1) - s));
  }
};
RL_POINTWISE(SiluKernel)

struct Silu : Activation<Silu, SiluKernel> {
  static constexpr auto signature = "silu(Tensor input, bool inplace=False)";
  static constexpr auto doc = "silu(x): x * sigmoid(x), also called swish.";
};
RL_OP(Silu)

struct Softplus : Functional<Softplus, 1> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "softplus";
  static constexpr auto signature = "softplus(Tensor input, float beta=1, float threshold=20)";
  static constexpr auto doc =
      "softplus(x, beta, threshold): log(1 + exp(beta * x)) / beta, and x above the threshold.";
  static constexpr int params = 2;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V beta, V threshold) {
    return where(x * beta > threshold, x, log1p(exp(x * beta)) / beta);
  }
  template <class V> static V partial(V x, V beta, V threshold, V) {
    return where(x * beta > threshold, V(1), sigmoid(x * beta));
  }
};
RL_POINTWISE(Softplus)

template <class V>
RL_INLINE V softplus(V x) {
  return Softplus::value(x, V(1), V(20));
}
template <>
Var softplus(Var x) {
  double params[] = {1, 20};
  return run_pointwise(pointwise_info<Softplus>(), &x, params);
}

struct MishKernel : Hidden<MishKernel, 1> {
  static constexpr auto name = "mish";
  static constexpr auto doc = "mish(x): x * tanh(softplus(x)).";
  static constexpr double cost = 14;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return x * tanh(softplus(x)); }
  template <class V> static V partial(V x, V) {
    V t = tanh(softplus(x));
    return t + x * (V(1) - t * t) * sigmoid(x);
  }
};
RL_POINTWISE(MishKernel)

struct Mish : Activation<Mish, MishKernel> {
  static constexpr auto signature = "mish(Tensor input, bool inplace=False)";
  static constexpr auto doc = "mish(x): x * tanh(softplus(x)).";
};
RL_OP(Mish)

struct Logsigmoid : Functional<Logsigmoid, 1> {
  static constexpr auto name = "logsigmoid";
  static constexpr auto grad_name = "LogSigmoidBackward0";
  static constexpr auto doc = "logsigmoid(x): log(sigmoid(x)).";
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return where(x < V(0), x, V(0)) - log1p(exp(-abs(x))); }
  template <class V> static V partial(V x, V) { return sigmoid(-x); }
};
RL_POINTWISE(Logsigmoid)

struct HardsigmoidKernel : Hidden<HardsigmoidKernel, 1> {
  static constexpr auto name = "hardsigmoid";
  static constexpr auto doc = "hardsigmoid(x): x / 6 + 1/2, limited to [0, 1].";
  static constexpr bool selects = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) {
    V shifted = x + V(3);
    return where(shifted < V(0), V(0), where(shifted > V(6), V(6), shifted)) / V(6);
  }
  template <class V> static V partial(V x, V) {
    return where(both(x > V(-3), x < V(3)), V(1. / 6), V(0));
  }
};
RL_POINTWISE(HardsigmoidKernel)

struct Hardsigmoid : Activation<Hardsigmoid, HardsigmoidKernel> {
  static constexpr auto signature = "hardsigmoid(Tensor input, bool inplace=False)";
  static constexpr auto doc = "hardsigmoid(x): x / 6 + 1/2, limited to [0, 1].";
};
RL_OP(Hardsigmoid)

struct HardswishKernel : Hidden<HardswishKernel, 1> {
  static constexpr auto name = "hardswish";
  static constexpr auto doc = "hardswish(x): x * hardsigmoid(x).";
  static constexpr bool selects = true;
  static constexpr bool vanishes = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return x * HardsigmoidKernel::value(x); }
  template <class V> static V partial(V x, V) {
    return where(x <= V(-3), V(0), where(x < V(3), x / V(3) + V(0.5), V(1)));
  }
};
RL_POINTWISE(HardswishKernel)

struct Hardswish : Activation<Hardswish, HardswishKernel> {
  static constexpr auto signature = "hardswish(Tensor input, bool inplace=False)";
  static constexpr auto doc = "hardswish(x): x * hardsigmoid(x).";
};
RL_OP(Hardswish)

struct SoftsignKernel : Hidden<SoftsignKernel, 1> {
  static constexpr auto name = "softsign";
  static constexpr auto grad_name = "DivBackward0";
  static constexpr auto doc = "softsign(x): x / (1 + |x|).";
  static constexpr Result result = Result::Float;
  static constexpr double cost = 2;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return x / (V(1) + abs(x)); }
  template <class V> static V partial(V x, V) {
    V d = V(1) + abs(x);
    return V(1) / (d * d);
  }
};
RL_POINTWISE(SoftsignKernel)

struct Softsign : Composite {
  static constexpr auto signature = "softsign(Tensor input)";
  static constexpr auto doc = "softsign(x): x / (1 + |x|).";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    if (is_complex(input.dtype())) return input / (Var(1) + abs(input));
    return apply<SoftsignKernel>(input);
  }
};
RL_OP(Softsign)

struct Tanhshrink : Composite {
  static constexpr auto signature = "tanhshrink(Tensor input)";
  static constexpr auto doc = "tanhshrink(x): x - tanh(x).";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return input - tanh(input); }
};
RL_OP(Tanhshrink)

struct Hardshrink : Unary<Hardshrink> {
  static constexpr auto name = "hardshrink";
  static constexpr auto signature = "hardshrink(Tensor input, float lambd=0.5)";
  static constexpr auto doc = "hardshrink(x, lambd): x, and 0 where |x| is at most lambd.";
  static constexpr int params = 1;
  static constexpr bool selects = true;
  static constexpr bool inplace = false;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static auto small(V x, V size) { return both(x >= -size, x <= size); }
  template <class V> static V value(V x, V size) { return where(small(x, size), V(0), x); }
  template <class V> static V partial(V x, V size, V) { return where(small(x, size), V(0), V(1)); }
};
RL_POINTWISE(Hardshrink)

struct HardshrinkF : Composite {
  static constexpr auto signature = "hardshrink(Tensor input, float lambd=0.5)";
  static constexpr auto doc = "hardshrink(x, lambd): x, and 0 where |x| is at most lambd.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static Var forward(const Var& input, double lambd) {
    return run_pointwise(pointwise_info<Hardshrink>(), &input, &lambd);
  }
};
RL_OP(HardshrinkF)

struct SoftshrinkKernel : Hidden<SoftshrinkKernel, 1> {
  static constexpr auto name = "softshrink";
  static constexpr auto signature = "softshrink(Tensor input, float lambd)";
  static constexpr auto doc = "softshrink(x, lambd): x moved towards 0 by lambd, at most to 0.";
  static constexpr int params = 1;
  static constexpr bool selects = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V size) {
    return where(x > size, x - size, where(x < -size, x + size, x * V(0)));
  }
  template <class V> static V partial(V x, V size, V) {
    return where(Hardshrink::small(x, size), V(0), V(1));
  }
};
RL_POINTWISE(SoftshrinkKernel)

struct Softshrink : Composite {
  static constexpr auto signature = "softshrink(Tensor input, float lambd=0.5)";
  static constexpr auto doc = "softshrink(x, lambd): x moved towards 0 by lambd, at most to 0.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Activation;
  static Var forward(const Var& input, double lambd) {
    check(lambd >= 0, "lambda must be greater or equal to 0, but found to be ", lambd, ".");
    return run_pointwise(pointwise_info<SoftshrinkKernel>(), &input, &lambd);
  }
};
RL_OP(Softshrink)

struct PreluKernel : Hidden<PreluKernel, 2> {
  static constexpr auto name = "prelu";
  static constexpr auto grad_name = "PreluKernelBackward0";
  static constexpr auto doc = "prelu(x, w): x where it is positive, else w * x.";
  static constexpr bool selects = true;
  static constexpr bool vanishes = true;
  static constexpr bool whole_history = true;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A};
  template <class V> static V value(V x, V w) { return where(x > V(0), x, w * x); }
  template <class V> static V partial0(V x, V w, V) { return where(x > V(0), V(1), w); }
  template <class V> static V partial1(V x, V, V) { return where(x > V(0), V(0), x); }
};
RL_POINTWISE(PreluKernel)

struct Prelu : Composite {
  static constexpr auto signature = "prelu(Tensor input, Tensor weight)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc =
      "prelu(x, weight): x where it is positive, else weight * x, with one weight per channel.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight) {
    check(input.dtype() == weight.dtype(), "prelu: Type promoting not supported. Got ",
          info(input.dtype()).tensor_name, " and ", info(weight.dtype()).tensor_name);
    check(weight.dim() <= 1,
          "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", weight.dim());
    SameDevice same("prelu");
    same.add(input.get());
    same.add(weight.get());
    if (weight.numel() == 1)
      return apply<PreluKernel>(input, weight.dim() ? ops::reshape(weight, {}) : weight);
    check(input.dim() > 0, "prelu: Not allow zero-dim input tensor.");
    int64_t channels = input.dim() > 1 ? input.size(1) : 1;
    check(weight.numel() == channels,
          "prelu: Mismatch of parameter numbers and input channel "
          "size. Found parameter numbers = ",
          weight.numel(), " and channel size = ", channels, ".");
    Ints sizes(input.dim());
    for (int i = 0; i < sizes.size(); i++) sizes[i] = i == 1 ? channels : 1;
    return apply<PreluKernel>(input, ops::reshape(weight, sizes));
  }
};
RL_OP(Prelu)

struct PreluF : Prelu {
  static constexpr auto module = "nn.functional";
};
RL_OP(PreluF)

struct GluKernel : Hidden<GluKernel, 2> {
  static constexpr auto name = "glu";
  static constexpr auto doc = "glu(a, b): a * sigmoid(b).";
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) { return a * sigmoid(b); }
  template <class V> static V partial0(V, V b, V) { return sigmoid(b); }
  template <class V> static V partial1(V a, V b, V) {
    V s = sigmoid(b);
    return a * s * (V(1) - s);
  }
};
RL_POINTWISE(GluKernel)

struct Glu : Composite {
  static constexpr auto signature = "glu(Tensor input, int dim=-1)";
  static constexpr auto doc = "glu(x, dim): a * sigmoid(b) for the halves a and b of x along dim.";
  static constexpr auto module = "nn.functional";
  static Var forward(const Var& input, int64_t dim) {
    check(input.dim() > 0, "glu does not support 0-dimensional tensors");
    dim = wrap_dim(dim, input.dim(), "glu");
    int64_t size = input.size(int(dim));
    check(size % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ", size);
    return apply<GluKernel>(ops::narrow(input, dim, 0, size / 2),
                            ops::narrow(input, dim, size / 2, size / 2));
  }
};
RL_OP(Glu)

#define RL_FUNCTIONAL(Type, function, text)                          \
  struct Type : Composite {                                          \
    static constexpr auto signature = #function "(Tensor input)";    \
    static constexpr auto doc = #function "(x): " text;              \
    static constexpr auto module = "nn.functional";                  \
    static constexpr Family family = Family::Activation;             \
    static constexpr bool out = false;                               \
    static Var forward(const Var& input) { return function(input); } \
  };                                                                 \
  RL_OP(Type)
RL_FUNCTIONAL(SigmoidF, sigmoid, "1 / (1 + exp(-x)).")
RL_FUNCTIONAL(TanhF, tanh, "the hyperbolic tangent.")
#undef RL_FUNCTIONAL

}  // namespace
}  // namespace rl
