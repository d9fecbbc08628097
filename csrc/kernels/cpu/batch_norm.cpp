#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kNarrow = 16;  // an inner size below which columns are summed side by side
constexpr int64_t kWidth = 64;   // columns of a block

// A channel of a wide tensor: `batch` rows of n elements, `stride` apart.
struct Channel {
  int64_t batch, stride, n;
  double count() const { return double(batch) * double(n); }
};

template <class C>
RL_CLONES double sum_rows(const C* x, Channel c) {
  double total = 0;
  for (int64_t r = 0; r < c.batch; ++r) total += sum_row(x + r * c.stride, c.n);
  return total;
}

template <class C>
RL_CLONES double sum_squares(const C* x, Channel c, C center) {
  double total = 0;
  for (int64_t r = 0; r < c.batch; ++r) {
    const C* row = x + r * c.stride;
    total += sum_each<C>(c.n, RL_EACH(i) { return (row[i] - center) * (row[i] - center); });
  }
  return total;
}

template <class C>
RL_CLONES void scale_rows(const C* x, C* y, Channel c, C center, C scale, C shift) {
  for (int64_t r = 0; r < c.batch; ++r) {
    const C* from = x + r * c.stride;
    C* to = y + r * c.stride;
#pragma omp simd
    for (int64_t i = 0; i < c.n; ++i) to[i] = (from[i] - center) * scale + shift;
  }
}

// The sum of g, and that of g * (x - center).
template <class C>
RL_CLONES void sum_gradients(const C* g, const C* x, Channel c, C center, double* sum,
                             double* dot) {
  *sum = *dot = 0;
  for (int64_t r = 0; r < c.batch; ++r) {
    const C *from = g + r * c.stride, *at = x + r * c.stride;
    *sum += sum_row(from, c.n);
    *dot += sum_each<C>(c.n, RL_EACH(i) { return from[i] * (at[i] - center); });
  }
}

// gx = scale * (g - shift - (x - center) * slope)
template <class C>
RL_CLONES void combine_rows(const C* g, const C* x, C* gx, Channel c, C center, C scale, C shift,
                            C slope) {
  for (int64_t r = 0; r < c.batch; ++r) {
    const C *from = g + r * c.stride, *at = x + r * c.stride;
    C* to = gx + r * c.stride;
#pragma omp simd
    for (int64_t i = 0; i < c.n; ++i) {
      to[i] = scale * (from[i] - shift - (at[i] - center) * slope);
    }
  }
}

// Blocks of columns of a narrow tensor, [batch, channels * inner].

// totals[j] += the sum over rows of at(row, j).
template <class C, class At>
RL_INLINE void sum_columns(int64_t rows, int64_t width, double* totals, const At& at) {
  C part[kWidth];
  for (int64_t r = 0; r < rows; r += kExactRows) {
    int64_t end = std::min(r + kExactRows, rows);
    std::fill(part, part + kWidth, C(0));
    for (int64_t i = r; i < end; ++i) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) part[j] += at(i, j);
    }
    for (int64_t j = 0; j < width; ++j) totals[j] += double(part[j]);
  }
}

template <class C>
RL_CLONES void column_sums(const C* x, int64_t rows, int64_t stride, int64_t width,
                           double* totals) {
  sum_columns<C>(rows, width, totals, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
    return x[i * stride + j];
  });
}

template <class C>
RL_CLONES void column_squares(const C* x, const C* center, int64_t rows, int64_t stride,
                              int64_t width, double* totals) {
  sum_columns<C>(rows, width, totals, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
    C d = x[i * stride + j] - center[j];
    return d * d;
  });
}

template <class C>
RL_CLONES void column_dots(const C* g, const C* x, const C* center, int64_t rows, int64_t stride,
                           int64_t width, double* totals) {
  sum_columns<C>(rows, width, totals, [&](int64_t i, int64_t j) __attribute__((always_inline)) {
    return g[i * stride + j] * (x[i * stride + j] - center[j]);
  });
}

template <class C>
RL_CLONES void scale_columns(const C* x, C* y, int64_t rows, int64_t stride, int64_t width,
                             const C* center, const C* scale, const C* shift) {
  for (int64_t i = 0; i < rows; ++i, x += stride, y += stride) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - center[j]) * scale[j] + shift[j];
  }
}

template <class C>
RL_CLONES void combine_columns(const C* g, const C* x, C* gx, int64_t rows, int64_t stride,
                               int64_t width, const C* center, const C* scale, const C* shift,
                               const C* slope) {
  for (int64_t i = 0; i < rows; ++i, g += stride, x += stride, gx += stride) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      gx[j] = scale[j] * (g[j] - shift[j] - (x[j] - center[j]) * slope[j]);
    }
  }
}

// The channels of a block of columns, and values of theirs spread over the columns.
struct Block {
  int64_t first, channels, inner;
  int64_t width() const { return channels * inner; }
  template <class C, class F>
  void spread(C* columns, const F& value) const {
    for (int64_t k = 0; k < channels; ++k) std::fill_n(columns + k * inner, inner, C(value(k)));
  }
  double gather(const double* columns, int64_t k) const {
    double total = 0;
    for (int64_t i = 0; i < inner; ++i) total += columns[k * inner + i];
    return total;
  }
};

template <class Body>
void for_channels(const ChannelShape& s, const Body& body) {
  parallel_for(s.channels, grain(s.batch * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) body(c);
  });
}

template <class Body>
void for_blocks(const ChannelShape& s, const Body& body) {
  int64_t each = std::max<int64_t>(kWidth / s.inner, 1), blocks = (s.channels + each - 1) / each;
  parallel_for(blocks, grain(s.batch * each * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t first = k * each;
      body(Block{first, std::min(each, s.channels - first), s.inner});
    }
  });
}

// What a channel is multiplied with.
template <class C>
C weight_of(const C* w, int64_t c) {
  return w ? w[c] : C(1);
}

template <class C>
struct Arguments {
  const C *g, *x, *w, *b;
  C *y, *mean, *rstd, *variance, *gw, *gb;
  ChannelShape s;
  double eps;
  bool given;

  void keep(int64_t c, double center, double squares) const {
    double v = squares / (double(s.batch) * double(s.inner));
    mean[c] = C(center);
    variance[c] = C(v);
    rstd[c] = C(1 / std::sqrt(v + eps));
  }
  // What the mean over a channel takes away from the gradient, and per x - mean.
  C shift(double sum) const { return given ? C(0) : C(sum / (double(s.batch) * double(s.inner))); }
  C slope(int64_t c, double dot) const {
    return given ? C(0)
                 : C(dot * double(rstd[c]) * double(rstd[c]) / (double(s.batch) * double(s.inner)));
  }
};

template <class C>
void forward_wide(const Arguments<C>& a) {
  for_channels(a.s, [&](int64_t c) {
    Channel rows{a.s.batch, a.s.channels * a.s.inner, a.s.inner};
    const C* x = a.x + c * a.s.inner;
    if (!a.given) {
      C center = C(sum_rows(x, rows) / rows.count());
      a.keep(c, center, sum_squares(x, rows, center));
    }
    scale_rows(x, a.y + c * a.s.inner, rows, a.mean[c], C(a.rstd[c] * weight_of(a.w, c)),
               a.b ? a.b[c] : C(0));
  });
}

template <class C>
void forward_narrow(const Arguments<C>& a) {
  for_blocks(a.s, [&](Block block) {
    int64_t stride = a.s.channels * a.s.inner, width = block.width(), c = block.first;
    const C* x = a.x + c * a.s.inner;
    C center[kWidth], scale[kWidth], shift[kWidth];
    if (!a.given) {
      double totals[kWidth] = {}, count = double(a.s.batch) * double(a.s.inner);
      column_sums(x, a.s.batch, stride, width, totals);
      for (int64_t k = 0; k < block.channels; ++k)
        a.mean[c + k] = C(block.gather(totals, k) / count);
      block.spread(center, [&](int64_t k) { return a.mean[c + k]; });
      std::fill(totals, totals + kWidth, 0);
      column_squares(x, center, a.s.batch, stride, width, totals);
      for (int64_t k = 0; k < block.channels; ++k)
        a.keep(c + k, double(a.mean[c + k]), block.gather(totals, k));
    }
    block.spread(center, [&](int64_t k) { return a.mean[c + k]; });
    block.spread(scale, [&](int64_t k) { return a.rstd[c + k] * weight_of(a.w, c + k); });
    block.spread(shift, [&](int64_t k) { return a.b ? a.b[c + k] : C(0); });
    scale_columns(x, a.y + c * a.s.inner, a.s.batch, stride, width, center, scale, shift);
  });
}

template <class C>
void backward_wide(const Arguments<C>& a) {
  for_channels(a.s, [&](int64_t c) {
    Channel rows{a.s.batch, a.s.channels * a.s.inner, a.s.inner};
    int64_t at = c * a.s.inner;
    double sum = 0, dot = 0;
    if (!a.given || a.gw || a.gb) sum_gradients(a.g + at, a.x + at, rows, a.mean[c], &sum, &dot);
    if (a.gw) a.gw[c] = C(dot * double(a.rstd[c]));
    if (a.gb) a.gb[c] = C(sum);
    if (!a.y) return;
    combine_rows(a.g + at, a.x + at, a.y + at, rows, a.mean[c], C(a.rstd[c] * weight_of(a.w, c)),
                 a.shift(sum), a.slope(c, dot));
  });
}

template <class C>
void backward_narrow(const Arguments<C>& a) {
  for_blocks(a.s, [&](Block block) {
    int64_t stride = a.s.channels * a.s.inner, width = block.width(), c = block.first;
    const C *g = a.g + c * a.s.inner, *x = a.x + c * a.s.inner;
    double sums[kWidth] = {}, dots[kWidth] = {};
    C center[kWidth], scale[kWidth], shift[kWidth], slope[kWidth];
    block.spread(center, [&](int64_t k) { return a.mean[c + k]; });
    column_sums(g, a.s.batch, stride, width, sums);
    column_dots(g, x, center, a.s.batch, stride, width, dots);
    for (int64_t k = 0; k < block.channels; ++k) {
      if (a.gw) a.gw[c + k] = C(block.gather(dots, k) * double(a.rstd[c + k]));
      if (a.gb) a.gb[c + k] = C(block.gather(sums, k));
    }
    if (!a.y) return;
    block.spread(scale, [&](int64_t k) { return a.rstd[c + k] * weight_of(a.w, c + k); });
    block.spread(shift, [&](int64_t k) { return a.shift(block.gather(sums, k)); });
    block.spread(slope, [&](int64_t k) { return a.slope(c + k, block.gather(dots, k)); });
    combine_columns(g, x, a.y + c * a.s.inner, a.s.batch, stride, width, center, scale, shift,
                    slope);
  });
}

template <class C>
Arguments<C> arguments(const void* g, const void* x, const void* w, const void* b, void* y,
                       const void* mean, const void* rstd, ChannelShape s, bool given) {
  auto in = [](const void* p) { return static_cast<const C*>(p); };
  auto out = [](const void* p) { return static_cast<C*>(const_cast<void*>(p)); };
  Arguments<C> a{};
  a.g = in(g), a.x = in(x), a.w = in(w), a.b = in(b);
  a.y = out(y), a.mean = out(mean), a.rstd = out(rstd);
  a.s = s;
  a.given = given;
  return a;
}

template <class F>
void by_type(DType d, const F& f) {
  d == DType::F64 ? f(double{}) : f(float{});
}

template <class C>
void forward(const Arguments<C>& a) {
  a.s.inner < kNarrow ? forward_narrow(a) : forward_wide(a);
}

}  // namespace

void batch_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, void* variance, ChannelShape s, double eps) {
  by_type(d, [&](auto zero) {
    using C = decltype(zero);
    auto a = arguments<C>(nullptr, x, w, b, y, mean, rstd, s, false);
    a.variance = static_cast<C*>(variance);
    a.eps = eps;
    forward(a);
  });
}

void batch_norm_given(DType d, const void* x, const void* w, const void* b, const void* mean,
                      const void* rstd, void* y, ChannelShape s) {
  by_type(d, [&](auto zero) {
    forward(arguments<decltype(zero)>(nullptr, x, w, b, y, mean, rstd, s, true));
  });
}

void batch_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         bool given) {
  by_type(d, [&](auto zero) {
    using C = decltype(zero);
    auto a = arguments<C>(g, x, w, nullptr, gx, mean, rstd, s, given);
    a.gw = static_cast<C*>(gw);
    a.gb = static_cast<C*>(gb);
    s.inner < kNarrow ? backward_narrow(a) : backward_wide(a);
  });
}

void blend(DType d, void* y, const void* x, int64_t n, double keep, double add) {
  auto run = [&]<class C>(C* to, const C* from) {
    for (int64_t i = 0; i < n; ++i) to[i] = C(add * double(from[i]) + keep * double(to[i]));
  };
  if (d == DType::F64) run(static_cast<double*>(y), static_cast<const double*>(x));
  else run(static_cast<float*>(y), static_cast<const float*>(x));
}

}  // namespace rl::cpu
