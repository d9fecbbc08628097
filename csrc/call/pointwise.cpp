#include "call/pointwise.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/autocast_devices.h"
#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "autograd/sharing.h"
#include "call/arguments.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/pointwise_batch.h"
#include "call/pointwise_node.h"
#include "ops/functions.h"
#include "tensor/strides.h"

namespace rl {

namespace {

// Every compiled formula.
std::unordered_map<kernel::Lanes, LanesInfo>& compiled() {
  static auto* all = new std::unordered_map<kernel::Lanes, LanesInfo>;
  return *all;
}

std::unordered_map<std::string, const Pointwise*>& table() {
  static auto* t = new std::unordered_map<std::string, const Pointwise*>;
  return *t;
}

// The operand that decides the shape of a flat call.
const Tensor* main_operand(const Tensor* const* in, int count) {
  const Tensor* main = nullptr;
  for (int k = 0; k < count; k++)
    if (!in[k]->wrapped_number && (!main || (main->dim() == 0 && in[k]->dim() > 0))) main = in[k];
  return main;
}

// Beside a number, dimensions of size 1 keep their place.
[[gnu::noinline]] void keep_ones(Tensor* out, const Tensor* main) {
  out->strides = ordered_strides(main->sizes, &main->strides, 1);
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

// A tensor's bytes read as another type of their size.
Var reread(const Var& v, DType dtype) {
  return wrap_storage(retain(v->storage), v.sizes(), v->strides, v->offset, dtype);
}

// Stored types are computed in others, where that gives what their own arithmetic would.
[[gnu::noinline]] void check_stored(const Pointwise& op, DType d) {
  bool holds = is_float8(d) ? op.takes_float8 : d != DType::U64 || op.any_sign;
  if (!holds && !op.moves) refuse_stored(op.name, d);
}

[[gnu::noinline]] void check_on_device(const Pointwise& op, DType d) {
  if (is_stored(d))
    fail_as(PyExc_NotImplementedError, "\"", op.name, "\" not implemented for '",
            info(d).tensor_name, "' on the device 'cuda': convert it with .to(torch.",
            is_complex(d) ? "complex64" : "float32", ")");
}

// What the history of a call's result depends on.
struct Origins {
  bool requires_grad = false;
  uint32_t cut = 0;
  Origins(const Tensor* const* operands, int count) {
    for (int i = 0; i < count; i++) {
      requires_grad = requires_grad || rl::requires_grad(operands[i]);
      if (!cut) cut = operands[i]->cut;
    }
  }
  bool recorded(const Pointwise& op) const {
    return requires_grad && op.differentiable && modes.records();
  }
};

// The result where a kernel can read the operands straight through; else none.
[[gnu::always_inline]] inline Var run_flat(const Pointwise& op, const Tensor* const* operands,
                                           const double* params) {
  const Tensor* main = main_operand(operands, op.inputs);
  Flat flat;
  if (!main || (op.result == Result::Float && is_integral(main->dtype)) ||
      !flat.take(operands, op.inputs, main))
    return {};
  kernel::Lanes kernel = op.forward[int(main->dtype)];
  if (!kernel) fail_dtype(op, main->dtype);
  DType produced = op.produced[int(main->dtype)];
  Var out = empty(main->sizes, produced, main->device());
  if (flat.singles && !(out->strides == main->strides)) [[unlikely]]
    keep_ones(out.get(), main);
  Launch launch(double(out->numel) * op.cost, {out.get(), operands[0], operands[1], operands[2]});
  on(out).pointwise_flat(kernel, params, out->data(), itemsize(produced), flat.data, op.inputs,
                         flat.singles, itemsize(main->dtype), out->numel, op.cost);
  return out;
}

// Gives the result its node, or notes why it has none.
[[gnu::always_inline]] inline void leave_history(const Pointwise& op, const Var* in,
                                                 const double* params, const Origins& origins,
                                                 NodeRef early, Var& out) {
  if (origins.recorded(op) && is_differentiable(out->dtype)) {
    Node* node = early ? early.release() : make_node(op, in, params);
    set_history(out.get(), node, 0);
    Py_DECREF(node);
    node_in_making = node;
    finish_node(node, out.get());
    if (origins.cut) [[unlikely]]
      out->cut = origins.cut;
  } else if (origins.requires_grad || origins.cut) [[unlikely]] {
    mark_cut(&out, 1, origins.requires_grad ? 0 : origins.cut, op.name, op.differentiable);
  }
}

[[gnu::noinline]] Var run_plain(const Pointwise& op, const Var* in, const double* params,
                                Tensor* into, bool inplace) {
  const Tensor* operands[3] = {};
  for (int i = 0; i < op.inputs; i++) operands[i] = in[i].get();
  Origins origins(operands, op.inputs);
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
  if (!into && saved_hooks.stack && origins.recorded(op)) [[unlikely]]
    early = NodeRef::steal(make_node(op, in, params));
  HiddenDims hidden;
  if (batched_tensors) [[unlikely]]
    for (int i = 0; i < op.inputs; i++) hidden.add(in[i]);
  Var out;
  if (hidden) out = run_batched(op, in, params, hidden);
  else if (!into) out = run_flat(op, operands, params);
  if (!out) {
    Promotion promotion;
    // A condition does not decide the type of what it chooses.
    for (int i = op.moves ? 1 : 0; i < op.inputs; i++) promotion.add(operands[i]);
    DType common = promotion.result();
    if (op.result == Result::Float && is_integral(common)) common = default_dtype();
    DType compute = compute_type(common);
    bool on_device = into && into->device().type == Device::CUDA;
    for (int i = 0; i < op.inputs; i++) on_device |= operands[i]->device().type == Device::CUDA;
    if (on_device) [[unlikely]] {
      for (int i = 0; i < op.inputs; i++) check_on_device(op, operands[i]->dtype);
      check_on_device(op, into ? into->dtype : common);
    }
    bool reads_bits = op.moves && !into && is_stored(common);
    if (is_stored(common)) [[unlikely]] {
      check_stored(op, common);
      if (reads_bits) compute = moved_as(common);
    }
    kernel::Lanes kernel = op.forward[int(compute)];
    if (!kernel) fail_dtype(op, common);
    Ints sizes = in[0].sizes();
    for (int i = 1; i < op.inputs; i++)
      if (!(in[i].sizes() == sizes)) sizes = broadcast(sizes, in[i].sizes());
    Var rounded[3];
    const Var* read = in;
    if (compute != common) [[unlikely]] {
      round_operands(op, in, common, rounded);
      if (reads_bits)
        for (int i = 0; i < op.inputs; i++)
          if (rounded[i].dtype() == common) rounded[i] = reread(rounded[i], compute);
      read = rounded;
      for (int i = 0; i < op.inputs; i++) operands[i] = rounded[i].get();
    }
    if (into) return run_into(op, in, read, params, into, inplace, common, compute, sizes);
    DType result = op.result == Result::Bool              ? DType::Bool
                   : op.produced[int(compute)] != compute ? real_of(common)
                                                          : common;
    out = empty_pointwise(operands, op.inputs, sizes, reads_bits ? compute : result);
    run_general(kernel, params, compute, op.produced[int(compute)], op.cost, out.get(), operands,
                op.inputs);
    if (reads_bits) out = reread(out, common);
  }
  leave_history(op, in, params, origins, std::move(early), out);
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

bool is_on_cuda(const Var& v) { return v && v.device().type == Device::CUDA; }

[[gnu::noinline]] Var run_in_modes(const Pointwise& op, const Var* in, const double* params,
                                   Tensor* into, bool inplace) {
  Profiled event;
  if (modes.profiled) [[unlikely]] {
    event.op(inplace ? (std::string(op.name) + "_").c_str() : op.name);
    for (int i = 0; i < op.inputs; i++) event.shape(in[i]);
  }
  bool casts = op.full_on_cuda && !into && device_autocast.cuda && modes.autocast;
  if (casts) casts = std::any_of(in, in + op.inputs, is_on_cuda);
  if (casts) [[unlikely]] {
    Var wide[3];
    for (int i = 0; i < op.inputs; i++) wide[i] = autocast(in[i], DType::F32);
    WithoutAutocast off;
    return run_pointwise(op, wide, params);
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

}  // namespace

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
    call.in[i] = {in[i]->data(), strides[i].data(), in[i]->dtype,
                  in[i]->device() == kHost && out->device() != kHost};
  }
  Launch launch(double(out->numel) * cost,
                {out, in[0], count > 1 ? in[1] : nullptr, count > 2 ? in[2] : nullptr,
                 count > 3 ? in[3] : nullptr, count > 4 ? in[4] : nullptr});
  on(out).pointwise(call);
}

[[noreturn]] void fail_dtype(const Pointwise& op, DType d) {
  if (is_stored(d)) refuse_stored(op.name, d);
  fail_as(PyExc_NotImplementedError, "\"", op.name, "\" not implemented for '", info(d).tensor_name,
          "'");
}

Var run_pointwise(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                  bool inplace) {
  if (into || modes.profiled || modes.autocast || modes.shares || dual_levels || batched_tensors ||
      recording || devices_mix || saved_hooks.stack || op.validate) [[unlikely]]
    return run_in_modes(op, in, params, into, inplace);
  const Tensor* operands[] = {in[0].get(), op.inputs > 1 ? in[1].get() : nullptr,
                              op.inputs > 2 ? in[2].get() : nullptr};
  Var out = run_flat(op, operands, params);
  if (!out) return run_plain(op, in, params, nullptr, false);
  leave_history(op, in, params, Origins(operands, op.inputs), {}, out);
  return out;
}

const LanesInfo& formula_of(kernel::Lanes lanes) { return compiled().at(lanes); }

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
    DType type = DType(d);
    if (p.forward[d])
      compiled()[p.forward[d]] = {p.name,        p.inputs, p.params, type,
                                  p.produced[d], p.symbol, nullptr,  p.selects};
    for (const auto& partial : p.partial)
      if (partial.kernel[d])
        compiled()[partial.kernel[d]] = {p.name, p.inputs, p.params,       type,
                                         type,   nullptr,  partial.symbol, p.selects};
  }
  p.node.name = grad_name ? grad_name : backward_name(p.name);
  set_rules(p.node);
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
  info.family = Family::Pointwise;
  info.form = p.differentiable ? Form::Partial : Form::NonDifferentiable;
  info.call = call;
  info.into = into;
  info.fast = fast;
  info.out = true;
  p.signature = &register_op(info).signature;
  check(p.signature->params().size() >= size_t(p.inputs + p.params), p.name,
        ": the signature does not name every input and parameter");
  const std::string& text = described.signature.text();
  const std::string others = aliases;  // streams of temporaries need the C++ library of GCC 11
  std::istringstream names(others);
  while (names >> info.name) {
    info.signature = Signature((info.name + text.substr(text.find('('))).c_str());
    register_op(info);
  }
}

}  // namespace detail
}  // namespace rl
