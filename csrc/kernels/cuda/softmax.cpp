// Softmax and its kin: [outer, n, inner] along n. A block has a row, or a thread a column.
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

// A line's elements lie `step` apart; Each calls for those of this thread.
constexpr char kText[] = R"(
struct Row {
  int64 n, step;
  template <class F> __device__ void each(F f) const {
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) f(i);
  }
  template <class Op> __device__ A all(A x, A none, Op op) const { return block_all(x, none, op); }
};
struct Column {
  int64 n, step;
  template <class F> __device__ void each(F f) const {
    for (int64 i = 0; i < n; i++) f(i * step);
  }
  template <class Op> __device__ A all(A x, A none, Op op) const { return x; }
};
struct Most {
  __device__ A operator()(A a, A b) const { return a > b ? a : b; }
};

template <class Line> __device__ void softmax_line(const Line line, const T* x, T* y,
                                                   bool logarithm) {
  A most = -A(INFINITY), sum = 0;
  line.each([&](int64 i) {
    A v = A(x[i]);
    most = v > most ? v : most;
  });
  most = line.all(most, -A(INFINITY), Most());
  line.each([&](int64 i) { sum += exp(A(x[i]) - most); });
  sum = line.all(sum, A(0), Plus());
  if (logarithm) {
    A shift = log(sum);
    line.each([&](int64 i) { y[i] = T(A(x[i]) - most - shift); });
  } else {
    A scale = 1 / sum;
    line.each([&](int64 i) { y[i] = T(exp(A(x[i]) - most) * scale); });
  }
}
template <class Line>
__device__ void gradient_line(const Line line, const T* g, const T* y, T* gx, bool logarithm) {
  A sum = 0;
  if (logarithm) {
    line.each([&](int64 i) { sum += A(g[i]); });
    sum = line.all(sum, A(0), Plus());
    line.each([&](int64 i) { gx[i] = T(A(g[i]) - exp(A(y[i])) * sum); });
  } else {
    line.each([&](int64 i) { sum += A(g[i]) * A(y[i]); });
    sum = line.all(sum, A(0), Plus());
    line.each([&](int64 i) { gx[i] = T(A(y[i]) * (A(g[i]) - sum)); });
  }
}

extern "C" __global__ void softmax_rows(const T* x, T* y, int64 n, int logarithm) {
  Row line = {n, 1};
  softmax_line(line, x + blockIdx.x * n, y + blockIdx.x * n, logarithm);
}
extern "C" __global__ void softmax_columns(const T* x, T* y, int64 columns, int64 n, int64 inner,
                                           int logarithm) {
  RL_EACH(c, columns) {
    int64 at = c / inner * n * inner + c % inner;
    Column line = {n, inner};
    softmax_line(line, x + at, y + at, logarithm);
  }
}
extern "C" __global__ void gradient_rows(const T* g, const T* y, T* gx, int64 n, int logarithm) {
  Row line = {n, 1};
  int64 at = blockIdx.x * n;
  gradient_line(line, g + at, y + at, gx + at, logarithm);
}
extern "C" __global__ void gradient_columns(const T* g, const T* y, T* gx, int64 columns, int64 n,
                                            int64 inner, int logarithm) {
  RL_EACH(c, columns) {
    int64 at = c / inner * n * inner + c % inner;
    Column line = {n, inner};
    gradient_line(line, g + at, y + at, gx + at, logarithm);
  }
}
)";

unsigned threads_for(int64_t n) {
  return n > 4096 ? 1024 : n > 1024 ? 256 : n > 256 ? 128 : n > 64 ? 64 : 32;
}

void forward(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
             int logarithm) {
  if (outer * n * inner == 0) return;
  static Kernel rows(kText, "softmax_rows"), columns(kText, "softmax_columns");
  if (inner == 1) return launch(rows.of(d), {unsigned(outer)}, threads_for(n), x, y, n, logarithm);
  launch(columns.of(d), grid_for(outer * inner, 128), 128, x, y, outer * inner, n, inner,
         logarithm);
}
void backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
              int64_t inner, int logarithm) {
  if (outer * n * inner == 0) return;
  static Kernel rows(kText, "gradient_rows"), columns(kText, "gradient_columns");
  if (inner == 1)
    return launch(rows.of(d), {unsigned(outer)}, threads_for(n), g, y, gx, n, logarithm);
  launch(columns.of(d), grid_for(outer * inner, 128), 128, g, y, gx, outer * inner, n, inner,
         logarithm);
}

}  // namespace

void softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  forward(d, x, y, outer, n, inner, 0);
}
void log_softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  forward(d, x, y, outer, n, inner, 1);
}
void softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner) {
  backward(d, g, y, gx, outer, n, inner, 0);
}
void log_softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner) {
  backward(d, g, y, gx, outer, n, inner, 1);
}

}  // namespace rl::cuda
