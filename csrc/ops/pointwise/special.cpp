// Special functions: the error function, the gamma function and its derivatives, sinc.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

namespace math {
namespace {

// A rational start (Giles, "Approximating the erfinv function"), then two of Halley's steps.
RL_INLINE double erfinv(double x) {
  double a = abs(x), w = -log((1 - a) * (1 + a));
  double s = w - 2.5, t = sqrt(w) - 3;
  double near = 2.81022636e-08, far = -0.000200214257;
  for (double c : {3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                   -0.00417768164, 0.246640727, 1.50140941})
    near = near * s + c;
  for (double c : {0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                   0.00943887047, 1.00167406, 2.83297682})
    far = far * t + c;
  // erfc(y) is about exp(-y * y) / (y * sqrt(pi)).
  double tail = sqrt(w + M_LN2 - 0.5 * log(M_PI * w));
  double y = where(w < 5, near * a, where(w < 16, far * a, tail));
  for (int step = 0; step < 2; step++) {
    double residual = where(a < 0.5, erf(y) - a, (1 - a) - erfc(y));
    double u = residual * exp(y * y) * (1 / M_2_SQRTPI);
    y = y - u / (1 + u * y);
  }
  return copysign(where(a == 1, HUGE_VAL, y), x);
}
RL_INLINE float erfinv(float x) { return float(erfinv(double(x))); }
inline Var erfinv(const Var& x) { return call_pointwise("erfinv", {x}); }
inline Symbol erfinv(const Symbol& x) { return call_symbol("erfinv", {x}); }

// Code that formulas call, kept as text too: device compilers read what is compiled here.
#define RL_DEVICE inline
#define RL_SHARED(text_name, ...) \
  __VA_ARGS__                     \
  constexpr const char* text_name = #__VA_ARGS__;

// Recurrence up to 10, then the asymptotic series.
RL_SHARED(
    kDigamma, RL_DEVICE double digamma(double x) {
      if (x == 0) return copysign(double(INFINITY), -x);
      double result = 0;
      if (x < 0) {
        double whole, fraction = modf(x, &whole);
        if (fraction == 0) return NAN;
        result = -M_PI / tan(M_PI * fraction);
        x = 1 - x;
      }
      for (; x < 10; x += 1) result -= 1 / x;
      const double terms[] = {1. / 12,  -691. / 32760, 1. / 132, -1. / 240,
                              1. / 252, -1. / 120,     1. / 12};
      double z = 1 / (x * x), series = 0;
      for (int i = 0; i < 7; i++) series = (series + terms[i]) * z;
      return result + log(x) - 0.5 / x - series;
    })
inline float digamma(float x) { return float(digamma(double(x))); }
inline Var digamma(const Var& x) { return call_pointwise("digamma", {x}); }
inline Symbol digamma(const Symbol& x) { return call_symbol("digamma", {x}); }

// Hurwitz's zeta for integers s > 1: the sum of (q + k)^-s over k = 0, 1, ... Below zero by reflection;
// then Euler and Maclaurin, whose coefficients are B(2j) / (2j)!.
RL_SHARED(
    kZeta,
    RL_DEVICE double zeta_above(double s, double q) {
      if (q == INFINITY) return 0;
      double sum = 0;
      for (; q < s + 10; q += 1) {
        double term = pow(q, -s);
        sum += term;
        if (term <= sum * 1e-18) return sum;
      }
      const double terms[] = {1. / 12,         -1. / 720,     1. / 30240,
                              -1. / 1209600,   1. / 47900160, -691. / 1307674368000,
                              1. / 74724249600};
      double power = pow(q, -s), rise = s * power / q;
      sum += power * (q / (s - 1) + 0.5);
      for (int j = 0; j < 7; j++) {
        sum += terms[j] * rise;
        rise *= (s + 2 * j + 1) * (s + 2 * j + 2) / (q * q);
      }
      return sum;
    } RL_DEVICE double zeta(double s, double q) {
      if (q > 0) return zeta_above(s, q);
      double fraction = q - floor(q), sign = fmod(s, 2.0) == 0 ? 1 : -1;
      if (fraction == 0) return INFINITY;
      return zeta_above(s, fraction) + sign * (zeta_above(s, 1 - fraction) - zeta_above(s, 1 - q));
    })

// The derivative of digamma of order n.
RL_SHARED(
    kPolygamma, RL_DEVICE double polygamma(double x, double n) {
      if (n == 0) return digamma(x);
      double magnitude = exp(lgamma(n + 1) + log(zeta(n + 1, x)));
      if (n <= 170) magnitude = tgamma(n + 1) * zeta(n + 1, x);
      return fmod(n, 2.0) == 1 ? magnitude : -magnitude;
    })
inline float polygamma(float x, float n) { return float(polygamma(double(x), double(n))); }
Var polygamma(const Var& x, const Var& n) {
  double order = *n->host<double>();
  return run_pointwise(find_pointwise("polygamma"), &x, &order);
}
inline Symbol polygamma(const Symbol& x, const Symbol& n) {
  return call_symbol("polygamma_of", {n, x});
}

template <class V>
V squared(V x) {
  return x * x;
}

}  // namespace
}  // namespace math

const char* gamma_functions() {
  static const std::string text =
      std::string(math::kDigamma) + "\n" + math::kZeta + "\n" + math::kPolygamma + "\n";
  return text.c_str();
}

using namespace math;

namespace {

#define RL_SPECIAL(Type, function, area, price, reads, derivative, text)              \
  struct Type : Unary<Type> {                                                         \
    static constexpr auto name = #function;                                           \
    static constexpr auto doc = #function "(x): " text;                               \
    static constexpr Result result = Result::Float;                                   \
    static constexpr auto domain = area;                                              \
    static constexpr double cost = price;                                             \
    static constexpr Save saves[] = {reads};                                          \
    template <class V> static V value(V x) { return function(x); }                    \
    template <class V> static V partial([[maybe_unused]] V x, [[maybe_unused]] V y) { \
      return derivative;                                                              \
    }                                                                                 \
  };                                                                                  \
  RL_POINTWISE(Type)
// clang-format off
RL_SPECIAL(Erf, erf, "real", 6, Save::A, V(M_2_SQRTPI) * exp(-(x * x)),
           "the error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.")
RL_SPECIAL(Erfc, erfc, "real", 8, Save::A, V(-M_2_SQRTPI) * exp(-(x * x)),
           "1 - erf(x), accurate for large x.")
RL_SPECIAL(Erfinv, erfinv, "unit", 60, Save::A, V(1 / M_2_SQRTPI) * exp(squared(erfinv(x))),
           "the inverse of erf.")
RL_SPECIAL(Lgamma, lgamma, "positive", 30, Save::A, digamma(x),
           "the logarithm of |gamma(x)|.")
RL_SPECIAL(Digamma, digamma, "positive", 40, Save::A, polygamma(x, V(1)),
           "the derivative of lgamma.")
// clang-format on
#undef RL_SPECIAL

struct PolygammaKernel : Hidden<PolygammaKernel, 1> {
  static constexpr auto name = "polygamma";
  static constexpr auto doc = "polygamma(x, n): the derivative of digamma of order n.";
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "positive";
  static constexpr int params = 1;
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
