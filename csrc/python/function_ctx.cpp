// ctx of a custom Function: the node itself, an object of a Python class that the Function's
// metaclass makes. Its formula is the user's backward.
#include "autograd/forward.h"
#include "autograd/hooks.h"
#include "autograd/writes.h"
#include "kernels/cuda/active.h"
#include "ops/functions.h"
#include "python/function.h"
#include "python/op_object.h"
#include "python/tensor_type.h"

namespace rl {

int node_traverse(PyObject* o, visitproc visit, void* arg);
int node_clear(PyObject* o);
void node_dealloc(PyObject* o);

PyTypeObject FunctionNodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

PyObject* ctx_dict(FunctionNode* self) {
  PyObject** dict = _PyObject_GetDictPtr(reinterpret_cast<PyObject*>(self));
  return dict ? *dict : nullptr;
}

PyObject* grads_tuple(FunctionNode* self, Pass& pass) {
  for (uint32_t i = 0; i < self->output_count; i++)
    if (!pass.grads[i] && self->materialize && is_differentiable(self->meta(i).dtype))
      pass.grads[i] = ops::zeros(self->meta(i).sizes, self->meta(i).dtype, self->meta(i).device);
  return tuple_for_user(pass.grads, self->output_count);
}

void check_stashed(FunctionNode* self) {
  PyObject* dict = ctx_dict(self);
  for (auto [name, version] : *self->stashed) {
    PyObject* value = dict ? PyDict_GetItem(dict, name) : nullptr;
    if (value && is_tensor(value) && find_overwrite(as_tensor(value), version).found)
      fail_changed(self, as_tensor(value), version, concat("ctx.", PyUnicode_AsUTF8(name)).c_str());
  }
}

// Another device is chosen for a scope; a negative number changes nothing.
class Choice {
 public:
  explicit Choice(int device) : before_(cuda::chosen) {
    if (device >= 0) cuda::chosen = device;
  }
  ~Choice() { cuda::chosen = before_; }
  Choice(const Choice&) = delete;

 private:
  int before_;
};

void apply(Node* node, Pass& pass) {
  FunctionNode* self = as_function(node);
  PyObject* ctx = reinterpret_cast<PyObject*>(node);
  if (self->stashed) check_stashed(self);
  Held arguments(grads_tuple(self, pass));
  // The backward makes its tensors where the forward put the result.
  Device device;
  for (uint32_t i = 0; i < self->output_count && device == kHost; i++)
    device = node->meta(i).device;
  Choice choice(device.type == Device::CUDA ? device.index : -1);
  Held backward(PyObject_GetAttrString(ctx, "_run_backward"));
  Held result(PyObject_CallObject(backward.p, arguments.p));
  Held results(PyTuple_Check(result.p)  ? new_reference(result.p)
               : PyList_Check(result.p) ? PyList_AsTuple(result.p)
                                        : PyTuple_Pack(1, result.p));
  size_t expected = self->is_tensor_argument->size();
  size_t got = size_t(PyTuple_GET_SIZE(results.p));
  // Extra trailing Nones are forgiven, as in torch.
  while (got > expected && PyTuple_GET_ITEM(results.p, Py_ssize_t(got) - 1) == Py_None) got--;
  if (got != expected)
    fail("function ", Py_TYPE(ctx)->tp_name,
         " returned an incorrect number of gradients (expected ", expected, ", got ", got, ")");
  int edge = 0;
  for (size_t i = 0; i < expected; i++) {
    PyObject* item = PyTuple_GET_ITEM(results.p, Py_ssize_t(i));
    if (!(*self->is_tensor_argument)[i]) {
      if (item != Py_None)
        fail("function ", Py_TYPE(ctx)->tp_name,
             " returned a gradient different than None at "
             "position ",
             i + 1, ", but the corresponding forward input was not a Variable");
      continue;
    }
    if (item != Py_None) {
      if (!is_tensor(item)) fail("expected Variable or None (got ", Py_TYPE(item)->tp_name, ")");
      pass.results[edge] = Var(as_tensor(item));
    }
    edge++;
  }
  if (!pass.create_graph)
    for (int i = 0; i < edge; i++)
      if (pass.results[i] && requires_grad(pass.results[i].get())) {
        Var plain = alias(pass.results[i].get());
        replace_tangents(plain.get(), pass.results[i]);
        pass.results[i] = plain;
      }
}

void each_saved(Node* node, SavedVisitor& visitor) {
  if (auto* saved = as_function(node)->saved)
    for (SavedTensor& s : *saved) visitor.visit(s, "tensors");
}

int traverse(Node* node, visitproc visit, void* arg) {
  FunctionNode* self = as_function(node);
  Py_VISIT(self->to_save);
  Py_VISIT(self->saved_for_forward);
  Py_VISIT(self->non_differentiable);
  Py_VISIT(self->dirty);
  Py_VISIT(self->needs_input_grad);
  return 0;
}

void clear(Node* node) {
  FunctionNode* self = as_function(node);
  Py_CLEAR(self->to_save);
  Py_CLEAR(self->saved_for_forward);
  Py_CLEAR(self->non_differentiable);
  Py_CLEAR(self->dirty);
  Py_CLEAR(self->needs_input_grad);
}

void destroy(Node* node) {
  FunctionNode* self = as_function(node);
  delete std::exchange(self->saved, nullptr);
  delete std::exchange(self->is_tensor_argument, nullptr);
  if (self->stashed)
    for (auto& s : *self->stashed) Py_DECREF(s.name);
  delete std::exchange(self->stashed, nullptr);
}

const NodeClass function_class = {.name = "Function",
                                  .apply = apply,
                                  .each_saved = each_saved,
                                  .destroy = destroy,
                                  .traverse = traverse,
                                  .clear = clear};

PyObject* function_node_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) return nullptr;
  FunctionNode* self = as_function(o);
  init_node(self, &function_class, 0, 1);
  self->pool = 255;
  self->leads_to_python = true;
  self->pushing = -1;
  self->materialize = true;
  self->is_tensor_argument = new std::vector<bool>;
  return o;
}

// ---- ctx

PyObject* tuple_member(PyObject* value) { return new_reference(value ? value : Py_None); }

PyObject* save_for_backward(PyObject* o, PyObject* args) {
  Py_INCREF(args);
  Py_XSETREF(as_function(o)->to_save, args);
  Py_RETURN_NONE;
}
PyObject* save_for_forward(PyObject* o, PyObject* args) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    PyObject* item = PyTuple_GET_ITEM(args, i);
    if (item != Py_None && !is_tensor(item)) {
      PyErr_SetString(PyExc_TypeError,
                      "save_for_forward expects all arguments to be tensors; you should save "
                      "non-tensors as attributes on ctx.");
      return nullptr;
    }
  }
  Py_INCREF(args);
  Py_XSETREF(as_function(o)->saved_for_forward, args);
  Py_RETURN_NONE;
}
PyObject* mark_dirty(PyObject* o, PyObject* args) {
  Py_INCREF(args);
  Py_XSETREF(as_function(o)->dirty, args);
  Py_RETURN_NONE;
}
PyObject* mark_non_differentiable(PyObject* o, PyObject* args) {
  Py_INCREF(args);
  Py_XSETREF(as_function(o)->non_differentiable, args);
  Py_RETURN_NONE;
}
PyObject* set_materialize_grads(PyObject* o, PyObject* args) {
  int value = 1;
  if (!PyArg_ParseTuple(args, "|p", &value)) return nullptr;
  as_function(o)->materialize = value;
  Py_RETURN_NONE;
}

// A jvp reads tensors as they are below its level, so that levels do not mix.
PyObject* tuple_below(PyObject* tensors, int level) {
  PyObject* tuple = PyTuple_New(PyTuple_GET_SIZE(tensors));
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tensors); i++) {
    PyObject* o = PyTuple_GET_ITEM(tensors, i);
    PyTuple_SET_ITEM(tuple, i,
                     is_tensor(o)
                         ? reinterpret_cast<PyObject*>(below(Var(as_tensor(o)), level).release())
                         : new_reference(o));
  }
  return tuple;
}

PyObject* saved_tensors(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    FunctionNode* self = as_function(o);
    if (self->pushing >= 0)
      return self->saved_for_forward ? tuple_below(self->saved_for_forward, self->pushing)
                                     : PyTuple_New(0);
    if (!self->saved) {
      if (self->to_save) return new_reference(self->to_save);  // inside forward
      return PyTuple_New(0);
    }
    PyObject* tuple = PyTuple_New(Py_ssize_t(self->saved->size()));
    for (size_t i = 0; tuple && i < self->saved->size(); i++) {
      Var v;
      try {
        v = (*self->saved)[i].unpack(self);
      } catch (...) {
        Py_DECREF(tuple);
        throw;
      }
      PyTuple_SET_ITEM(tuple, Py_ssize_t(i),
                       v ? reinterpret_cast<PyObject*>(v.release()) : new_reference(Py_None));
    }
    return tuple;
  });
}
PyObject* get_needs(PyObject* o, void*) { return tuple_member(as_function(o)->needs_input_grad); }
PyObject* get_materialize(PyObject* o, void*) {
  return PyBool_FromLong(as_function(o)->materialize);
}
PyObject* get_to_save(PyObject* o, void*) { return tuple_member(as_function(o)->to_save); }
PyObject* get_forward(PyObject* o, void*) {
  return tuple_member(as_function(o)->saved_for_forward);
}
PyObject* get_dirty(PyObject* o, void*) { return tuple_member(as_function(o)->dirty); }
PyObject* get_non_differentiable(PyObject* o, void*) {
  return tuple_member(as_function(o)->non_differentiable);
}

PyObject* clear_saved(PyObject* o, PyObject*) {
  free_saved(as_function(o));
  Py_RETURN_NONE;
}

PyObject* pass_through(PyObject* o, PyObject*) {
  as_function(o)->passes = true;
  Py_RETURN_NONE;
}

PyMethodDef ctx_methods[] = {
    {"_pass_through", pass_through, METH_NOARGS,
     "Inputs that forward returns are views of themselves, which may be written in place."},
    {"_clear_saved", clear_saved, METH_NOARGS, "Lets go of what save_for_backward kept."},
    {"save_for_backward", save_for_backward, METH_VARARGS,
     "save_for_backward(*tensors): keeps tensors for backward, checked for in-place changes."},
    {"save_for_forward", save_for_forward, METH_VARARGS, "Keeps tensors for jvp."},
    {"mark_dirty", mark_dirty, METH_VARARGS, "Says which inputs forward changed in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS,
     "Says which outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_VARARGS,
     "Whether missing gradients arrive as zeros (True) or None."},
    {},
};
PyGetSetDef ctx_getset[] = {
    {"saved_tensors", saved_tensors, nullptr, "What save_for_backward kept.", nullptr},
    {"needs_input_grad", get_needs, nullptr, "A bool per argument of forward.", nullptr},
    {"materialize_grads", get_materialize, nullptr, nullptr, nullptr},
    {"to_save", get_to_save, nullptr, nullptr, nullptr},
    {"saved_for_forward", get_forward, nullptr, nullptr, nullptr},
    {"dirty_tensors", get_dirty, nullptr, nullptr, nullptr},
    {"non_differentiable", get_non_differentiable, nullptr, nullptr, nullptr},
    {},
};

}  // namespace

void note_stashed(FunctionNode* self) {
  PyObject *dict = ctx_dict(self), *name, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &name, &value);) {
    if (!is_tensor(value)) continue;
    as_tensor(value)->storage->saved = true;
    if (!self->stashed) self->stashed = new std::vector<FunctionNode::Stashed>;
    self->stashed->push_back({new_reference(name), as_tensor(value)->storage->version});
  }
}

bool is_function(const Node* node) { return node->cls == &function_class; }

int add_function_type(PyObject* module) {
  PyTypeObject& T = FunctionNodeType;
  T.tp_name = "rushlight.autograd.function.BackwardCFunctionBase";
  T.tp_basicsize = sizeof(FunctionNode);
  T.tp_base = &NodeType;
  T.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  T.tp_doc = "The context of a custom Function: a node that Python code implements.";
  T.tp_new = function_node_new;
  T.tp_dealloc = node_dealloc;
  T.tp_traverse = node_traverse;
  T.tp_clear = node_clear;
  T.tp_methods = ctx_methods;
  T.tp_getset = ctx_getset;
  if (PyType_Ready(&T) < 0) return -1;
  Py_INCREF(&T);
  return PyModule_AddObject(module, "_FunctionBase", reinterpret_cast<PyObject*>(&T));
}

}  // namespace rl
