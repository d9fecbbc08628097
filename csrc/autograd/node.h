// A step of the recorded program: which gradients it turns into which, and where they go next.
#pragma once

#include <Python.h>

#include <utility>
#include <vector>

#include "autograd/modes.h"
#include "autograd/provenance.h"
#include "autograd/saved.h"
#include "tensor/tensor.h"

namespace rl {

struct OpRecord;

struct Edge {
  Node* node = nullptr;  // owned by the node that has the edge
  uint32_t nr = 0;
};

// What a gradient must look like when it arrives.
struct TensorMeta {
  Ints sizes;
  DType dtype = DType::F32;
  Device device;
  uint32_t batch = 0;  // its levels of vmap (autograd/batch.h)
};

// Python objects that users hang on a node.
struct NodeHooks {
  struct OnOutput {
    uint32_t nr;
    PyObject* hooks;  // dict of tensor hooks, or null
    Tensor* retains;  // weak: whose .grad is filled (retain_grad), or null
  };
  std::vector<OnOutput> outputs;
  PyObject* pre = nullptr;   // dict: fn(grad_outputs)
  PyObject* post = nullptr;  // dict: fn(grad_inputs, grad_outputs)
  PyObject* metadata = nullptr;
  std::vector<Where> stack;    // of anomaly mode: the forward call's frames, innermost first
  Node* induced_by = nullptr;  // and the node in whose backward it was made
};

// One call of a node's formula.
struct Pass {
  bool create_graph;
  bool differentiable;             // rules of public ops, for a graph or for tangents
  Var* grads;                      // of the node's outputs; null where nothing flowed
  Var* results;                    // of the node's inputs, one per edge
  uint64_t wanted = ~uint64_t(0);  // bit per edge; edges past 63 share the last bit

  bool wants(int i) const { return wanted >> (i < 63 ? i : 63) & 1; }
};

class SavedVisitor {
 public:
  virtual void visit(SavedTensor& saved, const char* name) = 0;
};

// What all nodes of one kind share. The Python type is part of it, made ready on first use.
struct NodeClass {
  const char* name;  // "MulBackward0"
  void (*apply)(Node*, Pass&);
  void (*each_saved)(Node*, SavedVisitor&) = nullptr;
  void (*destroy)(Node*) = nullptr;                      // ends the payload
  PyObject* (*attribute)(Node*, const char*) = nullptr;  // _saved_dim and the like; null: none
  int (*traverse)(Node*, visitproc, void*) = nullptr;    // other Python references
  void (*clear)(Node*) = nullptr;
  // A view's gradient lands in a part of its input's: added there, without a tensor of its own.
  void (*deposit)(Node*, const Var& grad, Var& sum) = nullptr;
  bool gives_zeros = false;  // a result that is left out is zero, rather than nothing
  size_t payload = 0;
  const OpRecord* op = nullptr;  // whose nodes they are (call/call.h)
  mutable PyTypeObject* type = nullptr;
};

// What a backward run keeps per node.
struct Scratch {
  int32_t waiting = 0;  // gradients still to come
  bool needed = true;   // leads to an input that was asked for
  bool zero = false;    // a gradient of zeros arrived, which nobody made yet
  Var first;            // the gradient of output 0
  Var* more = nullptr;  // of the others, made when one arrives

  Var& incoming(Node* node, uint32_t nr);
  void reset();
};

struct Node {
  PyObject_HEAD;
  const NodeClass* cls;
  uint64_t sequence;
  Where where;
  NodeHooks* hooks;
  PyObject* weakrefs;
  Edge* edges;
  Edge inline_edges[3];
  uint32_t edge_count;
  uint32_t output_count;
  TensorMeta output;         // of output 0
  TensorMeta* more_outputs;  // of the others
  uint8_t pool;              // which pool it came from; 255: tp_alloc
  bool freed;                // saved tensors were released
  uint16_t stream;           // where its kernels went (autograd/streams.h); 0: a device's first one
  uint32_t freed_by;         // by this backward run
  bool leads_to_python;      // a cycle may pass through it: the collector tracks it
  bool derived;              // recorded by a backward pass
  bool shared;               // its result serves more than one call (autograd/sharing.h)
  bool shown;                // users know its result

  void* run;  // the backward run that uses `scratch` now
  Scratch scratch;

  const TensorMeta& meta(uint32_t nr) const { return nr == 0 ? output : more_outputs[nr - 1]; }
  template <class T>
  T& payload() {
    return *reinterpret_cast<T*>(this + 1);
  }
};

extern PyTypeObject NodeType;
extern const NodeClass accumulate_class;

// An owned reference to a node, possibly none.
class NodeRef {
 public:
  NodeRef() = default;
  static NodeRef steal(Node* owned) {
    NodeRef ref;
    ref.node_ = owned;
    return ref;
  }
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() { Py_XDECREF(node_); }

  Node* get() const { return node_; }
  Node* release() { return std::exchange(node_, nullptr); }
  Node* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  Node* node_ = nullptr;
};

// A node with `edges` empty edges and zeroed payload, numbered and with the user's line noted.
Node* new_node(const NodeClass& cls, int edges, int outputs = 1);
void init_node(Node* node, const NodeClass* cls, int edges, int outputs);
PyTypeObject* node_type(const NodeClass& cls);

// Where gradients of t go; null when it needs none. New reference.
Edge gradient_edge(Tensor* t);
// The grad_fn as users see it: rebuilt when the base of a view was written in place. Borrowed.
Node* grad_fn_of(Tensor* t);
Node* accumulator_of(Tensor* t);  // new reference
Tensor* accumulated_variable(Node* accumulator);

// The node made last in this thread: the one whose tensors are being saved.
extern constinit thread_local Node* node_in_making __attribute__((tls_model("initial-exec")));

// Tells node_creation_hook of a node that has all its edges and saved tensors.
void announce(Node* node);
inline void created(Node* node) {
  if (modes.watched) [[unlikely]]
    announce(node);
}
void set_creation_hooks(PyObject* hooks);  // a list of callables, borrowed; null: none

uint64_t nodes_made();  // ever: the number of the next one
// Live nodes, without those of leaves.
extern int64_t live_nodes;

bool requires_grad_slow(const Tensor* t);
inline bool requires_grad(const Tensor* t) {
  return t->requires_grad || t->grad_fn || (t->extra && requires_grad_slow(t));
}
inline bool records(const Tensor* t) { return modes.records() && requires_grad(t); }

// Note that a Python object became reachable from o: the collector must see all that leads to it.
void track(Tensor* t);
void track(Node* node);
// The same for an object that is new, so that nothing leads to it yet.
void mark(Tensor* t);
void mark(Node* node);

inline void set_edge(Node* node, int i, Tensor* t) {
  if (!t) return;
  if (requires_grad(t) && is_differentiable(t->dtype)) node->edges[i] = gradient_edge(t);
  if (t->leads_to_python || (node->edges[i].node && node->edges[i].node->leads_to_python))
    mark(node);
}
void set_output_meta(Node* node, int nr, const Tensor* t);
// Makes `out` the result `nr` of node.
void set_history(Tensor* out, Node* node, int nr);

// Drops a reference without recursing through long graphs.
void release_node(Node* node);

// Releases what the node saved; `run` is the backward run that used it up, 0: none.
void free_saved(Node* node, uint32_t run = 0);
// Numbers a backward run and remembers the line that started it.
uint32_t begin_run();
[[noreturn]] void fail_second_time(Node* node);
NodeHooks& node_hooks(Node* node);
NodeHooks::OnOutput& hooks_on_output(Node* node, uint32_t nr);

extern bool collector_has_work;
// Runs the collector when many tracked objects were made since it last ran.
void collect_if_due();

void for_each_node(void (*visit)(Node*, void*), void* context);

// Adds the node's forward line to the Python exception that is set.
void annotate_error(Node* node);

}  // namespace rl
