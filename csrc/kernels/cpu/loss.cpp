#include "kernels/cpu/kernels.h"

#include "kernels/cpu/fold.h"
#include "kernels/cpu/lines.h"

namespace rl::cpu {
namespace {

// What one line of logits contributes: its maximum, log(sum(exp(x - maximum))) and, for label
// smoothing, the weighted sum of x - maximum.
template <class C>
struct LineLoss {
  C largest, log_sum, weighted;
};

template <class C>
RL_CLONES LineLoss<C> line_loss(const C* x, const C* w, int64_t n, bool smooth) {
  C largest = fold_row<MaxOf<C>>(x, n), weighted = 0;
  C sum = C(sum_each<C>(n, RL_EACH(i) { return exp_of(x[i] - largest); }));
  if (smooth && w) {
    weighted = C(sum_each<C>(n, RL_EACH(i) { return w[i] * (x[i] - largest); }));
  } else if (smooth) {
    weighted = C(sum_each<C>(n, RL_EACH(i) { return x[i] - largest; }));
  }
  return {largest, log_of(sum), weighted};
}

// gx = exp(x - lse) * scale - each * w; the target's own term is the caller's.
template <class C>
RL_CLONES void line_gradient(const C* x, const C* w, C lse, C scale, C each, C* gx, int64_t n) {
  if (each == 0) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = exp_of(x[i] - lse) * scale;
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = exp_of(x[i] - lse) * scale - each * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gx[i] = exp_of(x[i] - lse) * scale - each;
  }
}

// The first target that is neither ignored nor a class; the others' weights are added up.
template <class C>
Outside check(const int64_t* target, int64_t count, int64_t classes, int64_t ignore_index,
              const C* w, double* total_weight) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t t = target[i];
    if (t == ignore_index) continue;
    if (t < 0 || t >= classes) return {i, t};
    total += w ? double(w[t]) : 1;
  }
  *total_weight = total;
  return {};
}

template <class C>
C weight_sum(const C* w, int64_t classes) {
  return w ? C(sum_row(w, classes)) : C(classes);
}

template <class C>
Outside forward(DType d, const void* logits, const int64_t* target, const void* weight,
                int64_t ignore_index, double smoothing, void* loss_each, void* lse,
                double* total_weight, const Lines& lines) {
  Vector<C> weights(d, weight, lines.n);
  const C* w = weights.get();
  Outside bad = check(target, lines.outer * lines.inner, lines.n, ignore_index, w, total_weight);
  if (bad) return bad;
  bool smooth = smoothing != 0;
  C keep = C(1 - smoothing), each = C(smoothing / double(lines.n));
  C all = weight_sum(w, lines.n);
  lines.split([&](int64_t begin, int64_t end) {
    LineReader<C> in(lines, d, logits);
    for (int64_t group = begin; group < end; ++group) {
      in.load(group);
      int64_t first = lines.first(group), count = lines.count(group);
      C loss[kLines];
      for (int64_t k = 0; k < count; ++k) {
        const C* x = in.line(k);
        LineLoss<C> line = line_loss(x, w, lines.n, smooth);
        static_cast<C*>(lse)[first + k] = line.largest + line.log_sum;
        int64_t t = target[first + k];
        loss[k] = 0;
        if (t == ignore_index) continue;
        loss[k] = (line.log_sum - (x[t] - line.largest)) * (w ? w[t] : C(1));
        if (smooth) loss[k] = keep * loss[k] + each * (line.log_sum * all - line.weighted);
      }
      put(d, loss_each, first, loss, count);
    }
  });
  return {};
}

template <class C>
void backward(DType d, const void* grad_each, const void* logits, const void* lse,
              const int64_t* target, const void* weight, int64_t ignore_index, double smoothing,
              void* glogits, const Lines& lines) {
  Vector<C> weights(d, weight, lines.n);
  const C* w = weights.get();
  C keep = C(1 - smoothing), each = C(smoothing / double(lines.n));
  C all = smoothing != 0 ? each * weight_sum(w, lines.n) : C(0);
  Source<C> gradient(d, grad_each);
  lines.split([&](int64_t begin, int64_t end) {
    LineReader<C> in(lines, d, logits);
    LineWriter<C> out(lines, d, glogits);
    for (int64_t group = begin; group < end; ++group) {
      in.load(group);
      out.open(group);
      int64_t first = lines.first(group), count = lines.count(group);
      C buffer[kLines];
      const C* g = gradient.fetch(first, count, buffer);
      for (int64_t k = 0; k < count; ++k) {
        int64_t t = target[first + k];
        C* gx = out.line(k);
        if (t == ignore_index) {
          std::fill(gx, gx + lines.n, C(0));
          continue;
        }
        C own = keep * (w ? w[t] : C(1));
        line_gradient(in.line(k), w, static_cast<const C*>(lse)[first + k], g[k] * (own + all),
                      g[k] * each, gx, lines.n);
        gx[t] -= g[k] * own;
      }
      out.store(group);
    }
  });
}

}  // namespace

Outside cross_entropy(DType d, const void* logits, const int64_t* target, const void* weight,
                      int64_t ignore_index, double smoothing, void* loss_each, void* lse,
                      double* total_weight, int64_t rows, int64_t classes, int64_t inner) {
  auto run = d == DType::F64 ? forward<double> : forward<float>;
  return run(d, logits, target, weight, ignore_index, smoothing, loss_each, lse, total_weight,
             Lines{rows, classes, inner});
}

void cross_entropy_backward(DType d, const void* grad_each, const void* logits, const void* lse,
                            const int64_t* target, const void* weight, int64_t ignore_index,
                            double smoothing, void* glogits, int64_t rows, int64_t classes,
                            int64_t inner) {
  auto run = d == DType::F64 ? backward<double> : backward<float>;
  run(d, grad_each, logits, lse, target, weight, ignore_index, smoothing, glogits,
      Lines{rows, classes, inner});
}

}  // namespace rl::cpu
