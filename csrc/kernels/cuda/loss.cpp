// Losses over [rows, classes, inner]. Targets that are no class are noted and raised when the host
// next waits for the device; kernels pass over them.
#include <cmath>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Shape {
  int64 rows, classes, inner, ignore_index;
};

// A block for a line of logits, `inner` apart.
extern "C" __global__ void cross_entropy(const T* x, const int64* target, const T* w, T* loss,
                                         A* lse, Shape s, double smoothing) {
  int64 line = blockIdx.x, t = target[line];
  x += line / s.inner * s.classes * s.inner + line % s.inner;
  A most = -A(INFINITY), sum = 0, weighted = 0, all = 0;
  for (int64 c = threadIdx.x; c < s.classes; c += blockDim.x)
    most = Larger()(A(x[c * s.inner]), most);
  most = block_all(most, -A(INFINITY), Larger());
  for (int64 c = threadIdx.x; c < s.classes; c += blockDim.x) {
    A v = A(x[c * s.inner]) - most;
    sum += exp(v);
    if (smoothing != 0) {
      weighted += w ? A(w[c]) * v : v;
      all += w ? A(w[c]) : A(1);
    }
  }
  sum = block_all(sum, A(0), Plus());
  if (smoothing != 0) {
    weighted = block_all(weighted, A(0), Plus());
    all = block_all(all, A(0), Plus());
  }
  if (threadIdx.x != 0) return;
  A log_sum = log(sum), value = 0;
  lse[line] = most + log_sum;
  if (t != s.ignore_index && uint64(t) < uint64(s.classes)) {
    value = (log_sum - (A(x[t * s.inner]) - most)) * (w ? A(w[t]) : A(1));
    if (smoothing != 0)
      value =
          A(1 - smoothing) * value + A(smoothing / double(s.classes)) * (log_sum * all - weighted);
  }
  loss[line] = T(value);
}
extern "C" __global__ void cross_entropy_gradient(const T* g, const T* x, const A* lse,
                                                  const int64* target, const T* w, T* gx, Shape s,
                                                  double smoothing) {
  int64 line = blockIdx.x, t = target[line];
  int64 start = line / s.inner * s.classes * s.inner + line % s.inner;
  bool ignored = t == s.ignore_index || uint64(t) >= uint64(s.classes);
  A all = 0, each = A(smoothing / double(s.classes));
  if (smoothing != 0) {
    for (int64 c = threadIdx.x; c < s.classes; c += blockDim.x) all += w ? A(w[c]) : A(1);
    all = each * block_all(all, A(0), Plus());
  }
  A gradient = A(g[line]), own = ignored ? A(0) : A(1 - smoothing) * (w ? A(w[t]) : A(1));
  A scale = gradient * (own + all), shift = lse[line];
  for (int64 c = threadIdx.x; c < s.classes; c += blockDim.x) {
    A v = 0;
    if (!ignored) {
      v = exp(A(x[start + c * s.inner]) - shift) * scale;
      if (smoothing != 0) v -= gradient * each * (w ? A(w[c]) : A(1));
      if (c == t) v -= gradient * own;
    }
    gx[start + c * s.inner] = T(v);
  }
}
// The sum of the weights of the targets, by one block; targets that are no class are noted.
extern "C" __global__ void total_weight(const int64* target, const T* w, double* total, int64 count,
                                        int64 classes, int64 ignore_index, Fault* fault) {
  double sum = 0;
  for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
    int64 t = target[i];
    if (t == ignore_index) continue;
    if (uint64(t) >= uint64(classes)) complain(fault, 2, i, t, classes);
    else sum += w ? double(A(w[t])) : 1.0;
  }
  sum = block_all(sum, 0.0, Plus());
  if (threadIdx.x == 0) *total = sum;
}
extern "C" __global__ void nll(const T* x, const int64* target, const T* w, T* loss, Shape s) {
  RL_EACH(i, s.rows * s.inner) {
    int64 t = target[i];
    A value = 0;
    if (t != s.ignore_index && uint64(t) < uint64(s.classes)) {
      value = -A(x[(i / s.inner * s.classes + t) * s.inner + i % s.inner]);
      if (w) value = A(w[t]) * value;
    }
    loss[i] = T(value);
  }
}
extern "C" __global__ void nll_gradient(const T* g, int64 g_stride, const double* factor,
                                        const int64* target, const T* w, T* gx, Shape s) {
  RL_EACH(i, s.rows * s.inner) {
    int64 t = target[i];
    if (t == s.ignore_index || uint64(t) >= uint64(s.classes)) continue;
    A each = A(g[i * g_stride]) * A(*factor);
    gx[(i / s.inner * s.classes + t) * s.inner + i % s.inner] = T(w ? -A(w[t]) * each : -each);
  }
}
extern "C" __global__ void class_weights(const int64* target, const T* w, T* out, Shape s,
                                         double smoothing) {
  RL_EACH(i, s.rows * s.classes * s.inner) {
    int64 c = i / s.inner % s.classes,
          t = target[i / (s.classes * s.inner) * s.inner + i % s.inner];
    A value = 0;
    if (t != s.ignore_index) {
      value = A(smoothing / double(s.classes));
      if (c == t) value += A(1 - smoothing);
      if (w) value = value * A(w[c]);
    }
    out[i] = T(value);
  }
}
extern "C" __global__ void multiply_by(T* y, const double* factor) { *y = T(A(*y) * A(*factor)); }
)";

constexpr char kTargets[] = R"(
extern "C" __global__ void mean_factor(const double* total, const int64* target, int64 count,
                                       int64 ignore_index, double* factor) {
  double f = 1 / *total, used = 0;
  if (target && (f == INFINITY || f == -INFINITY)) {
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) used += target[i] != ignore_index;
    used = block_all(used, 0.0, Plus());
    if (used == 0) f = 0;
  }
  if (threadIdx.x == 0) *factor = f;
}
extern "C" __global__ void find_bad_target(const int64* target, int64 count, int64 classes,
                                           int64 ignore_index, Fault* fault) {
  RL_EACH(i, count)
  if (uint64(target[i]) >= uint64(classes) && target[i] != ignore_index)
    complain(fault, 2, i, target[i], classes);
}
)";

struct Shape {
  int64_t rows, classes, inner, ignore_index;
};

unsigned threads_for(int64_t n) {
  return n > 4096 ? 1024 : n > 1024 ? 256 : n > 256 ? 128 : n > 64 ? 64 : 32;
}

void add_weights(DType d, const int64_t* target, const void* weight, double* total, int64_t count,
                 int64_t classes, int64_t ignore_index) {
  static Kernel kernel(kText, "total_weight");
  launch(kernel.of(d), {1}, count > 256 ? 1024 : 256, target, weight, total, count, classes,
         ignore_index, fault_address("a check of targets"));
}

}  // namespace

Outside cross_entropy(DType d, const void* logits, const int64_t* target, const void* weight,
                      int64_t ignore_index, double smoothing, void* loss_each, void* lse,
                      double* total_weight, int64_t rows, int64_t classes, int64_t inner) {
  static Kernel kernel(kText, "cross_entropy");
  add_weights(d, target, weight, total_weight, rows * inner, classes, ignore_index);
  Shape s{rows, classes, inner, ignore_index};
  if (rows * inner > 0)
    launch(kernel.of(d), {unsigned(rows * inner)}, threads_for(classes), logits, target, weight,
           loss_each, lse, s, smoothing);
  return {};
}

void cross_entropy_backward(DType d, const void* grad_each, const void* logits, const void* lse,
                            const int64_t* target, const void* weight, int64_t ignore_index,
                            double smoothing, void* glogits, int64_t rows, int64_t classes,
                            int64_t inner) {
  if (rows * inner == 0) return;
  static Kernel kernel(kText, "cross_entropy_gradient");
  Shape s{rows, classes, inner, ignore_index};
  launch(kernel.of(d), {unsigned(rows * inner)}, threads_for(classes), grad_each, logits, lse,
         target, weight, glogits, s, smoothing);
}

void nll_loss(DType d, const void* x, const int64_t* target, const void* weight,
              int64_t ignore_index, void* loss, double* total_weight, int64_t rows, int64_t classes,
              int64_t inner) {
  static Kernel kernel(kText, "nll");
  add_weights(d, target, weight, total_weight, rows * inner, classes, ignore_index);
  Shape s{rows, classes, inner, ignore_index};
  launch(kernel.of(d), grid_for(rows * inner, 256), 256, x, target, weight, loss, s);
}

void nll_loss_backward(DType d, const void* g, int64_t g_stride, const double* factor,
                       const int64_t* target, const void* weight, int64_t ignore_index, void* gx,
                       int64_t rows, int64_t classes, int64_t inner) {
  static Kernel kernel(kText, "nll_gradient");
  clear(gx, size_t(rows * classes * inner * itemsize(d)));
  Shape s{rows, classes, inner, ignore_index};
  launch(kernel.of(d), grid_for(rows * inner, 256), 256, g, g_stride, factor, target, weight, gx,
         s);
}

void class_weights(DType d, const int64_t* target, const void* weight, int64_t ignore_index,
                   double smoothing, void* out, int64_t rows, int64_t classes, int64_t inner) {
  static Kernel kernel(kText, "class_weights");
  Shape s{rows, classes, inner, ignore_index};
  launch(kernel.of(d), grid_for(rows * classes * inner, 256), 256, target, weight, out, s,
         smoothing);
}

void mean_factor(const double* total, const int64_t* target, int64_t count, int64_t ignore_index,
                 double* factor) {
  static Kernel kernel(kTargets, "mean_factor");
  launch(kernel.of(DType::I64), {1}, 256, total, target, count, ignore_index, factor);
}

void sum_times(DType d, const void* x, void* y, int64_t n, const double* factor) {
  static Kernel kernel(kText, "multiply_by");
  // Halves are not rounded before they are divided.
  if (compute_type(d) != d) {
    Scratch wide(8);
    sum(d, DType::F32, x, wide.get<void>(), 1, n, 1, 1);
    launch(kernel.of(DType::F32), {1}, 1, wide.get<void>(), factor);
    int64_t to = itemsize(d), from = 4, one = 1;
    return copy_strided(d, y, &to, DType::F32, wide.get<void>(), &from, &one, 1);
  }
  sum(d, d, x, y, 1, n, 1, 1);
  launch(kernel.of(d), {1}, 1, y, factor);
}

Outside find_bad_target(const int64_t* target, int64_t count, int64_t classes,
                        int64_t ignore_index) {
  static Kernel kernel(kTargets, "find_bad_target");
  if (count)
    launch(kernel.of(DType::I64), grid_for(count, 256), 256, target, count, classes, ignore_index,
           fault_address("a check of targets"));
  return {};
}

}  // namespace rl::cuda
