// Python arguments as C++ values, and results back.
#pragma once

#include <string>

#include "call/signature.h"
#include "ops/functions.h"
#include "tensor/objects.h"

namespace rl {

Var tensor_argument(const Signature& s, int i, PyObject* o);  // by the param's kind; null for None
Vars tensors_argument(const Signature& s, int i, PyObject* o);
int64_t int_argument(const Signature& s, int i, PyObject* o);
double float_argument(const Signature& s, int i, PyObject* o);
bool bool_argument(const Signature& s, int i, PyObject* o);
Ints ints_argument(const Signature& s, int i, PyObject* o);
DType dtype_argument(const Signature& s, int i, PyObject* o);
Device device_argument(const Signature& s, int i, PyObject* o);
std::string string_argument(const Signature& s, int i, PyObject* o);
Generator* generator_argument(const Signature& s, int i, PyObject* o);

// A Python number as a 0-d tensor that is weak in type promotion.
Var wrap_number(PyObject* o);

// Results.
inline PyObject* to_python(Var v) {
  if (!v) Py_RETURN_NONE;
  return reinterpret_cast<PyObject*>(v.release());
}
PyObject* tuple_of(const Signature& s, Var* vars,
                   size_t count);  // named when the signature says so

// _saved_dim and the like.
PyObject* attribute_value(const Ints& v);

}  // namespace rl
