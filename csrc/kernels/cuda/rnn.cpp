// Recurrent layers: a product and a kernel for every step.
#include <algorithm>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

// The cells of kernels/cpu/rnn.cpp; a thread for every element of the states.
constexpr char kText[] = R"(
struct Step {
  int64 rows, n;
  const T *x, *bx, *bh, *p;
  T *h, *c, *out, *cells, *kept;
};
__device__ inline T of(const T* x, int64 i) { return x ? x[i] : T(0); }
__device__ inline T sigmoid(T x) { return 1 / (1 + exp(-x)); }

extern "C" __global__ void plain(Step s, int relu) {
  RL_EACH(i, s.rows * s.n) {
    int64 k = i % s.n;
    T a = s.x[i] + of(s.bx, k) + s.p[i] + of(s.bh, k);
    s.h[i] = s.out[i] = relu ? (a < 0 ? T(0) : a) : tanh(a);
  }
}
extern "C" __global__ void lstm(Step s, int) {
  RL_EACH(i, s.rows * s.n) {
    int64 row = i / s.n, k = i % s.n, n = s.n;
    T gate[4];
    for (int j = 0; j < 4; j++) {
      int64 at = row * 4 * n + j * n + k;
      T a = s.x[at] + of(s.bx, j * n + k) + s.p[at] + of(s.bh, j * n + k);
      s.kept[at] = gate[j] = j == 2 ? tanh(a) : sigmoid(a);
    }
    T c = gate[1] * s.c[i] + gate[0] * gate[2];
    s.c[i] = s.cells[i] = c;
    s.h[i] = s.out[i] = gate[3] * tanh(c);
  }
}
extern "C" __global__ void gru(Step s, int) {
  RL_EACH(i, s.rows * s.n) {
    int64 row = i / s.n, k = i % s.n, n = s.n, at = row * 3 * n + k;
    T reset = sigmoid(s.x[at] + of(s.bx, k) + s.p[at] + of(s.bh, k));
    T update = sigmoid(s.x[at + n] + of(s.bx, n + k) + s.p[at + n] + of(s.bh, n + k));
    T inner = s.p[at + 2 * n] + of(s.bh, 2 * n + k);
    T fresh = tanh(s.x[at + 2 * n] + of(s.bx, 2 * n + k) + reset * inner);
    T* kept = s.kept + row * 4 * n + k;
    kept[0] = reset;
    kept[n] = update;
    kept[2 * n] = fresh;
    kept[3 * n] = inner;
    s.h[i] = s.out[i] = fresh + update * (s.h[i] - fresh);
  }
}

struct Back {
  int64 rows, n;
  const T *g_out, *g_cells, *kept, *cells, *out, *h, *c;
  T *dh, *dc, *gx, *gh;
};
extern "C" __global__ void plain_back(Back s, int relu) {
  RL_EACH(i, s.rows * s.n) {
    T y = s.out[i], d = s.dh[i] + s.g_out[i];
    s.gx[i] = relu ? (y <= 0 ? T(0) : d) : d * (1 - y * y);
    s.dh[i] = 0;
  }
}
extern "C" __global__ void lstm_back(Back s, int) {
  RL_EACH(i, s.rows * s.n) {
    int64 row = i / s.n, k = i % s.n, n = s.n, at = row * 4 * n + k;
    T in = s.kept[at], forget = s.kept[at + n], fresh = s.kept[at + 2 * n],
      show = s.kept[at + 3 * n];
    T t = tanh(s.cells[i]), d = s.dh[i] + s.g_out[i];
    T e = s.dc[i] + of(s.g_cells, i) + d * show * (1 - t * t);
    s.gx[at] = e * fresh * in * (1 - in);
    s.gx[at + n] = e * s.c[i] * forget * (1 - forget);
    s.gx[at + 2 * n] = e * in * (1 - fresh * fresh);
    s.gx[at + 3 * n] = d * t * show * (1 - show);
    s.dc[i] = e * forget;
    s.dh[i] = 0;
  }
}
extern "C" __global__ void gru_back(Back s, int) {
  RL_EACH(i, s.rows * s.n) {
    int64 row = i / s.n, k = i % s.n, n = s.n, at = row * 3 * n + k;
    const T* kept = s.kept + row * 4 * n + k;
    T reset = kept[0], update = kept[n], fresh = kept[2 * n], inner = kept[3 * n];
    T d = s.dh[i] + s.g_out[i], e = d * (1 - update) * (1 - fresh * fresh);
    s.gh[at] = s.gx[at] = e * inner * reset * (1 - reset);
    s.gh[at + n] = s.gx[at + n] = d * (s.h[i] - fresh) * update * (1 - update);
    s.gx[at + 2 * n] = e;
    s.gh[at + 2 * n] = e * reset;
    s.dh[i] = d * update;
  }
}
)";

struct StepCall {
  int64_t rows, n;
  const void *x, *bx, *bh, *p;
  void *h, *c, *out, *cells, *kept;
};
struct BackCall {
  int64_t rows, n;
  const void *g_out, *g_cells, *kept, *cells, *out, *h, *c;
  void *dh, *dc, *gx, *gh;
};

Function function_of(DType d, RnnCell cell, bool back) {
  static Kernel forward[] = {{kText, "plain"}, {kText, "lstm"}, {kText, "gru"}};
  static Kernel backward[] = {{kText, "plain_back"}, {kText, "lstm_back"}, {kText, "gru_back"}};
  int which = cell == RnnCell::Lstm ? 1 : cell == RnnCell::Gru ? 2 : 0;
  return (back ? backward : forward)[which].of(d);
}

// Elements on from a place that may not be there.
template <class P>
auto on_from(P* data, DType d, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return data ? static_cast<Byte*>(data) + elements * itemsize(d) : nullptr;
}

void start(void* to, const void* from, int64_t bytes) {
  if (from) copy_bytes(to, from, size_t(bytes));
  else clear(to, size_t(bytes));
}

}  // namespace

void rnn_forward(DType d, RnnCell cell, RnnSteps s, const void* x, const void* w_hh,
                 const void* b_ih, const void* b_hh, const void* hx, const void* cx, void* out,
                 void* cells, void* kept) {
  int64_t n = s.hidden, gates = rnn_gates(cell) * n, stored = rnn_kept(cell) * n, row = 0;
  int64_t state = s.batch * n * itemsize(d);
  if (state == 0) return;
  Scratch h(state), c(state), products(s.batch * gates * itemsize(d));
  start(h.get<void>(), hx, state);
  if (cell == RnnCell::Lstm) start(c.get<void>(), cx, state);
  Function kernel = function_of(d, cell, false);
  if (s.reverse)
    for (int64_t t = 0; t < s.steps; ++t) row += s.sizes[t];
  for (int64_t k = 0; k < s.steps; ++k) {
    int64_t rows = s.sizes[s.reverse ? s.steps - 1 - k : k];
    if (s.reverse) row -= rows;
    gemm(d, rows, gates, n, 1, {h.get<void>(), n, 1}, {w_hh, 1, n}, 0, products.get<void>(), gates);
    StepCall call{rows,
                  n,
                  on_from(x, d, row * gates),
                  b_ih,
                  b_hh,
                  products.get<void>(),
                  h.get<void>(),
                  c.get<void>(),
                  on_from(out, d, row * n),
                  on_from(cells, d, row * n),
                  on_from(kept, d, row * stored)};
    launch(kernel, grid_for(rows * n, 256), 256, call, int(cell == RnnCell::Relu));
    if (!s.reverse) row += rows;
  }
}

void rnn_backward(DType d, RnnCell cell, RnnSteps s, const void* g_out, const void* g_cells,
                  const void* w_hh, const void* hx, const void* cx, const void* out,
                  const void* cells, const void* kept, void* gx, void* gh, void* previous,
                  void* g_hx, void* g_cx) {
  int64_t n = s.hidden, gates = rnn_gates(cell) * n, stored = rnn_kept(cell) * n, row = 0;
  int64_t size = itemsize(d), state = s.batch * n * size;
  if (state == 0) return;
  Scratch before(state);
  clear(g_hx, size_t(state));
  if (g_cx) clear(g_cx, size_t(state));
  Function kernel = function_of(d, cell, true);
  if (!s.reverse)
    for (int64_t t = 0; t < s.steps; ++t) row += s.sizes[t];
  // The rows of a step's previous states, from the neighbouring step or from the initial ones.
  auto gather = [&](int64_t t, const void* states, const void* initial, void* to) {
    int64_t rows = s.sizes[t], from = 0;
    if (s.reverse && t + 1 < s.steps) {
      from = s.sizes[t + 1];
      copy_bytes(to, on_from(states, d, (row + rows) * n), size_t(from * n * size));
    } else if (!s.reverse && t > 0) {
      from = rows;
      copy_bytes(to, on_from(states, d, (row - s.sizes[t - 1]) * n), size_t(from * n * size));
    }
    copy_bytes(on_from(to, d, from * n), on_from(initial, d, from * n),
               size_t((rows - from) * n * size));
  };
  for (int64_t k = 0; k < s.steps; ++k) {
    int64_t t = s.reverse ? k : s.steps - 1 - k, rows = s.sizes[t];
    if (!s.reverse) row -= rows;
    void* own = on_from(gh ? gh : gx, d, row * gates);
    void* began = on_from(previous, d, row * n);
    gather(t, out, hx, began);
    if (cell == RnnCell::Lstm) gather(t, cells, cx, before.get<void>());
    BackCall call{rows,
                  n,
                  on_from(g_out, d, row * n),
                  on_from(g_cells, d, row * n),
                  on_from(kept, d, row * stored),
                  on_from(cells, d, row * n),
                  on_from(out, d, row * n),
                  began,
                  before.get<void>(),
                  g_hx,
                  g_cx,
                  on_from(gx, d, row * gates),
                  own};
    launch(kernel, grid_for(rows * n, 256), 256, call, int(cell == RnnCell::Relu));
    gemm(d, rows, n, gates, 1, {own, gates, 1}, {w_hh, n, 1}, 1, g_hx, n);
    if (s.reverse) row += rows;
  }
}

}  // namespace rl::cuda
