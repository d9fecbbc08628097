#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/small_gemm.h"

namespace rl::cpu {
namespace {

constexpr int64_t kTaskWork = 1 << 19;  // multiplications worth a thread's while

RL_INLINE float tanh_of(float x) { return ::tanhf(x); }
RL_INLINE double tanh_of(double x) { return ::tanh(x); }
template <class C>
RL_INLINE C sigmoid_of(C x) {
  return 1 / (1 + exp_of(-x));
}

// Rows of one step. x and biases as given; p: the products with the states, `pitch` apart.
template <class C>
struct Step {
  int64_t rows, n;
  const C *x, *bx, *bh;
  C* p;
  int64_t pitch;
  C *h, *c;  // states, read and replaced
  C *out, *cells, *kept;
};

template <class C>
RL_CLONES void plain_step(Step<C> s, bool relu) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const C *x = s.x + r * s.n, *p = s.p + r * s.pitch;
    C *h = s.h + r * s.n, *out = s.out + r * s.n;
    if (relu) {
#pragma omp simd
      for (int64_t i = 0; i < s.n; ++i) {
        C a = x[i] + s.bx[i] + p[i] + s.bh[i];
        h[i] = out[i] = a < 0 ? C(0) : a;
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < s.n; ++i) h[i] = out[i] = tanh_of(x[i] + s.bx[i] + p[i] + s.bh[i]);
    }
  }
}

template <class C>
RL_CLONES void lstm_step(Step<C> s) {
  int64_t n = s.n;
  for (int64_t r = 0; r < s.rows; ++r) {
    const C *x = s.x + r * 4 * n, *p = s.p + r * s.pitch;
    C *kept = s.kept + r * 4 * n, *c = s.c + r * n, *h = s.h + r * n;
    C *out = s.out + r * n, *cells = s.cells + r * n;
#pragma omp simd
    for (int64_t i = 0; i < 4 * n; ++i) kept[i] = x[i] + s.bx[i] + p[i] + s.bh[i];
#pragma omp simd
    for (int64_t i = 0; i < 2 * n; ++i) kept[i] = sigmoid_of(kept[i]);
#pragma omp simd
    for (int64_t i = 2 * n; i < 3 * n; ++i) kept[i] = tanh_of(kept[i]);
#pragma omp simd
    for (int64_t i = 3 * n; i < 4 * n; ++i) kept[i] = sigmoid_of(kept[i]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      c[i] = cells[i] = kept[n + i] * c[i] + kept[i] * kept[2 * n + i];
      h[i] = out[i] = kept[3 * n + i] * tanh_of(c[i]);
    }
  }
}

template <class C>
RL_CLONES void gru_step(Step<C> s) {
  int64_t n = s.n;
  for (int64_t r = 0; r < s.rows; ++r) {
    const C *x = s.x + r * 3 * n, *p = s.p + r * s.pitch;
    C *kept = s.kept + r * 4 * n, *h = s.h + r * n, *out = s.out + r * n;
#pragma omp simd
    for (int64_t i = 0; i < 2 * n; ++i) kept[i] = sigmoid_of(x[i] + s.bx[i] + p[i] + s.bh[i]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      int64_t j = 2 * n + i;
      C inner = p[j] + s.bh[j];
      C fresh = tanh_of(x[j] + s.bx[j] + kept[i] * inner);
      kept[j] = fresh;
      kept[j + n] = inner;
      h[i] = out[i] = fresh + kept[n + i] * (h[i] - fresh);
    }
  }
}

// Rows of one step, backwards. dh and dc: gradients of the states that it left, replaced by their
// direct part in those that it began with.
template <class C>
struct BackStep {
  int64_t rows, n;
  const C *g_out, *g_cells, *kept, *cells, *out;
  const C *h, *c;  // the states it began with
  C *dh, *dc, *gx, *gh;
};

template <class C>
RL_CLONES void plain_back(BackStep<C> s, bool relu) {
#pragma omp simd
  for (int64_t i = 0; i < s.rows * s.n; ++i) {
    C y = s.out[i], d = s.dh[i] + s.g_out[i];
    s.gx[i] = relu ? (y <= 0 ? C(0) : d) : d * (1 - y * y);
    s.dh[i] = 0;
  }
}

template <class C>
RL_CLONES void lstm_back(BackStep<C> s) {
  int64_t n = s.n;
  for (int64_t r = 0; r < s.rows; ++r) {
    const C *kept = s.kept + r * 4 * n, *cells = s.cells + r * n, *g = s.g_out + r * n;
    const C *before = s.c + r * n, *g_cells = s.g_cells ? s.g_cells + r * n : nullptr;
    C *dh = s.dh + r * n, *dc = s.dc + r * n, *gx = s.gx + r * 4 * n;
    if (g_cells) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dc[i] += g_cells[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C in = kept[i], forget = kept[n + i], fresh = kept[2 * n + i], show = kept[3 * n + i];
      C t = tanh_of(cells[i]), d = dh[i] + g[i], e = dc[i] + d * show * (1 - t * t);
      gx[i] = e * fresh * in * (1 - in);
      gx[n + i] = e * before[i] * forget * (1 - forget);
      gx[2 * n + i] = e * in * (1 - fresh * fresh);
      gx[3 * n + i] = d * t * show * (1 - show);
      dc[i] = e * forget;
      dh[i] = 0;
    }
  }
}

template <class C>
RL_CLONES void gru_back(BackStep<C> s) {
  int64_t n = s.n;
  for (int64_t r = 0; r < s.rows; ++r) {
    const C *kept = s.kept + r * 4 * n, *g = s.g_out + r * n, *before = s.h + r * n;
    C *dh = s.dh + r * n, *gx = s.gx + r * 3 * n, *gh = s.gh + r * 3 * n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C reset = kept[i], update = kept[n + i], fresh = kept[2 * n + i], inner = kept[3 * n + i];
      C d = dh[i] + g[i], e = d * (1 - update) * (1 - fresh * fresh);
      gh[i] = gx[i] = e * inner * reset * (1 - reset);
      gh[n + i] = gx[n + i] = d * (before[i] - fresh) * update * (1 - update);
      gx[2 * n + i] = e;
      gh[2 * n + i] = e * reset;
      dh[i] = d * update;
    }
  }
}

// A matrix [rows, cols] as the second factor of products with few rows, in panels of columns that
// lie together.
template <class C>
class Factor {
 public:
  // `turned`: the transpose of what lies at w.
  Factor(const C* w, int64_t rows, int64_t cols, bool turned)
      : rows_(rows), pitch_(pad_lanes<C>(cols)), data_(size_t(rows * pitch_)) {
    constexpr int64_t size = sizeof(C);
    int64_t down = turned ? size : cols * size, across = turned ? rows * size : size;
    for (int64_t j = 0; j < pitch_; j += kPanel) {
      int64_t width = std::min(kPanel, pitch_ - j), real = std::min(kPanel, cols - j);
      move2d(size, reinterpret_cast<char*>(data_.data() + j * rows), width * size, size,
             reinterpret_cast<const char*>(w) + j * across, down, across, rows, real);
    }
  }
  int64_t pitch() const { return pitch_; }
  // out [m, pitch] = a [m, rows] @ this
  void multiply(const C* a, int64_t m, C* out) const {
    int64_t panels = (pitch_ + kPanel - 1) / kPanel, work = m * rows_ * kPanel;
    parallel_for(panels, kTaskWork / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin * kPanel; j < std::min(end * kPanel, pitch_); j += kPanel) {
        int64_t width = std::min(kPanel, pitch_ - j);
        small_gemm(m, width, rows_, a, rows_, int64_t(1), data_.data() + j * rows_, width, out + j,
                   pitch_, false);
      }
    });
  }

 private:
  static constexpr int64_t kPanel = 2 * kLanes<C>;
  int64_t rows_, pitch_;
  std::vector<C> data_;
};

template <class C>
std::vector<C> copied(const C* x, int64_t n) {
  return x ? std::vector<C>(x, x + n) : std::vector<C>(size_t(n));
}

template <class C>
void forward(RnnCell cell, RnnSteps s, const C* x, const C* w_hh, const C* b_ih, const C* b_hh,
             const C* hx, const C* cx, C* out, C* cells, C* kept) {
  int64_t n = s.hidden, gates = rnn_gates(cell) * n, stored = rnn_kept(cell) * n, row = 0;
  Factor<C> weights(w_hh, n, gates, true);
  std::vector<C> bx = copied(b_ih, gates), bh = copied(b_hh, gates);
  std::vector<C> h = copied(hx, s.batch * n), c = copied(cx, cx ? s.batch * n : 0);
  std::vector<C> products(size_t(s.batch * weights.pitch()));
  if (s.reverse)
    for (int64_t t = 0; t < s.steps; ++t) row += s.sizes[t];
  for (int64_t k = 0; k < s.steps; ++k) {
    int64_t rows = s.sizes[s.reverse ? s.steps - 1 - k : k];
    if (s.reverse) row -= rows;
    weights.multiply(h.data(), rows, products.data());
    Step<C> step{rows,
                 n,
                 x + row * gates,
                 bx.data(),
                 bh.data(),
                 products.data(),
                 weights.pitch(),
                 h.data(),
                 c.data(),
                 out + row * n,
                 cells ? cells + row * n : nullptr,
                 kept + row * stored};
    if (cell == RnnCell::Lstm) lstm_step(step);
    else if (cell == RnnCell::Gru) gru_step(step);
    else plain_step(step, cell == RnnCell::Relu);
    if (!s.reverse) row += rows;
  }
}

// The rows of a step's previous states, from the neighbouring step or from the initial ones.
template <class C>
void gather_previous(RnnSteps s, int64_t t, int64_t row, const C* states, const C* initial, C* to) {
  int64_t rows = s.sizes[t], n = s.hidden, from = 0;
  if (s.reverse && t + 1 < s.steps) {
    from = s.sizes[t + 1];
    std::copy_n(states + (row + rows) * n, from * n, to);
  } else if (!s.reverse && t > 0) {
    from = rows;
    std::copy_n(states + (row - s.sizes[t - 1]) * n, from * n, to);
  }
  std::copy(initial + from * n, initial + rows * n, to + from * n);
}

template <class C>
void backward(RnnCell cell, RnnSteps s, const C* g_out, const C* g_cells, const C* w_hh,
              const C* hx, const C* cx, const C* out, const C* cells, const C* kept, C* gx, C* gh,
              C* previous, C* g_hx, C* g_cx) {
  int64_t n = s.hidden, gates = rnn_gates(cell) * n, stored = rnn_kept(cell) * n, row = 0;
  Factor<C> weights(w_hh, gates, n, false);
  std::vector<C> products(size_t(s.batch * weights.pitch())), before(size_t(s.batch * n));
  std::fill_n(g_hx, s.batch * n, C(0));
  if (g_cx) std::fill_n(g_cx, s.batch * n, C(0));
  if (!s.reverse)
    for (int64_t t = 0; t < s.steps; ++t) row += s.sizes[t];
  for (int64_t k = 0; k < s.steps; ++k) {
    int64_t t = s.reverse ? k : s.steps - 1 - k, rows = s.sizes[t];
    if (!s.reverse) row -= rows;
    C *start = previous + row * n, *own = gh ? gh + row * gates : gx + row * gates;
    gather_previous(s, t, row, out, hx, start);
    if (cell == RnnCell::Lstm) gather_previous(s, t, row, cells, cx, before.data());
    BackStep<C> step{rows,
                     n,
                     g_out + row * n,
                     g_cells ? g_cells + row * n : nullptr,
                     kept + row * stored,
                     cells ? cells + row * n : nullptr,
                     out + row * n,
                     start,
                     before.data(),
                     g_hx,
                     g_cx,
                     gx + row * gates,
                     own};
    if (cell == RnnCell::Lstm) lstm_back(step);
    else if (cell == RnnCell::Gru) gru_back(step);
    else plain_back(step, cell == RnnCell::Relu);
    weights.multiply(own, rows, products.data());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; ++i) g_hx[r * n + i] += products[size_t(r * weights.pitch() + i)];
    if (s.reverse) row += rows;
  }
}

template <class F>
void by_type(DType d, const F& f) {
  d == DType::F64 ? f(double{}) : f(float{});
}

}  // namespace

void rnn_forward(DType d, RnnCell cell, RnnSteps s, const void* x, const void* w_hh,
                 const void* b_ih, const void* b_hh, const void* hx, const void* cx, void* out,
                 void* cells, void* kept) {
  by_type(d, [&](auto zero) {
    using C = decltype(zero);
    auto in = [](const void* p) { return static_cast<const C*>(p); };
    auto to = [](void* p) { return static_cast<C*>(p); };
    forward<C>(cell, s, in(x), in(w_hh), in(b_ih), in(b_hh), in(hx), in(cx), to(out), to(cells),
               to(kept));
  });
}

void rnn_backward(DType d, RnnCell cell, RnnSteps s, const void* g_out, const void* g_cells,
                  const void* w_hh, const void* hx, const void* cx, const void* out,
                  const void* cells, const void* kept, void* gx, void* gh, void* previous,
                  void* g_hx, void* g_cx) {
  by_type(d, [&](auto zero) {
    using C = decltype(zero);
    auto in = [](const void* p) { return static_cast<const C*>(p); };
    auto to = [](void* p) { return static_cast<C*>(p); };
    backward<C>(cell, s, in(g_out), in(g_cells), in(w_hh), in(hx), in(cx), in(out), in(cells),
                in(kept), to(gx), to(gh), to(previous), to(g_hx), to(g_cx));
  });
}

}  // namespace rl::cpu
