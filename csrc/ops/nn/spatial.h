// What convolutions, pooling and resampling share: tensors [batch, channels, *spatial].
#pragma once

#include "kernels/kernels.h"
#include "ops/functions.h"

namespace rl {

// The last entries of an Extent; those before are `fill`.
inline kernel::Extent extent(const Ints& values, int dims, int64_t fill) {
  kernel::Extent e{fill, fill, fill};
  for (int i = 0; i < dims; i++) e[size_t(3 - dims + i)] = values[values.size() - dims + i];
  return e;
}
inline kernel::Extent spatial_extent(const Ints& sizes, int dims) { return extent(sizes, dims, 1); }

inline std::string times(const Ints& values, const char* sign = " x ") {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : sign) + std::to_string(v);
  return text;
}

inline Ints last_of(const Ints& sizes, int dims) {
  return Ints(sizes.data() + sizes.size() - dims, dims);
}

// Strides, paddings and the like beyond any tensor's size would overflow what is computed of them.
inline void check_range(const char* name, const Ints& values) {
  for (int64_t v : values) check(v < (int64_t(1) << 30), name, " is too large: ", values);
}

[[noreturn]] inline void fail_dtype(const char* kernel, DType dtype) {
  fail_as(PyExc_NotImplementedError, "\"", kernel, "\" not implemented for '",
          info(dtype).tensor_name, "'");
}

// torch reads a dimension that is not there.
[[noreturn]] inline void fail_few_dims(const char* op, const Ints& sizes, int least) {
  fail_as(PyExc_IndexError, op, ": Dimension out of range: expected input of at least ", least,
          " dimensions, but got input of size ", sizes);
}

// A row-major tensor of this dtype; none stays none.
inline Var dense_as(const Var& x, DType dtype) {
  return x ? ops::contiguous(ops::to(x, dtype)) : x;
}

namespace ops {

Var squeeze(const Var& a, int64_t dim);

}  // namespace ops

}  // namespace rl
