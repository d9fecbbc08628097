// Gamma, Poisson and binomial numbers by rejection. The algorithms and the order of their draws are
// torch's, since both are part of what a seed means.
#include "kernels/cpu/variates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace rl::cpu {
namespace {

// Draws of the counter-based stream, one after the other, without end.
class Counter {
 public:
  explicit Counter(uint64_t key) : key_(key) {}
  double uniform() {
    if (used_ == kDraws) {
      philox64(key_, counter_, 1, draws_);
      counter_ += uint64_t(kLanes);
      used_ = 0;
    }
    return double(draws_[used_++] >> 11) * 0x1p-53;
  }
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double angle = 2 * M_PI * uniform(), radius = std::sqrt(-2 * std::log1p(-uniform()));
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t key_, counter_ = 0;
  int64_t used_ = kDraws;
  uint64_t draws_[kDraws];
  double spare_ = 0;
  bool has_spare_ = false;
};

// value(source, i) for all i: in one sequence with torch's engine, else in blocks whose streams are
// keyed by a draw each, so that any thread can make any block.
template <class F>
void for_each(const UniformSource& s, int64_t n, const F& value) {
  if (s.engine) {
    for (int64_t i = 0; i < n; i++) value(*s.engine, i);
    return;
  }
  parallel_for(n, kVariates, [&](int64_t begin, int64_t end) {
    uint64_t keys[kDraws];
    int64_t block = begin / kVariates;
    philox64(s.seed, s.offset + uint64_t(block / kDraws * kLanes), 1, keys);
    Counter counter(keys[block % kDraws]);
    for (int64_t i = begin; i < end; i++) value(counter, i);
  });
}

// Marsaglia and Tsang (2000): a cubed normal number. Shapes below 1 are raised by 1, and the result
// scaled by a power of a uniform number. The constants are single, as torch's.
template <class T, class S>
T gamma_variate(S& source, T shape) {
  double scale = 1;
  if (shape < 1) {
    if (shape == 0) return 0;
    scale = std::pow(1 - source.uniform(), double(1 / shape));
    shape += 1;
  }
  const double d = shape - 1.0f / 3.0f, c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = source.normal();
      y = 1 + c * x;
    } while (y <= 0);
    double v = y * y * y, u = 1 - source.uniform(), square = x * x;
    bool inside = u < 1 - 0.0331f * square * square;
    if (inside || std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return T(scale * d * v);
    if (std::isnan(v)) return T(v);
  }
}

// Products of uniform numbers for small rates, else Hoermann's transformed rejection (1993).
template <class S>
double poisson_variate(S& source, double rate) {
  if (std::isnan(rate)) return rate;
  if (rate == 0) return 0;
  if (rate < 10) {
    double limit = std::exp(-rate), product = source.uniform();
    double count = 0;
    for (; product > limit; product *= source.uniform()) count++;
    return count;
  }
  double root = std::sqrt(rate), log_rate = std::log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double alpha = 1.1239 + 1.1328 / (b - 3.4), limit = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = source.uniform() - 0.5, v = source.uniform(), rest = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / rest + b) * u + rate + 0.43);
    if (rest >= 0.07 && v <= limit) return k;
    if (k < 0 || (rest < 0.013 && v > rest)) continue;
    double ratio = std::log(v) + std::log(alpha) - std::log(a / (rest * rest) + b);
    if (ratio <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

// The sum of geometric waiting times, until it passes the number of trials.
template <class T, class S>
T binomial_by_waiting(S& source, T count, T p) {
  double step = std::log1p(-p), waited = 0;
  T successes = 0;
  for (;;) {
    waited += std::ceil(std::log(source.uniform()) / step);
    if (waited > count) return successes;
    successes += 1;
  }
}

// log(k!) less Stirling's formula.
double stirling_rest(double k) {
  static const double small[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                 0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                 0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                 0.00833056343336287};
  if (k < 10) return small[size_t(k)];
  double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Hoermann's transformed rejection for binomials (BTRS, 1993), for count * p of 10 and more.
template <class T, class S>
T binomial_by_rejection(S& source, T count, T p) {
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = count * p + 0.5, limit = 0.92 - 4.2 / b, odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * p);
  for (;;) {
    double u = source.uniform() - 0.5, v = source.uniform(), rest = 0.5 - std::fabs(u);
    T k = T(std::floor((2 * a / rest + b) * u + center));
    if (k < 0 || k > count) continue;
    if (rest >= 0.07 && v <= limit) return k;
    double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                   (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                   (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) +
                   stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
    if (std::log(v * alpha / (a / (rest * rest) + b)) <= bound) return k;
  }
}

template <class T, class S>
T binomial_variate(S& source, T count, T p) {
  if (std::isnan(p) || std::isnan(count)) return std::numeric_limits<T>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  T rarer = p <= T(0.5) ? p : T(1.0 - p);
  T drawn = count * rarer >= 10 ? binomial_by_rejection(source, count, rarer)
                                : binomial_by_waiting(source, count, rarer);
  return p <= T(0.5) ? drawn : count - drawn;
}

template <class F>
void with_type(DType d, const F& f) {
  if (d == DType::F64) f(double());
  else f(float());
}

}  // namespace

void fill_gamma(const UniformSource& s, DType d, const void* shape, void* out, int64_t n) {
  with_type(d, [&](auto zero) {
    using T = decltype(zero);
    auto* a = static_cast<const T*>(shape);
    auto* y = static_cast<T*>(out);
    for_each(s, n, [&](auto& source, int64_t i) {
      y[i] = std::max(gamma_variate<T>(source, a[i]), std::numeric_limits<T>::min());
    });
  });
}

void fill_poisson(const UniformSource& s, DType d, const void* rate, void* out, int64_t n) {
  with_type(d, [&](auto zero) {
    using T = decltype(zero);
    auto* a = static_cast<const T*>(rate);
    auto* y = static_cast<T*>(out);
    for_each(s, n, [&](auto& source, int64_t i) { y[i] = T(poisson_variate(source, a[i])); });
  });
}

void fill_binomial(const UniformSource& s, DType d, const void* count, const void* p, void* out,
                   int64_t n) {
  with_type(d, [&](auto zero) {
    using T = decltype(zero);
    auto* trials = static_cast<const T*>(count);
    auto* chance = static_cast<const T*>(p);
    auto* y = static_cast<T*>(out);
    for_each(s, n, [&](auto& source, int64_t i) {
      y[i] = binomial_variate<T>(source, trials[i], chance[i]);
    });
  });
}

void fill_dirichlet(const UniformSource& s, DType d, const void* shape, void* out, int64_t rows,
                    int64_t cols) {
  with_type(d, [&](auto zero) {
    using T = decltype(zero);
    auto* a = static_cast<const T*>(shape);
    auto* y = static_cast<T*>(out);
    std::vector<double> parts(size_t(rows * cols));
    for_each(s, rows * cols, [&](auto& source, int64_t i) {
      double part = gamma_variate<double>(source, a[i]);
      parts[size_t(i)] = std::max(part, std::numeric_limits<double>::min());
    });
    const T least = std::numeric_limits<T>::min(), most = std::nexttoward(T(1), 0.0L);
    for (int64_t r = 0; r < rows; r++) {
      double* row = parts.data() + r * cols;
      double sum = 0;
      for (int64_t c = 0; c < cols; c++) sum += row[c];
      for (int64_t c = 0; c < cols; c++)
        y[r * cols + c] = std::min(most, std::max(least, T(row[c] / sum)));
    }
  });
}

}  // namespace rl::cpu
