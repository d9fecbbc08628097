// Structural zeros: in a region, a gradient that is exactly 0 stays 0 in every derivative, also where
// that is infinite or NaN. Pointwise ops do so for each element, other ops for all of them at once.
#pragma once

#include "autograd/node.h"

namespace rl {

extern constinit thread_local bool structural_zeros;

// Whether there are gradients, and all of their elements are 0.
bool all_zero(const Var* grads, uint32_t count);
// Zeros for every edge that wants a gradient.
void give_zeros(Node* node, Pass& pass);

}  // namespace rl
