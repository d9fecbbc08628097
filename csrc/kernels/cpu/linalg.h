// The CPU's kernels of linear algebra (kernels/linalg.def).
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/linalg_arguments.h"

namespace rl::cpu {

#define KERNEL(Result, name, parameters) Result name parameters;
#include "kernels/linalg.def"
#undef KERNEL

}  // namespace rl::cpu
