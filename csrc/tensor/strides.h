// Strides without gaps that follow those of other tensors.
#pragma once

#include "tensor/ints.h"

namespace rl {

// Strides for a tensor of these sizes whose dimensions lie in memory as they do in the operands,
// the first operand that tells two dimensions apart deciding. Each operand has a stride for every
// dimension, 0 where it is broadcast. Where no operand objects they are row-major.
Ints ordered_strides(const Ints& sizes, const Ints* operands, int count);

}  // namespace rl
