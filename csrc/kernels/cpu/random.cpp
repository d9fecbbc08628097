// Distributions by element.
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 16;  // groups made at a time
constexpr double kPi = 3.14159265358979323846;

struct Stream {
  uint64_t seed, offset;
};

void draw(Stream s, int64_t group, int64_t groups, uint32_t* words) {
  philox(s.seed, s.offset + uint64_t(group * kLanes), groups, words);
}
void draw(Stream s, int64_t group, int64_t groups, uint64_t* draws) {
  philox64(s.seed, s.offset + uint64_t(group * kLanes), groups, draws);
}

// Draws a Word for each of n elements, has kernel(begin, count, words, values) make V's of them,
// count being whole groups, and stores those as d.
template <class Word, class V, class Kernel>
void generate(DType d, void* out, int64_t n, Stream s, const Kernel& kernel) {
  constexpr int64_t group = kLanes * 16 / int64_t(sizeof(Word)), block = group * kBlock;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) Word words[block];
    alignas(64) V values[block];
    for (int64_t i = begin; i < end; i += block) {
      int64_t count = std::min(block, end - i), groups = (count + group - 1) / group;
      draw(s, i / group, groups, words);
      kernel(i, groups * group, words, values);
      convert_unit(d, static_cast<char*>(out) + i * itemsize(d), dtype_of<V>::value, values, count);
    }
  });
}

// `bits` bits of a word as a number in [0, 1), scaled.
RL_CLONES void uniform32(const uint32_t* words, int64_t n, int bits, float from, float width,
                         float last, float* out) {
  float unit = 1.0f / float(uint32_t(1) << bits);
  for (int64_t i = 0; i < n; ++i) {
    float x = from + width * (float(int32_t(words[i] >> (32 - bits))) * unit);
    out[i] = x < last ? x : last;
  }
}

RL_CLONES void uniform64(const uint64_t* draws, int64_t n, double from, double width, double last,
                         double* out) {
  for (int64_t i = 0; i < n; ++i) {
    double x = from + width * (double(int64_t(draws[i] >> 11)) * 0x1p-53);
    out[i] = x < last ? x : last;
  }
}

// Box-Muller: two normals from two uniforms, the first of them in (0, 1]. The second is an angle:
// its upper bits are a quadrant, the rest lies within an eighth of a turn, where short series do.
RL_CLONES void normal32(const uint32_t* words, int64_t n, float mean, float std, float* out) {
  for (int64_t i = 0; i < n; i += 2 * kLanes) {
#pragma omp simd
    for (int64_t l = i; l < i + kLanes; ++l) {
      float u = float(int32_t(words[l] >> 8) + 1) * 0x1p-24f;
      float radius = std * std::sqrt(-2.0f * logf(u));
      uint32_t angle = words[l + kLanes], quadrant = (angle + (1u << 29)) >> 30;
      float x = float(int32_t(angle - (quadrant << 30))) * float(kPi * 0x1p-31), y = x * x;
      float sine = x * (1 + y * (-1.f / 6 + y * (1.f / 120 + y * (-1.f / 5040 + y / 362880))));
      float cosine =
          1 + y * (-.5f + y * (1.f / 24 + y * (-1.f / 720 + y * (1.f / 40320 - y / 3628800))));
      float a = quadrant & 1 ? sine : cosine, b = quadrant & 1 ? cosine : sine;
      out[l] = mean + ((quadrant + 1) & 2 ? -radius : radius) * a;
      out[l + kLanes] = mean + (quadrant & 2 ? -radius : radius) * b;
    }
  }
}

RL_CLONES void normal64(const uint64_t* draws, int64_t n, double mean, double std, double* out) {
  for (int64_t i = 0; i < n; i += 2 * kLanes) {
#pragma omp simd
    for (int64_t l = i; l < i + kLanes; ++l) {
      double u = double(int64_t(draws[l] >> 11) + 1) * 0x1p-53;
      double angle = double(int64_t(draws[l + kLanes]) >> 11) * (kPi * 0x1p-52);
      double radius = std * std::sqrt(-2.0 * log(u));
      out[l] = mean + radius * cos(angle);
      // Not sin(angle): the compiler would merge the two into a sincos that has no vector form.
      out[l + kLanes] = mean + radius * cos(angle - kPi / 2);
    }
  }
}

// The uniform lies strictly between 0 and 1, so the result is neither 0 nor infinite.
RL_CLONES void exponential32(const uint32_t* words, int64_t n, float scale, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = -scale * logf((float(int32_t(words[i] >> 9)) + 0.5f) * 0x1p-23f);
  }
}

RL_CLONES void exponential64(const uint64_t* draws, int64_t n, double scale, double* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = -scale * log((double(int64_t(draws[i] >> 12)) + 0.5) * 0x1p-52);
  }
}

// The high half of draw * range: uniform but for a bias of range / 2^64.
RL_CLONES void integers(const uint64_t* draws, int64_t n, uint64_t low, uint64_t range,
                        int64_t* out) {
  if (range == 0) {
    for (int64_t i = 0; i < n; ++i) out[i] = int64_t(low + draws[i]);
  } else if (range >> 32 == 0) {
    for (int64_t i = 0; i < n; ++i) {
      uint64_t carry = (draws[i] & 0xffffffff) * range >> 32;
      out[i] = int64_t(low + (((draws[i] >> 32) * range + carry) >> 32));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = int64_t(low + uint64_t((unsigned __int128)(draws[i]) * range >> 64));
    }
  }
}

RL_CLONES void below(const uint32_t* words, int64_t n, uint32_t limit, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = words[i] < limit ? 1.0f : 0.0f;
}

RL_CLONES void below_each(const uint64_t* draws, int64_t n, const double* p, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = double(int64_t(draws[i] >> 11)) * 0x1p-53 < p[i] ? 1.0f : 0.0f;
  }
}

// The greatest value of dtype d below x.
double before(DType d, double x) {
  if (d == DType::F64) return std::nextafter(x, -INFINITY);
  float f = float(x);
  if (d == DType::F32) return f < x ? f : std::nextafterf(f, -INFINITY);
  uint16_t bits;
  auto value = [&](uint16_t b) {
    float v;
    convert_unit(DType::F32, &v, d, &b, 1);
    return double(v);
  };
  convert_unit(d, &bits, DType::F32, &f, 1);
  if (value(bits) < x) return value(bits);
  if ((bits & 0x7fff) == 0) return value(0x8001);
  return value(uint16_t(bits & 0x8000 ? bits + 1 : bits - 1));
}

}  // namespace

void fill_uniform(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double from,
                  double to) {
  Stream s{seed, offset};
  double last = std::max(from, before(d, to));
  if (d == DType::F64) {
    return generate<uint64_t, double>(
        d, out, n, s, [&](int64_t, int64_t count, const uint64_t* draws, double* x) {
          uniform64(draws, count, from, to - from, last, x);
        });
  }
  // As many bits as the dtype holds, so that [0, 1) needs no rounding.
  int bits = d == DType::F32 ? 24 : d == DType::F16 ? 11 : 8;
  return generate<uint32_t, float>(
      d, out, n, s, [&](int64_t, int64_t count, const uint32_t* words, float* x) {
        uniform32(words, count, bits, float(from), float(to - from), float(last), x);
      });
}

void fill_normal(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double mean,
                 double std) {
  Stream s{seed, offset};
  if (d == DType::F64) {
    return generate<uint64_t, double>(
        d, out, n, s, [&](int64_t, int64_t count, const uint64_t* draws, double* x) {
          normal64(draws, count, mean, std, x);
        });
  }
  return generate<uint32_t, float>(d, out, n, s,
                                   [&](int64_t, int64_t count, const uint32_t* words, float* x) {
                                     normal32(words, count, float(mean), float(std), x);
                                   });
}

void fill_exponential(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset,
                      double lambda) {
  Stream s{seed, offset};
  if (d == DType::F64) {
    return generate<uint64_t, double>(
        d, out, n, s, [&](int64_t, int64_t count, const uint64_t* draws, double* x) {
          exponential64(draws, count, 1 / lambda, x);
        });
  }
  return generate<uint32_t, float>(d, out, n, s,
                                   [&](int64_t, int64_t count, const uint32_t* words, float* x) {
                                     exponential32(words, count, float(1 / lambda), x);
                                   });
}

void fill_integers(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, int64_t low,
                   uint64_t range) {
  return generate<uint64_t, int64_t>(
      d, out, n, {seed, offset}, [&](int64_t, int64_t count, const uint64_t* draws, int64_t* x) {
        integers(draws, count, uint64_t(low), range, x);
      });
}

void fill_bernoulli(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double p) {
  double limit = std::nearbyint(p * 0x1p32);
  return generate<uint32_t, float>(d, out, n, {seed, offset},
                                   [&](int64_t, int64_t count, const uint32_t* words, float* x) {
                                     if (limit < 0x1p32)
                                       return below(words, count, uint32_t(limit), x);
                                     std::fill_n(x, count, 1.0f);
                                   });
}

void fill_bernoulli_each(DType d, void* out, const double* p, int64_t n, uint64_t seed,
                         uint64_t offset) {
  return generate<uint64_t, float>(
      d, out, n, {seed, offset},
      [&](int64_t begin, int64_t count, const uint64_t* draws, float* x) {
        below_each(draws, std::min(count, n - begin), p + begin, x);
      });
}

}  // namespace rl::cpu
