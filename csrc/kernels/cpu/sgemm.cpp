// The usual scheme: a and b are copied into panels in the order the inner kernel reads them; the
// kernel keeps a block of c of up to 6 x 64 in registers. Wide and low blocks are faster than
// square ones: they load the fewest operands, 10 for every 24 multiplications. Halves are widened
// on their way into the panels and rounded when c is stored.
#include "kernels/cpu/sgemm.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include "kernels/cpu/wide512.h"

namespace rl::cpu {
namespace {

constexpr int64_t kRows = 6, kVectors = 4, kCols = 16 * kVectors;  // the register block
constexpr int64_t kUnroll = 4;             // steps of depth that lie together in a panel of a
constexpr int64_t kLine = 16;              // floats
constexpr int64_t kFetchAhead = 64;        // steps before its end a kernel fetches c
constexpr int64_t kDepth = 1024;           // of a panel: c is written once for each
constexpr int64_t kWholeHalves = 4096;     // of one panel where c has halves
constexpr int64_t kPiece = 64;             // of depth, whose lines stay in the first-level cache
constexpr int64_t kNear = 512;             // floats between columns of a that are not packed
constexpr int64_t kConflict = 256;         // floats: that distance, and its multiples, are bad
constexpr int64_t kRowsAhead = 8;          // rows of b fetched before they are packed
constexpr int64_t kPackBlocks = 4;         // panels of b packed together
constexpr int64_t kTaskFloats = 40 << 10;  // of a that a task packs: with a panel of b they fit L2
constexpr int64_t kPanelFloats = 1 << 20;  // of b packed at a time: they stay in L3
constexpr int64_t kTasks = 8;              // at least, of a large product
constexpr int64_t kTaskWork = 1 << 19;     // multiplications worth a thread's while
constexpr size_t kKeepBytes = 16 << 20;    // of workspace between calls

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
int64_t padded(int64_t depth) { return blocks_of(depth, kUnroll) * kUnroll; }

// How a kernel finds its rows of a: packed, where they take turns of kUnroll values, or in a
// itself, row by row or column by column.
enum class Reads { Packed, Rows, Columns };
struct Rows {
  const float* data;
  int64_t stride;  // between rows, or columns
};

// sum += x * y in one register for the sum: the compiler would move sums about.
__attribute__((target("avx512f"), always_inline)) inline void multiply_add(__m512& sum, __m512 x,
                                                                           __m512 y) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
}

// c[Height][16 * Vectors] = alpha * a @ b + beta * old over one panel, whose depth is a multiple of
// kUnroll. Meanwhile 16 * depth floats from `soon` on are fetched into the cache.
template <int Height, int Vectors, Reads How>
__attribute__((target("avx512f"))) void kernel(int64_t depth, Rows rows, const float* b,
                                               float alpha, float beta, Rows old, float* c,
                                               int64_t c_row, uint64_t mask, const float* soon) {
  // A pointer for each row, which the compiler is not to make out of fewer: indexed loads are slow.
  constexpr int kPointers = How == Reads::Rows ? Height : 1;
  const float* a[kPointers];
#pragma GCC unroll 6
  for (int r = 0; r < kPointers; ++r) {
    a[r] = rows.data + r * rows.stride;
    asm("" : "+r"(a[r]));
  }
  __m512 acc[Height][Vectors];
#pragma GCC unroll 6
  for (int r = 0; r < Height; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int64_t p = depth; p > 0; p -= kUnroll) {
    if (p == kFetchAhead) {
      const float* row = c;
#pragma GCC unroll 1
      for (int r = 0; r < Height; ++r, row += c_row) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) __builtin_prefetch(row + 16 * v, 1);
      }
    }
#pragma GCC unroll 4
    for (int64_t u = 0; u < kUnroll; ++u) {
      _mm_prefetch(reinterpret_cast<const char*>(soon + 16 * u), _MM_HINT_T1);
      __m512 x[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) x[v] = _mm512_load_ps(b + u * kCols + 16 * v);
#pragma GCC unroll 6
      for (int r = 0; r < Height; ++r) {
        __m512 factor = _mm512_set1_ps(How == Reads::Packed ? a[0][r * kUnroll + u]
                                       : How == Reads::Rows ? a[r][u]
                                                            : a[0][r]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) multiply_add(acc[r][v], factor, x[v]);
      }
      if constexpr (How == Reads::Columns) {
        a[0] += rows.stride;
        asm("" : "+r"(a[0]));
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kPointers && How != Reads::Columns; ++r) {
      a[r] += How == Reads::Packed ? kRows * kUnroll : kUnroll;
      asm("" : "+r"(a[r]));
    }
    b += kCols * kUnroll, soon += 16 * kUnroll;
  }
  // Hides c from the loop above: its addresses would take registers there.
  asm("" : "+r"(c), "+r"(c_row));
  __m512 scale = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
#pragma GCC unroll 6
  for (int r = 0; r < Height; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      float* out = c + r * c_row + 16 * v;
      __mmask16 lanes = __mmask16(mask >> (16 * v));
      __m512 value = _mm512_mul_ps(acc[r][v], scale);
      if (beta != 0) {
        const float* from = old.data + r * old.stride + 16 * v;
        value = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, from), keep, value);
      }
      _mm512_mask_storeu_ps(out, lanes, value);
    }
  }
}

using Kernel = void (*)(int64_t, Rows, const float*, float, float, Rows, float*, int64_t, uint64_t,
                        const float*);

template <Reads How, int Vectors, size_t... I>
constexpr std::array<Kernel, kRows> kernels(std::index_sequence<I...>) {
  return {kernel<int(I) + 1, Vectors, How>...};
}
template <Reads How, size_t... I>
constexpr std::array<std::array<Kernel, kRows>, kVectors> tables(std::index_sequence<I...>) {
  return {kernels<How, int(I) + 1>(std::make_index_sequence<kRows>())...};
}
template <Reads How>
constexpr auto kKernels = tables<How>(std::make_index_sequence<kVectors>());

// Memory that stays with its thread between calls.
class Workspace {
 public:
  float* reserve(int64_t floats) {
    // Panels are walked in long strides of addresses: large pages spare the TLB.
    size_t page = size_t(floats) * 4 > (256 << 10) ? 2 << 20 : 4096;
    size_t need = (size_t(floats) * 4 + page - 1) / page * page;
    if (need > bytes_) {
      bytes_ = 0;
      data_.reset(static_cast<float*>(std::aligned_alloc(page, need)));
      if (!data_) throw std::bad_alloc();
      if (page > 4096) madvise(data_.get(), need, MADV_HUGEPAGE);
      bytes_ = need;
    }
    return data_.get();
  }
  void trim() {
    if (bytes_ > kKeepBytes) data_.reset(), bytes_ = 0;
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
  size_t bytes_ = 0;
};
thread_local Workspace a_space, b_space, wide_space;

template <class T>
struct View {
  const T* data;
  int64_t row, col;
  const T* at(int64_t i, int64_t j) const { return data + i * row + j * col; }
};

// A panel of a: kUnroll values of each of kRows rows, then the next kUnroll ... Rows that lack are
// left as they are: no kernel reads them.
void pack_rows(View<float> a, int64_t rows, int64_t depth, float* out) {
  constexpr int64_t kStep = kRows * kUnroll;
  int64_t whole = depth / kUnroll * kUnroll;
  const float* in = a.data;
  if (a.col == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = in + r * a.row;
      float* to = out + r * kUnroll;
      int64_t q = 0;
      for (; q + kLine <= whole; q += kLine) {
        __builtin_prefetch(from + kRows * a.row + q);  // for the next block
        for (int64_t u = 0; u < kLine; u += kUnroll, to += kStep) {
          _mm_storeu_ps(to, _mm_loadu_ps(from + q + u));
        }
      }
      for (; q < whole; q += kUnroll, to += kStep) _mm_storeu_ps(to, _mm_loadu_ps(from + q));
    }
  } else if (a.row == 1 && rows >= 4) {
    for (int64_t q = 0; q < whole; q += kUnroll) {
      const float* from = in + q * a.col;
      float* to = out + q * kRows;
      auto pair = [&](int64_t u) {  // rows 4 and 5, where they exist
        double two = 0;
        std::memcpy(&two, from + u * a.col + 4, size_t(rows == kRows ? 8 : rows == 5 ? 4 : 0));
        return _mm_castpd_ps(_mm_set_sd(two));
      };
      __m128 x[] = {_mm_loadu_ps(from), _mm_loadu_ps(from + a.col), _mm_loadu_ps(from + 2 * a.col),
                    _mm_loadu_ps(from + 3 * a.col)};
      _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
      for (int64_t r = 0; r < 4; ++r) _mm_storeu_ps(to + r * kUnroll, x[r]);
      __m128 low = _mm_unpacklo_ps(pair(0), pair(1)), high = _mm_unpacklo_ps(pair(2), pair(3));
      _mm_storeu_ps(to + 4 * kUnroll, _mm_movelh_ps(low, high));
      _mm_storeu_ps(to + 5 * kUnroll, _mm_movehl_ps(high, low));
    }
  } else {
    whole = 0;
  }
  for (int64_t q = whole; q < padded(depth); ++q) {
    float* to = out + q / kUnroll * kStep + q % kUnroll;
    for (int64_t r = 0; r < rows; ++r) {
      to[r * kUnroll] = q < depth ? in[r * a.row + q * a.col] : 0.0f;
    }
  }
}

// rows x cols of halves as floats, in the order of memory they have.
template <class T>
View<float> widened(View<T> x, int64_t rows, int64_t cols, float* out) {
  if (x.row == 1) {
    for (int64_t j = 0; j < cols; ++j) widen(x.at(0, j), out + j * rows, rows);
    return {out, 1, rows};
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (x.col == 1) {
      widen(x.at(i, 0), out + i * cols, cols);
    } else {
      for (int64_t j = 0; j < cols; ++j) out[i * cols + j] = *x.at(i, j);
    }
  }
  return {out, cols, 1};
}

// depth x cols elements into a panel.
void pack_columns(View<float> b, int64_t depth, int64_t cols, float* out) {
  move2d(4, reinterpret_cast<char*>(out), kCols * 4, 4, reinterpret_cast<const char*>(b.data),
         b.row * 4, b.col * 4, depth, cols);
}
template <class T>
void pack_columns(View<T> b, int64_t depth, int64_t cols, float* out) {
  float wide[kPiece * kCols];
  for (int64_t q = 0; q < depth; q += kPiece) {
    int64_t count = std::min(kPiece, depth - q);
    View<float> piece = widened(View<T>{b.at(q, 0), b.row, b.col}, count, cols, wide);
    pack_columns(piece, count, cols, out + q * kCols);
  }
}

void copy_row(const float* in, float* out, int64_t n) { std::memcpy(out, in, size_t(n) * 4); }
template <class T>
void copy_row(const T* in, float* out, int64_t n) {
  widen(in, out, n);
}

// A product small enough in n and k for b's panels to stay in the cache that cores share. Where c
// has halves, all of k is one panel.
template <class T, class C>
struct Job {
  static constexpr bool kWidens = !std::is_same_v<T, float>, kRounds = !std::is_same_v<C, float>;

  int64_t m, n, k;
  View<T> a, b;
  float* panels;  // of b
  float alpha, beta;
  const float* bias;  // a row that is added instead of c, with beta 1; null: none
  C* c;
  int64_t c_row;
  int64_t a_blocks, b_blocks;
  int64_t slab = kRounds ? padded(k) : std::min(padded(k), kDepth);  // depth of a panel

  // Rows are dealt out evenly to the blocks, so that there is no small remainder.
  int64_t row(int64_t block) const { return block * m / a_blocks; }

  // Where rows or columns of a are short they are read where they lie: packing them is a good part
  // of a small product. Columns whole KBs apart would fall on few places of the cache.
  Reads reads = kWidens || k > kDepth || k % kUnroll != 0                ? Reads::Packed
                : a.col == 1                                             ? Reads::Rows
                : a.row == 1 && a.col <= kNear && a.col % kConflict != 0 ? Reads::Columns
                                                                         : Reads::Packed;

  // The panels of a task's blocks of a, for the depth from p on.
  void pack_a(int64_t begin, int64_t end, int64_t p, int64_t depth, float* out) const {
    int64_t first = row(begin), rows = row(end) - first;
    View<float> from;
    if constexpr (kWidens) {
      View<T> x{a.at(first, p), a.row, a.col};
      from = widened(x, rows, depth, wide_space.reserve(rows * depth));
    } else {
      from = {a.at(first, p), a.row, a.col};
    }
    // Blocks side by side are parts of the same lines: these are read while they are in the cache.
    int64_t piece = from.row == 1 ? kPiece : depth;
    for (int64_t q = 0; q < depth; q += piece) {
      for (int64_t i = begin; i < end; ++i) {
        View<float> block{from.at(row(i) - first, q), from.row, from.col};
        pack_rows(block, row(i + 1) - row(i), std::min(piece, depth - q),
                  out + ((i - begin) * padded(depth) + q) * kRows);
      }
    }
  }

  // Panels of b, [begin, end) of them, for the depth from p on: rows of kCols, padded with zeros.
  void pack_b(int64_t p, int64_t begin, int64_t end) const {
    int64_t depth = std::min(slab, k - p), steps = padded(depth);
    const T* in = b.at(p, 0);
    if (b.col == 1) {
      // Along the rows of b: memory is read in its order.
      for (int64_t q = 0; q < depth; ++q) {
        for (int64_t j = begin; j < end; ++j) {
          const T* from = in + q * b.row + j * kCols;
          float* to = panel(p, steps, j) + q * kCols;
          if (j * kCols + kCols <= n) {
            for (int64_t v = 0; v < kVectors; ++v) {
              __builtin_prefetch(from + kRowsAhead * b.row + v * kLine);
            }
            copy_row(from, to, kCols);
          } else {
            copy_row(from, to, n - j * kCols);
            std::memset(to + n - j * kCols, 0, size_t(j * kCols + kCols - n) * 4);
          }
        }
      }
    }
    for (int64_t j = begin; j < end; ++j) {
      int64_t cols = std::min(kCols, n - j * kCols);
      float* out = panel(p, steps, j);
      if (b.col != 1) {
        if (cols < kCols) std::memset(out, 0, size_t(depth * kCols * 4));
        pack_columns(View<T>{b.at(p, j * kCols), b.row, b.col}, depth, cols, out);
      }
      std::memset(out + depth * kCols, 0, size_t((steps - depth) * kCols * 4));
    }
  }

  float* panel(int64_t p, int64_t padded_depth, int64_t block) const {
    return panels + (p * b_blocks + padded_depth * block) * kCols;
  }

  Rows block_of_a(int64_t first, const float* packed) const {
    if constexpr (!kWidens) {
      if (reads == Reads::Rows) return {a.at(first, 0), a.row};
      if (reads == Reads::Columns) return {a.at(first, 0), a.col};
    }
    return {packed, kUnroll};
  }

  // One task: the blocks [i_begin, i_end) of rows by the blocks [j_begin, j_end) of columns.
  void compute(int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) const {
    bool packs = reads == Reads::Packed;
    float* a_panels = packs ? a_space.reserve((i_end - i_begin) * kRows * slab) : nullptr;
    for (int64_t p = 0; p < k; p += slab) {
      int64_t depth = std::min(slab, k - p), steps = padded(depth);
      if (packs) pack_a(i_begin, i_end, p, depth, a_panels);
      float keep = p == 0 ? beta : 1.0f;
      for (int64_t j = j_begin; j < j_end; ++j) {
        int64_t col = j * kCols, cols = std::min(kCols, n - col);
        const float* x = panel(p, steps, j);
        size_t vectors = size_t(blocks_of(cols, 16));
        const auto& table = packs                  ? kKernels<Reads::Packed>[vectors - 1]
                            : reads == Reads::Rows ? kKernels<Reads::Rows>[vectors - 1]
                                                   : kKernels<Reads::Columns>[vectors - 1];
        uint64_t mask = cols == 64 ? ~uint64_t(0) : (uint64_t(1) << cols) - 1;
        for (int64_t i = i_begin; i < i_end; ++i) {
          int64_t first = row(i), height = row(i + 1) - first;
          // The next panel of b comes in quarters, beside the first blocks.
          const float* soon = x + kCols * steps + std::min(i - i_begin, kVectors - 1) * 16 * steps;
          Rows y = block_of_a(first, a_panels + (i - i_begin) * kRows * steps);
          C* out = c + first * c_row + col;
          if constexpr (kRounds) {
            alignas(64) float block[kRows * kCols];
            table[size_t(height - 1)](steps, y, x, alpha, 0, {}, block, kCols, mask, soon);
            for (int64_t r = 0; r < height; ++r) {
              narrow(block + r * kCols, beta, out + r * c_row, cols);
            }
          } else {
            Rows old = p == 0 && bias ? Rows{bias + col, 0} : Rows{out, c_row};
            table[size_t(height - 1)](steps, y, x, alpha, keep, old, out, c_row, mask, soon);
          }
        }
      }
    }
  }

  void run() const {
    int64_t slabs = blocks_of(k, slab), threads = thread_count();
    int64_t width = std::clamp<int64_t>(b_blocks / threads, 1, kPackBlocks);
    int64_t strips = blocks_of(b_blocks, width);
    parallel_for(slabs * strips,
                 std::max<int64_t>(1, (1 << 14) / (std::min(k, slab) * width * kCols)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     int64_t j = i % strips * width;
                     pack_b(i / strips * slab, j, std::min(j + width, b_blocks));
                   }
                 });
    // Tall tasks pack little of a twice; there should be enough of them for every core.
    int64_t down = std::clamp<int64_t>(kTaskFloats / (kRows * slab), 1, a_blocks),
            across = b_blocks;
    while (blocks_of(a_blocks, down) * blocks_of(b_blocks, across) < kTasks &&
           down * kRows * across * kCols * k >= 2 * kTaskWork && (across > 1 || down > 4)) {
      int64_t& side = across * kCols >= down * kRows && across > 1 ? across : down;
      side = (side + 1) / 2;
    }
    int64_t rows = blocks_of(a_blocks, down), columns = blocks_of(b_blocks, across);
    // The same number for every thread: they end together.
    if (rows > threads) rows = std::min(blocks_of(rows, threads) * threads, a_blocks);
    parallel_chunks(rows * columns, [&](int64_t task) {
      int64_t i = task / columns, j = task % columns;
      compute(i * a_blocks / rows, (i + 1) * a_blocks / rows, j * b_blocks / columns,
              (j + 1) * b_blocks / columns);
    });
  }
};

}  // namespace

bool has_sgemm() {
  static const bool yes = __builtin_cpu_supports("avx512f");
  return yes;
}

namespace {

template <class T, class C>
void multiply(int64_t m, int64_t n, int64_t k, float alpha, View<T> a, View<T> b, float beta,
              const float* bias, C* c, int64_t c_row) {
  constexpr bool kRounds = !std::is_same_v<C, float>;
  int64_t whole = std::max<int64_t>(kPanelFloats / k / kCols, 1) * kCols;  // columns of depth k
  int64_t width = std::min(n, kRounds ? whole : kPanelFloats / kDepth);
  int64_t depth = std::max<int64_t>(kPanelFloats / (width + kCols) / kDepth, 1) * kDepth;
  depth = kRounds ? k : std::min(k, depth);
  float* panels = b_space.reserve((width + 2 * kCols) * padded(depth));
  for (int64_t j = 0; j < n; j += width) {
    for (int64_t p = 0; p < k; p += depth) {
      Job<T, C> job{m,
                    std::min(width, n - j),
                    std::min(depth, k - p),
                    {a.at(0, p), a.row, a.col},
                    {b.at(p, j), b.row, b.col},
                    panels,
                    alpha,
                    p == 0 ? beta : 1.0f,
                    p == 0 && bias ? bias + j : nullptr,
                    c + j,
                    c_row,
                    blocks_of(m, kRows),
                    0};
      job.b_blocks = blocks_of(job.n, kCols);
      job.run();
    }
  }
  b_space.trim();
}

// A long k is summed in floats that are rounded at the end.
template <class T>
void multiply_halves(int64_t m, int64_t n, int64_t k, float alpha, View<T> a, View<T> b, float beta,
                     T* c, int64_t c_row) {
  if (k <= kWholeHalves) return multiply(m, n, k, alpha, a, b, beta, nullptr, c, c_row);
  Workspace sums;
  float* sum = sums.reserve(m * n);
  multiply(m, n, k, alpha, a, b, 0, nullptr, sum, n);
  parallel_for(m, std::max<int64_t>(1, (1 << 14) / n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) narrow(sum + i * n, beta, c + i * c_row, n);
  });
}

}  // namespace

void sgemm(DType dtype, int64_t m, int64_t n, int64_t k, float alpha, MatrixRef a, MatrixRef b,
           float beta, void* c, int64_t c_row) {
  auto view = [](MatrixRef x, auto zero) {
    using T = decltype(zero);
    return View<T>{static_cast<const T*>(x.data), x.row_stride, x.col_stride};
  };
  auto halves = [&](auto zero) {
    using T = decltype(zero);
    multiply_halves(m, n, k, alpha, view(a, zero), view(b, zero), beta, static_cast<T*>(c), c_row);
  };
  if (dtype == DType::BF16) return halves(BF16());
  if (dtype == DType::F16) return halves(F16());
  multiply(m, n, k, alpha, view(a, 0.0f), view(b, 0.0f), beta, nullptr, static_cast<float*>(c),
           c_row);
}

void sgemm_with_bias(int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b, const float* bias,
                     float* c, int64_t c_row) {
  auto view = [](MatrixRef x) {
    return View<float>{static_cast<const float*>(x.data), x.row_stride, x.col_stride};
  };
  multiply(m, n, k, 1.0f, view(a), view(b), 1.0f, bias, c, c_row);
}

}  // namespace rl::cpu
#else
namespace rl::cpu {
bool has_sgemm() { return false; }
void sgemm(DType, int64_t, int64_t, int64_t, float, MatrixRef, MatrixRef, float, void*, int64_t) {}
void sgemm_with_bias(int64_t, int64_t, int64_t, MatrixRef, MatrixRef, const float*, float*,
                     int64_t) {}
}  // namespace rl::cpu
#endif
