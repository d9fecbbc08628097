// What formulas call that C and CUDA lack, as text for device compilers.
#include "call/symbol.h"

namespace rl {

namespace {

constexpr char kNeighbours[] = R"(
// The neighbour of a on the way to b among numbers of so many digits, the smallest of which is
// 2^lowest and the largest below 2^top.
RL_DEVICE double next_narrow(double a, double b, int digits, int lowest, int top) {
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  const double smallest = ldexp(1.0, lowest), largest = ldexp(2 - ldexp(1.0, 1 - digits), top - 1);
  if (a == 0) return b > 0 ? smallest : -smallest;
  const bool grows = (a < b) == (a > 0);
  const double size = fabs(a);
  if (size > largest) return copysign(grows ? size : largest, a);
  int exponent;
  const bool first = frexp(size, &exponent) == 0.5;
  if (first && !grows) exponent -= 1;
  const double step = ldexp(1.0, exponent - digits < lowest ? lowest : exponent - digits);
  const double moved = grows ? size + step : size - step;
  return copysign(moved > largest ? double(INFINITY) : moved, a);
}
RL_DEVICE double next_half(double a, double b) { return next_narrow(a, b, 11, -24, 16); }
RL_DEVICE double next_bfloat(double a, double b) { return next_narrow(a, b, 8, -133, 128); }
)";

// By 0 quotients are 0. By -1 they are negatives and remainders 0 at once: the device would divide
// the smallest integer by it.
constexpr char kIntegers[] = R"(
template <class Int> RL_DEVICE Int trunc_quotient(Int a, Int b) {
  if (b == 0) return Int(0);
  return Int(-1) < 0 && b == Int(-1) ? Int(0 - uint64(a)) : Int(a / b);
}
template <class Int> RL_DEVICE Int integer_remainder(Int a, Int b) {
  return b == 0 || (Int(-1) < 0 && b == Int(-1)) ? Int(0) : Int(a % b);
}
template <class Int> RL_DEVICE Int floor_quotient(Int a, Int b) {
  const bool below = integer_remainder(a, b) != 0 && (a < 0) != (b < 0);
  return Int(trunc_quotient(a, b) - below);
}
template <class Int> RL_DEVICE Int integer_power(Int base, Int exponent) {
  if (exponent < 0) return base == 1 ? Int(1) : base == Int(-1) ? Int(exponent % 2 ? -1 : 1) : Int(0);
  uint64 power = 1, square = uint64(base);
  for (; exponent; exponent = Int(exponent >> 1), square *= square)
    if (exponent & 1) power *= square;
  return Int(power);
}
#define RL_WHOLE(Int)                                                            \
  RL_DEVICE bool isnan(Int) { return false; }                                    \
  RL_DEVICE Int floor(Int x) { return x; }                                       \
  RL_DEVICE Int ceil(Int x) { return x; }                                        \
  RL_DEVICE Int trunc(Int x) { return x; }                                       \
  RL_DEVICE Int rint(Int x) { return x; }                                        \
  RL_DEVICE Int fabs(Int x) { return x < 0 ? Int(0 - uint64(x)) : x; }           \
  RL_DEVICE Int fmod(Int a, Int b) { return integer_remainder(a, b); }
RL_WHOLE(uint8) RL_WHOLE(int8) RL_WHOLE(int16) RL_WHOLE(int32) RL_WHOLE(int64)
#undef RL_WHOLE
RL_DEVICE bool isnan(bool) { return false; }
)";

}  // namespace

std::string formula_prelude(Elements elements) {
  switch (elements) {
    case Elements::Real: return special_functions() + kNeighbours;
    case Elements::Complex: return complex_functions();
    default: return kIntegers;
  }
}

}  // namespace rl
