#include "tensor/objects.h"

#include "kernels/cuda/driver.h"
#include "kernels/kernels.h"

#include <cstring>
#include <iterator>
#include <vector>

#include "tensor/error.h"
#include "tensor/tensor.h"

namespace rl {

namespace {

// Runs f, turning C++ exceptions into Python ones.
template <class F>
auto guarded(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    PyErr_SetString(e.type, e.text.c_str());
  } catch (const PythonError&) {}
  return nullptr;
}

// ---- dtype

struct DTypeObject {
  PyObject_HEAD;
  DType value;
};

PyObject* dtype_objects[kDTypes];

DType value_of(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->value; }

PyObject* dtype_repr(PyObject* o) { return PyUnicode_FromFormat("torch.%s", name(value_of(o))); }
PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(name(value_of(o))); }
PyObject* dtype_to_real(PyObject* o, PyObject*) {
  PyObject* r = dtype_object(real_of(value_of(o)));
  Py_INCREF(r);
  return r;
}
PyObject* dtype_to_complex(PyObject* o, PyObject*) {
  return guarded([&] { return Py_NewRef(dtype_object(complex_of(value_of(o)))); });
}
PyObject* dtype_is_floating(PyObject* o, void*) {
  return PyBool_FromLong(is_floating(value_of(o)));
}
PyObject* dtype_is_complex(PyObject* o, void*) { return PyBool_FromLong(is_complex(value_of(o))); }
PyObject* dtype_is_signed(PyObject* o, void*) {
  DType d = value_of(o);
  return PyBool_FromLong(!is_unsigned(d) && d != DType::E8M0FNU);
}
PyObject* dtype_itemsize(PyObject* o, void*) {
  return PyLong_FromLong(long(itemsize(value_of(o))));
}
PyObject* dtype_name(PyObject* o, void*) { return PyUnicode_FromString(name(value_of(o))); }

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The real type of the same precision."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type of the same precision."},
    {},
};
PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_floating, nullptr, "Whether it is a real floating type.",
     nullptr},
    {"is_complex", dtype_is_complex, nullptr, "Whether it is a complex type.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "Whether it holds negative numbers.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {"name", dtype_name, nullptr, "The bare name, e.g. 'float32'.", nullptr},
    {},
};

PyTypeObject DTypeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- device

struct DeviceObject {
  PyObject_HEAD;
  Device value;
};

PyTypeObject DeviceType = {PyVarObject_HEAD_INIT(nullptr, 0)};

Device parse_device(const char* text) {
  const char* colon = std::strchr(text, ':');
  size_t length = colon ? size_t(colon - text) : std::strlen(text);
  Device d;
  bool known = false;
  for (int i = 0; i < int(std::size(kDeviceNames)); i++)
    if (std::strlen(kDeviceNames[i]) == length &&
        std::strncmp(text, kDeviceNames[i], length) == 0) {
      d.type = Device::Type(i);
      known = true;
    }
  if (!known)
    fail(
        "Expected one of cpu, cuda, meta, mps, xpu, xla, hip device type at start of device "
        "string: ",
        text);
  if (colon) {
    char* end;
    long index = std::strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || index < 0 || index > 127)
      fail("Invalid device string: '", text, "'");
    d.index = int8_t(index);
  }
  return d;
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"type", "index", nullptr};
  PyObject* type;
  int index = -1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", const_cast<char**>(keywords), &type,
                                   &index))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Device d = device_value(type);
    if (index >= 0) {
      check(d.index < 0,
            "type (string) must not include an index because index was passed "
            "explicitly: ",
            kDeviceNames[d.type], ":", int(d.index));
      d.index = int8_t(index);
    }
    return device_object(d);
  });
}
PyObject* device_str(PyObject* o) {
  Device d = reinterpret_cast<DeviceObject*>(o)->value;
  return d.index < 0 ? PyUnicode_FromString(kDeviceNames[d.type])
                     : PyUnicode_FromFormat("%s:%d", kDeviceNames[d.type], int(d.index));
}
PyObject* device_repr(PyObject* o) {
  Device d = reinterpret_cast<DeviceObject*>(o)->value;
  return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", kDeviceNames[d.type])
                     : PyUnicode_FromFormat("device(type='%s', index=%d)", kDeviceNames[d.type],
                                            int(d.index));
}
PyObject* device_type(PyObject* o, void*) {
  return PyUnicode_FromString(kDeviceNames[reinterpret_cast<DeviceObject*>(o)->value.type]);
}
PyObject* device_index(PyObject* o, void*) {
  int i = reinterpret_cast<DeviceObject*>(o)->value.index;
  if (i < 0) Py_RETURN_NONE;
  return PyLong_FromLong(i);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (!is_device(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  bool same =
      reinterpret_cast<DeviceObject*>(a)->value == reinterpret_cast<DeviceObject*>(b)->value;
  return PyBool_FromLong(same == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* o) {
  Device d = reinterpret_cast<DeviceObject*>(o)->value;
  return d.type * 131 + d.index + 2;
}
PyObject* device_reduce(PyObject* o, PyObject*) {
  PyObject* text = device_str(o);
  return text ? Py_BuildValue("O(N)", &DeviceType, text) : nullptr;
}
// `with device:` makes it the place of new tensors. Blocks that the thread is in, outermost first.
thread_local std::vector<Device> outer_devices;
PyObject* device_enter(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Device d = reinterpret_cast<DeviceObject*>(o)->value;
    ready_device(d, "device");
    outer_devices.push_back(default_device());
    set_default_device(d);
    Py_INCREF(o);
    return o;
  });
}
PyObject* device_exit(PyObject*, PyObject*) {
  if (!outer_devices.empty()) {
    set_default_device(outer_devices.back());
    outer_devices.pop_back();
  }
  Py_RETURN_NONE;
}
// As a decorator: calls of the function are such blocks.
PyObject* device_call(PyObject* o, PyObject* args, PyObject*) {
  PyObject* function;
  if (!PyArg_ParseTuple(args, "O:device", &function)) return nullptr;
  PyObject* scopes = PyImport_ImportModule("rushlight._settings");
  PyObject* made =
      scopes ? PyObject_CallMethod(scopes, "_under_device", "OO", o, function) : nullptr;
  Py_XDECREF(scopes);
  return made;
}
PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, nullptr},
    {"__enter__", device_enter, METH_NOARGS, "New tensors lie here, for a block."},
    {"__exit__", device_exit, METH_VARARGS, nullptr},
    {},
};
PyGetSetDef device_getset[] = {
    {"type", device_type, nullptr, "'cpu', 'cuda' or 'meta'.", nullptr},
    {"index", device_index, nullptr, "Which one, or None.", nullptr},
    {},
};

// ---- Size

PyTypeObject SizeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// Sizes hold ints; what can stand for one, such as a tensor, becomes one.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* size = PyTuple_Type.tp_new(type, args, kwargs);
  for (Py_ssize_t i = 0; size && i < PyTuple_GET_SIZE(size); i++) {
    PyObject* item = PyTuple_GET_ITEM(size, i);
    if (PyLong_Check(item)) continue;
    PyObject* index = PyIndex_Check(item) ? PyNumber_Index(item) : nullptr;
    if (!index) {
      PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                   Py_TYPE(item)->tp_name);
      Py_CLEAR(size);
      break;
    }
    PyTuple_SET_ITEM(size, i, index);  // the tuple is new: nobody has seen the item
    Py_DECREF(item);
  }
  return size;
}

PyObject* size_repr(PyObject* o) {
  PyObject* list = PySequence_List(o);
  PyObject* text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : nullptr;
  Py_XDECREF(list);
  return text;
}
PyObject* size_numel(PyObject* o, PyObject*) {
  long long n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
    n *= PyLong_AsLongLong(PyTuple_GET_ITEM(o, i));
  return PyErr_Occurred() ? nullptr : PyLong_FromLongLong(n);
}
// Slices and sums of sizes are sizes.
PyObject* as_size(PyObject* result) {
  if (!result || Py_TYPE(result) != &PyTuple_Type) return result;
  PyObject* size = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&SizeType), result);
  Py_DECREF(result);
  return size;
}
PyObject* size_subscript(PyObject* o, PyObject* key) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(o, key));
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_reduce(PyObject* o, PyObject*) {
  PyObject* plain = PyList_AsTuple(PySequence_List(o));
  return plain ? Py_BuildValue("O(N)", &SizeType, plain) : nullptr;
}
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this shape."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {},
};
PyMappingMethods size_mapping;
PySequenceMethods size_sequence;

int ready(PyObject* module, PyTypeObject& type, const char* short_name) {
  if (PyType_Ready(&type) < 0) return -1;
  Py_INCREF(&type);
  return PyModule_AddObject(module, short_name, reinterpret_cast<PyObject*>(&type));
}

}  // namespace

bool is_dtype(PyObject* o) { return Py_TYPE(o) == &DTypeType; }

DType dtype_value(PyObject* o) {
  if (is_dtype(o)) return value_of(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::F64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::I64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  fail_as(PyExc_TypeError, "expected a torch.dtype, got ", Py_TYPE(o)->tp_name);
}

PyObject* dtype_object(DType d) { return dtype_objects[int(d)]; }

bool is_device(PyObject* o) { return Py_TYPE(o) == &DeviceType; }

Device device_value(PyObject* o) {
  if (is_device(o)) return reinterpret_cast<DeviceObject*>(o)->value;
  if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);
    if (!text) throw PythonError{};
    return parse_device(text);
  }
  if (PyLong_Check(o)) {
    long index = PyLong_AsLong(o);
    if (index < 0 || index > 127) {
      PyErr_Clear();
      fail("Device index must lie in [0, 127]");
    }
    return {Device::CUDA, int8_t(index)};
  }
  fail_as(PyExc_TypeError, "expected a device, got ", Py_TYPE(o)->tp_name);
}

namespace {

// Why there is no CUDA device; empty when it is ready.
std::string start_cuda() {
  PyObject* module = PyImport_ImportModule("rushlight.cuda._start");
  PyObject* why = module ? PyObject_CallMethod(module, "start", nullptr) : nullptr;
  Py_XDECREF(module);
  if (!why) throw PythonError{};
  std::string text = why == Py_None ? "" : PyUnicode_AsUTF8(why);
  Py_DECREF(why);
  return text;
}

}  // namespace

Device ready_device(Device d, const char* op) {
  if (d.type == Device::CPU || d.type == Device::Meta) return d;
  std::string why = "rushlight computes on the CPU and on CUDA devices";
  if (d.type == Device::CUDA) {
    if (!kernel_tables[Device::CUDA]) why = start_cuda();
    if (kernel_tables[Device::CUDA]) {
      if (d.index < 0) d.index = int8_t(cuda::chosen);
      cuda::check_device(d.index);
      return d;
    }
  }
  const char* kind = kDeviceNames[d.type];
  const char* advice = "say device='cpu', or ask is_available()";
  if (d.type == Device::CUDA || d.type == Device::XPU)
    fail_as(PyExc_AssertionError, op, "(): Torch not compiled with ",
            d.type == Device::CUDA ? "CUDA" : "XPU", " enabled, and device '", kind,
            "' was asked for: ", why, "; ", advice);
  fail_as(PyExc_NotImplementedError, op, "(): Could not run on the '", kind, "' backend: ", why,
          "; ", advice);
}

PyObject* device_object(Device d) {
  auto* o = PyObject_New(DeviceObject, &DeviceType);
  if (!o) throw PythonError{};
  o->value = d;
  return reinterpret_cast<PyObject*>(o);
}

PyObject* size_object(const Ints& sizes) {
  PyObject* o = SizeType.tp_alloc(&SizeType, sizes.size());
  if (!o) throw PythonError{};
  for (int i = 0; i < sizes.size(); i++) PyTuple_SET_ITEM(o, i, PyLong_FromLongLong(sizes[i]));
  return o;
}

int add_generator_type(PyObject* module);

int add_object_types(PyObject* module) {
  DTypeType.tp_name = "rushlight.dtype";
  DTypeType.tp_basicsize = sizeof(DTypeObject);
  DTypeType.tp_flags = Py_TPFLAGS_DEFAULT;
  DTypeType.tp_doc =
      "The type of a tensor's elements.\n\n"
      ">>> torch.ones(2).dtype\n"
      "torch.float32\n"
      ">>> torch.int16.itemsize, torch.int16.is_floating_point\n"
      "(2, False)";
  DTypeType.tp_repr = dtype_repr;
  DTypeType.tp_methods = dtype_methods;
  DTypeType.tp_getset = dtype_getset;
  if (ready(module, DTypeType, "dtype") < 0) return -1;
  for (int i = 0; i < kDTypes; i++) {
    auto* o = PyObject_New(DTypeObject, &DTypeType);
    if (!o) return -1;
    o->value = DType(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(o);
    Py_INCREF(o);
    if (PyModule_AddObject(module, name(DType(i)), dtype_objects[i]) < 0) return -1;
  }

  DeviceType.tp_name = "rushlight.device";
  DeviceType.tp_basicsize = sizeof(DeviceObject);
  DeviceType.tp_flags = Py_TPFLAGS_DEFAULT;
  DeviceType.tp_doc =
      "device(type, index=None): where a tensor's memory lies.\n\n"
      ">>> torch.device(\"cpu\")\n"
      "device(type='cpu')\n"
      ">>> torch.ones(2).device == torch.device(\"cpu\")\n"
      "True";
  DeviceType.tp_new = device_new;
  DeviceType.tp_repr = device_repr;
  DeviceType.tp_str = device_str;
  DeviceType.tp_richcompare = device_compare;
  DeviceType.tp_hash = device_hash;
  DeviceType.tp_call = device_call;
  DeviceType.tp_methods = device_methods;
  DeviceType.tp_getset = device_getset;
  if (ready(module, DeviceType, "device") < 0) return -1;

  size_mapping.mp_subscript = size_subscript;
  size_sequence.sq_concat = size_concat;
  SizeType.tp_name = "rushlight.Size";
  SizeType.tp_base = &PyTuple_Type;
  SizeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  SizeType.tp_doc =
      "The shape of a tensor: a tuple of ints.\n\n"
      ">>> size = torch.ones(2, 3).shape\n"
      ">>> size\n"
      "torch.Size([2, 3])\n"
      ">>> size.numel()\n"
      "6";
  SizeType.tp_new = size_new;
  SizeType.tp_repr = size_repr;
  SizeType.tp_methods = size_methods;
  SizeType.tp_as_mapping = &size_mapping;
  SizeType.tp_as_sequence = &size_sequence;
  if (ready(module, SizeType, "Size") < 0) return -1;

  return add_generator_type(module);
}

}  // namespace rl
