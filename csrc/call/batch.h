// The two ends of a vmapped region.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace rl::ops {

// Dimension dim of a becomes hidden, at this level.
Var add_batch_dim(const Var& a, int64_t dim, int64_t level);
// The hidden dimension of this level becomes dimension dim; where a has none, it is expanded.
Var remove_batch_dim(const Var& a, int64_t level, int64_t size, int64_t dim);

// What the n-th of `size` samples at a level sees of a, and samples put together again.
Var one_sample(const Var& a, int64_t level, int64_t size, int64_t n);
Var as_samples(const std::vector<Var>& samples, int64_t level);

}  // namespace rl::ops
