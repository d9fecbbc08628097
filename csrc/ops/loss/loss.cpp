// Losses that compare element by element.
#include "ops/loss/loss.h"

#include "call/broadcast.h"
#include "call/pointwise_node.h"
#include "call/write.h"
#include "kernels/cuda/driver.h"

namespace rl {

void warn_user(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
}

std::string size_text(const Ints& sizes) { return concat("torch.Size(", sizes, ")"); }

Reduce reduction_of(const std::string& reduction, const std::optional<bool>& size_average,
                    const std::optional<bool>& reduce) {
  std::string name = reduction;
  if (size_average || reduce) {
    name = !reduce.value_or(true) ? "none" : size_average.value_or(true) ? "mean" : "sum";
    warn_user("size_average and reduce args will be deprecated, please use reduction='" + name +
              "' instead.");
  }
  if (name == "mean") return Reduce::Mean;
  if (name == "sum") return Reduce::Sum;
  if (name == "none") return Reduce::None;
  if (name == "elementwise_mean") {
    warn_user("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.");
    return Reduce::Mean;
  }
  fail_as(PyExc_ValueError, name, " is not a valid value for reduction");
}

Var reduced(const Var& each, Reduce reduce) {
  if (reduce == Reduce::None) return each;
  return reduce == Reduce::Sum ? ops::sum_all(each) : ops::mean_all(each);
}

namespace {

using namespace math;

RL_INLINE float sigmoid(float x) { return 1 / (1 + exp(-x)); }
RL_INLINE double sigmoid(double x) { return 1 / (1 + exp(-x)); }
Var sigmoid(const Var& x) { return call_pointwise("sigmoid", {x}); }
Symbol sigmoid(const Symbol& x) { return 1 / (1 + exp(-x)); }

// log(1 + exp(-x)), without overflow.
template <class V>
RL_INLINE V log_one_plus_exp_minus(V x) {
  return log1p(exp(-abs(x))) + where(x < V(0), -x, V(0));
}

// What one pair of elements contributes. Params: the loss's own (beta, delta).
struct SquaredError : Binary<SquaredError> {
  static constexpr auto name = "mse_loss";
  static constexpr auto doc = "";
  static constexpr auto loss = "MseLossBackward0";
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V t) { return (x - t) * (x - t); }
  template <class V> static V partial0(V x, V t, V) { return V(2) * (x - t); }
  template <class V> static V partial1(V x, V t, V) { return V(-2) * (x - t); }
};

struct SmoothL1 : Binary<SmoothL1> {
  static constexpr auto name = "smooth_l1_loss";
  static constexpr auto signature = "smooth_l1_loss(Tensor input, Tensor target, float beta)";
  static constexpr auto doc = "";
  static constexpr auto loss = "SmoothL1LossBackward0";
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V t, V beta) {
    V d = abs(x - t);
    return where(d < beta, V(0.5) * d * d / beta, d - V(0.5) * beta);
  }
  template <class V> static V partial0(V x, V t, V beta, V) {
    V d = x - t;
    return where(abs(d) < beta, d / beta, sign(d));
  }
  template <class V> static V partial1(V x, V t, V beta, V y) { return -partial0(x, t, beta, y); }
};

struct Huber : Binary<Huber> {
  static constexpr auto name = "huber_loss";
  static constexpr auto signature = "huber_loss(Tensor input, Tensor target, float delta)";
  static constexpr auto doc = "";
  static constexpr auto loss = "HuberLossBackward0";
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V t, V delta) {
    V d = abs(x - t);
    return where(d < delta, V(0.5) * d * d, delta * (d - V(0.5) * delta));
  }
  template <class V> static V partial0(V x, V t, V delta, V) {
    V d = x - t;
    return where(abs(d) < delta, d, delta * sign(d));
  }
  template <class V> static V partial1(V x, V t, V delta, V y) { return -partial0(x, t, delta, y); }
};

// Logarithms are cut at -100, the slope at p (1 - p) = 1e-12 (a float's), as torch has it.
struct BinaryCrossEntropyTerm : Binary<BinaryCrossEntropyTerm> {
  static constexpr auto name = "binary_cross_entropy";
  static constexpr auto doc = "";
  static constexpr auto loss = "BinaryCrossEntropyBackward0";
  static constexpr double cost = 20;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V cut(V x) { return where(x < V(-100), V(-100), x); }
  template <class V> static V value(V p, V t) {
    return (t - V(1)) * cut(V(log1p(-p))) - t * cut(V(log(p)));
  }
  template <class V> static V partial0(V p, V t, V) {
    V spread = (V(1) - p) * p;
    V least = V(9.999999960041972e-13);
    return (p - t) / where(spread < least, least, spread);
  }
  template <class V> static V partial1(V p, V, V) { return log1p(-p) - log(p); }
};

struct LogitsTerm : Binary<LogitsTerm> {
  static constexpr auto name = "binary_cross_entropy_with_logits";
  static constexpr auto doc = "";
  static constexpr auto loss = "BinaryCrossEntropyWithLogitsBackward0";
  static constexpr double cost = 20;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A};
  template <class V> static V value(V x, V t) { return (V(1) - t) * x + log_one_plus_exp_minus(x); }
  template <class V> static V partial0(V x, V t, V) { return sigmoid(x) - t; }
  template <class V> static V partial1(V x, V, V) { return -x; }
};

struct SoftMarginTerm : Binary<SoftMarginTerm> {
  static constexpr auto name = "soft_margin_loss";
  static constexpr auto doc = "";
  static constexpr auto loss = "SoftMarginLossBackward0";
  static constexpr double cost = 20;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V t) { return log_one_plus_exp_minus(V(t * x)); }
  template <class V> static V partial0(V x, V t, V) { return -t * sigmoid(V(-(t * x))); }
  template <class V> static V partial1(V x, V t, V) { return -x * sigmoid(V(-(t * x))); }
};

// The third input weighs the positive class.
struct WeightedLogitsTerm : Ternary<WeightedLogitsTerm> {
  static constexpr auto name = "binary_cross_entropy_with_logits";
  static constexpr auto doc = "";
  static constexpr auto loss = "BinaryCrossEntropyWithLogitsBackward0";
  static constexpr double cost = 20;
  static constexpr Save saves[] = {Save::A | Save::B | Save::C, Save::A | Save::C,
                                   Save::A | Save::B};
  template <class V> static V value(V x, V t, V w) {
    return (V(1) - t) * x + (V(1) + (w - V(1)) * t) * log_one_plus_exp_minus(x);
  }
  template <class V> static V partial0(V x, V t, V w, V) {
    return (V(1) - t) - (V(1) + (w - V(1)) * t) * sigmoid(V(-x));
  }
  template <class V> static V partial1(V x, V, V w, V) {
    return (w - V(1)) * log_one_plus_exp_minus(x) - x;
  }
  template <class V> static V partial2(V x, V t, V, V) { return t * log_one_plus_exp_minus(x); }
};

// A loss as one node: the terms, times `weight`, reduced.
template <class Term>
struct ElementLoss : General {
  static constexpr auto signature =
      "_element_loss(Tensor input, Tensor target, Tensor? third, Tensor? weight, float parameter, "
      "int reduction)";
  static constexpr auto grad_name = Term::loss;
  static constexpr auto saves = "input target third weight";

  static Var forward(const Var& input, const Var& target, const Var& third, const Var& weight,
                     double parameter, int64_t reduction) {
    const Var in[3] = {input, target, third};
    Var each = run_pointwise(pointwise_info<Term>(), in, &parameter);
    if (weight) each = each * weight;
    return reduced(each, Reduce(reduction));
  }

  static Var batched(const HiddenDims& hidden, const Var& input, const Var& target,
                     const Var& third, const Var& weight, double parameter, int64_t reduction) {
    int rank = all_sizes(input, target, third, weight).size();
    auto front = [&](const Var& v) { return v ? hidden.front(v, rank - v.dim()) : v; };
    Var each = forward(front(input), front(target), front(third), front(weight), parameter,
                       int64_t(Reduce::None));
    if (Reduce(reduction) == Reduce::None) return each;
    each = ops::reshape(each, hidden.prefixed({-1}));
    Ints last{each.dim() - 1};
    return Reduce(reduction) == Reduce::Sum ? ops::sum(each, last, false)
                                            : ops::mean(each, last, false);
  }

  static void vjp(Back& b, const In& input, const In& target, const In& third, const In& weight,
                  double parameter, int64_t reduction) {
    const Pointwise& op = pointwise_info<Term>();
    const Var in[3] = {*input, *target, *third};
    Var g = b.g();
    if (Reduce(reduction) == Reduce::Mean) {
      int64_t count = element_count(all_sizes(input, target, third, weight));
      g = g * Var(count ? 1 / double(count) : 0);
    }
    if (weight && b.wants(3)) b[3] = g * run_pointwise(op, in, &parameter);
    if (weight) g = g * *weight;
    for (int i = 0; i < op.inputs; i++) {
      if (!b.wants(i)) continue;
      if (b.create_graph()) b[i] = g * op.partial[i].tensor(in, &parameter, {});
      else b[i] = kernel_gradient(op, i, g, in, {}, &parameter);
    }
  }

  static void jvp(Push& p, const Var& input, const Var& target, const Var& third, const Var& weight,
                  double parameter, int64_t reduction) {
    const Pointwise& op = pointwise_info<Term>();
    const Var in[3] = {input, target, third};
    Var each =
        ops::zeros(all_sizes(input, target, third, weight), p.out().dtype(), p.out().device());
    for (int i = 0; i < op.inputs; i++) {
      if (!p.t(i)) continue;
      Var term = p.t(i) * op.partial[i].tensor(in, &parameter, {});
      each = each + (weight ? term * weight : term);
    }
    if (p.t(3)) each = each + p.t(3) * run_pointwise(op, in, &parameter);
    p[0] = reduced(each, Reduce(reduction));
  }

  template <class T>
  static Ints all_sizes(const T& input, const T& target, const T& third, const T& weight) {
    Ints all = broadcast(input.sizes(), target.sizes());
    if (third) all = broadcast(all, third.sizes());
    if (weight) all = broadcast(all, weight.sizes());
    return all;
  }
};

template <class Term>
Var element_loss(const Var& input, const Var& target, Reduce reduce, double parameter = 0,
                 const Var& weight = {}, const Var& third = {}) {
  return call<ElementLoss<Term>>(input, target, third, weight, parameter, int64_t(reduce));
}

void warn_sizes(const Var& input, const Var& target) {
  if (input.sizes() == target.sizes()) return;
  warn_user("Using a target size (" + size_text(target.sizes()) +
            ") that is different to the input size (" + size_text(input.sizes()) +
            "). This will likely lead to incorrect results due to broadcasting. Please ensure they "
            "have the same size.");
}

void check_weight(const Var& input, const Var& weight) {
  if (!(weight.sizes() == input.sizes()))
    fail_as(PyExc_ValueError, "Weights and input must have the same size.");
}

// The sum of the weighted terms, or their mean by weight.
Var weighted(const Var& each, const Var& weight, Reduce reduce) {
  Var scaled = each * weight;
  if (reduce != Reduce::Mean) return reduced(scaled, reduce);
  return reduced(scaled, Reduce::Sum) / reduced(weight, Reduce::Sum);
}

struct LossDefaults : Composite {
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Loss;
  static constexpr bool out = false;
};

struct MseLoss : LossDefaults {
  static constexpr auto signature =
      "mse_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
      "str reduction='mean', Tensor? weight=None)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "mse_loss(x, target): the mean of (x - target)^2.";
  static Var forward(const Var& input, const Var& target, std::optional<bool> size_average,
                     std::optional<bool> reduce, const std::string& reduction, const Var& weight) {
    warn_sizes(input, target);
    Reduce how = reduction_of(reduction, size_average, reduce);
    if (!weight) return element_loss<SquaredError>(input, target, how);
    check_weight(input, weight);
    Var apart = input - target;
    return weighted(apart * apart, weight, how);
  }
};
RL_OP(MseLoss)

struct L1Loss : LossDefaults {
  static constexpr auto signature =
      "l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
      "str reduction='mean', Tensor? weight=None)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "l1_loss(x, target): the mean of |x - target|.";
  static Var forward(const Var& input, const Var& target, std::optional<bool> size_average,
                     std::optional<bool> reduce, const std::string& reduction, const Var& weight) {
    warn_sizes(input, target);
    Reduce how = reduction_of(reduction, size_average, reduce);
    Var each = abs(input - target);
    if (!weight) return reduced(each, how);
    check_weight(input, weight);
    return weighted(each, weight, how);
  }
};
RL_OP(L1Loss)

struct SmoothL1Loss : LossDefaults {
  static constexpr auto signature =
      "smooth_l1_loss(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
      "str reduction='mean', float beta=1.0)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "smooth_l1_loss(x, target, beta): |d| - beta / 2, below beta d^2 / (2 beta), d = x - target.";
  static Var forward(const Var& input, const Var& target, std::optional<bool> size_average,
                     std::optional<bool> reduce, const std::string& reduction, double beta) {
    warn_sizes(input, target);
    Reduce how = reduction_of(reduction, size_average, reduce);
    check(beta >= 0, "smooth_l1_loss does not support negative values for beta. Got: ", beta);
    if (beta == 0) return reduced(abs(input - target), how);
    return element_loss<SmoothL1>(input, target, how, beta);
  }
};
RL_OP(SmoothL1Loss)

struct HuberLoss : LossDefaults {
  static constexpr auto signature =
      "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, "
      "Tensor? weight=None)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "huber_loss(x, target, delta): d^2 / 2, beyond delta delta (|d| - delta / 2), d = x - "
      "target.";
  static Var forward(const Var& input, const Var& target, const std::string& reduction,
                     double delta, const Var& weight) {
    warn_sizes(input, target);
    Reduce how = reduction_of(reduction, std::nullopt, std::nullopt);
    check(delta > 0, "huber_loss does not support non-positive values for delta. Got: ", delta);
    if (!weight) return element_loss<Huber>(input, target, how, delta);
    check_weight(input, weight);
    return reduced(element_loss<Huber>(input, target, Reduce::None, delta) * weight, how);
  }
};
RL_OP(HuberLoss)

void check_probabilities(const Var& x, const char* what) {
  if (x.numel() == 0 || !has_data(x.get())) return;
  if (x.device().type == Device::CUDA && cuda::capture) return;  // the host reads nothing meanwhile
  Unrecorded once;
  GradMode off(false);
  Var dense = ops::contiguous(x), ends = empty({2}, x.dtype(), x.device());
  int64_t item = itemsize(x.dtype());
  on(dense).amin(x.dtype(), dense->data(), ends->data(), 1, x.numel(), 1);
  on(dense).amax(x.dtype(), dense->data(), ends->data() + item, 1, x.numel(), 1);
  Var as_double = ops::on_host(ops::to(ends, DType::F64));
  double low = as_double->host<double>()[0], high = as_double->host<double>()[1];
  check(low >= 0 && high <= 1, "all elements of ", what,
        " should be between 0 and 1: "
        "binary_cross_entropy got values from ",
        low, " to ", high);
}

struct BinaryCrossEntropy : LossDefaults {
  static constexpr auto signature =
      "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "binary_cross_entropy(p, target): -target log(p) - (1 - target) log(1 - p).";
  static Var forward(const Var& input, const Var& target, const Var& weight,
                     std::optional<bool> size_average, std::optional<bool> reduce,
                     const std::string& reduction) {
    Reduce how = reduction_of(reduction, size_average, reduce);
    if (!(input.sizes() == target.sizes()))
      fail_as(PyExc_ValueError, "Using a target size (", size_text(target.sizes()),
              ") that is different to the input size (", size_text(input.sizes()),
              ") is deprecated. Please ensure they have the same size.");
    check(input.dtype() == target.dtype(), "Found dtype ", info(target.dtype()).tensor_name,
          " but expected ", info(input.dtype()).tensor_name, " (binary_cross_entropy: target)");
    check(!weight || can_expand(weight.sizes(), input.sizes()),
          "binary_cross_entropy: the weight of shape ", weight ? weight.sizes() : Ints(),
          " can't be expanded to the input's ", input.sizes(), ": Attempting to broadcast");
    if (!is_floating(input.dtype()))
      fail_as(PyExc_NotImplementedError, "\"binary_cross_entropy\" not implemented for '",
              info(input.dtype()).tensor_name, "'");
    check_probabilities(input, "input");
    check_probabilities(target, "target");
    return element_loss<BinaryCrossEntropyTerm>(input, target, how, 0, weight);
  }
};
RL_OP(BinaryCrossEntropy)

struct BinaryCrossEntropyWithLogits : LossDefaults {
  static constexpr auto signature =
      "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean', "
      "Tensor? pos_weight=None)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "binary_cross_entropy_with_logits(x, target): binary_cross_entropy of sigmoid(x), without "
      "its loss of precision.";
  static Var forward(const Var& input, const Var& target, const Var& weight,
                     std::optional<bool> size_average, std::optional<bool> reduce,
                     const std::string& reduction, const Var& pos_weight) {
    Reduce how = reduction_of(reduction, size_average, reduce);
    if (!(input.sizes() == target.sizes()))
      fail_as(PyExc_ValueError, "Target size (", size_text(target.sizes()),
              ") must be the same as input size (", size_text(input.sizes()), ")");
    check_cast(DType::F32, target.dtype());
    if (pos_weight)
      return element_loss<WeightedLogitsTerm>(input, target, how, 0, weight, pos_weight);
    return element_loss<LogitsTerm>(input, target, how, 0, weight);
  }
};
RL_OP(BinaryCrossEntropyWithLogits)

struct SoftMarginLoss : LossDefaults {
  static constexpr auto signature =
      "soft_margin_loss(Tensor input, Tensor target, bool? size_average=None, "
      "bool? reduce=None, str reduction='mean')";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "soft_margin_loss(x, target): log(1 + exp(-target x)).";
  static Var forward(const Var& input, const Var& target, std::optional<bool> size_average,
                     std::optional<bool> reduce, const std::string& reduction) {
    return element_loss<SoftMarginTerm>(input, target,
                                        reduction_of(reduction, size_average, reduce));
  }
};
RL_OP(SoftMarginLoss)

struct KlDiv : LossDefaults {
  static constexpr auto signature =
      "kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, "
      "str reduction='mean', bool log_target=False)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "kl_div(log_q, p): p (log(p) - log_q), the divergence of p from q.";
  static Var forward(const Var& input, const Var& target, std::optional<bool> size_average,
                     std::optional<bool> reduce, const std::string& reduction, bool log_target) {
    bool legacy = size_average || reduce, batch = reduction == "batchmean";
    if (!legacy && reduction == "mean")
      warn_user(
          "reduction: 'mean' divides the total loss by both the batch size and the support "
          "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
          "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
          "major release.");
    Reduce how = reduction_of(batch ? "sum" : reduction, size_average, reduce);
    Var each = log_target ? exp(target) * (target - input)
                          : call_pointwise("xlogy", {target, target}) - target * input;
    Var out = reduced(each, how);
    if (batch && input.dim() != 0) out = out / Var(double(input.size(0)));
    return out;
  }
};
RL_OP(KlDiv)

}  // namespace
}  // namespace rl
