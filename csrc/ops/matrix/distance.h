// Distances as other ops call them, recorded.
#pragma once

#include "call/op.h"

namespace rl {

// x, but at least `low`; its derivative is that of x throughout when `straight`.
Var at_least(const Var& x, double low, bool straight = false);

// The p-norm of x1 - x2 + eps over the last dimension.
Var pairwise_distance(const Var& x1, const Var& x2, double p, double eps, bool keepdim);

}  // namespace rl
