// What reading and writing files needs of the core.
#include "kernels/cpu/crc32.h"
#include "python/objects.h"

namespace rl {

namespace {

// The CRC-32 of a buffer's bytes, continued from another: (buffer, before=0).
PyObject* checksum(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int before = 0;
  if (!PyArg_ParseTuple(args, "y*|I", &view, &before)) return nullptr;
  uint32_t result;
  Py_BEGIN_ALLOW_THREADS;
  result = cpu::crc32(view.buf, size_t(view.len), before);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(result);
}

}  // namespace

PyMethodDef files_functions[] = {
    {"_crc32", checksum, METH_VARARGS, nullptr},
    {},
};

}  // namespace rl
