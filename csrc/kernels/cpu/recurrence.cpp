#include "kernels/cpu/kernels.h"

#include <algorithm>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kColumns = 128;  // columns walked side by side

// Calls body(outer index, first column, columns) for every tile.
template <class Body>
void tiles(int64_t outer, int64_t n, int64_t inner, const Body& body) {
  int64_t across = (inner + kColumns - 1) / kColumns, width = std::min(inner, kColumns);
  parallel_for(outer * across, grain(n * width), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t j = t % across * kColumns;
      body(t / across, j, std::min(kColumns, inner - j));
    }
  });
}

template <class T>
void recurrence_as(const T* a, const T* b, T* y, int64_t outer, int64_t n, int64_t inner,
                   bool reverse) {
  tiles(outer, n, inner, [&](int64_t o, int64_t column, int64_t width) {
    const T* links = a + o * (n - 1) * inner + column;
    int64_t at = o * n * inner + column;
    for (int64_t step = 0; step < n; ++step) {
      int64_t k = reverse ? n - 1 - step : step, here = at + k * inner;
      if (step == 0) {
        std::copy(b + here, b + here + width, y + here);
        continue;
      }
      const T* link = links + (reverse ? k : k - 1) * inner;
      const T* last = y + here + (reverse ? inner : -inner);
      for (int64_t j = 0; j < width; ++j) y[here + j] = b[here + j] + link[j] * last[j];
    }
  });
}

template <class T>
struct Wide {
  using type =
      std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, Bool>, int64_t, double>;
};
template <class T>
struct Wide<std::complex<T>> {
  using type = c128;
};

template <class T>
void suffix_sum_as(const T* x, T* y, int64_t outer, int64_t n, int64_t inner) {
  using C = typename Wide<T>::type;
  tiles(outer, n, inner, [&](int64_t o, int64_t column, int64_t width) {
    C sum[kColumns] = {};
    for (int64_t k = n - 1; k >= 0; --k) {
      int64_t here = (o * n + k) * inner + column;
      for (int64_t j = 0; j < width; ++j) {
        sum[j] = wrapping_add(sum[j], C(x[here + j]));
        if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) y[here + j] = T(float(sum[j]));
        else y[here + j] = T(sum[j]);
      }
    }
  });
}

// log(exp(a) + exp(b)), relative to the one with the larger real part.
template <class T>
std::complex<T> log_add_exp(std::complex<T> a, std::complex<T> b) {
  if (a.real() < b.real()) std::swap(a, b);
  if (std::isinf(a.real()) && a.real() == b.real()) {
    if (a.real() < 0) return a;
    return std::log(std::exp(a) + std::exp(b));
  }
  return a + std::log(T(1) + std::exp(b - a));
}

template <class C>
void logcumsumexp_as(const C* x, C* y, int64_t outer, int64_t n, int64_t inner) {
  tiles(outer, n, inner, [&](int64_t o, int64_t column, int64_t width) {
    for (int64_t k = 0; k < n; ++k) {
      int64_t here = (o * n + k) * inner + column;
      for (int64_t j = here; j < here + width; ++j)
        y[j] = k == 0 ? x[j] : log_add_exp(y[j - inner], x[j]);
    }
  });
}

}  // namespace

void recurrence(DType d, const void* a, const void* b, void* y, int64_t outer, int64_t n,
                int64_t inner, bool reverse) {
  visit(d, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, c64> || std::is_same_v<T, c128>)
      recurrence_as(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), outer,
                    n, inner, reverse);
  });
}

void suffix_sum(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  visit(d, [&](auto zero) {
    using T = decltype(zero);
    suffix_sum_as(static_cast<const T*>(x), static_cast<T*>(y), outer, n, inner);
  });
}

void complex_logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n,
                          int64_t inner) {
  if (d == DType::C64)
    return logcumsumexp_as(static_cast<const c64*>(x), static_cast<c64*>(y), outer, n, inner);
  logcumsumexp_as(static_cast<const c128*>(x), static_cast<c128*>(y), outer, n, inner);
}

}  // namespace rl::cpu
