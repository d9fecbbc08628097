// The nodes of pointwise ops: what they keep, and the rules read off the partials.
#include "call/pointwise_node.h"

#include <cmath>
#include <cstring>

#include "autograd/batch.h"
#include "autograd/forward.h"
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/zeros.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/pointwise_batch.h"
#include "ops/functions.h"

namespace rl {

constinit thread_local int choice_dtype = -1;

namespace {

struct Kept {
  const Pointwise* op;
  SavedTensor in[3];
  SavedTensor out;
  double params[4];
};

struct ChoiceType {
  int before = choice_dtype;
  explicit ChoiceType(DType dtype) { choice_dtype = int(dtype); }
  ~ChoiceType() { choice_dtype = before; }
};

// A narrower operand must not round a derivative of this type.
Var widened(const Var& t, DType dtype) {
  bool narrow =
      t && t->dtype != dtype && t->dtype != DType::Bool && category(t->dtype) <= category(dtype);
  return narrow ? ops::to(t, dtype) : t;
}

// g * d, differentiable. An infinite g alone is stopped where d may vanish: it has slopes there.
Var scaled(const Pointwise& op, const Var& g, const Var& d) {
  if (!op.selects) return g * d;
  Var stopped = math::where(d == Var(0), Var(0), g * d);
  return op.vanishes ? math::where(g - g == Var(0), g * d, stopped) : stopped;
}

Var gradient(const Pointwise& op, int i, const Var& g, const Kept& kept, Node* node,
             const Pass& pass) {
  const auto& partial = op.partial[i];
  if (partial.unit == 1) return g;
  if (partial.unit == -1) return ops::neg(g);
  Var in[3], out;
  for (int k = 0; k < op.inputs; k++)
    if (has(partial.saves, Save(1 << k))) in[k] = kept.in[k].unpack(node);
  if (has(partial.saves, Save::Out)) out = kept.out.unpack(node);
  if (pass.create_graph || dual_levels) {
    for (Var& t : in) t = widened(t, g->dtype);
    ChoiceType type(g->dtype);
    Var d = partial.tensor(in, kept.params, out);
    if (is_complex(d->dtype)) d = ops::conj(d);
    return scaled(op, g, d);
  }
  if (!batched_tensors) return kernel_gradient(op, i, g, in, out, kept.params);
  // All samples at once, by the same kernel.
  Plain plain;
  Var grad = g;
  HiddenDims hidden = bring_front({&grad, &in[0], &in[1], &in[2], &out});
  Var result = kernel_gradient(op, i, grad, in, out, kept.params);
  return hidden ? hidden.hide(result) : result;
}

// What has no derivative still ends the history of a tensor that it overwrites.
void apply(Node* node, Pass& pass) {
  Kept& kept = node->payload<Kept>();
  const Var& g = pass.grads[0];
  for (int i = 0; i < kept.op->inputs; i++) {
    if (!node->edges[i].node || !pass.wants(i)) continue;
    Var& result = pass.results[i];
    result = kept.op->differentiable() ? gradient(*kept.op, i, g, kept, node, pass)
                                       : ops::zeros(g.sizes(), g.dtype(), g.device());
    if (structural_zeros) [[unlikely]]
      result = math::where(g == Var(0), Var(0), result);
    if (kept.op->whole_history && pass.create_graph) bind_history(result, node);
  }
}

void each_saved(Node* node, SavedVisitor& visitor) {
  Kept& kept = node->payload<Kept>();
  for (int i = 0; i < kept.op->inputs; i++)
    visitor.visit(kept.in[i], kept.op->signature.params()[size_t(i)].name.c_str());
  visitor.visit(kept.out, "result");
}

// _saved_<parameter>.
PyObject* attribute(Node* node, const char* name) {
  Kept& kept = node->payload<Kept>();
  if (std::strncmp(name, "_saved_", 7) != 0) return nullptr;
  for (int i = 0; i < kept.op->params; i++)
    if (kept.op->signature.params()[size_t(kept.op->inputs + i)].name == name + 7)
      return kept.params[i] == std::floor(kept.params[i]) ? PyLong_FromDouble(kept.params[i])
                                                          : PyFloat_FromDouble(kept.params[i]);
  return nullptr;
}

void destroy(Node* node) { node->payload<Kept>().~Kept(); }

}  // namespace

Var kernel_gradient(const Pointwise& op, int i, const Var& g, const Var* in, const Var& out,
                    const double* params) {
  const auto& partial = op.partial[i];
  const Tensor* operands[kernel::kMaxOperands] = {g.get()};
  for (int k = 0; k < op.inputs; k++)
    if (has(partial.saves, Save(1 << k))) operands[k + 1] = in[k].get();
  if (out) operands[op.inputs + 1] = out.get();
  Flat flat;
  if (flat.take(operands, op.inputs + 2, g.get())) {
    kernel::Lanes kernel = partial.kernel[int(g->dtype)];
    if (!kernel) fail_dtype(op, g->dtype);
    Var result = empty(g->sizes, g->dtype, g->device());
    int64_t size = itemsize(g->dtype);
    Launch launch(double(g->numel) * op.cost,
                  {result.get(), operands[0], operands[1], operands[2], operands[3], operands[4]});
    on(result).pointwise_flat(kernel, params, result->data(), size, flat.data, op.inputs + 2,
                              flat.singles, size, g->numel, op.cost);
    return result;
  }
  DType common = g->dtype;
  for (int k = 1; k <= op.inputs + 1; k++)
    if (operands[k] && !operands[k]->wrapped_number) common = promote(common, operands[k]->dtype);
  DType compute = compute_type(common);
  kernel::Lanes kernel = partial.kernel[int(compute)];
  if (!kernel) fail_dtype(op, compute);
  Ints sizes = g->sizes;
  for (int k = 1; k <= op.inputs + 1; k++)
    if (operands[k]) sizes = broadcast(sizes, operands[k]->sizes);
  Var result = empty_pointwise(operands, op.inputs + 2, sizes, common);
  run_general(kernel, params, compute, compute, op.cost, result.get(), operands, op.inputs + 2);
  return result;
}

Node* make_node(const Pointwise& op, const Var* in, const double* params,
                const Tensor* overwritten) {
  bool number = false;
  for (int i = 0; i < op.inputs; i++) number = number || in[i]->wrapped_number;
  Node* node = new_node(number && op.number_node.name ? op.number_node : op.node, op.inputs);
  Kept& kept = node->payload<Kept>();
  kept.op = &op;
  for (int i = 0; i < op.params; i++) kept.params[i] = params[i];
  Save saves = Save::None;
  for (int i = 0; i < op.inputs; i++) {
    set_edge(node, i, in[i].get());
    if (node->edges[i].node) saves = saves | op.partial[i].saves;
  }
  node_in_making = node;
  try {
    for (int i = 0; i < op.inputs; i++)
      if (has(saves, Save(1 << i)))
        kept.in[i].save_input((in[i].get() == overwritten ? ops::clone(in[i]) : in[i]).get());
  } catch (...) {
    Py_DECREF(node);
    throw;
  }
  return node;
}

void finish_node(Node* node, Tensor* out) {
  Kept& kept = node->payload<Kept>();
  bool saves_out = false;
  for (int i = 0; i < kept.op->inputs; i++)
    saves_out |= node->edges[i].node && has(kept.op->partial[i].saves, Save::Out);
  if (saves_out) kept.out.save_output(out, 0);
  created(node);
}

Var pushed(const Pointwise& op, const Var* in, const double* params, const Push& push) {
  const Var& out = push.out();
  Var at[3], sum;
  for (int k = 0; k < op.inputs; k++) at[k] = widened(in[k], out.dtype());
  ChoiceType type(out.dtype());
  for (int k = 0; k < op.inputs; k++) {
    Var t = widened(push.t(k), out.dtype());
    if (!t) continue;
    const auto& partial = op.partial[k];
    if (partial.unit == -1) t = ops::neg(t);
    if (partial.unit == 0) t = scaled(op, t, partial.tensor(at, params, out));
    sum = sum ? sum + t : t;
  }
  return is_complex(out.dtype()) ? sum : ops::real(sum);
}

void leave_unfinished(Node* node, Tensor* into) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  node->payload<Kept>().out.spoil();
  bool watched = std::exchange(modes.watched, false);
  rebase_history(into, {node, 0});
  modes.watched = watched;
  PyErr_Restore(type, value, trace);
}

NodeClass pointwise_node(const char* name) {
  NodeClass cls{};
  cls.name = name;
  cls.apply = apply;
  cls.each_saved = each_saved;
  cls.attribute = attribute;
  cls.destroy = destroy;
  cls.payload = sizeof(Kept);
  return cls;
}

}  // namespace rl
