#include "kernels/cpu/float8.h"

#include <bit>
#include <cmath>

namespace rl::cpu {
namespace {

// A sign, an exponent and a mantissa. What is past `largest` becomes `overflow`: the largest number,
// an infinity or NaN. The types without a negative zero have NaN in its place, and no infinities.
struct Format {
  int mantissa, bias;
  uint8_t largest, overflow, nan;
  bool negative_zero;
};
constexpr Format kFormats[] = {
    {3, 7, 0x7e, 0x7e, 0x7f, true},    // E4M3FN
    {2, 15, 0x7b, 0x7c, 0x7f, true},   // E5M2
    {3, 8, 0x7f, 0x80, 0x80, false},   // E4M3FNUZ
    {2, 16, 0x7f, 0x80, 0x80, false},  // E5M2FNUZ
};
constexpr int kFloat8 = 5;

int number_of(DType d) { return int(d) - int(DType::E4M3FN); }

float decoded(const Format& f, uint8_t byte) {
  int code = byte & 0x7f, exponent = code >> f.mantissa, rest = code & ((1 << f.mantissa) - 1);
  float sign = byte & 0x80 ? -1.0f : 1.0f;
  if (byte == 0x80 && !f.negative_zero) return NAN;
  if (code > f.largest) return code == f.overflow ? sign * INFINITY : std::copysign(NAN, sign);
  float units = float(exponent ? rest + (1 << f.mantissa) : rest);
  return sign * std::ldexp(units, (exponent ? exponent : 1) - f.bias - f.mantissa);
}

// A power of two without a sign; 255 is NaN.
float decoded_scale(uint8_t byte) { return byte == 255 ? NAN : std::ldexp(1.0f, int(byte) - 127); }

struct Decoded {
  float values[kFloat8][256];
  Decoded() {
    for (int code = 0; code < 256; code++) {
      for (int k = 0; k < kFloat8 - 1; k++) values[k][code] = decoded(kFormats[k], uint8_t(code));
      values[kFloat8 - 1][code] = decoded_scale(uint8_t(code));
    }
  }
};

uint8_t encoded(const Format& f, float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  auto special = [&](uint8_t code) { return uint8_t(f.negative_zero ? sign | code : code); };
  if (size >= 0x7f800000) return special(size > 0x7f800000 ? f.nan : f.overflow);
  int exponent = int(size >> 23) - 127, least = 1 - f.bias;
  // What is below the least normal number loses a digit more for each power of two.
  int shift = 23 - f.mantissa + (exponent < least ? least - exponent : 0);
  uint32_t code = 0;
  if (shift < 25) {
    uint32_t whole = (size & 0x7fffff) | 0x800000, half = 1u << (shift - 1);
    code = (whole + half - 1 + (whole >> shift & 1)) >> shift;
    if (exponent > least) code += uint32_t(exponent - least) << f.mantissa;
  }
  if (code > f.largest) return special(f.overflow);
  return uint8_t(code || f.negative_zero ? sign | code : 0);
}

// The sign is dropped; half-way numbers go up, but from the least power.
uint8_t encoded_scale(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x), exponent = bits >> 23 & 0xff;
  if (exponent == 0xff) return 0xff;
  bool half = bits & 0x400000, more = bits & 0x3fffff;
  return uint8_t(exponent + (half && (more || exponent > 0)));
}

}  // namespace

void floats_from_float8(DType d, float* out, const uint8_t* in, int64_t n) {
  static const Decoded all;
  const float* values = all.values[number_of(d)];
  for (int64_t i = 0; i < n; ++i) out[i] = values[in[i]];
}

void float8_from_floats(DType d, uint8_t* out, const float* in, int64_t n) {
  if (d == DType::E8M0FNU) {
    for (int64_t i = 0; i < n; ++i) out[i] = encoded_scale(in[i]);
    return;
  }
  const Format f = kFormats[number_of(d)];
  for (int64_t i = 0; i < n; ++i) out[i] = encoded(f, in[i]);
}

}  // namespace rl::cpu
