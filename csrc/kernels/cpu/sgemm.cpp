// Blocks of c of up to 8 x 48 stay in registers while the kernel walks down panels of b. A task has
// columns of c to itself: it copies their part of b, a few panels at a time, in the order the kernel
// reads them, so that they stay in its core's own cache while all rows of a pass by. Those are read
// where they lie, or copied beforehand where they are not fit for it. Halves are widened when they
// are copied and rounded when c is stored.
#include "kernels/cpu/sgemm.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
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

constexpr int64_t kLine = 16;  // floats of a vector, and of a line of the cache
constexpr int64_t kRows = 8, kVectors = 3, kCols = kLine * kVectors;  // the register block
constexpr int64_t kUnroll = 4;                                        // steps of depth at a time
constexpr int64_t kDepth = 1024;            // of a panel: c is written once for each
constexpr int64_t kGroup = 3;               // panels of b packed together: they take half of L2
constexpr int64_t kFetches = 3;             // rows of a that a call of the kernel fetches
constexpr int64_t kRowsAhead = 8;           // rows of b fetched before they are packed
constexpr int64_t kPiece = 64;              // of depth, whose lines stay in the first-level cache
constexpr int64_t kNear = 192;              // floats between columns of a that are not copied
constexpr int64_t kCachedFloats = 1 << 18;  // of a whose columns are not copied: they stay in L2
constexpr int64_t kCopiedFloats = 1 << 21;  // of a copied at a time: they stay in L3
constexpr int64_t kStrip = 8;               // blocks of a copied together
constexpr int64_t kWholeHalves = 4096;      // of k, where c has halves that are rounded once
constexpr int64_t kSumRows = 1024, kSumCols = kGroup * kCols;  // of c of halves: sums stay in L2
constexpr int64_t kTaskWork = 1 << 19;   // multiplications worth a thread's while
constexpr size_t kKeepBytes = 16 << 20;  // of workspace between calls

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// How a kernel finds its rows of a: one after the other, or side by side.
enum class Reads { Rows, Columns };
struct Rows {
  const float* data;
  int64_t stride;  // between rows, or columns
};

// sum += x * y in one register for the sum: the compiler would move sums about.
__attribute__((target("avx512f"), always_inline)) inline void multiply_add(__m512& sum, __m512 x,
                                                                           __m512 y) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
}

// The sums of one step of depth.
template <int Height, int Vectors, Reads How>
__attribute__((target("avx512f"), always_inline)) inline void step(__m512 (&sums)[Height][Vectors],
                                                                   const float* const* a, int64_t u,
                                                                   const float* b) {
  __m512 x[Vectors];
#pragma GCC unroll 3
  for (int v = 0; v < Vectors; ++v) x[v] = _mm512_load_ps(b + kLine * v);
#pragma GCC unroll 8
  for (int r = 0; r < Height; ++r) {
    __m512 factor = _mm512_set1_ps(How == Reads::Rows ? a[r][u] : a[0][r]);
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) multiply_add(sums[r][v], factor, x[v]);
  }
}

// c[Height][16 * Vectors] = alpha * a @ b + beta * old over one panel. Meanwhile kFetches rows of
// `soon` are fetched into the cache, a few lines at a time like those of c: the loads of b wait
// where many are on their way.
template <int Height, int Vectors, Reads How>
__attribute__((target("avx512f"))) void kernel(int64_t depth, Rows rows, const float* b,
                                               float alpha, float beta, Rows old, float* c,
                                               int64_t c_row, uint64_t mask, Rows soon) {
  // A pointer for each row, which the compiler is not to make out of fewer: indexed loads are slow.
  constexpr int kPointers = How == Reads::Rows ? Height : 1;
  const float* a[kPointers];
#pragma GCC unroll 8
  for (int r = 0; r < kPointers; ++r) {
    a[r] = rows.data + r * rows.stride;
    asm("" : "+r"(a[r]));
  }
  __m512 sums[Height][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Height; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  int64_t ahead = soon.data - rows.data;
#pragma GCC unroll 1
  for (int64_t quarter = 0; quarter < 4; ++quarter) {
#pragma GCC unroll 1
    for (int64_t r = quarter * Height / 4; r < (quarter + 1) * Height / 4; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) __builtin_prefetch(c + r * c_row + kLine * v, 1);
    }
    const float* line = soon.data + quarter * soon.stride;
#pragma GCC unroll 1
    for (int64_t turns = (depth / kUnroll + quarter) / 4; turns > 0; --turns) {
      if (How == Reads::Rows && quarter < kFetches) {
        _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
        line += kLine;
      }
#pragma GCC unroll 4
      for (int64_t u = 0; u < kUnroll; ++u) {
        step<Height, Vectors, How>(sums, a, u, b + u * kCols);
        if constexpr (How == Reads::Columns) {
          _mm_prefetch(reinterpret_cast<const char*>(a[0] + ahead), _MM_HINT_T1);
          a[0] += rows.stride;
          asm("" : "+r"(a[0]));
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kPointers && How == Reads::Rows; ++r) {
        a[r] += kUnroll;
        asm("" : "+r"(a[r]));
      }
      b += kCols * kUnroll;
    }
  }
#pragma GCC unroll 1
  for (int64_t u = 0; u < depth % kUnroll; ++u, b += kCols) {
    step<Height, Vectors, How>(sums, a, u, b);
    if constexpr (How == Reads::Columns) a[0] += rows.stride;
  }
  // Hides c from the loop above: its addresses would take registers there.
  asm("" : "+r"(c), "+r"(c_row));
  __m512 scale = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
#pragma GCC unroll 8
  for (int r = 0; r < Height; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) {
      float* out = c + r * c_row + kLine * v;
      __mmask16 lanes = __mmask16(mask >> (kLine * v));
      __m512 value = _mm512_mul_ps(sums[r][v], scale);
      if (beta != 0) {
        const float* from = old.data + r * old.stride + kLine * v;
        value = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, from), keep, value);
      }
      _mm512_mask_storeu_ps(out, lanes, value);
    }
  }
}

using Kernel = void (*)(int64_t, Rows, const float*, float, float, Rows, float*, int64_t, uint64_t,
                        Rows);

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
thread_local Workspace a_space, b_space, sum_space, bias_space;

template <class T>
struct View {
  const T* data;
  int64_t row, col;
  const T* at(int64_t i, int64_t j) const { return data + i * row + j * col; }
};

// A column of a whole block of a.
void copy_column(const float* in, float* out) { std::memcpy(out, in, kRows * 4); }
template <class T>
RL_AVX512 void copy_column(const T* in, float* out) {
  _mm256_storeu_ps(out, wide8(in));
}

// rows x cols elements into a block whose rows lie `stride` floats apart.
void copy_block(View<float> x, int64_t rows, int64_t cols, float* out, int64_t stride) {
  move2d(4, reinterpret_cast<char*>(out), stride * 4, 4, reinterpret_cast<const char*>(x.data),
         x.row * 4, x.col * 4, rows, cols);
}
// Halves: widened in the order of memory they have, a piece at a time.
template <class T>
void copy_block(View<T> x, int64_t rows, int64_t cols, float* out, int64_t stride) {
  if (x.col == 1) {
    for (int64_t i = 0; i < rows; ++i) widen(x.at(i, 0), out + i * stride, cols);
  } else if (x.row == 1) {
    float wide[kPiece * kPiece];
    for (int64_t i = 0; i < rows; i += kPiece) {
      int64_t height = std::min(kPiece, rows - i);
      for (int64_t j = 0; j < cols; j += kPiece) {
        int64_t width = std::min(kPiece, cols - j);
        for (int64_t q = 0; q < width; ++q) widen(x.at(i, j + q), wide + q * kPiece, height);
        copy_block(View<float>{wide, 1, kPiece}, height, width, out + i * stride + j, stride);
      }
    }
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) out[i * stride + j] = *x.at(i, j);
    }
  }
}

RL_AVX512 inline __m512 line_of(const float* in, __mmask16 lanes) {
  return _mm512_maskz_loadu_ps(lanes, in);
}
template <class T>
RL_AVX512 inline __m512 line_of(const T* in, __mmask16 lanes) {
  if (lanes == 0xffff) return wide16(in);
  alignas(32) T part[kLine] = {};
  std::memcpy(static_cast<void*>(part), in, size_t(__builtin_popcount(lanes)) * sizeof(T));
  return wide16(part);
}

// Floats between rows of a block of a that is copied: not whole KBs.
int64_t copy_stride(int64_t depth) { return blocks_of(depth, kLine) * kLine + kLine; }

// Elements [first, first + count).
struct Range {
  int64_t first, count;
};
// The i-th of `parts` even ones.
Range part_of(int64_t count, int64_t parts, int64_t i) {
  int64_t first = i * count / parts;
  return {first, (i + 1) * count / parts - first};
}

// How many tasks down and across. Tall ones copy little of b for what they compute, wide ones have
// fewer narrow panels.
struct Grid {
  int64_t down, across;
};
Grid cut(int64_t blocks, int64_t vectors, int64_t parts) {
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  for (int64_t down = 1; down <= std::min(parts, blocks); ++down) {
    int64_t across = std::min(parts / down, vectors);
    if (parts % down) continue;
    int64_t high = blocks_of(blocks, down), wide = blocks_of(vectors, across);
    int64_t panels = blocks_of(wide, kVectors);
    // Cycles per step of depth: products, ends of panels, reading a, copying b.
    int64_t cost = high * (8 * wide + 3 * panels + 2 * blocks_of(panels, kGroup)) + 16 * wide;
    if (cost < least) least = cost, best = {down, across};
  }
  return best;
}
// Several for each thread, the more so the more there are: cores are not equally fast, nor idle, and
// none shall wait for the last.
int64_t tasks_for(double work) {
  int64_t threads = int64_t(std::min(work, double(thread_count())));
  if (threads <= 1) return 1;
  double shares = std::min(work / double(4 * threads), double(std::max<int64_t>(threads / 2, 2)));
  return threads * int64_t(std::bit_floor(uint64_t(std::max(shares, 1.0))));
}

// A product of which a is copied whole, if at all.
template <class T, class C>
struct Job {
  static constexpr bool kWidens = !std::is_same_v<T, float>, kRounds = !std::is_same_v<C, float>;

  int64_t m, n, k;
  View<T> a, b;
  float alpha, beta;
  const float* bias;  // a row that is added instead of c, with beta 1; null: none
  C* c;
  int64_t c_row;
  Reads reads;
  float* copies;  // of blocks of a, or null
  int64_t a_blocks = blocks_of(m, kRows);

  // Rows are dealt out evenly to the blocks, so that there is no small remainder.
  int64_t row(int64_t block) const { return block * m / a_blocks; }

  // Where the copy of a block lies, for the depth from p on.
  float* copy_of(int64_t block, int64_t p) const {
    int64_t stride = copy_stride(std::min(kDepth, k - p));
    return copies + (copy_stride(kDepth) * (p / kDepth) * a_blocks + stride * block) * kRows;
  }

  // Copies the blocks [begin, end), rows as rows and columns as columns.
  void copy_a(int64_t begin, int64_t end, int64_t p) const {
    int64_t depth = std::min(kDepth, k - p), stride = copy_stride(depth);
    // Columns of blocks side by side are parts of the same lines: these are read while they are in
    // the cache.
    int64_t piece = reads == Reads::Columns ? kPiece : depth;
    for (int64_t q = 0; q < depth; q += piece) {
      int64_t count = std::min(piece, depth - q);
      for (int64_t block = begin; block < end; ++block) {
        int64_t first = row(block), rows = row(block + 1) - first;
        const T* from = a.at(first, p + q);
        float* out = copy_of(block, p);
        if (reads == Reads::Rows) {
          copy_block(View<T>{from, a.row, a.col}, rows, count, out, stride);
        } else if (rows < kRows) {
          copy_block(View<T>{from, a.col, a.row}, count, rows, out + q * kRows, kRows);
        } else {
          for (int64_t i = 0; i < count; ++i) {
            __builtin_prefetch(from + (i + kRowsAhead) * a.col);
            copy_column(from + i * a.col, out + (q + i) * kRows);
          }
        }
      }
    }
  }

  // A block of a, or its copy, for the depth from p on.
  Rows block_of_a(int64_t block, int64_t p) const {
    bool rows = reads == Reads::Rows;
    if constexpr (!kWidens) {
      if (!copies) return {a.at(row(block), p), rows ? a.row : a.col};
    }
    return {copy_of(block, p), rows ? copy_stride(std::min(kDepth, k - p)) : kRows};
  }

  // A panel of b, for the depth from p on: rows of kCols, padded with zeros.
  RL_AVX512 void pack_b(Range cols, int64_t p, float* out) const {
    int64_t depth = std::min(kDepth, k - p);
    View<T> from{b.at(p, cols.first), b.row, b.col};
    if (b.col == 1) {
      __mmask16 last = __mmask16(0xffff >> (-cols.count & (kLine - 1)));
      for (int64_t q = 0; q < depth; ++q) {
        for (int64_t v = 0; v < cols.count; v += kLine) {
          float* to = out + q * kCols + v;
          __builtin_prefetch(from.at(q + kRowsAhead, v));
          __builtin_prefetch(to + kRowsAhead * kCols, 1);
          _mm512_store_ps(to, line_of(from.at(q, v), v + kLine <= cols.count ? 0xffff : last));
        }
      }
    } else {
      if (cols.count % kLine) std::memset(out, 0, size_t(depth * kCols) * 4);
      copy_block(from, depth, cols.count, out, kCols);
    }
  }

  // One task: blocks of rows by vectors of columns, which are dealt out evenly to panels and those
  // to groups.
  void compute(Range blocks, Range vectors) const {
    int64_t panels = blocks_of(vectors.count, kVectors), groups = blocks_of(panels, kGroup);
    float* packed = b_space.reserve(kGroup * kCols * std::min(kDepth, k));
    // Where c has halves, sums of all rows, or of one block where that is all.
    int64_t first_row = row(blocks.first);
    int64_t sum_rows = k > kDepth ? row(blocks.first + blocks.count) - first_row : kRows;
    float* sums = kRounds ? sum_space.reserve(sum_rows * kSumCols) : nullptr;
    for (int64_t i = 0; i < groups; ++i) {
      Range group = part_of(panels, groups, i), columns[kGroup];
      for (int64_t j = 0; j < group.count; ++j) {
        Range part = part_of(vectors.count, panels, group.first + j);
        int64_t col = (vectors.first + part.first) * kLine;
        columns[j] = {col, std::min(part.count * kLine, n - col)};
      }
      for (int64_t p = 0; p < k; p += kDepth) {
        int64_t depth = std::min(kDepth, k - p);
        for (int64_t j = 0; j < group.count; ++j) pack_b(columns[j], p, packed + j * depth * kCols);
        for (int64_t block = blocks.first; block < blocks.first + blocks.count; ++block) {
          float* sum = sums + (k > kDepth ? row(block) - first_row : 0) * kSumCols;
          for (int64_t j = 0; j < group.count; ++j) {
            multiply(block, columns[j], p, depth, packed + j * depth * kCols, j, sum + j * kCols);
          }
        }
      }
    }
    b_space.trim();
    sum_space.trim();
  }

  // A block of rows times a panel, the j-th of its group. `sum` is where a c of halves is summed.
  void multiply(int64_t block, Range cols, int64_t p, int64_t depth, const float* panel, int64_t j,
                float* sum) const {
    int64_t first = row(block), height = row(block + 1) - first;
    size_t vectors = size_t(blocks_of(cols.count, kLine));
    const auto& table = reads == Reads::Rows ? kKernels<Reads::Rows>[vectors - 1]
                                             : kKernels<Reads::Columns>[vectors - 1];
    Kernel kernel = table[size_t(height - 1)];
    uint64_t mask = (uint64_t(1) << cols.count) - 1;
    Rows x = block_of_a(block, p), next = block_of_a(block + 1, p);
    Rows soon =
        reads == Reads::Rows ? Rows{next.data + kFetches * j * next.stride, next.stride} : next;
    C* out = c + first * c_row + cols.first;
    bool first_slab = p == 0, biased = first_slab && bias;
    if constexpr (kRounds) {
      Rows old = biased ? Rows{bias + cols.first, 0} : Rows{sum, kSumCols};
      float keep = first_slab && !bias ? 0.0f : 1.0f;
      kernel(depth, x, panel, alpha, keep, old, sum, kSumCols, mask, soon);
      if (p + kDepth < k) return;
      for (int64_t r = 0; r < height; ++r) {
        narrow(sum + r * kSumCols, bias ? 0.0f : beta, out + r * c_row, cols.count);
      }
    } else {
      Rows old = biased ? Rows{bias + cols.first, 0} : Rows{out, c_row};
      kernel(depth, x, panel, alpha, first_slab ? beta : 1.0f, old, out, c_row, mask, soon);
    }
  }

  void run() const {
    if (copies) {
      int64_t strips = blocks_of(a_blocks, kStrip), slabs = blocks_of(k, kDepth);
      parallel_for(strips * slabs, (1 << 14) / (std::min(k, kDepth) * kRows * kStrip),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       int64_t first = i % strips * kStrip;
                       copy_a(first, std::min(first + kStrip, a_blocks), i / strips * kDepth);
                     }
                   });
    }
    int64_t vectors = blocks_of(n, kLine);
    Grid grid =
        cut(a_blocks, vectors, tasks_for(double(m) * double(n) * double(k) / double(kTaskWork)));
    if (kRounds) grid.down = std::max(grid.down, blocks_of(m, kSumRows));
    parallel_chunks(grid.down * grid.across, [&](int64_t task) {
      compute(part_of(a_blocks, grid.down, task % grid.down),
              part_of(vectors, grid.across, task / grid.down));
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
  using Part = Job<T, C>;
  bool near = a.row == 1 && (a.col <= kNear || m * k <= kCachedFloats);
  bool copied = Part::kWidens || (a.col != 1 && !near);
  int64_t rows = m, depth = k;
  float* copies = nullptr;
  if (copied) {
    // c of halves is rounded once: all of k at a time.
    rows = std::min(m, kCopiedFloats / kDepth);
    if (!Part::kRounds) depth = std::min(k, kCopiedFloats / rows / kDepth * kDepth);
    copies = a_space.reserve((rows + kRows) * blocks_of(depth, kDepth) *
                             copy_stride(std::min(depth, kDepth)));
  }
  for (int64_t i = 0; i < m; i += rows) {
    for (int64_t p = 0; p < k; p += depth) {
      Part{std::min(rows, m - i),
           n,
           std::min(depth, k - p),
           {a.at(i, p), a.row, a.col},
           {b.at(p, 0), b.row, b.col},
           alpha,
           p == 0 ? beta : 1.0f,
           p == 0 ? bias : nullptr,
           c + i * c_row,
           c_row,
           a.row == 1 && a.col != 1 ? Reads::Columns : Reads::Rows,
           copies}
          .run();
    }
  }
  a_space.trim();
}

// A long k is summed in floats that are rounded at the end.
template <class T>
void multiply_halves(int64_t m, int64_t n, int64_t k, float alpha, View<T> a, View<T> b, float beta,
                     const float* bias, T* c, int64_t c_row) {
  if (k <= kWholeHalves) return multiply(m, n, k, alpha, a, b, beta, bias, c, c_row);
  Workspace sums;
  float *sum = sums.reserve(m * n), keep = bias ? 0.0f : beta;
  multiply(m, n, k, alpha, a, b, bias ? 1.0f : 0.0f, bias, sum, n);
  parallel_for(m, std::max<int64_t>(1, (1 << 14) / n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) narrow(sum + i * n, keep, c + i * c_row, n);
  });
}

template <class T>
View<T> view(MatrixRef x) {
  return {static_cast<const T*>(x.data), x.row_stride, x.col_stride};
}

}  // namespace

void sgemm(DType dtype, int64_t m, int64_t n, int64_t k, float alpha, MatrixRef a, MatrixRef b,
           float beta, void* c, int64_t c_row) {
  auto halves = [&](auto zero) {
    using T = decltype(zero);
    multiply_halves(m, n, k, alpha, view<T>(a), view<T>(b), beta, nullptr, static_cast<T*>(c),
                    c_row);
  };
  if (dtype == DType::BF16) return halves(BF16());
  if (dtype == DType::F16) return halves(F16());
  multiply(m, n, k, alpha, view<float>(a), view<float>(b), beta, nullptr, static_cast<float*>(c),
           c_row);
}

void sgemm_with_bias(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b,
                     const void* bias, void* c, int64_t c_row) {
  auto halves = [&](auto zero) {
    using T = decltype(zero);
    float* wide = bias_space.reserve(n);
    widen(static_cast<const T*>(bias), wide, n);
    multiply_halves(m, n, k, 1.0f, view<T>(a), view<T>(b), 1.0f, wide, static_cast<T*>(c), c_row);
  };
  if (dtype == DType::BF16) return halves(BF16());
  if (dtype == DType::F16) return halves(F16());
  multiply(m, n, k, 1.0f, view<float>(a), view<float>(b), 1.0f, static_cast<const float*>(bias),
           static_cast<float*>(c), c_row);
}

}  // namespace rl::cpu
#else
namespace rl::cpu {
bool has_sgemm() { return false; }
void sgemm(DType, int64_t, int64_t, int64_t, float, MatrixRef, MatrixRef, float, void*, int64_t) {}
void sgemm_with_bias(DType, int64_t, int64_t, int64_t, MatrixRef, MatrixRef, const void*, void*,
                     int64_t) {}
}  // namespace rl::cpu
#endif
