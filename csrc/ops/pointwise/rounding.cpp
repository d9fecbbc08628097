// Rounding: to integers, to decimals, and what is left over.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

#define RL_ROUNDING(Type, function, others, text)                               \
  struct Type : Unary<Type> {                                                   \
    static constexpr auto name = #function;                                     \
    static constexpr auto aliases = others;                                     \
    static constexpr auto doc = #function "(x): " text " Its derivative is 0."; \
    static constexpr Types types = Types::Real;                                 \
    static constexpr bool selects = true;                                       \
    static constexpr bool any_sign = true;                                      \
    static constexpr Save saves[] = {Save::None};                               \
    template <class V> static V value(V x) {                                    \
      if constexpr (std::is_integral_v<V>) return x;                            \
      else return function(x);                                                  \
    }                                                                           \
    template <class V> static V partial(V, V) { return V(0); }                  \
  };                                                                            \
  RL_POINTWISE(Type)
RL_ROUNDING(Floor, floor, "", "the largest integer not above x.")
RL_ROUNDING(Ceil, ceil, "", "the smallest integer not below x.")
RL_ROUNDING(Round, round, "", "the nearest integer, halves to even.")
RL_ROUNDING(Trunc, trunc, "fix", "x without its fraction.")

struct RoundDecimals : General {
  static constexpr auto signature = "round(Tensor input, *, int decimals)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "RoundBackward1";
  static constexpr auto doc =
      "round(x, decimals=n): rounded to n digits after the point. Its derivative is 0.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t decimals) {
    if (decimals == 0 || is_integral(input.dtype())) return apply<Round>(input);
    double scale = std::pow(10.0, double(std::abs(decimals)));
    return decimals > 0 ? apply<Round>(input * Var(scale)) / Var(scale)
                        : apply<Round>(input / Var(scale)) * Var(scale);
  }
  static void vjp(Back& b, const In& input, int64_t) {
    b[0] = ops::zeros(input.sizes(), input.dtype(), input.device());
  }
  static void jvp(Push&, const Var&, int64_t) {}
};
RL_OP(RoundDecimals)

struct Frac : Unary<Frac> {
  static constexpr auto name = "frac";
  static constexpr auto doc = "frac(x): the fraction of x, with its sign.";
  template <class V> static V value(V x) { return x - trunc(x); }
  template <class V> static One partial(V, V) { return {}; }
};
RL_POINTWISE(Frac)

}  // namespace
}  // namespace rl
