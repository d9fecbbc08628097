// Tensors from Python data and the other way round.
#pragma once

#include <Python.h>

#include <optional>

#include "tensor/tensor.h"

namespace rl {

// From numbers, nested sequences, arrays, buffers or tensors; always new memory.
Var tensor_from_python(PyObject* data, std::optional<DType> dtype);

// Of NumPy, which is not imported for the question.
bool is_numpy_array(PyObject* o);
bool is_numpy_scalar(PyObject* o);

extern PyBufferProcs tensor_buffer;

}  // namespace rl
