// The profiler's events for Python: rushlight.autograd.profiler calls these.
#include <memory>

#include "autograd/profile.h"
#include "python/objects.h"
#include "python/op_object.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

PyObject* start(PyObject*, PyObject* shapes) {
  if (profile) {
    PyErr_SetString(PyExc_RuntimeError, "a profiler is already running in this thread");
    return nullptr;
  }
  profile = new Profile(PyObject_IsTrue(shapes) == 1);
  modes.profiled = true;
  Py_RETURN_NONE;
}

PyObject* place_of(const Where& where) {
  if (!where) return new_reference(Py_None);
  return Py_BuildValue("(sis)", where.file().c_str(), where.line(), where.function().c_str());
}

PyObject* shapes_of(const ProfileEvent& event) {
  PyObject* shapes = PyTuple_New(Py_ssize_t(event.shapes.size()));
  for (size_t i = 0; shapes && i < event.shapes.size(); i++) {
    PyObject* one = size_object(event.shapes[i]);
    if (!one) Py_CLEAR(shapes);
    else PyTuple_SET_ITEM(shapes, Py_ssize_t(i), one);
  }
  return shapes;
}

// (kind, name, start, end, parent, sequence, memory, place, shapes)
PyObject* row_of(const ProfileEvent& event) {
  static const char* const kinds[] = {"op", "backward", "range"};
  PyObject *place = place_of(event.where), *shapes = place ? shapes_of(event) : nullptr;
  if (!shapes) {
    Py_XDECREF(place);
    return nullptr;
  }
  return Py_BuildValue("(ssLLLKLNN)", kinds[int(event.kind)], event.name.c_str(),
                       (long long)event.start, (long long)event.end, (long long)event.parent,
                       (unsigned long long)event.sequence, (long long)event.memory, place, shapes);
}

PyObject* stop(PyObject*, PyObject*) {
  if (!profile) {
    PyErr_SetString(PyExc_RuntimeError, "no profiler is running in this thread");
    return nullptr;
  }
  std::unique_ptr<Profile> done(std::exchange(profile, nullptr));
  modes.profiled = false;
  return guarded([&]() -> PyObject* {
    done->close();
    PyObject* rows = PyList_New(0);
    for (size_t i = 0; rows && i < done->size(); i++) {
      PyObject* row = row_of((*done)[i]);
      if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
      Py_XDECREF(row);
    }
    return rows;
  });
}

// The number of the event that was begun; None without a profiler.
PyObject* begin_range(PyObject*, PyObject* name) {
  if (!modes.profiled) Py_RETURN_NONE;
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  return PyLong_FromSize_t(profile->begin(ProfileKind::Range, text));
}
PyObject* end_range(PyObject*, PyObject* event) {
  if (!modes.profiled || event == Py_None) Py_RETURN_NONE;
  size_t at = PyLong_AsSize_t(event);
  if (at == size_t(-1) && PyErr_Occurred()) return nullptr;
  if (at < profile->size()) profile->end(at);
  Py_RETURN_NONE;
}
PyObject* pause(PyObject*, PyObject* on) {
  modes.profiled = profile && PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}
PyObject* is_running(PyObject*, PyObject*) { return PyBool_FromLong(profile != nullptr); }

}  // namespace

PyMethodDef profile_functions[] = {
    {"_profile_start", start, METH_O, nullptr},
    {"_profile_stop", stop, METH_NOARGS, nullptr},
    {"_profile_begin", begin_range, METH_O, nullptr},
    {"_profile_end", end_range, METH_O, nullptr},
    {"_profile_collect", pause, METH_O, nullptr},
    {"_profile_running", is_running, METH_NOARGS, nullptr},
    {},
};

}  // namespace rl
