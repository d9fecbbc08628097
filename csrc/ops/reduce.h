// Dimensions of a reduction.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace rl {

// A tensor read as [outer, n, inner] with n the reduced elements: row-major, maybe a copy.
struct Reduction {
  Var input;          // contiguous, reduced dimensions adjacent
  int64_t outer, n, inner;
  Ints sizes;         // of the result
  Ints kept;          // of the result with the reduced dimensions as 1
};

// dims empty or absent: all of them.
Reduction plan_reduction(const Var& input, const std::optional<Ints>& dims, bool keepdim,
                         const char* op);
// The sizes with the reduced dimensions as 1.
Ints keepdim_sizes(const Ints& sizes, const std::optional<Ints>& dims);
// The number of elements that were reduced to one.
int64_t reduced_count(const Ints& sizes, const std::optional<Ints>& dims);

}  // namespace rl
