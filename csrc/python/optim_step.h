// One step of an optimizer over all parameters of all groups.
#pragma once

#include "python/optim_options.h"

namespace rl {

// Reads the groups and the state as Python sees them, checks everything, then writes. False, and
// nothing done, when a parameter needs the formula in Python: it has a tangent or a class of its own.
bool run_optimizer_step(const Rule& rule, PyObject* groups, PyObject* state);

// What a slot holds before the first step.
Var fresh_slot(const Rule& rule, const Hyper& hyper, int slot, const Tensor* param);

}  // namespace rl
