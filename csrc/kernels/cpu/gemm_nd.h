// Matrix products over any number of batch dimensions, read with any strides.
#pragma once

#include "kernels/cpu/gemm.h"

namespace rl::cpu {

inline constexpr int kMaxBatchDims = 64;

// A batch dimension and its strides, in elements, in a, b and c. With `summed`, the products along
// it are added up (c has no such dimension, and its stride is not read).
struct BatchDim {
  int64_t size, a, b, c;
  bool summed;
};

// c = alpha * a @ b + beta * c for every position of the batch dimensions. No summed dimension for
// halves, whose sum would be rounded at every step.
void gemm_nd(DType dtype, const BatchDim* dims, int ndim, int64_t m, int64_t n, int64_t k,
             double alpha, MatrixRef a, MatrixRef b, double beta, void* c, int64_t c_row_stride);

}  // namespace rl::cpu
