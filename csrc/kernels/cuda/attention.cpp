// Attention: of halves by a kernel of its own where that suits, else products by the library with a
// softmax between them.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Mask {
  const T* data;
  int64 batch, head, row, col;
};
// Some of the queries, from `first` on of `total`.
struct Shape {
  int64 heads, queries, keys, first, total;
  int causal;
};

// Scores of a query become probabilities; lse is infinite where it sees nothing.
extern "C" __global__ void probabilities(T* scores, Mask mask, T* lse, Shape s) {
  int64 line = blockIdx.x, q = s.first + line % s.queries, h = line / s.queries % s.heads,
        b = line / s.queries / s.heads;
  T* x = scores + line * s.keys;
  lse += (b * s.heads + h) * s.total + q;
  const T* m = mask.data ? mask.data + b * mask.batch + h * mask.head + q * mask.row : 0;
  int64 end = s.causal && q + 1 < s.keys ? q + 1 : s.keys;
  A most = -A(INFINITY), sum = 0;
  for (int64 i = threadIdx.x; i < end; i += blockDim.x) {
    A v = A(x[i]) + (m ? A(m[i * mask.col]) : A(0));
    x[i] = T(v);
    most = Larger()(v, most);
  }
  most = block_all(most, -A(INFINITY), Larger());
  bool blind = most == -A(INFINITY);
  for (int64 i = threadIdx.x; i < end; i += blockDim.x) {
    A v = blind ? A(0) : exp(A(x[i]) - most);
    x[i] = T(v);
    sum += v;
  }
  sum = block_all(sum, A(0), Plus());
  A scale = blind ? A(0) : 1 / sum;
  for (int64 i = threadIdx.x; i < s.keys; i += blockDim.x)
    x[i] = i < end ? T(A(x[i]) * scale) : T(0);
  if (threadIdx.x == 0) *lse = T(blind ? A(INFINITY) : most + log(sum));
}
// The same from lse, which is kept.
extern "C" __global__ void probabilities_again(T* scores, Mask mask, const T* lse, Shape s) {
  int64 line = blockIdx.x, q = s.first + line % s.queries, h = line / s.queries % s.heads,
        b = line / s.queries / s.heads;
  T* x = scores + line * s.keys;
  lse += (b * s.heads + h) * s.total + q;
  const T* m = mask.data ? mask.data + b * mask.batch + h * mask.head + q * mask.row : 0;
  int64 end = s.causal && q + 1 < s.keys ? q + 1 : s.keys;
  A shift = A(*lse);
  for (int64 i = threadIdx.x; i < s.keys; i += blockDim.x) {
    A v = i < end ? A(x[i]) + (m ? A(m[i * mask.col]) : A(0)) : -A(INFINITY);
    x[i] = T(shift == A(INFINITY) ? A(0) : exp(v - shift));
  }
}
// gp becomes the gradient of the scores: p * (gp - sum(p * gp)).
extern "C" __global__ void score_gradient(const T* p, T* gp, int64 keys) {
  int64 line = blockIdx.x;
  p += line * keys;
  gp += line * keys;
  A sum = 0;
  for (int64 i = threadIdx.x; i < keys; i += blockDim.x) sum += A(p[i]) * A(gp[i]);
  sum = block_all(sum, A(0), Plus());
  for (int64 i = threadIdx.x; i < keys; i += blockDim.x) gp[i] = T(A(p[i]) * (A(gp[i]) - sum));
}
)";

struct Shape {
  int64_t heads, queries, keys, first, total;
  int causal;
};

unsigned threads_for(int64_t n) { return n > 512 ? 256 : n > 128 ? 128 : n > 32 ? 64 : 32; }

// [batch, key heads, heads that share one]: a matrix at each.
struct Operand3 {
  const void* data;
  int64_t batch, head, row;
  bool shared;  // one for all heads of a key head
};

class Heads3 {
 public:
  explicit Heads3(DType d, const AttentionShape& s) : d_(d), s_(s) {}
  static Operand3 of(const Heads& h, bool shared) {
    return {h.data, h.batch, h.head, h.row, shared};
  }
  // c = alpha * (a or a^T) (b or b^T) at every position; summed over the sharing heads when c is
  // shared.
  void multiply(const Operand3& a, bool turn_a, const Operand3& b, bool turn_b, const Operand3& c,
                int64_t m, int64_t n, int64_t k, double alpha, double beta = 0) const {
    int64_t group = s_.heads / s_.key_heads;
    auto outer = [&](const Operand3& x) { return x.shared ? x.head : x.head * group; };
    auto inner = [&](const Operand3& x) { return x.shared ? int64_t(0) : x.head; };
    BatchDim dims[] = {{s_.batch, a.batch, b.batch, c.batch, false},
                       {s_.key_heads, outer(a), outer(b), outer(c), false},
                       {group, inner(a), inner(b), inner(c), c.shared && group > 1}};
    auto ref = [](const Operand3& x, bool turned) {
      return turned ? MatrixRef{x.data, 1, x.row} : MatrixRef{x.data, x.row, 1};
    };
    gemm_nd(d_, dims, 3, m, n, k, alpha, ref(a, turn_a), ref(b, turn_b), beta,
            const_cast<void*>(c.data), c.row);
  }
  Operand3 scores(void* data, int64_t queries, int64_t keys) const {
    return {data, s_.heads * queries * keys, queries * keys, keys, false};
  }
  Operand3 rows(const Heads& h, int64_t first) const {
    return {static_cast<char*>(h.data) + first * h.row * itemsize(d_), h.batch, h.head, h.row,
            false};
  }
  // How many queries are taken at a time: few enough for their scores to need little memory, and
  // for those that see few keys to be computed with few.
  int64_t at_once() const {
    int64_t line = std::max<int64_t>(s_.batch * s_.heads * s_.keys * itemsize(d_), 1);
    int64_t most = std::max<int64_t>((int64_t(256) << 20) / line / 64 * 64, 64);
    return std::min(s_.queries, s_.causal ? std::min<int64_t>(most, 256) : most);
  }
  // f(first query, how many, how many keys they see); the last ones, which see most, come first.
  template <class F>
  void each_part(const F& f) const {
    int64_t step = at_once();
    for (int64_t first = (s_.queries - 1) / step * step; first >= 0; first -= step) {
      int64_t count = std::min(step, s_.queries - first);
      bool last = first + count == s_.queries;
      f(first, count, s_.causal && !last ? std::min(s_.keys, first + count) : s_.keys);
    }
  }

 private:
  DType d_;
  const AttentionShape& s_;
};

// Operands come and results go through memory for the time of the call: halves as floats, and heads
// that are not as far apart as one batch of products wants them.
class Dense {
 public:
  Dense(DType from, const AttentionShape& s) : from_(from), to_(compute_type(from)), s_(s) {}
  Heads in(const Heads& x, int64_t heads, int64_t rows, int64_t columns) {
    Heads made = room(heads, rows, columns);
    move(to_, made, from_, x, heads, rows, columns);
    return made;
  }
  Heads room(int64_t heads, int64_t rows, int64_t columns) {
    held_.push_back(std::make_unique<Scratch>(s_.batch * heads * rows * columns * itemsize(to_)));
    return {held_.back()->get<void>(), heads * rows * columns, rows * columns, columns};
  }
  void out(const Heads& to, const Heads& x, int64_t heads, int64_t rows, int64_t columns) const {
    move(from_, to, to_, x, heads, rows, columns);
  }
  ScoreMask in(const ScoreMask& mask) {
    if (!mask.data || from_ == to_) return mask;
    Heads made = room(s_.heads, s_.queries, s_.keys);
    int64_t sizes[] = {s_.batch, s_.heads, s_.queries, s_.keys}, a = itemsize(to_),
            b = itemsize(from_);
    int64_t to[] = {made.batch * a, made.head * a, made.row * a, a};
    int64_t at[] = {mask.batch * b, mask.head * b, mask.row * b, mask.col * b};
    copy_strided(to_, made.data, to, from_, mask.data, at, sizes, 4);
    return {made.data, made.batch, made.head, made.row, 1};
  }
  DType type() const { return to_; }
  static bool is_needed(DType d, const AttentionShape& s, std::initializer_list<Heads> all) {
    if (compute_type(d) != d) return true;
    if (s.batch == 1 || s.heads == 1) return false;
    for (const Heads& h : all)
      if (h.batch != h.head * s.heads && h.batch != h.head * s.key_heads) return true;
    return false;
  }

 private:
  void move(DType to, const Heads& y, DType from, const Heads& x, int64_t heads, int64_t rows,
            int64_t columns) const {
    int64_t sizes[] = {s_.batch, heads, rows, columns}, a = itemsize(to), b = itemsize(from);
    int64_t y_strides[] = {y.batch * a, y.head * a, y.row * a, a};
    int64_t x_strides[] = {x.batch * b, x.head * b, x.row * b, b};
    copy_strided(to, y.data, y_strides, from, x.data, x_strides, sizes, 4);
  }
  DType from_, to_;
  const AttentionShape& s_;
  std::vector<std::unique_ptr<Scratch>> held_;
};

}  // namespace

void attention(DType d, const AttentionShape& s, Heads q, Heads k, Heads v, ScoreMask mask,
               Heads out, void* lse) {
  int64_t lines = s.batch * s.heads * s.queries;
  if (lines == 0) return;
  if (fused_attention(d, s, q, k, v, mask, out, lse)) return;
  if (Dense::is_needed(d, s, {q, k, v, out})) {
    Dense w(d, s);
    Heads y = w.room(s.heads, s.queries, s.value_width);
    attention(w.type(), s, w.in(q, s.heads, s.queries, s.width),
              w.in(k, s.key_heads, s.keys, s.width), w.in(v, s.key_heads, s.keys, s.value_width),
              w.in(mask), y, lse);
    return w.out(out, y, s.heads, s.queries, s.value_width);
  }
  Heads3 h(d, s);
  static Kernel kernel(kText, "probabilities");
  Scratch room(s.batch * s.heads * h.at_once() * s.keys * itemsize(d));
  h.each_part([&](int64_t first, int64_t count, int64_t keys) {
    Operand3 scores = h.scores(room.get<void>(), count, keys);
    h.multiply(h.rows(q, first), false, h.of(k, true), true, scores, count, keys, s.width, s.scale);
    Shape shape{s.heads, count, keys, first, s.queries, s.causal};
    launch(kernel.of(d), {unsigned(s.batch * s.heads * count)}, threads_for(keys), room.get<void>(),
           mask, lse, shape);
    h.multiply(scores, false, h.of(v, true), false, h.rows(out, first), count, s.value_width, keys,
               1);
  });
}

void attention_backward(DType d, const AttentionShape& s, Heads g, Heads q, Heads k, Heads v,
                        ScoreMask mask, Heads out, const void* lse, Heads gq, Heads gk, Heads gv) {
  int64_t lines = s.batch * s.heads * s.queries;
  if (lines == 0) return;
  if (fused_attention_backward(d, s, g, q, k, v, mask, out, lse, gq, gk, gv)) return;
  if (Dense::is_needed(d, s, {g, q, k, v, gq, gk, gv})) {
    Dense w(d, s);
    Heads to_q = w.room(s.heads, s.queries, s.width), to_k = w.room(s.key_heads, s.keys, s.width),
          to_v = w.room(s.key_heads, s.keys, s.value_width);
    attention_backward(w.type(), s, w.in(g, s.heads, s.queries, s.value_width),
                       w.in(q, s.heads, s.queries, s.width), w.in(k, s.key_heads, s.keys, s.width),
                       w.in(v, s.key_heads, s.keys, s.value_width), w.in(mask), {}, lse, to_q, to_k,
                       to_v);
    w.out(gq, to_q, s.heads, s.queries, s.width);
    w.out(gk, to_k, s.key_heads, s.keys, s.width);
    return w.out(gv, to_v, s.key_heads, s.keys, s.value_width);
  }
  Heads3 h(d, s);
  static Kernel again(kText, "probabilities_again"), gradient(kText, "score_gradient");
  int64_t most = s.batch * s.heads * h.at_once() * s.keys * itemsize(d);
  Scratch room(most), more(most);
  double beta = 0;  // what keys and values get is added up
  h.each_part([&](int64_t first, int64_t count, int64_t keys) {
    Operand3 p = h.scores(room.get<void>(), count, keys),
             gp = h.scores(more.get<void>(), count, keys);
    Operand3 own_q = h.rows(q, first), own_g = h.rows(g, first);
    h.multiply(own_q, false, h.of(k, true), true, p, count, keys, s.width, s.scale);
    Shape shape{s.heads, count, keys, first, s.queries, s.causal};
    unsigned lines_here = unsigned(s.batch * s.heads * count);
    launch(again.of(d), {lines_here}, threads_for(keys), room.get<void>(), mask, lse, shape);
    h.multiply(p, true, own_g, false, h.of(gv, true), keys, s.value_width, count, 1, beta);
    h.multiply(own_g, false, h.of(v, true), true, gp, count, keys, s.value_width, 1);
    launch(gradient.of(d), {lines_here}, threads_for(keys), room.get<void>(), more.get<void>(),
           keys);
    h.multiply(gp, false, h.of(k, true), false, h.rows(gq, first), count, s.width, keys, s.scale);
    h.multiply(gp, true, own_q, false, h.of(gk, true), keys, s.width, count, s.scale, beta);
    beta = 1;
  });
}

}  // namespace rl::cuda
