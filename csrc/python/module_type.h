// The base of nn.Module, and the names that models give to parameters.
#pragma once

#include <Python.h>

#include <string>

#include "tensor/tensor.h"

namespace rl {

// "parameter 'encoder.weight' of Model" where a live module owns the memory of t; else empty.
std::string parameter_text(const Tensor* t);

int add_module_type(PyObject* module);

}  // namespace rl
