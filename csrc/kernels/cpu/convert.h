// Conversions of contiguous elements, for kernels.
#pragma once

#include "kernels/cpu/kernels.h"

namespace rl::cpu {

// A serial conversion that takes one step; null where there is none.
using Conversion = void (*)(void* out, const void* in, int64_t n);
Conversion unit_conversion(DType to, DType from);

// Serial, any pair of types.
void convert_unit(DType to, void* out, DType from, const void* in, int64_t n);

}  // namespace rl::cpu
