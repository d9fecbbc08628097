#include "kernels/cpu/half.h"

#include <bit>

#include "kernels/cpu/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define RL_F16C 1
#include "kernels/cpu/wide512.h"
#endif

namespace rl::cpu {
namespace {

void floats_plain(float* out, const F16* in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = float(in[i]);
}

void halves_plain(F16* out, const float* in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F16(in[i]);
}

#ifdef RL_F16C
__attribute__((target("avx,f16c"))) int64_t floats_f16c(float* out, const F16* in, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(x));
  }
  return i;
}

__attribute__((target("avx,f16c"))) int64_t halves_f16c(F16* out, const float* in, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i x = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), x);
  }
  return i;
}

bool has_f16c() {
  static const bool yes = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return yes;
}

bool has_avx512() {
  static const bool yes = __builtin_cpu_supports("avx512f");
  return yes;
}
#endif

RL_CLONES void bfloats_plain(BF16* out, const float* in, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    // BF16's own conversion, without the branch that keeps a loop from being a vector one.
    uint32_t u = std::bit_cast<uint32_t>(in[i]), quiet = (u >> 16) | 0x40;
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    out[i].bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}

}  // namespace

RL_CLONES void floats_from_halves(float* out, const BF16* in, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(uint32_t(in[i].bits) << 16);
}

void floats_from_halves(float* out, const F16* in, int64_t n) {
  int64_t done = 0;
#ifdef RL_F16C
  if (has_avx512()) return widen(in, out, n);
  if (n >= 8 && has_f16c()) done = floats_f16c(out, in, n);
#endif
  floats_plain(out + done, in + done, n - done);
}

void halves_from_floats(F16* out, const float* in, int64_t n) {
  int64_t done = 0;
#ifdef RL_F16C
  if (has_avx512()) return narrow(in, 0, out, n);
  if (n >= 8 && has_f16c()) done = halves_f16c(out, in, n);
#endif
  halves_plain(out + done, in + done, n - done);
}

void halves_from_floats(BF16* out, const float* in, int64_t n) {
#ifdef RL_F16C
  if (has_avx512()) return narrow(in, 0, out, n);
#endif
  bfloats_plain(out, in, n);
}

}  // namespace rl::cpu
