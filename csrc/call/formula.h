// The language of pointwise formulas. One text, `template <class V> V value(V x)`, is read with
// V = float, double, complex or an integer (a lane of a kernel), V = Var (a differentiable
// expression) and V = Symbol (an expression graph, for device code).
#pragma once

#include <algorithm>
#include <complex>
#include <string>
#include <type_traits>

#include "call/symbol.h"
#include "kernels/cpu/elementary.h"
#include "tensor/tensor.h"

namespace rl {

namespace math {

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;
template <class T>
concept Lane = std::is_arithmetic_v<T> || is_complex_v<T>;

template <class T>
struct real_type {
  using type = T;
};
template <class T>
struct real_type<std::complex<T>> {
  using type = T;
};

Var call_pointwise(const char* name, std::initializer_list<Var> arguments);

// Elementary functions: a lane calls libm (vectorised through libmvec) or code of ours, a complex
// one is found in std by its argument, the others defer.
#define RL_FUNCTION(name)                                \
  RL_INLINE float name(float x) { return ::name##f(x); } \
  RL_WIDER_FUNCTION(name)
#define RL_WIDER_FUNCTION(name)                                        \
  RL_INLINE double name(double x) { return ::name(x); }                \
  inline Var name(const Var& x) { return call_pointwise(#name, {x}); } \
  inline Symbol name(const Symbol& x) { return call_symbol(#name, {x}); }
RL_INLINE float exp(float x) { return cpu::exp_of(x); }
RL_WIDER_FUNCTION(exp)
RL_INLINE float erf(float x) { return cpu::erf_of(x); }
RL_WIDER_FUNCTION(erf)
RL_FUNCTION(log)
RL_FUNCTION(log10)
RL_FUNCTION(sqrt)
RL_FUNCTION(sin)
RL_FUNCTION(cos)
RL_FUNCTION(tan)
RL_FUNCTION(asin)
RL_FUNCTION(acos)
RL_FUNCTION(atan)
RL_FUNCTION(sinh)
RL_FUNCTION(cosh)
RL_FUNCTION(tanh)
RL_FUNCTION(asinh)
RL_FUNCTION(acosh)
RL_FUNCTION(atanh)
RL_FUNCTION(exp2)
RL_FUNCTION(expm1)
RL_FUNCTION(log2)
RL_FUNCTION(log1p)
RL_FUNCTION(erfc)
RL_FUNCTION(floor)
RL_FUNCTION(ceil)
RL_FUNCTION(trunc)
#undef RL_FUNCTION
#undef RL_WIDER_FUNCTION

// Half to even, as the machine rounds.
RL_INLINE float round(float x) { return ::rintf(x); }
RL_INLINE double round(double x) { return ::rint(x); }
inline Var round(const Var& x) { return call_pointwise("round", {x}); }
inline Symbol round(const Symbol& x) { return call_symbol("rint", {x}); }

template <Lane T>
RL_INLINE auto abs(T x) {
  if constexpr (is_complex_v<T>) return std::abs(x);
  else if constexpr (std::is_unsigned_v<T>) return x;
  else if constexpr (std::is_integral_v<T>) return T(x < 0 ? 0 - std::make_unsigned_t<T>(x) : x);
  else return T(__builtin_fabs(double(x)));
}
RL_INLINE float abs(float x) { return __builtin_fabsf(x); }
inline Var abs(const Var& x) { return call_pointwise("abs", {x}); }
inline Symbol abs(const Symbol& x) { return call_symbol("fabs", {x}); }

RL_INLINE float pow(float x, float y) { return ::powf(x, y); }
RL_INLINE double pow(double x, double y) { return ::pow(x, y); }
inline Var pow(const Var& x, const Var& y) { return call_pointwise("pow", {x, y}); }
inline Symbol pow(const Symbol& x, const Symbol& y) { return call_symbol("pow", {x, y}); }

RL_INLINE float atan2(float y, float x) { return ::atan2f(y, x); }
RL_INLINE double atan2(double y, double x) { return ::atan2(y, x); }
inline Var atan2(const Var& y, const Var& x) { return call_pointwise("atan2", {y, x}); }
inline Symbol atan2(const Symbol& y, const Symbol& x) { return call_symbol("atan2", {y, x}); }

RL_INLINE float fmod(float x, float y) { return ::fmodf(x, y); }
RL_INLINE double fmod(double x, double y) { return ::fmod(x, y); }
inline Var fmod(const Var& x, const Var& y) { return call_pointwise("fmod", {x, y}); }
inline Symbol fmod(const Symbol& x, const Symbol& y) { return call_symbol("fmod", {x, y}); }

RL_INLINE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
RL_INLINE double copysign(double x, double y) { return __builtin_copysign(x, y); }
inline Var copysign(const Var& x, const Var& y) { return call_pointwise("copysign", {x, y}); }
inline Symbol copysign(const Symbol& x, const Symbol& y) { return call_symbol("copysign", {x, y}); }

// 1 / (1 + exp(-x)), whose derivatives stay finite where exp(-x) overflows.
template <Lane T>
RL_INLINE T sigmoid(T x) {
  if constexpr (is_complex_v<T>) {
    T e = exp(x.real() < 0 ? x : -x);
    return (x.real() < 0 ? e : T(1)) / (T(1) + e);
  } else {
    return T(1) / (T(1) + exp(-x));
  }
}
inline Var sigmoid(const Var& x) { return call_pointwise("sigmoid", {x}); }
inline Symbol sigmoid(const Symbol& x);

// A choice: both sides are computed, so a lane stays branch-free.
template <Lane T>
RL_INLINE T where(bool condition, T a, T b) {
  return condition ? a : b;
}
Var where(const Var& c, const Var& a, const Var& b);

// Conjunction and disjunction of conditions.
RL_INLINE bool both(bool a, bool b) { return a & b; }
inline Var both(const Var& a, const Var& b) { return call_pointwise("bitwise_and", {a, b}); }
inline Symbol both(const Symbol& a, const Symbol& b) { return operator_symbol("&&", {a, b}); }
RL_INLINE bool either(bool a, bool b) { return a | b; }
inline Var either(const Var& a, const Var& b) { return call_pointwise("bitwise_or", {a, b}); }
inline Symbol either(const Symbol& a, const Symbol& b) { return operator_symbol("||", {a, b}); }

template <Lane T>
RL_INLINE bool isnan(T x) {
  return x != x;
}
inline Var isnan(const Var& x) { return call_pointwise("ne", {x, x}); }
inline Symbol isnan(const Symbol& x) { return call_symbol("isnan", {x}); }
inline Symbol operator!(const Symbol& x) { return operator_symbol("!", {x}); }

// -1, 0 or 1; 0 for a NaN.
template <Lane T>
RL_INLINE T sign(T x) {
  if constexpr (is_complex_v<T>) return x == T(0) ? T(0) : x / std::abs(x);
  else return T(x > 0) - T(std::is_signed_v<T> && x < T(0));
}
Var sign(const Var& x);
inline Symbol sign(const Symbol& x) {
  if (Symbol::elements() == Elements::Complex) return call_symbol("sgn", {x});
  return operator_symbol("-", {operator_symbol(">", {x, 0}), operator_symbol("<", {x, 0})});
}

template <Lane T>
RL_INLINE T conj(T x) {
  if constexpr (is_complex_v<T>) return std::conj(x);
  else return x;
}
Var conj(const Var& x);
inline Symbol conj(const Symbol& x) {
  return Symbol::elements() == Elements::Complex ? call_symbol("conj", {x}) : x;
}

// Whether the real part is not negative.
template <Lane T>
RL_INLINE bool is_nonnegative(T x) {
  if constexpr (is_complex_v<T>) return x.real() >= 0;
  else return !(x < T(0));
}
Var is_nonnegative(const Var& x);
inline Symbol is_nonnegative(const Symbol& x) {
  if (Symbol::elements() == Elements::Complex) return operator_symbol(">=", {x, 0});
  return operator_symbol("!", {operator_symbol("<", {x, 0})});
}

}  // namespace math

#define RL_OPERATOR(op, name)                                   \
  inline Var operator op(const Var& a, const Var& b) {          \
    return math::call_pointwise(name, {a, b});                  \
  }                                                             \
  inline Symbol operator op(const Symbol& a, const Symbol& b) { \
    return math::operator_symbol(#op, {a, b});                  \
  }
RL_OPERATOR(+, "add")
RL_OPERATOR(-, "sub")
RL_OPERATOR(*, "mul")
RL_OPERATOR(/, "div")
RL_OPERATOR(<, "lt")
RL_OPERATOR(<=, "le")
RL_OPERATOR(>, "gt")
RL_OPERATOR(>=, "ge")
RL_OPERATOR(==, "eq")
RL_OPERATOR(!=, "ne")
#undef RL_OPERATOR
inline Var operator-(const Var& a) { return math::call_pointwise("neg", {a}); }
inline Symbol operator-(const Symbol& a) { return math::operator_symbol("-", {a}); }
inline Symbol math::sigmoid(const Symbol& x) {
  if (Symbol::elements() == Elements::Complex) return call_symbol("sigmoid", {x});
  return 1 / (1 + exp(-x));
}

}  // namespace rl
