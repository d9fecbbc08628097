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

// What a line is made of.
template <class T>
struct Operands {
  const int64_t* order;  // the entries of a line, or null: they stand in a row
  const int64_t* other;
  const T* value;
  const T* x;
  int64_t rows, width;
};

// `Block` columns of a line of the result, from column j on; the sums stay in registers.
template <int64_t Block, class T>
RL_INLINE bool block_product(const Operands<T>& in, int64_t first, int64_t last, int64_t j,
                             T* __restrict y) {
  T sum[Block] = {};
  bool inside = true;
  for (int64_t k = first; k < last; ++k) {
    int64_t e = in.order ? in.order[k] : k, at = in.other[e];
    if (uint64_t(at) >= uint64_t(in.rows)) [[unlikely]] {
      inside = false;
      continue;
    }
    const T* __restrict from = in.x + at * in.width + j;
    T v = in.value[e];
#pragma omp simd
    for (int64_t i = 0; i < Block; ++i) sum[i] = fused(sum[i], v, from[i]);
  }
  for (int64_t i = 0; i < Block; ++i) y[j + i] = sum[i];
  return inside;
}

// A line for a vector x: four sums, so that additions do not wait for one another.
template <bool Ordered, class T>
RL_INLINE bool line_dot(const Operands<T>& in, int64_t first, int64_t last, T* y) {
  const int64_t* __restrict other = in.other;
  const T* __restrict value = in.value;
  const T* __restrict x = in.x;
  uint64_t rows = uint64_t(in.rows);
  T sum[4] = {};
  bool inside = true;
  int64_t k = first;
  auto add = [&](int64_t k, T& into) {
    int64_t e = Ordered ? in.order[k] : k;
    uint64_t at = uint64_t(other[e]);
    if (at >= rows) [[unlikely]]
      inside = false;
    else into = fused(into, value[e], x[at]);
  };
  for (; k + 4 <= last; k += 4) {
    add(k, sum[0]);
    add(k + 1, sum[1]);
    add(k + 2, sum[2]);
    add(k + 3, sum[3]);
  }
  for (; k < last; ++k) add(k, sum[0]);
  *y = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return inside;
}

template <class T>
RL_CLONES bool lines_product(Operands<T> in, const int64_t* begin, int64_t i, int64_t end, T* y) {
  constexpr int64_t kUnit = 16 / int64_t(sizeof(T)) > 0 ? 16 / int64_t(sizeof(T)) : 1;
  bool inside = true;
  for (; i < end; ++i) {
    int64_t first = begin[i], last = begin[i + 1], j = 0;
    T* line = y + i * in.width;
    if (in.width == 1) {
      inside &=
          in.order ? line_dot<true>(in, first, last, line) : line_dot<false>(in, first, last, line);
      continue;
    }
    for (; j + 16 * kUnit <= in.width; j += 16 * kUnit)
      inside &= block_product<16 * kUnit>(in, first, last, j, line);
    for (; j + 4 * kUnit <= in.width; j += 4 * kUnit)
      inside &= block_product<4 * kUnit>(in, first, last, j, line);
    for (; j + kUnit <= in.width; j += kUnit)
      inside &= block_product<kUnit>(in, first, last, j, line);
    for (; j < in.width; ++j) inside &= block_product<1>(in, first, last, j, line);
  }
  return inside;
}

// The sum of a power of two of numbers, halves first.
template <int Count, class T>
RL_INLINE T sum_of(const T* x) {
  if constexpr (Count == 1) {
    return *x;
  } else {
    T half[Count / 2];
#pragma omp simd
    for (int l = 0; l < Count / 2; ++l) half[l] = x[l] + x[l + Count / 2];
    return sum_of<Count / 2>(half);
  }
}

template <class T>
RL_CLONES void entries_product(const int64_t* row, const int64_t* column, int64_t k, int64_t end,
                               const T* left, const T* right, int64_t width, T* to) {
  constexpr int kLanes = IsComplex<T>::value ? 4 : 16;
  for (; k < end; ++k) {
    const T* __restrict a = left + row[k] * width;
    const T* __restrict b = right + column[k] * width;
    T sum[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes)
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) sum[l] = fused(sum[l], a[i + l], b[i + l]);
    for (int l = 0; i < width; ++i, ++l) sum[l] = fused(sum[l], a[i], b[i]);
    to[k] = sum_of<kLanes>(sum);
  }
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
    Operands<T> in{order, other, v, from, rows, width};
    int64_t each = lines > 0 ? (begin[lines] / lines + 1) * (width + 4) : 1;
    parallel_for(lines, grain(each), [&](int64_t i, int64_t end) {
      if (!lines_product(in, begin, i, end, to)) inside = false;
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
      entries_product(row, column, k, end, left, right, width, to);
    });
  });
}

}  // namespace rl::cpu
