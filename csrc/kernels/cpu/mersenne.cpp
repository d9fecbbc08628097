#include "kernels/cpu/mersenne.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rl::cpu {
namespace {

constexpr int kShift = 397;
constexpr double kPi = 3.14159265358979323846;

uint32_t twist(uint32_t high, uint32_t low) {
  uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ (low & 1 ? 0x9908b0dfu : 0u);
}

uint32_t tempered(uint32_t y) {
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
};  // clang-format off

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
// clang-format on

Mersenne::Mersenne(uint64_t seed) : left(1), next(0), spare(0), has_spare(false) {
  words[0] = uint32_t(seed);
  for (uint32_t i = 1; i < kWords; i++)
    words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
}

void Mersenne::renew() {
  for (int i = 0; i < kWords - kShift; i++)
    words[i] = words[i + kShift] ^ twist(words[i], words[i + 1]);
  for (int i = kWords - kShift; i < kWords - 1; i++)
    words[i] = words[i + kShift - kWords] ^ twist(words[i], words[i + 1]);
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
    for (int i = 0; i < count; i++) out[i] = tempered(words[next + i]);
    left -= count;
    next += count;
    out += count;
    n -= count;
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
