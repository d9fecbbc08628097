// Life and death of tensors as Python objects.
#include "python/tensor_type.h"

#include "autograd/batch.h"
#include "autograd/forward.h"
#include "autograd/node.h"
#include "ops/functions.h"
#include "python/interop.h"
#include "python/op_object.h"

namespace rl {

void free_tensor_slot(Tensor* t);
void clear_node(Node* node);

PyTypeObject TensorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

// A node that fills this tensor's .grad must forget it.
void forget_retained(Tensor* t) {
  if (!t->extra || !t->extra->retains_grad || !t->grad_fn || !t->grad_fn->hooks) return;
  for (auto& on : t->grad_fn->hooks->outputs)
    if (on.retains == t) on.retains = nullptr;
}

void drop_extra(Tensor* t) {
  Extra* e = std::exchange(t->extra, nullptr);
  if (!e) return;
  Py_XDECREF(e->grad);
  Py_XDECREF(e->base);
  Py_XDECREF(e->hooks);
  Py_XDECREF(e->post_accumulate_hooks);
  release(e->tangents);
  drop_batch(e);
  delete e->swaps;
  delete e;
}

int tensor_clear(PyObject* o) {
  Tensor* t = as_tensor(o);
  forget_retained(t);
  release_node(std::exchange(t->grad_fn, nullptr));
  if (t->extra) {
    Py_CLEAR(t->extra->grad);
    Py_CLEAR(t->extra->base);
    Py_CLEAR(t->extra->hooks);
    Py_CLEAR(t->extra->post_accumulate_hooks);
  }
  Py_CLEAR(t->dict);
  return 0;
}

void tensor_dealloc(PyObject* o) {
  Tensor* t = as_tensor(o);
  PyObject_GC_UnTrack(o);
  if (t->weakrefs) PyObject_ClearWeakRefs(o);
  forget_retained(t);
  Node* fn = std::exchange(t->grad_fn, nullptr);
  drop_extra(t);
  Py_CLEAR(t->dict);
  if (t->storage) release(t->storage);
  t->sizes.~Ints();
  t->strides.~Ints();
  if (t->pooled) free_tensor_slot(t);
  else Py_TYPE(o)->tp_free(o);
  if (fn) release_node(fn);
}

int tensor_setattro(PyObject* o, PyObject* name, PyObject* value) {
  int done = PyObject_GenericSetAttr(o, name, value);
  Tensor* t = as_tensor(o);
  if (done == 0 && t->dict && !t->leads_to_python) track(t);
  return done;
}

PyObject* tensor_iter(PyObject* o) {
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->dim() == 0) fail_as(PyExc_TypeError, "iteration over a 0-d tensor");
    PyObject* parts = PyObject_CallMethod(o, "unbind", "i", 0);
    if (!parts) throw PythonError{};
    PyObject* iterator = PyObject_GetIter(parts);
    Py_DECREF(parts);
    return iterator;
  });
}

Py_ssize_t tensor_length(PyObject* o) {
  Tensor* t = as_tensor(o);
  if (t->dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t->sizes[0];
}

int tensor_contains(PyObject* o, PyObject* value) {
  if (!is_tensor(value) && !PyNumber_Check(value)) {
    PyErr_Format(PyExc_RuntimeError,
                 "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                 Py_TYPE(value));
    return -1;
  }
  PyObject* equal = PyObject_RichCompare(o, value, Py_EQ);
  if (!equal) return -1;
  PyObject* any =
      is_tensor(equal) ? PyObject_CallMethod(equal, "any", nullptr) : new_reference(equal);
  Py_DECREF(equal);
  int truth = any ? PyObject_IsTrue(any) : -1;
  Py_XDECREF(any);
  return truth;
}

Py_hash_t tensor_hash(PyObject* o) { return reinterpret_cast<Py_hash_t>(o); }  // id(o), as torch

// Tensor(...): the legacy constructor, which the Python side implements.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* module = PyImport_ImportModule("rushlight._legacy");
  PyObject* function = module ? PyObject_GetAttrString(module, "construct") : nullptr;
  Py_XDECREF(module);
  if (!function) return nullptr;
  PyObject* first = PyTuple_Pack(1, type);
  PyObject* all = first ? PySequence_Concat(first, args) : nullptr;
  Py_XDECREF(first);
  PyObject* result = all ? PyObject_Call(function, all, kwargs) : nullptr;
  Py_XDECREF(all);
  Py_DECREF(function);
  return result;
}

PyMappingMethods tensor_mapping;
PySequenceMethods tensor_sequence;
}  // namespace

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Tensor* t = as_tensor(o);
  Py_VISIT(t->grad_fn);
  Py_VISIT(t->dict);
  if (t->extra) {
    Py_VISIT(t->extra->grad);
    Py_VISIT(t->extra->base);
    Py_VISIT(t->extra->hooks);
    Py_VISIT(t->extra->post_accumulate_hooks);
  }
  return 0;
}

int add_tensor_type(PyObject* module) {
  tensor_mapping.mp_length = tensor_length;
  tensor_mapping.mp_subscript = get_item;
  tensor_mapping.mp_ass_subscript = set_item;
  tensor_sequence.sq_contains = tensor_contains;
  PyTypeObject& T = TensorType;
  T.tp_name = "rushlight.Tensor";
  T.tp_basicsize = sizeof(Tensor);
  T.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  T.tp_doc =
      "A multi-dimensional array that can record the operations done to it.\n\n"
      ">>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)\n"
      ">>> (x[0] * x[1]).sum().backward()\n"
      ">>> x.grad\n"
      "tensor([[3., 4.],\n"
      "        [1., 2.]])";
  T.tp_new = tensor_new;
  T.tp_dealloc = tensor_dealloc;
  T.tp_traverse = tensor_traverse;
  T.tp_clear = tensor_clear;
  T.tp_setattro = tensor_setattro;
  T.tp_iter = tensor_iter;
  T.tp_hash = tensor_hash;
  T.tp_richcompare = tensor_richcompare;
  T.tp_weaklistoffset = offsetof(Tensor, weakrefs);
  T.tp_dictoffset = offsetof(Tensor, dict);
  T.tp_as_number = &tensor_number;
  T.tp_as_mapping = &tensor_mapping;
  T.tp_as_sequence = &tensor_sequence;
  T.tp_as_buffer = &tensor_buffer;
  T.tp_methods = tensor_methods;
  T.tp_getset = tensor_getset;
  if (PyType_Ready(&T) < 0) return -1;
  T.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;  // programs add methods and replace them
  Py_INCREF(&T);
  return PyModule_AddObject(module, "Tensor", reinterpret_cast<PyObject*>(&T));
}

}  // namespace rl
