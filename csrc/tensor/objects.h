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
// The device with its number, ready for tensors. Raises, as torch built without it does, where there
// is none; `op` asked for it.
Device ready_device(Device device, const char* op);

PyObject* size_object(const Ints& sizes);  // a Size (tuple subclass)

namespace cpu {
struct Mersenne;
}

struct Generator {
  PyObject_HEAD;
  uint64_t seed;
  uint64_t offset;
  cpu::Mersenne* mersenne;  // torch's engine, when it draws in place of the counter
  Device device;            // of the tensors that it fills; a counter on all but the CPU
};
bool is_generator(PyObject* o);
Generator* default_generator();
// The one to fill a tensor of this device with: `given`, unless it is the default of the CPU.
Generator* generator_on(Device device, Generator* given);
// The given generator, or the default one for None.
Generator* generator_value(PyObject* o);

int add_object_types(PyObject* module);

}  // namespace rl
