// How formulas call the special functions of kernels/cpu/special.h: as numbers, as the op that has
// the function's value, as symbols.
#pragma once

#include "call/pointwise.h"
#include "kernels/cpu/special.h"

namespace rl::math {

// A function of one input whose formula becomes part of the loop.
#define RL_CODE(code, op)                                                   \
  RL_INLINE double code(double x) { return special::code(x); }              \
  RL_INLINE float code(float x) { return float(special::code(double(x))); } \
  inline Var code(const Var& x) { return call_pointwise(op, {x}); }         \
  inline Symbol code(const Symbol& x) { return call_symbol(#code, {x}); }
// One that has vector forms; its text is another's name on devices, and floats
// may have a form of their own.
#define RL_FORM_AS(code, single, text, op)                          \
  RL_INLINE double code(double x) { return rl_##code(x); }          \
  RL_INLINE float code(float x) { return float(rl_##single(x)); }   \
  inline Var code(const Var& x) { return call_pointwise(op, {x}); } \
  inline Symbol code(const Symbol& x) { return call_symbol(text, {x}); }
#define RL_FORM(code, op) RL_FORM_AS(code, code, #code, op)

// Functions of two inputs, with vector forms and without.
#define RL_FORM2(code, op, symbol)                                                   \
  RL_INLINE double code(double x, double y) { return rl_##code(x, y); }              \
  RL_INLINE float code(float x, float y) { return float(rl_##code(x, y)); }          \
  inline Var code(const Var& x, const Var& y) { return call_pointwise(op, {x, y}); } \
  inline Symbol code(const Symbol& x, const Symbol& y) { return symbol; }
#define RL_CODE2(code, op)                                                                   \
  inline double code(double x, double y) { return special::code(x, y); }                     \
  inline float code(float x, float y) { return float(special::code(double(x), double(y))); } \
  inline Var code(const Var& x, const Var& y) { return call_pointwise(op, {x, y}); }         \
  inline Symbol code(const Symbol& x, const Symbol& y) { return call_symbol(#code, {x, y}); }

// A function of one input and a parameter.
#define RL_CODE_OF(code, op)                                                                 \
  inline double code(double x, double n) { return special::code(x, n); }                     \
  inline float code(float x, float n) { return float(special::code(double(x), double(n))); } \
  inline Var code(const Var& x, const Var& n) {                                              \
    double order = *n->host<double>();                                                       \
    return run_pointwise(find_pointwise(op), &x, &order);                                    \
  }                                                                                          \
  inline Symbol code(const Symbol& x, const Symbol& n) { return call_symbol(#code, {x, n}); }

// A function of two inputs and a parameter.
#define RL_CODE2_OF(code, op)                                                         \
  inline double code(double x, double y, double n) { return special::code(x, y, n); } \
  inline float code(float x, float y, float n) {                                      \
    return float(special::code(double(x), double(y), double(n)));                     \
  }                                                                                   \
  inline Var code(const Var& x, const Var& y, const Var& n) {                         \
    double order = *n->host<double>();                                                \
    const Var in[] = {x, y};                                                          \
    return run_pointwise(find_pointwise(op), in, &order);                             \
  }                                                                                   \
  inline Symbol code(const Symbol& x, const Symbol& y, const Symbol& n) {             \
    return call_symbol(#code, {x, y, n});                                             \
  }

// What the ops on this code have in common.
template <class Op>
struct SpecialUnary : Unary<Op> {
  static constexpr auto module = "special";
  static constexpr Result result = Result::Float;
  static constexpr bool scalar = true;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
};
template <class Op>
struct SpecialBinary : Binary<Op> {
  static constexpr auto module = "special";
  static constexpr Result result = Result::Float;
  static constexpr bool scalar = true;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
};
// A family of functions by a parameter, which derivatives of others lead to.
template <class Op, int Inputs>
struct SpecialFamily : Hidden<Op, Inputs> {
  static constexpr Result result = Result::Float;
  static constexpr bool scalar = true;
  static constexpr int params = 1;
};

}  // namespace rl::math
