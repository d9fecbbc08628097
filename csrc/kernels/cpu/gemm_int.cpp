#include "kernels/cpu/gemm_int.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

constexpr int64_t kRows = 4, kDepth = 256;

template <class T>
struct Matrix {
  T* data;
  int64_t stride;
  T* row(int64_t i) const { return data + i * stride; }
};

// acc[rows][width] += a[rows][depth] @ b[depth][width]; T is unsigned, so that overflow is defined.
template <class T, int64_t Rows, int64_t Width>
RL_INLINE void block(T (&acc)[kRows][Width], Matrix<const T> a, Matrix<const T> b, int64_t depth,
                     int64_t width) {
  for (int64_t p = 0; p < depth; ++p) {
    const T* x = b.row(p);
    if (width == Width) {
#pragma GCC unroll 4
      for (int64_t r = 0; r < Rows; ++r) {
        T factor = a.row(r)[p];
        for (int64_t j = 0; j < Width; ++j) acc[r][j] = T(acc[r][j] + T(1u * factor * x[j]));
      }
    } else {
      for (int64_t r = 0; r < Rows; ++r) {
        T factor = a.row(r)[p];
        for (int64_t j = 0; j < width; ++j) acc[r][j] = T(acc[r][j] + T(1u * factor * x[j]));
      }
    }
  }
}

template <class T>
RL_INLINE void multiply(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a,
                        Matrix<const T> b, T beta, Matrix<T> c) {
  constexpr int64_t width_max = 128 / int64_t(sizeof(T));
  for (int64_t i = 0; i < m; i += kRows) {
    int64_t rows = std::min(kRows, m - i);
    for (int64_t j = 0; j < n; j += width_max) {
      int64_t width = std::min(width_max, n - j);
      T acc[kRows][width_max] = {};
      for (int64_t p = 0; p < k; p += kDepth) {
        int64_t depth = std::min(kDepth, k - p);
        Matrix<const T> b_part{b.row(p) + j, b.stride};
        if (rows == kRows) {
          block<T, kRows>(acc, {a.row(i) + p, a.stride}, b_part, depth, width);
        } else {
          T one[kRows][width_max];
          for (int64_t r = 0; r < rows; ++r) {
            std::copy_n(acc[r], width_max, one[0]);
            block<T, 1>(one, {a.row(i + r) + p, a.stride}, b_part, depth, width);
            std::copy_n(one[0], width_max, acc[r]);
          }
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        T* out = c.row(i + r) + j;
        if (beta == 0) {
          for (int64_t q = 0; q < width; ++q) out[q] = T(1u * alpha * acc[r][q]);
        } else {
          for (int64_t q = 0; q < width; ++q) {
            out[q] = T(T(1u * alpha * acc[r][q]) + T(1u * beta * out[q]));
          }
        }
      }
    }
  }
}

template <class T>
using Ref = Matrix<const T>;
#define RL_GEMM(name, T)                                                                    \
  RL_CLONES void name(int64_t m, int64_t n, int64_t k, T alpha, Ref<T> a, Ref<T> b, T beta, \
                      Matrix<T> c) {                                                        \
    multiply<T>(m, n, k, alpha, a, b, beta, c);                                             \
  }
RL_GEMM(gemm_u8, uint8_t)
RL_GEMM(gemm_u16, uint16_t)
RL_GEMM(gemm_u32, uint32_t)
RL_GEMM(gemm_u64, uint64_t)

}  // namespace

void gemm_int(DType dtype, int64_t m, int64_t n, int64_t k, int64_t alpha, const void* a,
              int64_t a_row_stride, const void* b, int64_t b_row_stride, int64_t beta, void* c,
              int64_t c_row_stride) {
  auto run = [&](auto kernel, auto zero) {
    using T = decltype(zero);
    kernel(m, n, k, T(alpha), {static_cast<const T*>(a), a_row_stride},
           {static_cast<const T*>(b), b_row_stride}, T(beta), {static_cast<T*>(c), c_row_stride});
  };
  switch (itemsize(dtype)) {
    case 1: return run(gemm_u8, uint8_t(0));
    case 2: return run(gemm_u16, uint16_t(0));
    case 4: return run(gemm_u32, uint32_t(0));
    default: return run(gemm_u64, uint64_t(0));
  }
}

}  // namespace rl::cpu
