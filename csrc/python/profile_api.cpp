// The profiler's events for Python: rushlight.autograd.profiler calls these.
#include <memory>

#include "autograd/profile.h"
#include "autograd/profile_stack.h"
#include "python/op_object.h"
#include "python/profile_api.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

namespace {

// Which of the thread's profilers runs: numbers of events do not outlive theirs.
thread_local uint64_t serial = 0;
constexpr int kEventBits = 40;

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

// The frames of the event, innermost first; None where they were not asked for.
PyObject* frames_of(size_t at) {
  if (at >= profile_stacks.of.size()) return new_reference(Py_None);
  const std::vector<Where>& frames = profile_stacks.of[at];
  PyObject* all = PyTuple_New(Py_ssize_t(frames.size()));
  for (size_t i = 0; all && i < frames.size(); i++) {
    PyObject* one = place_of(frames[i]);
    if (!one) Py_CLEAR(all);
    else PyTuple_SET_ITEM(all, Py_ssize_t(i), one);
  }
  return all;
}

// (kind, name, start, end, parent, sequence, memory, place, shapes, frames)
PyObject* row_of(const ProfileEvent& event, size_t at) {
  static const char* const kinds[] = {"op", "backward", "range"};
  PyObject *place = place_of(event.where), *shapes = shapes_of(event), *frames = frames_of(at);
  if (!place || !shapes || !frames) {
    Py_XDECREF(place);
    Py_XDECREF(shapes);
    Py_XDECREF(frames);
    return nullptr;
  }
  return Py_BuildValue("(ssLLLKLNNN)", kinds[int(event.kind)], event.name.c_str(),
                       (long long)event.start, (long long)event.end, (long long)event.parent,
                       (unsigned long long)event.sequence, (long long)event.memory, place, shapes,
                       frames);
}

// Rows (time, block, bytes, event): bytes are negative where the block is given back.
bool add_memory(PyObject* list, const std::vector<MemoryEvent>& memory) {
  PyObject* rows = PyList_New(0);
  for (const MemoryEvent& e : memory) {
    PyObject* row = rows ? Py_BuildValue("(LKLL)", (long long)e.time, (unsigned long long)e.block,
                                         (long long)e.bytes, (long long)e.event)
                         : nullptr;
    if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
    Py_XDECREF(row);
  }
  bool fine = rows && PyList_Append(list, rows) == 0;
  Py_XDECREF(rows);
  return fine;
}

}  // namespace

bool start_profile(bool shapes, bool stacks, bool memory) {
  if (profile) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Profiler is already enabled on this thread. Leave the block of the other "
                    "profiler first: profilers do not nest.");
    return false;
  }
  profile = new Profile(shapes, memory);
  profile_stacks.wanted = stacks;
  modes.profiled = true;
  serial++;
  return true;
}

PyObject* stop_profile(PyObject* blocks) {
  if (!profile) {
    PyErr_SetString(PyExc_RuntimeError,
                    "no profiler is running in this thread: it must be stopped in the thread that "
                    "started it");
    return nullptr;
  }
  std::unique_ptr<Profile> done(std::exchange(profile, nullptr));
  modes.profiled = false;
  if (block_watcher == done.get()) block_watcher = nullptr;
  if (blocks && !add_memory(blocks, done->memory())) return nullptr;
  return guarded([&]() -> PyObject* {
    done->close();
    PyObject* rows = PyList_New(0);
    for (size_t i = 0; rows && i < done->size(); i++) {
      PyObject* row = row_of((*done)[i], i);
      if (!row || PyList_Append(rows, row) < 0) Py_CLEAR(rows);
      Py_XDECREF(row);
    }
    return rows;
  });
}

// The number of the event that was begun; None without a profiler.
PyObject* begin_profile_range(PyObject* name) {
  if (!modes.profiled) Py_RETURN_NONE;
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  return PyLong_FromUnsignedLongLong(serial << kEventBits |
                                     profile->begin(ProfileKind::Range, text));
}
PyObject* end_profile_range(PyObject* event) {
  if (!profile || event == Py_None) Py_RETURN_NONE;
  uint64_t number = PyLong_AsUnsignedLongLong(event);
  if (number == uint64_t(-1) && PyErr_Occurred()) return nullptr;
  uint64_t at = number & ((uint64_t(1) << kEventBits) - 1);
  if (number >> kEventBits == serial && at < profile->size()) profile->end(at);
  Py_RETURN_NONE;
}

namespace {

PyObject* begin_range(PyObject*, PyObject* name) { return begin_profile_range(name); }
PyObject* end_range(PyObject*, PyObject* event) { return end_profile_range(event); }
// _profile_collect(on)
PyObject* collect(PyObject*, PyObject* on) {
  modes.profiled = profile && PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}
PyObject* is_running(PyObject*, PyObject*) { return PyBool_FromLong(profile != nullptr); }

}  // namespace

PyMethodDef profile_functions[] = {
    {"_profile_begin", begin_range, METH_O, nullptr},
    {"_profile_end", end_range, METH_O, nullptr},
    {"_profile_collect", collect, METH_O, nullptr},
    {"_profile_running", is_running, METH_NOARGS, nullptr},
    {},
};

}  // namespace rl
