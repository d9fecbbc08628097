// Gathers and scatters by int64 indices that are already non-negative and in range. Repeated
// indices are applied in order of position, for any number of threads.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// y[o, c, :] = x[o, index[c], :]; x is [outer, n, inner], y is [outer, count, inner].
void index_select(int64_t itemsize, const void* x, const int64_t* index, void* y, int64_t outer,
                  int64_t n, int64_t inner, int64_t count);
// y[o, index[c], :] += alpha * src[o, c, :]; y is [outer, n, inner].
void index_add(DType d, void* y, const int64_t* index, const void* src, int64_t outer, int64_t n,
               int64_t inner, int64_t count, double alpha);

// y[p] = x[p with p[dim] replaced by index[p]] for every position p in `sizes`. Strides in bytes.
void gather(int64_t itemsize, const void* x, const int64_t* x_strides, const int64_t* index,
            const int64_t* index_strides, void* y, const int64_t* y_strides, const int64_t* sizes,
            int ndim, int dim, int64_t dim_size);

enum class Scatter { Set, Add, Multiply, Amax, Amin };
// y[p with p[dim] replaced by index[p]] = mode(that, src[p]) for every p. Strides in bytes; a src
// stride may be 0 (a scalar).
void scatter(DType d, Scatter mode, void* y, const int64_t* y_strides, const int64_t* index,
             const int64_t* index_strides, const void* src, const int64_t* src_strides,
             const int64_t* sizes, int ndim, int dim, int64_t dim_size);

// The position of the first index outside [-size, size), or -1.
int64_t find_out_of_range(const int64_t* index, int64_t count, int64_t size);
// The number of nonzero elements; their flat positions too unless `flat` is null.
int64_t nonzero(DType d, const void* x, int64_t n, int64_t* flat);

}  // namespace rl::cpu
