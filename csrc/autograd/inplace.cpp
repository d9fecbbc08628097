#include "autograd/inplace.h"

#include "autograd/engine.h"
#include "ops/functions.h"

#include <algorithm>

namespace rl {

namespace {

using RegionPtr = Region*;

void destroy_region(Node* node) { delete std::exchange(node->payload<RegionPtr>(), nullptr); }

// The gradient of a base after a write to one of its views: the part that was written belongs to
// what was written (edge 1), the rest to the base as it was (edge 0).
void apply_slices(Node* node, Pass& pass) {
  const Region& r = *node->payload<RegionPtr>();
  Var whole = ops::contiguous(pass.grads[0]);
  if (r.parts) whole = ops::view_as_real(whole);
  Var part = ops::as_strided(whole, r.sizes, r.strides, r.offset);
  if (pass.wants(1)) pass.results[1] = pass.create_graph ? part : ops::clone(part);
  if (!pass.wants(0)) return;
  Var rest = ops::as_strided_scatter(whole, ops::zeros(r.sizes, whole->dtype), r.sizes, r.strides,
                                     r.offset);
  pass.results[0] = r.parts ? ops::view_as_complex(rest) : rest;
}

const NodeClass slices_class = {.name = "CopySlices",
                                .apply = apply_slices,
                                .destroy = destroy_region,
                                .payload = sizeof(RegionPtr)};

// The history of a view whose base was written: the same elements taken from the base anew.
void apply_region(Node* node, Pass& pass) {
  const Region& r = *node->payload<RegionPtr>();
  Var whole = ops::embed(pass.grads[0], r.whole, r.strides, r.offset);
  pass.results[0] = r.parts ? ops::view_as_complex(whole) : whole;
}

const NodeClass region_class = {.name = "AsStridedBackward0",
                                .apply = apply_region,
                                .destroy = destroy_region,
                                .payload = sizeof(RegionPtr)};

Region* region_of(const Tensor* view, const Tensor* base) {
  if (is_complex(base->dtype) && !is_complex(view->dtype)) {
    GradMode off(false);
    Var parts = ops::view_as_real(alias(base));
    auto* r = new Region(region_in(parts.get(), view->sizes, view->strides, view->offset));
    r->parts = true;
    return r;
  }
  return new Region(region_in(base, view->sizes, view->strides, view->offset));
}

// Gives a view the history of the elements of its base that it shows.
void adopt_view(Tensor* t) {
  Extra& e = *t->extra;
  Node* before = t->grad_fn;
  uint32_t before_nr = t->output_nr;
  Py_XINCREF(before);
  Node* node = new_node(region_class, 1);
  node->payload<RegionPtr>() = region_of(t, e.base);
  set_edge(node, 0, e.base);
  set_history(t, node, 0);
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

// A base that is not row-major has each step translated dimension by dimension.
Region region_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset) {
  Region r{base->sizes, sizes, strides, offset - base->offset};
  if (base->contiguous) return r;
  Ints rows = contiguous_strides(base->sizes), order(base->dim());
  for (int i = 0; i < order.size(); i++) order[i] = i;
  std::sort(order.data(), order.data() + order.size(),
            [&](int64_t a, int64_t b) { return base->strides[int(a)] > base->strides[int(b)]; });
  auto translate = [&](int64_t step) {
    int64_t result = 0;
    for (int64_t d : order) {
      int64_t stride = base->strides[int(d)];
      if (stride == 0 || base->sizes[int(d)] == 1) continue;
      result += step / stride * rows[int(d)];
      step %= stride;
    }
    return result;
  };
  r.offset = translate(r.offset);
  for (int i = 0; i < r.strides.size(); i++)
    if (r.sizes[i] > 1) r.strides[i] = translate(r.strides[i]);
  return r;
}

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

Node* grad_fn_of(Tensor* t) {
  if (!is_view(t)) return t->grad_fn;
  Extra& e = *t->extra;
  if (e.view_version == t->storage->version || !requires_grad(e.base)) return t->grad_fn;
  if (t->requires_grad && !t->grad_fn) return nullptr;  // a view that became a leaf of its own
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
    if (base->requires_grad && !base->grad_fn)
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
  slices->payload<RegionPtr>() = region_of(t, base);
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
