// Normalisation of channels: [batch, channels, inner]. A block has a channel, or a group of them.
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Shape {
  int64 batch, channels, inner, groups;
};
// Element k of those that share statistics: of a channel, or of a group of one image.
struct Line {
  int64 start, n, step, run;
  __device__ int64 at(int64 k) const { return start + k / run * step + k % run; }
};
__device__ inline Line channel(const Shape& s, int64 c) {
  Line l = {c * s.inner, s.batch * s.inner, s.channels * s.inner, s.inner};
  return l;
}
__device__ inline Line group(const Shape& s, int64 g) {
  int64 n = s.channels / s.groups * s.inner;
  Line l = {g * n, n, n, n};
  return l;
}
extern "C" __global__ void statistics(const T* x, T* mean, T* rstd, T* variance, Shape s,
                                      double eps) {
  Line l = s.groups ? group(s, blockIdx.x) : channel(s, blockIdx.x);
  A m = 0, squares = 0;
  for (int64 k = threadIdx.x; k < l.n; k += blockDim.x) m += A(x[l.at(k)]);
  m = block_all(m, A(0), Plus()) / A(l.n);
  for (int64 k = threadIdx.x; k < l.n; k += blockDim.x) {
    A c = A(x[l.at(k)]) - m;
    squares += c * c;
  }
  squares = block_all(squares, A(0), Plus());
  if (threadIdx.x != 0) return;
  double v = double(squares) / double(l.n);
  mean[blockIdx.x] = T(m);
  rstd[blockIdx.x] = T(A(1 / sqrt(v + eps)));
  if (variance) variance[blockIdx.x] = T(A(v));
}
__device__ inline int64 line_of(const Shape& s, int64 i, int64 c) {
  return s.groups ? i / (s.channels * s.inner) * s.groups + c / (s.channels / s.groups) : c;
}
extern "C" __global__ void normalize(const T* x, const T* w, const T* b, const T* mean,
                                     const T* rstd, T* y, Shape s) {
  RL_EACH(i, s.batch * s.channels * s.inner) {
    int64 c = i / s.inner % s.channels, l = line_of(s, i, c);
    A v = (A(x[i]) - A(mean[l])) * A(rstd[l]);
    if (w) v = v * A(w[c]);
    if (b) v = v + A(b[c]);
    y[i] = T(v);
  }
}
// For each line the sums of g * w and of g * w * (x - mean).
extern "C" __global__ void sums(const T* g, const T* x, const T* w, const T* mean, A* out,
                                Shape s) {
  Line l = s.groups ? group(s, blockIdx.x) : channel(s, blockIdx.x);
  A m = A(mean[blockIdx.x]), sum = 0, dot = 0;
  for (int64 k = threadIdx.x; k < l.n; k += blockDim.x) {
    int64 at = l.at(k);
    A v = A(g[at]);
    if (w) v = v * A(w[at / s.inner % s.channels]);
    sum += v;
    dot += v * (A(x[at]) - m);
  }
  sum = block_all(sum, A(0), Plus());
  dot = block_all(dot, A(0), Plus());
  if (threadIdx.x != 0) return;
  out[2 * blockIdx.x] = sum;
  out[2 * blockIdx.x + 1] = dot;
}
extern "C" __global__ void weight_gradients(const T* g, const T* x, const T* mean, const T* rstd,
                                            T* gw, T* gb, Shape s) {
  Line l = channel(s, blockIdx.x);
  A weight = 0, bias = 0;
  for (int64 k = threadIdx.x; k < l.n; k += blockDim.x) {
    int64 at = l.at(k), line = line_of(s, at, blockIdx.x);
    A v = A(g[at]);
    weight += v * (A(x[at]) - A(mean[line])) * A(rstd[line]);
    bias += v;
  }
  weight = block_all(weight, A(0), Plus());
  bias = block_all(bias, A(0), Plus());
  if (threadIdx.x != 0) return;
  if (gw) gw[blockIdx.x] = T(weight);
  if (gb) gb[blockIdx.x] = T(bias);
}
extern "C" __global__ void input_gradient(const T* g, const T* x, const T* w, const T* mean,
                                          const T* rstd, const A* sums, T* gx, Shape s, int given) {
  int64 n = s.groups ? s.channels / s.groups * s.inner : s.batch * s.inner;
  RL_EACH(i, s.batch * s.channels * s.inner) {
    int64 c = i / s.inner % s.channels, l = line_of(s, i, c);
    A v = A(g[i]), r = A(rstd[l]);
    if (w) v = v * A(w[c]);
    if (!given)
      v = v - sums[2 * l] / A(n) - (A(x[i]) - A(mean[l])) * (sums[2 * l + 1] * r * r / A(n));
    gx[i] = T(r * v);
  }
}
)";

struct Shape {
  int64_t batch, channels, inner, groups;
};

void forward(DType d, const void* x, const void* w, const void* b, void* y, void* mean, void* rstd,
             void* variance, const Shape& s, double eps) {
  static Kernel statistics(kText, "statistics"), normalize(kText, "normalize");
  int64_t lines = s.groups ? s.batch * s.groups : s.channels, n = s.batch * s.channels * s.inner;
  if (lines) launch(statistics.of(d), {unsigned(lines)}, 256, x, mean, rstd, variance, s, eps);
  if (n) launch(normalize.of(d), grid_for(n, 256), 256, x, w, b, mean, rstd, y, s);
}

void backward(DType d, const void* g, const void* x, const void* w, const void* mean,
              const void* rstd, void* gx, void* gw, void* gb, const Shape& s, bool given) {
  static Kernel sums(kText, "sums"), weights(kText, "weight_gradients"),
      input(kText, "input_gradient");
  int64_t lines = s.groups ? s.batch * s.groups : s.channels, n = s.batch * s.channels * s.inner;
  if ((gw || gb) && s.channels)
    launch(weights.of(d), {unsigned(s.channels)}, 256, g, x, mean, rstd, gw, gb, s);
  if (!gx || !n) return;
  Scratch room(lines * 16);
  if (!given) launch(sums.of(d), {unsigned(lines)}, 256, g, x, w, mean, room.get<void>(), s);
  launch(input.of(d), grid_for(n, 256), 256, g, x, w, mean, rstd, room.get<void>(), gx, s,
         int(given));
}

Shape shape(const ChannelShape& s, int64_t groups) {
  return {s.batch, s.channels, s.inner, groups};
}

}  // namespace

void batch_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, void* variance, ChannelShape s, double eps) {
  forward(d, x, w, b, y, mean, rstd, variance, shape(s, 0), eps);
}
void batch_norm_given(DType d, const void* x, const void* w, const void* b, const void* mean,
                      const void* rstd, void* y, ChannelShape s) {
  static Kernel normalize(kText, "normalize");
  int64_t n = s.batch * s.channels * s.inner;
  if (n) launch(normalize.of(d), grid_for(n, 256), 256, x, w, b, mean, rstd, y, shape(s, 0));
}
void batch_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         bool given) {
  backward(d, g, x, w, mean, rstd, gx, gw, gb, shape(s, 0), given);
}
void group_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, ChannelShape s, int64_t groups, double eps) {
  forward(d, x, w, b, y, mean, rstd, nullptr, shape(s, groups), eps);
}
void group_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         int64_t groups) {
  backward(d, g, x, w, mean, rstd, gx, gw, gb, shape(s, groups), false);
}

}  // namespace rl::cuda
