#include "autograd/node.h"

#include <new>

#include "autograd/anomaly.h"
#include "autograd/batch.h"
#include "autograd/sharing.h"
#include "autograd/streams.h"
#include "tensor/pool.h"

namespace rl {

constinit thread_local Modes modes;
constinit thread_local Node* node_in_making = nullptr;
int64_t live_nodes = 0;

namespace {

// Nodes differ in payload; a few slot sizes serve them all.
constexpr size_t kStep = 64;
constexpr int kPools = 12;

Pool& pool(int i) {
  static Pool* pools[kPools];
  if (!pools[i]) pools[i] = new Pool(sizeof(Node) + size_t(i) * kStep);
  return *pools[i];
}

uint64_t next_sequence = 0;
thread_local PyObject* creation_hooks = nullptr;

// The lines of the latest backward runs.
constexpr uint32_t kRuns = 1 << 10;
struct Started {
  uint32_t run = 0;
  Where where;
} started[kRuns];
uint32_t last_run = 0;

void keep_stack(Node* node) {
  constexpr int kMost = 128;
  PyCodeObject* codes[kMost];
  int lastis[kMost];
  int depth = rl_user_stack(codes, lastis, kMost);
  auto& stack = node_hooks(node).stack;
  for (int i = 0; i < depth; i++) {
    Py_INCREF(codes[i]);
    stack.push_back({codes[i], lastis[i]});
  }
  if (evaluated) {
    Py_INCREF(evaluated);
    node->hooks->induced_by = evaluated;
    if (evaluated->leads_to_python && !node->leads_to_python) mark(node);
  }
}

// Nodes whose last reference went while another was being destroyed. They are chained by `run`,
// which no backward run holds any more: freeing must not need memory.
Node* graveyard = nullptr;
bool burying = false;

}  // namespace

void init_node(Node* node, const NodeClass* cls, int edges, int outputs) {
  node->cls = cls;
  node->sequence = next_sequence++;
  new (&node->where) Where();
  node->where.note();
  node->hooks = nullptr;
  node->weakrefs = nullptr;
  node->edge_count = uint32_t(edges);
  node->output_count = uint32_t(outputs);
  if (edges <= 3) {
    node->edges = node->inline_edges;
    for (Edge& e : node->inline_edges) e = {};
  } else {
    node->edges = new Edge[size_t(edges)];
  }
  new (&node->output) TensorMeta();
  node->more_outputs = outputs > 1 ? new TensorMeta[size_t(outputs) - 1] : nullptr;
  node->freed = false;
  node->stream = 0;
  node->freed_by = 0;
  node->leads_to_python = false;
  node->derived = modes.derives;
  node->shared = false;
  node->shown = false;
  node->run = nullptr;
  new (&node->scratch) Scratch();
  node_in_making = node;
  live_nodes++;
  if (modes.anomaly) [[unlikely]]
    keep_stack(node);
}

Node* new_node(const NodeClass& cls, int edges, int outputs) {
  size_t slot = (cls.payload + kStep - 1) / kStep;
  if (slot >= kPools) fail("internal error: the payload of ", cls.name, " is too large");
  if (!cls.type) node_type(cls);
  Node* node = static_cast<Node*>(pool(int(slot)).take());
  PyObject_Init(reinterpret_cast<PyObject*>(node), cls.type);
  init_node(node, &cls, edges, outputs);
  node->pool = uint8_t(slot);
  std::memset(static_cast<void*>(node + 1), 0, cls.payload);
  return node;
}

uint64_t nodes_made() { return next_sequence; }

void for_each_node(void (*visit)(Node*, void*), void* context) {
  for (int i = 0; i < kPools; i++)
    pool(i).for_each([&](PyObject* o) { visit(reinterpret_cast<Node*>(o), context); });
}

void release_node(Node* node) {
  if (!node) return;
  if (Py_REFCNT(node) > 1) {
    Py_DECREF(node);
    return;
  }
  if (burying) {
    node->run = std::exchange(graveyard, node);
    return;
  }
  burying = true;
  Py_DECREF(node);
  while (Node* next = graveyard) {
    graveyard = static_cast<Node*>(std::exchange(next->run, nullptr));
    Py_DECREF(next);
  }
  burying = false;
}

namespace {

class Freer : public SavedVisitor {
  void visit(SavedTensor& saved, const char*) override { saved.free(); }
};

void drop_hooks(NodeHooks* hooks) {
  for (Where& frame : hooks->stack) frame.drop();
  hooks->stack.clear();
  for (auto& on : hooks->outputs) Py_CLEAR(on.hooks);
  Py_CLEAR(hooks->pre);
  Py_CLEAR(hooks->post);
  Py_CLEAR(hooks->metadata);
  release_node(std::exchange(hooks->induced_by, nullptr));
}

}  // namespace

void free_saved(Node* node, uint32_t run) {
  node->freed = true;
  node->freed_by = run;
  if (node->cls->each_saved) {
    Freer freer;
    node->cls->each_saved(node, freer);
  }
}

// Lets go of everything that may lie on a cycle; the node stays a valid, empty object.
void clear_node(Node* node) {
  if (node->cls->each_saved) {
    Freer freer;
    node->cls->each_saved(node, freer);
  }
  if (node->cls->clear) node->cls->clear(node);
  for (uint32_t i = 0; i < node->edge_count; i++)
    release_node(std::exchange(node->edges[i].node, nullptr));
  if (node->hooks) drop_hooks(node->hooks);
}

uint32_t begin_run() {
  if (++last_run == 0) ++last_run;
  Started& s = started[last_run % kRuns];
  s.run = last_run;
  s.where.note();
  return last_run;
}

void fail_second_time(Node* node) {
  const Started& s = started[node->freed_by % kRuns];
  std::string first = !node->freed_by
                          ? "none: a hook raised while the node was made, or it was cleared"
                      : s.run == node->freed_by ? s.where.text_with_source()
                                                : "a line no longer on record";
  fail(
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already been freed). Saved intermediate values of the graph are freed when you "
      "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
      "through the graph a second time or if you need to access saved tensors after calling "
      "backward.\n  the first backward ran at ",
      first, "\n  the part used again was made at ", node->where.text_with_source(), " (",
      Py_TYPE(node)->tp_name, ", a result of shape ", node->output.sizes,
      ")\nFix: if a tensor carries the old graph into a new iteration (a hidden state, a running "
      "loss), detach() it there; if both passes are meant, give the first retain_graph=True.");
}

void set_creation_hooks(PyObject* hooks) {
  creation_hooks = hooks;
  modes.watched = hooks != nullptr;
}

void announce(Node* node) {
  PyObject* hooks = PyList_AsTuple(creation_hooks);
  if (!hooks) throw PythonError{};
  modes.watched = false;  // what the hooks compute is their own affair
  Sharing off(false);
  bool done = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(hooks) && done; i++) {
    PyObject* result =
        PyObject_CallOneArg(PyTuple_GET_ITEM(hooks, i), reinterpret_cast<PyObject*>(node));
    done = result;
    Py_XDECREF(result);
  }
  modes.watched = true;
  Py_DECREF(hooks);
  if (!done) throw PythonError{};
}

void destroy_node(Node* node) {
  live_nodes--;
  clear_node(node);
  if (node->cls->destroy) node->cls->destroy(node);
  if (node->edges != node->inline_edges) delete[] node->edges;
  delete node->hooks;
  delete[] node->more_outputs;
  node->output.~TensorMeta();
  node->scratch.reset();
  node->where.drop();
}

Var& Scratch::incoming(Node* node, uint32_t nr) {
  if (nr == 0) return first;
  if (!more) more = new Var[node->output_count - 1];
  return more[nr - 1];
}

void Scratch::reset() {
  first = {};
  delete[] std::exchange(more, nullptr);
}

void free_node_slot(Node* node) { pool(node->pool).give(node); }

NodeHooks& node_hooks(Node* node) {
  if (!node->hooks) node->hooks = new NodeHooks;
  return *node->hooks;
}

NodeHooks::OnOutput& hooks_on_output(Node* node, uint32_t nr) {
  NodeHooks& hooks = node_hooks(node);
  for (auto& on : hooks.outputs)
    if (on.nr == nr) return on;
  hooks.outputs.push_back({nr, nullptr, nullptr});
  return hooks.outputs.back();
}

void set_output_meta(Node* node, int nr, const Tensor* t) {
  TensorMeta& meta = nr == 0 ? node->output : node->more_outputs[nr - 1];
  meta.sizes = t->sizes;
  meta.dtype = t->dtype;
  meta.device = t->storage->device;
  meta.batch = batched_tensors ? batch_key(t) : 0;
  if (streams_used && meta.device.type == Device::CUDA) [[unlikely]]
    node->stream = current_stream_number(meta.device.index);
}

void set_history(Tensor* out, Node* node, int nr) {
  set_output_meta(node, nr, out);
  Py_INCREF(node);
  Node* old = out->grad_fn;
  out->grad_fn = node;
  out->output_nr = uint32_t(nr);
  release_node(old);
  if (node->leads_to_python) mark(out);
}

bool requires_grad_slow(const Tensor* t) { return t->extra->base && requires_grad(t->extra->base); }

Edge gradient_edge(Tensor* t) {
  Node* fn = t->extra && t->extra->base ? grad_fn_of(t) : t->grad_fn;
  if (fn) {
    Py_INCREF(fn);
    return {fn, t->output_nr};
  }
  if (t->requires_grad) return {accumulator_of(t), 0};
  return {};
}

namespace {

// Frames as Python prints them, the outermost first.
std::string stack_text(const std::vector<Where>& stack) {
  std::string text;
  for (size_t i = stack.size(); i-- > 0;) {
    const Where& frame = stack[i];
    text +=
        concat("\n  File \"", frame.file(), "\", line ", frame.line(), ", in ", frame.function());
    std::string at = frame.text_with_source(), lead = frame.text() + ": ";
    if (at.size() > lead.size()) text += "\n    " + at.substr(lead.size());
  }
  return text;
}

// Puts the forward call's frames on the exception, the outermost first.
void attach_stack(PyObject* exception, const std::vector<Where>& stack) {
  PyObject* frames = PyList_New(0);
  for (size_t i = stack.size(); i-- > 0;) {
    const Where& frame = stack[i];
    PyObject* entry =
        Py_BuildValue("(sis)", frame.file().c_str(), frame.line(), frame.function().c_str());
    if (frames && entry) PyList_Append(frames, entry);
    Py_XDECREF(entry);
  }
  if (frames) PyObject_SetAttrString(exception, "forward_traceback", frames);
  Py_XDECREF(frames);
  PyErr_Clear();
}

// What PyTorch says in anomaly mode when a node raises. The exception goes on whatever becomes of
// the warning.
void warn_of_anomaly(const Node* node) {
  auto has_stack = [](const Node* n) { return n->hooks && !n->hooks->stack.empty(); };
  std::string text = concat("Error detected in ", Py_TYPE(node)->tp_name, ". ");
  if (has_stack(node))
    text += "Traceback of forward call that caused the error:" + stack_text(node->hooks->stack);
  else
    text +=
        "No forward pass information available. Enable detect anomaly during forward pass for "
        "more information.";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) PyErr_Clear();
  for (const Node* n = node; n->hooks && (n = n->hooks->induced_by);) {
    text = concat("Previous calculation was induced by ", Py_TYPE(n)->tp_name, ". ");
    text += has_stack(n) ? "Traceback of forward call that induced the previous calculation:" +
                               stack_text(n->hooks->stack)
                         : "No forward pass information available.";
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) PyErr_Clear();
  }
}

}  // namespace

void annotate_error(Node* node) {
  if (!node->where) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value) {
    std::string note =
        concat("raised in ", node->cls ? Py_TYPE(node)->tp_name : "a node",
               ", the backward of the operation at ", node->where.text_with_source());
    bool whole = node->hooks && !node->hooks->stack.empty();
    attach_stack(value, whole ? node->hooks->stack : std::vector{node->where});
    if (whole)
      note += "\nTraceback of the forward call (most recent call last):" +
              stack_text(node->hooks->stack);
    if (modes.anomaly) warn_of_anomaly(node);
    PyObject* done = PyObject_CallMethod(value, "add_note", "s", note.c_str());
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
  }
  PyErr_Restore(type, value, traceback);
}

void raise_current_exception() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const Error& e) {
    PyErr_SetString(e.type, e.text.c_str());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace rl
