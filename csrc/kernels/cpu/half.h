// Runs of float16 to and from float, by the F16C instructions where the machine has them.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

void floats_from_halves(float* out, const F16* in, int64_t n);
void halves_from_floats(F16* out, const float* in, int64_t n);  // rounds to nearest even

}  // namespace rl::cpu
