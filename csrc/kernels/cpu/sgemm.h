// Matrix products of our own for machines with AVX-512, where they are quicker than the BLAS. Every
// element is summed over k in one order, whatever the shapes, tiles and threads.
#pragma once

#include "kernels/cpu/kernels.h"

namespace rl::cpu {

bool has_sgemm();

// c = alpha * a @ b + beta * c as gemm() has it, for float32 and halves. Halves are summed as
// floats and rounded once.
void sgemm(DType dtype, int64_t m, int64_t n, int64_t k, float alpha, MatrixRef a, MatrixRef b,
           float beta, void* c, int64_t c_row);
// c = a @ b + bias, a row.
void sgemm_with_bias(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b,
                     const void* bias, void* c, int64_t c_row);

}  // namespace rl::cpu
