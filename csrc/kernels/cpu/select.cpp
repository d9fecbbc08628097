#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cpu/block.h"
#include "kernels/cpu/move2d.h"
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

// Lines are read as one of three types, which order elements as their own does.
template <class F>
void as_ordered(DType d, const F& f) {
  if (is_integral(d)) f(int64_t());
  else if (d == DType::F64) f(double());
  else f(float());
}

// Calls pick(line, position) for every line, copied together and numbered, and stores the place
// in `position` that it returns.
template <class Pick>
void pick_lines(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                int64_t inner, const Pick& pick) {
  int64_t size = itemsize(d);
  as_ordered(d, [&](auto zero) {
    using C = decltype(zero);
    Convert load = loader<C>(d);
    parallel_for(outer * inner, grain(2 * n), [&](int64_t begin, int64_t end) {
      std::vector<C> line(static_cast<size_t>(n));
      std::vector<char> raw(load ? size_t(n * size) : 0);
      std::vector<int64_t> position(static_cast<size_t>(n));
      char* to = load ? raw.data() : reinterpret_cast<char*>(line.data());
      for (int64_t i = begin; i < end; ++i) {
        const char* from = static_cast<const char*>(x) + (i / inner * n * inner + i % inner) * size;
        move2d(size, to, 0, size, from, 0, inner * size, 1, n);
        if (load) load(raw.data(), line.data(), n);
        std::iota(position.begin(), position.end(), 0);
        int64_t at = pick(line, position);
        index[i] = at;
        std::memcpy(static_cast<char*>(y) + i * size, from + at * inner * size, size_t(size));
      }
    });
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

}  // namespace

void kth(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n, int64_t inner,
         int64_t k) {
  pick_lines(d, x, y, index, outer, n, inner,
             [&](auto& line, auto& position) { return select(line, position, k - 1); });
}

void median(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
            int64_t inner) {
  pick_lines(d, x, y, index, outer, n, inner,
             [](auto& line, auto& position) { return find_median(line, position); });
}

void median_value(DType d, const void* x, void* y, int64_t n) {
  as_ordered(d, [&](auto zero) {
    using C = decltype(zero);
    std::vector<C> line(static_cast<size_t>(n));
    const C* from = Source<C>(d, x).fetch(0, n, line.data());
    const C* nan = std::find_if(from, from + n, is_nan<C>);
    if (nan != from + n) return put(d, y, 0, nan, 1);
    if (from != line.data()) std::copy(from, from + n, line.data());
    auto middle = line.begin() + (n - 1) / 2;
    std::nth_element(line.begin(), middle, line.end());
    put(d, y, 0, &*middle, 1);
  });
}

void mode(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
          int64_t inner) {
  pick_lines(d, x, y, index, outer, n, inner,
             [](auto& line, auto& position) { return find_mode(line, position); });
}

}  // namespace rl::cpu
