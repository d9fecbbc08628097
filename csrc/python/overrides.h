// __torch_function__: subclasses of Tensor and modes that take calls of ops into their own hands.
#pragma once

#include "autograd/modes.h"
#include "tensor/tensor.h"

namespace rl {

// A tensor of a subclass the user made: results take its class, or its __torch_function__ decides.
inline bool is_subclass(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  return type != &TensorType && type != parameter_type && is_tensor(o);
}

// An object of another class that has a __torch_function__.
bool is_foreign_override(PyObject* o);

// The result of the innermost mode's, or else of an argument's __torch_function__, called for
// func(*args, **keywords) as a vectorcall; none without an exception when there is no such thing.
PyObject* call_override(PyObject* func, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords = nullptr);

// The same for a special method of Tensor, such as "__getitem__".
PyObject* call_override(const char* method, PyObject* const* args, Py_ssize_t count);

// A plain result as an object of the subclass that took part (steals the result).
PyObject* as_class_of(PyObject* subclass, PyObject* result);

// Modes of this thread: how many there are, one more, and no more than `count`.
Py_ssize_t function_modes();
bool push_function_mode(PyObject* mode);
void cut_function_modes(Py_ssize_t count);

extern PyMethodDef override_functions[];

}  // namespace rl
