#include "autograd/history.h"

#include "autograd/forward.h"

namespace rl {

namespace {

// The gradient itself is the first edge; all others get zeros.
void apply(Node*, Pass& pass) { pass.results[0] = pass.grads[0]; }

const NodeClass& bound_class() {
  static const NodeClass cls = [] {
    NodeClass c{};
    c.name = "BoundBackward0";
    c.apply = apply;
    c.gives_zeros = true;
    return c;
  }();
  return cls;
}

// A node whose first edge is the tensor's own history; the others are to follow.
NodeRef bound_node(Tensor* t, size_t others) {
  NodeRef node = NodeRef::steal(new_node(bound_class(), int(others) + 1));
  set_edge(node.get(), 0, t);
  return node;
}

Var with_history(Tensor* t, Node* node) {
  Var bound = alias(t);
  if (dual_levels) share_tangents(bound.get(), t);
  set_history(bound.get(), node, 0);
  created(node);
  return bound;
}

}  // namespace

void bind_history(Var& grad, Node* of) {
  if (!grad || !modes.records()) return;
  NodeRef node = bound_node(grad.get(), of->edge_count);
  for (uint32_t i = 0; i < of->edge_count; i++) {
    Edge edge = of->edges[i];
    if (!edge.node) continue;
    Py_INCREF(edge.node);
    node->edges[i + 1] = edge;
    if (edge.node->leads_to_python) mark(node.get());
  }
  grad = with_history(grad.get(), node.get());
}

void bind_history(Var& tangent, const std::vector<Var>& arguments) {
  if (!tangent || !modes.records()) return;
  NodeRef node = bound_node(tangent.get(), arguments.size());
  bool any = false;
  for (size_t i = 0; i < arguments.size(); i++) {
    set_edge(node.get(), int(i) + 1, arguments[i].get());
    any = any || node->edges[i + 1].node;
  }
  if (any) tangent = with_history(tangent.get(), node.get());
}

}  // namespace rl
