// Sums, products and quotients; choices between two elements.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

// For integer division: raises when a divisor is zero.
void check_divisor(const Var* in) {
  const Var& b = in[1];
  if (!is_integral(in[0].dtype()) || !is_integral(b.dtype())) return;
  if (in[0].numel() == 0 || b.numel() == 0) return;
  if (in[0].dtype() == DType::Bool && b.dtype() == DType::Bool) return;  // has no such op
  GradMode off(false);
  Var wide = ops::contiguous(ops::to(b, DType::I64));
  kernel::Outside zero = on(wide).find_zero(wide->data<int64_t>(), wide.numel());
  if (zero) fail("ZeroDivisionError: an integer divisor is zero (element ", zero.at, ")");
}

struct Add : Binary<Add> {
  static constexpr auto name = "add";
  static constexpr auto doc = "add(a, b): the sum a + b, with broadcasting and type promotion.";
  static constexpr Types types = Types::All;
  static constexpr bool wraps = true;
  template <class V> static V value(V a, V b) { return V(a + b); }
  template <class V> static One partial0(V, V, V) { return {}; }
  template <class V> static One partial1(V, V, V) { return {}; }
};
RL_POINTWISE(Add)

struct AddScaled : Binary<AddScaled> {
  static constexpr auto name = "add_scaled";
  static constexpr auto signature = "add(Tensor|Number input, Tensor|Number other, *, float alpha)";
  static constexpr auto grad_name = "AddBackward0";
  static constexpr auto doc = "add(a, b, alpha=s): the sum a + s * b.";
  static constexpr auto former = "input alpha other";
  static constexpr Types types = Types::All;
  static constexpr bool wraps = true;
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::None, Save::None};
  template <class V> static V value(V a, V b, V alpha) { return V(a + alpha * b); }
  template <class V> static One partial0(V, V, V, V) { return {}; }
  template <class V> static V partial1(V, V, V alpha, V) { return alpha; }
};
RL_POINTWISE(AddScaled)

void refuse_bools(const Var* in) {
  bool a = in[0].dtype() == DType::Bool, b = in[1].dtype() == DType::Bool;
  check(!(a && b),
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
        "`^` or `logical_xor()` operator instead.");
  check(!(a || b),
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
        "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
}

struct Sub : Binary<Sub> {
  static constexpr auto name = "sub";
  static constexpr auto aliases = "subtract";
  static constexpr auto doc = "sub(a, b): the difference a - b.";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static void validate(const Var* in) { refuse_bools(in); }
  template <class V> static V value(V a, V b) { return V(a - b); }
  template <class V> static One partial0(V, V, V) { return {}; }
  template <class V> static MinusOne partial1(V, V, V) { return {}; }
};
RL_POINTWISE(Sub)

struct SubScaled : Binary<SubScaled> {
  static constexpr auto name = "sub_scaled";
  static constexpr auto aliases = "subtract";
  static constexpr auto signature = "sub(Tensor|Number input, Tensor|Number other, *, float alpha)";
  static constexpr auto grad_name = "SubBackward0";
  static constexpr auto doc = "sub(a, b, alpha=s): the difference a - s * b.";
  static constexpr auto former = "input alpha other";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::None, Save::None};
  static void validate(const Var* in) { refuse_bools(in); }
  template <class V> static V value(V a, V b, V alpha) { return V(a - alpha * b); }
  template <class V> static One partial0(V, V, V, V) { return {}; }
  template <class V> static V partial1(V, V, V alpha, V) { return -alpha; }
};
RL_POINTWISE(SubScaled)

struct Rsub : Binary<Rsub> {
  static constexpr auto name = "rsub";
  static constexpr auto grad_name = "RsubBackward0";
  static constexpr auto number_grad_name = "RsubBackward1";
  static constexpr auto doc = "rsub(a, b): the difference b - a.";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static void validate(const Var* in) { refuse_bools(in); }
  template <class V> static V value(V a, V b) { return V(b - a); }
  template <class V> static MinusOne partial0(V, V, V) { return {}; }
  template <class V> static One partial1(V, V, V) { return {}; }
};
RL_POINTWISE(Rsub)

struct RsubScaled : Binary<RsubScaled> {
  static constexpr auto name = "rsub_scaled";
  static constexpr auto signature =
      "rsub(Tensor|Number input, Tensor|Number other, *, float alpha)";
  static constexpr auto grad_name = "RsubBackward0";
  static constexpr auto number_grad_name = "RsubBackward1";
  static constexpr auto doc = "rsub(a, b, alpha=s): the difference b - s * a.";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static constexpr int params = 1;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr Save saves[] = {Save::None, Save::None};
  static void validate(const Var* in) { refuse_bools(in); }
  template <class V> static V value(V a, V b, V alpha) { return V(b - alpha * a); }
  template <class V> static V partial0(V, V, V alpha, V) { return -alpha; }
  template <class V> static One partial1(V, V, V, V) { return {}; }
};
RL_POINTWISE(RsubScaled)

struct Mul : Binary<Mul> {
  static constexpr bool takes_float8 = true;
  static constexpr bool wide_numbers = true;
  static constexpr auto name = "mul";
  static constexpr auto aliases = "multiply";
  static constexpr auto doc = "mul(a, b): the product a * b, with broadcasting and type promotion.";
  static constexpr Types types = Types::All;
  static constexpr bool wraps = true;
  static constexpr Save saves[] = {Save::B, Save::A};
  template <class V> static V value(V a, V b) { return V(a * b); }
  template <class V> static V partial0(V, V b, V) { return b; }
  template <class V> static V partial1(V a, V, V) { return a; }
};
RL_POINTWISE(Mul)

// A complex number by zero has infinite parts, as each part has.
template <class V>
V quotient(V a, V b) {
  if constexpr (math::is_complex_v<V>)
    if (b == V(0)) return V(a.real() / 0, a.imag() / 0);
  if constexpr (std::is_same_v<V, Symbol>)
    if (Symbol::elements() == Elements::Complex) return call_symbol("quotient", {a, b});
  return a / b;
}

struct Div : Binary<Div> {
  static constexpr bool wide_numbers = true;
  static constexpr auto name = "div";
  static constexpr auto aliases = "divide true_divide";
  static constexpr auto doc = "div(a, b): the quotient a / b; integers give floating results.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr double cost = 2;
  static constexpr Save saves[] = {Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) { return quotient(a, b); }
  template <class V> static V partial0(V, V b, V) { return V(1) / b; }
  template <class V> static V partial1(V a, V b, V) { return -((a / b) / b); }
};
RL_POINTWISE(Div)

// Rounds the quotient down; integers stay integers. Division by a zero integer is undefined in
// C++ and gives zero here.
struct FloorDivide : Binary<FloorDivide> {
  static constexpr bool wide_numbers = true;
  static constexpr auto name = "floor_divide";
  static constexpr auto doc = "floor_divide(a, b): the quotient rounded towards minus infinity.";
  static void validate(const Var* in) { check_divisor(in); }
  static constexpr Types types = Types::Real;
  static constexpr bool selects = true;
  static constexpr double cost = 4;
  static constexpr Save saves[] = {Save::None, Save::None};
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == 0) return V(0);
      if (std::is_signed_v<V> && b == V(-1)) return V(V(0) - std::make_unsigned_t<V>(a));
      V q = V(a / b);
      return V(q - (a % b != 0 && (a < 0) != (b < 0)));
    } else if constexpr (std::is_floating_point_v<V> || std::is_same_v<V, Symbol>) {
      if constexpr (std::is_same_v<V, Symbol>)
        if (Symbol::elements() == Elements::Integer) return call_symbol("floor_quotient", {a, b});
      V m = fmod(a, b), q = (a - m) / b;
      q = where(both(m != V(0), (b < V(0)) != (m < V(0))), q - V(1), q);
      V f = floor(q);
      f = where(q - f > V(0.5), f + V(1), f);
      f = where(q == V(0), copysign(V(0), a / b), f);
      return where(b == V(0), a / b, f);
    } else {
      return floor(a / b);
    }
  }
  template <class V> static V partial0(V, V, V) { return V(0); }
  template <class V> static V partial1(V, V, V) { return V(0); }
};
RL_POINTWISE(FloorDivide)

struct TruncDivide : Binary<TruncDivide> {
  static constexpr auto name = "trunc_divide";
  static constexpr auto grad_name = "DivBackward1";
  static constexpr auto doc = "trunc_divide(a, b): the quotient rounded towards zero.";
  static void validate(const Var* in) { check_divisor(in); }
  static constexpr Types types = Types::Real;
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr bool selects = true;
  static constexpr double cost = 4;
  static constexpr Save saves[] = {Save::None, Save::None};
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == 0) return V(0);
      if (std::is_signed_v<V> && b == V(-1)) return V(V(0) - std::make_unsigned_t<V>(a));
      return V(a / b);
    } else {
      if constexpr (std::is_same_v<V, Symbol>)
        if (Symbol::elements() == Elements::Integer) return call_symbol("trunc_quotient", {a, b});
      return trunc(a / b);
    }
  }
  template <class V> static V partial0(V, V, V) { return V(0); }
  template <class V> static V partial1(V, V, V) { return V(0); }
};
RL_POINTWISE(TruncDivide)

// a - b * floor(a / b): has the sign of b.
struct Remainder : Binary<Remainder> {
  static constexpr auto name = "remainder";
  static constexpr auto grad_name = "RemainderBackward1";
  static constexpr auto number_grad_name = "RemainderBackward0";
  static constexpr auto doc = "remainder(a, b): a modulo b, with the sign of b (as in Python).";
  static void validate(const Var* in) { check_divisor(in); }
  static constexpr Types types = Types::Real;
  static constexpr double cost = 4;
  static constexpr Save saves[] = {Save::None, Save::A | Save::B};
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
      if (b == 0 || (std::is_signed_v<V> && b == V(-1))) return V(0);
      V r = V(a % b);
      return V(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    } else {
      V r = fmod(a, b);
      return where(both(r != V(0), (r < V(0)) != (b < V(0))), r + b, r);
    }
  }
  template <class V> static One partial0(V, V, V) { return {}; }
  template <class V> static V partial1(V a, V b, V) { return -floor(a / b); }
};
RL_POINTWISE(Remainder)

struct Fmod : Binary<Fmod> {
  static constexpr auto name = "fmod";
  static constexpr auto grad_name = "FmodBackward1";
  static constexpr auto number_grad_name = "FmodBackward0";
  static constexpr auto doc = "fmod(a, b): the remainder of a / b, with the sign of a (as in C).";
  static void validate(const Var* in) { check_divisor(in); }
  static constexpr Types types = Types::Real;
  static constexpr double cost = 8;
  static constexpr Save saves[] = {Save::None, Save::A | Save::B};
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_integral_v<V>)
      return b == 0 || (std::is_signed_v<V> && b == V(-1)) ? V(0) : V(a % b);
    else return fmod(a, b);
  }
  template <class V> static One partial0(V, V, V) { return {}; }
  template <class V> static V partial1(V a, V b, V) { return -trunc(a / b); }
};
RL_POINTWISE(Fmod)

struct DivRounded : Composite {
  static constexpr auto signature =
      "div(Tensor|Number input, Tensor|Number other, *, str? rounding_mode)";
  static constexpr auto doc =
      "div(a, b, rounding_mode): the quotient, rounded towards zero ('trunc') or down ('floor').";
  static constexpr bool inplace = true;
  static Var run(const Var& input, const Var& other, const std::optional<std::string>& mode,
                 Tensor* into, bool inplace) {
    check(!mode || *mode == "trunc" || *mode == "floor",
          "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
          mode.value_or(""), "'");
    static const Pointwise plain = renamed(find_pointwise("div"), "DivBackward2"),
                           trunc = renamed(find_pointwise("trunc_divide"), "DivBackward2"),
                           floor = renamed(find_pointwise("floor_divide"), "DivBackward2");
    const Var in[] = {input, other};
    return run_pointwise(!mode              ? plain
                         : *mode == "trunc" ? trunc
                                            : floor,
                         in, nullptr, into, inplace);
  }
  static Var forward(const Var& input, const Var& other, const std::optional<std::string>& mode) {
    return run(input, other, mode, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& other,
                   const std::optional<std::string>& mode) {
    run(input, other, mode, into, inplace);
  }
};
RL_OP(DivRounded)

struct DivideRounded : DivRounded {
  static constexpr auto signature =
      "divide(Tensor|Number input, Tensor|Number other, *, str? rounding_mode)";
};
RL_OP(DivideRounded)

struct Neg : Unary<Neg> {
  static constexpr auto name = "neg";
  static constexpr auto aliases = "negative";
  static constexpr auto doc = "neg(x): -x.";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static void validate(const Var* in) {
    check(in[0].dtype() != DType::Bool,
          "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
          "invert a mask, use the `~` or `logical_not()` operator instead.");
  }
  template <class V> static V value(V x) { return V(-x); }
  template <class V> static MinusOne partial(V, V) { return {}; }
};
RL_POINTWISE(Neg)

struct Positive : Composite {
  static constexpr auto signature = "positive(Tensor input)";
  static constexpr auto doc = "positive(x): x itself.";
  static constexpr Family family = Family::View;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dtype() != DType::Bool,
          "The `+` operator, on a bool tensor is not supported (positive).");
    return input;
  }
};
RL_OP(Positive)

struct Reciprocal : Unary<Reciprocal> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "reciprocal";
  static constexpr auto doc = "reciprocal(x): 1 / x.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "nonzero";
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V value(V x) { return quotient(V(1), x); }
  template <class V> static V partial(V, V y) { return -(y * y); }
};
RL_POINTWISE(Reciprocal)

struct Abs : Unary<Abs> {
  static constexpr bool takes_float8 = true;
  static constexpr auto name = "abs";
  static constexpr auto aliases = "absolute";
  static constexpr auto doc = "abs(x): the absolute value; complex numbers give their modulus.";
  static constexpr Types types = Types::Numeric;
  static constexpr Save saves[] = {Save::A};
  template <class V> static auto value(V x) { return abs(x); }
  template <class V> static V partial(V x, V) { return conj(sign(x)); }
};
RL_POINTWISE(Abs)

// For real numbers; complex.cpp has the op.
struct Sgn : Hidden<Sgn, 1> {
  static constexpr auto name = "sgn";
  static constexpr auto doc = "sgn(x): x / |x|, 0 at 0.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::None};
  template <class V> static V value(V x) { return sign(x); }
  template <class V> static V partial(V, V) { return V(0); }
};
RL_POINTWISE(Sgn)

struct Sign : Unary<Sign> {
  static constexpr auto name = "sign";
  static constexpr auto doc = "sign(x): -1, 0 or 1.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::None};
  template <class V> static V value(V x) { return sign(x); }
  template <class V> static V partial(V, V) { return V(0); }
};
RL_POINTWISE(Sign)

struct Maximum : Binary<Maximum> {
  static constexpr auto name = "maximum";
  static constexpr auto doc = "maximum(a, b): the larger; a NaN wins. A tie halves the gradient.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr bool inplace = false;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) { return where(either(a > b, isnan(a)), a, b); }
  template <class V> static V partial0(V a, V b, V) {
    return where(a == b, V(0.5), where(a < b, V(0), V(1)));
  }
  template <class V> static V partial1(V a, V b, V) {
    return where(a == b, V(0.5), where(b < a, V(0), V(1)));
  }
};
RL_POINTWISE(Maximum)

struct Minimum : Binary<Minimum> {
  static constexpr auto name = "minimum";
  static constexpr auto doc = "minimum(a, b): the smaller; a NaN wins. A tie halves the gradient.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr bool inplace = false;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V a, V b) { return where(either(a < b, isnan(a)), a, b); }
  template <class V> static V partial0(V a, V b, V) {
    return where(a == b, V(0.5), where(a > b, V(0), V(1)));
  }
  template <class V> static V partial1(V a, V b, V) {
    return where(a == b, V(0.5), where(b > a, V(0), V(1)));
  }
};
RL_POINTWISE(Minimum)

struct Lerp : Ternary<Lerp> {
  static constexpr auto name = "lerp";
  static constexpr auto grad_name = "LerpBackward1";
  static constexpr auto number_grad_name = "LerpBackward0";
  static constexpr auto signature = "lerp(Tensor input, Tensor end, Tensor|Number weight)";
  static constexpr auto doc = "lerp(a, b, w): a + w * (b - a).";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Save saves[] = {Save::C, Save::C, Save::A | Save::B};
  template <class V> static V value(V a, V b, V w) { return a + w * (b - a); }
  template <class V> static V partial0(V, V, V w, V) { return V(1) - w; }
  template <class V> static V partial1(V, V, V w, V) { return w; }
  template <class V> static V partial2(V a, V b, V, V) { return b - a; }
};
RL_POINTWISE(Lerp)

struct Where : Ternary<Where> {
  static constexpr auto name = "where";
  static constexpr auto signature =
      "where(Tensor condition, Tensor|Number input, Tensor|Number other)";
  static constexpr auto doc = "where(condition, a, b): a where the condition holds, else b.";
  static constexpr Types types = Types::All;
  static constexpr bool selects = true, moves = true;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr Save saves[] = {Save::None, Save::A, Save::A};
  static void validate(const Var* in) {
    check(in[0].dtype() == DType::Bool || in[0].dtype() == DType::U8,
          "where expected condition to be a boolean tensor, but got a tensor with dtype ",
          info(in[0].dtype()).tensor_name);
  }
  template <class V> static V value(V c, V a, V b) { return where(c != V(0), a, b); }
  template <class V> static V partial0(V, V, V, V) { return V(0); }
  template <class V> static V partial1(V c, V, V, V) { return where(c != V(0), V(1), V(0)); }
  template <class V> static V partial2(V c, V, V, V) { return where(c != V(0), V(0), V(1)); }
};
RL_POINTWISE(Where)

}  // namespace

namespace ops {

Var add(const Var& a, const Var& b) { return apply<Add>(a, b); }
Var sub(const Var& a, const Var& b) { return apply<Sub>(a, b); }
Var mul(const Var& a, const Var& b) { return apply<Mul>(a, b); }
Var div(const Var& a, const Var& b) { return apply<Div>(a, b); }
Var neg(const Var& a) { return apply<Neg>(a); }

}  // namespace ops
}  // namespace rl
