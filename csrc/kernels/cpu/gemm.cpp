#include "kernels/cpu/kernels.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/cpu/bgemm.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm_int.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sgemm.h"

namespace rl::cpu {
namespace {

constexpr int64_t kTileWork = 1 << 19;   // multiplications worth a thread's while
constexpr double kMaxSmallTiled = 64e6;  // multiplications in all, to be cut into small products
constexpr int64_t kTileRows = 1 << 24;   // keeps every dimension within BLAS's int

struct Shape {
  int64_t m, n, k;
};

// An operand as BLAS takes it: rows of unit stride, or the transpose of such.
struct Operand {
  const char* data;
  int64_t stride;
  bool transposed;
  const void* at(int64_t row, int64_t col, int64_t item) const {
    return data + (transposed ? col * stride + row : row * stride + col) * item;
  }
};

bool as_operand(MatrixRef x, int64_t rows, int64_t cols, Operand& out) {
  int64_t rs = x.row_stride, cs = x.col_stride;
  if (rows == 1 && cs == 1) rs = std::max<int64_t>(cols, 1);
  if (cols == 1 && rs >= 1) cs = rs == 1 ? std::max<int64_t>(rows, 1) : 1;
  if (rows == 1 && cs > 1) rs = 1;
  bool straight = cs == 1 && rs >= cols && rs <= INT_MAX;
  if (!straight && !(rs == 1 && cs >= rows && cs <= INT_MAX)) return false;
  out = {static_cast<const char*>(x.data), straight ? rs : cs, !straight};
  return true;
}

// Memory aligned to cache lines: vector loads that straddle two are slow.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }
  char* get() const { return data_; }
  char* resize(int64_t bytes) {
    std::free(data_);
    data_ = static_cast<char*>(std::aligned_alloc(64, size_t(bytes + 64) / 64 * 64));
    if (!data_) throw std::bad_alloc();
    return data_;
  }

 private:
  char* data_ = nullptr;
};

// A contiguous copy in the order of memory that the matrix already has.
Operand pack(DType dtype, MatrixRef x, int64_t rows, int64_t cols, bool may_transpose,
             Buffer& buffer) {
  bool transposed = may_transpose && x.row_stride < x.col_stride;
  if (transposed) {
    std::swap(rows, cols);
    std::swap(x.row_stride, x.col_stride);
  }
  int64_t item = itemsize(dtype);
  buffer.resize(rows * cols * item);
  int64_t sizes[] = {rows, cols}, out_strides[] = {cols * item, item};
  int64_t in_strides[] = {x.row_stride * item, x.col_stride * item};
  copy_strided(dtype, buffer.get(), out_strides, dtype, x.data, in_strides, sizes, 2);
  return {buffer.get(), std::max<int64_t>(cols, 1), transposed};
}

// One call of BLAS.
void multiply(DType dtype, Shape s, double alpha, const void* a, int64_t a_stride, bool a_trans,
              const void* b, int64_t b_stride, bool b_trans, double beta, void* c,
              int64_t c_stride) {
  const Blas& lib = blas();
  int ta = a_trans ? kTrans : kNoTrans, tb = b_trans ? kTrans : kNoTrans;
  int m = int(s.m), n = int(s.n), k = int(s.k);
  int lda = int(a_stride), ldb = int(b_stride), ldc = int(c_stride);
  switch (dtype) {
    case DType::F32:
      return lib.sgemm(kRowMajor, ta, tb, m, n, k, float(alpha), static_cast<const float*>(a), lda,
                       static_cast<const float*>(b), ldb, float(beta), static_cast<float*>(c), ldc);
    case DType::F64:
      return lib.dgemm(kRowMajor, ta, tb, m, n, k, alpha, static_cast<const double*>(a), lda,
                       static_cast<const double*>(b), ldb, beta, static_cast<double*>(c), ldc);
    case DType::C64: {
      c64 x(float(alpha), 0), y(float(beta), 0);
      return lib.cgemm(kRowMajor, ta, tb, m, n, k, &x, a, lda, b, ldb, &y, c, ldc);
    }
    case DType::C128: {
      c128 x(alpha, 0), y(beta, 0);
      return lib.zgemm(kRowMajor, ta, tb, m, n, k, &x, a, lda, b, ldb, &y, c, ldc);
    }
    default:
      return gemm_int(dtype, s.m, s.n, s.k, int64_t(alpha), a, a_stride, b, b_stride, int64_t(beta),
                      c, c_stride);
  }
}

struct Tiles {
  int64_t rows, cols;    // of one tile
  int64_t down, across;  // tiles along m and n
};

// Tiles as square as can be, a few per core of the machine (not per thread in use), none smaller
// than is worth a thread's while.
Tiles cut(Shape s) {
  static const int64_t cores = std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 2, 64);
  double work = double(s.m) * double(s.n) * double(s.k);
  int64_t parts = int64_t(std::min(work / kTileWork, 2.0 * double(cores)));
  Tiles t{s.m, s.n, 1, 1};
  auto round_up = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  for (int64_t made = 2; made <= parts; made *= 2) {
    int64_t& side = t.rows >= t.cols ? t.rows : t.cols;
    if (side < 32) break;
    side = round_up((side + 1) / 2, 16);
  }
  t.rows = std::min(t.rows, kTileRows);
  t.cols = std::min(t.cols, kTileRows);
  t.down = (s.m + t.rows - 1) / t.rows;
  t.across = (s.n + t.cols - 1) / t.cols;
  return t;
}

// The BLAS multiplies small matrices as they lie, without packing. It does so up to kSmallWork
// multiplications; with b transposed (dots of rows) for kDotResults results and kDotTerms terms.
constexpr int64_t kSmallWork = 1000000, kDotResults = 1200, kDotTerms = 32;

// Tiles of a product of floats that all stay on that path, none (0 down) when it is not worth it. b
// may be copied into the other order for it.
Tiles cut_small(DType dtype, Shape s, MatrixRef b, const Operand& x, Operand& y, Buffer& y_buffer) {
  Tiles none{0, 0, 0, 0};
  double work = double(s.m) * double(s.n) * double(s.k);
  bool small = work <= kSmallWork, dots = s.k >= kDotTerms && !x.transposed;
  if (dtype != DType::F32 || work > kMaxSmallTiled) return none;
  if (dots && s.n <= 20 && s.m * s.n > kDotResults && (y.transposed || s.m >= 64)) {
    // A few columns: dots, whichever way b lies.
    if (!y.transposed) {
      y = pack(dtype, {b.data, b.col_stride, b.row_stride}, s.n, s.k, false, y_buffer);
      y.transposed = true;
    }
  } else if (y.transposed && !x.transposed && s.m * s.n > kDotResults && s.m >= 8 &&
             (!dots || (small && s.m >= 24))) {
    y = pack(dtype, b, s.k, s.n, false, y_buffer);
    if (small) return none;
  } else if (small && (!y.transposed || s.m * s.n <= kDotResults)) {
    return none;
  }
  if (y.transposed && (!dots || s.m < 4)) return none;
  int64_t cols = std::min<int64_t>(s.n, y.transposed ? (s.m < 24 ? 64 : 32) : 128);
  int64_t rows = y.transposed ? kDotResults / cols : kSmallWork / (cols * s.k);
  while (rows < 16 && cols > 32) {
    cols = (cols + 1) / 2;
    rows = y.transposed ? kDotResults / cols : kSmallWork / (cols * s.k);
  }
  if (rows < std::min<int64_t>(s.m, 8)) return none;
  rows = std::min(rows < 16 ? rows : rows / 16 * 16, s.m);
  return {rows, cols, (s.m + rows - 1) / rows, (s.n + cols - 1) / cols};
}

void check_limits(Shape s, int64_t c_stride) {
  if (s.k > INT_MAX || (s.m > 1 && c_stride > INT_MAX)) {
    throw std::runtime_error("gemm: a dimension or stride over 2147483647: " + std::to_string(s.m) +
                             " x " + std::to_string(s.k) + " @ " + std::to_string(s.k) + " x " +
                             std::to_string(s.n));
  }
}

void scale(DType dtype, Shape s, double beta, void* c, int64_t c_stride) {
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < s.m; ++i) {
      T* row = static_cast<T*>(c) + i * c_stride;
      for (int64_t j = 0; j < s.n; ++j) {
        if (beta == 0) {
          row[j] = T(0);
        } else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
          row[j] = T(float(beta) * float(row[j]));
        } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, Bool>) {
          row[j] = T(uint64_t(int64_t(beta)) * uint64_t(row[j]));
        } else {
          row[j] = T(row[j] * T(beta));
        }
      }
    }
  });
}

// Floats for small products of halves, which stay with their thread between calls.
class Scratch {
 public:
  float* reserve(int64_t floats) {
    if (floats > size_) {
      size_ = 0;
      buffer_.resize(floats * 4);
      size_ = floats;
    }
    return reinterpret_cast<float*>(buffer_.get());
  }
  void trim() {
    if (size_ > kKeepFloats) buffer_.resize(64), size_ = 0;
  }

 private:
  static constexpr int64_t kKeepFloats = 1 << 20;
  Buffer buffer_;
  int64_t size_ = 0;
};
thread_local Scratch scratch;

// Halves as floats, in the order of memory they have.
MatrixRef widened(DType dtype, MatrixRef x, int64_t rows, int64_t cols, float* out) {
  bool transposed = x.row_stride < x.col_stride;
  if (transposed) std::swap(rows, cols), std::swap(x.row_stride, x.col_stride);
  if (x.col_stride == 1 && (x.row_stride == cols || rows == 1) && rows * cols < 1 << 15) {
    convert_unit(DType::F32, out, dtype, x.data, rows * cols);
  } else {
    int64_t sizes[] = {rows, cols}, out_strides[] = {cols * 4, 4};
    int64_t in_strides[] = {x.row_stride * 2, x.col_stride * 2};
    copy_strided(DType::F32, out, out_strides, dtype, x.data, in_strides, sizes, 2);
  }
  return transposed ? MatrixRef{out, 1, cols} : MatrixRef{out, cols, 1};
}

// Through floats: where a product is small, or the machine has no kernel of ours.
void gemm_half(DType dtype, Shape s, double alpha, MatrixRef a, MatrixRef b, double beta, void* c,
               int64_t c_stride) {
  auto lines = [](int64_t floats) { return (floats + 15) / 16 * 16; };
  int64_t a_size = lines(s.m * s.k), b_size = lines(s.k * s.n);
  float* a_wide = scratch.reserve(a_size + b_size + s.m * s.n);
  float *b_wide = a_wide + a_size, *c_wide = b_wide + b_size;
  MatrixRef x = widened(dtype, a, s.m, s.k, a_wide), y = widened(dtype, b, s.k, s.n, b_wide);
  int64_t sizes[] = {s.m, s.n}, strides[] = {c_stride * 2, 2}, wide_strides[] = {s.n * 4, 4};
  if (beta != 0) copy_strided(DType::F32, c_wide, wide_strides, dtype, c, strides, sizes, 2);
  gemm(DType::F32, s.m, s.n, s.k, alpha, x, y, beta, c_wide, s.n);
  if (c_stride == s.n && s.m * s.n < 1 << 15) {
    convert_unit(dtype, c, DType::F32, c_wide, s.m * s.n);
  } else {
    copy_strided(dtype, c, strides, DType::F32, c_wide, wide_strides, sizes, 2);
  }
  scratch.trim();
}

// Whether the machine's instructions for bfloat16 take a product.
bool takes_pairs(DType dtype, Shape s) {
  return dtype == DType::BF16 && s.m >= 8 && s.n >= 16 && s.k >= 16 && has_bgemm();
}

// Our own kernel beats the BLAS where copying b pays: with few rows of a only in large products.
bool prefers_own(DType dtype, Shape s, MatrixRef b) {
  bool known = dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
  double least = s.m >= 64 ? 1 << 20 : s.m >= 32 && b.col_stride == 1 ? 1 << 22 : 1 << 24;
  return known && s.m >= 16 && s.n >= 32 && s.k >= 32 &&
         double(s.m) * double(s.n) * double(s.k) >= least && has_sgemm();
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, double alpha, MatrixRef a, MatrixRef b,
          double beta, void* c, int64_t c_row_stride) {
  Shape s{m, n, k};
  if (m == 0 || n == 0) return;
  // Some kernels of the BLAS read factors that count for nothing, and make NaN of NaN.
  if (k == 0 || alpha == 0) return scale(dtype, s, beta, c, c_row_stride);
  if (takes_pairs(dtype, s)) {
    return bgemm(m, n, k, float(alpha), a, b, float(beta), static_cast<BF16*>(c), c_row_stride);
  }
  if (prefers_own(dtype, s, b)) {
    return sgemm(dtype, m, n, k, float(alpha), a, b, float(beta), c, c_row_stride);
  }
  if (compute_type(dtype) != dtype) {
    return gemm_half(dtype, s, alpha, a, b, beta, c, c_row_stride);
  }
  if (m == 1) c_row_stride = n;
  check_limits(s, c_row_stride);
  Operand x, y;
  Buffer x_buffer, y_buffer;
  bool integers = is_integral(dtype);
  if (!as_operand(a, m, k, x) || (integers && x.transposed)) {
    x = pack(dtype, a, m, k, !integers, x_buffer);
  }
  if (!as_operand(b, k, n, y) || (integers && y.transposed)) {
    y = pack(dtype, b, k, n, !integers, y_buffer);
  }
  int64_t item = itemsize(dtype);
  Tiles t = cut_small(dtype, s, b, x, y, y_buffer);
  bool whole = t.down == 0 && double(m) * double(n) * double(k) < 2.0 * kTileWork;
  if (whole) t = {m, n, 1, 1};
  else if (t.down == 0) t = cut(s);
  int64_t together = std::max<int64_t>(kTileWork / (t.rows * t.cols * k), 1);
  parallel_for(t.down * t.across, together, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t i = tile / t.across * t.rows, j = tile % t.across * t.cols;
      multiply(dtype, {std::min(t.rows, m - i), std::min(t.cols, n - j), k}, alpha,
               x.at(i, 0, item), x.stride, x.transposed, y.at(0, j, item), y.stride, y.transposed,
               beta, static_cast<char*>(c) + (i * c_row_stride + j) * item, c_row_stride);
    }
  });
}

void gemm_with_bias(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b,
                    const void* bias, void* c) {
  if (m == 0 || n == 0) return;
  if (k > 0 && !takes_pairs(dtype, {m, n, k}) && prefers_own(dtype, {m, n, k}, b)) {
    return sgemm_with_bias(dtype, m, n, k, a, b, bias, c, n);
  }
  size_t row = size_t(n * itemsize(dtype));
  char* to = static_cast<char*>(c);
  std::memcpy(to, bias, row);
  // Doubling: later copies are long ones.
  for (int64_t done = 1; done < m;) {
    int64_t count = std::min(done, m - done);
    std::memcpy(to + size_t(done) * row, to, size_t(count) * row);
    done += count;
  }
  gemm(dtype, m, n, k, 1, a, b, 1, c, n);
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha,
                  MatrixRef a, int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride,
                  double beta, void* c, int64_t c_batch_stride, int64_t c_row_stride) {
  if (batch == 0 || m == 0 || n == 0) return;
  // A shared b under rows that run on is one tall product.
  if (b_batch_stride == 0 &&
      (m == 1 || (a_batch_stride == m * a.row_stride && c_batch_stride == m * c_row_stride))) {
    if (m == 1) a.row_stride = a_batch_stride, c_row_stride = c_batch_stride;
    return gemm(dtype, batch * m, n, k, alpha, a, b, beta, c, c_row_stride);
  }
  int64_t item = itemsize(dtype);
  auto one = [&](int64_t i) {
    MatrixRef x = a, y = b;
    x.data = static_cast<const char*>(a.data) + i * a_batch_stride * item;
    y.data = static_cast<const char*>(b.data) + i * b_batch_stride * item;
    gemm(dtype, m, n, k, alpha, x, y, beta, static_cast<char*>(c) + i * c_batch_stride * item,
         c_row_stride);
  };
  // Many small products are spread over the threads; a few large ones are cut up themselves.
  double work = double(m) * double(n) * double(k) + 1;
  if (batch < 8 && work >= 2.0 * kTileWork) {
    for (int64_t i = 0; i < batch; ++i) one(i);
    return;
  }
  parallel_for(batch, std::max<int64_t>(int64_t(kTileWork / work), 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) one(i);
               });
}

}  // namespace rl::cpu
