// Norms as other ops call them, recorded.
#pragma once

#include "call/op.h"

namespace rl::ops {

Var vector_norm(const Var& a, double ord, const Ints& dims, bool keepdim);
// The sum of the singular values of the matrices in two dimensions (none: in the only two).
Var nuclear_norm(const Var& a, const std::optional<Ints>& dim, bool keepdim);

}  // namespace rl::ops
