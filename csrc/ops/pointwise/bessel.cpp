// Bessel functions and Airy's function. Derivatives by the recurrences of neighbouring orders, which
// hold at 0 too.
#include "kernels/cpu/special_lanes.h"
#include "ops/pointwise/special_code.h"

namespace rl {

namespace math {
namespace {

RL_CODE_OF(bessel_j, "bessel_j")
RL_CODE_OF(modified_bessel_i, "modified_bessel_i")
RL_CODE_OF(scaled_bessel_i, "scaled_bessel_i")

// Of the orders 0 and 1, a name for each: those with vector forms, and those whose single precision
// is computed as such.
#define RL_ORDER(name, number, code, order, op)                     \
  RL_INLINE double name(double x) { return number; }                \
  RL_INLINE float name(float x) { return float(name(double(x))); }  \
  inline Var name(const Var& x) { return call_pointwise(op, {x}); } \
  inline Symbol name(const Symbol& x) { return call_symbol(#code, {x, Symbol(order)}); }
#define RL_KIND(name, form, code, order, op) RL_ORDER(name, rl_##form(x), code, order, op)
#define RL_QUICK(name, code, order, scaled, op)                                   \
  inline double name(double x) { return special::code(x, order); }                \
  RL_INLINE float name(float x) { return special::bessel_i01<order, scaled>(x); } \
  inline Var name(const Var& x) { return call_pointwise(op, {x}); }               \
  inline Symbol name(const Symbol& x) { return call_symbol(#code, {x, Symbol(order)}); }
RL_FORM_AS(bessel_j0, bessel_j0, "j0", "bessel_j0")
RL_FORM_AS(bessel_j1, bessel_j1, "j1", "bessel_j1")
RL_FORM_AS(bessel_y0, bessel_y0, "y0", "bessel_y0")
RL_FORM_AS(bessel_y1, bessel_y1, "y1", "bessel_y1")
RL_QUICK(i0, modified_bessel_i, 0, false, "i0")
RL_QUICK(i1, modified_bessel_i, 1, false, "i1")
RL_QUICK(i0e, scaled_bessel_i, 0, true, "i0e")
RL_QUICK(i1e, scaled_bessel_i, 1, true, "i1e")
RL_KIND(k0, modified_k0, modified_bessel_k, 0, "modified_bessel_k0")
RL_KIND(k1, modified_k1, modified_bessel_k, 1, "modified_bessel_k1")
RL_KIND(k0e, scaled_k0, scaled_bessel_k, 0, "scaled_modified_bessel_k0")
RL_KIND(k1e, scaled_k1, scaled_bessel_k, 1, "scaled_modified_bessel_k1")
RL_KIND(airy_ai, airy_ai, airy, 0, "airy_ai")
RL_ORDER(airy_slope, special::airy(x, 1), airy, 1, "airy_slope")
#undef RL_KIND
#undef RL_ORDER
#undef RL_QUICK

}  // namespace
}  // namespace math

using namespace math;

namespace {

#define RL_BESSEL(Type, label, function, area, price, slope_called, derivative, text) \
  struct Type : SpecialUnary<Type> {                                                  \
    static constexpr bool scalar = false, scalar_partials = slope_called;             \
    static constexpr auto name = label;                                               \
    static constexpr auto doc = label "(x): " text;                                   \
    static constexpr auto domain = area;                                              \
    static constexpr double cost = price;                                             \
    static constexpr Save saves[] = {Save::A};                                        \
    template <class V> static V value(V x) { return function(x); }                    \
    template <class V> static V partial(V x, V) { return derivative; }                \
  };                                                                                  \
  RL_POINTWISE(Type)
// clang-format off
RL_BESSEL(BesselJ0, "bessel_j0", bessel_j0, "real", 60, false, -bessel_j1(x),
          "the Bessel function of the first kind of order 0.")
RL_BESSEL(BesselJ1, "bessel_j1", bessel_j1, "real", 60, true,
          V(0.5) * (bessel_j0(x) - bessel_j(x, V(2))),
          "the Bessel function of the first kind of order 1.")
RL_BESSEL(BesselY0, "bessel_y0", bessel_y0, "positive", 80, false, -bessel_y1(x),
          "the Bessel function of the second kind of order 0; NaN below 0.")
RL_BESSEL(BesselY1, "bessel_y1", bessel_y1, "positive", 80, false,
          bessel_y0(x) - bessel_y1(x) / x,
          "the Bessel function of the second kind of order 1; NaN below 0.")
RL_BESSEL(ModifiedBesselK0, "modified_bessel_k0", k0, "positive", 60, true, -k1(x),
          "the modified Bessel function of the second kind of order 0; NaN below 0.")
RL_BESSEL(ModifiedBesselK1, "modified_bessel_k1", k1, "positive", 60, true,
          -k0(x) - k1(x) / x,
          "the modified Bessel function of the second kind of order 1; NaN below 0.")
RL_BESSEL(ScaledModifiedBesselK0, "scaled_modified_bessel_k0", k0e, "positive", 60, true,
          k0e(x) - k1e(x), "exp(x) * modified_bessel_k0(x), which does not underflow.")
RL_BESSEL(ScaledModifiedBesselK1, "scaled_modified_bessel_k1", k1e, "positive", 60, true,
          k1e(x) - k0e(x) - k1e(x) / x, "exp(x) * modified_bessel_k1(x), which does not underflow.")
RL_BESSEL(AiryAi, "airy_ai", airy_ai, "real", 80, true, airy_slope(x),
          "Airy's function Ai, the solution of y'' = x * y that vanishes at infinity.")
// clang-format on
#undef RL_BESSEL

struct AirySlope : Hidden<AirySlope, 1> {
  static constexpr auto name = "airy_slope";
  static constexpr auto doc = "airy_slope(x): the derivative of airy_ai.";
  static constexpr Result result = Result::Float;
  static constexpr bool scalar = true;
  static constexpr double cost = 80;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return airy_slope(x); }
  template <class V> static V partial(V x, V) { return x * airy_ai(x); }
};
RL_POINTWISE(AirySlope)

struct I0 : SpecialUnary<I0> {
  static constexpr bool scalar_doubles = true;
  static constexpr auto name = "i0";
  static constexpr auto doc = "i0(x): the modified Bessel function of the first kind of order 0.";
  static constexpr auto module = "";
  static constexpr bool method = true;
  static constexpr bool inplace = true;
  static constexpr bool scalar = false;
  static constexpr double cost = 40;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return i0(x); }
  template <class V> static V partial(V x, V) { return i1(x); }
};
RL_POINTWISE(I0)

struct I1 : SpecialUnary<I1> {
  static constexpr bool scalar_doubles = true, scalar_partials = true;
  static constexpr auto name = "i1";
  static constexpr auto grad_name = "SpecialI1Backward0";
  static constexpr auto doc = "i1(x): the modified Bessel function of the first kind of order 1.";
  static constexpr bool scalar = false;
  static constexpr double cost = 40;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return i1(x); }
  template <class V> static V partial(V x, V) {
    return V(0.5) * (i0(x) + modified_bessel_i(x, V(2)));
  }
};
RL_POINTWISE(I1)

struct I0e : SpecialUnary<I0e> {
  static constexpr bool scalar_doubles = true;
  static constexpr auto name = "i0e";
  static constexpr auto grad_name = "SpecialI0EBackward0";
  static constexpr auto doc = "i0e(x): exp(-|x|) * i0(x), which does not overflow.";
  static constexpr bool scalar = false;
  static constexpr double cost = 40;
  static constexpr Save saves[] = {Save::A | Save::Out};
  template <class V> static V value(V x) { return i0e(x); }
  template <class V> static V partial(V x, V y) { return i1e(x) - sign(x) * y; }
};
RL_POINTWISE(I0e)

struct I1e : SpecialUnary<I1e> {
  static constexpr bool scalar_doubles = true, scalar_partials = true;
  static constexpr auto name = "i1e";
  static constexpr auto grad_name = "SpecialI1EBackward0";
  static constexpr auto doc = "i1e(x): exp(-|x|) * i1(x), which does not overflow.";
  static constexpr bool scalar = false;
  static constexpr double cost = 40;
  static constexpr Save saves[] = {Save::A | Save::Out};
  template <class V> static V value(V x) { return i1e(x); }
  template <class V> static V partial(V x, V y) {
    return V(0.5) * (i0e(x) + scaled_bessel_i(x, V(2))) - sign(x) * y;
  }
};
RL_POINTWISE(I1e)

struct BesselJ : SpecialFamily<BesselJ, 1> {
  static constexpr auto name = "bessel_j";
  static constexpr auto doc = "bessel_j(x, n): the Bessel function of the first kind of order n.";
  static constexpr double cost = 200;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V n) { return bessel_j(x, n); }
  template <class V> static V partial(V x, V n, V) {
    return V(0.5) * (bessel_j(x, n - V(1)) - bessel_j(x, n + V(1)));
  }
};
RL_POINTWISE(BesselJ)

struct ModifiedBesselI : SpecialFamily<ModifiedBesselI, 1> {
  static constexpr auto name = "modified_bessel_i";
  static constexpr auto doc = "modified_bessel_i(x, n): that of the first kind of order n.";
  static constexpr double cost = 100;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V n) { return modified_bessel_i(x, n); }
  template <class V> static V partial(V x, V n, V) {
    return V(0.5) * (modified_bessel_i(x, n - V(1)) + modified_bessel_i(x, n + V(1)));
  }
};
RL_POINTWISE(ModifiedBesselI)

struct ScaledBesselI : SpecialFamily<ScaledBesselI, 1> {
  static constexpr auto name = "scaled_bessel_i";
  static constexpr auto doc = "scaled_bessel_i(x, n): exp(-|x|) * modified_bessel_i(x, n).";
  static constexpr double cost = 100;
  static constexpr Save saves[] = {Save::A | Save::Out};
  template <class V> static V value(V x, V n) { return scaled_bessel_i(x, n); }
  template <class V> static V partial(V x, V n, V y) {
    return V(0.5) * (scaled_bessel_i(x, n - V(1)) + scaled_bessel_i(x, n + V(1))) - sign(x) * y;
  }
};
RL_POINTWISE(ScaledBesselI)

struct SphericalBesselJ0 : Unary<SphericalBesselJ0> {
  static constexpr auto name = "spherical_bessel_j0";
  static constexpr auto doc = "spherical_bessel_j0(x): sin(x) / x, 1 at 0.";
  static constexpr auto module = "special";
  static constexpr Result result = Result::Float;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) {
    V far = where(abs(x) < V(1e30), sin(x), V(0)) / x;
    return where(x == V(0), V(1), where(isnan(x), x, far));
  }
  // The quotient loses its digits near 0, where a series takes its place.
  template <class V> static V partial(V x, V) {
    V w = x * x, series = V(1. / 518918400);
    for (double c : {-1. / 3991680, 1. / 45360, -1. / 840, 1. / 30, -1. / 3})
      series = series * w + V(c);
    auto near = abs(x) < V(0.5);
    V far = where(near, V(1), x);
    return where(near, x * series, (far * cos(far) - sin(far)) / (far * far));
  }
};
RL_POINTWISE(SphericalBesselJ0)

}  // namespace
}  // namespace rl
