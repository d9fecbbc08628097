// Runs of halves to and from float on machines with AVX-512, for kernels that are compiled for it.
#pragma once

#include <immintrin.h>

#include <cstring>
// The intrinsics' own headers pass deliberately undefined registers (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "tensor/dtype.h"

namespace rl::cpu {

#define RL_AVX512 __attribute__((target("avx512f")))

inline RL_AVX512 __m512 wide16(const BF16* x) {
  __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline RL_AVX512 __m512 wide16(const F16* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}

inline RL_AVX512 __m256 wide8(const BF16* x) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline RL_AVX512 __m256 wide8(const F16* x) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm512_castps512_ps256(_mm512_cvtph_ps(_mm256_castsi128_si256(bits)));
}

// The bits of bfloat16s, each in 32. Rounds to nearest even; a NaN stays one.
inline RL_AVX512 __m512i rounded16(__m512 x) {
  __m512i u = _mm512_castps_si512(x);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_srli_epi32(rounded, 16);
}
inline RL_AVX512 __m256i narrow16(__m512 x, BF16) { return _mm512_cvtepi32_epi16(rounded16(x)); }
inline RL_AVX512 __m256i narrow16(__m512 x, F16) {
  return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

template <class T>
RL_AVX512 inline void widen(const T* in, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, wide16(in + i));
  if (i < n) {
    alignas(32) T rest[16] = {};
    std::memcpy(static_cast<void*>(rest), in + i, size_t(n - i) * sizeof(T));
    _mm512_mask_storeu_ps(out + i, __mmask16((1u << (n - i)) - 1), wide16(rest));
  }
}

// out = in + beta * out
template <class T>
RL_AVX512 inline void narrow(const float* in, float beta, T* out, int64_t n) {
  __m512 keep = _mm512_set1_ps(beta);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512 x = _mm512_loadu_ps(in + i);
    if (beta != 0) x = _mm512_fmadd_ps(wide16(out + i), keep, x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), narrow16(x, T()));
  }
  if (i < n) {
    size_t count = size_t(n - i);
    __m512 x = _mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), in + i);
    alignas(32) T rest[16] = {};
    std::memcpy(static_cast<void*>(rest), out + i, count * sizeof(T));
    if (beta != 0) x = _mm512_fmadd_ps(wide16(rest), keep, x);
    _mm256_store_si256(reinterpret_cast<__m256i*>(rest), narrow16(x, T()));
    std::memcpy(static_cast<void*>(out + i), rest, count * sizeof(T));
  }
}

}  // namespace rl::cpu
