// The two ends of a vmapped region.
#pragma once

#include "tensor/tensor.h"

namespace rl::ops {

// Dimension dim of a becomes hidden, at this level.
Var add_batch_dim(const Var& a, int64_t dim, int64_t level);
// The hidden dimension of this level becomes dimension dim; where a has none, it is expanded.
Var remove_batch_dim(const Var& a, int64_t level, int64_t size, int64_t dim);

}  // namespace rl::ops
