// Sliding windows as the columns of a matrix: what unfold, fold and convolutions of uncommon dtypes
// are made of.
#pragma once

#include "kernels/cpu/convolution.h"

namespace rl::cpu {

// x [in, *input] to columns [in * taps, positions]; what lies in the padding is zero.
void unfold(DType d, const Convolution& c, const void* x, void* columns);
// x += the columns, each element where unfold takes it from; not for bool.
void fold(DType d, const Convolution& c, const void* columns, void* x);

}  // namespace rl::cpu
