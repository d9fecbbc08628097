// Exponentials, logarithms, trigonometric and hyperbolic functions, and what is close to them.
#include "call/broadcast.h"
#include "call/op.h"
#include "call/pointwise.h"
#include "call/write.h"

namespace rl {

namespace math {

// What std lacks for complex numbers.
template <class T>
std::complex<T> exp2(std::complex<T> z) {
  return std::exp(z * T(M_LN2));
}
template <class T>
std::complex<T> log2(std::complex<T> z) {
  return std::log(z) * T(M_LOG2E);
}
template <class T>
std::complex<T> expm1(std::complex<T> z) {
  T x = z.real(), y = z.imag(), half = std::sin(y / 2);
  return {std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)};
}
template <class T>
std::complex<T> log1p(std::complex<T> z) {
  T x = z.real(), y = z.imag();
  if (!(std::abs(x) < 1 && std::abs(y) < 1)) return std::log(T(1) + z);
  return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
}

RL_INLINE float hypot(float x, float y) { return ::hypotf(x, y); }
RL_INLINE double hypot(double x, double y) { return ::hypot(x, y); }
inline Symbol hypot(const Symbol& x, const Symbol& y) { return call_symbol("hypot", {x, y}); }

RL_INLINE float nextafter(float x, float y) { return ::nextafterf(x, y); }
RL_INLINE double nextafter(double x, double y) { return ::nextafter(x, y); }
inline Symbol nextafter(const Symbol& x, const Symbol& y) {
  return call_symbol("nextafter", {x, y});
}

}  // namespace math

using namespace math;

namespace {

// Even in real numbers, as PyTorch has it outside of the domain too.
template <class V>
V acosh_slope(V x) {
  auto apart = [](const V& z) { return V(1) / (sqrt(z - V(1)) * sqrt(z + V(1))); };
  if constexpr (is_complex_v<V>) {
    return apart(x);
  } else {
    if constexpr (std::is_same_v<V, Var>)
      if (is_complex(x.dtype())) return apart(x);
    if constexpr (std::is_same_v<V, Symbol>)
      if (Symbol::elements() == Elements::Complex) return apart(x);
    V a = abs(x);
    return V(1) / sqrt((a - V(1)) * (a + V(1)));
  }
}

// Of kinds that regions of mixed precision on CUDA compute in float32.
#define RL_WIDE \
  kComplex;     \
  static constexpr bool full_on_cuda = true

// The derivative is an expression in the input x and the output y, of which it reads one.
#define RL_ELEMENTARY(Type, function, others, kinds, area, price, reads, derivative, text) \
  struct Type : Unary<Type> {                                                              \
    static constexpr auto name = #function;                                                \
    static constexpr auto aliases = others;                                                \
    static constexpr auto doc = #function "(x): " text;                                    \
    static constexpr Types types = kinds;                                                  \
    static constexpr Result result = Result::Float;                                        \
    static constexpr auto domain = area;                                                   \
    static constexpr double cost = price;                                                  \
    static constexpr Save saves[] = {reads};                                               \
    template <class V> static V value(V x) { return function(x); }                         \
    template <class V> static V partial([[maybe_unused]] V x, [[maybe_unused]] V y) {      \
      return derivative;                                                                   \
    }                                                                                      \
  };                                                                                       \
  RL_POINTWISE(Type)

constexpr Types kComplex = Types::FloatComplex;

// clang-format off
RL_ELEMENTARY(Exp, exp, "", RL_WIDE, "real", 4, Save::Out, y, "e to the power of x.")
RL_ELEMENTARY(Exp2, exp2, "", kComplex, "real", 4, Save::Out, y * V(M_LN2),
              "2 to the power of x.")
RL_ELEMENTARY(Expm1, expm1, "", RL_WIDE, "real", 4, Save::Out, y + V(1),
              "exp(x) - 1, accurate near 0.")
RL_ELEMENTARY(Log, log, "", RL_WIDE, "positive", 4, Save::A, V(1) / x, "the natural logarithm.")
RL_ELEMENTARY(Log2, log2, "", RL_WIDE, "positive", 4, Save::A, V(1) / (x * V(M_LN2)),
              "the logarithm to base 2.")
RL_ELEMENTARY(Log10, log10, "", RL_WIDE, "positive", 4, Save::A, V(1) / (x * V(M_LN10)),
              "the logarithm to base 10.")
RL_ELEMENTARY(Log1p, log1p, "", RL_WIDE, "positive", 4, Save::A, V(1) / (x + V(1)),
              "log(1 + x), accurate near 0.")
RL_ELEMENTARY(Sin, sin, "", kComplex, "real", 5, Save::A, cos(x), "the sine.")
RL_ELEMENTARY(Cos, cos, "", kComplex, "real", 5, Save::A, -sin(x), "the cosine.")
RL_ELEMENTARY(Tan, tan, "", RL_WIDE, "unit", 8, Save::Out, V(1) + y * y, "the tangent.")
RL_ELEMENTARY(Asin, asin, "arcsin", RL_WIDE, "unit", 6, Save::A, V(1) / sqrt(V(1) - x * x),
              "the angle in [-pi/2, pi/2] whose sine is x.")
RL_ELEMENTARY(Acos, acos, "arccos", RL_WIDE, "unit", 6, Save::A, V(-1) / sqrt(V(1) - x * x),
              "the angle in [0, pi] whose cosine is x.")
RL_ELEMENTARY(Atan, atan, "arctan", kComplex, "real", 6, Save::A, V(1) / (V(1) + x * x),
              "the angle in (-pi/2, pi/2) whose tangent is x.")
RL_ELEMENTARY(Sinh, sinh, "", RL_WIDE, "real", 6, Save::A, cosh(x), "the hyperbolic sine.")
RL_ELEMENTARY(Cosh, cosh, "", RL_WIDE, "real", 6, Save::A, sinh(x), "the hyperbolic cosine.")
RL_ELEMENTARY(Tanh, tanh, "", kComplex, "real", 6, Save::Out, V(1) - y * y,
              "the hyperbolic tangent.")
RL_ELEMENTARY(Asinh, asinh, "arcsinh", kComplex, "real", 8, Save::A, V(1) / sqrt(x * x + V(1)),
              "the inverse of sinh.")
RL_ELEMENTARY(Acosh, acosh, "arccosh", kComplex, "above_one", 8, Save::A,
              acosh_slope(x), "the inverse of cosh.")
RL_ELEMENTARY(Atanh, atanh, "arctanh", kComplex, "unit", 8, Save::A, V(1) / (V(1) - x * x),
              "the inverse of tanh.")
RL_ELEMENTARY(Sigmoid, sigmoid, "", kComplex, "real", 5, Save::Out, y * (V(1) - y),
              "1 / (1 + exp(-x)).")
// clang-format on
#undef RL_ELEMENTARY
#undef RL_WIDE

#define RL_SCALING(Type, function, factor, text)                     \
  struct Type : Unary<Type> {                                        \
    static constexpr auto name = #function;                          \
    static constexpr auto doc = #function "(x): " text;              \
    static constexpr Result result = Result::Float;                  \
    static constexpr Save saves[] = {Save::None};                    \
    template <class V> static V value(V x) { return x * V(factor); } \
    template <class V> static V partial(V, V) { return V(factor); }  \
  };                                                                 \
  RL_POINTWISE(Type)
RL_SCALING(Deg2rad, deg2rad, M_PI / 180, "degrees as radians.")
RL_SCALING(Rad2deg, rad2deg, 180 / M_PI, "radians as degrees.")
#undef RL_SCALING

// A negative eps stands for none.
struct LogitKernel : Hidden<LogitKernel, 1> {
  static constexpr auto name = "logit";
  static constexpr auto signature = "logit(Tensor input, float eps)";
  static constexpr auto doc = "logit(x): log(x / (1 - x)).";
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "probability";
  static constexpr int params = 1;
  static constexpr double cost = 6;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V eps) {
    V low = where(eps < V(0), x, eps), high = where(eps < V(0), x, V(1) - eps);
    V p = where(x < low, low, where(x > high, high, x));
    return log(p / (V(1) - p));
  }
  template <class V> static V partial(V x, V eps, V) {
    V low = where(eps < V(0), V(0), eps), high = V(1) - low;
    V outside = where(eps < V(0), log(eps), V(0));  // NaN, or no gradient
    return where(either(x<low, x> high), outside, V(1) / (x * (V(1) - x)));
  }
};
RL_POINTWISE(LogitKernel)

struct Logit : Composite {
  static constexpr auto signature = "logit(Tensor input, float? eps=None)";
  static constexpr auto doc =
      "logit(x, eps): log(x / (1 - x)), with x moved into [eps, 1 - eps] when eps is given.";
  static constexpr bool inplace = true;
  static Var run(const Var& input, std::optional<double> eps, Tensor* into, bool inplace) {
    double param = eps.value_or(-1);
    return run_pointwise(pointwise_info<LogitKernel>(), &input, &param, into, inplace);
  }
  static Var forward(const Var& input, std::optional<double> eps) {
    return run(input, eps, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, std::optional<double> eps) {
    run(input, eps, into, inplace);
  }
};
RL_OP(Logit)

struct Atan2 : Binary<Atan2> {
  static constexpr auto name = "atan2";
  static constexpr auto aliases = "arctan2";
  static constexpr auto signature = "atan2(Tensor input, Tensor other)";
  static constexpr auto doc = "atan2(y, x): the angle of the point (x, y), in (-pi, pi].";
  static constexpr Result result = Result::Float;
  static constexpr double cost = 10;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) { return atan2(a, b); }
  template <class V> static V partial0(V a, V b, V) { return b / square_norm(a, b); }
  template <class V> static V partial1(V a, V b, V) { return -a / square_norm(a, b); }

  // 1 instead of 0, so that the gradient at the origin is 0.
  template <class V> static V square_norm(V a, V b) {
    V s = a * a + b * b;
    return where(s == V(0), V(1), s);
  }
};
RL_POINTWISE(Atan2)

struct Hypot : Binary<Hypot> {
  static constexpr auto name = "hypot";
  static constexpr auto signature = "hypot(Tensor input, Tensor other)";
  static constexpr auto doc = "hypot(a, b): sqrt(a * a + b * b) without overflow.";
  static constexpr double cost = 6;
  static constexpr Save saves[] = {Save::A | Save::Out, Save::B | Save::Out};
  template <class V> static V value(V a, V b) { return hypot(a, b); }
  template <class V> static V partial0(V a, V, V y) { return a / y; }
  template <class V> static V partial1(V, V b, V y) { return b / y; }
};
RL_POINTWISE(Hypot)

// The form of a binary op with a Python number, which torch records under a name of its own.
template <class Self, class Op>
struct WithNumber : Composite {
  static constexpr auto doc = Op::doc;
  static Var run(const Var& input, const Var& other, Tensor* into, bool inplace) {
    static const Pointwise op = renamed(pointwise_info<Op>(), Self::node);
    const Var in[] = {input, other};
    return run_pointwise(op, in, nullptr, into, inplace);
  }
  static Var forward(const Var& input, const Var& other) {
    return run(input, other, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& other) {
    run(input, other, into, inplace);
  }
};

struct Copysign : Binary<Copysign> {
  static constexpr auto name = "copysign";
  static constexpr auto signature = "copysign(Tensor input, Tensor other)";
  static constexpr auto doc = "copysign(a, b): the magnitude of a with the sign of b.";
  static constexpr Result result = Result::Float;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A | Save::B, Save::None};
  template <class V> static V value(V a, V b) { return copysign(a, b); }
  template <class V> static V partial0(V a, V b, V) {
    return where(a == V(0), V(0), copysign(V(1), a) * copysign(V(1), b));
  }
  template <class V> static V partial1(V, V, V) { return V(0); }
};
RL_POINTWISE(Copysign)

struct CopysignNumber : WithNumber<CopysignNumber, Copysign> {
  static constexpr auto signature = "copysign(Tensor input, Number other)";
  static constexpr auto node = "CopysignBackward1";
  static constexpr bool inplace = true;
};
RL_OP(CopysignNumber)

// Whether the real part of a is the larger.
template <class V>
auto exceeds(const V& a, const V& b) {
  if constexpr (is_complex_v<V>) return a.real() > b.real();
  else return a > b;
}

struct Logaddexp : Binary<Logaddexp> {
  static constexpr auto name = "logaddexp";
  static constexpr auto signature = "logaddexp(Tensor input, Tensor other)";
  static constexpr auto doc = "logaddexp(a, b): log(exp(a) + exp(b)) without overflow.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr bool inplace = false;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) {
    auto first = exceeds(a, b);
    V far = where(first, a, b), near = where(first, b, a);
    return where(a == b, a + V(M_LN2), far + log1p(exp(near - far)));
  }
  template <class V> static V partial0(V a, V b, V) { return sigmoid(a - b); }
  template <class V> static V partial1(V a, V b, V) { return sigmoid(b - a); }
};
RL_POINTWISE(Logaddexp)

struct Logaddexp2 : Binary<Logaddexp2> {
  static constexpr auto name = "logaddexp2";
  static constexpr auto signature = "logaddexp2(Tensor input, Tensor other)";
  static constexpr auto doc = "logaddexp2(a, b): log2(2**a + 2**b) without overflow.";
  static constexpr bool inplace = false;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) {
    V rest = log1p(exp2(-abs(a - b))) * V(M_LOG2E);
    return where(a == b, a + V(1), where(a > b, a, b) + rest);
  }
  template <class V> static V partial0(V a, V b, V) { return sigmoid((a - b) * V(M_LN2)); }
  template <class V> static V partial1(V a, V b, V) { return sigmoid((b - a) * V(M_LN2)); }
};
RL_POINTWISE(Logaddexp2)

struct Xlogy : Binary<Xlogy> {
  static constexpr auto name = "xlogy";
  static constexpr auto signature = "xlogy(Tensor input, Tensor other)";
  static constexpr auto doc = "xlogy(x, y): x * log(y), and 0 where x is 0.";
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "positive";
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V y) {
    return where(both(x == V(0), !isnan(y)), V(0), x * log(y));
  }
  template <class V> static V partial0(V x, V y, V) {
    return log(where(both(x == V(0), y <= V(0)), V(1), y));
  }
  template <class V> static V partial1(V x, V y, V) { return x / y; }
};
RL_POINTWISE(Xlogy)

struct XlogyNumber : WithNumber<XlogyNumber, Xlogy> {
  static constexpr auto signature = "xlogy(Tensor input, Number other)";
  static constexpr auto node = "XlogyBackward2";
  static constexpr bool inplace = true;
};
RL_OP(XlogyNumber)

struct NumberXlogy : WithNumber<NumberXlogy, Xlogy> {
  static constexpr auto signature = "xlogy(Number input, Tensor other)";
  static constexpr auto node = "XlogyBackward1";
  static constexpr bool method = false;
};
RL_OP(NumberXlogy)

struct Fmax : Binary<Fmax> {
  static constexpr auto name = "fmax";
  static constexpr auto signature = "fmax(Tensor input, Tensor other)";
  static constexpr auto doc = "fmax(a, b): the larger; a number wins over NaN, a tie goes to a.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr bool inplace = false;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static auto first(V a, V b) { return either(a >= b, isnan(b)); }
  template <class V> static V value(V a, V b) { return where(first(a, b), a, b); }
  template <class V> static V partial0(V a, V b, V) { return where(first(a, b), V(1), V(0)); }
  template <class V> static V partial1(V a, V b, V) { return where(first(a, b), V(0), V(1)); }
};
RL_POINTWISE(Fmax)

struct Fmin : Binary<Fmin> {
  static constexpr auto name = "fmin";
  static constexpr auto signature = "fmin(Tensor input, Tensor other)";
  static constexpr auto doc = "fmin(a, b): the smaller; a number wins over NaN, a tie goes to a.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr bool inplace = false;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static auto first(V a, V b) { return either(a <= b, isnan(b)); }
  template <class V> static V value(V a, V b) { return where(first(a, b), a, b); }
  template <class V> static V partial0(V a, V b, V) { return where(first(a, b), V(1), V(0)); }
  template <class V> static V partial1(V a, V b, V) { return where(first(a, b), V(0), V(1)); }
};
RL_POINTWISE(Fmin)

struct HeavisideKernel : Hidden<HeavisideKernel, 2> {
  static constexpr auto name = "heaviside";
  static constexpr auto doc = "heaviside(x, v): 0 below 0, v at 0, 1 above.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool differentiable = false;
  template <class V> static V value(V x, V v) {
    return where(x == V(0), v, where(x > V(0), V(1), V(0)));
  }
};
RL_POINTWISE(HeavisideKernel)

struct Heaviside : General {
  static constexpr auto signature = "heaviside(Tensor input, Tensor values)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr auto grad_name = "NotImplemented";
  static constexpr auto doc = "heaviside(x, values): 0 below 0, values at 0, 1 above.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& values) {
    check(input.dtype() == values.dtype(),
          "heaviside is not yet implemented for tensors with different dtypes: ",
          name(input.dtype()), " and ", name(values.dtype()));
    return apply<HeavisideKernel>(input, values);
  }
  static void vjp(Back&, const In&, const In&) { refuse_derivative(); }
  static void jvp(Push&, const Var&, const Var&) { refuse_derivative(); }
  [[noreturn]] static void refuse_derivative() {
    fail_as(PyExc_RuntimeError,
            "derivative for heaviside is not implemented: it is 0 wherever it "
            "exists. detach() the input if that is what you want");
  }
};
RL_OP(Heaviside)

struct NextafterKernel : Hidden<NextafterKernel, 2> {
  static constexpr auto name = "nextafter";
  static constexpr auto doc = "nextafter(a, b): the float next to a on the way to b.";
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A | Save::B, Save::None};
  template <class V> static V value(V a, V b) { return nextafter(a, b); }
  template <class V> static V partial0(V a, V b, V) { return where(a == b, V(0), V(1)); }
  template <class V> static V partial1(V, V, V) { return V(0); }
};
RL_POINTWISE(NextafterKernel)

// Halves are computed as floats, but have neighbours of their own: those of type H.
template <class H, class V>
V next_half(V a, V b) {
  if constexpr (std::is_same_v<V, Symbol>) {
    return call_symbol(std::is_same_v<H, BF16> ? "next_bfloat" : "next_half", {a, b});
  } else if constexpr (std::is_same_v<V, float>) {
    if (a == b || a != a || b != b) return a == b ? b : a + b;
    H half = a;
    if (a == 0) {
      half.bits = uint16_t(b > 0 ? 0x0001 : 0x8001);
    } else {
      half.bits = uint16_t((a < b) == (a > 0) ? half.bits + 1 : half.bits - 1);
    }
    return float(half);
  } else {
    return nextafter(a, b);
  }
}
#define RL_NEXT_HALF(Type, H, word)                                            \
  struct Type : NextafterKernel {                                              \
    static constexpr auto name = word;                                         \
    static constexpr auto grad_name = "NextafterBackward0";                    \
    static constexpr bool scalar = true;                                       \
    template <class V> static V value(V a, V b) { return next_half<H>(a, b); } \
  };                                                                           \
  RL_POINTWISE(Type)
RL_NEXT_HALF(NextBfloat, BF16, "next_bfloat")
RL_NEXT_HALF(NextHalf, F16, "next_half")
#undef RL_NEXT_HALF

struct Nextafter : Composite {
  static constexpr auto signature = "nextafter(Tensor input, Tensor other)";
  static constexpr auto doc = "nextafter(a, b): the float next to a on the way to b.";
  static constexpr bool inplace = true;
  static Var run(const Var& input, const Var& other, Tensor* into, bool inplace) {
    Promotion promotion;
    promotion.add(input.get());
    promotion.add(other.get());
    DType d = promotion.result();
    const Var in[] = {input, other};
    const Pointwise& kernel = d == DType::BF16  ? pointwise_info<NextBfloat>()
                              : d == DType::F16 ? pointwise_info<NextHalf>()
                                                : pointwise_info<NextafterKernel>();
    return run_pointwise(kernel, in, nullptr, into, inplace);
  }
  static Var forward(const Var& input, const Var& other) {
    return run(input, other, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& other) {
    run(input, other, into, inplace);
  }
};
RL_OP(Nextafter)

struct Ldexp : Binary<Ldexp> {
  static constexpr bool wide_numbers = true;
  static constexpr auto name = "ldexp";
  static constexpr auto signature = "ldexp(Tensor input, Tensor other)";
  static constexpr auto doc = "ldexp(x, n): x * 2**n.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::B, Save::Out};
  template <class V> static V value(V x, V n) { return x * pow(V(2), n); }
  template <class V> static V partial0(V, V n, V) { return pow(V(2), n); }
  template <class V> static V partial1(V, V, V y) { return y * V(M_LN2); }
};
RL_POINTWISE(Ldexp)

struct NanToNumKernel : Hidden<NanToNumKernel, 1> {
  static constexpr auto name = "nan_to_num";
  static constexpr auto signature =
      "nan_to_num(Tensor input, float nan, float posinf, float neginf)";
  static constexpr auto doc = "nan_to_num(x): x with NaN and infinities replaced.";
  static constexpr int params = 3;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V nan, V positive, V negative) {
    V infinite = where(x > V(0), positive, negative);
    return where(isnan(x), nan, where(isnan(x - x), infinite, x));
  }
  template <class V> static V partial(V x, V, V, V, V) { return where(isnan(x - x), V(0), V(1)); }
};
RL_POINTWISE(NanToNumKernel)

struct NanToNum : Composite {
  static constexpr auto signature =
      "nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None)";
  static constexpr auto doc =
      "nan_to_num(x, nan, posinf, neginf): NaN becomes 0 and infinities the largest finite "
      "numbers, unless others are given.";
  static constexpr bool inplace = true;
  using Number = std::optional<double>;

  static double largest(DType dtype) {
    switch (real_of(dtype)) {
      case DType::F16: return 65504;
      case DType::BF16: return 0x1.fep127;
      case DType::F32: return std::numeric_limits<float>::max();
      default: return std::numeric_limits<double>::max();
    }
  }
  static Var run(const Var& input, Number nan, Number posinf, Number neginf, Tensor* into,
                 bool inplace) {
    double most = largest(input.dtype());
    double params[] = {nan.value_or(0), posinf.value_or(most), neginf.value_or(-most)};
    return run_pointwise(pointwise_info<NanToNumKernel>(), &input, params, into, inplace);
  }
  static Var forward(const Var& input, Number nan, Number posinf, Number neginf) {
    if (is_integral(input.dtype())) return ops::clone(input);
    if (!is_complex(input.dtype())) return run(input, nan, posinf, neginf, nullptr, false);
    Var parts = run(ops::view_as_real(input), nan, posinf, neginf, nullptr, false);
    return ops::view_as_complex(parts);
  }
  static void into(Tensor* into, bool inplace, const Var& input, Number nan, Number posinf,
                   Number neginf) {
    if (!inplace) return write_out(into, forward(input, nan, posinf, neginf), "nan_to_num");
    if (is_integral(input.dtype())) return;
    bool pairs = is_complex(input.dtype());
    run(pairs ? ops::view_as_real(input) : input, nan, posinf, neginf,
        pairs ? ops::view_as_real(Var(into)).get() : into, true);
  }
};
RL_OP(NanToNum)

}  // namespace
}  // namespace rl
