// The methods of Tensor that are not ops: queries, conversion to Python, the state of autograd.
#include <cstring>
#include <map>

#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "autograd/writes.h"
#include "call/arguments.h"
#include "call/memory_format.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs);

// An element at any address: foreign memory may not be aligned.
PyObject* element_to_python(DType dtype, const char* data) {
  if (is_stored(dtype)) {
    if (dtype == DType::U64) {
      uint64_t x;
      std::memcpy(&x, data, sizeof x);
      return PyLong_FromUnsignedLongLong(x);
    }
    DType wide = is_complex(dtype) ? DType::C128 : is_integral(dtype) ? DType::I64 : DType::F64;
    alignas(16) char room[16];
    on_host().convert(wide, room, 16, dtype, data, 16, 1);
    return element_to_python(wide, room);
  }
  return visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    T x;
    std::memcpy(static_cast<void*>(&x), data, sizeof x);
    if constexpr (std::is_same_v<T, Bool>) return PyBool_FromLong(x);
    else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(x);
    else if constexpr (std::is_same_v<T, c64> || std::is_same_v<T, c128>)
      return PyComplex_FromDoubles(x.real(), x.imag());
    else return PyFloat_FromDouble(double(x));
  });
}

PyObject* tensor_item(const Tensor* t) {
  if (t->device().type == Device::CUDA && !batch_of(t)) [[unlikely]]
    return element_to_python(t->dtype, ops::on_host(alias(t))->data());
  require_plain(t, "calling .item() or making a Python number");
  return element_to_python(t->dtype, t->data());
}

namespace {

PyObject* nested_list(const Tensor* t, int dim, const char* data) {
  if (dim == t->dim()) return element_to_python(t->dtype, data);
  PyObject* list = PyList_New(t->sizes[dim]);
  int64_t step = t->strides[dim] * itemsize(t->dtype);
  for (int64_t i = 0; list && i < t->sizes[dim]; i++, data += step) {
    PyObject* item = nested_list(t, dim + 1, data);
    if (!item) Py_CLEAR(list);
    else PyList_SET_ITEM(list, i, item);
  }
  return list;
}

PyObject* item(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor* t = as_tensor(o);
    if (t->numel != 1) fail("a Tensor with ", t->numel, " elements cannot be converted to Scalar");
    return tensor_item(t);
  });
}
PyObject* tolist(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor* t = as_tensor(o);
    Var here = batch_of(t) ? alias(t) : ops::on_host(alias(t));
    require_plain(batch_of(t) ? t : here.get(), "calling .tolist()");
    return nested_list(here.get(), 0, here->data());
  });
}

PyObject* one_of(const Tensor* t, const Ints& values, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"dim", nullptr};
  PyObject* dim = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(keywords), &dim))
    return nullptr;
  return guarded([&]() -> PyObject* {
    if (dim == Py_None) return &values == &t->sizes ? size_object(values) : attribute_value(values);
    long d = PyLong_AsLong(dim);
    if (d == -1 && PyErr_Occurred()) throw PythonError{};
    if (t->dim() == 0)
      fail_as(PyExc_IndexError, "Dimension specified as ", d, " but tensor has no dimensions");
    return PyLong_FromLongLong(values[int(wrap_dim(d, t->dim()))]);
  });
}
PyObject* size(PyObject* o, PyObject* args, PyObject* kwargs) {
  return one_of(as_tensor(o), as_tensor(o)->sizes, args, kwargs);
}
PyObject* stride(PyObject* o, PyObject* args, PyObject* kwargs) {
  return one_of(as_tensor(o), as_tensor(o)->strides, args, kwargs);
}
PyObject* dim(PyObject* o, PyObject*) { return PyLong_FromLong(as_tensor(o)->dim()); }
PyObject* numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(as_tensor(o)->numel); }
PyObject* storage_offset(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(as_tensor(o)->offset);
}
PyObject* element_size(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(itemsize(as_tensor(o)->dtype));
}
PyObject* data_ptr(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (!has_data(t)) return PyLong_FromLong(0);
    if (t->device() == kHost || batch_of(t)) require_plain(t, "taking the address");
    own_memory(t->storage);
    return PyLong_FromVoidPtr(t->numel ? t->data() : nullptr);
  });
}
PyObject* is_contiguous_method(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"memory_format", nullptr};
  PyObject* memory_format = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:is_contiguous", const_cast<char**>(keywords),
                                   &memory_format))
    return nullptr;
  return guarded([&]() -> PyObject* {
    MemoryFormat format =
        memory_format_argument(memory_format, MemoryFormat::Contiguous, "is_contiguous");
    return PyBool_FromLong(is_contiguous_in(format, as_tensor(o)));
  });
}
PyObject* format_of_strides(PyObject* o, PyObject*) {
  const Tensor* t = as_tensor(o);
  return new_reference(memory_format_object(format_of(t->sizes, t->strides)));
}
PyObject* is_view_method(PyObject* o, PyObject*) { return PyBool_FromLong(is_view(as_tensor(o))); }
PyObject* is_inference_method(PyObject* o, PyObject*) {
  return PyBool_FromLong(as_tensor(o)->storage->inference);
}
PyObject* is_floating_point(PyObject* o, PyObject*) {
  return PyBool_FromLong(is_floating(as_tensor(o)->dtype));
}
PyObject* is_complex_method(PyObject* o, PyObject*) {
  return PyBool_FromLong(is_complex(as_tensor(o)->dtype));
}
PyObject* is_signed(PyObject* o, PyObject*) {
  DType d = as_tensor(o)->dtype;
  return PyBool_FromLong(!is_unsigned(d) && d != DType::E8M0FNU);
}
PyObject* get_device(PyObject* o, PyObject*) {
  Device d = as_tensor(o)->device();
  return PyLong_FromLong(d.type == Device::CUDA ? d.index : -1);
}
PyObject* is_same_storage(PyObject* a, PyObject* b) {
  return PyBool_FromLong(is_tensor(b) && as_tensor(a)->storage == as_tensor(b)->storage);
}
PyObject* storage_bytes(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(as_tensor(o)->storage->bytes);
}

PyObject* requires_grad_method(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"requires_grad", nullptr};
  int wanted = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", const_cast<char**>(keywords),
                                   &wanted))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->grad_fn && !wanted)
      fail(
          "you can only change requires_grad flags of leaf variables. If you want to use a "
          "computed variable in a subgraph that doesn't require differentiation use var_no_grad = "
          "var.detach().");
    if (t->grad_fn) return new_reference(o);
    if (wanted && !is_differentiable(t->dtype))
      fail("only Tensors of floating point dtype can require gradients, got ", name(t->dtype));
    if (wanted && t->storage->inference && !modes.inference && !modes.transforms)
      fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    t->requires_grad = wanted;
    return new_reference(o);
  });
}

PyObject* detach(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (modes.intercepted || is_subclass(o)) [[unlikely]] {
      PyObject* result = call_override("detach", &o, 1);
      if (result || PyErr_Occurred()) return result;
    }
    Tensor* t = as_tensor(o);
    Var v = alias(t);
    v->cut = requires_grad(t) ? note_cut(CutReason::Detach, "detach") : t->cut;
    PyObject* result = reinterpret_cast<PyObject*>(v.release());
    return is_subclass(o) ? as_class_of(o, result) : result;
  });
}
PyObject* detach_(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (modes.inference) return new_reference(o);  // as in PyTorch, it changes nothing there
    if (is_view(t))
      fail(
          "Can't detach views in-place. Use detach() instead. If you are using "
          "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
          "gradients are views of DDP buckets, and hence detach_() cannot be called on these "
          "gradients.");
    if (requires_grad(t)) t->cut = note_cut(CutReason::Detach, "detach_");
    release_node(std::exchange(t->grad_fn, nullptr));
    t->output_nr = 0;
    t->requires_grad = false;
    if (dual_levels) separate_tangents(t);
    return new_reference(o);
  });
}

PyObject* retain_grad(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    check(requires_grad(t), "can't retain_grad on Tensor that has requires_grad=False");
    Node* fn = grad_fn_of(t);
    if (fn && !extra(t).retains_grad) {
      extra(t).retains_grad = true;
      hooks_on_output(fn, t->output_nr).retains = t;
    }
    Py_RETURN_NONE;
  });
}

// Points this tensor at another's memory; used by set_, resize_, Parameter and pickling.
PyObject* set_storage(PyObject* o, PyObject* args) {
  PyObject* source;
  PyObject *sizes, *strides;
  long long offset;
  if (!PyArg_ParseTuple(args, "O!OOL", &TensorType, &source, &sizes, &strides, &offset))
    return nullptr;
  return guarded([&]() -> PyObject* {
    static const Signature s("set_(int[] size, int[] stride)");
    Tensor *t = as_tensor(o), *from = as_tensor(source);
    Ints new_sizes = ints_argument(s, 0, sizes), new_strides = ints_argument(s, 1, strides);
    check_region(from, new_sizes, new_strides, offset);
    check(from->dtype == t->dtype, "set_: expected a ", name(t->dtype), " source, got ",
          name(from->dtype));
    check_inference_write(t);
    note_swap(t, from->storage, true);
    Storage* storage = retain(from->storage);
    release(t->storage);
    t->storage = storage;
    t->sizes = new_sizes;
    t->strides = new_strides;
    t->offset = offset;
    t->numel = element_count(new_sizes);
    t->contiguous = is_contiguous(new_sizes, new_strides);
    if (dual_levels) separate_tangents(t);
    return new_reference(o);
  });
}

PyObject* resize_(PyObject* o, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"memory_format", nullptr};
  PyObject* memory_format = nullptr;
  PyObject* none = PyTuple_New(0);
  bool ok = none && PyArg_ParseTupleAndKeywords(none, kwargs, "|$O:resize_",
                                                const_cast<char**>(keywords), &memory_format);
  Py_XDECREF(none);
  if (!ok) return nullptr;
  return guarded([&]() -> PyObject* {
    MemoryFormat format =
        memory_format_argument(memory_format, MemoryFormat::Contiguous, "resize_");
    static const Signature s("resize_(int[] size)");
    PyObject* sizes = PyTuple_GET_SIZE(args) == 1 && !PyLong_Check(PyTuple_GET_ITEM(args, 0))
                          ? PyTuple_GET_ITEM(args, 0)
                          : args;
    Tensor* t = as_tensor(o);
    Ints wanted = ints_argument(s, 0, sizes);
    check(!requires_grad(t) || modes.inference, "cannot resize variables that require grad");
    check_inference_write(t);
    check(!levels_of(t), "cannot resize variables that has a forward grad");
    bool keeps_strides = !memory_format || memory_format == Py_None;
    if (keeps_strides && wanted == t->sizes) return new_reference(o);
    for (int64_t n : wanted) check(n >= 0, "resize_: negative size in ", wanted);
    int64_t n = element_count(wanted), bytes;
    check(n >= 0 && !__builtin_mul_overflow(n + t->offset, itemsize(t->dtype), &bytes),
          "resize_: size overflow: ", wanted);
    Ints strides = format_strides(format, wanted, "resize_");
    if (bytes > t->storage->bytes) resize_storage(t->storage, bytes);
    own_memory(t->storage);
    t->storage->version++;
    t->sizes = wanted;
    t->strides = strides;
    t->numel = n;
    t->contiguous = is_contiguous(wanted, strides);
    return new_reference(o);
  });
}

// torch numbers the nodes of in-place shape changes: TBackward1 for t_, SqueezeBackward3, ...
PyTypeObject* inplace_type(Node* node) {
  static auto* types = new std::map<std::string, NodeClass*>;
  std::string name = node->cls->name;
  bool squeeze = name.rfind("SqueezeBackward", 0) == 0;
  name.back() = char(name.back() + (squeeze ? 3 : 1));
  NodeClass*& cls = (*types)[name];
  if (!cls) {
    cls = new NodeClass(*node->cls);
    cls->name = strdup(name.c_str());
    node_type(*cls);
  }
  node->cls = cls;
  return cls->type;
}

// Takes the shape and the history of a view of itself: unsqueeze_, t_ and their kin.
PyObject* become(PyObject* o, PyObject* view) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(view) || as_tensor(view)->storage != as_tensor(o)->storage)
      fail_as(PyExc_TypeError, "_become needs a view of the tensor");
    Tensor *t = as_tensor(o), *from = as_tensor(view);
    check_inplace(t, "an in-place change of shape");
    check_inference_write(t);
    t->sizes = from->sizes;
    t->strides = from->strides;
    t->offset = from->offset;
    t->numel = from->numel;
    t->contiguous = from->contiguous;
    if (from->grad_fn) {
      Py_SET_TYPE(from->grad_fn, inplace_type(from->grad_fn));
      set_history(t, from->grad_fn, int(from->output_nr));
    }
    t->storage->version++;
    if (is_view(t)) t->extra->view_version = t->storage->version;
    return new_reference(o);
  });
}
PyObject* storage_id(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(as_tensor(o)->storage); }

}  // namespace

Tensor* on_same_memory(PyTypeObject* type, const Tensor* from) {
  Tensor* t = new_tensor_object(type);
  t->storage = retain(from->storage);
  t->offset = from->offset;
  t->numel = from->numel;
  t->sizes = from->sizes;
  t->strides = from->strides;
  t->contiguous = from->contiguous;
  t->dtype = from->dtype;
  return t;
}

Tensor* moved_to(PyTypeObject* type, Var from) {
  Tensor* t = on_same_memory(type, from.get());
  t->grad_fn = std::exchange(from->grad_fn, nullptr);
  t->output_nr = from->output_nr;
  t->extra = std::exchange(from->extra, nullptr);
  t->requires_grad = from->requires_grad;
  t->cut = from->cut;
  if (from->leads_to_python) mark(t);
  return t;
}

namespace {

// An object of a subclass on the same memory: (class, tensor, requires_grad).
PyObject* make_subclass(PyObject*, PyObject* args) {
  PyObject *type, *data;
  int wanted = 0;
  if (!PyArg_ParseTuple(args, "OO!|p:_make_subclass", &type, &TensorType, &data, &wanted))
    return nullptr;
  return guarded([&]() -> PyObject* {
    if (!PyType_Check(type) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &TensorType))
      fail_as(PyExc_TypeError, "cls must be a subclass of Tensor");
    Tensor* from = as_tensor(data);
    if (wanted && !is_differentiable(from->dtype))
      fail("Only Tensors of floating point and complex dtype can require gradients");
    Tensor* t = on_same_memory(reinterpret_cast<PyTypeObject*>(type), from);
    t->requires_grad = wanted;
    return reinterpret_cast<PyObject*>(t);
  });
}
// A view of the whole tensor, of another class.
PyObject* as_subclass(PyObject* o, PyObject* type) {
  return guarded([&]() -> PyObject* {
    auto* made = reinterpret_cast<PyTypeObject*>(type);
    if (!PyType_Check(type) || !PyType_IsSubtype(made, &TensorType))
      fail_as(PyExc_TypeError, "cls must be a subclass of Tensor");
    return reinterpret_cast<PyObject*>(moved_to(made, ops::alias_view(Var(as_tensor(o)))));
  });
}

}  // namespace

#define RL_KEYWORDS(f) \
  reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f)), METH_VARARGS | METH_KEYWORDS
PyMethodDef tensor_methods[] = {
    {"item", item, METH_NOARGS,
     "The one element as a Python number.\n\n"
     ">>> torch.tensor([[2.5]]).item()\n"
     "2.5"},
    {"tolist", tolist, METH_NOARGS,
     "The elements as nested lists.\n\n"
     ">>> torch.tensor([[1, 2], [3, 4]]).tolist()\n"
     "[[1, 2], [3, 4]]\n"
     ">>> torch.tensor(0.5).tolist()\n"
     "0.5"},
    {"size", RL_KEYWORDS(size),
     "size(dim=None): the shape, or one of its entries.\n\n"
     ">>> x = torch.zeros(2, 3)\n"
     ">>> x.size(), x.size(-1)\n"
     "(torch.Size([2, 3]), 3)"},
    {"stride", RL_KEYWORDS(stride),
     "stride(dim=None): the steps in memory per dimension.\n\n"
     ">>> x = torch.zeros(2, 3)\n"
     ">>> x.stride(), x.t().stride(), x.stride(0)\n"
     "((3, 1), (1, 3), 3)"},
    {"dim", dim, METH_NOARGS,
     "The number of dimensions.\n\n"
     ">>> torch.zeros(2, 3).dim(), torch.tensor(1.0).dim()\n"
     "(2, 0)"},
    {"ndimension", dim, METH_NOARGS,
     "The number of dimensions.\n\n"
     ">>> torch.zeros(2, 3).ndimension()\n"
     "2"},
    {"numel", numel, METH_NOARGS,
     "The number of elements.\n\n"
     ">>> torch.zeros(2, 3).numel()\n"
     "6"},
    {"nelement", numel, METH_NOARGS,
     "The number of elements.\n\n"
     ">>> torch.zeros(4, 0).nelement()\n"
     "0"},
    {"storage_offset", storage_offset, METH_NOARGS,
     "Where the first element lies in the storage.\n\n"
     ">>> torch.arange(10)[4:].storage_offset()\n"
     "4"},
    {"element_size", element_size, METH_NOARGS,
     "Bytes per element.\n\n"
     ">>> torch.ones(3).element_size(), torch.ones(3, dtype=torch.bool).element_size()\n"
     "(4, 1)"},
    {"data_ptr", data_ptr, METH_NOARGS,
     "The address of the first element.\n\n"
     ">>> x = torch.zeros(4)  # of 4 bytes each\n"
     ">>> x[1:].data_ptr() - x.data_ptr()\n"
     "4"},
    {"is_contiguous", RL_KEYWORDS(is_contiguous_method),
     "Whether it is row-major without gaps, or lies so in the memory_format.\n\n"
     ">>> x = torch.zeros(2, 3)\n"
     ">>> x.is_contiguous(), x.t().is_contiguous()\n"
     "(True, False)\n"
     ">>> torch.zeros(2, 3, 4, 4).is_contiguous(memory_format=torch.channels_last)\n"
     "False"},
    {"_format_of_strides", format_of_strides, METH_NOARGS, nullptr},
    {"_is_view", is_view_method, METH_NOARGS, "Whether it is a view that autograd knows of."},
    {"is_inference", is_inference_method, METH_NOARGS,
     "Whether inference_mode made it.\n\n"
     ">>> with torch.inference_mode():\n"
     "...     x = torch.ones(2)\n"
     ">>> x.is_inference()\n"
     "True"},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "Whether its dtype is real floating.\n\n"
     ">>> torch.tensor([1.0]).is_floating_point(), torch.tensor([1]).is_floating_point()\n"
     "(True, False)"},
    {"is_complex", is_complex_method, METH_NOARGS,
     "Whether its dtype is complex.\n\n"
     ">>> torch.tensor([1j]).is_complex(), torch.tensor([1.0]).is_complex()\n"
     "(True, False)"},
    {"is_signed", is_signed, METH_NOARGS,
     "Whether its dtype holds negative numbers.\n\n"
     ">>> torch.tensor([1]).is_signed(), torch.tensor([1], dtype=torch.uint8).is_signed()\n"
     "(True, False)"},
    {"get_device", get_device, METH_NOARGS,
     "The number of its CUDA device; -1 elsewhere.\n\n"
     ">>> torch.ones(2).get_device()\n"
     "-1"},
    {"_is_same_storage", is_same_storage, METH_O, nullptr},
    {"_storage_bytes", storage_bytes, METH_NOARGS, nullptr},
    {"requires_grad_", RL_KEYWORDS(requires_grad_method),
     "Sets requires_grad, in place.\n\n"
     ">>> w = torch.zeros(2).requires_grad_()\n"
     ">>> w\n"
     "tensor([0., 0.], requires_grad=True)\n"
     ">>> w.requires_grad_(False)\n"
     "tensor([0., 0.])"},
    {"detach", detach, METH_NOARGS,
     "The same memory outside the graph.\n\n"
     ">>> w = torch.ones(2, requires_grad=True)\n"
     ">>> v = w.detach()\n"
     ">>> v[0] = 4.0  # the memory is that of w\n"
     ">>> v, w\n"
     "(tensor([4., 1.]), tensor([4., 1.], requires_grad=True))"},
    {"detach_", detach_, METH_NOARGS,
     "Leaves the graph, in place.\n\n"
     ">>> y = torch.ones(2, requires_grad=True) * 3\n"
     ">>> y.detach_().requires_grad\n"
     "False"},
    {"backward", RL_KEYWORDS(tensor_backward),
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None): computes the "
     "gradients of the leaves and adds them to their .grad.\n\n"
     ">>> x = torch.tensor([1.0, 2.0], requires_grad=True)\n"
     ">>> (x**2).sum().backward()\n"
     ">>> x.grad\n"
     "tensor([2., 4.])\n"
     ">>> (x**2).backward(torch.tensor([1.0, 0.0]))  # adds to .grad\n"
     ">>> x.grad\n"
     "tensor([4., 4.])"},
    {"retain_grad", retain_grad, METH_NOARGS,
     "Keeps .grad although this is not a leaf.\n\n"
     ">>> x = torch.tensor(2.0, requires_grad=True)\n"
     ">>> y = x * x\n"
     ">>> y.retain_grad()\n"
     ">>> (3 * y).backward()\n"
     ">>> y.grad\n"
     "tensor(3.)"},
    {"_become", become, METH_O, nullptr},
    {"_storage_id", storage_id, METH_NOARGS, nullptr},
    {"_set_storage", set_storage, METH_VARARGS, nullptr},
    {"resize_", RL_KEYWORDS(resize_),
     "Changes the shape and the memory_format, growing the storage as needed.\n\n"
     ">>> torch.arange(6).resize_(2, 2)\n"
     "tensor([[0, 1],\n"
     "        [2, 3]])"},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, nullptr},
    {"as_subclass", as_subclass, METH_O,
     "The same tensor as an object of a subclass.\n\n"
     ">>> class Meters(torch.Tensor):\n"
     "...     pass\n"
     ">>> length = torch.tensor([1.0, 2.0]).as_subclass(Meters)\n"
     ">>> type(length * 2).__name__\n"
     "'Meters'"},
    {},
};

}  // namespace rl
