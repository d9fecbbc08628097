// Singular values and vectors, by LAPACK.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// a = u * diag(s) * vh for a row-major [m, n] matrix of double or complex double; u is [m, k], s [k]
// and vh [k, n] with k = min(m, n). a is overwritten. False: it did not converge.
bool svd(DType d, int64_t m, int64_t n, void* a, void* u, double* s, void* vh);

}  // namespace rl::cpu
