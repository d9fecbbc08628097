// b lies in panels of 64 columns in which the two elements that meet a pair of a's lie together; a
// strip of rows is multiplied by one panel at a time, over all of k, into a block of floats.
#include "kernels/cpu/bgemm.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define RL_BF16_UNITS 1
// The intrinsics' own headers pass deliberately undefined registers (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace rl::cpu {
namespace {

constexpr int64_t kCols = 64, kStep = 32;    // columns of a panel; elements of k in one tile
constexpr int64_t kMaxRows = 32;             // of a strip
constexpr int64_t kPanelElements = 4 << 20;  // of b packed at a time
constexpr int64_t kTaskWork = 1 << 21;       // multiplications worth a thread's while
constexpr int64_t kStripElements = 1 << 18;  // of a that meet a panel while it is in the cache
constexpr int64_t kKeepElements = 8 << 20;   // of workspace between calls

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

// block[rows][kCols] = a @ b; a has rows of `a_row` elements, b is a panel; depth is in pairs and a
// multiple of kStep / 2.
using Kernel = void (*)(int64_t rows, int64_t depth, const uint16_t* a, int64_t a_row,
                        const uint32_t* b, float* block);

struct Unit {
  Kernel kernel = nullptr;
  int64_t rows = kMaxRows;  // of a strip; a full one may be read where it lies
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

float low(uint32_t pair) {
  BF16 x;
  x.bits = uint16_t(pair);
  return x;
}
float high(uint32_t pair) { return low(pair >> 16); }

void plain_kernel(int64_t rows, int64_t depth, const uint16_t* a, int64_t a_row, const uint32_t* b,
                  float* block) {
  std::fill(block, block + rows * kCols, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t p = 0; p < depth; ++p) {
      uint32_t x;
      std::memcpy(&x, a + r * a_row + 2 * p, 4);
      for (int64_t j = 0; j < kCols; ++j) {
        uint32_t y = b[p * kCols + j];
        block[r * kCols + j] += low(x) * low(y) + high(x) * high(y);
      }
    }
  }
}

#ifdef RL_BF16_UNITS

template <int Rows>
__attribute__((target("avx512f,avx512bf16"))) void dot_rows(int64_t depth, const uint16_t* a,
                                                            int64_t a_row, const uint32_t* b,
                                                            float* block) {
  __m512 acc[Rows][4];
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int64_t p = 0; p < depth; ++p, a += 2, b += kCols) {
    __m512bh y[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) y[v] = (__m512bh)_mm512_load_si512(b + 16 * v);
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      int pair;
      std::memcpy(&pair, a + r * a_row, 4);
      __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], x, y[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) _mm512_store_ps(block + r * kCols + 16 * v, acc[r][v]);
  }
}

void dot_kernel(int64_t rows, int64_t depth, const uint16_t* a, int64_t a_row, const uint32_t* b,
                float* block) {
  using Rows = void (*)(int64_t, const uint16_t*, int64_t, const uint32_t*, float*);
  static constexpr Rows table[] = {dot_rows<1>, dot_rows<2>, dot_rows<3>,
                                   dot_rows<4>, dot_rows<5>, dot_rows<6>};
  for (int64_t r = 0; r < rows; r += 6) {
    table[std::min<int64_t>(rows - r, 6) - 1](depth, a + r * a_row, a_row, b, block + r * kCols);
  }
}

#define RL_AMX __attribute__((target("amx-tile,amx-bf16")))

// Eight tiles of 16 rows of 64 bytes: 0 to 3 sum, 4 and 5 hold rows of a, 6 and 7 columns of b. A
// constant, since the instruction reads more of it than the compiler knows.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
const TileShapes kTileShapes;

RL_AMX void begin_tiles() { _tile_loadconfig(&kTileShapes); }
RL_AMX void end_tiles() { _tile_release(); }

// 32 or, when there are no more, 16 rows of the block at a time, by 32 columns.
RL_AMX void tile_kernel(int64_t rows, int64_t depth, const uint16_t* a, int64_t a_row,
                        const uint32_t* b, float* block) {
  const int64_t a_bytes = a_row * 2, line = kCols * 4;
  for (int64_t j = 0; j < kCols; j += 32) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t p = 0; p < depth; p += 16) {
      const uint32_t* y = b + p * kCols + j;
      _tile_loadd(6, y, line);
      _tile_loadd(7, y + 16, line);
      _tile_loadd(4, a + 2 * p, a_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (rows > 16) {
        _tile_loadd(5, a + 16 * a_row + 2 * p, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, block + j, line);
    _tile_stored(1, block + j + 16, line);
    if (rows > 16) {
      _tile_stored(2, block + 16 * kCols + j, line);
      _tile_stored(3, block + 16 * kCols + j + 16, line);
    }
  }
}

bool has_dots() {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
         (a >> 5 & 1);
}

// The system lends the tiles' registers to a process that asks for them.
bool has_tiles() {
  constexpr int kRequest = 0x1023, kTileData = 18;
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return false;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

#endif

Unit choose() {
  const char* text = std::getenv("RUSHLIGHT_BF16");
  std::string_view wanted = text ? text : "";
  if (wanted == "plain") return {plain_kernel};
#ifdef RL_BF16_UNITS
  if ((wanted.empty() || wanted == "amx") && has_tiles()) {
    return {tile_kernel, 32, begin_tiles, end_tiles};
  }
  // On Intel's cores the dot product of pairs runs at half the rate of float multiplications.
  bool dots = wanted == "avx512_bf16" || (wanted.empty() && __builtin_cpu_is("amd"));
  if (dots && has_dots()) return {dot_kernel, 30};
#endif
  return {};
}

const Unit& unit() {
  static const Unit chosen = choose();
  return chosen;
}

// Memory that stays with its thread between calls.
class Workspace {
 public:
  uint16_t* reserve(int64_t elements) {
    if (elements > size_) {
      std::free(data_);
      size_ = 0;
      size_t bytes = size_t(blocks_of(elements * 2, 64) * 64);
      data_ = static_cast<uint16_t*>(std::aligned_alloc(64, bytes));
      if (!data_) throw std::bad_alloc();
      size_ = elements;
    }
    return data_;
  }
  void trim() {
    if (size_ > kKeepElements) std::free(std::exchange(data_, nullptr)), size_ = 0;
  }
  ~Workspace() { std::free(data_); }

 private:
  uint16_t* data_ = nullptr;
  int64_t size_ = 0;
};
thread_local Workspace a_space, b_space;

// Pairs of two rows of b that meet the same pair of a.
RL_CLONES void pair_rows(const uint16_t* first, const uint16_t* second, uint32_t* out, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] = uint32_t(first[j]) | uint32_t(second[j]) << 16;
}

// BF16's own conversion has a branch for NaN, which keeps loops from becoming vectors.
RL_INLINE uint16_t rounded(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  uint32_t even = (u + 0x7fff + ((u >> 16) & 1)) >> 16, quiet = (u >> 16) | 0x40;
  return uint16_t((u & 0x7fffffff) > 0x7f800000 ? quiet : even);
}

// c = alpha * block + beta * c, of bits of BF16.
RL_CLONES void store(const float* __restrict block, float alpha, float beta, uint16_t* __restrict c,
                     int64_t n) {
  if (beta == 0) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) c[j] = rounded(alpha * block[j]);
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < n; ++j)
    c[j] = rounded(alpha * block[j] + beta * std::bit_cast<float>(uint32_t(c[j]) << 16));
}

struct Job {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_row, a_col;
  const uint16_t* b;
  int64_t b_row, b_col;
  float alpha, beta;
  BF16* c;
  int64_t c_row;
  uint32_t* panels;
  int64_t depth = blocks_of(k, kStep) * kStep;  // of panels and strips, padded with zeros

  void pack_b(int64_t panel) const {
    int64_t first = panel * kCols, cols = std::min(kCols, n - first), pairs = k / 2;
    uint32_t* out = panels + panel * kCols * (depth / 2);
    const uint16_t* in = b + first * b_col;
    if (cols < kCols) std::memset(out, 0, size_t(depth / 2 * kCols) * 4);
    if (b_row == 1 && b_col != 1) {
      // A column's pairs lie together already.
      move2d(4, reinterpret_cast<char*>(out), kCols * 4, 4, reinterpret_cast<const char*>(in), 4,
             b_col * 2, pairs, cols);
    } else if (b_col == 1) {
      for (int64_t p = 0; p < pairs; ++p) {
        const uint16_t* row = in + 2 * p * b_row;
        pair_rows(row, row + b_row, out + p * kCols, cols);
      }
    } else {
      for (int64_t p = 0; p < pairs; ++p) {
        for (int64_t j = 0; j < cols; ++j) {
          const uint16_t* x = in + 2 * p * b_row + j * b_col;
          out[p * kCols + j] = uint32_t(x[0]) | uint32_t(x[b_row]) << 16;
        }
      }
    }
    if (k % 2) {
      for (int64_t j = 0; j < cols; ++j) out[pairs * kCols + j] = in[(k - 1) * b_row + j * b_col];
    }
    int64_t done = blocks_of(k, 2);
    std::memset(out + done * kCols, 0, size_t((depth / 2 - done) * kCols) * 4);
  }

  // Whether a kernel can read a strip of a as it is.
  bool lies_right(int64_t strip) const {
    return a_col == 1 && k == depth && (strip + 1) * unit().rows <= m;
  }

  // A strip of a as rows of `depth` elements.
  void pack_a(int64_t strip, uint16_t* out) const {
    int64_t first = strip * unit().rows, rows = std::min(unit().rows, m - first);
    move2d(2, reinterpret_cast<char*>(out), depth * 2, 2,
           reinterpret_cast<const char*>(a + first * a_row), a_row * 2, a_col * 2, rows, k);
    for (int64_t r = 0; r < rows; ++r) std::memset(out + r * depth + k, 0, size_t(depth - k) * 2);
  }

  // Strips [begin, end) by panels [left, right): a panel meets as many strips as fit the cache.
  void compute(int64_t begin, int64_t end, int64_t left, int64_t right) const {
    const Unit& u = unit();
    int64_t most = std::clamp<int64_t>(kStripElements / (u.rows * depth), 1, end - begin);
    uint16_t* space = a_space.reserve(most * kMaxRows * depth);
    if (u.begin) u.begin();
    for (int64_t s = begin; s < end; s += most) {
      int64_t count = std::min(most, end - s);
      for (int64_t i = 0; i < count; ++i) {
        if (!lies_right(s + i)) pack_a(s + i, space + i * kMaxRows * depth);
      }
      for (int64_t panel = left; panel < right; ++panel) {
        for (int64_t i = 0; i < count; ++i) {
          bool direct = lies_right(s + i);
          multiply(s + i, direct ? a + (s + i) * u.rows * a_row : space + i * kMaxRows * depth,
                   direct ? a_row : depth, panel);
        }
      }
    }
    if (u.end) u.end();
  }

  void multiply(int64_t strip, const uint16_t* x, int64_t x_row, int64_t panel) const {
    alignas(64) float block[kMaxRows * kCols];
    const Unit& u = unit();
    int64_t first = strip * u.rows, rows = std::min(u.rows, m - first);
    int64_t col = panel * kCols, cols = std::min(kCols, n - col);
    u.kernel(rows, depth / 2, x, x_row, panels + panel * kCols * (depth / 2), block);
    for (int64_t r = 0; r < rows; ++r) {
      store(block + r * kCols, alpha, beta, &c[(first + r) * c_row + col].bits, cols);
    }
  }

  void run() const {
    int64_t count = blocks_of(n, kCols), strips = blocks_of(m, unit().rows);
    int64_t together = std::max<int64_t>(1, (1 << 15) / (depth * kCols));
    parallel_for(count, together, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) pack_b(panel);
    });
    // A task packs what it reads of a: where there are many strips, it takes all columns.
    int64_t work = unit().rows * kCols * depth;
    int64_t across = strips >= 16 ? count : std::clamp<int64_t>(kTaskWork / work, 1, count);
    int64_t down = std::clamp<int64_t>(kTaskWork / (work * across), 1, strips);
    int64_t rows = blocks_of(strips, down), columns = blocks_of(count, across);
    parallel_chunks(rows * columns, [&](int64_t task) {
      int64_t i = task / columns, j = task % columns;
      compute(i * strips / rows, (i + 1) * strips / rows, j * count / columns,
              (j + 1) * count / columns);
    });
  }
};

}  // namespace

bool has_bgemm() { return unit().kernel != nullptr; }

void bgemm(int64_t m, int64_t n, int64_t k, float alpha, MatrixRef a, MatrixRef b, float beta,
           BF16* c, int64_t c_row) {
  int64_t depth = blocks_of(k, kStep) * kStep;
  int64_t width = std::min(n, std::max(kPanelElements / depth / kCols, int64_t(1)) * kCols);
  auto* panels =
      reinterpret_cast<uint32_t*>(b_space.reserve(blocks_of(width, kCols) * kCols * depth));
  for (int64_t j = 0; j < n; j += width) {
    Job job{m,
            std::min(width, n - j),
            k,
            static_cast<const uint16_t*>(a.data),
            a.row_stride,
            a.col_stride,
            static_cast<const uint16_t*>(b.data) + j * b.col_stride,
            b.row_stride,
            b.col_stride,
            alpha,
            beta,
            c + j,
            c_row,
            panels};
    job.run();
  }
  b_space.trim();
}

}  // namespace rl::cpu
