// The Python side of Tensor.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace rl {

inline Tensor* as_tensor(PyObject* o) { return reinterpret_cast<Tensor*>(o); }
inline PyObject* new_reference(PyObject* o) {
  Py_INCREF(o);
  return o;
}

extern PyGetSetDef tensor_getset[];    // python/tensor_attributes.cpp
extern PyMethodDef tensor_methods[];   // python/tensor_methods.cpp
extern PyNumberMethods tensor_number;  // python/operators.cpp
PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op);

PyObject* get_item(PyObject* self, PyObject* key);  // python/indexing.cpp
int set_item(PyObject* self, PyObject* key, PyObject* value);

// One element as a Python number.
PyObject* element_to_python(DType dtype, const char* data);
PyObject* tensor_item(const Tensor* t);

// A new object of a class of tensors on the memory of another, outside any graph.
Tensor* on_same_memory(PyTypeObject* type, const Tensor* from);

// The same with all that `from`, which nothing else refers to, has: history, base, tangents, batch.
Tensor* moved_to(PyTypeObject* type, Var from);

int add_tensor_type(PyObject* module);

}  // namespace rl
