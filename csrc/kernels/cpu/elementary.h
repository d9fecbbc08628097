// exp and erf of a float in line, for loops that the compiler vectorises: a call of libmvec spills
// the vector registers around it. No branches, no tables; a NaN stays one.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace rl::cpu {

// 2^k times a polynomial in the rest, within 1 unit in the last place. 2^k is applied in two steps
// to reach the subnormals.
RL_INLINE float exp_of(float x) {
  // 1.5 * 2^23: adding it leaves an integer in the low bits. 254 more are two exponents' biases.
  constexpr float round = 12582912 + 254;
  x = x < -104 ? -104 : x;
  x = x > 89 ? 89 : x;
  float shifted = x * 1.44269504f + round, k = shifted - round;
  float r = (x - k * 0.693145752f) - k * 1.42860677e-06f;
  float p = 0.0013813145f;
  p = p * r + 0.008369419f;
  p = p * r + 0.041668456f;
  p = p * r + 0.16666515f;
  p = p * r + 0.49999994f;
  p = p * r * r + r + 1;
  // Halves of k + 254, each moved into an exponent's place; what is above them falls out.
  uint32_t bits = std::bit_cast<uint32_t>(shifted), half = bits >> 1;
  float first = std::bit_cast<float>(half << 23);
  float second = std::bit_cast<float>((bits - half) << 23);
  return p * first * second;
}
RL_INLINE double exp_of(double x) { return ::exp(x); }

// 1 - exp(-g(|x|)) with the sign of x, within about 2 units in the last place. g = -log(1 - erf)
// is smooth: a polynomial, fitted so that the error of erf is level. With g = k log 2 + f,
//   1 - exp(-g) = (1 - 2^-k) + 2^-k (1 - exp(-f))
// loses nothing near 0, where k is 0, and is 1 where 2^-k no longer counts. Both polynomials begin
// with the variable itself, so that only their small rest is rounded several times.
RL_INLINE float erf_of(float x) {
  constexpr float round = 12582912;
  float a = __builtin_fabsf(x);
  a = a > 4 ? 4 : a;
  float q = -9.38795074e-06f;
  q = q * a + 0.0001188613605f;
  q = q * a - 0.0006373635842f;
  q = q * a + 0.001675676322f;
  q = q * a - 0.0001695040119f;
  q = q * a - 0.01914782263f;
  q = q * a + 0.1027763039f;
  q = q * a + 0.6366195679f;
  q = q * a + 0.1283791661f;
  float g = q * a + a;
  float shifted = g * 1.44269504f + round, k = shifted - round;
  float f = g - k * 0.693147181f;
  float p = -0.00138699566f;
  p = p * f + 0.008366251364f;
  p = p * f - 0.04166744277f;
  p = p * f + 0.1666654646f;
  p = p * f - 0.4999999702f;
  p = p * (f * f) + f;
  float scale = std::bit_cast<float>(0x3f800000u - (std::bit_cast<uint32_t>(shifted) << 23));
  return __builtin_copysignf(scale * p + (1 - scale), x);
}

}  // namespace rl::cpu
