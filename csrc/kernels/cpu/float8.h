// Floats of eight bits: to float by a table, from float rounded to nearest, ties to even.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

void floats_from_float8(DType d, float* out, const uint8_t* in, int64_t n);
void float8_from_floats(DType d, uint8_t* out, const float* in, int64_t n);

}  // namespace rl::cpu
