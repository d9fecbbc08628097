#include "kernels/cpu/mersenne.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

constexpr int kShift = 397;
constexpr double kPi = 3.14159265358979323846;

RL_INLINE uint32_t twist(uint32_t high, uint32_t low) {
  uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ (low & 1 ? 0x9908b0dfu : 0u);
}

RL_INLINE uint32_t tempered(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// torch's saved state. Gaps of its C structs stay zero.
enum Offset : int {
  kSeed = 0,
  kLeft = 8,
  kSeeded = 12,
  kNext = 16,
  kState = 24,
  kSpare = 32 + 8 * 624,
  kHasSpare = kSpare + 16
};

// words[i] = words[i + shift] ^ twist(words[i], words[i + 1]), 16 at a time: none of them reads what
// another one writes.
RL_CLONES void renew_words(uint32_t* words, int begin, int end, int shift) {
  int i = begin;
  for (; i + 16 <= end; i += 16) {
#pragma omp simd
    for (int k = i; k < i + 16; k++) words[k] = words[k + shift] ^ twist(words[k], words[k + 1]);
  }
  for (; i < end; i++) words[i] = words[i + shift] ^ twist(words[i], words[i + 1]);
}

RL_CLONES void temper(const uint32_t* words, uint32_t* out, int n) {
  for (int i = 0; i < n; i++) out[i] = tempered(words[i]);
}

// 24 bits of a word and 53 bits of two of them, as numbers from [0, 1), scaled.
RL_CLONES void to_floats(const uint32_t* words, int64_t n, float from, float width, float* out) {
  for (int64_t i = 0; i < n; i++)
    out[i] = __builtin_fmaf(float(int32_t(words[i] & 0xffffff)) * 0x1p-24f, width, from);
}
RL_CLONES void to_doubles(const uint32_t* words, int64_t n, double from, double width,
                          double* out) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = uint64_t(words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1];
    out[i] = __builtin_fma(double(int64_t(bits)) * 0x1p-53, width, from);
  }
}

template <class T>
void put(char* bytes, int offset, T value) {
  std::memcpy(bytes + offset, &value, sizeof value);
}
template <class T>
T get(const char* bytes, int offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

}  // namespace
Mersenne::Mersenne(uint64_t seed) : left(1), next(0), spare(0), has_spare(false) {
  words[0] = uint32_t(seed);
  for (uint32_t i = 1; i < kWords; i++)
    words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
}

void Mersenne::renew() {
  renew_words(words, 0, kWords - kShift, kShift);
  renew_words(words, kWords - kShift, kWords - 1, kShift - kWords);
  words[kWords - 1] = words[kShift - 1] ^ twist(words[kWords - 1], words[0]);
  left = kWords;
  next = 0;
}

uint32_t Mersenne::draw32() {
  if (--left == 0) renew();
  return tempered(words[next++]);
}

void Mersenne::draw(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (left == 1) {
      renew();
      left++;  // as before a draw
    }
    int count = int(std::min<int64_t>(n, left - 1));
    temper(words + next, out, count);
    left -= count;
    next += count;
    out += count;
    n -= count;
  }
}

void Mersenne::uniform(float* out, int64_t n, float from, float width) {
  uint32_t block[kWords];
  for (int64_t i = 0; i < n; i += kWords) {
    int64_t count = std::min<int64_t>(kWords, n - i);
    draw(block, count);
    to_floats(block, count, from, width, out + i);
  }
}

void Mersenne::uniform(double* out, int64_t n, double from, double width) {
  uint32_t block[kWords];
  for (int64_t i = 0; i < n; i += kWords / 2) {
    int64_t count = std::min<int64_t>(kWords / 2, n - i);
    draw(block, 2 * count);
    to_doubles(block, count, from, width, out + i);
  }
}

double Mersenne::normal() {
  if (has_spare) {
    has_spare = false;
    return spare;
  }
  double u = uniform(), v = uniform();
  double radius = std::sqrt(-2.0 * std::log1p(-v)), angle = 2.0 * kPi * u;
  spare = radius * std::sin(angle);
  has_spare = true;
  return radius * std::cos(angle);
}

void save(const Mersenne& m, uint64_t seed, char* bytes) {
  std::memset(bytes, 0, kMersenneBytes);
  put<uint64_t>(bytes, kSeed, seed);
  put<int32_t>(bytes, kLeft, m.left);
  put<int32_t>(bytes, kSeeded, 1);
  put<uint64_t>(bytes, kNext, uint64_t(m.next));
  for (int i = 0; i < Mersenne::kWords; i++) put<uint64_t>(bytes, kState + 8 * i, m.words[i]);
  if (m.has_spare) put<double>(bytes, kSpare, m.spare);
  put<int32_t>(bytes, kHasSpare, m.has_spare);
}

bool restore(Mersenne& m, uint64_t& seed, const char* bytes) {
  int32_t left = get<int32_t>(bytes, kLeft);
  uint64_t next = get<uint64_t>(bytes, kNext);
  bool fresh = left == 1 && next == 0;
  if (left < 1 || left > Mersenne::kWords || (!fresh && next + uint64_t(left) != 625)) return false;
  m.left = left;
  m.next = int32_t(next);
  for (int i = 0; i < Mersenne::kWords; i++)
    m.words[i] = uint32_t(get<uint64_t>(bytes, kState + 8 * i));
  m.has_spare = get<int32_t>(bytes, kHasSpare) != 0;
  m.spare = m.has_spare ? get<double>(bytes, kSpare) : 0;
  seed = get<uint64_t>(bytes, kSeed);
  return true;
}

}  // namespace rl::cpu
