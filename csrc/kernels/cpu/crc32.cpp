#include "kernels/cpu/crc32.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rl::cpu {
namespace {

// ---- eight bytes per step, by tables

constexpr uint32_t kPolynomial = 0xEDB88320;  // reflected

constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (c & 1 ? kPolynomial : 0);
    tables[0][i] = c;
  }
  for (int t = 1; t < 8; t++)
    for (int i = 0; i < 256; i++) {
      uint32_t c = tables[t - 1][i];
      tables[t][i] = (c >> 8) ^ tables[0][c & 255];
    }
  return tables;
}

constexpr auto kTables = make_tables();

uint32_t by_tables(const unsigned char* p, size_t n, uint32_t c) {
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= c;
    c = 0;
    for (int i = 0; i < 8; i++) c ^= kTables[7 - i][(word >> (8 * i)) & 255];
  }
  for (; n > 0; n--, p++) c = (c >> 8) ^ kTables[0][(c ^ *p) & 255];
  return c;
}

#if defined(__x86_64__)

// ---- 64 bytes per step, by carry-less multiplication
//
// Multiplying by x^k modulo the polynomial moves a remainder k bits ahead in the message, so four
// registers run over every fourth 16 bytes, are folded into one, and the tables finish. Each pair
// of factors belongs to the two halves of a register.

#define RL_CLMUL __attribute__((target("pclmul,sse4.1")))

RL_CLMUL inline __m128i load(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

RL_CLMUL inline __m128i fold(__m128i value, __m128i factors, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(value, factors, 0x00);
  __m128i high = _mm_clmulepi64_si128(value, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

RL_CLMUL uint32_t by_folding(const unsigned char* p, size_t n, uint32_t c) {
  const __m128i ahead64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);  // 512 bits ahead
  const __m128i ahead16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);  // 128 bits ahead
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(int(c)));
  __m128i b = load(p + 16), d = load(p + 32), e = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = fold(a, ahead64, load(p));
    b = fold(b, ahead64, load(p + 16));
    d = fold(d, ahead64, load(p + 32));
    e = fold(e, ahead64, load(p + 48));
  }
  a = fold(fold(fold(a, ahead16, b), ahead16, d), ahead16, e);
  unsigned char last[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), a);
  return by_tables(p, n, by_tables(last, 16, 0));
}

#endif

}  // namespace

uint32_t crc32(const void* data, size_t size, uint32_t before) {
  auto* p = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds && size >= 64) return ~by_folding(p, size, ~before);
#endif
  return ~by_tables(p, size, ~before);
}

}  // namespace rl::cpu
