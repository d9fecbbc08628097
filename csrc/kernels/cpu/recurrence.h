// Linear recurrences along n of [outer, n, inner], contiguous.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// y[k] = b[k] + a[k-1] * y[k-1], or in reverse y[k] = b[k] + a[k] * y[k+1]: a, of n - 1 along n,
// links neighbours. F32, F64 and complex dtypes.
void recurrence(DType d, const void* a, const void* b, void* y, int64_t outer, int64_t n,
                int64_t inner, bool reverse);

// y[k] = x[k] + x[k+1] + ...; any dtype, halves and F32 added up in double.
void suffix_sum(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

// Running log(sum(exp(x))) of complex numbers.
void complex_logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

}  // namespace rl::cpu
