// Strided copies with conversion between any two dtypes: the ground under copy_, to, contiguous.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// out[i] = in[i] for i in [0, n), strides in bytes. Complex to real takes the real part, anything
// to bool is != 0, a float is truncated to an integer (out of range: the type's wrapped minimum).
void convert(DType to, void* out, int64_t out_stride, DType from, const void* in, int64_t in_stride,
             int64_t n);

// The same over ndim dimensions, outermost first, strides in bytes. The loop order, the tiles and
// the threads are chosen here. out and in do not overlap unless they are the same elements.
void copy_strided(DType to, void* out, const int64_t* out_strides, DType from, const void* in,
                  const int64_t* in_strides, const int64_t* sizes, int ndim);

// A serial conversion of contiguous elements that takes one step; null where there is none.
using Conversion = void (*)(void* out, const void* in, int64_t n);
Conversion unit_conversion(DType to, DType from);

// Serial conversion of contiguous elements.
void convert_unit(DType to, void* out, DType from, const void* in, int64_t n);

}  // namespace rl::cpu
