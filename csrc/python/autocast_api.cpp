// The state of mixed precision for Python: rushlight.amp calls these.
#include "autograd/autocast_devices.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

namespace {

PyObject* is_enabled(PyObject*, PyObject*) {
  follow_context();
  return PyBool_FromLong(modes.autocast && device_autocast.host);
}
PyObject* set_enabled(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  ModeChange change;
  set_autocast_host(value);
  return change.keep() ? Py_NewRef(Py_None) : nullptr;
}
PyObject* get_dtype(PyObject*, PyObject*) {
  follow_context();
  return new_reference(dtype_object(autocast_state.dtype));
}
PyObject* set_dtype(PyObject*, PyObject* dtype) {
  return guarded([&]() -> PyObject* {
    DType value = dtype_value(dtype);
    check(is_floating(value), "autocast: the dtype must be a floating-point one, got torch.",
          name(value));
    ModeChange change;
    autocast_state.dtype = value;
    return change.keep() ? Py_NewRef(Py_None) : nullptr;
  });
}
// (enabled, dtype) of CUDA's ops.
PyObject* get_cuda(PyObject*, PyObject*) {
  follow_context();
  return Py_BuildValue("NN", PyBool_FromLong(modes.autocast && device_autocast.cuda),
                       new_reference(dtype_object(device_autocast.cuda_dtype)));
}
PyObject* set_cuda(PyObject*, PyObject* args) {
  int enabled;
  PyObject* dtype;
  if (!PyArg_ParseTuple(args, "pO", &enabled, &dtype)) return nullptr;
  return guarded([&]() -> PyObject* {
    DType value = dtype_value(dtype);
    ModeChange change;
    set_autocast_cuda(enabled, value);
    return change.keep() ? Py_NewRef(Py_None) : nullptr;
  });
}
PyObject* is_cached(PyObject*, PyObject*) {
  follow_context();
  return PyBool_FromLong(autocast_state.cache);
}
PyObject* set_cached(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  ModeChange change;
  autocast_state.cache = value;
  return change.keep() ? Py_NewRef(Py_None) : nullptr;
}
PyObject* clear_cache(PyObject*, PyObject*) {
  clear_autocast_cache();
  Py_RETURN_NONE;
}
PyObject* enter(PyObject*, PyObject*) { return PyLong_FromLong(++autocast_state.nesting); }
PyObject* leave(PyObject*, PyObject*) { return PyLong_FromLong(--autocast_state.nesting); }

}  // namespace

PyMethodDef autocast_functions[] = {
    {"_is_autocast", is_enabled, METH_NOARGS, nullptr},
    {"_set_autocast", set_enabled, METH_O, nullptr},
    {"_autocast_dtype", get_dtype, METH_NOARGS, nullptr},
    {"_set_autocast_dtype", set_dtype, METH_O, nullptr},
    {"_autocast_cuda", get_cuda, METH_NOARGS, nullptr},
    {"_set_autocast_cuda", set_cuda, METH_VARARGS, nullptr},
    {"_is_autocast_cached", is_cached, METH_NOARGS, nullptr},
    {"_set_autocast_cached", set_cached, METH_O, nullptr},
    {"_clear_autocast_cache", clear_cache, METH_NOARGS, nullptr},
    {"_enter_autocast", enter, METH_NOARGS, nullptr},
    {"_leave_autocast", leave, METH_NOARGS, nullptr},
    {},
};

}  // namespace rl
