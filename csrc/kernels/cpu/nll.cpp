#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"

#include <cstring>

namespace rl::cpu {
namespace {

// Calls f with a value of the C++ type of a real floating dtype.
template <class F>
decltype(auto) visit_real(DType d, F&& f) {
  switch (d) {
    case DType::F16: return f(F16{});
    case DType::BF16: return f(BF16{});
    case DType::F64: return f(double{});
    default: return f(float{});
  }
}

}  // namespace

void nll_loss(DType d, const void* x, const int64_t* target, const void* weight,
              int64_t ignore_index, void* loss, double* total_weight, int64_t rows, int64_t classes,
              int64_t inner) {
  visit_real(d, [&](auto zero) {
    using T = decltype(zero);
    const T* w = static_cast<const T*>(weight);
    double total = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = static_cast<const T*>(x) + r * classes * inner;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t t = target[r * inner + i];
        T& out = static_cast<T*>(loss)[r * inner + i];
        if (t == ignore_index) {
          out = T(0.0f);
          continue;
        }
        auto value = row[t * inner + i];
        total += w ? double(w[t]) : 1;
        out = T(w ? -w[t] * value : -value);
      }
    }
    *total_weight = total;
  });
}

void mean_factor(const double* total, const int64_t* target, int64_t count, int64_t ignore_index,
                 double* factor) {
  *factor = 1 / *total;
  if (!target || !std::isinf(*factor)) return;
  if (std::all_of(target, target + count, [=](int64_t t) { return t == ignore_index; }))
    *factor = 0;
}

void sum_times(DType d, const void* x, void* y, int64_t n, const double* factor) {
  sum(d, d, x, y, 1, n, 1, 1 / *factor);
}

void nll_loss_backward(DType d, const void* g, int64_t g_stride, const double* factor,
                       const int64_t* target, const void* weight, int64_t ignore_index, void* gx,
                       int64_t rows, int64_t classes, int64_t inner) {
  visit_real(d, [&](auto zero) {
    using T = decltype(zero);
    using C = decltype(T() * T());
    double scale = *factor;
    const T* w = static_cast<const T*>(weight);
    std::memset(gx, 0, size_t(rows * classes * inner) * sizeof(T));
    for (int64_t r = 0; r < rows; ++r) {
      T* row = static_cast<T*>(gx) + r * classes * inner;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t at = r * inner + i, t = target[at];
        if (t == ignore_index) continue;
        C each = C(static_cast<const T*>(g)[at * g_stride]) * C(scale);
        row[t * inner + i] = T(w ? -w[t] * each : -each);
      }
    }
  });
}

void class_weights(DType d, const int64_t* target, const void* weight, int64_t ignore_index,
                   double smoothing, void* out, int64_t rows, int64_t classes, int64_t inner) {
  auto run = [&](auto zero) {
    using T = decltype(zero);
    const T* w = static_cast<const T*>(weight);
    T each = T(smoothing / double(classes)), own = T(1 - smoothing);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < inner; ++i) {
        T* line = static_cast<T*>(out) + r * classes * inner + i;
        int64_t t = target[r * inner + i];
        bool ignored = t == ignore_index;
        for (int64_t c = 0; c < classes; ++c)
          line[c * inner] = ignored ? T(0) : w ? each * w[c] : each;
        if (!ignored) line[t * inner] += w ? own * w[t] : own;
      }
  };
  d == DType::F64 ? run(double{}) : run(float{});
}

Outside count_classes(const int64_t* list, double* counts, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < classes; ++k) {
      int64_t at = r * classes + k, c = list[at];
      if (c == -1) break;
      if (uint64_t(c) >= uint64_t(classes)) return {at, c};
      counts[r * classes + c] += 1;
    }
  return {};
}

Outside find_bad_target(const int64_t* target, int64_t count, int64_t classes,
                        int64_t ignore_index) {
  for (int64_t i = 0; i < count; ++i)
    if (uint64_t(target[i]) >= uint64_t(classes) && target[i] != ignore_index)
      return {i, target[i]};
  return {};
}

}  // namespace rl::cpu
