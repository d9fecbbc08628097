// Special functions: the error function, the normal distribution, the gamma function and its relatives,
// sinc.
#include "call/op.h"
#include "kernels/cpu/special_lanes.h"
#include "ops/functions.h"
#include "ops/pointwise/special_code.h"

namespace rl {

namespace math {
namespace {

RL_INLINE double erfinv(double x) { return rl_erf_inverse(x); }
RL_INLINE float erfinv(float x) {
  float a = abs(x), y = special::erf_inverse(a, -log((1 - a) * (1 + a)));
  return copysign(where(a == 1, float(HUGE_VAL), y), x);
}
inline Var erfinv(const Var& x) { return call_pointwise("erfinv", {x}); }
inline Symbol erfinv(const Symbol& x) { return call_symbol("erfinv", {x}); }

RL_INLINE double lgamma(double x) { return rl_log_gamma(x); }
RL_INLINE float lgamma(float x) { return float(rl_log_gamma_rough(x)); }
inline Var lgamma(const Var& x) { return call_pointwise("lgamma", {x}); }
inline Symbol lgamma(const Symbol& x) { return call_symbol("lgamma", {x}); }

RL_FORM(digamma, "digamma")
RL_CODE(scaled_erfc, "erfcx")
RL_FORM_AS(normal_cdf, normal_cdf_rough, "normal_cdf", "ndtr")
RL_CODE(log_normal_cdf, "log_ndtr")
RL_CODE(normal_quantile, "ndtri")
RL_CODE_OF(scaled_erfc_integral, "scaled_erfc_integral")
RL_CODE_OF(polygamma, "polygamma")
RL_CODE2(zeta, "zeta")
RL_FORM2(gamma_above, "igammac", call_symbol("gamma_above", {x, y}))
RL_FORM2(gamma_below, "igamma", call_symbol("gamma_below", {x, y, Symbol(0.0)}))
RL_CODE2_OF(zeta_slope, "zeta_slope")
RL_CODE2_OF(gamma_below, "gamma_below")
RL_CODE2_OF(gamma_density, "gamma_density")

template <class V>
V squared(V x) {
  return x * x;
}

}  // namespace
}  // namespace math

std::string special_functions() {
  return special::bessel_text() + special::normal_text() + special::gamma_text();
}

using namespace math;

namespace {

#define RL_SPECIAL(Type, function, area, price, slope_called, reads, derivative, text) \
  struct Type : Unary<Type> {                                                          \
    static constexpr auto name = #function;                                            \
    static constexpr bool scalar_partials = slope_called;                              \
    static constexpr auto doc = #function "(x): " text;                                \
    static constexpr Result result = Result::Float;                                    \
    static constexpr auto domain = area;                                               \
    static constexpr double cost = price;                                              \
    static constexpr Save saves[] = {reads};                                           \
    template <class V> static V value(V x) { return function(x); }                     \
    template <class V> static V partial([[maybe_unused]] V x, [[maybe_unused]] V y) {  \
      return derivative;                                                               \
    }                                                                                  \
  };                                                                                   \
  RL_POINTWISE(Type)
// clang-format off
RL_SPECIAL(Erf, erf, "real", 6, false, Save::A, V(M_2_SQRTPI) * exp(-(x * x)),
           "the error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.")
RL_SPECIAL(Erfc, erfc, "real", 8, false, Save::A, V(-M_2_SQRTPI) * exp(-(x * x)),
           "1 - erf(x), accurate for large x.")
RL_SPECIAL(Erfinv, erfinv, "unit", 20, false; static constexpr bool full_on_cuda = true,
           Save::A, V(1 / M_2_SQRTPI) * exp(squared(erfinv(x))),
           "the inverse of erf.")
RL_SPECIAL(Lgamma, lgamma, "positive", 30, false, Save::A, digamma(x),
           "the logarithm of |gamma(x)|.")
RL_SPECIAL(Digamma, digamma, "positive", 40, true, Save::A, polygamma(x, V(1)),
           "the derivative of lgamma.")
// clang-format on
#undef RL_SPECIAL

struct PolygammaKernel : SpecialFamily<PolygammaKernel, 1> {
  static constexpr auto name = "polygamma";
  static constexpr auto doc = "polygamma(x, n): the derivative of digamma of order n.";
  static constexpr auto domain = "positive";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V n) { return polygamma(x, n); }
  template <class V> static V partial(V x, V n, V) { return polygamma(x, n + V(1)); }
};
RL_POINTWISE(PolygammaKernel)

struct PolygammaMethod : Composite {
  static constexpr auto signature = "polygamma(Tensor input, int n)";
  static constexpr auto doc = "polygamma(x, n): the derivative of digamma of order n.";
  static constexpr bool function = false;
  static constexpr bool inplace = true;
  static Var run(const Var& input, int64_t n, Tensor* into, bool inplace) {
    check(n >= 0, "polygamma(n, x) does not support negative n, got ", n);
    double order = double(n);
    return run_pointwise(pointwise_info<PolygammaKernel>(), &input, &order, into, inplace);
  }
  static Var forward(const Var& input, int64_t n) { return run(input, n, nullptr, false); }
  static void into(Tensor* into, bool inplace, const Var& input, int64_t n) {
    run(input, n, into, inplace);
  }
};
RL_OP(PolygammaMethod)

struct Polygamma : Composite {
  static constexpr auto signature = "polygamma(int n, Tensor input)";
  static constexpr auto doc = "polygamma(n, x): the derivative of digamma of order n.";
  static constexpr bool method = false;
  static Var forward(int64_t n, const Var& input) { return PolygammaMethod::forward(input, n); }
  static void into(Tensor* into, bool inplace, int64_t n, const Var& input) {
    PolygammaMethod::into(into, inplace, input, n);
  }
};
RL_OP(Polygamma)

struct Mvlgamma : General {
  static constexpr auto signature = "mvlgamma(Tensor input, int p)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "mvlgamma(x, p): the logarithm of the gamma function of p dimensions, a sum of lgamma.";
  static constexpr auto saves = "input";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t p) {
    if (is_complex(input.dtype()))
      fail_as(PyExc_NotImplementedError, "\"mvlgamma\" not implemented for '",
              info(input.dtype()).tensor_name, "': it is of real numbers");
    check(p >= 1, "mvlgamma: p has to be greater than or equal to 1, got ", p);
    Var x = is_floating(input.dtype()) ? input : ops::to(input, default_dtype());
    Var sum = lgamma(x);
    for (int64_t i = 1; i < p; i++) sum = sum + lgamma(x - Var(0.5 * double(i)));
    return p == 1 ? sum : sum + Var(0.25 * double(p) * double(p - 1) * std::log(M_PI));
  }
  // Summed before a gradient meets it: an infinite one has one product, and no NaN, at a pole.
  static Var slope(const Var& x, int64_t p) {
    Var sum = digamma(x);
    for (int64_t i = 1; i < p; i++) sum = sum + digamma(x - Var(0.5 * double(i)));
    return sum;
  }
  static void vjp(Back& b, const In& input, int64_t p) { b[0] = b.g() * slope(*input, p); }
  static void jvp(Push& p, const Var& input, int64_t order) {
    if (p.t(0)) p.add(p.t(0) * slope(input, order));
  }
};
RL_OP(Mvlgamma)

#define RL_NORMAL(Type, label, function, area, grad, reads, called, derivative, text) \
  struct Type : SpecialUnary<Type> {                                                  \
    static constexpr auto name = label;                                               \
    static constexpr auto grad_name = grad;                                           \
    static constexpr auto doc = label "(x): " text;                                   \
    static constexpr auto domain = area;                                              \
    static constexpr double cost = 20;                                                \
    static constexpr bool scalar = false, scalar_partials = called;                   \
    static constexpr Save saves[] = {reads};                                          \
    template <class V> static V value(V x) { return function(x); }                    \
    template <class V> static V partial([[maybe_unused]] V x, [[maybe_unused]] V y) { \
      return derivative;                                                              \
    }                                                                                 \
  };                                                                                  \
  RL_POINTWISE(Type)
// clang-format off
RL_NORMAL(Erfcx, "erfcx", scaled_erfc, "real", "SpecialErfcxBackward0", Save::A, true,
          V(-2) * scaled_erfc_integral(x, V(1)), "exp(x * x) * erfc(x), which does not underflow.")
RL_NORMAL(Ndtr, "ndtr", normal_cdf, "real", "SpecialNdtrBackward0", Save::A, false,
          V(0.39894228040143268) * exp(V(-0.5) * (x * x)),
          "the distribution function of the normal distribution.")
RL_NORMAL(LogNdtr, "log_ndtr", log_normal_cdf, "real", "SpecialLogNdtrBackward0", Save::A, false,
          V(0.79788456080286541) / scaled_erfc(V(-M_SQRT1_2) * x),
          "the logarithm of ndtr(x), also where that underflows.")
RL_NORMAL(Ndtri, "ndtri", normal_quantile, "probability", "SpecialNdtriBackward0", Save::Out, false,
          V(2.5066282746310002) * exp(V(0.5) * (y * y)),
          "the inverse of ndtr.")
// clang-format on
#undef RL_NORMAL

struct ScaledErfcIntegral : SpecialFamily<ScaledErfcIntegral, 1> {
  static constexpr auto name = "scaled_erfc_integral";
  static constexpr auto doc =
      "scaled_erfc_integral(x, n): exp(x * x) times the n-th repeated integral of erfc.";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V n) { return scaled_erfc_integral(x, n); }
  template <class V> static V partial(V x, V n, V) {
    return V(-2) * (n + V(1)) * scaled_erfc_integral(x, n + V(1));
  }
};
RL_POINTWISE(ScaledErfcIntegral)

struct Entr : Unary<Entr> {
  static constexpr auto name = "entr";
  static constexpr auto grad_name = "SpecialEntrBackward0";
  static constexpr auto doc = "entr(x): -x * log(x), 0 at 0 and -inf below.";
  static constexpr auto module = "special";
  static constexpr Result result = Result::Float;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr auto domain = "positive";
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) {
    return where(x < V(0), V(-HUGE_VAL), where(x == V(0), V(0), -x * log(x)));
  }
  template <class V> static V partial(V x, V) { return -log(x) - V(1); }
};
RL_POINTWISE(Entr)

struct Xlog1py : Binary<Xlog1py> {
  static constexpr auto name = "xlog1py";
  static constexpr auto grad_name = "SpecialXlog1PyBackward0";
  static constexpr auto doc = "xlog1py(x, y): x * log1p(y), and 0 where x is 0.";
  static constexpr auto module = "special";
  static constexpr Result result = Result::Float;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr auto domain = "positive";
  static constexpr double cost = 5;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V y) {
    return where(both(x == V(0), !isnan(y)), V(0), x * log1p(y));
  }
  template <class V> static V partial0(V x, V y, V) {
    return log1p(where(both(x == V(0), y <= V(-1)), V(0), y));
  }
  template <class V> static V partial1(V x, V y, V) { return x / (y + V(1)); }
};
RL_POINTWISE(Xlog1py)

struct Zeta : SpecialBinary<Zeta> {
  static constexpr auto name = "zeta";
  static constexpr auto grad_name = "SpecialZetaBackward0";
  static constexpr auto doc =
      "zeta(s, q): Hurwitz's zeta function, the sum of (q + k)^-s over k = 0, 1, ... for s > 1.";
  static constexpr auto domain = "above_one";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V s, V q) { return zeta(s, q); }
  template <class V> static V partial0(V s, V q, V) { return zeta_slope(s, q, V(1)); }
  template <class V> static V partial1(V s, V q, V) { return -s * zeta(s + V(1), q); }
};
RL_POINTWISE(Zeta)

struct ZetaSlope : SpecialFamily<ZetaSlope, 2> {
  static constexpr auto name = "zeta_slope";
  static constexpr auto doc = "zeta_slope(s, q, n): the n-th derivative of zeta(s, q) in s.";
  static constexpr double cost = 500;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V s, V q, V n) { return zeta_slope(s, q, n); }
  template <class V> static V partial0(V s, V q, V n, V) { return zeta_slope(s, q, n + V(1)); }
  template <class V> static V partial1(V s, V q, V n, V) {
    return -n * zeta_slope(s + V(1), q, n - V(1)) - s * zeta_slope(s + V(1), q, n);
  }
};
RL_POINTWISE(ZetaSlope)

struct Igamma : SpecialBinary<Igamma> {
  static constexpr bool scalar = false, scalar_partials = true;
  static constexpr auto name = "igamma";
  static constexpr auto signature = "igamma(Tensor input, Tensor other)";
  static constexpr auto doc =
      "igamma(a, x): the lower incomplete gamma function, from 0 to x, divided by gamma(a).";
  static constexpr auto module = "";
  static constexpr bool method = true;
  static constexpr bool inplace = true;
  static constexpr Result result = Result::Same;
  static constexpr auto domain = "positive";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V x) { return gamma_below(a, x); }
  template <class V> static V partial0(V a, V x, V) { return gamma_below(a, x, V(1)); }
  template <class V> static V partial1(V a, V x, V) { return gamma_density(a, x, V(0)); }
};
RL_POINTWISE(Igamma)

struct Igammac : SpecialBinary<Igammac> {
  static constexpr bool scalar = false, scalar_partials = true;
  static constexpr auto name = "igammac";
  static constexpr auto signature = "igammac(Tensor input, Tensor other)";
  static constexpr auto doc = "igammac(a, x): 1 - igamma(a, x), accurate where that is small.";
  static constexpr auto module = "";
  static constexpr bool method = true;
  static constexpr bool inplace = true;
  static constexpr Result result = Result::Same;
  static constexpr auto domain = "positive";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V x) { return gamma_above(a, x); }
  template <class V> static V partial0(V a, V x, V) { return -gamma_below(a, x, V(1)); }
  template <class V> static V partial1(V a, V x, V) { return -gamma_density(a, x, V(0)); }
};
RL_POINTWISE(Igammac)

struct GammaBelow : SpecialFamily<GammaBelow, 2> {
  static constexpr auto name = "gamma_below";
  static constexpr auto doc = "gamma_below(a, x, n): the n-th derivative of igamma(a, x) in a.";
  static constexpr double cost = 500;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V x, V n) { return gamma_below(a, x, n); }
  template <class V> static V partial0(V a, V x, V n, V) { return gamma_below(a, x, n + V(1)); }
  template <class V> static V partial1(V a, V x, V n, V) { return gamma_density(a, x, n); }
};
RL_POINTWISE(GammaBelow)

struct GammaDensity : SpecialFamily<GammaDensity, 2> {
  static constexpr auto name = "gamma_density";
  static constexpr auto doc =
      "gamma_density(a, x, n): the n-th derivative in a of x^(a - 1) * exp(-x) / gamma(a).";
  static constexpr double cost = 300;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V x, V n) { return gamma_density(a, x, n); }
  template <class V> static V partial0(V a, V x, V n, V) { return gamma_density(a, x, n + V(1)); }
  template <class V> static V partial1(V a, V x, V n, V) {
    return ((a - V(1)) / x - V(1)) * gamma_density(a, x, n) + n / x * gamma_density(a, x, n - V(1));
  }
};
RL_POINTWISE(GammaDensity)

struct Sinc : Unary<Sinc> {
  static constexpr auto name = "sinc";
  static constexpr auto doc = "sinc(x): sin(pi * x) / (pi * x), 1 at 0.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) {
    V z = x * V(M_PI);
    return where(z == V(0), V(1), sin(z) / z);
  }
  // The quotient loses its digits near 0, where a series takes its place.
  template <class V> static V partial(V x, V) {
    V z = x * V(M_PI), w = z * z;
    V series = V(1. / 518918400);
    for (double c : {-1. / 3991680, 1. / 45360, -1. / 840, 1. / 30, -1. / 3})
      series = series * w + V(c);
    auto near = abs(z) < 0.5;
    V far = where(near, V(1), z);
    return V(M_PI) * where(near, z * series, (far * cos(far) - sin(far)) / (far * far));
  }
};
RL_POINTWISE(Sinc)

}  // namespace
}  // namespace rl
