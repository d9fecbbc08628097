#include "python/interop.h"

#include <cstring>

#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/node.h"
#include "autograd/structured.h"
#include "call/arguments.h"
#include "call/broadcast.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {
namespace {

// ---- buffers

struct Format {
  const char* code;
  DType dtype;
};
constexpr Format kFormats[] = {
    {"?", DType::Bool}, {"B", DType::U8},  {"b", DType::I8},   {"h", DType::I16},
    {"i", DType::I32},  {"q", DType::I64}, {"l", DType::I64},  {"e", DType::F16},
    {"f", DType::F32},  {"d", DType::F64}, {"Zf", DType::C64}, {"Zd", DType::C128},
    {"H", DType::U16},  {"I", DType::U32}, {"Q", DType::U64},  {"L", DType::U64}};

const char* format_of(DType d) {
  for (const Format& f : kFormats)
    if (f.dtype == d) return f.code;
  return nullptr;
}

// The dtype of a buffer, or -1.
int dtype_of_buffer(const Py_buffer& b) {
  const char* code = b.format ? b.format : "B";
  if (*code == '@' || *code == '=' || *code == '<') code++;
  for (const Format& f : kFormats)
    if (std::strcmp(f.code, code) == 0 && itemsize(f.dtype) == b.itemsize) return int(f.dtype);
  return -1;
}

int get_buffer(PyObject* o, Py_buffer* view, int flags) {
  Tensor* t = as_tensor(o);
  const char* format = format_of(t->dtype);
  if (!format || requires_grad(t)) {
    PyErr_Format(PyExc_BufferError,
                 requires_grad(t)
                     ? "a tensor that requires grad does not export its memory; use detach()"
                     : "a %s tensor does not export its memory",
                 name(t->dtype));
    return -1;
  }
  if (!t->contiguous && !(flags & PyBUF_STRIDES)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
    return -1;
  }
  return guarded_int([&] {
    require_plain(t, "sharing the memory");
    structured::refuse_export(t);
    own_memory(t->storage);
    t->storage->exported = true;
    int n = t->dim();
    auto* shape = static_cast<Py_ssize_t*>(PyMem_Malloc(sizeof(Py_ssize_t) * size_t(2 * n + 2)));
    if (!shape) throw std::bad_alloc();
    for (int i = 0; i < n; i++) {
      shape[i] = t->sizes[i];
      shape[n + i] = t->strides[i] * itemsize(t->dtype);
    }
    // The storage stays alive even when the tensor is given another one.
    view->internal = new std::pair<Storage*, Py_ssize_t*>(retain(t->storage), shape);
    view->buf = t->data();
    view->obj = new_reference(o);
    view->len = t->numel * itemsize(t->dtype);
    view->itemsize = itemsize(t->dtype);
    // In strict mode nobody outside may write what a graph relies on.
    view->readonly = saved_hooks.strict && t->storage->saved;
    view->ndim = n;
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = flags & PyBUF_ND ? shape : nullptr;
    view->strides = flags & PyBUF_STRIDES ? shape + n : nullptr;
    view->suboffsets = nullptr;
    return 0;
  });
}

void release_buffer(PyObject*, Py_buffer* view) {
  auto* held = static_cast<std::pair<Storage*, Py_ssize_t*>*>(view->internal);
  release(held->first);
  PyMem_Free(held->second);
  delete held;
}

PyObject* buffer_owner(Py_buffer* b) {
  PyObject* capsule = PyCapsule_New(b, "buffer", [](PyObject* c) {
    auto* held = static_cast<Py_buffer*>(PyCapsule_GetPointer(c, "buffer"));
    PyBuffer_Release(held);
    delete held;
  });
  if (!capsule) throw PythonError{};
  return capsule;
}

// A tensor on the memory of a buffer.
Var share_buffer(PyObject* o) {
  auto* b = new Py_buffer;
  if (PyObject_GetBuffer(o, b, PyBUF_FULL_RO) < 0) {
    delete b;
    throw PythonError{};
  }
  PyObject* owner = buffer_owner(b);
  auto refuse = [&](auto... parts) {
    Py_DECREF(owner);
    fail_as(PyExc_TypeError, parts...);
  };
  int d = dtype_of_buffer(*b);
  if (d < 0)
    refuse("can't convert an array of format '", b->format ? b->format : "?",
           "' to a tensor. The supported types are: float64, float32, float16, complex64, "
           "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.");
  DType dtype = DType(d);
  int64_t size = itemsize(dtype);
  Ints sizes(b->ndim), strides(b->ndim);
  int64_t reach = b->len > 0 ? 1 : 0;  // in elements; of an empty array there may be none
  for (int i = 0; i < b->ndim; i++) {
    sizes[i] = b->shape[i];
    int64_t step = b->strides[i];
    if (step < 0) {
      Py_DECREF(owner);
      fail_as(PyExc_ValueError,
              "At least one stride in the given numpy array is negative, and tensors with negative "
              "strides are not currently supported. (You can probably work around this by making a "
              "copy of your array with array.copy().)");
    }
    if (step % size) {
      Py_DECREF(owner);
      fail_as(PyExc_ValueError,
              "given numpy array strides not a multiple of the element byte size. "
              "Copy the numpy array to reallocate the memory.");
    }
    strides[i] = step / size;
    if (reach) reach += (sizes[i] - 1) * strides[i];
  }
  Storage* storage = foreign_storage(b->buf, reach * size, owner);
  return wrap_storage(storage, sizes, strides, 0, dtype);
}

// ---- nested sequences

// (An unsigned type takes negative numbers, wrapped, as torch does; uint64 does not.)
// What the elements of some Python data need: bool, int, float or complex.
enum class Rank { None = -1, Bool, Int, Float, Complex };

bool is_nested(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o) ||
         (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

struct Reference {
  PyObject* o;
  explicit Reference(PyObject* object) : o(object) {}
  ~Reference() { Py_XDECREF(o); }
  Reference(const Reference&) = delete;
};

class Nested {
 public:
  explicit Nested(PyObject* data) {
    measure(data);
    scan(data, 0);
  }
  Ints sizes;
  Rank rank = Rank::None;
  DType tensor_type = DType::Bool;  // the strongest dtype among tensor elements
  bool has_tensors = false;

  template <class T, class F>
  void write(PyObject* o, int depth, T*& out, const F& convert) {
    if (depth == sizes.size()) *out++ = convert(o);
    else each(o, depth, [&](PyObject* item) { write(item, depth + 1, out, convert); });
  }

 private:
  void measure(PyObject* o) {
    Reference hold(new_reference(o));
    while (is_nested(o) && !PyObject_CheckBuffer(o)) {
      if (sizes.size() >= 64) fail_as(PyExc_ValueError, "too many dimensions in nested sequences");
      Py_ssize_t n = PySequence_Length(o);
      if (n < 0) throw PythonError{};
      sizes.push_back(n);
      if (n == 0) break;
      Reference first(PySequence_GetItem(o, 0));
      if (!first.o) throw PythonError{};
      if (first.o == o)
        fail_as(PyExc_ValueError, "too many dimensions: the sequence contains itself");
      std::swap(hold.o, first.o);
      o = hold.o;
    }
    if (PyObject_CheckBuffer(o) && !is_tensor(o) && !PyBytes_Check(o) && sizes.size() > 0)
      add_array_shape(o);
  }
  void add_array_shape(PyObject* o) {
    Py_buffer b;
    if (PyObject_GetBuffer(o, &b, PyBUF_FULL_RO) < 0) throw PythonError{};
    for (int i = 0; i < b.ndim; i++) sizes.push_back(b.shape[i]);
    PyBuffer_Release(&b);
  }

  // Calls f with every item of a sequence. Reading numbers may run Python code, which may change
  // the sequence: its length is looked at again each time, and the item in hand is kept.
  template <class F>
  void each(PyObject* o, int depth, const F& f) {
    if (!is_nested(o) && !PyObject_CheckBuffer(o))
      fail_as(PyExc_TypeError, "expected a sequence at dim ", depth, ", got ", Py_TYPE(o)->tp_name);
    Reference fast(PySequence_Fast(o, "expected a sequence"));
    if (!fast.o) throw PythonError{};
    int64_t n = sizes[depth];
    for (Py_ssize_t i = 0; i < n || i < PySequence_Fast_GET_SIZE(fast.o); i++) {
      if (PySequence_Fast_GET_SIZE(fast.o) != n)
        fail_as(PyExc_ValueError, "expected sequence of length ", n, " at dim ", depth, " (got ",
                PySequence_Fast_GET_SIZE(fast.o), ")");
      Reference item(new_reference(PySequence_Fast_GET_ITEM(fast.o, i)));
      f(item.o);
    }
  }

  void scan(PyObject* o, int depth) {
    if (depth == sizes.size()) rank = std::max(rank, rank_of(o));
    else each(o, depth, [&](PyObject* item) { scan(item, depth + 1); });
  }

  Rank rank_of(PyObject* o) {
    if (PyBool_Check(o)) return Rank::Bool;
    if (PyLong_Check(o)) return Rank::Int;
    if (PyFloat_Check(o)) {
      // NumPy's float64 keeps its precision; a plain float takes the default dtype.
      if (!PyFloat_CheckExact(o)) {
        tensor_type = has_tensors ? promote(tensor_type, DType::F64) : DType::F64;
        has_tensors = true;
      }
      return Rank::Float;
    }
    if (PyComplex_Check(o)) return Rank::Complex;
    if (is_tensor(o)) {
      Tensor* t = as_tensor(o);
      if (t->numel != 1)
        fail_as(PyExc_ValueError,
                "only one element tensors can be converted to Python scalars, got "
                "shape ",
                t->sizes);
      tensor_type = has_tensors ? promote(tensor_type, t->dtype) : t->dtype;
      has_tensors = true;
      return Rank(category(t->dtype));
    }
    if (is_nested(o))
      fail_as(PyExc_TypeError, "the nested sequences do not form a rectangular array: found a ",
              Py_TYPE(o)->tp_name, " where a number was expected");
    if (PyIndex_Check(o)) return Rank::Int;
    if (PyUnicode_Check(o)) fail_as(PyExc_TypeError, "new(): invalid data type 'str'");
    if (PyNumber_Check(o)) return Rank::Float;
    fail("Could not infer dtype of ", Py_TYPE(o)->tp_name);
  }
};

double to_double(PyObject* o) {
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw PythonError{};
  return v;
}
uint64_t to_uint64(PyObject* o) {
  PyObject* index = PyNumber_Index(o);
  if (!index) throw PythonError{};
  unsigned long long v = PyLong_AsUnsignedLongLong(index);
  Py_DECREF(index);
  if (v == (unsigned long long)-1 && PyErr_Occurred()) throw PythonError{};
  return v;
}
int64_t to_int64(PyObject* o) {
  PyObject* index = PyLong_Check(o) ? new_reference(o) : PyNumber_Long(o);
  if (!index) throw PythonError{};
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (overflow)
    fail_as(PyExc_ValueError, "Overflow when unpacking long long: the integer does not fit int64");
  if (v == -1 && PyErr_Occurred()) throw PythonError{};
  return v;
}
c128 to_complex(PyObject* o) {
  if (is_tensor(o)) {
    PyObject* item = tensor_item(as_tensor(o));
    if (!item) throw PythonError{};
    Py_complex z = PyComplex_AsCComplex(item);
    Py_DECREF(item);
    return {z.real, z.imag};
  }
  Py_complex z = PyComplex_AsCComplex(o);
  if (z.real == -1 && PyErr_Occurred()) throw PythonError{};
  return {z.real, z.imag};
}

void check_range(const Var& wide, DType d) {
  if (!is_integral(d) || itemsize(d) == 8 || d == DType::Bool) return;
  int64_t high = (int64_t(1) << (8 * itemsize(d) - (is_unsigned(d) ? 0 : 1))) - 1;
  int64_t low = is_unsigned(d) ? -high : -high - 1;
  const int64_t* x = wide->host<int64_t>();
  for (int64_t i = 0; i < wide.numel(); i++)
    if (x[i] < low || x[i] > high)
      fail("value cannot be converted to type ", name(d), " without overflow: ", x[i]);
}

Var from_nested(PyObject* data, std::optional<DType> dtype) {
  Nested nested(data);
  DType natural = nested.has_tensors && category(nested.tensor_type) >= int(nested.rank)
                      ? nested.tensor_type
                  : nested.rank == Rank::Bool    ? DType::Bool
                  : nested.rank == Rank::Int     ? DType::I64
                  : nested.rank == Rank::Complex ? complex_of(default_dtype())
                                                 : default_dtype();
  DType result = dtype.value_or(natural);
  Var wide;
  if (nested.rank == Rank::Complex) {
    if (!is_complex(result))
      fail_as(PyExc_TypeError, "can't convert complex numbers to ", name(result));
    wide = empty(nested.sizes, DType::C128, kHost);
    c128* out = wide->host<c128>();
    nested.write(data, 0, out, to_complex);
  } else if (result == DType::U64 && nested.rank != Rank::None) {
    if (nested.rank == Rank::Float) fail_as(PyExc_TypeError, "an integer is required");
    wide = empty(nested.sizes, DType::U64, kHost);
    uint64_t* out = wide->host<uint64_t>();
    nested.write(data, 0, out, to_uint64);
  } else if (nested.rank == Rank::Float || nested.rank == Rank::None) {
    wide = empty(nested.sizes, DType::F64, kHost);
    double* out = wide->host<double>();
    nested.write(data, 0, out, to_double);
  } else {
    wide = empty(nested.sizes, DType::I64, kHost);
    int64_t* out = wide->host<int64_t>();
    nested.write(data, 0, out, to_int64);
    check_range(wide, result);
  }
  GradMode off(false);
  return ops::to(wide, result);
}

}  // namespace

namespace {

// A class of NumPy, or null while the program has not imported it.
PyTypeObject* numpy_type(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* numpy = PyDict_GetItemString(modules, "numpy");
  PyObject* type = numpy ? PyObject_GetAttrString(numpy, name) : nullptr;
  if (!type) PyErr_Clear();
  if (!type || PyType_Check(type)) return reinterpret_cast<PyTypeObject*>(type);
  Py_DECREF(type);
  return nullptr;
}

bool is_of_numpy(PyObject* o, const char* name, PyTypeObject*& found) {
  if (!found) found = numpy_type(name);
  return found && PyObject_TypeCheck(o, found);
}

}  // namespace

bool is_numpy_array(PyObject* o) {
  static PyTypeObject* type = nullptr;
  return is_of_numpy(o, "ndarray", type);
}
bool is_numpy_scalar(PyObject* o) {
  static PyTypeObject* type = nullptr;
  return is_of_numpy(o, "generic", type);
}

PyBufferProcs tensor_buffer = {get_buffer, release_buffer};

Var tensor_from_python(PyObject* data, std::optional<DType> dtype) {
  GradMode off(false);
  if (is_tensor(data)) {
    Var t(as_tensor(data));
    return dtype && *dtype != t.dtype() ? ops::to(t, *dtype) : ops::clone(t);
  }
  bool number = PyFloat_Check(data) || PyLong_Check(data) || PyComplex_Check(data);
  if (number && !PyObject_CheckBuffer(data)) {  // NumPy's float64 is a float with a dtype
    if (dtype == DType::U64 && PyLong_Check(data)) return from_nested(data, dtype);
    if (PyLong_Check(data) && !PyBool_Check(data)) to_int64(data);  // raises on overflow
    Var v = wrap_number(data);
    DType natural = is_integral(v.dtype())  ? v.dtype()
                    : is_complex(v.dtype()) ? complex_of(default_dtype())
                                            : default_dtype();
    DType result = dtype.value_or(natural);
    if (is_complex(v.dtype()) && !is_complex(result))
      fail_as(PyExc_TypeError, "can't convert a complex number to ", name(result));
    if (v.dtype() == DType::I64) check_range(v, result);
    v->wrapped_number = false;
    return ops::to(v, result);
  }
  if (!PyList_Check(data) && !PyTuple_Check(data)) {
    PyObject* array = nullptr;
    if (PyObject_CheckBuffer(data)) {
      array = new_reference(data);
    } else if (PyObject_HasAttrString(data, "__array__")) {
      array = PyObject_CallMethod(data, "__array__", nullptr);
      if (!array) throw PythonError{};
    }
    if (array) {
      Var shared;
      try {
        shared = share_buffer(array);
      } catch (...) {
        Py_DECREF(array);
        throw;
      }
      Py_DECREF(array);
      Var copy = ops::clone(shared);
      return dtype ? ops::to(copy, *dtype) : copy;
    }
  }
  return from_nested(data, dtype);
}

namespace {

// Whether a tensor, or one among the first items of nested sequences, requires grad.
bool has_history(PyObject* data) {
  if (is_tensor(data)) return requires_grad(as_tensor(data));
  if (!PyList_Check(data) && !PyTuple_Check(data)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); i++) {
    PyObject* item = PySequence_Fast_GET_ITEM(data, i);
    bool nested = is_tensor(item) || PyList_Check(item) || PyTuple_Check(item);
    if (!nested) return false;
    if (has_history(item)) return true;
  }
  return false;
}

PyObject* make_tensor(PyObject*, PyObject* args) {
  PyObject *data, *dtype, *device;
  int wants_grad;
  if (!PyArg_ParseTuple(args, "OOOp", &data, &dtype, &device, &wants_grad)) return nullptr;
  return guarded([&]() -> PyObject* {
    static const Signature s("tensor(object data, *, dtype? dtype=None, device? device=None)");
    std::optional<DType> d;
    if (dtype != Py_None) d = dtype_argument(s, 1, dtype);
    Device place = device != Py_None ? device_argument(s, 2, device)
                   : is_tensor(data) ? as_tensor(data)->device()
                                     : default_device();
    Var v = tensor_from_python(data, d);
    if (v.device() != place) v = ops::to(alias(v.get()), v.dtype(), place);
    if (has_history(data)) v->cut = note_cut(CutReason::Copied, "tensor");
    if (wants_grad) {
      check(is_differentiable(v.dtype()),
            "Only Tensors of floating point and complex dtype can require gradients");
      v->requires_grad = true;
    }
    return reinterpret_cast<PyObject*>(v.release());
  });
}

PyObject* share(PyObject*, PyObject* o) {
  return guarded(
      [&]() -> PyObject* { return reinterpret_cast<PyObject*>(share_buffer(o).release()); });
}

// The whole storage of a tensor as bytes.
PyObject* storage_tensor(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) fail_as(PyExc_TypeError, "expected a Tensor");
    Tensor* t = as_tensor(o);
    if (batch_of(t)) refuse_batched("sharing the memory");
    own_memory(t->storage);
    Var v = wrap_storage(retain(t->storage), Ints{t->storage->bytes}, Ints{1}, 0, DType::U8);
    return reinterpret_cast<PyObject*>(v.release());
  });
}

// (tensor, bytes): the size of its storage.
PyObject* resize_storage_of(PyObject*, PyObject* args) {
  PyObject* o;
  long long bytes;
  if (!PyArg_ParseTuple(args, "O!L", &TensorType, &o, &bytes)) return nullptr;
  return guarded([&]() -> PyObject* {
    Storage* s = as_tensor(o)->storage;
    check(bytes >= 0, "resize_: negative size: ", bytes);
    require_plain(as_tensor(o), "resizing the memory");
    if (bytes < s->bytes) s->version++;  // the content beyond is lost
    resize_storage(s, bytes);
    Py_RETURN_NONE;
  });
}

// The memory of a tensor read as another dtype: (tensor, dtype, size, stride, shift=0).
PyObject* reinterpret(PyObject*, PyObject* args) {
  PyObject *source, *dtype, *size, *stride;
  long long shift = 0;
  if (!PyArg_ParseTuple(args, "O!OOO|L", &TensorType, &source, &dtype, &size, &stride, &shift))
    return nullptr;
  return guarded([&]() -> PyObject* {
    static const Signature s("_reinterpret(dtype dtype, int[] size, int[] stride)");
    Tensor* t = as_tensor(source);
    DType d = dtype_argument(s, 0, dtype);
    Ints sizes = ints_argument(s, 1, size), strides = ints_argument(s, 2, stride);
    int64_t start = t->offset * itemsize(t->dtype);
    check(start % itemsize(d) == 0, "_reinterpret: the offset is not a multiple of the item size");
    Var v = wrap_storage(retain(t->storage), sizes, strides, start / itemsize(d) + shift, d);
    check_region(v.get(), sizes, strides, v->offset);
    return reinterpret_cast<PyObject*>(v.release());
  });
}

// The bytes of a tensor without gaps, in the order of memory.
PyObject* to_bytes(PyObject*, PyObject* o) {
  if (!is_tensor(o) || !is_dense(as_tensor(o)->sizes, as_tensor(o)->strides)) {
    PyErr_SetString(PyExc_TypeError, "_bytes needs a tensor without gaps");
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    Var t = ops::on_host(Var(as_tensor(o)));
    return PyBytes_FromStringAndSize(t->host<char>(), t->numel * itemsize(t->dtype));
  });
}

PyObject* get_result_type(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO:result_type", &a, &b)) return nullptr;
  return guarded([&]() -> PyObject* {
    static const Signature s("result_type(Tensor|Number tensor1, Tensor|Number tensor2)");
    Var x = tensor_argument(s, 0, a), y = tensor_argument(s, 1, b);
    return new_reference(dtype_object(result_type(x.get(), y.get())));
  });
}

}  // namespace

PyMethodDef interop_functions[] = {
    {"_storage_tensor", storage_tensor, METH_O, nullptr},
    {"_resize_storage", resize_storage_of, METH_VARARGS, nullptr},
    {"_reinterpret", reinterpret, METH_VARARGS, nullptr},
    {"_bytes", to_bytes, METH_O, nullptr},
    {"_result_type", get_result_type, METH_VARARGS, nullptr},
    {"_tensor", make_tensor, METH_VARARGS, nullptr},
    {"_share_buffer", share, METH_O, nullptr},
    {},
};

}  // namespace rl
