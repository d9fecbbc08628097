// Runs of halves to and from float, by the widest instructions that the machine has for it.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

void floats_from_halves(float* out, const F16* in, int64_t n);
void floats_from_halves(float* out, const BF16* in, int64_t n);
// Rounds to nearest even.
void halves_from_floats(F16* out, const float* in, int64_t n);
void halves_from_floats(BF16* out, const float* in, int64_t n);

}  // namespace rl::cpu
