// backward, grad, and the switches of autograd.
#include <unordered_set>

#include "autograd/cuts.h"
#include "autograd/engine.h"
#include "autograd/writes.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

PyObject* live_graphs(PyObject*, PyObject*);
PyObject* collector_callback(PyObject*, PyObject* const* args, Py_ssize_t count);

namespace {

// What gradients start from or are wanted for: a tensor or (node, output_nr).
class Place {
 public:
  explicit Place(PyObject* o) {
    if (is_tensor(o)) {
      tensor = as_tensor(o);
      edge_ = gradient_edge(tensor);
    } else if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 &&
               PyObject_TypeCheck(PyTuple_GET_ITEM(o, 0), &NodeType)) {
      edge_.node = reinterpret_cast<Node*>(new_reference(PyTuple_GET_ITEM(o, 0)));
      edge_.nr = uint32_t(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(o, 1)));
      if (PyErr_Occurred()) PyErr_Clear();
      if (edge_.nr >= edge_.node->output_count) {
        Py_DECREF(edge_.node);
        fail("GradientEdge: the node has ", edge_.node->output_count, " outputs, got output_nr ",
             edge_.nr);
      }
    } else {
      fail_as(PyExc_TypeError, "expected a Tensor or a GradientEdge, got ", Py_TYPE(o)->tp_name);
    }
  }
  Place(Place&& other) noexcept : tensor(other.tensor), edge_(other.edge_) {
    other.edge_.node = nullptr;
  }
  ~Place() { release_node(edge_.node); }
  const Edge& edge() const { return edge_; }
  Tensor* tensor = nullptr;

 private:
  Edge edge_;
};

const char* shape_text(const Ints& sizes, std::string& room) {
  room = concat("torch.Size(", sizes, ")");
  return room.c_str();
}

// The gradient a root starts with: the given one, checked, or 1 for a scalar.
Var root_gradient(const Place& root, PyObject* given, size_t i, bool create_graph) {
  const TensorMeta& meta = root.edge().node->meta(root.edge().nr);
  if (given && given != Py_None) {
    if (!is_tensor(given))
      fail_as(PyExc_TypeError, "gradients can be either Tensors or None, but got ",
              Py_TYPE(given)->tp_name);
    Tensor* g = as_tensor(given);
    std::string a, b;
    const Where& made = root.edge().node->where;
    if (g->sizes != meta.sizes)
      fail("Mismatch in shape: grad_output[", i, "] has a shape of ", shape_text(g->sizes, a),
           " and output[", i, "] has a shape of ", shape_text(meta.sizes, b),
           ". The output was made at ", made.text_with_source());
    if (is_complex(g->dtype) != is_complex(meta.dtype))
      fail(
          "For complex Tensors, both grad_output and output are required to have the same dtype. "
          "Mismatch in dtype: grad_output[",
          i, "] has a dtype of torch.", name(g->dtype), " and output[", i,
          "] has a dtype of torch.", name(meta.dtype), ".");
    if (g->device() != meta.device)
      fail("Mismatch in device: grad_output[", i, "] is on ", device_text(g->device()),
           " and output[", i, "] on ", device_text(meta.device), ". The output was made at ",
           made.text_with_source());
    Var grad(g);
    if (g->dtype != meta.dtype) {
      GradMode mode(create_graph);
      grad = ops::to(grad, meta.dtype);
    }
    return grad;
  }
  if (element_count(meta.sizes) != 1)
    fail("grad can be implicitly created only for scalar outputs (output ", i, " has shape ",
         meta.sizes,
         "; pass a gradient of that shape, or reduce it with .sum() or .mean()). It was "
         "made at ",
         root.edge().node->where.text_with_source());
  if (!is_floating(meta.dtype))
    fail("grad can be implicitly created only for real scalar outputs but got torch.",
         name(meta.dtype));
  return ops::full(meta.sizes, 1, meta.dtype, meta.device);
}

std::vector<Place> places(PyObject* sequence) {
  std::vector<Place> list;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < n; i++) list.emplace_back(PySequence_Fast_GET_ITEM(sequence, i));
  return list;
}

// What cut the history of a tensor, for an error message.
std::string why_no_history(const Tensor* t) {
  if (!t) return "";
  if (const Cut* cut = find_cut(t->cut)) return "\n  its history was cut: " + cut_text(*cut);
  if (t->cut) return "\n  its history was cut; where is no longer on record";
  return concat("\n  nothing it was computed from requires grad: it is a tensor of shape ",
                t->sizes, " and dtype ", name(t->dtype),
                "; call requires_grad_() on the inputs to differentiate");
}

// Graphs that outlive their backward pass, more of them each time the same line runs one: an
// accumulator keeps them. The Python side finds out which and warns once.
void watch_growth() {
  constexpr int kPatience = 3, kPause = -1000;
  static PyCodeObject* code = nullptr;  // compared, never used
  static int lasti = 0, streak = 0;
  static int64_t before = 0;
  static uint64_t marks[kPatience + 1] =
      {};  // nodes made until the latest passes, the oldest first
  std::copy(marks + 1, std::end(marks), marks);
  marks[kPatience] = nodes_made();
  int now_lasti;
  PyCodeObject* now = rl_user_frame(&now_lasti);
  bool same = now == code && now_lasti == lasti;
  bool grew = live_nodes > before;
  code = now;
  lasti = now_lasti;
  before = live_nodes;
  if (streak >= 0) streak = same && grew ? streak + 1 : 0;
  else streak++;
  if (streak < kPatience) return;
  streak = kPause;
  PyObject* module = PyImport_ImportModule("rushlight.autograd._growth");
  PyObject* list = PyList_New(0);
  for (uint64_t mark : marks) {
    PyObject* number = PyLong_FromUnsignedLongLong(mark);
    if (list && number && PyList_Append(list, number) < 0) Py_CLEAR(list);
    Py_XDECREF(number);
  }
  PyObject* done =
      module && list ? PyObject_CallMethod(module, "warn_of_growth", "O", list) : nullptr;
  Py_XDECREF(list);
  Py_XDECREF(module);
  if (!done) throw PythonError{};
  Py_DECREF(done);
}

// Shared by Tensor.backward, autograd.backward and autograd.grad. `inputs` may be null.
std::vector<Var> differentiate(std::vector<Place>& roots, PyObject* const* grads, bool keep,
                               bool create_graph, std::vector<Place>* inputs, bool accumulate) {
  Request request;
  request.keep_graph = keep;
  request.create_graph = create_graph;
  request.accumulate = accumulate;
  for (size_t i = 0; i < roots.size(); i++) {
    if (!roots[i].edge().node)
      fail("element ", i, " of tensors does not require grad and does not have a grad_fn",
           why_no_history(roots[i].tensor));
    request.roots.push_back(roots[i].edge());
    request.grads.push_back(root_gradient(roots[i], grads ? grads[i] : nullptr, i, create_graph));
  }
  if (inputs)
    for (Place& p : *inputs) request.inputs.push_back(p.edge());
  std::vector<Var> results = run_backward(request);
  if (inputs && accumulate)  // backward(inputs=[non-leaf])
    for (size_t i = 0; i < results.size(); i++)
      if (Tensor* t = (*inputs)[i].tensor; t && results[i] && !(t->extra && t->extra->retains_grad))
        accumulate_grad(t, std::move(results[i]), create_graph);
  request.grads.clear();
  collect_if_due();
  if (!keep) watch_growth();
  return results;
}

int as_flag(PyObject* o, bool otherwise) {
  return !o || o == Py_None ? otherwise : PyObject_IsTrue(o);
}

}  // namespace

// Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)
PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
  PyObject *gradient = nullptr, *retain = nullptr, *create = nullptr, *inputs = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO:backward", const_cast<char**>(keywords),
                                   &gradient, &retain, &create, &inputs))
    return nullptr;
  if (inputs && inputs != Py_None) {
    PyObject* module = PyImport_ImportModule("rushlight.autograd");
    PyObject* done =
        module ? PyObject_CallMethod(module, "backward", "OOOOOO", self,
                                     gradient ? gradient : Py_None, retain ? retain : Py_None,
                                     create ? create : Py_False, Py_None, inputs)
               : nullptr;
    Py_XDECREF(module);
    return done;
  }
  return guarded([&]() -> PyObject* {
    int create_graph = as_flag(create, false);
    if (create_graph < 0) throw PythonError{};
    int keep = as_flag(retain, create_graph);
    if (keep < 0) throw PythonError{};
    std::vector<Place> roots;
    roots.emplace_back(self);
    differentiate(roots, &gradient, keep, create_graph, nullptr, true);
    Py_RETURN_NONE;
  });
}

// _run_backward(roots, grads, keep, create_graph, inputs or None, accumulate) -> tuple
PyObject* run_backward_api(PyObject*, PyObject* args) {
  PyObject *roots_arg, *grads_arg, *inputs_arg;
  int keep, create_graph, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!ppOp", &PyTuple_Type, &roots_arg, &PyTuple_Type, &grads_arg,
                        &keep, &create_graph, &inputs_arg, &accumulate))
    return nullptr;
  return guarded([&]() -> PyObject* {
    check(PyTuple_GET_SIZE(roots_arg) == PyTuple_GET_SIZE(grads_arg), "got ",
          PyTuple_GET_SIZE(roots_arg), " tensors and ", PyTuple_GET_SIZE(grads_arg), " gradients");
    std::vector<Place> roots = places(roots_arg), inputs;
    bool has_inputs = inputs_arg != Py_None;
    if (has_inputs) {
      if (!PyTuple_Check(inputs_arg)) fail_as(PyExc_TypeError, "inputs must be a tuple");
      inputs = places(inputs_arg);
      for (Place& p : inputs)
        if (!p.edge().node) fail("One of the differentiated Tensors does not require grad");
    }
    std::vector<PyObject*> grads;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grads_arg); i++)
      grads.push_back(PyTuple_GET_ITEM(grads_arg, i));
    std::vector<Var> results = differentiate(roots, grads.data(), keep, create_graph,
                                             has_inputs ? &inputs : nullptr, accumulate);
    PyObject* tuple = PyTuple_New(Py_ssize_t(results.size()));
    for (size_t i = 0; tuple && i < results.size(); i++) {
      PyObject* item =
          results[i] ? reinterpret_cast<PyObject*>(results[i].release()) : new_reference(Py_None);
      PyTuple_SET_ITEM(tuple, Py_ssize_t(i), item);
    }
    return tuple;
  });
}

PyObject* gradient_edge_api(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o))
      fail_as(PyExc_TypeError, "get_gradient_edge needs a Tensor, got ", Py_TYPE(o)->tp_name);
    Edge edge = gradient_edge(as_tensor(o));
    check(edge.node,
          "It is not possible to get the gradient edge for a Tensor that does not "
          "require gradients");
    return Py_BuildValue("(NI)", edge.node, edge.nr);
  });
}

namespace {

PyObject* is_grad_enabled(PyObject*, PyObject*) {
  follow_context();
  return PyBool_FromLong(modes.records());
}
PyObject* grad_flag(PyObject*, PyObject*) {
  follow_context();
  return PyBool_FromLong(modes.grad);
}
PyObject* is_inference_enabled(PyObject*, PyObject*) {
  follow_context();
  return PyBool_FromLong(modes.inference);
}
PyObject* set_anomaly(PyObject*, PyObject* args) {
  int mode, check_nan = 1;
  if (!PyArg_ParseTuple(args, "p|p", &mode, &check_nan)) return nullptr;
  modes.anomaly = mode;
  modes.anomaly_check_nan = check_nan;
  Py_RETURN_NONE;
}
PyObject* is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(modes.anomaly); }
PyObject* is_anomaly_nan(PyObject*, PyObject*) { return PyBool_FromLong(modes.anomaly_check_nan); }

// _cut(tensor): (reason, op, text) of what cut its history, or None.
PyObject* get_cut(PyObject*, PyObject* o) {
  const Cut* cut = is_tensor(o) ? find_cut(as_tensor(o)->cut) : nullptr;
  if (!cut && is_tensor(o) && as_tensor(o)->cut)
    return Py_BuildValue("(sss)", "forgotten", "", "where is no longer on record");
  if (!cut) Py_RETURN_NONE;
  static const char* const reasons[] = {"no_grad", "inference_mode", "detach",
                                        "data",    "copied",         "no_derivative"};
  return Py_BuildValue("(sss)", reasons[int(cut->reason)], cut->op ? cut->op : "",
                       cut_text(*cut).c_str());
}
// _note_copied(tensor, what): values were copied out of tensors with history.
PyObject* note_copied(PyObject*, PyObject* args) {
  PyObject* o;
  const char* what;
  if (!PyArg_ParseTuple(args, "O!s", &TensorType, &o, &what)) return nullptr;
  static const char* const known[] = {"tensor", "as_tensor", "deepcopy", "copy", "pickle"};
  for (const char* k : known)
    if (std::strcmp(k, what) == 0) as_tensor(o)->cut = note_cut(CutReason::Copied, k);
  Py_RETURN_NONE;
}
PyObject* get_current_run(PyObject*, PyObject*) { return PyLong_FromLongLong(current_run()); }
PyObject* get_will_execute(PyObject*, PyObject* node) {
  return guarded([&]() -> PyObject* {
    if (!PyObject_TypeCheck(node, &NodeType))
      fail_as(PyExc_TypeError, "expected a Node, got ", Py_TYPE(node)->tp_name);
    return PyBool_FromLong(will_execute(reinterpret_cast<Node*>(node)));
  });
}
PyObject* add_callback(PyObject*, PyObject* function) {
  return guarded([&]() -> PyObject* {
    queue_callback(function);
    Py_RETURN_NONE;
  });
}
// _edge_stand_in(node, i): an empty tensor whose gradient flows into edge i of the node, or None.
PyObject* edge_stand_in(PyObject*, PyObject* args) {
  PyObject* o;
  unsigned i;
  if (!PyArg_ParseTuple(args, "O!I", &NodeType, &o, &i)) return nullptr;
  return guarded([&]() -> PyObject* {
    auto* node = reinterpret_cast<Node*>(o);
    check(i < node->edge_count, "the node has ", node->edge_count, " edges, got ", i);
    const Edge& edge = node->edges[i];
    if (!edge.node) Py_RETURN_NONE;
    Var v = empty({0}, edge.node->meta(edge.nr).dtype, edge.node->meta(edge.nr).device);
    Py_INCREF(edge.node);
    v->grad_fn = edge.node;
    v->output_nr = edge.nr;
    if (edge.node->leads_to_python) mark(v.get());
    return reinterpret_cast<PyObject*>(v.release());
  });
}
PyObject* get_live_nodes(PyObject*, PyObject*) { return PyLong_FromLongLong(live_nodes); }

PyObject* increment_version(PyObject*, PyObject* o) {
  if (!is_tensor(o)) {
    PyErr_Format(PyExc_TypeError, "increment_version expects a Tensor, got %s",
                 Py_TYPE(o)->tp_name);
    return nullptr;
  }
  Storage* s = as_tensor(o)->storage;
  if (!s->inference) {
    s->version++;
    s->writer.note();
    s->writer_op = "increment_version";
    if (s->saved) log_write(as_tensor(o), "increment_version");
  }
  Py_RETURN_NONE;
}

// _leads_beyond(tensor, inputs): whether its history reaches a leaf that is none of the inputs.
PyObject* leads_beyond(PyObject*, PyObject* args) {
  PyObject *tensor, *inputs;
  if (!PyArg_ParseTuple(args, "O!O!:_leads_beyond", &TensorType, &tensor, &PyTuple_Type, &inputs))
    return nullptr;
  return guarded([&]() -> PyObject* {
    std::unordered_set<PyObject*> own;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++)
      own.insert(PyTuple_GET_ITEM(inputs, i));
    if (own.count(tensor) && !grad_fn_of(as_tensor(tensor))) Py_RETURN_FALSE;
    Edge root = gradient_edge(as_tensor(tensor));
    if (!root.node) Py_RETURN_FALSE;
    NodeRef hold = NodeRef::steal(root.node);
    std::unordered_set<Node*> seen{root.node};
    std::vector<Node*> stack{root.node};
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (node->cls == &accumulate_class) {
        Tensor* variable = accumulated_variable(node);
        if (!own.count(reinterpret_cast<PyObject*>(variable)) && !variable->extra->was_stand_in)
          Py_RETURN_TRUE;
      }
      for (uint32_t i = 0; i < node->edge_count; i++)
        if (Node* next = node->edges[i].node; next && seen.insert(next).second)
          stack.push_back(next);
    }
    Py_RETURN_FALSE;
  });
}

// _retire(tensors): a transform has ended; nobody differentiates by its stand-ins any more.
PyObject* retire(PyObject*, PyObject* tensors) {
  if (!PyTuple_Check(tensors)) return PyErr_Format(PyExc_TypeError, "expected a tuple");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++)
    extra(as_tensor(PyTuple_GET_ITEM(tensors, i))).was_stand_in = true;
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef autograd_functions[] = {
    {"_retire", retire, METH_O, nullptr},
    {"_run_backward", run_backward_api, METH_VARARGS, nullptr},
    {"_leads_beyond", leads_beyond, METH_VARARGS, nullptr},
    {"_gradient_edge", gradient_edge_api, METH_O, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS,
     "Whether operations are recorded.\n\n"
     ">>> with torch.no_grad():\n"
     "...     torch.is_grad_enabled()\n"
     "False"},
    {"_grad_flag", grad_flag, METH_NOARGS, nullptr},
    {"is_inference_mode_enabled", is_inference_enabled, METH_NOARGS,
     "Whether inference_mode is on.\n\n"
     ">>> with torch.inference_mode():\n"
     "...     torch.is_inference_mode_enabled()\n"
     "True"},
    {"_set_anomaly", set_anomaly, METH_VARARGS, nullptr},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS,
     "Whether anomaly mode is on.\n\n"
     ">>> torch.is_anomaly_enabled()\n"
     "False"},
    {"is_anomaly_check_nan_enabled", is_anomaly_nan, METH_NOARGS,
     "Whether anomaly mode looks for NaN.\n\n"
     ">>> with torch.autograd.set_detect_anomaly(True, check_nan=False):\n"
     "...     torch.is_anomaly_check_nan_enabled()\n"
     "False"},
    {"_cut", get_cut, METH_O, nullptr},
    {"_note_copied", note_copied, METH_VARARGS, nullptr},
    {"_current_graph_task_id", get_current_run, METH_NOARGS, nullptr},
    {"_will_execute", get_will_execute, METH_O, nullptr},
    {"_queue_callback", add_callback, METH_O, nullptr},
    {"_edge_stand_in", edge_stand_in, METH_VARARGS, nullptr},
    {"_live_nodes", get_live_nodes, METH_NOARGS, nullptr},
    {"_live_graphs", live_graphs, METH_NOARGS, nullptr},
    {"_increment_version", increment_version, METH_O, nullptr},
    {"_collector_callback",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(collector_callback)), METH_FASTCALL,
     nullptr},
    {},
};

}  // namespace rl
