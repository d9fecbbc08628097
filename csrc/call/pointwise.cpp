#include "call/pointwise.h"

#include <unordered_map>

#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "autograd/sharing.h"
#include "autograd/zeros.h"
#include "call/arguments.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/pointwise_batch.h"
#include "kernels/kernels.h"
#include "ops/functions.h"
#include "tensor/strides.h"

namespace rl {

namespace {

struct Kept {
  const Pointwise* op;
  SavedTensor in[3];
  SavedTensor out;
  double params[4];
};

// While a derivative is read as a tensor expression: the type of a choice between two numbers.
thread_local int choice_dtype = -1;
struct ChoiceType {
  int before = choice_dtype;
  explicit ChoiceType(DType dtype) { choice_dtype = int(dtype); }
  ~ChoiceType() { choice_dtype = before; }
};

// Every compiled formula: the op's name and its number of parameters.
std::unordered_map<kernel::Lanes, std::pair<const char*, int>>& compiled() {
  static auto* all = new std::unordered_map<kernel::Lanes, std::pair<const char*, int>>;
  return *all;
}

std::unordered_map<std::string, const Pointwise*>& table() {
  static auto* t = new std::unordered_map<std::string, const Pointwise*>;
  return *t;
}

[[noreturn]] void fail_dtype(const Pointwise& op, DType d) {
  fail_as(PyExc_NotImplementedError, "\"", op.name, "\" not implemented for '", info(d).tensor_name,
          "'");
}

// Operands that a kernel reads straight through: contiguous tensors of one shape and dtype, and
// single numbers that do not change the result's type.
class Flat {
 public:
  // `main` decides shape and dtype. Null operands are skipped.
  bool take(const Tensor* const* in, int count, const Tensor* main) {
    if (!main->contiguous || compute_type(main->dtype) != main->dtype) return false;
    for (int k = 0; k < count; k++) {
      const Tensor* t = in[k];
      if (!t) continue;
      if (t == main || (t->contiguous && t->dtype == main->dtype && !t->wrapped_number &&
                        t->sizes == main->sizes)) {
        data[k] = t->data();
      } else if (t->dim() == 0 && category(t->dtype) <= category(main->dtype) &&
                 (t->wrapped_number || main->dim() > 0) && (!recording || is_constant(t))) {
        singles |= 1u << k;
        if (has_data(t))
          on_host().convert(main->dtype, numbers_[k], 16, t->dtype, t->data(), 16, 1);
        data[k] = numbers_[k];
      } else {
        return false;
      }
    }
    return true;
  }
  const char* data[kernel::kMaxOperands] = {};
  unsigned singles = 0;

 private:
  // In a region that is recorded: a number that no call of it computes.
  static bool is_constant(const Tensor* t) {
    return t->wrapped_number && !recording->wrote(t->data());
  }
  alignas(16) char numbers_[kernel::kMaxOperands][16];
};

// The operand that decides the shape of a flat call.
const Tensor* main_operand(const Tensor* const* in, int count) {
  const Tensor* main = nullptr;
  for (int k = 0; k < count; k++)
    if (!in[k]->wrapped_number && (!main || (main->dim() == 0 && in[k]->dim() > 0))) main = in[k];
  return main;
}

void run_general(kernel::Lanes kernel, const double* params, DType compute, DType produced,
                 double cost, Tensor* out, const Tensor* const* in, int count) {
  kernel::PointwiseCall call;
  call.lanes = kernel;
  call.params = params;
  call.compute = compute;
  call.produced = produced;
  call.cost = cost;
  call.inputs = count;
  call.sizes = out->sizes.data();
  call.ndim = out->dim();
  call.out = {out->data(), out->strides.data(), out->dtype};
  Ints strides[kernel::kMaxOperands];
  for (int i = 0; i < count; i++) {
    if (!in[i]) continue;
    strides[i] = broadcast_strides(in[i], out->sizes);
    call.in[i] = {in[i]->data(), strides[i].data(), in[i]->dtype};
  }
  Launch launch(double(out->numel) * cost,
                {out, in[0], count > 1 ? in[1] : nullptr, count > 2 ? in[2] : nullptr,
                 count > 3 ? in[3] : nullptr, count > 4 ? in[4] : nullptr});
  on(out).pointwise(call);
}

// An input that is about to be overwritten is kept as a copy.
Node* make_node(const Pointwise& op, const Var* in, const double* params,
                const Tensor* overwritten = nullptr) {
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

// A narrower operand must not round a derivative of this type.
Var widened(const Var& t, DType dtype) {
  bool narrow =
      t && t->dtype != dtype && t->dtype != DType::Bool && category(t->dtype) <= category(dtype);
  return narrow ? ops::to(t, dtype) : t;
}

// g times the partial in one pass; `in` and `out` only where it reads them.
Var kernel_gradient(const Pointwise& op, int i, const Var& g, const Var* in, const Var& out,
                    const double* params) {
  const auto& partial = op.partial[i];
  const Tensor* operands[kernel::kMaxOperands] = {g.get()};
  for (int k = 0; k < op.inputs; k++)
    if (in[k]) operands[k + 1] = in[k].get();
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
    if (op.selects) return math::where(d == Var(0), Var(0), g * d);
    return g * d;
  }
  if (!batched_tensors) return kernel_gradient(op, i, g, in, out, kept.params);
  // All samples at once, by the same kernel.
  Plain plain;
  Var grad = g;
  HiddenDims hidden = bring_front({&grad, &in[0], &in[1], &in[2], &out});
  Var result = kernel_gradient(op, i, grad, in, out, kept.params);
  return hidden ? hidden.hide(result) : result;
}

// Beside a number, dimensions of size 1 keep their place.
[[gnu::noinline]] void keep_ones(Tensor* out, const Tensor* main) {
  out->strides = ordered_strides(main->sizes, &main->strides, 1);
}

// What has no derivative still ends the history of a tensor that it overwrites.
void apply(Node* node, Pass& pass) {
  Kept& kept = node->payload<Kept>();
  const Var& g = pass.grads[0];
  for (int i = 0; i < kept.op->inputs; i++) {
    if (!node->edges[i].node || !pass.wants(i)) continue;
    Var& result = pass.results[i];
    result = kept.op->differentiable ? gradient(*kept.op, i, g, kept, node, pass)
                                     : ops::zeros(g.sizes(), g.dtype(), g.device());
    if (structural_zeros) [[unlikely]]
      result = math::where(g == Var(0), Var(0), result);
    if (kept.op->whole_history && pass.create_graph) bind_history(result, node);
  }
}

void each_saved(Node* node, SavedVisitor& visitor) {
  Kept& kept = node->payload<Kept>();
  static const char* const names[] = {"self", "other", "third"};
  const Signature* s = kept.op->signature;
  for (int i = 0; i < kept.op->inputs; i++)
    visitor.visit(kept.in[i], s ? s->params()[size_t(i)].name.c_str() : names[i]);
  visitor.visit(kept.out, "result");
}

// _saved_<parameter>.
PyObject* attribute(Node* node, const char* name) {
  Kept& kept = node->payload<Kept>();
  if (std::strncmp(name, "_saved_", 7) != 0 || !kept.op->signature) return nullptr;
  for (int i = 0; i < kept.op->params; i++)
    if (kept.op->signature->params()[size_t(kept.op->inputs + i)].name == name + 7)
      return kept.params[i] == std::floor(kept.params[i]) ? PyLong_FromDouble(kept.params[i])
                                                          : PyFloat_FromDouble(kept.params[i]);
  return nullptr;
}

void destroy(Node* node) { node->payload<Kept>().~Kept(); }

// The tangent of the result at one level: each partial times the tangent of its input.
Var pushed(const Pointwise& op, const Var* in, const double* params, const Var& out, int level) {
  Var at[3], sum;
  for (int k = 0; k < op.inputs; k++) at[k] = widened(below(in[k], level), out.dtype());
  ChoiceType type(out.dtype());
  for (int k = 0; k < op.inputs; k++) {
    Var t = widened(tangent_of(in[k], level), out.dtype());
    if (!t) continue;
    const auto& partial = op.partial[k];
    if (partial.unit == -1) t = ops::neg(t);
    if (partial.unit == 0) {
      Var d = partial.tensor(at, params, out);
      t = op.selects ? math::where(d == Var(0), Var(0), t * d) : t * d;
    }
    sum = sum ? sum + t : t;
  }
  sum = is_complex(out.dtype()) ? sum : ops::real(sum);
  if (op.whole_history) bind_history(sum, Vars(at, at + op.inputs));
  return sum;
}

// A hook raised after the values were written: the history says so, but cannot be run.
void leave_unfinished(Node* node, Tensor* into) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  node->payload<Kept>().out.spoil();
  bool watched = std::exchange(modes.watched, false);
  rebase_history(into, {node, 0});
  modes.watched = watched;
  PyErr_Restore(type, value, trace);
}

[[gnu::noinline]] Var run_into(const Pointwise& op, const Var* in, const Var* read,
                               const double* params, Tensor* into, bool inplace, DType common,
                               DType compute, const Ints& sizes) {
  DType result = op.result == Result::Bool              ? DType::Bool
                 : op.produced[int(compute)] != compute ? real_of(common)
                                                        : common;
  if (!can_cast(result, into->dtype))
    fail("result type ", info(result).tensor_name, " can't be cast to the desired output type ",
         info(into->dtype).tensor_name);
  // What is refused changes nothing: the output is resized when all is checked.
  Var resized;
  if (!(into->sizes == sizes)) {
    if (inplace)
      fail("output with shape ", into->sizes, " doesn't match the broadcast shape ", sizes);
    const Tensor* operands[3];
    for (int i = 0; i < op.inputs; i++) operands[i] = in[i].get();
    resized = alias(into, sizes, pointwise_strides(operands, op.inputs, sizes), into->offset);
  }
  if (inplace) check_inplace(into, op.name);
  bool any = false;
  for (int i = 0; i < op.inputs; i++) any = any || requires_grad(in[i].get());
  if (!inplace && op.differentiable && modes.records() && (any || requires_grad(into)))
    fail(op.name,
         "(): functions with out=... arguments don't support automatic differentiation, "
         "but one of the arguments requires grad.");
  check_writable(into);
  Var safe[3];
  const Tensor* operands[3] = {};
  for (int i = 0; i < op.inputs; i++) {
    safe[i] = read[i];
    if (overlaps_partly(read[i].get(), resized ? resized.get() : into)) {
      GradMode off(false);
      safe[i] = ops::clone(read[i]);
    }
    operands[i] = safe[i].get();
  }
  if (resized) resize_output(into, sizes, resized->strides);
  bool recorded = inplace && any && modes.records() && is_differentiable(into->dtype) &&
                  (op.differentiable || requires_grad(into));
  Node* node = recorded ? make_node(op, in, params, into) : nullptr;
  NodeRef hold = NodeRef::steal(node);
  prepare_write(into, op.name);
  run_general(op.forward[int(compute)], params, compute, op.produced[int(compute)], op.cost, into,
              operands, op.inputs);
  if (node) {
    set_output_meta(node, 0, into);
    try {
      finish_node(node, into);
    } catch (...) {
      leave_unfinished(node, into);
      throw;
    }
    rebase_history(into, {node, 0});
  }
  return Var(into);
}

// Halves are computed in float, but what stands beside them is a half first, as in torch.
[[gnu::noinline]] void round_operands(const Pointwise& op, const Var* in, DType common,
                                      Var* rounded) {
  Plain plain;
  for (int i = 0; i < op.inputs; i++) {
    bool kept = in[i].dtype() == common || (op.wide_numbers && in[i].dim() == 0);
    rounded[i] = kept ? in[i] : ops::to(alias(in[i].get()), common);
  }
}

Var run_plain(const Pointwise& op, const Var* in, const double* params, Tensor* into,
              bool inplace) {
  const Tensor* operands[3] = {};
  for (int i = 0; i < op.inputs; i++) operands[i] = in[i].get();
  bool requires_any = false;
  uint32_t cut = 0;
  for (int i = 0; i < op.inputs; i++) {
    requires_any = requires_any || requires_grad(operands[i]);
    if (!cut) cut = operands[i]->cut;
  }
  bool any = requires_any && op.differentiable && modes.records();

  if (recording) [[unlikely]] {
    for (int i = 0; i < op.inputs; i++) recording->hold(operands[i]);
    recording->hold(into);
  }
  if (devices_mix) [[unlikely]] {
    SameDevice same(op.name);
    for (int i = 0; i < op.inputs; i++) same.add(operands[i]);
    same.add(into);
  }
  if (op.validate) op.validate(in);

  // Hooks see what is saved before the kernel runs: one that raises spares it.
  NodeRef early;
  if (any && !into && saved_hooks.stack) [[unlikely]]
    early = NodeRef::steal(make_node(op, in, params));
  Var out;
  HiddenDims hidden;
  if (batched_tensors) [[unlikely]]
    for (int i = 0; i < op.inputs; i++) hidden.add(in[i]);
  Flat flat;
  const Tensor* main = into || hidden ? nullptr : main_operand(operands, op.inputs);
  if (main && !(op.result == Result::Float && is_integral(main->dtype)) &&
      flat.take(operands, op.inputs, main)) {
    kernel::Lanes kernel = op.forward[int(main->dtype)];
    if (!kernel) fail_dtype(op, main->dtype);
    DType produced = op.produced[int(main->dtype)];
    out = empty(main->sizes, produced, main->device());
    if (flat.singles && !(out->strides == main->strides)) [[unlikely]]
      keep_ones(out.get(), main);
    Launch launch(double(out->numel) * op.cost, {out.get(), operands[0], operands[1], operands[2]});
    on(out).pointwise_flat(kernel, params, out->data(), itemsize(produced), flat.data, op.inputs,
                           flat.singles, itemsize(main->dtype), out->numel, op.cost);
  } else if (hidden) {
    out = run_batched(op, in, params, hidden);
  } else {
    Promotion promotion;
    for (int i = 0; i < op.inputs; i++) promotion.add(operands[i]);
    DType common = promotion.result();
    if (op.result == Result::Float && is_integral(common)) common = default_dtype();
    DType compute = compute_type(common);
    kernel::Lanes kernel = op.forward[int(compute)];
    if (!kernel) fail_dtype(op, common);
    Ints sizes = in[0].sizes();
    for (int i = 1; i < op.inputs; i++)
      if (!(in[i].sizes() == sizes)) sizes = broadcast(sizes, in[i].sizes());
    Var rounded[3];
    const Var* read = in;
    if (compute != common) [[unlikely]] {
      round_operands(op, in, common, rounded);
      read = rounded;
      for (int i = 0; i < op.inputs; i++) operands[i] = rounded[i].get();
    }
    if (into) return run_into(op, in, read, params, into, inplace, common, compute, sizes);
    DType result = op.result == Result::Bool              ? DType::Bool
                   : op.produced[int(compute)] != compute ? real_of(common)
                                                          : common;
    out = empty_pointwise(operands, op.inputs, sizes, result);
    run_general(kernel, params, compute, op.produced[int(compute)], op.cost, out.get(), operands,
                op.inputs);
  }
  if (any && is_differentiable(out->dtype)) {
    Node* node = early ? early.release() : make_node(op, in, params);
    set_history(out.get(), node, 0);
    Py_DECREF(node);
    node_in_making = node;
    finish_node(node, out.get());
    if (cut) [[unlikely]]
      out->cut = cut;
  } else if (requires_any || cut) [[unlikely]] {
    mark_cut(&out, 1, requires_any ? 0 : cut, op.name, op.differentiable);
  }
  return out;
}

// In place, what was there is kept aside for the tangents, which are those of the plain form.
Var run_dual(const Pointwise& op, const Var* in, const double* params, Tensor* into, bool inplace,
             Levels levels) {
  if (into) {
    if (!inplace) refuse_out(op.name);
    Var before[3];
    for (int i = 0; i < op.inputs; i++)
      before[i] = in[i]->storage == into->storage ? ops::clone(in[i]) : in[i];
    Var out = run_plain(op, in, params, into, true);
    replace_tangents(into, run_pointwise(op, before, params));
    return out;
  }
  Var out = run_plain(op, in, params, nullptr, false);
  if (op.differentiable && is_differentiable(out.dtype()))
    for (; levels; levels &= levels - 1)
      set_tangent(out.get(), lowest(levels), pushed(op, in, params, out, lowest(levels)));
  return out;
}

Var run_shared(const Pointwise& op, const Var* in, const double* params) {
  CallKey key(&op);
  for (int i = 0; i < op.inputs; i++) key.add(in[i]);
  for (int i = 0; i < op.params; i++) key.add(params[i]);
  return shared(key, [&] { return run_plain(op, in, params, nullptr, false); });
}

}  // namespace

Var run_pointwise(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                  bool inplace) {
  Profiled event;
  if (modes.profiled) [[unlikely]] {
    event.op(inplace ? (std::string(op.name) + "_").c_str() : op.name);
    for (int i = 0; i < op.inputs; i++) event.shape(in[i]);
  }
  if (into && batched_tensors) [[unlikely]]
    if (is_batched_write(op, in, into)) return write_batched(op, in, params, into, inplace);
  if (dual_levels) [[unlikely]] {
    Levels levels = levels_of(into);
    for (int i = 0; i < op.inputs; i++) levels |= levels_of(in[i].get());
    if (levels) return run_dual(op, in, params, into, inplace, levels);
  }
  if (modes.shares && !into) [[unlikely]]
    return run_shared(op, in, params);
  return run_plain(op, in, params, into, inplace);
}

std::pair<const char*, int> formula_of(kernel::Lanes lanes) { return compiled().at(lanes); }

const Pointwise& find_pointwise(const char* name) {
  auto it = table().find(name);
  if (it == table().end()) fail("internal error: no pointwise op named ", name);
  return *it->second;
}

Pointwise renamed(const Pointwise& op, const char* grad_name) {
  Pointwise copy = op;
  copy.node.name = grad_name;
  copy.node.type = nullptr;
  return copy;
}

namespace math {

// What a formula makes of numbers alone stays a number, in double precision.
Var call_pointwise(const char* name, std::initializer_list<Var> arguments) {
  const Pointwise& op = find_pointwise(name);
  for (const Var& v : arguments)
    if (!v->wrapped_number) return run_pointwise(op, arguments.begin(), nullptr);
  Var plain[3];
  for (size_t i = 0; i < arguments.size(); i++) plain[i] = alias(arguments.begin()[i].get());
  Var result = run_pointwise(op, plain, nullptr);
  result->wrapped_number = true;
  return result;
}

Var where(const Var& c, const Var& a, const Var& b) {
  if (choice_dtype < 0 || c->wrapped_number || !a->wrapped_number || !b->wrapped_number)
    return call_pointwise("where", {c, a, b});
  auto typed = [](const Var& number) { return ops::to(alias(number.get()), DType(choice_dtype)); };
  return call_pointwise("where", {c, typed(a), typed(b)});
}

}  // namespace math

namespace detail {

void finish_pointwise(Pointwise& p, const char* grad_name) {
  for (int d = 0; d < kDTypes; d++) {
    compiled()[p.forward[d]] = {p.name, p.params};
    for (const auto& partial : p.partial) compiled()[partial.kernel[d]] = {p.name, p.params};
  }
  p.node.name = grad_name ? grad_name : backward_name(p.name);
  p.node.apply = apply;
  p.node.each_saved = each_saved;
  p.node.attribute = attribute;
  p.node.destroy = destroy;
  p.node.payload = sizeof(Kept);
}

namespace {

void read_slots(const OpInfo& op, PyObject* const* slots, Var* in, double* params) {
  const Pointwise& p = *op.pointwise;
  bool any_tensor = false, integral = true;
  for (int i = 0; i < p.inputs; i++) {
    in[i] = tensor_argument(op.signature, i, slots[i]);
    any_tensor = any_tensor || !in[i]->wrapped_number;
    integral = integral && is_integral(in[i].dtype());
  }
  if (!any_tensor)
    fail_as(PyExc_TypeError, op.name, "(): at least one of the arguments must be Tensor. Expected ",
            op.signature.text());
  for (int i = 0; i < p.params; i++) {
    PyObject* slot = slots[p.inputs + i];
    params[i] = float_argument(op.signature, p.inputs + i, slot);
    if (integral && has(p.types, Types::Integer) && PyFloat_Check(slot))
      fail("For integral input tensors, argument ",
           op.signature.params()[size_t(p.inputs + i)].name,
           " must not be a floating point number.");
  }
}

PyObject* call(const OpInfo& op, PyObject* const* slots) {
  Var in[3];
  double params[4];
  read_slots(op, slots, in, params);
  return reinterpret_cast<PyObject*>(run_pointwise(*op.pointwise, in, params).release());
}

void into(const OpInfo& op, PyObject* const* slots, Tensor* into, bool inplace) {
  Var in[3];
  double params[4];
  read_slots(op, slots, in, params);
  run_pointwise(*op.pointwise, in, params, into, inplace);
}

PyObject* fast(const OpInfo& op, PyObject* const* args, Py_ssize_t count) {
  const Pointwise& p = *op.pointwise;
  if (count != p.inputs || p.params) return nullptr;
  Var in[3];
  for (Py_ssize_t i = 0; i < count; i++) {
    if (Py_TYPE(args[i]) != &TensorType) return nullptr;
    in[i] = Var(reinterpret_cast<Tensor*>(args[i]));
  }
  return reinterpret_cast<PyObject*>(run_pointwise(p, in, nullptr).release());
}

}  // namespace

void register_pointwise(const Pointwise& p, const OpInfo& described, const char* aliases) {
  table()[p.name] = &p;
  OpInfo info = described;
  info.pointwise = &p;
  info.family = "pointwise";
  info.form = p.differentiable ? Form::Partial : Form::NonDifferentiable;
  info.call = call;
  info.into = into;
  info.fast = fast;
  info.out = true;
  p.signature = &register_op(info).signature;
  const std::string& text = described.signature.text();
  std::istringstream names(aliases);
  while (names >> info.name) {
    info.signature = Signature((info.name + text.substr(text.find('('))).c_str());
    register_op(info);
  }
}

}  // namespace detail
}  // namespace rl
