#include "autograd/inplace.h"

#include "autograd/engine.h"
#include "autograd/region.h"
#include "ops/functions.h"

namespace rl {

namespace {

using PartPtr = Part*;

void destroy_part(Node* node) { delete std::exchange(node->payload<PartPtr>(), nullptr); }

// The gradient of a base after a write to one of its views: the part that was written belongs to
// what was written (edge 1), the rest to the base as it was (edge 0).
void apply_slices(Node* node, Pass& pass) {
  const Part& part = *node->payload<PartPtr>();
  const Var& g = pass.grads[0];
  Var taken = part.read(g);
  if (pass.wants(1)) pass.results[1] = pass.create_graph ? taken : ops::clone(taken);
  if (pass.wants(0))
    pass.results[0] = part.written(g, ops::zeros(taken.sizes(), taken.dtype(), taken.device()));
}

const NodeClass slices_class = {.name = "CopySlices",
                                .apply = apply_slices,
                                .destroy = destroy_part,
                                .payload = sizeof(PartPtr)};

// The history of a view whose base was written: the same elements taken from the base anew.
void apply_region(Node* node, Pass& pass) {
  pass.results[0] = node->payload<PartPtr>()->embedded(pass.grads[0]);
}

const NodeClass region_class = {.name = "AsStridedBackward0",
                                .apply = apply_region,
                                .destroy = destroy_part,
                                .payload = sizeof(PartPtr)};

// Gives a view the history of the elements of its base that it shows.
void adopt_view(Tensor* t) {
  Extra& e = *t->extra;
  Node* before = t->grad_fn;
  uint32_t before_nr = t->output_nr;
  Py_XINCREF(before);
  Node* node = new_node(region_class, 1);
  node->payload<PartPtr>() = new Part(t, e.base);
  set_edge(node, 0, e.base);
  set_history(t, node, 0);
  t->requires_grad = false;  // it may have been a leaf of its own
  e.view_version = t->storage->version;
  move_retained(t, before, before_nr);
  release_node(before);
  created(node);
  Py_DECREF(node);
}

[[noreturn]] void refuse_view(const Tensor* t) {
  Node* maker = t->grad_fn;
  std::string made = maker ? Py_TYPE(maker)->tp_name : "a function";
  made = made.substr(0, made.find("Backward"));
  switch (t->extra->creation) {
    case Creation::Inference:
      fail(
          "A view was created in inference mode and is being modified inplace in normal mode. "
          "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
          "your code by moving both the view and the inplace either both inside the "
          "inference_mode block or both outside.");
    default:
      fail(
          "Output ", t->output_nr, " of ", made,
          " is a view and is being modified inplace. This view was created inside a custom "
          "Function (or because an input was returned as-is) and the autograd logic to handle "
          "view+inplace would override the custom backward associated with the custom Function, "
          "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning "
          "the output of the custom Function.");
  }
}

}  // namespace

void set_view(Tensor* view, Tensor* of, Creation creation) {
  Extra& e = extra(view);
  Tensor* base = of->extra && of->extra->base ? of->extra->base : of;
  if (of->extra && of->extra->base && of->extra->creation > creation)
    creation = of->extra->creation;
  Py_INCREF(base);
  e.base = base;
  e.creation = creation;
  e.view_version = view->storage->version;
  if (base->leads_to_python) mark(view);
}

void leave_base(Tensor* view) {
  Tensor* base = std::exchange(view->extra->base, nullptr);
  view->extra->creation = Creation::Default;
  Py_DECREF(base);
}

Node* grad_fn_of(Tensor* t) {
  if (!is_view(t)) return t->grad_fn;
  Extra& e = *t->extra;
  if (e.view_version == t->storage->version || !requires_grad(e.base)) return t->grad_fn;
  if (e.creation == Creation::CustomFunction) refuse_view(t);
  adopt_view(t);
  return t->grad_fn;
}

void check_inplace(Tensor* t, const char* op) {
  if (!modes.records()) return;
  if (!requires_grad(t)) return;
  if (is_view(t)) {
    Tensor* base = t->extra->base;
    if (!t->grad_fn && t->requires_grad && !requires_grad(base))
      fail("a leaf Variable that requires grad is being used in an in-place operation. (", op, ")");
    // The leaf is the base, or a view of it that this one was taken of.
    if (!base->grad_fn)
      fail("a view of a leaf Variable that requires grad is being used in an in-place operation. (",
           op, ")");
    if (t->extra->creation == Creation::Inference) refuse_view(t);
    // A view made while nothing was recorded joins the graph when it is written with recording on.
    if (t->extra->creation == Creation::NoGrad && !t->grad_fn) adopt_view(t);
  } else if (!t->grad_fn) {
    fail("a leaf Variable that requires grad is being used in an in-place operation. (", op, ")");
  }
}

void move_retained(Tensor* t, Node* from, uint32_t from_nr) {
  if (!from || !from->hooks) return;
  for (auto& on : from->hooks->outputs)
    if (on.nr == from_nr && on.retains == t) {
      on.retains = nullptr;
      hooks_on_output(t->grad_fn, t->output_nr).retains = t;
    }
}

namespace {

void take_history(Tensor* t, Node* node, uint32_t nr) {
  Node* before = t->grad_fn;
  uint32_t before_nr = t->output_nr;
  Py_XINCREF(before);
  set_history(t, node, int(nr));
  t->requires_grad = false;
  move_retained(t, before, before_nr);
  release_node(before);
  // A node may have saved t before the write: t -> new history -> that node -> t.
  track(t);
}

}  // namespace

void rebase_history(Tensor* t, const Edge& written) {
  if (!is_view(t)) {
    take_history(t, written.node, written.nr);
    return;
  }
  Tensor* base = t->extra->base;
  Node* slices = new_node(slices_class, 2);
  slices->payload<PartPtr>() = new Part(t, base);
  set_edge(slices, 0, base);
  slices->edges[1] = written;
  Py_INCREF(written.node);
  if (written.node->leads_to_python) mark(slices);
  take_history(base, slices, 0);
  created(slices);
  Py_DECREF(slices);
  t->requires_grad = false;
  t->extra->creation = Creation::Default;  // what it shows is what was written, whoever made it
  adopt_view(t);
}

}  // namespace rl
