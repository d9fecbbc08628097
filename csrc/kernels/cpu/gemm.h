// Matrix products of any dtype but bool. Work is cut into tiles by shape alone: the result is
// bitwise the same for any number of threads.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// A matrix in memory; strides in elements.
struct MatrixRef {
  const void* data;
  int64_t row_stride, col_stride;
};

// c = alpha * a @ b + beta * c, a being m x k and b k x n. Any strides for a and b; c has unit
// column stride. c is not read when beta is 0. Halves accumulate in float, integers wrap.
void gemm(DType dtype, int64_t m, int64_t n, int64_t k, double alpha, MatrixRef a, MatrixRef b,
          double beta, void* c, int64_t c_row_stride);

// The same for each of a batch; batch strides in elements (0: shared by all).
void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha,
                  MatrixRef a, int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride,
                  double beta, void* c, int64_t c_batch_stride, int64_t c_row_stride);

// c = a @ b + bias, which is a row; c has no gaps.
void gemm_with_bias(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b,
                    const void* bias, void* c);

// *out = sum of a[i] * b[i] (no conjugate); strides in elements.
void dot(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
         void* out);

}  // namespace rl::cpu
