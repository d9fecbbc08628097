#include "kernels/cpu/half.h"

#include <bit>

#include "kernels/cpu/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define RL_F16C 1
#include <cpuid.h>

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
  static const bool yes = [] {
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return yes;
}

// Runs are mostly parts of a longer one, and the conversions' buffers keep the machine from seeing
// that: the next part is asked for while this one is read.
constexpr int64_t kAhead = 512;

template <class T>
RL_AVX512 void floats_avx512(float* out, const T* in, int64_t n) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    _mm_prefetch(reinterpret_cast<const char*>(in + i + kAhead), _MM_HINT_T0);
    _mm512_storeu_ps(out + i, wide16(in + i));
    _mm512_storeu_ps(out + i + 16, wide16(in + i + 16));
  }
  widen(in + i, out + i, n - i);
}

__attribute__((target("avx512f,avx512bw"))) void bfloats_avx512(BF16* out, const float* in,
                                                                int64_t n) {
  __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m512i low = rounded16(_mm512_loadu_ps(in + i));
    __m512i high = rounded16(_mm512_loadu_ps(in + i + 16));
    // Packs within each 128 bits, hence the order.
    __m512i both = _mm512_permutexvar_epi64(order, _mm512_packus_epi32(low, high));
    _mm512_storeu_si512(out + i, both);
  }
  narrow(in + i, 0, out + i, n - i);
}

bool has_avx512() {
  static const bool yes = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  return yes;
}
#endif

RL_CLONES void floats_plain(float* out, const BF16* in, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(uint32_t(in[i].bits) << 16);
}

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

void floats_from_halves(float* out, const BF16* in, int64_t n) {
#ifdef RL_F16C
  if (has_avx512()) return floats_avx512(out, in, n);
#endif
  floats_plain(out, in, n);
}

void floats_from_halves(float* out, const F16* in, int64_t n) {
  int64_t done = 0;
#ifdef RL_F16C
  if (has_avx512()) return floats_avx512(out, in, n);
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
  if (has_avx512()) return bfloats_avx512(out, in, n);
#endif
  bfloats_plain(out, in, n);
}

}  // namespace rl::cpu
