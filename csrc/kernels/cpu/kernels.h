// The kernels of the CPU (kernels/table.def).
#pragma once

#include "kernels/arguments.h"

namespace rl::cpu {

using namespace kernel;

#define KERNEL(Result, name, parameters) Result name parameters;
#include "kernels/table.def"
#undef KERNEL

}  // namespace rl::cpu
