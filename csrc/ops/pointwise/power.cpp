// Squares, roots and powers.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

// The square of a bool counts: it is an int64.
struct SquareOp : Composite {
  static constexpr auto signature = "square(Tensor input)";
  static constexpr auto doc = "square(x): x * x.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input) {
    const Pointwise& op = find_pointwise("square");
    Var x = input.dtype() == DType::Bool ? ops::to(input, DType::I64) : input;
    return run_pointwise(op, &x, nullptr);
  }
  static void into(Tensor* destination, bool in_place, const Var& input) {
    run_pointwise(find_pointwise("square"), &input, nullptr, destination, in_place);
  }
};
RL_OP(SquareOp)

struct Square : Unary<Square> {
  static constexpr auto name = "square";
  static constexpr auto signature = "_square(Tensor input)";
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr auto grad_name = "PowBackward0";
  static constexpr auto doc = "square(x): x * x.";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x) { return V(x * x); }
  template <class V> static V partial(V x, V) { return V(2) * x; }
};
RL_POINTWISE(Square)

struct Sqrt : Unary<Sqrt> {
  static constexpr auto name = "sqrt";
  static constexpr auto doc = "sqrt(x): the square root.";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "positive";
  static constexpr double cost = 2;
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V value(V x) { return sqrt(x); }
  template <class V> static V partial(V, V y) { return V(1) / (V(2) * y); }
};
RL_POINTWISE(Sqrt)

struct Rsqrt : Unary<Rsqrt> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "rsqrt";
  static constexpr auto doc = "rsqrt(x): 1 / sqrt(x).";
  static constexpr Types types = Types::FloatComplex;
  static constexpr Result result = Result::Float;
  static constexpr auto domain = "positive";
  static constexpr double cost = 3;
  static constexpr Save saves[] = {Save::Out};
  template <class V> static V value(V x) { return V(1) / sqrt(x); }
  template <class V> static V partial(V, V y) { return V(-0.5) * (y * y * y); }
};
RL_POINTWISE(Rsqrt)

template <class T>
T integer_power(T base, T exponent) {
  if (std::is_signed_v<T> && exponent < 0)
    return base == 1 ? T(1) : base == T(-1) ? T(exponent % 2 ? -1 : 1) : T(0);
  std::make_unsigned_t<T> result = 1, b = std::make_unsigned_t<T>(base);
  for (; exponent; exponent = T(exponent >> 1), b = std::make_unsigned_t<T>(uint64_t(b) * b))
    if (exponent & 1) result = std::make_unsigned_t<T>(uint64_t(result) * b);
  return T(result);
}

// With a Python number as exponent.
struct PowNumber : Composite {
  static constexpr auto signature = "pow(Tensor input, Number exponent)";
  static constexpr auto doc = "pow(x, exponent): x to the power of a Python number.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& exponent) {
    return ops::pow_number(input, exponent);
  }
};
RL_OP(PowNumber)

struct Pow : Binary<Pow> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "pow";
  static constexpr auto grad_name = "PowBackward1";
  static constexpr auto number_grad_name = "PowBackward2";
  static constexpr auto doc = "pow(a, b): a to the power of b.";
  static constexpr Types types = Types::Numeric;
  static constexpr auto domain = "positive";
  static constexpr double cost = 10;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B | Save::Out};
  template <class V> static V value(V a, V b) {
    if constexpr (std::is_integral_v<V>) return integer_power(a, b);
    else if constexpr (std::is_same_v<V, Symbol>)
      return Symbol::elements() == Elements::Integer ? call_symbol("integer_power", {a, b})
                                                     : pow(a, b);
    else return pow(a, b);
  }
  template <class V> static V partial0(V a, V b, V) {
    return where(b == V(0), V(0), b * pow(a, b - V(1)));
  }
  template <class V> static V partial1(V a, V b, V y) {
    return where(both(a == V(0), is_nonnegative(b)), V(0), y * log(a));
  }
};
RL_POINTWISE(Pow)

// A Python number as exponent: the common ones need no power function.
struct PowScalar : Unary<PowScalar> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "pow_scalar";
  static constexpr auto grad_name = "PowBackward0";
  static constexpr auto signature = "pow(Tensor input, float exponent)";
  static constexpr auto doc = "pow(x, exponent): x to the power of a Python number.";
  static constexpr Types types = Types::Float;
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr int params = 1;
  static constexpr double cost = 10;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V e) { return pow(x, e); }
  template <class V> static V partial(V x, V e, V) {
    return where(e == V(0), V(0), e * pow(x, e - V(1)));
  }
};
RL_POINTWISE(PowScalar)

// x ** 2 and x ** 3 are products.
struct PowTwo : Unary<PowTwo> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "pow_two";
  static constexpr auto grad_name = "PowBackward0";
  static constexpr auto signature = "_pow_two(Tensor input, float exponent)";
  static constexpr auto doc = "_pow_two(x, 2): what x ** 2 computes.";
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V) { return x * x; }
  template <class V> static V partial(V x, V, V) { return V(2) * x; }
};
RL_POINTWISE(PowTwo)

struct PowThree : Unary<PowThree> {
  static constexpr bool full_on_cuda = true;
  static constexpr auto name = "pow_three";
  static constexpr auto grad_name = "PowBackward0";
  static constexpr auto signature = "_pow_three(Tensor input, float exponent)";
  static constexpr auto doc = "_pow_three(x, 3): what x ** 3 computes.";
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::A};
  template <class V> static V value(V x, V) { return x * x * x; }
  template <class V> static V partial(V x, V, V) { return V(3) * x * x; }
};
RL_POINTWISE(PowThree)

struct FloatPower : Composite {
  static constexpr auto signature = "float_power(Tensor|Number input, Tensor|Number exponent)";
  static constexpr auto doc = "float_power(x, exponent): the power, computed in double precision.";
  static constexpr bool inplace = true;
  static DType wide(const Var& a, const Var& b) {
    return is_complex(a.dtype()) || is_complex(b.dtype()) ? DType::C128 : DType::F64;
  }
  static Var forward(const Var& input, const Var& exponent) {
    DType dtype = wide(input, exponent);
    Var base = ops::to(input, dtype);
    if (exponent->wrapped_number) return ops::pow_number(base, exponent);
    return pow(base, ops::to(exponent, dtype));
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& exponent) {
    DType dtype = wide(input, exponent);
    check(!inplace || into->dtype == dtype, "the base given to float_power_ has dtype ",
          info(into->dtype).tensor_name, " but the operation's result requires dtype ",
          info(dtype).tensor_name);
    const Var in[] = {ops::to(input, dtype), ops::to(exponent, dtype)};
    run_pointwise(find_pointwise("pow"), in, nullptr, into, inplace);
  }
};
RL_OP(FloatPower)

}  // namespace

namespace ops {

Var pow_number(const Var& a, const Var& exponent) {
  // True ** True: the one power of bools that torch has.
  if (a.dtype() == DType::Bool && exponent.dtype() == DType::Bool)
    return *exponent->host<Bool>() ? clone(a) : full(a.sizes(), 1, DType::Bool, a.device());
  bool real = is_floating(a.dtype());
  if (!real || is_complex(exponent.dtype())) {
    if (is_integral(a.dtype()) && exponent.dtype() == DType::I64 && *exponent->host<int64_t>() < 0)
      fail("Integers to negative integer powers are not allowed.");
    // A truth is a number in the derivative, which subtracts from it.
    if (is_complex(a.dtype()) && exponent.dtype() == DType::Bool)
      return apply<Pow>(a, Var(bool(*exponent->host<Bool>()) ? 1.0 : 0.0));
    return apply<Pow>(a, exponent);
  }
  bool half = compute_type(a.dtype()) != a.dtype();
  double e = number(exponent);
  if (half)
    e = a.dtype() == DType::F16 ? double(float(F16(float(e)))) : double(float(BF16(float(e))));
  const Pointwise& op = e == 2   ? pointwise_info<PowTwo>()
                        : e == 3 ? pointwise_info<PowThree>()
                                 : pointwise_info<PowScalar>();
  return run_pointwise(op, &a, &e);
}

}  // namespace ops
}  // namespace rl
