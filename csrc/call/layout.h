// How results lie in memory. An op that allocates its result says one of these:
//
//   empty(sizes, dtype)                 rows, whatever the inputs are
//   empty_pointwise(inputs, ...)        the dimensions in the inputs' order, as pointwise ops do
//   empty_like(input, dtype)            the input's strides, without gaps
//   empty_suggested(input, sizes, ...)  channels_last where the input is, rows otherwise
//
// A kernel that writes rows only has its result moved by suggested() or kept_strides().
#pragma once

#include "call/memory_format.h"

namespace rl {

Ints pointwise_strides(const Tensor* const* in, int count, const Ints& sizes);
// Of the operands of a pointwise op.
Device device_of(const Tensor* const* in, int count);
Var empty_pointwise(const Tensor* const* in, int count, const Ints& sizes, DType dtype);

// Resizes an out= tensor that has another shape, warning when it held something; it then lies as a
// new result would (call/output.cpp).
void resize_output(Tensor* out, const Ints& sizes, const Ints& strides);

// The format of results that follow this input; a batched tensor suggests rows.
MemoryFormat suggested_format(const Tensor* like);
Var empty_in(MemoryFormat format, const Ints& sizes, DType dtype, Device device);
inline Var empty_suggested(const Tensor* like, const Ints& sizes, DType dtype) {
  return empty_in(suggested_format(like), sizes, dtype, like->device());
}

// A tensor that was just computed in rows, in the format; no copy where only the strides of
// dimensions of size 1 differ.
Var in_format(MemoryFormat format, const Var& rows);
inline Var suggested(const Tensor* like, const Var& rows) {
  return in_format(suggested_format(like), rows);
}
// The same with the strides that empty_like(like) has.
Var kept_strides(const Tensor* like, const Var& rows);
// x of this dtype without gaps in the format: x itself if it is that.
Var dense_in(MemoryFormat format, const Var& x, DType dtype);

}  // namespace rl
