// Comparisons, tests of single elements, logic and bits. None has a derivative.
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

// Zeros, NaN and equal numbers are the same in the types that stored ones are computed in.
#define RL_BY_VALUE                      \
  static constexpr bool any_sign = true; \
  static constexpr bool takes_float8 = true;

#define RL_COMPARISON(Type, function, op, others, text, kinds, ...)   \
  struct Type : Binary<Type> {                                        \
    __VA_ARGS__                                                       \
    static constexpr auto name = #function;                           \
    static constexpr auto aliases = others;                           \
    static constexpr auto doc = #function "(a, b): " text;            \
    static constexpr Types types = kinds;                             \
    static constexpr Result result = Result::Bool;                    \
    static constexpr bool differentiable = false;                     \
    template <class V> static auto value(V a, V b) { return a op b; } \
  };                                                                  \
  RL_POINTWISE(Type)
RL_COMPARISON(Eq, eq, ==, "", "whether a equals b, elementwise.", Types::All, RL_BY_VALUE)
RL_COMPARISON(Ne, ne, !=, "not_equal", "whether a differs from b, elementwise.", Types::All,
              RL_BY_VALUE)
RL_COMPARISON(Lt, lt, <, "less", "whether a is below b, elementwise.", Types::RealBool)
RL_COMPARISON(Le, le, <=, "less_equal", "whether a is at most b, elementwise.", Types::RealBool)
RL_COMPARISON(Gt, gt, >, "greater", "whether a is above b, elementwise.", Types::RealBool)
RL_COMPARISON(Ge, ge, >=, "greater_equal", "whether a is at least b, elementwise.", Types::RealBool)

template <class V>
auto truth(V x) {
  return x != V(0);
}

struct LogicalAnd : Binary<LogicalAnd> {
  RL_BY_VALUE
  static constexpr auto name = "logical_and";
  static constexpr auto doc = "logical_and(a, b): whether both are nonzero.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  template <class V> static auto value(V a, V b) { return both(truth(a), truth(b)); }
};
RL_POINTWISE(LogicalAnd)

struct LogicalOr : Binary<LogicalOr> {
  RL_BY_VALUE
  static constexpr auto name = "logical_or";
  static constexpr auto doc = "logical_or(a, b): whether one of them is nonzero.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  template <class V> static auto value(V a, V b) { return either(truth(a), truth(b)); }
};
RL_POINTWISE(LogicalOr)

struct LogicalXor : Binary<LogicalXor> {
  RL_BY_VALUE
  static constexpr auto name = "logical_xor";
  static constexpr auto doc = "logical_xor(a, b): whether exactly one of them is nonzero.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  template <class V> static auto value(V a, V b) { return truth(a) != truth(b); }
};
RL_POINTWISE(LogicalXor)

struct LogicalNot : Unary<LogicalNot> {
  RL_BY_VALUE
  static constexpr auto name = "logical_not";
  static constexpr auto doc = "logical_not(x): whether x is zero.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  template <class V> static auto value(V x) { return x == V(0); }
};
RL_POINTWISE(LogicalNot)

#define RL_BITWISE(Type, function, op, about)                                       \
  struct Type : Binary<Type> {                                                      \
    static constexpr bool any_sign = true;                                          \
    static constexpr auto name = #function;                                         \
    static constexpr auto doc = #function "(a, b): " about;                         \
    static constexpr Types types = Types::IntegerBool;                              \
    static constexpr bool differentiable = false;                                   \
    template <class V> static V value(V a, V b) {                                   \
      if constexpr (std::is_same_v<V, Symbol>) return operator_symbol(#op, {a, b}); \
      else return V(a op b);                                                        \
    }                                                                               \
  };                                                                                \
  RL_POINTWISE(Type)
RL_BITWISE(BitwiseAnd, bitwise_and, &, "the bits set in both; for bool, logical and.")
RL_BITWISE(BitwiseOr, bitwise_or, |, "the bits set in one of them; for bool, logical or.")
RL_BITWISE(BitwiseXor, bitwise_xor, ^, "the bits set in exactly one; for bool, logical xor.")

// Shifts by more than the width give what repeated shifting would.
constexpr const char* kLastBit = "(int(8 * sizeof(a)) - 1)";
Symbol is_far(const Symbol& b) { return either(b<0, b> Symbol(kLastBit)); }

struct ShiftLeft : Binary<ShiftLeft> {
  static constexpr bool any_sign = true;
  static constexpr auto name = "bitwise_left_shift";
  static constexpr auto doc = "bitwise_left_shift(a, b): a * 2**b in integers.";
  static constexpr Types types = Types::Integer;
  static constexpr bool differentiable = false;
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_same_v<V, Symbol>) {
      Symbol far = is_far(b);
      return where(far, 0, operator_symbol("<<", {a, where(far, 0, b)}));
    } else return b < V(0) || b >= V(8 * sizeof(V)) ? V(0) : V(std::make_unsigned_t<V>(a) << b);
  }
};
RL_POINTWISE(ShiftLeft)

struct ShiftRight : Binary<ShiftRight> {
  static constexpr auto name = "bitwise_right_shift";
  static constexpr auto doc = "bitwise_right_shift(a, b): a // 2**b in integers.";
  static constexpr Types types = Types::Integer;
  static constexpr bool differentiable = false;
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_same_v<V, Symbol>)
      return operator_symbol(">>", {a, where(is_far(b), kLastBit, b)});
    else return V(a >> (b < V(0) || b >= V(8 * sizeof(V)) ? V(8 * sizeof(V) - 1) : b));
  }
};
RL_POINTWISE(ShiftRight)

struct BitwiseNot : Unary<BitwiseNot> {
  static constexpr bool any_sign = true;
  static constexpr auto name = "bitwise_not";
  static constexpr auto doc = "bitwise_not(x): every bit flipped; for bool, logical not.";
  static constexpr Types types = Types::IntegerBool;
  static constexpr bool differentiable = false;
  template <class V> static V value(V x) {
    if constexpr (std::is_same_v<V, bool>) return !x;
    else if constexpr (std::is_same_v<V, Symbol>)
      return operator_symbol(Symbol::elements() == Elements::Bool ? "!" : "~", {x});
    else return V(~x);
  }
};
RL_POINTWISE(BitwiseNot)

struct IsNan : Unary<IsNan> {
  RL_BY_VALUE
  static constexpr auto name = "isnan";
  static constexpr auto doc = "isnan(x): whether x is not a number.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  static constexpr bool inplace = false;
  template <class V> static auto value(V x) { return isnan(x); }
};
RL_POINTWISE(IsNan)

struct IsInf : Unary<IsInf> {
  RL_BY_VALUE
  static constexpr auto name = "isinf";
  static constexpr auto doc = "isinf(x): whether x, or a part of a complex x, is infinite.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  static constexpr bool inplace = false;
  template <class V> static auto value(V x) {
    if constexpr (std::is_integral_v<V>) return false;
    else if constexpr (is_complex_v<V>) return std::isinf(x.real()) || std::isinf(x.imag());
    else {
      if constexpr (std::is_same_v<V, Symbol>)
        if (Symbol::elements() == Elements::Complex) return call_symbol("isinf", {x});
      return both(!isnan(x), isnan(x - x));
    }
  }
};
RL_POINTWISE(IsInf)

struct IsFinite : Unary<IsFinite> {
  RL_BY_VALUE
  static constexpr auto name = "isfinite";
  static constexpr auto doc = "isfinite(x): whether x is neither infinite nor NaN.";
  static constexpr Types types = Types::All;
  static constexpr Result result = Result::Bool;
  static constexpr bool differentiable = false;
  static constexpr bool inplace = false;
  template <class V> static auto value(V x) {
    if constexpr (std::is_integral_v<V>) return true;
    else return x - x == V(0);
  }
};
RL_POINTWISE(IsFinite)

#define RL_TEST(Type, function, kinds, text, more, expression)  \
  struct Type : Unary<Type> {                                   \
    more static constexpr auto name = #function;                \
    static constexpr auto doc = #function "(x): whether " text; \
    static constexpr Types types = kinds;                       \
    static constexpr Result result = Result::Bool;              \
    static constexpr bool differentiable = false;               \
    static constexpr bool inplace = false;                      \
    template <class V> static auto value(V x) { expression }    \
  };                                                            \
  RL_POINTWISE(Type)
// clang-format off
RL_TEST(IsPosInf, isposinf, Types::RealBool, "x is plus infinity.", RL_BY_VALUE,
  if constexpr (std::is_integral_v<V>) return false;
  else return both(x > V(0), isnan(x - x));)
RL_TEST(IsNegInf, isneginf, Types::RealBool, "x is minus infinity.", RL_BY_VALUE,
  if constexpr (std::is_integral_v<V>) return false;
  else return both(x < V(0), isnan(x - x));)
RL_TEST(IsReal, isreal, Types::All, "the imaginary part is 0.", RL_BY_VALUE,
  if constexpr (is_complex_v<V>) return x.imag() == 0;
  else {
    if constexpr (std::is_same_v<V, Symbol>)
      if (Symbol::elements() == Elements::Complex) return call_symbol("isreal", {x});
    return either(x == x, x != x);
  })
RL_TEST(Signbit, signbit, Types::RealBool, "the sign bit is set, as in -0.0.",,
  if constexpr (std::is_integral_v<V>) return x < V(0);
  else {
    if constexpr (std::is_same_v<V, Symbol>)
      if (Symbol::elements() != Elements::Real) return x < V(0);
    return copysign(V(1), x) < V(0);
  })
// clang-format on
#undef RL_TEST

}  // namespace
}  // namespace rl
