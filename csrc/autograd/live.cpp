// What graphs are alive, how large they are and which tensors hold them.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/node.h"

namespace rl {

namespace {

class Census {
 public:
  Census() {
    for_each_node([](Node* n, void* self) { static_cast<Census*>(self)->add(n); }, this);
    for_each_tensor(
        [](Tensor* t, void* self) {
          if (t->grad_fn) static_cast<Census*>(self)->add(t->grad_fn);
        },
        this);
    // The nodes of custom Functions lie in no pool: they are found along the edges.
    for (size_t i = 0; i < nodes_.size(); i++)
      for (uint32_t e = 0; e < nodes_[i]->edge_count; e++) {
        Node* next = nodes_[i]->edges[e].node;
        if (!next || next->cls == &accumulate_class) continue;
        add(next);
        reached_.insert(next);
        join(nodes_[i], next);
      }
  }

  struct Graph {
    std::vector<Node*> roots;
    int64_t nodes = 0, bytes = 0;
  };

  std::vector<Graph> graphs() {
    std::unordered_map<Node*, Graph> found;
    for (Node* node : nodes_) {
      Graph& graph = found[leader(node)];
      graph.nodes++;
      if (!reached_.count(node)) graph.roots.push_back(node);
      if (node->cls->each_saved) {
        Weigher weigher(graph.bytes, weighed_);
        node->cls->each_saved(node, weigher);
      }
    }
    std::vector<Graph> list;
    for (auto& entry : found) list.push_back(std::move(entry.second));
    return list;
  }

 private:
  // Bytes of what is kept for backward alone: not of parameters, and each storage once.
  class Weigher : public SavedVisitor {
   public:
    Weigher(int64_t& bytes, std::unordered_set<Storage*>& seen) : bytes_(bytes), seen_(seen) {}
    void visit(SavedTensor& saved, const char*) override {
      Tensor* t = saved.held();
      if (t && !t->requires_grad && seen_.insert(t->storage).second) bytes_ += t->storage->bytes;
    }

   private:
    int64_t& bytes_;
    std::unordered_set<Storage*>& seen_;
  };

  void add(Node* node) {
    if (node->cls == &accumulate_class || !leader_.emplace(node, node).second) return;
    nodes_.push_back(node);
  }
  Node* leader(Node* node) {
    Node* top = node;
    while (leader_[top] != top) top = leader_[top];
    while (leader_[node] != top) node = std::exchange(leader_[node], top);
    return top;
  }
  void join(Node* a, Node* b) { leader_[leader(a)] = leader(b); }

  std::vector<Node*> nodes_;
  std::unordered_map<Node*, Node*> leader_;
  std::unordered_set<Node*> reached_;
  std::unordered_set<Storage*> weighed_;
};

}  // namespace

// _live_graphs(): [(root nodes, number of nodes, bytes saved)]
PyObject* live_graphs(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  if (!list) return nullptr;
  for (Census::Graph& graph : Census().graphs()) {
    PyObject* roots = PyList_New(0);
    for (Node* node : graph.roots)
      if (roots && PyList_Append(roots, reinterpret_cast<PyObject*>(node)) < 0) Py_CLEAR(roots);
    PyObject* entry =
        roots ? Py_BuildValue("(NLL)", roots, (long long)graph.nodes, (long long)graph.bytes)
              : nullptr;
    if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
    Py_XDECREF(entry);
    if (!list) return nullptr;
  }
  return list;
}

}  // namespace rl
