// Recorded programs, for Python.
#include "call/recording.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

namespace {

constexpr const char* kName = "rushlight.program";

Program& program_of(PyObject* o) {
  auto* program = static_cast<Program*>(PyCapsule_GetPointer(o, kName));
  if (!program) throw PythonError{};
  return *program;
}

// What was noted so far, as an object that _replay takes: the end of a scope "recording".
PyObject* finish(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    check(recording, "recording: nothing is being recorded");
    std::unique_ptr<Program> program = the_recording()->finish();
    PyObject* capsule = PyCapsule_New(program.get(), kName, [](PyObject* c) {
      delete static_cast<Program*>(PyCapsule_GetPointer(c, kName));
    });
    if (!capsule) throw PythonError{};
    program.release();
    return capsule;
  });
}

PyObject* hold(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) fail_as(PyExc_TypeError, "expected a Tensor");
    if (recording) recording->hold(as_tensor(o));
    Py_RETURN_NONE;
  });
}

PyObject* replay(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    program_of(o).replay();
    Py_RETURN_NONE;
  });
}

PyObject* text(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    std::string all = program_of(o).text();
    return PyUnicode_FromStringAndSize(all.data(), Py_ssize_t(all.size()));
  });
}

}  // namespace

PyMethodDef recording_functions[] = {
    {"_finish_recording", finish, METH_NOARGS, "The program of what was noted."},
    {"_hold", hold, METH_O, "Makes a tensor a part of the region."},
    {"_replay", replay, METH_O, "Runs a program again."},
    {"_program_text", text, METH_O, "A program, a call in each line."},
    {},
};

}  // namespace rl
