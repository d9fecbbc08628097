#include "kernels/cpu/kernels.h"

#include <vector>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/lines.h"

namespace rl::cpu {
namespace {

// y = (x - mean) * rstd * w + b; `centered` is false for rms_norm.
template <class C>
RL_CLONES void normalize(const C* x, const C* w, const C* b, C* y, C* mean, C* rstd, int64_t n,
                         double eps, bool centered) {
  C m = centered ? C(sum_row(x, n) / double(n)) : C(0);
  double squares = sum_each<C>(n, RL_EACH(i) { return (x[i] - m) * (x[i] - m); });
  C r = C(1 / std::sqrt(squares / double(n) + eps));
  if (centered) *mean = m;
  *rstd = r;
  if (w && b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * w[i] + b[i];
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * w[i];
  } else if (b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r + b[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r;
  }
}

// gx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)) with gw = g * w, xhat = (x - mean) * rstd;
// without the term mean(gw) for rms_norm.
template <class C>
RL_CLONES void input_gradient(const C* g, const C* x, const C* w, C mean, C rstd, C* gx, int64_t n,
                              bool centered) {
  double sum = 0, dot;
  if (w) {
    if (centered) sum = sum_each<C>(n, RL_EACH(i) { return g[i] * w[i]; });
    dot = sum_each<C>(n, RL_EACH(i) { return g[i] * w[i] * (x[i] - mean); });
  } else {
    if (centered) sum = sum_row(g, n);
    dot = sum_each<C>(n, RL_EACH(i) { return g[i] * (x[i] - mean); });
  }
  C shift = C(sum / double(n)), slope = C(dot * double(rstd) * double(rstd) / double(n));
  if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      gx[i] = rstd * (g[i] * w[i] - shift - (x[i] - mean) * slope);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] - shift - (x[i] - mean) * slope);
  }
}

template <class C>
RL_CLONES void add_weight_gradient(const C* __restrict g, const C* __restrict x, C mean, C rstd,
                                   C* __restrict gw, C* __restrict gb, int64_t n) {
  if (gw && gb) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      gw[i] += g[i] * ((x[i] - mean) * rstd);
      gb[i] += g[i];
    }
  } else if (gw) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gw[i] += g[i] * ((x[i] - mean) * rstd);
  } else if (gb) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gb[i] += g[i];
  }
}

template <class C>
RL_CLONES void flush(std::vector<C>& part, double* sums) {
  for (size_t i = 0; i < part.size(); ++i) sums[i] += double(part[i]);
  std::fill(part.begin(), part.end(), C(0));
}

template <class C>
void forward(DType d, const void* x, const void* w, const void* b, void* y, void* mean, void* rstd,
             int64_t rows, int64_t n, double eps, bool centered) {
  Lines lines{rows, n, 1};
  Vector<C> weight(d, w, n), bias(d, b, n);
  C *means = static_cast<C*>(mean), *rstds = static_cast<C*>(rstd);
  lines.split([&](int64_t begin, int64_t end) {
    LineReader<C> in(lines, d, x);
    LineWriter<C> out(lines, d, y);
    for (int64_t r = begin; r < end; ++r) {
      in.load(r);
      out.open(r);
      normalize(in.line(0), weight.get(), bias.get(), out.line(0), centered ? means + r : nullptr,
                rstds + r, n, eps, centered);
      out.store(r);
    }
  });
}

template <class C>
void backward(DType d, const void* g, const void* x, const void* w, const void* mean,
              const void* rstd, void* gx, void* gw, void* gb, int64_t rows, int64_t n) {
  if (n == 0) return;
  Lines lines{rows, n, 1};
  Vector<C> weight(d, w, n);
  const C *means = static_cast<const C*>(mean), *rstds = static_cast<const C*>(rstd);
  // Every chunk of rows sums into its own gw and gb; there are at most 32 of them.
  int64_t grain = std::max((rows + 31) / 32, 4096 / std::max<int64_t>(n, 1));
  grain = std::max<int64_t>(grain, 1);
  int64_t chunks = gw || gb ? std::max<int64_t>((rows + grain - 1) / grain, 1) : 0;
  std::vector<double> sums(size_t(chunks * 2 * n));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<C> part(size_t(chunks ? 2 * n : 0));
    LineReader<C> gradient(lines, d, g), in(lines, d, x);
    LineWriter<C> out(lines, d, gx);
    for (int64_t r = begin; r < end; ++r) {
      gradient.load(r);
      in.load(r);
      C m = means ? means[r] : C(0);
      if (gx) {
        out.open(r);
        input_gradient(gradient.line(0), in.line(0), weight.get(), m, rstds[r], out.line(0), n,
                       means != nullptr);
        out.store(r);
      }
      add_weight_gradient(gradient.line(0), in.line(0), m, rstds[r], gw ? part.data() : nullptr,
                          gb ? part.data() + n : nullptr, n);
      if (chunks && ((r + 1 - begin) % kExactRows == 0 || r + 1 == end))
        flush(part, sums.data() + begin / grain * 2 * n);
    }
  });
  for (int64_t c = 1; c < chunks; ++c) {
    for (int64_t i = 0; i < 2 * n; ++i) sums[size_t(i)] += sums[size_t(c * 2 * n + i)];
  }
  if (gw) put(d, gw, 0, sums.data(), n);
  if (gb) put(d, gb, 0, sums.data() + n, n);
}

}  // namespace

void layer_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, int64_t rows, int64_t n, double eps) {
  auto run = d == DType::F64 ? forward<double> : forward<float>;
  run(d, x, w, b, y, mean, rstd, rows, n, eps, true);
}

void layer_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, int64_t rows, int64_t n) {
  auto run = d == DType::F64 ? backward<double> : backward<float>;
  run(d, g, x, w, mean, rstd, gx, gw, gb, rows, n);
}

void rms_norm(DType d, const void* x, const void* w, void* y, void* rstd, int64_t rows, int64_t n,
              double eps) {
  auto run = d == DType::F64 ? forward<double> : forward<float>;
  run(d, x, w, nullptr, y, nullptr, rstd, rows, n, eps, false);
}

void rms_norm_backward(DType d, const void* g, const void* x, const void* w, const void* rstd,
                       void* gx, void* gw, int64_t rows, int64_t n) {
  auto run = d == DType::F64 ? backward<double> : backward<float>;
  run(d, g, x, w, nullptr, rstd, gx, gw, nullptr, rows, n);
}

}  // namespace rl::cpu
