// The attributes of Tensor: shape, dtype, grad, ...
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "autograd/structured.h"
#include "autograd/writes.h"
#include "call/arguments.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

namespace {

constexpr int kAnyDType = -2;  // of Extra::grad_dtype

template <PyObject* (*F)(Tensor*)>
PyObject* get(PyObject* o, void*) {
  return guarded([&] { return F(as_tensor(o)); });
}
// An attribute that computes: modes and subclasses may answer for Tensor.<name>.__get__.
template <PyObject* (*F)(Tensor*)>
PyObject* get_computed(PyObject* o, void* name) {
  return guarded([&]() -> PyObject* {
    if (modes.intercepted || is_subclass(o)) [[unlikely]] {
      auto* text = static_cast<const char*>(name);
      PyObject* descriptor = PyDict_GetItemString(TensorType.tp_dict, text);
      PyObject* getter = descriptor ? PyObject_GetAttrString(descriptor, "__get__") : nullptr;
      if (!getter) throw PythonError{};
      PyObject* result = call_override(getter, &o, 1);
      Py_DECREF(getter);
      if (result || PyErr_Occurred()) return result;
      return as_class_of(o, F(as_tensor(o)));
    }
    return F(as_tensor(o));
  });
}
char* attribute(const char* name) { return const_cast<char*>(name); }

template <void (*F)(Tensor*, PyObject*)>
int set(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    F(as_tensor(o), value);
    return 0;
  });
}
PyObject* object_or_none(void* o) { return new_reference(o ? static_cast<PyObject*>(o) : Py_None); }

PyObject* shape(Tensor* t) { return size_object(t->sizes); }
PyObject* dtype(Tensor* t) { return new_reference(dtype_object(t->dtype)); }
PyObject* device(Tensor* t) { return device_object(t->storage->device); }
PyObject* ndim(Tensor* t) { return PyLong_FromLong(t->dim()); }
PyObject* bytes(Tensor* t) { return PyLong_FromLongLong(t->numel * itemsize(t->dtype)); }
PyObject* element_bytes(Tensor* t) { return PyLong_FromLongLong(itemsize(t->dtype)); }

PyObject* grad_fn(Tensor* t) {
  if (modes.inference && t->storage->inference) Py_RETURN_NONE;
  return object_or_none(grad_fn_of(t));
}
PyObject* get_requires_grad(Tensor* t) { return PyBool_FromLong(requires_grad(t)); }
void set_requires_grad_value(Tensor* t, PyObject* value) {
  if (!value || !PyBool_Check(value)) fail("requires_grad must be a bool");
  check(!grad_fn_of(t), "you can only change requires_grad flags of leaf variables.",
        value == Py_False ? " If you want to use a computed variable in a subgraph that doesn't "
                            "require differentiation use var_no_grad = var.detach()."
                          : "");
  PyObject* done =
      PyObject_CallMethod(reinterpret_cast<PyObject*>(t), "requires_grad_", "O", value);
  if (!done) throw PythonError{};
  Py_DECREF(done);
}
PyObject* is_leaf(Tensor* t) { return PyBool_FromLong(!grad_fn_of(t)); }
PyObject* output_nr(Tensor* t) { return PyLong_FromUnsignedLong(t->output_nr); }
PyObject* retains_grad(Tensor* t) { return PyBool_FromLong(t->extra && t->extra->retains_grad); }

PyObject* get_grad(Tensor* t) {
  PyObject* grad = t->extra ? reinterpret_cast<PyObject*>(t->extra->grad) : nullptr;
  if (!grad && t->grad_fn && !(t->extra && t->extra->retains_grad) &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                   "Its .grad attribute won't be populated during autograd.backward(). If you "
                   "indeed want the .grad field to be populated for a non-leaf Tensor, use "
                   ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
                   "mistake, make sure you access the leaf Tensor instead. See "
                   "github.com/pytorch/pytorch/pull/30531 for more information.",
                   1) < 0)
    throw PythonError{};
  return object_or_none(grad);
}
PyObject* get_grad_quietly(Tensor* t) {
  return object_or_none(t->extra ? reinterpret_cast<PyObject*>(t->extra->grad) : nullptr);
}
void set_grad(Tensor* t, PyObject* value) {
  if (!value || value == Py_None) {
    if (t->extra) Py_CLEAR(t->extra->grad);
    return;
  }
  if (!is_tensor(value))
    fail_as(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type ",
            Py_TYPE(value)->tp_name);
  Tensor* g = as_tensor(value);
  check(g != t, "can't assign Variable as its own grad");
  bool any = t->extra && t->extra->grad_dtype == kAnyDType;
  DType wanted = t->extra && t->extra->grad_dtype >= 0 ? DType(t->extra->grad_dtype) : t->dtype;
  if (g->dtype != wanted && !any)
    fail("attempting to assign a gradient with dtype '", name(g->dtype),
         "' to a tensor with grad_dtype '", name(wanted),
         "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). Set "
         "tensor.grad_dtype to allow another.");
  if (g->sizes != t->sizes)
    fail("attempting to assign a gradient of size '", g->sizes, "' to a tensor of size '", t->sizes,
         "'. Please ensure that the gradient and the tensor are the same size");
  if (g->device() != t->device())
    fail("assigned grad has data located on a different device: the gradient on ",
         device_text(g->device()), ", the tensor on ", device_text(t->device()));
  Py_INCREF(g);
  Py_XSETREF(extra(t).grad, g);
  if (requires_grad(g) || g->leads_to_python) track(t);
}
// grad_dtype = None: .grad may be set to any dtype; backward passes use the tensor's own.
PyObject* get_grad_dtype(Tensor* t) {
  check(!t->grad_fn, "grad_dtype can only be accessed on leaf tensors.");
  if (t->extra && t->extra->grad_dtype == kAnyDType) Py_RETURN_NONE;
  return new_reference(
      dtype_object(t->extra && t->extra->grad_dtype >= 0 ? DType(t->extra->grad_dtype) : t->dtype));
}
void set_grad_dtype(Tensor* t, PyObject* value) {
  check(!t->grad_fn, "grad_dtype can only be set on leaf tensors.");
  check(value == Py_None || (value && Py_TYPE(value) == Py_TYPE(dtype_object(t->dtype))),
        "grad_dtype must be a torch.dtype or None, but got ",
        value ? Py_TYPE(value)->tp_name : "nothing");
  int wanted = value == Py_None ? kAnyDType : int(dtype_value(value));
  if (t->extra && t->extra->grad && wanted >= 0 && t->extra->grad->dtype != DType(wanted))
    fail("Cannot set grad_dtype to '", name(DType(wanted)),
         "' because there is already a gradient with dtype '", name(t->extra->grad->dtype),
         "'. Clear it first: tensor.grad = None");
  extra(t).grad_dtype = int8_t(wanted);
}

PyObject* base(Tensor* t) {
  return object_or_none(t->extra ? reinterpret_cast<PyObject*>(t->extra->base) : nullptr);
}
PyObject* version(Tensor* t) {
  check(!t->storage->inference, "Inference tensors do not track version counter.");
  return PyLong_FromUnsignedLong(t->storage->version);
}
void set_version(Tensor* t, PyObject* value) {
  long v = value ? PyLong_AsLong(value) : -1;
  if (v < 0) fail("_version must be a non-negative int");
  t->storage->version = uint32_t(v);
}

// A tensor on the same memory with a version counter of its own: writes through it are not seen.
// In strict mode it shares the counter.
PyObject* get_data(Tensor* t) {
  Var v = alias(t);
  if (requires_grad(t)) v->cut = note_cut(CutReason::Data, "data");
  if (saved_hooks.strict) return reinterpret_cast<PyObject*>(v.release());
  own_memory(t->storage);
  Storage* same = foreign_storage(t->storage->data, t->storage->bytes, storage_owner(t->storage));
  same->device = t->device();
  same->inference = t->storage->inference;
  release(v->storage);
  v->storage = same;
  return reinterpret_cast<PyObject*>(v.release());
}
void set_data(Tensor* t, PyObject* value) {
  if (!value || !is_tensor(value))
    fail_as(PyExc_TypeError, "Variable data has to be a tensor, but got ",
            value ? Py_TYPE(value)->tp_name : "nothing");
  Tensor* from = as_tensor(value);
  check(has_data(t) == has_data(from),
        "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
        "incompatible tensor type: one of them is a meta tensor, without elements");
  check(!is_structured(t) && !is_structured(from),
        "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
        "incompatible tensor type: one of them is a ",
        Py_TYPE(is_structured(t) ? t : from)->tp_name, ", whose elements lie in other tensors");
  if (requires_grad(t) && !is_differentiable(from->dtype))
    fail("data set to a tensor that requires gradients must be floating point or complex dtype");
  Var before = levels_of(t) ? stand_in(t) : Var();
  note_swap(t, from->storage);
  Storage* storage = retain(from->storage);
  release(t->storage);
  t->storage = storage;
  t->offset = from->offset;
  t->numel = from->numel;
  t->sizes = from->sizes;
  t->strides = from->strides;
  t->contiguous = from->contiguous;
  t->dtype = from->dtype;
  if (!before) return;
  separate_tangents(t);
  if (before.sizes() == t->sizes && before.dtype() == t->dtype) replace_tangents(t, before);
}

Var reversed(Tensor* t) {
  Ints dims(t->dim());
  for (int i = 0; i < dims.size(); i++) dims[i] = dims.size() - 1 - i;
  return ops::permute(Var(t), dims);
}
PyObject* transposed(Tensor* t) { return reinterpret_cast<PyObject*>(reversed(t).release()); }
PyObject* matrix_transposed(Tensor* t) {
  check(t->dim() != 1, "tensor.mT is only supported on matrices or batches of matrices. Got ",
        t->dim(), "-D tensor.");
  if (t->dim() == 0) return transposed(t);
  return reinterpret_cast<PyObject*>(ops::transpose(Var(t), -2, -1).release());
}
PyObject* adjoint(Tensor* t) {
  check(t->dim() == 2 || t->dim() == 0,
        "tensor.H is only supported on matrices (2-D tensors). Got ", t->dim(), "-D tensor.");
  if (t->dim() == 0) return reinterpret_cast<PyObject*>(ops::conj(Var(t)).release());
  return reinterpret_cast<PyObject*>(ops::conj(ops::transpose(Var(t), 0, 1)).release());
}
PyObject* matrix_adjoint(Tensor* t) {
  check(t->dim() != 1, "tensor.mH is only supported on matrices or batches of matrices. Got ",
        t->dim(), "-D tensor.");
  if (t->dim() == 0) return adjoint(t);
  return reinterpret_cast<PyObject*>(ops::conj(ops::transpose(Var(t), -2, -1)).release());
}
PyObject* real_part(Tensor* t) { return reinterpret_cast<PyObject*>(ops::real(Var(t)).release()); }
PyObject* imaginary_part(Tensor* t) {
  return reinterpret_cast<PyObject*>(ops::imag(Var(t)).release());
}
// x.real = a number or a tensor
template <Var (*Part)(const Var&)>
void set_part(Tensor* t, PyObject* value) {
  if (!value) fail_as(PyExc_AttributeError, "a part of a tensor cannot be deleted");
  ops::copy_(Part(Var(t)), is_tensor(value) ? Var(as_tensor(value)) : wrap_number(value));
}
PyObject* no(Tensor*) { Py_RETURN_FALSE; }
template <Device::Type Kind>
PyObject* lies_on(Tensor* t) {
  return PyBool_FromLong(t->device().type == Kind);
}

// The dicts of hooks, made on demand; handles remove entries from them.
PyObject* hooks_dict(Tensor* t) {
  Node* fn = grad_fn_of(t);
  PyObject** dict;
  if (fn) {
    track(fn);
    dict = &hooks_on_output(fn, t->output_nr).hooks;
  } else {
    dict = &extra(t).hooks;
    if (extra(t).accumulator) track(extra(t).accumulator);
  }
  track(t);
  if (!*dict) *dict = PyDict_New();
  return object_or_none(*dict);
}
PyObject* existing_hooks(Tensor* t) {
  if (t->grad_fn) {
    if (t->grad_fn->hooks)
      for (auto& on : t->grad_fn->hooks->outputs)
        if (on.nr == t->output_nr) return object_or_none(on.hooks);
    Py_RETURN_NONE;
  }
  return object_or_none(t->extra ? t->extra->hooks : nullptr);
}
PyObject* post_accumulate_dict(Tensor* t) {
  track(t);
  if (!extra(t).post_accumulate_hooks) extra(t).post_accumulate_hooks = PyDict_New();
  return object_or_none(extra(t).post_accumulate_hooks);
}
PyObject* existing_post_hooks(Tensor* t) {
  return object_or_none(t->extra ? t->extra->post_accumulate_hooks : nullptr);
}

PyObject* get_dict(PyObject* o, void*) {
  Tensor* t = as_tensor(o);
  if (!t->dict) {
    t->dict = PyDict_New();
    track(t);
  }
  return object_or_none(t->dict);
}

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"shape", get<shape>, nullptr,
     "The sizes of the dimensions.\n\n"
     ">>> torch.zeros(2, 3).shape, torch.tensor(5.0).shape\n"
     "(torch.Size([2, 3]), torch.Size([]))",
     nullptr},
    {"dtype", get<dtype>, nullptr,
     "The type of the elements.\n\n"
     ">>> torch.tensor([1, 2]).dtype, torch.tensor([1.0]).dtype\n"
     "(torch.int64, torch.float32)",
     nullptr},
    {"device", get<device>, nullptr,
     "Where the memory lies.\n\n"
     ">>> torch.ones(2).device\n"
     "device(type='cpu')",
     nullptr},
    {"ndim", get<ndim>, nullptr,
     "The number of dimensions.\n\n"
     ">>> torch.zeros(4, 1, 2).ndim\n"
     "3",
     nullptr},
    {"nbytes", get<bytes>, nullptr,
     "The bytes that the elements take.\n\n"
     ">>> torch.zeros(2, 3, dtype=torch.float64).nbytes\n"
     "48",
     nullptr},
    {"itemsize", get<element_bytes>, nullptr,
     "The bytes of one element.\n\n"
     ">>> torch.zeros(2, 3, dtype=torch.float64).itemsize\n"
     "8",
     nullptr},
    {"grad", get<get_grad>, set<set_grad>,
     "The gradient that backward() accumulated.\n\n"
     ">>> x = torch.tensor(3.0, requires_grad=True)\n"
     ">>> (x * x).backward()\n"
     ">>> x.grad\n"
     "tensor(6.)\n"
     ">>> x.grad = None  # the next backward() starts anew",
     nullptr},
    {"_grad", get<get_grad_quietly>, set<set_grad>, ".grad, of any tensor without a warning.",
     nullptr},
    {"grad_dtype", get<get_grad_dtype>, set<set_grad_dtype>,
     "The dtype of .grad.\n\n"
     ">>> x = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)\n"
     ">>> x.grad_dtype = torch.float32\n"
     ">>> x.sum().backward()\n"
     ">>> x.grad\n"
     "tensor([1., 1.])",
     nullptr},
    {"grad_fn", get<grad_fn>, nullptr,
     "The node that made this tensor, or None.\n\n"
     ">>> x = torch.ones(2, requires_grad=True)\n"
     ">>> x.grad_fn, x.exp().grad_fn.name()\n"
     "(None, 'ExpBackward0')",
     nullptr},
    {"requires_grad", get<get_requires_grad>, set<set_requires_grad_value>,
     "Whether operations on it are recorded.\n\n"
     ">>> w = torch.ones(2)\n"
     ">>> w.requires_grad = True\n"
     ">>> (w * 2).requires_grad, w.detach().requires_grad\n"
     "(True, False)",
     nullptr},
    {"is_leaf", get<is_leaf>, nullptr,
     "Whether no recorded operation made it.\n\n"
     ">>> w = torch.ones(2, requires_grad=True)\n"
     ">>> w.is_leaf, (w * 2).is_leaf\n"
     "(True, False)",
     nullptr},
    {"output_nr", get<output_nr>, nullptr,
     "Which output of grad_fn it is.\n\n"
     ">>> first, second = torch.ones(2, requires_grad=True).unbind()\n"
     ">>> first.output_nr, second.output_nr\n"
     "(0, 1)",
     nullptr},
    {"retains_grad", get<retains_grad>, nullptr,
     "Whether a non-leaf keeps its .grad.\n\n"
     ">>> y = torch.ones(2, requires_grad=True) * 2\n"
     ">>> y.retain_grad()\n"
     ">>> y.retains_grad\n"
     "True",
     nullptr},
    {"data", get_computed<get_data>, set<set_data>,
     "The same memory, unseen by autograd.\n\n"
     ">>> w = torch.ones(2, requires_grad=True)\n"
     ">>> w.data[0] = 5.0  # not recorded\n"
     ">>> w\n"
     "tensor([5., 1.], requires_grad=True)",
     attribute("data")},
    {"_base", get<base>, nullptr, "The tensor that this one is a view of, or None.", nullptr},
    {"_version", get<version>, set<set_version>, "How often it was written in place.", nullptr},
    {"T", get_computed<transposed>, nullptr,
     "The dimensions reversed.\n\n"
     ">>> torch.tensor([[1, 2, 3], [4, 5, 6]]).T\n"
     "tensor([[1, 4],\n"
     "        [2, 5],\n"
     "        [3, 6]])",
     attribute("T")},
    {"mT", get_computed<matrix_transposed>, nullptr,
     "The last two dimensions swapped.\n\n"
     ">>> torch.zeros(5, 2, 3).mT.shape\n"
     "torch.Size([5, 3, 2])",
     attribute("mT")},
    {"H", get_computed<adjoint>, nullptr,
     "The conjugate transpose of a matrix.\n\n"
     ">>> torch.tensor([[1 + 1j, 2j]]).H\n"
     "tensor([[1.-1.j],\n"
     "        [0.-2.j]])",
     attribute("H")},
    {"mH", get_computed<matrix_adjoint>, nullptr,
     "The conjugate transpose of each matrix.\n\n"
     ">>> torch.tensor([[[1 + 1j, 2j]]]).mH\n"
     "tensor([[[1.-1.j],\n"
     "         [0.-2.j]]])",
     attribute("mH")},
    {"real", get<real_part>, set<set_part<ops::real>>,
     "The real part, a view.\n\n"
     ">>> z = torch.tensor([1 + 2j, 3 - 1j])\n"
     ">>> z.real\n"
     "tensor([1., 3.])\n"
     ">>> z.real = 0\n"
     ">>> z\n"
     "tensor([0.+2.j, 0.-1.j])",
     nullptr},
    {"imag", get<imaginary_part>, set<set_part<ops::imag>>,
     "The imaginary part, a view.\n\n"
     ">>> z = torch.tensor([1 + 2j, 3 - 1j])\n"
     ">>> z.imag\n"
     "tensor([ 2., -1.])\n"
     ">>> z.imag.zero_()\n"
     "tensor([0., 0.])\n"
     ">>> z\n"
     "tensor([1.+0.j, 3.+0.j])",
     nullptr},
    {"is_cuda", get<lies_on<Device::CUDA>>, nullptr,
     "Whether it lies on a GPU.\n\n"
     ">>> torch.ones(2).is_cuda\n"
     "False",
     nullptr},
    {"is_cpu", get<lies_on<Device::CPU>>, nullptr,
     "Whether it lies in main memory.\n\n"
     ">>> torch.ones(2).is_cpu\n"
     "True",
     nullptr},
    {"is_meta", get<lies_on<Device::Meta>>, nullptr,
     "Whether it is a shape and a dtype without elements.\n\n"
     ">>> torch.ones(2, device=\"meta\").is_meta\n"
     "True",
     nullptr},
    {"is_sparse", get<no>, nullptr,
     "Always False: tensors are dense.\n\n"
     ">>> torch.eye(2).is_sparse\n"
     "False",
     nullptr},
    {"is_quantized", get<no>, nullptr,
     "Always False.\n\n"
     ">>> torch.ones(2, dtype=torch.int8).is_quantized\n"
     "False",
     nullptr},
    {"is_nested", get<no>, nullptr,
     "Always False.\n\n"
     ">>> torch.ones(2, 2).is_nested\n"
     "False",
     nullptr},
    {"_hooks_dict", get<hooks_dict>, nullptr, nullptr, nullptr},
    {"_backward_hooks", get<existing_hooks>, nullptr, "The tensor hooks, or None.", nullptr},
    {"_post_accumulate_dict", get<post_accumulate_dict>, nullptr, nullptr, nullptr},
    {"_post_accumulate_grad_hooks", get<existing_post_hooks>, nullptr,
     "The post-accumulate hooks, or None.", nullptr},
    {"__dict__", get_dict, nullptr, nullptr, nullptr},
    {},
};

}  // namespace rl
