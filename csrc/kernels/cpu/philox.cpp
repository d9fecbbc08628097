#include "kernels/cpu/philox.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define RL_X86 1
#include <immintrin.h>
// The intrinsics' own headers pass deliberately undefined registers (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace rl::cpu {
namespace {

constexpr uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

// Compiled for the baseline on purpose: wider clones choose a 64-bit multiply that is slower.
void group_plain(uint64_t seed, uint64_t first, uint32_t* words) {
  uint32_t *c0 = words, *c1 = c0 + kLanes, *c2 = c1 + kLanes, *c3 = c2 + kLanes;
  for (int64_t l = 0; l < kLanes; ++l) {
    c0[l] = uint32_t(first + uint64_t(l));
    c1[l] = uint32_t((first + uint64_t(l)) >> 32);
    c2[l] = c3[l] = 0;
  }
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      uint64_t p0 = uint64_t(c0[l]) * kMultiply0, p1 = uint64_t(c2[l]) * kMultiply1;
      uint32_t n0 = uint32_t(p1 >> 32) ^ c1[l] ^ k0, n2 = uint32_t(p0 >> 32) ^ c3[l] ^ k1;
      c0[l] = n0;
      c1[l] = uint32_t(p1);
      c2[l] = n2;
      c3[l] = uint32_t(p0);
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
}

#ifdef RL_X86
// Eight counters in 64-bit lanes; what gathers in the upper halves never reaches a lower one.
__attribute__((target("avx512f"))) void group_avx512(uint64_t seed, uint64_t first,
                                                     uint32_t* words) {
  const __m512i m0 = _mm512_set1_epi64(kMultiply0), m1 = _mm512_set1_epi64(kMultiply1);
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  __m512i c0[2], c1[2], c2[2] = {}, c3[2] = {};
  for (int h = 0; h < 2; ++h) {
    c0[h] = _mm512_add_epi64(_mm512_set1_epi64(int64_t(first + 8 * uint64_t(h))), lanes);
    c1[h] = _mm512_srli_epi64(c0[h], 32);
  }
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m512i p0 = _mm512_mul_epu32(c0[h], m0), p1 = _mm512_mul_epu32(c2[h], m1);
      c0[h] = _mm512_xor_epi64(_mm512_xor_epi64(_mm512_srli_epi64(p1, 32), c1[h]), key0);
      c2[h] = _mm512_xor_epi64(_mm512_xor_epi64(_mm512_srli_epi64(p0, 32), c3[h]), key1);
      c1[h] = p1;
      c3[h] = p0;
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  for (int h = 0; h < 2; ++h) {
    const __m512i c[4] = {c0[h], c1[h], c2[h], c3[h]};
    for (int w = 0; w < 4; ++w) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + w * kLanes + h * 8),
                          _mm512_cvtepi64_epi32(c[w]));
    }
  }
}

bool has_avx512() {
  static const bool yes = __builtin_cpu_supports("avx512f");
  return yes;
}
#endif

}  // namespace

void philox(uint64_t seed, uint64_t first, int64_t groups, uint32_t* words) {
  auto group = group_plain;
#ifdef RL_X86
  if (has_avx512()) group = group_avx512;
#endif
  for (int64_t g = 0; g < groups; ++g) {
    group(seed, first + uint64_t(g * kLanes), words + g * kWords);
  }
}

void philox64(uint64_t seed, uint64_t first, int64_t groups, uint64_t* draws) {
  for (int64_t g = 0; g < groups; ++g, draws += kDraws) {
    uint32_t words[kWords];
    philox(seed, first + uint64_t(g * kLanes), 1, words);
    for (int64_t l = 0; l < kLanes; ++l) {
      draws[l] = uint64_t(words[l]) << 32 | words[kLanes + l];
      draws[kLanes + l] = uint64_t(words[2 * kLanes + l]) << 32 | words[3 * kLanes + l];
    }
  }
}

}  // namespace rl::cpu
