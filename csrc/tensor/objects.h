// The small Python types beside Tensor: dtype, device, Size, Generator.
#pragma once

#include <Python.h>

#include "tensor/dtype.h"
#include "tensor/ints.h"
#include "tensor/storage.h"

namespace rl {

bool is_dtype(PyObject* o);
DType dtype_value(PyObject* o);   // also float, int, bool
PyObject* dtype_object(DType d);  // borrowed, one per dtype

bool is_device(PyObject* o);
Device device_value(PyObject* o);  // a device, "cuda:0" or an index; raises
PyObject* device_object(Device device);
// Raises, as torch built without the device does, for all but the CPU and meta; `op` asked for it.
void check_device(Device device, const char* op);

PyObject* size_object(const Ints& sizes);  // a Size (tuple subclass)

namespace cpu {
struct Mersenne;
}

struct Generator {
  PyObject_HEAD;
  uint64_t seed;
  uint64_t offset;
  cpu::Mersenne* mersenne;  // torch's engine, when it draws in place of the counter
};
bool is_generator(PyObject* o);
Generator* default_generator();
// The given generator, or the default one for None.
Generator* generator_value(PyObject* o);

int add_object_types(PyObject* module);

}  // namespace rl
