// Normalisation of rows: layer_norm and rms_norm, and their gradients.
#include <algorithm>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
extern "C" __global__ void normalize(const T* x, const T* w, const T* b, T* y, A* mean, A* rstd,
                                     int64 n, double eps) {
  int64 row = blockIdx.x;
  x += row * n;
  y += row * n;
  // Up to 8 elements of a thread stay in registers.
  A kept[8], m = 0, squares = 0;
  bool keeps = n <= int64(blockDim.x) * 8;
  for (int k = 0; k < 8; k++) {
    int64 i = threadIdx.x + int64(k) * blockDim.x;
    kept[k] = keeps && i < n ? A(x[i]) : A(0);
    m += kept[k];
  }
  if (mean) {
    if (!keeps)
      for (int64 i = threadIdx.x; i < n; i += blockDim.x) m += A(x[i]);
    m = block_all(m, A(0), Plus()) / A(n);
  } else {
    m = 0;
  }
  if (keeps) {
    for (int k = 0; k < 8; k++) {
      A c = kept[k] - m;
      if (threadIdx.x + int64(k) * blockDim.x < n) squares += c * c;
    }
  } else {
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      A c = A(x[i]) - m;
      squares += c * c;
    }
  }
  squares = block_all(squares, A(0), Plus());
  A r = A(1 / sqrt(double(squares) / double(n) + eps));
  if (threadIdx.x == 0) {
    if (mean) mean[row] = m;
    rstd[row] = r;
  }
  if (keeps) {
    for (int k = 0; k < 8; k++) {
      int64 i = threadIdx.x + int64(k) * blockDim.x;
      if (i >= n) break;
      A v = (kept[k] - m) * r;
      if (w) v = v * A(w[i]);
      if (b) v = v + A(b[i]);
      y[i] = T(v);
    }
    return;
  }
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
    A v = (A(x[i]) - m) * r;
    if (w) v = v * A(w[i]);
    if (b) v = v + A(b[i]);
    y[i] = T(v);
  }
}
extern "C" __global__ void input_gradient(const T* g, const T* x, const T* w, const A* mean,
                                          const A* rstd, T* gx, int64 n) {
  int64 row = blockIdx.x;
  g += row * n;
  x += row * n;
  gx += row * n;
  A m = mean ? mean[row] : A(0), r = rstd[row], sum = 0, dot = 0;
  A kept_g[8], kept_x[8];
  bool keeps = n <= int64(blockDim.x) * 8;
  for (int k = 0; k < 8; k++) {
    int64 i = threadIdx.x + int64(k) * blockDim.x;
    bool there = keeps && i < n;
    kept_g[k] = there ? (w ? A(g[i]) * A(w[i]) : A(g[i])) : A(0);
    kept_x[k] = there ? A(x[i]) - m : A(0);
    sum += kept_g[k];
    dot += kept_g[k] * kept_x[k];
  }
  if (!keeps)
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      A v = w ? A(g[i]) * A(w[i]) : A(g[i]);
      sum += v;
      dot += v * (A(x[i]) - m);
    }
  sum = mean ? block_all(sum, A(0), Plus()) : A(0);
  dot = block_all(dot, A(0), Plus());
  A shift = sum / A(n), slope = dot * r * r / A(n);
  if (keeps) {
    for (int k = 0; k < 8; k++) {
      int64 i = threadIdx.x + int64(k) * blockDim.x;
      if (i < n) gx[i] = T(r * (kept_g[k] - shift - kept_x[k] * slope));
    }
    return;
  }
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
    A v = w ? A(g[i]) * A(w[i]) : A(g[i]);
    gx[i] = T(r * (v - shift - (A(x[i]) - m) * slope));
  }
}
// Sums over a chunk of rows for 32 columns: parts is [chunks, 2, n].
extern "C" __global__ void weight_parts(const T* g, const T* x, const A* mean, const A* rstd,
                                        A* parts, int64 rows, int64 n, int64 length) {
  __shared__ A weights[256], biases[256];
  int64 column = int64(blockIdx.x) * 32 + (threadIdx.x & 31);
  int64 begin = int64(blockIdx.y) * length, end = begin + length < rows ? begin + length : rows;
  A weight = 0, bias = 0;
  if (column < n)
    for (int64 r = begin + (threadIdx.x >> 5); r < end; r += 8) {
      A v = A(g[r * n + column]), m = mean ? mean[r] : A(0);
      weight += v * ((A(x[r * n + column]) - m) * rstd[r]);
      bias += v;
    }
  weights[threadIdx.x] = weight;
  biases[threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.x >= 32 || column >= n) return;
  for (int k = 1; k < 8; k++) {
    weight += weights[threadIdx.x + 32 * k];
    bias += biases[threadIdx.x + 32 * k];
  }
  parts[int64(blockIdx.y) * 2 * n + column] = weight;
  parts[int64(blockIdx.y) * 2 * n + n + column] = bias;
}
extern "C" __global__ void join_parts(const A* parts, T* gw, T* gb, int64 n, int64 chunks) {
  RL_EACH(i, n) {
    A weight = 0, bias = 0;
    for (int64 c = 0; c < chunks; c++) {
      weight += parts[c * 2 * n + i];
      bias += parts[c * 2 * n + n + i];
    }
    if (gw) gw[i] = T(weight);
    if (gb) gb[i] = T(bias);
  }
}
)";

unsigned threads_for(int64_t n) {
  return n > 2048 ? 512 : n > 512 ? 256 : n > 128 ? 128 : n > 32 ? 64 : 32;
}

void backward(DType d, const void* g, const void* x, const void* w, const void* mean,
              const void* rstd, void* gx, void* gw, void* gb, int64_t rows, int64_t n) {
  if (n == 0) return;
  static Kernel input(kText, "input_gradient"), parts(kText, "weight_parts"),
      join(kText, "join_parts");
  if (gx && rows) launch(input.of(d), {unsigned(rows)}, threads_for(n), g, x, w, mean, rstd, gx, n);
  if (!gw && !gb) return;
  int64_t blocks = (n + 31) / 32;
  int64_t chunks = std::clamp<int64_t>(int64_t(multiprocessors()) * 4 / blocks, 1,
                                       std::max<int64_t>(rows / 32, 1));
  int64_t length = std::max<int64_t>((rows + chunks - 1) / chunks, 1);
  chunks = std::max<int64_t>((rows + length - 1) / length, 1);
  Scratch sums(chunks * 2 * n * 8);
  launch(parts.of(d), {unsigned(blocks), unsigned(chunks)}, 256, g, x, mean, rstd, sums.get<void>(),
         rows, n, length);
  launch(join.of(d), grid_for(n, 128), 128, sums.get<void>(), gw, gb, n, chunks);
}

}  // namespace

void layer_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, int64_t rows, int64_t n, double eps) {
  if (rows == 0) return;
  static Kernel kernel(kText, "normalize");
  launch(kernel.of(d), {unsigned(rows)}, threads_for(n), x, w, b, y, mean, rstd, n, eps);
}
void layer_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, int64_t rows, int64_t n) {
  backward(d, g, x, w, mean, rstd, gx, gw, gb, rows, n);
}
void rms_norm(DType d, const void* x, const void* w, void* y, void* rstd, int64_t rows, int64_t n,
              double eps) {
  if (rows == 0) return;
  static Kernel kernel(kText, "normalize");
  const void* none = nullptr;
  launch(kernel.of(d), {unsigned(rows)}, threads_for(n), x, w, none, y, none, rstd, n, eps);
}
void rms_norm_backward(DType d, const void* g, const void* x, const void* w, const void* rstd,
                       void* gx, void* gw, int64_t rows, int64_t n) {
  backward(d, g, x, w, nullptr, rstd, gx, gw, nullptr, rows, n);
}

}  // namespace rl::cuda
