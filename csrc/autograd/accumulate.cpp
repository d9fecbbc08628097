// AccumulateGrad: the end of every path, where gradients are added to a leaf's .grad.
#include "autograd/batch.h"
#include "autograd/engine.h"
#include "autograd/forward.h"
#include "autograd/structured.h"
#include "kernels/launch.h"
#include "ops/functions.h"

namespace rl {

namespace {

thread_local bool grad_layout = true;

struct Leaf {
  Tensor* variable;
};

void destroy(Node* node) {
  Tensor* variable = std::exchange(node->payload<Leaf>().variable, nullptr);
  if (!variable) return;
  if (variable->extra && variable->extra->accumulator == node)
    variable->extra->accumulator = nullptr;
  Py_DECREF(variable);
}

int traverse(Node* node, visitproc visit, void* arg) {
  Py_VISIT(node->payload<Leaf>().variable);
  return 0;
}

PyObject* attribute(Node* node, const char* name) {
  if (std::strcmp(name, "variable") != 0) return nullptr;
  PyObject* variable = reinterpret_cast<PyObject*>(node->payload<Leaf>().variable);
  if (!variable) variable = Py_None;
  Py_INCREF(variable);
  return variable;
}

void apply(Node*, Pass&) {}  // the engine adds the gradient itself

// A gradient keeps its parameter's strides when these leave no gaps, else it is row-major.
bool obeys_layout(const Tensor* grad, const Tensor* variable) {
  if (!grad_layout) return has_distinct_elements(grad->sizes, grad->strides);
  if (is_dense(variable->sizes, variable->strides)) {
    for (int i = 0; i < grad->dim(); i++)
      if (grad->sizes[i] > 1 && grad->strides[i] != variable->strides[i]) return false;
    return true;
  }
  return grad->contiguous;
}

Var in_layout_of(const Tensor* variable, const Var& grad) {
  Var copy = is_dense(variable->sizes, variable->strides)
                 ? empty_strided(variable->sizes, variable->strides, grad->dtype, grad->device())
                 : empty(variable->sizes, grad->dtype, grad->device());
  ops::copy_data(copy.get(), grad.get());
  return copy;
}

}  // namespace

// Whether gradients take their parameters' strides.
bool& grad_layout_switch() { return grad_layout; }

const NodeClass accumulate_class = {.name = "AccumulateGrad",
                                    .apply = apply,
                                    .destroy = destroy,
                                    .attribute = attribute,
                                    .traverse = traverse,
                                    .clear = destroy,
                                    .payload = sizeof(Leaf)};

Tensor* accumulated_variable(Node* accumulator) { return accumulator->payload<Leaf>().variable; }

Node* accumulator_of(Tensor* t) {
  Extra& e = extra(t);
  if (e.accumulator) {
    Py_INCREF(e.accumulator);
  } else {
    Node* node = new_node(accumulate_class, 0);
    node->sequence = UINT64_MAX;  // runs as soon as it is ready
    Py_INCREF(t);
    node->payload<Leaf>().variable = t;
    e.accumulator = node;
    if (t->leads_to_python) mark(node);
  }
  set_output_meta(e.accumulator, 0, t);
  if (e.grad_dtype >= 0) e.accumulator->output.dtype = DType(e.grad_dtype);
  return e.accumulator;
}

void accumulate_grad(Tensor* variable, Var grad, bool create_graph, bool anew) {
  Locked one_step;  // threads may add to the same leaf
  Extra& e = extra(variable);
  Var old = Var::steal(std::exchange(e.grad, nullptr));
  if (structured_type && (is_structured(grad.get()) || is_structured(old.get()))) {
    GradMode mode(create_graph);
    e.grad = Var(old).release();  // stays in place if the addition fails
    Var sum = structured::accumulate(old, grad, create_graph || anew);
    Py_XSETREF(e.grad, sum.release());
    track(variable);
    track(e.grad);
    return;
  }
  bool batched = batch_of(grad.get()) || batch_of(variable);
  if (batched) [[unlikely]] {
    GradMode mode(create_graph);
    grad = sum_extra_levels(grad, variable);
  }
  bool dual = batched || levels_of(grad.get()) | levels_of(old.get());
  if (!old) {
    if (dual || (create_graph && requires_grad(grad.get()))) {
      GradMode mode(create_graph);
      e.grad = ops::copied(Var(variable), grad).release();
    } else if (is_exclusive(grad.get()) && obeys_layout(grad.get(), variable)) {
      e.grad = grad.release();
    } else {
      e.grad = in_layout_of(variable, grad).release();
    }
  } else if (create_graph || dual || anew) {
    GradMode mode(create_graph);
    e.grad = old.get();  // stays in place if the addition fails
    Py_INCREF(e.grad);
    Var sum = ops::add(old, grad);
    Py_SETREF(e.grad, sum.release());
  } else {
    e.grad = old.release();
    prepare_write(e.grad, "AccumulateGrad");
    ops::accumulate_into(e.grad, grad.get());
  }
  if (e.grad->grad_fn) {
    track(variable);
    track(e.grad);
  }
}

}  // namespace rl
