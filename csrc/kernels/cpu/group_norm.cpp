#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

// A group is `channels` rows of n elements that follow each other.
template <class C>
RL_CLONES void normalize_group(const C* x, const C* w, const C* b, C* y, C* mean, C* rstd,
                               int64_t channels, int64_t n, double eps) {
  int64_t count = channels * n;
  C m = C(sum_row(x, count) / double(count));
  double squares = sum_each<C>(count, RL_EACH(i) { return (x[i] - m) * (x[i] - m); });
  C r = C(1 / std::sqrt(squares / double(count) + eps));
  *mean = m;
  *rstd = r;
  if (n == 1) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      y[c] = (x[c] - m) * r * (w ? w[c] : C(1)) + (b ? b[c] : C(0));
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    C scale = w ? r * w[c] : r, shift = b ? b[c] : C(0);
    const C* from = x + c * n;
    C* to = y + c * n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - m) * scale + shift;
  }
}

// The gradient of a group; sums[c] of g and dots[c] of g * (x - mean) are left for w and b.
template <class C>
RL_CLONES void group_gradient(const C* g, const C* x, const C* w, C mean, C rstd, C* gx,
                              double* sums, double* dots, int64_t channels, int64_t n) {
  if (n == 1) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] = double(g[c]);
      dots[c] = double(g[c] * (x[c] - mean));
    }
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      const C *from = g + c * n, *at = x + c * n;
      sums[c] = sum_row(from, n);
      dots[c] = sum_each<C>(n, RL_EACH(i) { return from[i] * (at[i] - mean); });
    }
  }
  if (!gx) return;
  double sum =
      sum_each<double>(channels, RL_EACH(c) { return w ? sums[c] * double(w[c]) : sums[c]; });
  double dot =
      sum_each<double>(channels, RL_EACH(c) { return w ? dots[c] * double(w[c]) : dots[c]; });
  double count = double(channels) * double(n), scale = double(rstd);
  C shift = C(sum / count * scale);
  C slope = C(dot / count * scale * scale * scale);
  if (n == 1) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      gx[c] = g[c] * rstd * (w ? w[c] : C(1)) - shift - (x[c] - mean) * slope;
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    C scale = w ? rstd * w[c] : rstd;
    const C *from = g + c * n, *at = x + c * n;
    C* to = gx + c * n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] * scale - shift - (at[i] - mean) * slope;
  }
}

template <class C>
void forward(const C* x, const C* w, const C* b, C* y, C* mean, C* rstd, ChannelShape s,
             int64_t groups, double eps) {
  int64_t channels = s.channels / groups, n = channels * s.inner;
  parallel_for(s.batch * groups, grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t first = k % groups * channels;
      normalize_group(x + k * n, w ? w + first : w, b ? b + first : b, y + k * n, mean + k,
                      rstd + k, channels, s.inner, eps);
    }
  });
}

template <class C>
void backward(const C* g, const C* x, const C* w, const C* mean, const C* rstd, C* gx, C* gw, C* gb,
              ChannelShape s, int64_t groups) {
  int64_t channels = s.channels / groups, n = channels * s.inner, all = s.batch * s.channels;
  std::vector<double> sums(size_t(2 * all));
  double* dots = sums.data() + all;
  parallel_for(s.batch * groups, grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      group_gradient(g + k * n, x + k * n, w ? w + k % groups * channels : w, mean[k], rstd[k],
                     gx ? gx + k * n : gx, sums.data() + k * channels, dots + k * channels,
                     channels, s.inner);
    }
  });
  std::vector<double> totals(size_t(2 * s.channels));
  double* dot_totals = totals.data() + s.channels;
  for (int64_t k = 0; k < s.batch * groups; ++k) {
    int64_t first = k % groups * channels;
    for (int64_t c = 0; c < channels; ++c) {
      totals[size_t(first + c)] += sums[size_t(k * channels + c)];
      dot_totals[first + c] += dots[k * channels + c] * double(rstd[k]);
    }
  }
  if (gb) std::copy(totals.data(), dot_totals, gb);
  if (gw) std::copy(dot_totals, dot_totals + s.channels, gw);
}

}  // namespace

void group_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, ChannelShape s, int64_t groups, double eps) {
  auto run = [&](auto zero) {
    using C = decltype(zero);
    auto in = [](const void* p) { return static_cast<const C*>(p); };
    auto out = [](void* p) { return static_cast<C*>(p); };
    forward<C>(in(x), in(w), in(b), out(y), out(mean), out(rstd), s, groups, eps);
  };
  d == DType::F64 ? run(double{}) : run(float{});
}

void group_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         int64_t groups) {
  auto run = [&](auto zero) {
    using C = decltype(zero);
    auto in = [](const void* p) { return static_cast<const C*>(p); };
    auto out = [](void* p) { return static_cast<C*>(p); };
    backward<C>(in(g), in(x), in(w), in(mean), in(rstd), out(gx), out(gw), out(gb), s, groups);
  };
  d == DType::F64 ? run(double{}) : run(float{});
}

}  // namespace rl::cpu
