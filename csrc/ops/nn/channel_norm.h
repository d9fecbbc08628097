// What the normalisations by channel share.
#pragma once

#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

// A row-major tensor of this dtype; none stays none.
inline Var dense_as(const Var& x, DType dtype) {
  return x ? ops::contiguous(ops::to(x, dtype)) : x;
}
inline char* data_or_null(const Var& x) { return x ? x->data() : nullptr; }

// Raises unless a parameter (or none) may go with inputs of this dtype: the same, or float with
// halves.
inline void check_mixed(const char* op, DType input, const Var& parameter) {
  if (!parameter || parameter.dtype() == input) return;
  check(parameter.dtype() == DType::F32 && compute_type(input) == DType::F32,
        "mixed dtype (CPU): all inputs must share same datatype, or expect parameter to have "
        "scalar type of Float with half inputs: ",
        op, " got an input of ", info(input).tensor_name, " and a parameter of ",
        info(parameter.dtype()).tensor_name);
}

// One value for each channel, as a factor of a tensor of `ndim` dimensions.
inline Var by_channel(const Var& v, int ndim) {
  Ints sizes(ndim, 1);
  sizes[1] = v.numel();
  return ops::reshape(v, sizes);
}

kernel::ChannelShape channel_shape(const Ints& sizes);

// batch_norm without the checks of nn.functional.
Var batch_norm(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
               const Var& running_var, bool training, double momentum, double eps);

}  // namespace rl
