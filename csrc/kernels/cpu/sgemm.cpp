// The usual scheme: a and b are copied into panels in the order the inner kernel reads them; the
// kernel keeps a block of c of up to 12 x 32 in registers while a panel of b stays in L1.
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

constexpr int64_t kRows = 12, kCols = 32;  // the register block
constexpr int64_t kDepth = 256;            // of a panel: kDepth x kCols floats fit L1
constexpr int64_t kBlockRows = 22;         // register blocks down a task: its part of a fits L2
constexpr int64_t kPanelFloats = 1 << 20;  // of b packed at a time: they stay in L3
constexpr int64_t kTasks = 8;              // at least, of a large product
constexpr int64_t kTaskWork = 1 << 19;     // multiplications worth a thread's while
constexpr size_t kKeepBytes = 16 << 20;    // of workspace between calls

// c[Rows][16 * Vectors] = alpha * a @ b + beta * c over one panel. Meanwhile 16 * depth floats from
// `soon` on are fetched into the cache.
template <int Rows, int Vectors>
__attribute__((target("avx512f"))) void kernel(int64_t depth, const float* a, const float* b,
                                               float alpha, float beta, float* c, int64_t c_row,
                                               uint32_t mask, const float* soon) {
#pragma GCC unroll 1
  for (int r = 0; r < Rows; ++r) {
    __builtin_prefetch(c + r * c_row, 1);
    __builtin_prefetch(c + r * c_row + 16 * Vectors - 1, 1);
  }
  __m512 acc[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kCols, soon += 16) {
    _mm_prefetch(reinterpret_cast<const char*>(soon), _MM_HINT_T1);
    __m512 x[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) x[v] = _mm512_load_ps(b + 16 * v);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      __m512 factor = _mm512_set1_ps(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) acc[r][v] = _mm512_fmadd_ps(factor, x[v], acc[r][v]);
    }
  }
  // Hides c from the loop above: its addresses would take registers there.
  asm("" : "+r"(c), "+r"(c_row));
  __m512 scale = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
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
                        uint32_t, const float*);

template <int Vectors, size_t... I>
constexpr std::array<Kernel, kRows> kernels(std::index_sequence<I...>) {
  return {kernel<int(I) + 1, Vectors>...};
}
constexpr std::array<Kernel, kRows> kNarrow = kernels<1>(std::make_index_sequence<kRows>());
constexpr std::array<Kernel, kRows> kWide = kernels<2>(std::make_index_sequence<kRows>());

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

// out[p][r] = in[r][p], kRows wide.
void transpose_rows(const float* in, int64_t stride, int64_t rows, int64_t depth, float* out) {
  const float* row[kRows];
  for (int64_t r = 0; r < kRows; ++r) row[r] = in + std::min(r, rows - 1) * stride;
  int64_t p = 0;
  for (; p + 4 <= depth; p += 4) {
#pragma GCC unroll 3
    for (int64_t r = 0; r < kRows; r += 4) {
      __m128 x0 = _mm_loadu_ps(row[r] + p), x1 = _mm_loadu_ps(row[r + 1] + p);
      __m128 x2 = _mm_loadu_ps(row[r + 2] + p), x3 = _mm_loadu_ps(row[r + 3] + p);
      _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
      float* to = out + p * kRows + r;
      _mm_storeu_ps(to, x0);
      _mm_storeu_ps(to + kRows, x1);
      _mm_storeu_ps(to + 2 * kRows, x2);
      _mm_storeu_ps(to + 3 * kRows, x3);
    }
  }
  for (; p < depth; ++p) {
    for (int64_t r = 0; r < kRows; ++r) out[p * kRows + r] = row[r][p];
  }
}

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

  // Rows are dealt out evenly to the blocks, so that there is no small remainder.
  int64_t row(int64_t block) const { return block * m / a_blocks; }

  // Blocks of fewer than kRows rows are packed as wide: the rows that lack repeat the last one.
  void pack_a(int64_t block, int64_t p, int64_t depth, float* out) const {
    int64_t first = row(block), rows = row(block + 1) - first;
    const float* in = a.data + first * a.row + p * a.col;
    if (a.row == 1 && rows == kRows) {
      for (int64_t q = 0; q < depth; ++q) {
        std::memcpy(out + q * kRows, in + q * a.col, kRows * 4);
      }
    } else if (a.col == 1) {
      transpose_rows(in, a.row, rows, depth, out);
    } else {
      move2d(4, reinterpret_cast<char*>(out), kRows * 4, 4, reinterpret_cast<const char*>(in),
             a.col * 4, a.row * 4, depth, rows);
    }
  }

  void pack_b(int64_t block) const {
    int64_t first = block * kCols, cols = std::min(kCols, n - first);
    for (int64_t p = 0; p < k; p += kDepth) {
      int64_t depth = std::min(kDepth, k - p);
      const float* in = b.data + p * b.row + first * b.col;
      float* out = panels + p * b_blocks * kCols + first * depth;
      if (cols == kCols && b.col == 1) {
        for (int64_t q = 0; q < depth; ++q) {
          std::memcpy(out + q * kCols, in + q * b.row, kCols * 4);
        }
        continue;
      }
      if (cols < kCols) std::memset(out, 0, size_t(depth * kCols * 4));
      move2d(4, reinterpret_cast<char*>(out), kCols * 4, 4, reinterpret_cast<const char*>(in),
             b.row * 4, b.col * 4, depth, cols);
    }
  }

  // One task: the blocks [i_begin, i_end) of rows by the blocks [j_begin, j_end) of columns.
  void compute(int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) const {
    float* a_panels = a_space.reserve((i_end - i_begin) * kRows * kDepth);
    for (int64_t p = 0; p < k; p += kDepth) {
      int64_t depth = std::min(kDepth, k - p);
      for (int64_t i = i_begin; i < i_end; ++i) {
        pack_a(i, p, depth, a_panels + (i - i_begin) * kRows * depth);
      }
      float keep = p == 0 ? beta : 1.0f;
      for (int64_t j = j_begin; j < j_end; ++j) {
        int64_t col = j * kCols, cols = std::min(kCols, n - col);
        const float* x = panels + p * b_blocks * kCols + col * depth;
        const auto& table = cols > 16 ? kWide : kNarrow;
        uint32_t mask = cols == 32 ? ~0u : (1u << cols) - 1;
        for (int64_t i = i_begin; i < i_end; ++i) {
          int64_t first = row(i), height = row(i + 1) - first;
          // The next panel of b comes in two halves, beside the first two blocks.
          const float* soon = x + kCols * depth + std::min<int64_t>(i - i_begin, 1) * 16 * depth;
          table[size_t(height - 1)](depth, a_panels + (i - i_begin) * kRows * depth, x, alpha, keep,
                                    c + first * c_row + col, c_row, mask, soon);
        }
      }
    }
  }

  void run() const {
    parallel_for(b_blocks, std::max<int64_t>(1, (1 << 14) / (k * kCols)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t j = begin; j < end; ++j) pack_b(j);
                 });
    // Tall tasks pack little of a twice; there should be enough of them for every core.
    int64_t down = std::min(kBlockRows, a_blocks), across = b_blocks;
    auto pieces = [](int64_t blocks, int64_t size) { return (blocks + size - 1) / size; };
    while (pieces(a_blocks, down) * pieces(b_blocks, across) < kTasks &&
           down * kRows * across * kCols * k >= 2 * kTaskWork && (across > 1 || down > 4)) {
      int64_t& side = across * kCols >= down * kRows && across > 1 ? across : down;
      side = (side + 1) / 2;
    }
    int64_t rows = pieces(a_blocks, down), columns = pieces(b_blocks, across);
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
  float* panels = b_space.reserve((width + 2 * kCols) * depth);
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
              (m + kRows - 1) / kRows,
              0};
      job.b_blocks = (job.n + kCols - 1) / kCols;
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
