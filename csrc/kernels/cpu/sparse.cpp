#include "kernels/cpu/sparse.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {

namespace {

template <class T>
struct IsComplex : std::false_type {};
template <class R>
struct IsComplex<std::complex<R>> : std::true_type {};

// y + a * b. Of complex numbers without the detour for infinities, which a sum does not need.
template <class T>
RL_INLINE T fused(T y, T a, T b) {
  if constexpr (IsComplex<T>::value) {
    return T(y.real() + a.real() * b.real() - a.imag() * b.imag(),
             y.imag() + a.real() * b.imag() + a.imag() * b.real());
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return T(U(y) + U(a) * U(b));
  } else {
    return y + a * b;
  }
}

// One line of the result for `width` columns of x. A block of it stays in registers.
template <class T>
RL_CLONES bool line_product(const int64_t* entry, int64_t first, int64_t last, const int64_t* other,
                            const T* value, const T* x, int64_t rows, int64_t width,
                            T* __restrict y) {
  constexpr int64_t kBlock = 256 / int64_t(sizeof(T));
  bool inside = true;
  int64_t j = 0;
  for (; j + kBlock <= width; j += kBlock) {
    T sum[kBlock] = {};
    for (int64_t k = first; k < last; ++k) {
      int64_t e = entry ? entry[k] : k, at = other[e];
      if (uint64_t(at) >= uint64_t(rows)) [[unlikely]] {
        inside = false;
        continue;
      }
      const T* __restrict from = x + at * width + j;
      T v = value[e];
#pragma omp simd
      for (int64_t i = 0; i < kBlock; ++i) sum[i] = fused(sum[i], v, from[i]);
    }
    for (int64_t i = 0; i < kBlock; ++i) y[j + i] = sum[i];
  }
  if (j == width) return inside;
  int64_t rest = width - j;
  T sum[kBlock] = {};
  for (int64_t k = first; k < last; ++k) {
    int64_t e = entry ? entry[k] : k, at = other[e];
    if (uint64_t(at) >= uint64_t(rows)) [[unlikely]] {
      inside = false;
      continue;
    }
    const T* __restrict from = x + at * width + j;
    T v = value[e];
#pragma omp simd
    for (int64_t i = 0; i < rest; ++i) sum[i] = fused(sum[i], v, from[i]);
  }
  for (int64_t i = 0; i < rest; ++i) y[j + i] = sum[i];
  return inside;
}

// A line for a vector x: four sums, so that additions do not wait for one another.
template <class T>
bool line_dot(const int64_t* entry, int64_t first, int64_t last, const int64_t* other,
              const T* value, const T* x, int64_t rows, T* y) {
  T sum[4] = {};
  bool inside = true;
  int64_t k = first;
  auto add = [&](int64_t k, T& into) {
    int64_t e = entry ? entry[k] : k, at = other[e];
    if (uint64_t(at) < uint64_t(rows)) [[likely]]
      into = fused(into, value[e], x[at]);
    else inside = false;
  };
  for (; k + 4 <= last; k += 4)
    for (int i = 0; i < 4; ++i) add(k + i, sum[i]);
  for (; k < last; ++k) add(k, sum[0]);
  *y = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return inside;
}

template <class T>
RL_CLONES T row_dot(const T* __restrict a, const T* __restrict b, int64_t n) {
  constexpr int kLanes = IsComplex<T>::value ? 4 : 16;
  T sum[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) sum[l] = fused(sum[l], a[i + l], b[i + l]);
  for (; i < n; ++i) sum[i % kLanes] = fused(sum[i % kLanes], a[i], b[i]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) sum[l] = sum[l] + sum[l + half];
  return sum[0];
}

template <class F>
void visit_product(DType d, const F& f) {
  switch (d) {
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    case DType::C64: return f(c64{});
    case DType::C128: return f(c128{});
    default: return f(int64_t{});
  }
}

}  // namespace

Lines lines_of(const int64_t* line, int64_t entries, int64_t lines) {
  Lines found;
  found.begin.assign(size_t(lines) + 1, 0);
  bool sorted = true;
  for (int64_t k = 0; k < entries; ++k) {
    ++found.begin[size_t(line[k]) + 1];
    sorted &= k == 0 || line[k - 1] <= line[k];
  }
  for (int64_t i = 0; i < lines; ++i) found.begin[size_t(i) + 1] += found.begin[size_t(i)];
  if (sorted) return found;
  found.order.resize(size_t(entries));
  std::vector<int64_t> next(found.begin.begin(), found.begin.end() - 1);
  for (int64_t k = 0; k < entries; ++k) found.order[size_t(next[size_t(line[k])]++)] = k;
  return found;
}

bool sparse_product(DType d, const int64_t* begin, const int64_t* order, int64_t lines,
                    const int64_t* other, const void* value, const void* x, int64_t rows,
                    int64_t width, void* y) {
  std::atomic<bool> inside{true};
  visit_product(d, [&](auto zero) {
    using T = decltype(zero);
    auto* v = static_cast<const T*>(value);
    auto* from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(y);
    int64_t each = lines > 0 ? (begin[lines] / lines + 1) * (width + 4) : 1;
    parallel_for(lines, grain(each), [&](int64_t i, int64_t end) {
      bool good = true;
      for (; i < end; ++i)
        good &= width == 1 ? line_dot(order, begin[i], begin[i + 1], other, v, from, rows, to + i)
                           : line_product(order, begin[i], begin[i + 1], other, v, from, rows,
                                          width, to + i * width);
      if (!good) inside = false;
    });
  });
  return inside;
}

void sampled_product(DType d, const int64_t* row, const int64_t* column, int64_t entries,
                     const void* a, const void* b, int64_t width, void* out) {
  visit_product(d, [&](auto zero) {
    using T = decltype(zero);
    auto* left = static_cast<const T*>(a);
    auto* right = static_cast<const T*>(b);
    auto* to = static_cast<T*>(out);
    parallel_for(entries, grain(width + 4), [&](int64_t k, int64_t end) {
      for (; k < end; ++k) to[k] = row_dot(left + row[k] * width, right + column[k] * width, width);
    });
  });
}

}  // namespace rl::cpu
