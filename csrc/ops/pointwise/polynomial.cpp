// Orthogonal polynomials of x, of a degree n that is a tensor too. The degree is rounded towards 0 and
// has no derivative.
#include "ops/pointwise/special_code.h"

namespace rl {

namespace math {
namespace {

RL_CODE2_OF(gegenbauer, "gegenbauer")
RL_CODE2_OF(laguerre, "laguerre")

// Those with a name: a code with a fixed parameter.
#define RL_NAMED(name, code, parameter, op)                                          \
  inline double name(double x, double n) { return special::code(x, n, parameter); }  \
  inline float name(float x, float n) { return float(name(double(x), double(n))); }  \
  inline Var name(const Var& x, const Var& n) { return call_pointwise(op, {x, n}); } \
  inline Symbol name(const Symbol& x, const Symbol& n) {                             \
    return call_symbol(#code, {x, n, Symbol(parameter)});                            \
  }
RL_NAMED(chebyshev_t, chebyshev, 1, "chebyshev_polynomial_t")
RL_NAMED(chebyshev_u, chebyshev, 2, "chebyshev_polynomial_u")
RL_NAMED(chebyshev_v, chebyshev, 3, "chebyshev_polynomial_v")
RL_NAMED(chebyshev_w, chebyshev, 4, "chebyshev_polynomial_w")
RL_NAMED(hermite_h, hermite, 2, "hermite_polynomial_h")
RL_NAMED(hermite_he, hermite, 1, "hermite_polynomial_he")
RL_NAMED(laguerre_l, laguerre, 0, "laguerre_polynomial_l")
RL_NAMED(legendre_p, gegenbauer, 0.5, "legendre_polynomial_p")
#undef RL_NAMED

RL_INLINE float truncate(float n) { return trunc(n); }
RL_INLINE double truncate(double n) { return trunc(n); }
inline Var truncate(const Var& n) { return call_pointwise("trunc", {n}); }
inline Symbol truncate(const Symbol& n) { return call_symbol("trunc", {n}); }

template <class V>
V t_slope(V x, V n) {
  return truncate(n) * chebyshev_u(x, n - V(1));
}
template <class V>
V u_slope(V x, V n) {
  return V(2) * gegenbauer(x, n - V(1), V(2));
}
template <class V>
V v_slope(V x, V n) {
  return V(2) * (gegenbauer(x, n - V(1), V(2)) - gegenbauer(x, n - V(2), V(2)));
}
template <class V>
V w_slope(V x, V n) {
  return V(2) * (gegenbauer(x, n - V(1), V(2)) + gegenbauer(x, n - V(2), V(2)));
}
template <class V>
V shifted(V x) {
  return x + x - V(1);
}

}  // namespace
}  // namespace math

using namespace math;

namespace {

#define RL_POLYNOMIAL(Type, label, formula, derivative, text)                         \
  struct Type : SpecialBinary<Type> {                                                 \
    static constexpr auto name = label;                                               \
    static constexpr auto signature = label "(Tensor|Number input, Tensor|Number n)"; \
    static constexpr auto doc = label "(x, n): " text;                                \
    static constexpr double cost = 30;                                                \
    static constexpr Save saves[] = {Save::A | Save::B, Save::None};                  \
    template <class V> static V value(V x, V n) { return formula; }                   \
    template <class V> static V partial0(V x, V n, V) { return derivative; }          \
    template <class V> static V partial1(V, V, V) { return V(0); }                    \
  };                                                                                  \
  RL_POINTWISE(Type)
// clang-format off
RL_POLYNOMIAL(ChebyshevT, "chebyshev_polynomial_t", chebyshev_t(x, n), t_slope(x, n),
              "Chebyshev's polynomial of the first kind of degree n, cos(n * acos(x)).")
RL_POLYNOMIAL(ChebyshevU, "chebyshev_polynomial_u", chebyshev_u(x, n), u_slope(x, n),
              "Chebyshev's polynomial of the second kind of degree n.")
RL_POLYNOMIAL(ChebyshevV, "chebyshev_polynomial_v", chebyshev_v(x, n), v_slope(x, n),
              "Chebyshev's polynomial of the third kind of degree n.")
RL_POLYNOMIAL(ChebyshevW, "chebyshev_polynomial_w", chebyshev_w(x, n), w_slope(x, n),
              "Chebyshev's polynomial of the fourth kind of degree n.")
RL_POLYNOMIAL(ShiftedT, "shifted_chebyshev_polynomial_t", chebyshev_t(shifted(x), n),
              V(2) * t_slope(shifted(x), n),
              "Chebyshev's polynomial of the first kind of degree n at 2 * x - 1.")
RL_POLYNOMIAL(ShiftedU, "shifted_chebyshev_polynomial_u", chebyshev_u(shifted(x), n),
              V(2) * u_slope(shifted(x), n),
              "Chebyshev's polynomial of the second kind of degree n at 2 * x - 1.")
RL_POLYNOMIAL(ShiftedV, "shifted_chebyshev_polynomial_v", chebyshev_v(shifted(x), n),
              V(2) * v_slope(shifted(x), n),
              "Chebyshev's polynomial of the third kind of degree n at 2 * x - 1.")
RL_POLYNOMIAL(ShiftedW, "shifted_chebyshev_polynomial_w", chebyshev_w(shifted(x), n),
              V(2) * w_slope(shifted(x), n),
              "Chebyshev's polynomial of the fourth kind of degree n at 2 * x - 1.")
RL_POLYNOMIAL(HermiteH, "hermite_polynomial_h", hermite_h(x, n),
              V(2) * truncate(n) * hermite_h(x, n - V(1)),
              "Hermite's polynomial of degree n for the weight exp(-x * x).")
RL_POLYNOMIAL(HermiteHe, "hermite_polynomial_he", hermite_he(x, n),
              truncate(n) * hermite_he(x, n - V(1)),
              "Hermite's polynomial of degree n for the weight exp(-x * x / 2).")
RL_POLYNOMIAL(LaguerreL, "laguerre_polynomial_l", laguerre_l(x, n),
              -laguerre(x, n - V(1), V(1)), "Laguerre's polynomial of degree n.")
RL_POLYNOMIAL(LegendreP, "legendre_polynomial_p", legendre_p(x, n),
              gegenbauer(x, n - V(1), V(1.5)), "Legendre's polynomial of degree n.")
// clang-format on
#undef RL_POLYNOMIAL

struct Gegenbauer : SpecialFamily<Gegenbauer, 2> {
  static constexpr auto name = "gegenbauer";
  static constexpr auto doc = "gegenbauer(x, n, a): Gegenbauer's polynomial of degree n.";
  static constexpr double cost = 30;
  static constexpr Save saves[] = {Save::A | Save::B, Save::None};
  template <class V> static V value(V x, V n, V a) { return gegenbauer(x, n, a); }
  template <class V> static V partial0(V x, V n, V a, V) {
    return V(2) * a * gegenbauer(x, n - V(1), a + V(1));
  }
  template <class V> static V partial1(V, V, V, V) { return V(0); }
};
RL_POINTWISE(Gegenbauer)

struct Laguerre : SpecialFamily<Laguerre, 2> {
  static constexpr auto name = "laguerre";
  static constexpr auto doc = "laguerre(x, n, a): Laguerre's associated polynomial of degree n.";
  static constexpr double cost = 30;
  static constexpr Save saves[] = {Save::A | Save::B, Save::None};
  template <class V> static V value(V x, V n, V a) { return laguerre(x, n, a); }
  template <class V> static V partial0(V x, V n, V a, V) {
    return -laguerre(x, n - V(1), a + V(1));
  }
  template <class V> static V partial1(V, V, V, V) { return V(0); }
};
RL_POINTWISE(Laguerre)

}  // namespace
}  // namespace rl
