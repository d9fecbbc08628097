#include "kernels/cpu/kernels.h"

#include "kernels/cpu/fold.h"
#include "kernels/cpu/lines.h"

namespace rl::cpu {
namespace {

// The largest of a line without care for NaNs: one of them makes the sum, and so the line, NaN.
template <class T>
struct Largest : MaxOf<T> {
  static RL_INLINE T apply(T a, T b) { return a > b ? a : b; }
};

template <class C>
RL_CLONES void softmax_line(const C* x, C* y, int64_t n) {
  C largest = fold_row<Largest<C>>(x, n);
  double sum = sum_each<C>(n, RL_EACH(i) { return y[i] = exp_of(x[i] - largest); });
  C scale = C(1 / sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class C>
RL_CLONES void log_softmax_line(const C* x, C* y, int64_t n) {
  C largest = fold_row<Largest<C>>(x, n);
  double sum = sum_each<C>(n, RL_EACH(i) { return exp_of(x[i] - largest); });
  C log_sum = log_of(C(sum));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - largest - log_sum;
}

template <class C>
RL_CLONES void softmax_backward_line(const C* g, const C* y, C* gx, int64_t n) {
  C dot = C(sum_each<C>(n, RL_EACH(i) { return g[i] * y[i]; }));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) gx[i] = y[i] * (g[i] - dot);
}

template <class C>
RL_CLONES void log_softmax_backward_line(const C* g, const C* y, C* gx, int64_t n) {
  C sum = C(sum_row(g, n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) gx[i] = g[i] - exp_of(y[i]) * sum;
}

template <class C>
void forward(void (*kernel)(const C*, C*, int64_t), DType d, const void* x, void* y,
             const Lines& lines) {
  lines.split([&](int64_t begin, int64_t end) {
    LineReader<C> in(lines, d, x);
    LineWriter<C> out(lines, d, y);
    for (int64_t group = begin; group < end; ++group) {
      in.load(group);
      out.open(group);
      for (int64_t k = 0; k < lines.count(group); ++k) kernel(in.line(k), out.line(k), lines.n);
      out.store(group);
    }
  });
}

template <class C>
void backward(void (*kernel)(const C*, const C*, C*, int64_t), DType d, const void* g,
              const void* y, void* gx, const Lines& lines) {
  lines.split([&](int64_t begin, int64_t end) {
    LineReader<C> gradient(lines, d, g), value(lines, d, y);
    LineWriter<C> out(lines, d, gx);
    for (int64_t group = begin; group < end; ++group) {
      gradient.load(group);
      value.load(group);
      out.open(group);
      for (int64_t k = 0; k < lines.count(group); ++k) {
        kernel(gradient.line(k), value.line(k), out.line(k), lines.n);
      }
      out.store(group);
    }
  });
}

}  // namespace

void softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  Lines lines{outer, n, inner};
  if (d == DType::F64) return forward<double>(softmax_line<double>, d, x, y, lines);
  forward<float>(softmax_line<float>, d, x, y, lines);
}

void log_softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  Lines lines{outer, n, inner};
  if (d == DType::F64) return forward<double>(log_softmax_line<double>, d, x, y, lines);
  forward<float>(log_softmax_line<float>, d, x, y, lines);
}

void softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner) {
  Lines lines{outer, n, inner};
  if (d == DType::F64) return backward<double>(softmax_backward_line<double>, d, g, y, gx, lines);
  backward<float>(softmax_backward_line<float>, d, g, y, gx, lines);
}

void log_softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner) {
  Lines lines{outer, n, inner};
  if (d == DType::F64) {
    return backward<double>(log_softmax_backward_line<double>, d, g, y, gx, lines);
  }
  backward<float>(log_softmax_backward_line<float>, d, g, y, gx, lines);
}

}  // namespace rl::cpu
