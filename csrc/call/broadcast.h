// Shapes and dtypes of results.
#pragma once

#include "tensor/tensor.h"

namespace rl {

// The shape both broadcast to; raises with the op's name.
Ints broadcast(const Ints& a, const Ints& b);
// Strides with which a tensor is read as if it had these sizes.
Ints broadcast_strides(const Tensor* t, const Ints& sizes);
bool can_expand(const Ints& from, const Ints& to);

// torch's promotion: dimensioned tensors outweigh 0-d ones, which outweigh Python numbers.
class Promotion {
 public:
  void add(const Tensor* t);
  DType result() const;

 private:
  int dims_ = -1, zero_ = -1, wrapped_ = -1;  // a DType or -1
};
DType result_type(const Tensor* a, const Tensor* b);
// Whether results of type `from` may be stored in `to`.
bool can_cast(DType from, DType to);

}  // namespace rl
