// Positions worked out from indices and masks, and whole rows moved to such positions.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// The position of the first index outside [0, size), or -1.
int64_t find_outside(const int64_t* index, int64_t count, int64_t size);

// out[i] = index[i] * stride, or that added to out[i]; a negative index counts from the end.
void linear_index(const int64_t* index, int64_t count, int64_t size, int64_t stride, bool add,
                  int64_t* out);

// out[d * n + i] is coordinate d of the flat position flat[i] in a row-major tensor.
void unravel(const int64_t* flat, int64_t n, const int64_t* sizes, int ndim, int64_t* out);

// y[o, index[c], :] = src[o, c, :] in order of c; y is [outer, n, inner].
void index_write(int64_t itemsize, void* y, const int64_t* index, const void* src, int64_t outer,
                 int64_t n, int64_t inner, int64_t count);

// The part of each matrix with column - row <= k (or >= k), zeros elsewhere.
void triangle(int64_t itemsize, const void* x, void* y, int64_t matrices, int64_t rows,
              int64_t cols, int64_t k, bool upper);

// y[i] = x[i] * (mask[i] ? scale : 0), so that what is not finite stays so. Float types.
void masked_scale(DType d, const void* x, const Bool* mask, void* y, int64_t n, double scale);

}  // namespace rl::cpu
