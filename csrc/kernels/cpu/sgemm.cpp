// The usual scheme: a and b are copied into panels in the order the inner kernel reads them; the
// kernel keeps a block of c of up to 6 x 64 in registers. Wide and low blocks are faster than
// square ones: they load the fewest operands, 10 for every 24 multiplications.
#include "kernels/cpu/sgemm.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
// The intrinsics' own headers pass deliberately undefined registers (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rl::cpu {
namespace {

constexpr int64_t kRows = 6, kVectors = 4, kCols = 16 * kVectors;  // the register block
constexpr int64_t kUnroll = 4;             // steps of depth that lie together in a panel of a
constexpr int64_t kLine = 16;              // floats
constexpr int64_t kFetchAhead = 64;        // steps before its end a kernel fetches c
constexpr int64_t kDepth = 512;            // of a panel, where k does not fit a whole one:
constexpr int64_t kWhole = 1024;           // c is then written once, and never read
constexpr int64_t kRowsAhead = 8;          // rows of b fetched before they are packed
constexpr int64_t kPackBlocks = 4;         // panels of b packed together
constexpr int64_t kTaskFloats = 40 << 10;  // of a that a task packs: with a panel of b they fit L2
constexpr int64_t kPanelFloats = 1 << 21;  // of b packed at a time: they stay in L3
constexpr int64_t kTasks = 8;              // at least, of a large product
constexpr int64_t kTaskWork = 1 << 19;     // multiplications worth a thread's while
constexpr size_t kKeepBytes = 16 << 20;    // of workspace between calls

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }
int64_t padded(int64_t depth) { return blocks_of(depth, kUnroll) * kUnroll; }

// c[Rows][16 * Vectors] = alpha * a @ b + beta * c over one panel, whose depth is a multiple of
// kUnroll. Meanwhile 16 * depth floats from `soon` on are fetched into the cache.
template <int Rows, int Vectors>
__attribute__((target("avx512f"))) void kernel(int64_t depth, const float* a, const float* b,
                                               float alpha, float beta, float* c, int64_t c_row,
                                               uint64_t mask, const float* soon) {
  __m512 acc[Rows][Vectors];
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int64_t p = depth; p > 0; p -= kUnroll) {
    if (p == kFetchAhead) {
      const float* row = c;
#pragma GCC unroll 1
      for (int r = 0; r < Rows; ++r, row += c_row) {
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
      for (int r = 0; r < Rows; ++r) {
        __m512 factor = _mm512_set1_ps(a[r * kUnroll + u]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_fmadd_ps(factor, x[v], acc[r][v]);
      }
    }
    a += kRows * kUnroll, b += kCols * kUnroll, soon += 16 * kUnroll;
  }
  // Hides c from the loop above: its addresses would take registers there.
  asm("" : "+r"(c), "+r"(c_row));
  __m512 scale = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      float* out = c + r * c_row + 16 * v;
      __mmask16 lanes = __mmask16(mask >> (16 * v));
      __m512 value = _mm512_mul_ps(acc[r][v], scale);
      if (beta != 0) value = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, out), keep, value);
      _mm512_mask_storeu_ps(out, lanes, value);
    }
  }
}

using Kernel = void (*)(int64_t, const float*, const float*, float, float, float*, int64_t,
                        uint64_t, const float*);

template <int Vectors, size_t... I>
constexpr std::array<Kernel, kRows> kernels(std::index_sequence<I...>) {
  return {kernel<int(I) + 1, Vectors>...};
}
template <size_t... I>
constexpr std::array<std::array<Kernel, kRows>, kVectors> tables(std::index_sequence<I...>) {
  return {kernels<int(I) + 1>(std::make_index_sequence<kRows>())...};
}
constexpr auto kKernels = tables(std::make_index_sequence<kVectors>());

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
thread_local Workspace a_space, b_space;

struct View {
  const float* data;
  int64_t row, col;
};

// A product small enough in n and k for b's panels to stay in the cache that cores share.
struct Job {
  int64_t m, n, k;
  View a, b;
  float* panels;  // of b
  float alpha, beta;
  float* c;
  int64_t c_row;
  int64_t a_blocks, b_blocks;
  int64_t slab = k <= kWhole ? padded(k) : kDepth;  // depth of a panel

  // Rows are dealt out evenly to the blocks, so that there is no small remainder.
  int64_t row(int64_t block) const { return block * m / a_blocks; }

  // A panel of a: kUnroll values of each of kRows rows, then the next kUnroll ... Rows that lack
  // are left as they are: no kernel reads them.
  void pack_a(int64_t block, int64_t p, int64_t depth, float* out) const {
    constexpr int64_t kStep = kRows * kUnroll;
    int64_t first = row(block), rows = row(block + 1) - first, whole = depth / kUnroll * kUnroll;
    const float* in = a.data + first * a.row + p * a.col;
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
    } else if (a.row == 1 && rows == kRows) {
      for (int64_t q = 0; q < whole; q += kUnroll) {
        const float* from = in + q * a.col;
        float* to = out + q * kRows;
        auto pair = [&](int64_t u) {
          double two;
          std::memcpy(&two, from + u * a.col + 4, sizeof two);
          return _mm_castpd_ps(_mm_set_sd(two));
        };
        __m128 x[] = {_mm_loadu_ps(from), _mm_loadu_ps(from + a.col),
                      _mm_loadu_ps(from + 2 * a.col), _mm_loadu_ps(from + 3 * a.col)};
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

  // Panels of b, [begin, end) of them, for the depth from p on: rows of kCols, padded with zeros.
  void pack_b(int64_t p, int64_t begin, int64_t end) const {
    int64_t depth = std::min(slab, k - p), steps = padded(depth);
    const float* in = b.data + p * b.row;
    if (b.col == 1) {
      // Along the rows of b: memory is read in its order.
      for (int64_t q = 0; q < depth; ++q) {
        for (int64_t j = begin; j < end; ++j) {
          const float* from = in + q * b.row + j * kCols;
          float* to = panel(p, steps, j) + q * kCols;
          if (j * kCols + kCols <= n) {
            for (int64_t v = 0; v < kVectors; ++v) {
              __builtin_prefetch(from + kRowsAhead * b.row + v * kLine);
            }
            std::memcpy(to, from, kCols * 4);
          } else {
            std::memcpy(to, from, size_t(n - j * kCols) * 4);
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
        move2d(4, reinterpret_cast<char*>(out), kCols * 4, 4,
               reinterpret_cast<const char*>(in + j * kCols * b.col), b.row * 4, b.col * 4, depth,
               cols);
      }
      std::memset(out + depth * kCols, 0, size_t((steps - depth) * kCols * 4));
    }
  }

  float* panel(int64_t p, int64_t padded_depth, int64_t block) const {
    return panels + (p * b_blocks + padded_depth * block) * kCols;
  }

  // One task: the blocks [i_begin, i_end) of rows by the blocks [j_begin, j_end) of columns.
  void compute(int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) const {
    float* a_panels = a_space.reserve((i_end - i_begin) * kRows * slab);
    for (int64_t p = 0; p < k; p += slab) {
      int64_t depth = std::min(slab, k - p), steps = padded(depth);
      for (int64_t i = i_begin; i < i_end; ++i) {
        pack_a(i, p, depth, a_panels + (i - i_begin) * kRows * steps);
      }
      float keep = p == 0 ? beta : 1.0f;
      for (int64_t j = j_begin; j < j_end; ++j) {
        int64_t col = j * kCols, cols = std::min(kCols, n - col);
        const float* x = panel(p, steps, j);
        const auto& table = kKernels[size_t(blocks_of(cols, 16) - 1)];
        uint64_t mask = cols == 64 ? ~uint64_t(0) : (uint64_t(1) << cols) - 1;
        for (int64_t i = i_begin; i < i_end; ++i) {
          int64_t first = row(i), height = row(i + 1) - first;
          // The next panel of b comes in quarters, beside the first blocks.
          const float* soon = x + kCols * steps + std::min(i - i_begin, kVectors - 1) * 16 * steps;
          table[size_t(height - 1)](steps, a_panels + (i - i_begin) * kRows * steps, x, alpha, keep,
                                    c + first * c_row + col, c_row, mask, soon);
        }
      }
    }
  }

  void run() const {
    int64_t slabs = blocks_of(k, slab), width = std::min(b_blocks, kPackBlocks);
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

void sgemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t a_row,
           int64_t a_col, const float* b, int64_t b_row, int64_t b_col, float beta, float* c,
           int64_t c_row) {
  int64_t width = std::min(n, kPanelFloats / kDepth);
  int64_t depth = std::max<int64_t>(kPanelFloats / (width + kCols) / kDepth, 1) * kDepth;
  depth = std::min(k, depth);
  float* panels = b_space.reserve((width + 2 * kCols) * padded(depth));
  for (int64_t j = 0; j < n; j += width) {
    for (int64_t p = 0; p < k; p += depth) {
      Job job{m,
              std::min(width, n - j),
              std::min(depth, k - p),
              {a + p * a_col, a_row, a_col},
              {b + p * b_row + j * b_col, b_row, b_col},
              panels,
              alpha,
              p == 0 ? beta : 1.0f,
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

}  // namespace rl::cpu
#else
namespace rl::cpu {
bool has_sgemm() { return false; }
void sgemm(int64_t, int64_t, int64_t, float, const float*, int64_t, int64_t, const float*, int64_t,
           int64_t, float, float*, int64_t) {}
}  // namespace rl::cpu
#endif
