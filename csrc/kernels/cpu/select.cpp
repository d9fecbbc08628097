#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return x != x;
}
// In the order in which a NaN comes last.
template <class T>
bool precedes(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

// Calls pick(line, position) for every line, copied together and numbered, and stores the place
// in `position` that it returns.
template <class T, class Pick>
void pick_lines(const T* x, T* y, int64_t* index, int64_t outer, int64_t n, int64_t inner,
                const Pick& pick) {
  parallel_for(outer * inner, grain(2 * n), [&](int64_t begin, int64_t end) {
    std::vector<T> line(static_cast<size_t>(n));
    std::vector<int64_t> position(static_cast<size_t>(n));
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + i / inner * n * inner + i % inner;
      for (int64_t k = 0; k < n; ++k) line[size_t(k)] = from[k * inner];
      std::iota(position.begin(), position.end(), 0);
      int64_t at = pick(line, position);
      index[i] = at;
      y[i] = from[at * inner];
    }
  });
}

// Hoare's selection with the median of three; `line` and `position` move together. Which of equal
// values is found follows from the order of these exchanges, and programs see it.
template <class T>
int64_t select(std::vector<T>& line, std::vector<int64_t>& position, int64_t k) {
  T* a = line.data();
  auto swap = [&](int64_t i, int64_t j) {
    std::swap(a[i], a[j]);
    std::swap(position[size_t(i)], position[size_t(j)]);
  };
  int64_t left = 0, right = int64_t(line.size()) - 1;
  while (left < right) {
    if (right == left + 1) {
      if (precedes(a[right], a[left])) swap(left, right);
      break;
    }
    swap(left + (right - left) / 2, left + 1);
    if (precedes(a[right], a[left + 1])) swap(left + 1, right);
    if (precedes(a[right], a[left])) swap(left, right);
    if (precedes(a[left], a[left + 1])) swap(left + 1, left);
    int64_t i = left + 1, j = right;
    T pivot = a[left];
    while (true) {
      do ++i;
      while (precedes(a[i], pivot));
      do --j;
      while (precedes(pivot, a[j]));
      if (j < i) break;
      swap(i, j);
    }
    swap(left, j);
    if (j <= k) left = i;
    if (j >= k) right = j - 1;
  }
  return position[size_t(k)];
}

template <class T>
int64_t find_median(const std::vector<T>& line, std::vector<int64_t>& position) {
  auto nan = std::find_if(line.begin(), line.end(), is_nan<T>);
  if (nan != line.end()) return nan - line.begin();
  auto middle = position.begin() + (int64_t(line.size()) - 1) / 2;
  std::nth_element(position.begin(), middle, position.end(), [&](int64_t i, int64_t j) {
    T a = line[size_t(i)], b = line[size_t(j)];
    return a < b || (a == b && i < j);
  });
  return *middle;
}

template <class T>
int64_t find_mode(const std::vector<T>& line, std::vector<int64_t>& position) {
  auto value = [&](size_t i) { return line[size_t(position[i])]; };
  std::sort(position.begin(), position.end(),
            [&](int64_t i, int64_t j) { return precedes(line[size_t(i)], line[size_t(j)]); });
  int64_t most = 0, found = 0, run = 0;
  for (size_t i = 0; i < position.size(); ++i) {
    ++run;
    if (i + 1 < position.size() && value(i) == value(i + 1)) continue;
    if (run > most) {
      most = run;
      found = position[i];
    }
    run = 0;
  }
  return found;
}

template <class F>
void for_real(DType d, const F& f) {
  visit(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, c64> && !std::is_same_v<T, c128>) f(zero);
  });
}

}  // namespace

void kth(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n, int64_t inner,
         int64_t k) {
  for_real(d, [&](auto zero) {
    using T = decltype(zero);
    pick_lines(static_cast<const T*>(x), static_cast<T*>(y), index, outer, n, inner,
               [&](auto& line, auto& position) { return select(line, position, k - 1); });
  });
}

void median(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
            int64_t inner) {
  for_real(d, [&](auto zero) {
    using T = decltype(zero);
    pick_lines(static_cast<const T*>(x), static_cast<T*>(y), index, outer, n, inner,
               [](auto& line, auto& position) { return find_median(line, position); });
  });
}

void median_value(DType d, const void* x, void* y, int64_t n) {
  for_real(d, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x);
    const T* nan = std::find_if(from, from + n, is_nan<T>);
    if (nan != from + n) {
      *static_cast<T*>(y) = *nan;
      return;
    }
    std::vector<T> line(from, from + n);
    auto middle = line.begin() + (n - 1) / 2;
    std::nth_element(line.begin(), middle, line.end());
    *static_cast<T*>(y) = *middle;
  });
}

void mode(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
          int64_t inner) {
  for_real(d, [&](auto zero) {
    using T = decltype(zero);
    pick_lines(static_cast<const T*>(x), static_cast<T*>(y), index, outer, n, inner,
               [](auto& line, auto& position) { return find_mode(line, position); });
  });
}

}  // namespace rl::cpu
