// Dimensions of a reduction.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace rl {

// A tensor read as [outer, n, inner] with n the reduced elements: row-major, maybe a copy.
struct Reduction {
  Var input;  // contiguous, reduced dimensions adjacent
  int64_t outer, n, inner;
  Ints sizes;  // of the result
  Ints kept;   // of the result with the reduced dimensions as 1
};

// dims empty or absent: all of them.
Reduction plan_reduction(const Var& input, const std::optional<Ints>& dims, bool keepdim,
                         const char* op);
// The sizes with the reduced dimensions as 1.
Ints keepdim_sizes(const Ints& sizes, const std::optional<Ints>& dims);
// The number of elements that were reduced to one.
int64_t reduced_count(const Ints& sizes, const std::optional<Ints>& dims);
// The result of a reduction over `sizes` (or its gradient) with the reduced dimensions as 1.
Var restore_dims(const Var& g, const Ints& sizes, const std::optional<Ints>& dims, bool keepdim);
// The gradient of what was picked along dim at `index`: zeros of these sizes with g added there.
// keepdim: g and index have the dimension.
Var put_back(const Var& g, const Var& index, const Ints& sizes, int64_t dim, bool keepdim);
// The other way: what x has at `index`.
Var pick_out(const Var& x, const Var& index, int64_t dim, bool keepdim);

namespace ops {
Var amax(const Var& a, const Ints& dims, bool keepdim);
Var amin(const Var& a, const Ints& dims, bool keepdim);
}  // namespace ops

}  // namespace rl
