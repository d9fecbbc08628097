// Forward mode for Python: rushlight.autograd.forward_ad calls these.
#include "autograd/engine.h"
#include "autograd/forward.h"
#include "autograd/levels.h"
#include "python/op_object.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

PyObject* enter(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return PyLong_FromLong(enter_dual_level()); });
}
PyObject* leave(PyObject*, PyObject* level) {
  long wanted = PyLong_AsLong(level);
  if (wanted == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* {
    check(wanted >= 0, "Dual level must be a positive number.");
    check(wanted == current_dual_level(),
          "Trying to exit a forward AD level that was not the last one that was created. This is "
          "not supported.");
    exit_dual_level();
    Py_RETURN_NONE;
  });
}
PyObject* count(PyObject*, PyObject*) { return PyLong_FromLong(current_dual_level() + 1); }

void check_level(int level, const char* op) {
  check(level >= 0 && level < dual_levels, "Invalid level given to ", op, ": ", level, ", with ",
        dual_levels, " entered");
}

PyObject* make(PyObject*, PyObject* args) {
  PyObject *primal, *tangent;
  int level;
  if (!PyArg_ParseTuple(args, "O!O!i:_make_dual", &TensorType, &primal, &TensorType, &tangent,
                        &level))
    return nullptr;
  return guarded([&]() -> PyObject* {
    check_level(level, "_make_dual");
    Var dual = make_dual(Var(as_tensor(primal)), Var(as_tensor(tangent)), level);
    return reinterpret_cast<PyObject*>(dual.release());
  });
}

PyObject* unpack(PyObject*, PyObject* args) {
  PyObject* dual;
  int level;
  if (!PyArg_ParseTuple(args, "O!i:_unpack_dual", &TensorType, &dual, &level)) return nullptr;
  return guarded([&]() -> PyObject* {
    check_level(level, "_unpack_dual");
    Var t(as_tensor(dual)), primal = primal_of(t, level), tangent = full_tangent_of(t, level);
    if (tangent) tangent = writable(std::move(tangent));
    return Py_BuildValue(
        "(NN)", reinterpret_cast<PyObject*>(primal.release()),
        tangent ? reinterpret_cast<PyObject*>(tangent.release()) : new_reference(Py_None));
  });
}

PyObject* set_visible(PyObject*, PyObject* levels) {
  Levels before = modes.levels, wanted = PyLong_AsUnsignedLongLong(levels);
  if (wanted == Levels(-1) && PyErr_Occurred()) return nullptr;
  modes.levels = wanted;
  return PyLong_FromUnsignedLongLong(before);
}
PyObject* visible(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(modes.levels); }
PyObject* is_dual(PyObject*, PyObject* o) {
  return PyBool_FromLong(is_tensor(o) && levels_of(as_tensor(o)));
}

}  // namespace

PyMethodDef forward_functions[] = {
    {"_enter_dual_level", enter, METH_NOARGS, nullptr},
    {"_exit_dual_level", leave, METH_O, nullptr},
    {"_dual_level_count", count, METH_NOARGS, nullptr},
    {"_make_dual", make, METH_VARARGS, nullptr},
    {"_unpack_dual", unpack, METH_VARARGS, nullptr},
    {"_set_visible_levels", set_visible, METH_O, nullptr},
    {"_visible_levels", visible, METH_NOARGS, nullptr},
    {"_is_dual", is_dual, METH_O, nullptr},
    {},
};

}  // namespace rl
