// What reading and writing files, and sharing memory between processes, need of the core.
#include <cstring>

#include "kernels/cpu/crc32.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"
#include "tensor/storage.h"

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

// What frees the memory that a storage had before; new reference, or None where nothing must be.
PyObject* former_memory(Storage* s) {
  if (s->data == s->inline_data) Py_RETURN_NONE;
  Storage* old = new_storage(0, s->device);
  old->data = s->data;
  old->bytes = s->bytes;
  old->block = s->block;
  old->shared = s->shared;
  old->owner = s->owner;
  PyObject* capsule = storage_owner(old);
  release(old);
  return capsule;
}

// Moves a tensor's storage, with all tensors on it, to the memory of a writable buffer.
PyObject* adopt_memory(PyObject*, PyObject* args) {
  PyObject *o, *buffer;
  if (!PyArg_ParseTuple(args, "O!O", &TensorType, &o, &buffer)) return nullptr;
  return guarded([&]() -> PyObject* {
    Storage* s = as_tensor(o)->storage;
    own_memory(s);
    PyObject* view = PyMemoryView_FromObject(buffer);
    if (!view) throw PythonError{};
    const Py_buffer* b = PyMemoryView_GET_BUFFER(view);
    if (b->readonly || b->len < s->bytes || !PyBuffer_IsContiguous(b, 'C')) {
      Py_DECREF(view);
      fail_as(PyExc_ValueError, "_adopt_memory: needs a writable buffer of ", s->bytes, " bytes");
    }
    std::memcpy(b->buf, s->data, size_t(s->bytes));
    PyObject* former = former_memory(s);
    // Arrays that were given the old address keep it.
    PyObject* owner = PyTuple_Pack(2, view, s->exported ? former : Py_None);
    s->data = static_cast<char*>(b->buf);
    s->block = 0;
    s->shared = nullptr;
    s->owner = owner;
    Py_DECREF(view);
    Py_DECREF(former);
    Py_RETURN_NONE;
  });
}

}  // namespace

PyMethodDef files_functions[] = {
    {"_adopt_memory", adopt_memory, METH_VARARGS, nullptr},
    {"_crc32", checksum, METH_VARARGS, nullptr},
    {},
};

}  // namespace rl
