// vmap's levels for Python: rushlight.func calls these.
#include "autograd/batch.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

void forget_level_sets();  // autograd/batch.cpp

// Numbers are never used twice: graphs may outlive the level they were made in.
int64_t enter_vmap(int64_t size, int randomness) {
  forget_level_sets();
  static int64_t last = 0;
  vmap_levels.push_back({++last, size, VmapLevel::Randomness(randomness)});
  return last;
}

namespace {

PyObject* depth(PyObject*, PyObject*) { return PyLong_FromSize_t(vmap_levels.size()); }

// The levels of a tensor, outermost first; () for a plain one.
PyObject* levels(PyObject*, PyObject* o) {
  const Batch* batch = is_tensor(o) ? batch_of(as_tensor(o)) : nullptr;
  Py_ssize_t n = batch ? batch->levels.size() : 0;
  PyObject* all = PyTuple_New(n);
  for (Py_ssize_t i = 0; all && i < n; i++)
    PyTuple_SET_ITEM(all, i, PyLong_FromLongLong(batch->levels[int(i)]));
  return all;
}

// ((level, size), ...) of a tensor.
PyObject* sizes(PyObject*, PyObject* o) {
  const Batch* batch = is_tensor(o) ? batch_of(as_tensor(o)) : nullptr;
  Py_ssize_t n = batch ? batch->levels.size() : 0;
  PyObject* all = PyTuple_New(n);
  for (Py_ssize_t i = 0; all && i < n; i++)
    PyTuple_SET_ITEM(
        all, i,
        Py_BuildValue("(LL)", (long long)batch->levels[int(i)], (long long)batch->sizes[int(i)]));
  return all;
}
PyObject* randomness(PyObject*, PyObject* level) {
  static const char* const names[] = {"error", "same", "different"};
  long long id = PyLong_AsLongLong(level);
  if (id == -1 && PyErr_Occurred()) return nullptr;
  for (const VmapLevel& l : vmap_levels)
    if (l.id == id) return PyUnicode_FromString(names[l.randomness]);
  return PyUnicode_FromString("error");
}

}  // namespace

PyMethodDef batch_functions[] = {
    {"_vmap_depth", depth, METH_NOARGS, nullptr},
    {"_batch_levels", levels, METH_O, nullptr},
    {"_batch_sizes", sizes, METH_O, nullptr},
    {"_vmap_randomness", randomness, METH_O, nullptr},
    {},
};

}  // namespace rl
