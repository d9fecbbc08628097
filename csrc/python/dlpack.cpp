// Tensors to and from other libraries by DLPack.
#include "autograd/batch.h"
#include "autograd/structured.h"
#include "kernels/cuda/driver.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {
namespace {

// The structs of DLPack's public ABI.

struct DLDevice {
  int32_t type;
  int32_t id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
// The same from version 1.0 on.
struct DLVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLVersioned*);
  uint64_t flags;  // 1: read-only, 2: a copy
  DLTensor tensor;
};
constexpr int32_t kHostMemory = 1, kCudaMemory = 2, kPinnedMemory = 3;
enum DLCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
// Floats of eight bits have codes of their own.
constexpr uint8_t kFloat8Codes[] = {10, 12, 11, 13, 14};

DLDataType dl_type(DType d) {
  if (is_float8(d)) return {kFloat8Codes[int(d) - int(DType::E4M3FN)], 8, 1};
  DLCode code = d == DType::Bool   ? kBool
                : is_unsigned(d)   ? kUInt
                : d == DType::BF16 ? kBfloat
                : is_complex(d)    ? kComplex
                : is_floating(d)   ? kFloat
                                   : kInt;
  return {code, uint8_t(itemsize(d) * 8), 1};
}

template <class Managed>
struct Export {
  Managed managed;
  Storage* storage;
  Ints sizes, strides;
};
template <class Managed>
constexpr const char* kCapsule = "dltensor";
template <>
constexpr const char* kCapsule<DLVersioned> = "dltensor_versioned";

template <class Managed>
void drop(Managed* m) {
  PyGILState_STATE gil = PyGILState_Ensure();
  auto* held = static_cast<Export<Managed>*>(m->context);
  release(held->storage);
  delete held;
  PyGILState_Release(gil);
}

// A capsule that nobody took frees what it holds.
template <class Managed>
void drop_capsule(PyObject* c) {
  if (!PyCapsule_IsValid(c, kCapsule<Managed>)) return;
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(c, kCapsule<Managed>));
  m->deleter(m);
}

template <class Managed>
PyObject* export_tensor(PyObject* o, uint64_t flags) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) fail_as(PyExc_TypeError, "to_dlpack expects a Tensor");
    Tensor* t = as_tensor(o);
    if (requires_grad(t))
      fail_as(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
    if (t->device().type != Device::CUDA) require_plain(t, "sharing the memory");
    else if (batch_of(t)) refuse_batched("sharing the memory");
    structured::refuse_export(t);
    own_memory(t->storage);
    t->storage->exported = true;
    auto* e = new Export<Managed>{{}, retain(t->storage), t->sizes, t->strides};
    bool cuda = t->device().type == Device::CUDA;
    DLDevice device{cuda ? kCudaMemory : kHostMemory, cuda ? t->device().index : 0};
    e->managed.tensor = {t->data(),         device, t->dim(), dl_type(t->dtype), e->sizes.data(),
                         e->strides.data(), 0};
    e->managed.context = e;
    e->managed.deleter = drop<Managed>;
    if constexpr (std::is_same_v<Managed, DLVersioned>) {
      e->managed.major = 1;
      e->managed.flags = flags;
    }
    PyObject* capsule = PyCapsule_New(&e->managed, kCapsule<Managed>, drop_capsule<Managed>);
    if (!capsule) {
      e->managed.deleter(&e->managed);
      throw PythonError{};
    }
    return capsule;
  });
}

PyObject* to_dlpack(PyObject*, PyObject* o) { return export_tensor<DLManagedTensor>(o, 0); }
// _to_dlpack_versioned(tensor, whether it is a copy)
PyObject* to_dlpack_versioned(PyObject*, PyObject* args) {
  PyObject* o;
  int copied;
  if (!PyArg_ParseTuple(args, "Op", &o, &copied)) return nullptr;
  return export_tensor<DLVersioned>(o, copied ? 2 : 0);
}

void lies_on(Storage* s, int device) {
  s->device = Device{Device::CUDA, int8_t(device)};
  devices_mix = true;
}

// Frees the other library's memory when the last tensor on it goes.
template <class Managed>
PyObject* owner_of(Managed* m) {
  return PyCapsule_New(m, "used", [](PyObject* c) {
    auto* held = static_cast<Managed*>(PyCapsule_GetPointer(c, "used"));
    if (held->deleter) held->deleter(held);
  });
}

PyObject* from_dlpack(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    auto* versioned =
        PyCapsule_IsValid(capsule, "dltensor_versioned")
            ? static_cast<DLVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"))
            : nullptr;
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor"))
      fail_as(PyExc_RuntimeError,
              "from_dlpack received an invalid capsule. Note that DLTensor "
              "capsules can be consumed only once.");
    if (versioned && versioned->major > 1)
      fail_as(PyExc_BufferError, "from_dlpack: a capsule of DLPack ", versioned->major, ".",
              versioned->minor, " was given, versions up to 1 are known");
    auto* m = versioned ? nullptr
                        : static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    const DLTensor& d = versioned ? versioned->tensor : m->tensor;
    bool cuda = d.device.type == kCudaMemory && cuda::is_started() && d.device.id >= 0 &&
                d.device.id < cuda::device_count();
    if (!cuda && d.device.type != kHostMemory && d.device.type != kPinnedMemory)
      fail_as(PyExc_BufferError,
              "from_dlpack: only memory of the CPU and of CUDA devices can be imported, "
              "got device type ",
              d.device.type, " number ", d.device.id);
    int found = -1;
    for (int i = 0; i < kDTypes; i++) {
      DLDataType type = dl_type(DType(i));
      if (type.code == d.dtype.code && type.bits == d.dtype.bits && d.dtype.lanes == 1) found = i;
    }
    if (found < 0)
      fail_as(PyExc_BufferError, "from_dlpack: unsupported element type (code ", int(d.dtype.code),
              ", ", int(d.dtype.bits), " bits)");
    Ints sizes = d.ndim ? Ints(d.shape, d.ndim) : Ints();
    Ints strides = d.strides && d.ndim ? Ints(d.strides, d.ndim) : contiguous_strides(sizes);
    int64_t reach =
        element_count(sizes) ? 1 : 0;  // in elements; of an empty array there may be none
    for (int i = 0; i < d.ndim; i++) {
      if (strides[i] < 0) fail_as(PyExc_BufferError, "from_dlpack: negative strides");
      if (reach) reach += (sizes[i] - 1) * strides[i];
    }
    PyObject* owner = versioned ? owner_of(versioned) : owner_of(m);
    if (!owner) throw PythonError{};
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    char* data = static_cast<char*>(d.data) + d.byte_offset;
    Storage* s = foreign_storage(data, reach * itemsize(DType(found)), owner);
    if (cuda) lies_on(s, d.device.id);
    return reinterpret_cast<PyObject*>(wrap_storage(s, sizes, strides, 0, DType(found)).release());
  });
}

// _cuda_share(address, sizes, strides in elements, dtype, owner): memory of the device that another
// library owns.
PyObject* share_cuda(PyObject*, PyObject* args) {
  unsigned long long address;
  PyObject *sizes_given, *strides_given, *dtype, *owner;
  if (!PyArg_ParseTuple(args, "KOOOO", &address, &sizes_given, &strides_given, &dtype, &owner))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Ints sizes, strides;
    for (auto [from, to] : {std::pair{sizes_given, &sizes}, std::pair{strides_given, &strides}})
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++)
        to->push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(from, i)));
    if (PyErr_Occurred()) throw PythonError{};
    int64_t reach = element_count(sizes) ? 1 : 0;
    for (int i = 0; i < sizes.size(); i++)
      if (reach) reach += (sizes[i] - 1) * strides[i];
    DType d = dtype_value(dtype);
    Storage* s =
        foreign_storage(reinterpret_cast<void*>(address), reach * itemsize(d), Py_NewRef(owner));
    int device = cuda::chosen;
    if (address) {
      constexpr int kOrdinal = 9;
      cuda::use(device);
      cuda::ok(cuda::driver.pointer_fact(&device, kOrdinal, address), "asking where memory lies");
    }
    lies_on(s, device);
    return reinterpret_cast<PyObject*>(wrap_storage(s, sizes, strides, 0, d).release());
  });
}

}  // namespace

PyMethodDef dlpack_functions[] = {
    {"_cuda_share", share_cuda, METH_VARARGS, nullptr},
    {"_to_dlpack", to_dlpack, METH_O, nullptr},
    {"_to_dlpack_versioned", to_dlpack_versioned, METH_VARARGS, nullptr},
    {"_from_dlpack", from_dlpack, METH_O, nullptr},
    {},
};

}  // namespace rl
