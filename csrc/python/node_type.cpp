// Nodes as Python sees them.
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "call/call.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

void clear_node(Node* node);
void destroy_node(Node* node);
void free_node_slot(Node* node);
int tensor_traverse(PyObject* o, visitproc visit, void* arg);

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {

Node* as_node(PyObject* o) { return reinterpret_cast<Node*>(o); }

class Traversal : public SavedVisitor {
 public:
  Traversal(visitproc visit, void* arg) : visit_(visit), arg_(arg) {}
  int result = 0;
  void visit(SavedTensor& saved, const char*) override {
    if (result) return;
    if (saved.held()) result = visit_(reinterpret_cast<PyObject*>(saved.held()), arg_);
    Packed* packed = saved.packed();
    if (!packed) return;
    auto* input = reinterpret_cast<PyObject*>(packed->input);
    for (PyObject* o : {packed->content, packed->unpacks, input})
      if (o && !result) result = visit_(o, arg_);
  }

 private:
  visitproc visit_;
  void* arg_;
};

class Finder : public SavedVisitor {
 public:
  explicit Finder(const char* name) : name_(name) {}
  SavedTensor* found = nullptr;
  int index = 0, matches = 0;  // which of the node's saved tensors it is; how many have the name
  void visit(SavedTensor& saved, const char* name) override {
    bool same = std::strcmp(name, name_) == 0 ||
                (std::strcmp(name, "input") == 0 && std::strcmp(name_, "self") == 0);
    matches += same;
    if (same && (!found || found->is_empty())) {
      found = &saved;
      index = seen_;
    }
    seen_++;
  }

 private:
  const char* name_;
  int seen_ = 0;
};

}  // namespace

int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Node* node = as_node(o);
  for (uint32_t i = 0; i < node->edge_count; i++) Py_VISIT(node->edges[i].node);
  if (node->hooks) {
    for (auto& on : node->hooks->outputs) Py_VISIT(on.hooks);
    Py_VISIT(node->hooks->pre);
    Py_VISIT(node->hooks->post);
    Py_VISIT(node->hooks->metadata);
    Py_VISIT(node->hooks->induced_by);
  }
  if (node->cls->each_saved) {
    Traversal t(visit, arg);
    node->cls->each_saved(node, t);
    if (t.result) return t.result;
  }
  return node->cls->traverse ? node->cls->traverse(node, visit, arg) : 0;
}

int traverse_ours(PyObject* o, visitproc visit, void* arg) {
  return PyObject_TypeCheck(o, &TensorType) ? tensor_traverse(o, visit, arg)
                                            : node_traverse(o, visit, arg);
}

int node_clear(PyObject* o) {
  clear_node(as_node(o));
  return 0;
}

void node_dealloc(PyObject* o) {
  Node* node = as_node(o);
  PyObject_GC_UnTrack(o);
  if (node->weakrefs) PyObject_ClearWeakRefs(o);
  destroy_node(node);
  if (node->pool == 255) Py_TYPE(o)->tp_free(o);
  else free_node_slot(node);
}

namespace {

PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(Py_TYPE(o)->tp_name); }
PyObject* node_sequence(PyObject* o, PyObject*) {
  return PyLong_FromUnsignedLongLong(as_node(o)->sequence);
}

PyObject* node_next_functions(PyObject* o, void*) {
  Node* node = as_node(o);
  PyObject* tuple = PyTuple_New(node->edge_count);
  for (uint32_t i = 0; tuple && i < node->edge_count; i++) {
    PyObject* next = reinterpret_cast<PyObject*>(node->edges[i].node);
    PyObject* pair = Py_BuildValue("(OI)", next ? next : Py_None, node->edges[i].nr);
    if (!pair) Py_CLEAR(tuple);
    else PyTuple_SET_ITEM(tuple, i, pair);
  }
  return tuple;
}

PyObject* node_metadata(PyObject* o, void*) {
  NodeHooks& hooks = node_hooks(as_node(o));
  if (!hooks.metadata) {
    hooks.metadata = PyDict_New();
    track(as_node(o));
  }
  Py_XINCREF(hooks.metadata);
  return hooks.metadata;
}

// The dict that holds the node's hooks, made on demand; handles remove entries from it.
PyObject* node_hook_dict(PyObject* o, PyObject* kind) {
  NodeHooks& hooks = node_hooks(as_node(o));
  bool pre = PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "pre") == 0;
  PyObject*& dict = pre ? hooks.pre : hooks.post;
  if (!dict) dict = PyDict_New();
  track(as_node(o));
  Py_XINCREF(dict);
  return dict;
}

PyObject* new_metadata(const TensorMeta& meta) {
  static PyStructSequence_Field fields[] = {
      {"shape", nullptr}, {"dtype", nullptr}, {"device", nullptr}, {nullptr, nullptr}};
  static PyStructSequence_Desc desc{"rushlight.autograd.InputMetadata", nullptr, fields, 3};
  static PyTypeObject* type = PyStructSequence_NewType(&desc);
  PyObject* entry = type ? PyStructSequence_New(type) : nullptr;
  if (!entry) throw PythonError{};
  PyStructSequence_SetItem(entry, 0, size_object(meta.sizes));
  PyStructSequence_SetItem(entry, 1, new_reference(dtype_object(meta.dtype)));
  PyStructSequence_SetItem(entry, 2, device_object(meta.device));
  return entry;
}

PyObject* node_input_metadata(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    Node* node = as_node(o);
    PyObject* list = PyList_New(0);
    for (uint32_t i = 0; list && i < node->output_count; i++) {
      const TensorMeta& meta = node->meta(i);
      PyObject* entry = new_metadata(meta);
      if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
      Py_XDECREF(entry);
    }
    return list;
  });
}

PyObject* node_where(PyObject* o, void*) {
  const Where& where = as_node(o)->where;
  if (!where) Py_RETURN_NONE;
  return Py_BuildValue("(sis)", where.file().c_str(), where.line(), where.function().c_str());
}

// A handle on one tensor that a node saved: the place is found by its number among them.
struct RawSaved {
  PyObject_HEAD;
  Node* node;
  int index;
};

PyTypeObject RawSavedType = {PyVarObject_HEAD_INIT(nullptr, 0)};

class Numbered : public SavedVisitor {
 public:
  explicit Numbered(int index) : left_(index) {}
  SavedTensor* found = nullptr;
  void visit(SavedTensor& saved, const char*) override {
    if (left_-- == 0) found = &saved;
  }

 private:
  int left_;
};

PyObject* new_raw_saved(Node* node, int index) {
  auto* o = PyObject_New(RawSaved, &RawSavedType);
  if (!o) return nullptr;
  Py_INCREF(node);
  o->node = node;
  o->index = index;
  return reinterpret_cast<PyObject*>(o);
}

// A list for the tensors of a custom Function, a single handle otherwise.
PyObject* raw_saved(Node* node, const Finder& finder) {
  if (!is_function(node)) return new_raw_saved(node, finder.index);
  PyObject* tuple = PyTuple_New(finder.matches);
  for (int i = 0; tuple && i < finder.matches; i++)
    PyTuple_SET_ITEM(tuple, i, new_raw_saved(node, i));
  return tuple;
}

void raw_saved_dealloc(PyObject* o) {
  release_node(reinterpret_cast<RawSaved*>(o)->node);
  PyObject_Free(o);
}

PyObject* raw_saved_register(PyObject* o, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO:register_hooks", &pack, &unpack)) return nullptr;
  if (!PyCallable_Check(pack) || !PyCallable_Check(unpack)) {
    PyErr_SetString(PyExc_TypeError, "register_hooks expects two callables: pack and unpack");
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    auto* self = reinterpret_cast<RawSaved*>(o);
    Numbered at(self->index);
    self->node->cls->each_saved(self->node, at);
    check(at.found, "the node no longer has this saved tensor");
    at.found->register_hooks(self->node, pack, unpack);
    Py_RETURN_NONE;
  });
}

PyMethodDef raw_saved_methods[] = {
    {"register_hooks", raw_saved_register, METH_VARARGS,
     "register_hooks(pack, unpack): packs the saved tensor now, unpacks it in backward."},
    {},
};

// What a node keeps for its backward pass, without unpacking it.
class Lister : public SavedVisitor {
 public:
  explicit Lister(PyObject* list) : list_(list) {}
  bool failed = false;
  void visit(SavedTensor& saved, const char* name) override {
    if (failed || saved.is_empty()) return;
    Tensor* held = saved.held();
    PyObject* value = held && held->wrapped_number
                          ? tensor_item(held)
                          : new_reference(held ? reinterpret_cast<PyObject*>(held) : Py_None);
    PyObject* entry = !value ? nullptr
                             : Py_BuildValue("(sNO)", std::strcmp(name, "input") ? name : "self",
                                             value, saved.packed() ? Py_True : Py_False);
    failed = !entry || PyList_Append(list_, entry) < 0;
    Py_XDECREF(entry);
  }

 private:
  PyObject* list_;
};

// [(argument, tensor, number or None, whether hooks packed it)]
PyObject* node_kept(PyObject* o, void*) {
  Node* node = as_node(o);
  PyObject* list = PyList_New(0);
  if (!list || !node->cls->each_saved) return list;
  Lister lister(list);
  node->cls->each_saved(node, lister);
  if (lister.failed) Py_CLEAR(list);
  return list;
}

PyObject* node_op(PyObject* o, void*) {
  const OpRecord* op = as_node(o)->cls->op;
  return op ? PyUnicode_FromString(op->name) : new_reference(Py_None);
}

PyObject* node_freed(PyObject* o, void*) { return PyBool_FromLong(as_node(o)->freed); }

// The attributes of every object and those that stand for what the node keeps.
PyObject* node_dir(PyObject* o, PyObject*) {
  PyObject* names =
      PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", o);
  PyObject* kept = names ? node_kept(o, nullptr) : nullptr;
  if (!kept) Py_CLEAR(names);
  auto add = [&](const char* name) {
    PyObject* text = PyUnicode_FromFormat("_saved_%s", name);
    if (!text || PyList_Append(names, text) < 0) Py_CLEAR(names);
    Py_XDECREF(text);
  };
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(kept); i++)
    add(PyUnicode_AsUTF8(PyTuple_GET_ITEM(PyList_GET_ITEM(kept, i), 0)));
  Py_XDECREF(kept);
  const NodeClass* cls = as_node(o)->cls;
  if (!names || !cls->attribute || !cls->op) return names;
  for (const Param& param : cls->op->signature.params()) {
    PyObject* value = cls->attribute(as_node(o), ("_saved_" + param.name).c_str());
    if (value && names) add(param.name.c_str());
    Py_XDECREF(value);
  }
  PyErr_Clear();
  return names;
}

// _saved_<name> and _raw_saved_<name>.
PyObject* node_getattro(PyObject* o, PyObject* attribute) {
  PyObject* found = PyObject_GenericGetAttr(o, attribute);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  const char* text = PyUnicode_AsUTF8(attribute);
  if (!text) return nullptr;
  Node* node = as_node(o);
  if (node->cls->attribute) {
    PyObject* value = node->cls->attribute(node, text);
    if (value) {
      PyErr_Clear();
      return value;
    }
  }
  bool raw = std::strncmp(text, "_raw_saved_", 11) == 0;
  if (!node->cls->each_saved || (!raw && std::strncmp(text, "_saved_", 7) != 0)) return nullptr;
  Finder finder(text + (raw ? 11 : 7));
  node->cls->each_saved(node, finder);
  if (!finder.found) return nullptr;
  PyErr_Clear();
  if (raw) return raw_saved(node, finder);
  return guarded([&]() -> PyObject* {
    Var v = finder.found->unpack(node);
    if (!v) Py_RETURN_NONE;
    if (v->wrapped_number) return tensor_item(v.get());
    return reinterpret_cast<PyObject*>(v.release());
  });
}

// grad_fn(grad): what the node makes of gradients of its outputs.
PyObject* node_call(PyObject* o, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    Node* node = as_node(o);
    if (keywords && PyDict_GET_SIZE(keywords))
      fail_as(PyExc_TypeError, "keyword arguments are not supported");
    Py_ssize_t given = PyTuple_GET_SIZE(args);
    if (given != Py_ssize_t(node->output_count))
      fail_as(PyExc_TypeError, "expected ", node->output_count, " arguments, got ", given,
              " instead: a gradient, or None, for each output of ", Py_TYPE(o)->tp_name);
    std::vector<Var> grads;
    for (Py_ssize_t i = 0; i < given; i++) {
      PyObject* grad = PyTuple_GET_ITEM(args, i);
      if (grad != Py_None && !is_tensor(grad))
        fail_as(PyExc_TypeError, "argument ", i,
                " is not a Variable: expected a Tensor or None, got ", Py_TYPE(grad)->tp_name);
      grads.push_back(grad == Py_None ? Var() : Var(as_tensor(grad)));
    }
    std::vector<Var> results = call_node(node, grads);
    PyObject* tuple = tuple_for_user(results.data(), uint32_t(results.size()));
    if (results.size() != 1) return tuple;
    PyObject* one = new_reference(PyTuple_GET_ITEM(tuple, 0));
    Py_DECREF(tuple);
    return one;
  });
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "The name of the node, e.g. 'MulBackward0'."},
    {"_sequence_nr", node_sequence, METH_NOARGS, "When the node was made, relative to others."},
    {"_hook_dict", node_hook_dict, METH_O, nullptr},
    {"__dir__", node_dir, METH_NOARGS, nullptr},
    {},
};
PyGetSetDef node_getset[] = {
    {"next_functions", node_next_functions, nullptr, "Where gradients go next.", nullptr},
    {"metadata", node_metadata, nullptr, "A dict for the user's own notes.", nullptr},
    {"_input_metadata", node_input_metadata, nullptr, "What arriving gradients look like.",
     nullptr},
    {"_where", node_where, nullptr, "(file, line, function) of the user's code, or None.", nullptr},
    {"_kept", node_kept, nullptr, "[(argument, tensor or None, whether hooks packed it)].",
     nullptr},
    {"_op", node_op, nullptr, "The op whose node it is, where that is more than the name tells.",
     nullptr},
    {"_freed", node_freed, nullptr, "Whether what it kept was released.", nullptr},
    {},
};

void fill_type(PyTypeObject& type, const char* name) {
  type.tp_name = name;
  type.tp_basicsize = sizeof(Node);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  type.tp_dealloc = node_dealloc;
  type.tp_traverse = node_traverse;
  type.tp_clear = node_clear;
  type.tp_weaklistoffset = offsetof(Node, weakrefs);
  type.tp_getattro = node_getattro;
  type.tp_call = node_call;
}

}  // namespace

PyTypeObject* node_type(const NodeClass& cls) {
  auto* type = new PyTypeObject{PyVarObject_HEAD_INIT(nullptr, 0)};
  fill_type(*type, cls.name);
  type->tp_base = &NodeType;
  if (PyType_Ready(type) < 0) throw PythonError{};
  cls.type = type;
  return type;
}

int add_node_type(PyObject* module) {
  fill_type(NodeType, "rushlight.autograd.graph.Node");
  NodeType.tp_flags |= Py_TPFLAGS_BASETYPE;
  NodeType.tp_doc =
      "A step of the recorded graph.\n\n"
      ">>> x = torch.ones(2, requires_grad=True)\n"
      ">>> node = (2 * x).exp().grad_fn\n"
      ">>> node.name(), node.next_functions[0][0].name()\n"
      "('ExpBackward0', 'MulBackward0')";
  NodeType.tp_methods = node_methods;
  NodeType.tp_getset = node_getset;
  if (PyType_Ready(&NodeType) < 0) return -1;
  RawSavedType.tp_name = "rushlight.autograd.SavedTensor";
  RawSavedType.tp_basicsize = sizeof(RawSaved);
  RawSavedType.tp_flags = Py_TPFLAGS_DEFAULT;
  RawSavedType.tp_dealloc = raw_saved_dealloc;
  RawSavedType.tp_methods = raw_saved_methods;
  if (PyType_Ready(&RawSavedType) < 0) return -1;
  Py_INCREF(&NodeType);
  return PyModule_AddObject(module, "Node", reinterpret_cast<PyObject*>(&NodeType));
}

}  // namespace rl
