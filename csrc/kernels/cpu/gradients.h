// Passes over gradients that training loops make between backward and step.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// x[i] *= factor for n contiguous elements of a real floating dtype.
void scale(DType d, void* x, int64_t n, double factor);
// The same; whether every element was finite before.
bool scale_finite(DType d, void* x, int64_t n, double factor);

}  // namespace rl::cpu
