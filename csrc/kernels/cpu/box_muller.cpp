// Box-Muller with the polynomials of Moshier's Cephes library, each step rounded where torch rounds.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/mersenne.h"
#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

RL_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

template <class To, class From>
RL_INLINE To bits(From x) {
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

// The logarithm of a number from (0, 1].
RL_INLINE float logarithm(float u) {
  auto word = bits<uint32_t>(u);
  float mantissa = bits<float>((word & 0x007fffffu) | 0x3f000000u);
  bool low = mantissa < 0.707106781186547524f;
  float exponent = float(int32_t(word >> 23) - 126) - (low ? 1.0f : 0.0f);
  float x = (mantissa - 1.0f) + (low ? mantissa : 0.0f), z = x * x;
  float y = fma(7.0376836292E-2f, x, -1.1514610310E-1f);
  y = fma(y, x, 1.1676998740E-1f);
  y = fma(y, x, -1.2420140846E-1f);
  y = fma(y, x, 1.4249322787E-1f);
  y = fma(y, x, -1.6668057665E-1f);
  y = fma(y, x, 2.0000714765E-1f);
  y = fma(y, x, -2.4999993993E-1f);
  y = fma(y, x, 3.3333331174E-1f);
  y = fma(y * x, z, exponent * -2.12194440e-4f);
  return fma(exponent, 0.693359375f, x + fma(z, -0.5f, y));
}

// Sine and cosine of an angle from [0, 2 pi).
RL_INLINE void turn(float angle, float& sine, float& cosine) {
  int32_t octant = (int32_t(angle * 1.27323954473516f) + 1) & ~1;
  auto k = float(octant);
  float x = fma(k, -0.78515625f, angle);
  x = fma(k, -2.4187564849853515625e-4f, x);
  x = fma(k, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c =
      fma(fma(2.443315711809948E-005f, z, -1.388731625493765E-003f), z, 4.166664568298827E-002f);
  c = fma(c * z, z, z * -0.5f) + 1.0f;
  float s = fma(fma(-1.9515295891E-4f, z, 8.3321608736E-3f), z, -1.6666654611E-1f);
  s = fma(s * z, x, x);
  bool swap = octant & 2;
  float a = swap ? c : s, b = swap ? s : c;
  sine = octant & 4 ? -a : a;
  cosine = (octant - 2) & 4 ? b : -b;
}

}  // namespace

RL_CLONES void box_muller(float* x, int64_t blocks, float mean, float std) {
  for (int64_t i = 0; i < blocks; i++, x += 16) {
#pragma omp simd
    for (int j = 0; j < 8; j++) {
      float sine, cosine, radius = std::sqrt(-2.0f * logarithm(1.0f - x[j]));
      turn(6.28318530717958647692f * x[j + 8], sine, cosine);
      x[j] = fma(radius * cosine, std, mean);
      x[j + 8] = fma(radius * sine, std, mean);
    }
  }
}

}  // namespace rl::cpu
