// Single-precision matrix product of our own for machines with AVX-512, where it is quicker than
// the BLAS. Every element is summed over k in one order, whatever the shapes, tiles and threads.
#pragma once

#include <cstdint>

namespace rl::cpu {

bool has_sgemm();

// c = alpha * a @ b + beta * c; strides in elements, any for a and b; c has unit column stride.
void sgemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t a_row,
           int64_t a_col, const float* b, int64_t b_row, int64_t b_col, float beta, float* c,
           int64_t c_row);

}  // namespace rl::cpu
