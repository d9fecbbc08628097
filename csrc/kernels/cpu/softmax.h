// Softmax along n of [outer, n, inner], contiguous; real floating dtypes.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// exp(x) / sum(exp(x)). A row of -inf gives NaN.
void softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
// x - log(sum(exp(x))).
void log_softmax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
// y * (g - sum(g * y)), y being softmax's output.
void softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner);
// g - exp(y) * sum(g), y being log_softmax's output.
void log_softmax_backward(DType d, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner);

}  // namespace rl::cpu
