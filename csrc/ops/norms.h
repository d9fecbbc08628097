// Norms as other ops call them, recorded.
#pragma once

#include "ops/op.h"

namespace rl::ops {

Var vector_norm(const Var& a, double ord, const Ints& dims, bool keepdim);

}  // namespace rl::ops
