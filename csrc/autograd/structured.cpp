#include "autograd/structured.h"

#include "tensor/objects.h"

namespace rl {

PyTypeObject* structured_type = nullptr;

namespace structured {

namespace {

// The module that defines the class, loaded where a gradient needs it first.
PyObject* home() {
  static PyObject* module = PyImport_ImportModule("rushlight._structured.gradients");
  if (!module) throw PythonError{};
  return module;
}

template <class... Args>
PyObject* ask(const char* function, const char* format, Args... args) {
  PyObject* result = PyObject_CallMethod(home(), function, format, args...);
  if (!result) throw PythonError{};
  return result;
}

Var tensor(PyObject* result) {
  if (is_tensor(result)) return Var::steal(reinterpret_cast<Tensor*>(result));
  Py_DECREF(result);
  fail_as(PyExc_TypeError, "a gradient must be a tensor");
}

PyObject* object(const Var& v) { return v ? v.object() : Py_None; }

PyObject* tuple(const Ints& sizes) {
  PyObject* result = PyTuple_New(sizes.size());
  if (!result) throw PythonError{};
  for (int i = 0; i < sizes.size(); i++) PyTuple_SET_ITEM(result, i, PyLong_FromLongLong(sizes[i]));
  return result;
}

}  // namespace

void refuse_export(const Tensor* t) {
  if (is_structured(t))
    fail_as(
        PyExc_BufferError, "a ", Py_TYPE(t)->tp_name,
        " does not export its memory, which holds none of its elements: make an ordinary tensor "
        "of it first (to_dense(), to_padded_tensor() or to_tensor(value))");
}

Var add(const Var& a, const Var& b) { return tensor(ask("add", "OO", object(a), object(b))); }
Var dense(const Var& grad) { return tensor(ask("dense", "O", object(grad))); }
Var to(const Var& grad, DType dtype) {
  return tensor(ask("to", "OO", object(grad), dtype_object(dtype)));
}
Var accumulate(const Var& old, const Var& grad, bool anew) {
  return tensor(ask("accumulate", "OOO", object(old), object(grad), anew ? Py_True : Py_False));
}
bool has_nan(const Var& grad) {
  PyObject* found = ask("has_nan", "O", object(grad));
  bool has = found == Py_True;
  Py_DECREF(found);
  return has;
}
Var rows(const Var& grad, const Var& ids, int64_t rows, int64_t padding) {
  return tensor(
      ask("rows", "OOLL", object(grad), object(ids), (long long)rows, (long long)padding));
}
Var gathered(const Var& grad, int64_t dim, const Var& index, const Ints& sizes) {
  return tensor(ask("gathered", "OLON", object(grad), (long long)dim, object(index), tuple(sizes)));
}

}  // namespace structured
}  // namespace rl
