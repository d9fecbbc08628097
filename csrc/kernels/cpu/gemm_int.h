// Products of integer matrices; overflow wraps.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// c = alpha * a @ b + beta * c, all with unit column stride; serial.
void gemm_int(DType dtype, int64_t m, int64_t n, int64_t k, int64_t alpha, const void* a,
              int64_t a_row_stride, const void* b, int64_t b_row_stride, int64_t beta, void* c,
              int64_t c_row_stride);

}  // namespace rl::cpu
