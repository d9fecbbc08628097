// Scans that derivatives are made of.
#pragma once

#include "tensor/tensor.h"

namespace rl {

// y[k] = b[k] + links[k-1] * y[k-1] along dim; in reverse y[k] = b[k] + links[k] * y[k+1]. links
// has one element less along dim.
Var linear_recurrence(const Var& links, const Var& b, int64_t dim, bool reverse);
// The products of all elements before (in reverse: behind) each one along dim. Right, with all its
// derivatives, wherever the zeros are.
Var exclusive_products(const Var& x, int64_t dim, bool reverse);

}  // namespace rl
