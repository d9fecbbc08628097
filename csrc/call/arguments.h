// Python arguments as C++ values, and results back.
#pragma once

#include <array>
#include <optional>
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

// A Python number as a 0-d tensor that is weak in type promotion.
Var wrap_number(PyObject* o);

template <class T>
struct Argument;

#define RL_ARGUMENT(T, function)                                                       \
  template <>                                                                          \
  struct Argument<T> {                                                                 \
    static T get(const Signature& s, int i, PyObject* o) { return function(s, i, o); } \
  };
RL_ARGUMENT(Var, tensor_argument)
RL_ARGUMENT(Vars, tensors_argument)
RL_ARGUMENT(int64_t, int_argument)
RL_ARGUMENT(double, float_argument)
RL_ARGUMENT(bool, bool_argument)
RL_ARGUMENT(Ints, ints_argument)
RL_ARGUMENT(DType, dtype_argument)
RL_ARGUMENT(Device, device_argument)
RL_ARGUMENT(std::string, string_argument)
#undef RL_ARGUMENT
template <class T>
struct Argument<std::optional<T>> {
  static std::optional<T> get(const Signature& s, int i, PyObject* o) {
    if (o == Py_None) return std::nullopt;
    return Argument<T>::get(s, i, o);
  }
};
template <>
struct Argument<Generator*> {
  static Generator* get(const Signature& s, int i, PyObject* o) {
    if (o != Py_None && !is_generator(o)) fail_type(s, s.params()[size_t(i)], o);
    return generator_value(o);
  }
};
template <>
struct Argument<PyObject*> {
  static PyObject* get(const Signature&, int, PyObject* o) { return o; }
};

// Results.
inline PyObject* to_python(const Signature&, Var v) {
  if (!v) Py_RETURN_NONE;
  return reinterpret_cast<PyObject*>(v.release());
}
PyObject* tuple_of(const Signature& s, Var* vars,
                   size_t count);  // named when the signature says so
inline PyObject* to_python(const Signature& s, Vars vars) {
  return tuple_of(s, vars.data(), vars.size());
}
template <size_t N>
PyObject* to_python(const Signature& s, std::array<Var, N> vars) {
  return tuple_of(s, vars.data(), N);
}
inline PyObject* to_python(const Signature&, bool b) { return PyBool_FromLong(b); }

// _saved_dim and the like.
inline PyObject* attribute_value(int64_t v) { return PyLong_FromLongLong(v); }
inline PyObject* attribute_value(double v) { return PyFloat_FromDouble(v); }
inline PyObject* attribute_value(bool v) { return PyBool_FromLong(v); }
inline PyObject* attribute_value(const std::string& v) { return PyUnicode_FromString(v.c_str()); }
PyObject* attribute_value(const Ints& v);
inline PyObject* attribute_value(DType v) {
  PyObject* o = dtype_object(v);
  Py_INCREF(o);
  return o;
}
template <class T>
PyObject* attribute_value(const std::optional<T>& v) {
  if (!v) Py_RETURN_NONE;
  return attribute_value(*v);
}
template <class T>
PyObject* attribute_value(const T&) {
  return nullptr;
}

}  // namespace rl
