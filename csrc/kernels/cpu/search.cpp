#include "kernels/cpu/kernels.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

template <class T, class I>
void search_as(const T* row, const int64_t* sorter, const T* values, I* index, int64_t rows,
               int64_t length, int64_t count, bool right) {
  parallel_for(rows * count, grain(16), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t r = i / count * length;
      const T* edges = row + r;
      const int64_t* order = sorter ? sorter + r : nullptr;
      T value = values[i];
      int64_t low = 0, high = length;
      while (low < high) {
        int64_t middle = low + (high - low) / 2;
        T edge = edges[order ? order[middle] : middle];
        // Written so that a NaN goes to the end.
        bool before = right ? !(edge > value) : !(edge >= value);
        before ? low = middle + 1 : high = middle;
      }
      index[i] = I(low);
    }
  });
}

template <class T, class W>
void count_weighted(const int64_t* x, const W* weights, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[x[i]] += weights ? T(weights[i]) : T(1);
}

template <class T>
void histogram_as(const T* x, int64_t* counts, int64_t n, int64_t bins, T low, T high) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= low && x[i] <= high)) continue;
    int64_t bin = int64_t((x[i] - low) * T(bins) / (high - low));
    ++counts[std::min(bin, bins - 1)];
  }
}

}  // namespace

void search_sorted(DType d, const void* row, const int64_t* sorter, const void* values,
                   DType index_type, void* index, int64_t rows, int64_t length, int64_t count,
                   bool right) {
  visit(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, c64> && !std::is_same_v<T, c128>) {
      auto search = [&](auto* at) {
        search_as(static_cast<const T*>(row), sorter, static_cast<const T*>(values), at, rows,
                  length, count, right);
      };
      if (index_type == DType::I32) search(static_cast<int32_t*>(index));
      else search(static_cast<int64_t*>(index));
    }
  });
}

void bincount(const int64_t* x, DType weight_type, const void* weights, void* y, int64_t n) {
  if (!weights)
    return count_weighted(x, static_cast<const int64_t*>(nullptr), static_cast<int64_t*>(y), n);
  if (weight_type == DType::F32)
    return count_weighted(x, static_cast<const float*>(weights), static_cast<float*>(y), n);
  count_weighted(x, static_cast<const double*>(weights), static_cast<double*>(y), n);
}

void histogram(DType d, const void* x, int64_t* counts, int64_t n, int64_t bins, double low,
               double high) {
  if (d == DType::F32)
    return histogram_as(static_cast<const float*>(x), counts, n, bins, float(low), float(high));
  histogram_as(static_cast<const double*>(x), counts, n, bins, low, high);
}

}  // namespace rl::cpu
