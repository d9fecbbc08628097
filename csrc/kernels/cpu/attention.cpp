#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/small_gemm.h"

namespace rl::cpu {
namespace {

constexpr int64_t kRows = 16;    // queries of a block
constexpr int64_t kKeys = 256;   // keys of a block
constexpr int64_t kChunk = 256;  // queries of a task, which share packed keys
constexpr size_t kKeepBytes = 4 << 20;
constexpr double kTaskWork = 262144;  // multiplications worth a thread's while

// Memory that stays with its thread between calls, handed out in aligned pieces.
template <class C>
class Pieces {
 public:
  explicit Pieces(int64_t elements) {
    size_t need = size_t(elements + 64) * sizeof(C) / 64 * 64;
    if (need > bytes) {
      bytes = 0;
      memory.reset(static_cast<char*>(std::aligned_alloc(64, need)));
      if (!memory) throw std::bad_alloc();
      bytes = need;
    }
    next_ = reinterpret_cast<C*>(memory.get());
  }
  ~Pieces() {
    if (bytes > kKeepBytes) memory.reset(), bytes = 0;
  }
  Pieces(const Pieces&) = delete;
  C* take(int64_t elements) { return std::exchange(next_, next_ + pad_lanes<C>(elements)); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  static thread_local std::unique_ptr<char, Free> memory;
  static thread_local size_t bytes;
  C* next_;
};
template <class C>
thread_local std::unique_ptr<char, typename Pieces<C>::Free> Pieces<C>::memory;
template <class C>
thread_local size_t Pieces<C>::bytes = 0;

// Rows of a tensor whose number of columns a kernel may round up to whole vectors.
template <class C>
struct Matrix {
  C* data;
  int64_t row;
  C* at(int64_t i) const { return data + i * row; }
};

template <class C>
Matrix<C> matrix(const Heads& t, int64_t b, int64_t h) {
  return {static_cast<C*>(t.data) + b * t.batch + h * t.head, t.row};
}

// The rows as they lie when they are whole vectors, else a copy padded with zeros.
template <class C>
Matrix<C> padded(Matrix<C> x, int64_t rows, int64_t cols, C* room) {
  int64_t wide = pad_lanes<C>(cols);
  if (wide == cols) return x;
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(x.at(i), cols, room + i * wide);
    std::fill(room + i * wide + cols, room + (i + 1) * wide, C(0));
  }
  return {room, wide};
}

// [rows, cols] as [cols, rows], the rows padded with zeros.
template <class C>
Matrix<C> turned(Matrix<C> x, int64_t rows, int64_t cols, C* room) {
  int64_t wide = pad_lanes<C>(rows), size = sizeof(C);
  move2d(size, reinterpret_cast<char*>(room), wide * size, size, reinterpret_cast<char*>(x.data),
         size, x.row * size, cols, rows);
  if (wide > rows)
    for (int64_t c = 0; c < cols; ++c)
      std::fill(room + c * wide + rows, room + (c + 1) * wide, C(0));
  return {room, wide};
}

template <class C>
struct MaskRows {
  const C* data;  // null: nothing is added
  int64_t row, col;
  MaskRows(const ScoreMask& m, int64_t b, int64_t h)
      : data(static_cast<const C*>(m.data)), row(m.row), col(m.col) {
    if (data) data += b * m.batch + h * m.head;
  }
  const C* at(int64_t i, int64_t j) const { return data ? data + i * row + j * col : nullptr; }
};

template <class C>
RL_CLONES void scale_row(const C* x, C* y, int64_t n, C factor) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] * factor;
}

// out[i] = the sum of x[i, j] * y[i, j]
template <class C>
RL_CLONES void dot_rows(Matrix<C> x, Matrix<C> y, int64_t rows, int64_t n, C* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const C *a = x.at(i), *b = y.at(i);
    out[i] = fold_each<SumOf<C>>(n, RL_EACH(j) { return a[j] * b[j]; });
  }
}

// A block of products q k^T, [rows, wide], and which of them count: in row r the first
// seen + r * step, of all `keys`.
template <class C>
struct Scores {
  C* data;
  int64_t rows, wide, keys, seen, step;
  C scale;
  const C* mask;  // of the first row and key, or null
  int64_t mask_row, mask_col;

  int64_t visible(int64_t r) const { return std::clamp<int64_t>(seen + r * step, 0, keys); }

  // Makes scores of one vector: scaled, masked, -inf where nothing counts.
  RL_INLINE void finish(C* x, int64_t r, int64_t j, int64_t end) const {
    constexpr C none = -std::numeric_limits<C>::infinity();
    constexpr int64_t lanes = kLanes<C>;
    const C* added = mask ? mask + r * mask_row + j * mask_col : nullptr;
    if (j + lanes <= end && (!added || mask_col == 1)) {
      if (added) {
#pragma omp simd
        for (int64_t l = 0; l < lanes; ++l) x[l] = x[l] * scale + added[l];
      } else {
#pragma omp simd
        for (int64_t l = 0; l < lanes; ++l) x[l] *= scale;
      }
      return;
    }
    if (added) {
      for (int64_t l = 0; l < std::min(lanes, end - j); ++l)
        x[l] = x[l] * scale + added[l * mask_col];
    } else {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) x[l] *= scale;
    }
    C limit = C(end - j);
#pragma omp simd
    for (int64_t l = 0; l < lanes; ++l) x[l] = C(l) < limit ? x[l] : none;
  }
};

template <class Op>
RL_INLINE typename Op::C fold_lanes(typename Op::C* parts) {
#pragma GCC unroll 4
  for (int64_t half = kLanes<typename Op::C> / 2; half > 0; half /= 2) {
#pragma omp simd
    for (int64_t l = 0; l < half; ++l) parts[l] = Op::apply(parts[l], parts[l + half]);
  }
  return parts[0];
}

// The softmax of a block of scores, in place, given what earlier keys left: the largest score of
// each row, the sum of exponentials and the weighted sum of values.
template <class C>
RL_CLONES void online_softmax(Scores<C> s, C* largest, C* sum, C* out, int64_t value_wide,
                              bool first) {
  constexpr C none = -std::numeric_limits<C>::infinity();
  constexpr int64_t lanes = kLanes<C>;
  for (int64_t r = 0; r < s.rows; ++r) {
    C* row = s.data + r * s.wide;
    int64_t end = s.visible(r);
    C top[lanes], parts[lanes], before = first ? none : largest[r], now;
    std::fill_n(top, lanes, none);
    std::fill_n(parts, lanes, C(0));
    for (int64_t j = 0; j < s.wide; j += lanes) {
      s.finish(row + j, r, j, end);
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) top[l] = row[j + l] > top[l] ? row[j + l] : top[l];
    }
    now = MaxOf<C>::apply(before, fold_lanes<MaxOf<C>>(top));
    C center = now == none ? C(0) : now;
    for (int64_t j = 0; j < s.wide; j += lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) {
        row[j + l] = exp_of(row[j + l] - center);
        parts[l] += row[j + l];
      }
    }
    C total = fold_lanes<SumOf<C>>(parts);
    if (!first && before != now) {
      C factor = exp_of(before - center);
      sum[r] *= factor;
      C* kept = out + r * value_wide;
#pragma omp simd
      for (int64_t j = 0; j < value_wide; ++j) kept[j] *= factor;
    }
    largest[r] = now;
    sum[r] = first ? total : sum[r] + total;
  }
}

// Products become probabilities p; the gradients d of those become gradients of the products.
template <class C>
RL_CLONES void softmax_gradient(Scores<C> s, C* d, const C* lse, const C* delta) {
  constexpr int64_t lanes = kLanes<C>;
  for (int64_t r = 0; r < s.rows; ++r) {
    C *p = s.data + r * s.wide, *to = d + r * s.wide, center = lse[r], mean = delta[r];
    int64_t end = s.visible(r);
    for (int64_t j = 0; j < s.wide; j += lanes) {
      s.finish(p + j, r, j, end);
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) {
        p[j + l] = exp_of(p[j + l] - center);
        to[j + l] = p[j + l] * (to[j + l] - mean) * s.scale;
      }
    }
  }
}

// A block of a head's keys, against which blocks of its queries are taken.
template <class C>
struct Block {
  const AttentionShape& s;
  int64_t first_key, keys;  // of the block
  Matrix<C> turned_keys;

  // q k^T for the queries [i, i + rows), up to the last key that any of them sees.
  Scores<C> scores(Matrix<C> q, const MaskRows<C>& mask, int64_t i, int64_t rows, C* out) const {
    int64_t seen = s.causal ? i + 1 - first_key : keys, step = s.causal ? 1 : 0;
    Scores<C> x{out,      rows,    0, keys, seen, step, C(s.scale), mask.at(i, first_key),
                mask.row, mask.col};
    x.wide = pad_lanes<C>(x.visible(rows - 1));
    if (x.wide > 0)
      small_gemm(rows, x.wide, s.width, q.at(i), q.row, int64_t(1), turned_keys.data,
                 turned_keys.row, out, x.wide, false);
    return x;
  }
};

template <class C>
void forward(const AttentionShape& s, Heads q, Heads k, Heads v, ScoreMask mask, Heads out,
             C* lse) {
  int64_t value_wide = pad_lanes<C>(s.value_width), block = std::min(s.keys, kKeys);
  int64_t chunk = std::min(s.queries, kChunk), chunks = (s.queries + chunk - 1) / chunk;
  int64_t group = s.heads / s.key_heads;
  double work = double(chunk) * double(s.keys) * double(s.width + s.value_width);
  auto task = [&](int64_t index) {
    int64_t head = index / chunks, b = head / s.heads, h = head % s.heads;
    int64_t begin = index % chunks * chunk, end = std::min(begin + chunk, s.queries);
    Pieces<C> room(s.width * pad_lanes<C>(block) + block * value_wide +
                   kRows * pad_lanes<C>(block) + (end - begin) * (value_wide + 2) + 256);
    C *kt_room = room.take(s.width * pad_lanes<C>(block)), *v_room = room.take(block * value_wide);
    C* scores = room.take(kRows * pad_lanes<C>(block));
    C *sums = room.take((end - begin) * value_wide), *largest = room.take(end - begin),
      *sum = room.take(end - begin);
    Matrix<C> qs = matrix<C>(q, b, h), ks = matrix<C>(k, b, h / group),
              vs = matrix<C>(v, b, h / group);
    MaskRows<C> added(mask, b, h);
    for (int64_t j = 0; j < s.keys && (!s.causal || j < end); j += block) {
      int64_t count = std::min(block, s.keys - j);
      Block<C> keys{s, j, count, turned(Matrix<C>{ks.at(j), ks.row}, count, s.width, kt_room)};
      Matrix<C> values = padded(Matrix<C>{vs.at(j), vs.row}, count, s.value_width, v_room);
      for (int64_t i = begin; i < end; i += kRows) {
        int64_t rows = std::min(kRows, end - i), at = i - begin;
        Scores<C> x = keys.scores(qs, added, i, rows, scores);
        if (x.wide == 0) continue;
        C* into = sums + at * value_wide;
        online_softmax(x, largest + at, sum + at, into, value_wide, j == 0);
        small_gemm(rows, value_wide, x.visible(rows - 1), scores, x.wide, int64_t(1), values.data,
                   values.row, into, value_wide, j > 0);
      }
    }
    Matrix<C> result = matrix<C>(out, b, h);
    for (int64_t i = begin; i < end; ++i) {
      C total = sum[i - begin];
      scale_row(sums + (i - begin) * value_wide, result.at(i), s.value_width,
                total == 0 ? C(0) : 1 / total);
      lse[head * s.queries + i] =
          total == 0 ? std::numeric_limits<C>::infinity() : largest[i - begin] + log_of(total);
    }
  };
  parallel_for(s.batch * s.heads * chunks, int64_t(kTaskWork / work),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) task(i);
               });
}

// Where a gradient is summed: in its own rows when they are whole vectors, else in `room`.
template <class C>
Matrix<C> gathered(Matrix<C> x, int64_t cols, C* room) {
  int64_t wide = pad_lanes<C>(cols);
  return wide == cols ? x : Matrix<C>{room, wide};
}
template <class C>
void clear(Matrix<C> x, int64_t begin, int64_t end, int64_t cols) {
  for (int64_t i = begin; i < end; ++i) std::fill_n(x.at(i), cols, C(0));
}
template <class C>
void deliver(Matrix<C> from, Matrix<C> to, int64_t rows, int64_t cols) {
  if (from.data == to.data) return;
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from.at(i), cols, to.at(i));
}

template <class C>
void backward(const AttentionShape& s, Heads g, Heads q, Heads k, Heads v, ScoreMask mask,
              Heads out, const C* lse, Heads gq, Heads gk, Heads gv) {
  int64_t wide_q = pad_lanes<C>(s.width), wide_v = pad_lanes<C>(s.value_width);
  int64_t block = std::min(s.keys, kKeys), wide_block = pad_lanes<C>(block);
  int64_t spare_q = wide_q == s.width ? 0 : wide_q, spare_v = wide_v == s.value_width ? 0 : wide_v;
  int64_t group = s.heads / s.key_heads;
  double work =
      2.5 * double(group) * double(s.queries) * double(s.keys) * double(s.width + s.value_width);
  auto task = [&](int64_t b, int64_t key_head) {
    Pieces<C> room((s.width + s.value_width + 2 * kRows) * wide_block +
                   (s.keys + s.queries) * (2 * spare_q + spare_v) + s.queries + 1024);
    C *kt_room = room.take(s.width * wide_block), *vt_room = room.take(s.value_width * wide_block);
    C *p = room.take(kRows * wide_block), *d = room.take(kRows * wide_block);
    C *k_room = room.take(s.keys * spare_q), *gk_room = room.take(s.keys * spare_q),
      *gv_room = room.take(s.keys * spare_v);
    C *q_room = room.take(s.queries * spare_q), *gq_room = room.take(s.queries * spare_q),
      *g_room = room.take(s.queries * spare_v), *delta = room.take(s.queries);
    Matrix<C> key_rows = matrix<C>(k, b, key_head), value_rows = matrix<C>(v, b, key_head);
    Matrix<C> ks = padded(key_rows, s.keys, s.width, k_room);
    Matrix<C> gk_rows = matrix<C>(gk, b, key_head), gv_rows = matrix<C>(gv, b, key_head);
    Matrix<C> gks = gathered(gk_rows, s.width, gk_room),
              gvs = gathered(gv_rows, s.value_width, gv_room);
    for (int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      Matrix<C> qs = padded(matrix<C>(q, b, h), s.queries, s.width, q_room);
      Matrix<C> gs = padded(matrix<C>(g, b, h), s.queries, s.value_width, g_room);
      Matrix<C> gq_rows = matrix<C>(gq, b, h), gqs = gathered(gq_rows, s.width, gq_room);
      Matrix<C> outs = matrix<C>(out, b, h);
      MaskRows<C> added(mask, b, h);
      const C* logs = lse + (b * s.heads + h) * s.queries;
      dot_rows(gs, outs, s.queries, s.value_width, delta);
      for (int64_t j = 0; j < s.keys; j += block) {
        int64_t count = std::min(block, s.keys - j);
        Block<C> keys{s, j, count,
                      turned(Matrix<C>{key_rows.at(j), key_rows.row}, count, s.width, kt_room)};
        Matrix<C> vt =
            turned(Matrix<C>{value_rows.at(j), value_rows.row}, count, s.value_width, vt_room);
        // From the last queries on: they see all keys that any query sees.
        bool add = h > key_head * group;
        for (int64_t i = (s.queries - 1) / kRows * kRows; i >= 0; i -= kRows) {
          int64_t rows = std::min(kRows, s.queries - i);
          Scores<C> x = keys.scores(qs, added, i, rows, p);
          int64_t n = x.visible(rows - 1);
          if (!add) {
            clear(gks, j + n, j + count, wide_q);
            clear(gvs, j + n, j + count, wide_v);
          }
          if (n == 0) break;
          small_gemm(rows, x.wide, s.value_width, gs.at(i), gs.row, int64_t(1), vt.data, vt.row, d,
                     x.wide, false);
          softmax_gradient(x, d, logs + i, delta + i);
          small_gemm(n, wide_v, rows, p, int64_t(1), x.wide, gs.at(i), gs.row, gvs.at(j), gvs.row,
                     add);
          small_gemm(rows, wide_q, n, d, x.wide, int64_t(1), ks.at(j), ks.row, gqs.at(i), gqs.row,
                     j > 0);
          small_gemm(n, wide_q, rows, d, int64_t(1), x.wide, qs.at(i), qs.row, gks.at(j), gks.row,
                     add);
          add = true;
        }
      }
      deliver(gqs, gq_rows, s.queries, s.width);
    }
    deliver(gks, gk_rows, s.keys, s.width);
    deliver(gvs, gv_rows, s.keys, s.value_width);
  };
  parallel_for(s.batch * s.key_heads, int64_t(kTaskWork / work), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) task(i / s.key_heads, i % s.key_heads);
  });
}

}  // namespace

void attention(DType d, const AttentionShape& s, Heads q, Heads k, Heads v, ScoreMask mask,
               Heads out, void* lse) {
  if (d == DType::F64) return forward(s, q, k, v, mask, out, static_cast<double*>(lse));
  forward(s, q, k, v, mask, out, static_cast<float*>(lse));
}

void attention_backward(DType d, const AttentionShape& s, Heads g, Heads q, Heads k, Heads v,
                        ScoreMask mask, Heads out, const void* lse, Heads gq, Heads gk, Heads gv) {
  if (d == DType::F64)
    return backward(s, g, q, k, v, mask, out, static_cast<const double*>(lse), gq, gk, gv);
  backward(s, g, q, k, v, mask, out, static_cast<const float*>(lse), gq, gk, gv);
}

}  // namespace rl::cpu
