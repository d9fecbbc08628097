// Distributions over torch's stream. Each says how many words an element takes and how they become
// a number: both are part of what a seed means.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/mersenne.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 512;
constexpr double kPi = 3.14159265358979323846;

// Calls make(values, count) for blocks of n elements and stores the values as d, rounded through
// float where torch does.
template <class V, class Make>
void blocks(DType d, void* out, int64_t n, const Make& make) {
  constexpr DType from = std::is_same_v<V, double>  ? DType::F64
                         : std::is_same_v<V, float> ? DType::F32
                                                    : DType::I64;
  V block[kBlock];
  float rounded[kBlock];
  bool half = d == DType::F16 || d == DType::BF16;
  for (int64_t i = 0; i < n; i += kBlock) {
    int64_t count = std::min(kBlock, n - i);
    make(block, count);
    char* target = static_cast<char*>(out) + i * itemsize(d);
    if (half && from != DType::F32) {
      for (int64_t k = 0; k < count; k++) rounded[k] = float(block[k]);
      convert_unit(d, target, DType::F32, rounded, count);
    } else {
      convert_unit(d, target, from, block, count);
    }
  }
}

// value(), n times.
template <class V, class F>
void each(DType d, void* out, int64_t n, const F& value) {
  blocks<V>(d, out, n, [&](V* block, int64_t count) {
    for (int64_t k = 0; k < count; k++) block[k] = value();
  });
}

// value(u) for n uniform numbers of double precision.
template <class V, class F>
void each_uniform(Mersenne& m, DType d, void* out, int64_t n, const F& value) {
  blocks<V>(d, out, n, [&](V* block, int64_t count) {
    double draws[kBlock];
    m.uniform(draws, count);
    for (int64_t k = 0; k < count; k++) block[k] = value(draws[k]);
  });
}

// The nearest value of the type.
float rounded(DType d, double x) {
  float f = float(x);
  if (d == DType::F32) return f;
  uint16_t bits;
  convert_unit(d, &bits, DType::F32, &f, 1);
  convert_unit(DType::F32, &f, d, &bits, 1);
  return f;
}

// n numbers in blocks of 16. An incomplete block at the end is drawn anew with those before it;
// whether it was drawn before is torch's choice by dtype.
template <class T, class Uniform, class Block>
void normal_blocks(T* x, int64_t n, bool all, const Uniform& uniform, const Block& block) {
  uniform(x, all ? n : n / 16 * 16);
  block(x, n / 16);
  if (n % 16 == 0) return;
  uniform(x + n - 16, 16);
  block(x + n - 16, 1);
}

// Box-Muller in blocks: 8 radii and 8 angles become 16 numbers.
void normal_doubles(double* x, int64_t blocks, double mean, double std) {
  for (double* end = x + 16 * blocks; x < end; x += 16) {
    for (int j = 0; j < 8; j++) {
      double radius = std::sqrt(-2 * std::log(1 - x[j])), angle = 2 * kPi * x[j + 8];
      x[j] = std::fma(radius * std::cos(angle), std, mean);
      x[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

// The first index with the greatest value.
int64_t argmax(const std::vector<double>& x) {
  return std::max_element(x.begin(), x.end()) - x.begin();
}

template <class T>
void with_replacement(Mersenne& m, const double* weights, int64_t cols, int64_t samples,
                      int64_t* out) {
  std::vector<T> sums(static_cast<size_t>(cols));
  T sum = 0;
  for (int64_t j = 0; j < cols; j++) sums[size_t(j)] = sum += T(weights[j]);
  for (T& s : sums) s /= sum;
  sums.back() = 1;
  for (int64_t i = 0; i < samples; i++) {
    double u = m.uniform();
    auto below = [u](T s, double) { return double(s) < u; };
    out[i] = std::lower_bound(sums.begin(), sums.end(), u, below) - sums.begin();
  }
}

}  // namespace

void fill_uniform(Mersenne& m, DType d, void* out, int64_t n, double from, double to) {
  if (d == DType::F64) return m.uniform(static_cast<double*>(out), n, from, to - from);
  auto low = float(from), width = float(to) - low;
  if (d == DType::F32) return m.uniform(static_cast<float*>(out), n, low, width);
  float limit = rounded(d, to);
  blocks<float>(d, out, n, [&](float* block, int64_t count) {
    uint16_t halves[kBlock];
    m.uniform(block, count, low, width);
    convert_unit(d, halves, DType::F32, block, count);
    convert_unit(DType::F32, block, d, halves, count);
    for (int64_t k = 0; k < count; k++)
      if (block[k] >= limit) block[k] = low;
  });
}

void fill_normal(Mersenne& m, DType d, void* out, int64_t n, double mean, double std,
                 bool contiguous) {
  if (n < 16 || !contiguous)
    return each<double>(d, out, n, [&] { return std::fma(m.normal(), std, mean); });
  if (d == DType::F64)
    return normal_blocks(
        static_cast<double*>(out), n, true, [&](double* x, int64_t count) { m.uniform(x, count); },
        [&](double* x, int64_t blocks) { normal_doubles(x, blocks, mean, std); });
  auto floats = [&](float* x) {
    normal_blocks(
        x, n, d == DType::F32, [&](float* at, int64_t count) { m.uniform(at, count); },
        [&](float* at, int64_t blocks) { box_muller(at, blocks, float(mean), float(std)); });
  };
  if (d == DType::F32) return floats(static_cast<float*>(out));
  std::vector<float> x(static_cast<size_t>(n));
  floats(x.data());
  convert_unit(d, out, DType::F32, x.data(), n);
}

void fill_integers(Mersenne& m, DType d, void* out, int64_t n, int64_t low, uint64_t range) {
  auto base = uint64_t(low);
  if (range == 0) return each<int64_t>(d, out, n, [&] { return int64_t(base + m.draw64()); });
  if (range >= uint64_t(1) << 28)
    return each<int64_t>(d, out, n, [&] { return int64_t(base + m.draw64() % range); });
  auto small = uint32_t(range);
  blocks<int64_t>(d, out, n, [&](int64_t* block, int64_t count) {
    uint32_t words[kBlock];
    m.draw(words, count);
    for (int64_t k = 0; k < count; k++) block[k] = int64_t(base + words[k] % small);
  });
}

void fill_any_integers(Mersenne& m, DType d, void* out, int64_t n) {
  if (d == DType::F64 || d == DType::I64) {
    uint64_t limit = d == DType::F64 ? (uint64_t(1) << 53) + 1 : uint64_t(1) << 63;
    return each<int64_t>(d, out, n, [&] { return int64_t(m.draw64() % limit); });
  }
  uint32_t limit = is_floating(d)     ? (1u << (d == DType::F32   ? 24
                                                : d == DType::F16 ? 11
                                                                  : 8)) +
                                            1
                   : d == DType::Bool ? 2
                   : d == DType::U8   ? 256
                                      : 1u << (8 * itemsize(d) - 1);
  each<int64_t>(d, out, n, [&] { return int64_t(m.draw32() % limit); });
}

void fill_bernoulli(Mersenne& m, DType d, void* out, int64_t n, double p) {
  each_uniform<float>(m, d, out, n, [&](double u) { return u < p ? 1.0f : 0.0f; });
}

void fill_bernoulli_each(Mersenne& m, DType d, void* out, const double* p, bool fine, int64_t n) {
  if (fine)
    return each_uniform<float>(m, d, out, n, [&](double u) { return u < *p++ ? 1.0f : 0.0f; });
  each<float>(d, out, n, [&] {
    float u = float(int32_t(m.draw32() & 0xffffff)) * 0x1p-24f;
    return u < float(*p++) ? 1.0f : 0.0f;
  });
}

void fill_exponential(Mersenne& m, DType d, void* out, int64_t n, double lambda) {
  double scale = -1.0 / lambda;
  each_uniform<double>(m, d, out, n, [&](double u) { return scale * std::log1p(-u); });
}

void fill_log_normal(Mersenne& m, DType d, void* out, int64_t n, double mean, double std) {
  each<double>(d, out, n, [&] { return std::exp(std::fma(m.normal(), std, mean)); });
}

void fill_geometric(Mersenne& m, DType d, void* out, int64_t n, double p) {
  double scale = std::log1p(-p);
  each_uniform<double>(m, d, out, n, [&](double u) { return std::ceil(std::log(u) / scale); });
}

void fill_cauchy(Mersenne& m, DType d, void* out, int64_t n, double median, double sigma) {
  each_uniform<double>(
      m, d, out, n, [&](double u) { return std::fma(sigma, std::tan(kPi * (u - 0.5)), median); });
}

void fill_permutation(Mersenne& m, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = i;
  bool large = n >= UINT32_MAX / 20;
  for (int64_t i = 0; i < n - 1; i++) {
    auto rest = uint64_t(n - i);
    uint64_t step = large ? m.draw64() % rest : m.draw32() % rest;
    std::swap(out[i], out[i + int64_t(step)]);
  }
}

void multinomial(Mersenne& m, DType d, const double* weights, int64_t rows, int64_t cols,
                 int64_t samples, bool replacement, int64_t* out) {
  if (replacement && samples > 1) {
    auto draw = d == DType::F64 ? with_replacement<double> : with_replacement<float>;
    for (int64_t r = 0; r < rows; r++)
      draw(m, weights + r * cols, cols, samples, out + r * samples);
    return;
  }
  // A race: weight over waiting time, the greatest first.
  std::vector<double> race(static_cast<size_t>(cols));
  std::vector<int64_t> order(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < cols; j++) {
      double time = -std::log1p(-m.uniform()), w = weights[r * cols + j];
      race[size_t(j)] = d == DType::F64 ? w / time : rounded(d, float(w) / rounded(d, time));
      order[size_t(j)] = j;
    }
    if (samples == 1) {
      out[r] = argmax(race);
      continue;
    }
    auto ahead = [&](int64_t a, int64_t b) { return race[size_t(a)] > race[size_t(b)]; };
    std::partial_sort(order.begin(), order.begin() + samples, order.end(), ahead);
    std::copy_n(order.begin(), samples, out + r * samples);
  }
}

}  // namespace rl::cpu
