#include "call/pointwise.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "call/arguments.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/pointwise_batch.h"
#include "call/pointwise_node.h"
#include "call/values.h"
#include "call/write.h"
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

// Operands of any types and shapes: what they have in common, and as the kernel reads them.
struct Settled {
  DType common, compute, result;
  bool reads_bits;
  Ints sizes;
  Var read[3];
  const Tensor* operands[3] = {};

  Settled(const Pointwise& op, const Var* in, const Tensor* into) {
    Promotion promotion;
    // A condition does not decide the type of what it chooses.
    for (int i = op.moves ? 1 : 0; i < op.inputs; i++) promotion.add(in[i].get());
    common = promotion.result();
    if (op.promotes == Result::Float && is_integral(common)) common = default_dtype();
    compute = compute_type(common);
    bool on_device = into && into->device().type == Device::CUDA;
    for (int i = 0; i < op.inputs; i++) on_device |= in[i].device().type == Device::CUDA;
    if (on_device) [[unlikely]] {
      for (int i = 0; i < op.inputs; i++) check_on_device(op, in[i].dtype());
      check_on_device(op, into ? into->dtype : common);
    }
    reads_bits = op.moves && !into && is_stored(common);
    if (is_stored(common)) [[unlikely]] {
      check_stored(op, common);
      if (reads_bits) compute = moved_as(common);
    }
    if (!op.lanes[int(compute)]) fail_dtype(op, common);
    result = op.promotes == Result::Bool            ? DType::Bool
             : op.produced[int(compute)] != compute ? real_of(common)
                                                    : common;
    sizes = in[0].sizes();
    for (int i = 1; i < op.inputs; i++)
      if (!(in[i].sizes() == sizes)) sizes = broadcast(sizes, in[i].sizes());
    if (compute != common) [[unlikely]]
      round_operands(op, in, common, read);
    else std::copy_n(in, op.inputs, read);
    for (int i = 0; i < op.inputs; i++) {
      if (reads_bits && read[i].dtype() == common) read[i] = reread(read[i], compute);
      operands[i] = read[i].get();
    }
  }

  void run(const Pointwise& op, const double* params, Tensor* out) const {
    run_general(op.lanes[int(compute)], params, compute, op.produced[int(compute)], op.cost, out,
                operands, op.inputs);
  }
};

// The result where a kernel can read the operands straight through; else none.
[[gnu::always_inline]] inline Var run_flat(const Pointwise& op, const Tensor* const* operands,
                                           const double* params) {
  const Tensor* main = main_operand(operands, op.inputs);
  Flat flat;
  if (!main || (op.promotes == Result::Float && is_integral(main->dtype)) ||
      !flat.take(operands, op.inputs, main))
    return {};
  kernel::Lanes kernel = op.lanes[int(main->dtype)];
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

[[gnu::noinline]] Var run_settled(const Pointwise& op, const Var* in, const double* params) {
  Settled call(op, in, nullptr);
  Var out = empty_pointwise(call.operands, op.inputs, call.sizes,
                            call.reads_bits ? call.compute : call.result);
  call.run(op, params, out.get());
  return call.reads_bits ? reread(out, call.common) : out;
}

// --- What the driver calls ---------------------------------------------------------------------

const Pointwise& pointwise(const OpRecord& op) { return static_cast<const Pointwise&>(op); }

// The arguments of a call in one piece each.
struct Operands {
  Var in[3];
  double params[4];
  Operands(const Pointwise& op, Values args) {
    for (int i = 0; i < op.inputs; i++) in[i] = tensor(args[i]);
    for (int i = 0; i < op.params; i++)
      params[i] = *static_cast<const double*>(args[op.inputs + i]);
  }
};

void forward(const OpRecord& record, Values args, void* result) {
  const Pointwise& op = pointwise(record);
  Operands call(op, args);
  if (op.validate) op.validate(call.in);
  const Tensor* operands[] = {call.in[0].get(), call.in[1].get(), call.in[2].get()};
  Var out = run_flat(op, operands, call.params);
  *static_cast<Var*>(result) = out ? out : run_settled(op, call.in, call.params);
}

void batched(const OpRecord& record, const HiddenDims& hidden, Values args, void* result) {
  const Pointwise& op = pointwise(record);
  Operands call(op, args);
  if (op.validate) op.validate(call.in);
  *static_cast<Var*>(result) = run_batched(op, call.in, call.params, hidden);
}

void jvp(const OpRecord& record, Push& push, Values args) {
  const Pointwise& op = pointwise(record);
  Operands call(op, args);
  push[0] = pushed(op, call.in, call.params, push);
}

NodeRef prepare(const OpRecord& record, size_t, Values args) {
  const Pointwise& op = pointwise(record);
  Operands call(op, args);
  return NodeRef::steal(make_node(op, call.in, call.params));
}

void finish(const OpRecord&, Node* node, Var* results, size_t) {
  if (!is_differentiable(results[0].dtype())) return set_output_meta(node, 0, results[0].get());
  set_history(results[0].get(), node, 0);
  node_in_making = node;
  finish_node(node, results[0].get());
}

[[gnu::noinline]] Var run_by_driver(const Pointwise& op, const Var* in, const double* params) {
  const void* args[7];
  for (int i = 0; i < op.inputs; i++) args[i] = in + i;
  for (int i = 0; i < op.params; i++) args[op.inputs + i] = params + i;
  Var out;
  run(op, args, &out);
  return out;
}

// Gives the result its node, or notes why it has none.
[[gnu::always_inline]] inline void leave_history(const Pointwise& op, const Var* in,
                                                 const double* params, Var& out) {
  bool requires_grad = false;
  uint32_t cut = 0;
  for (int i = 0; i < op.inputs; i++) {
    requires_grad = requires_grad || rl::requires_grad(in[i].get());
    if (!cut) cut = in[i]->cut;
  }
  if (requires_grad && op.differentiable() && modes.records() && is_differentiable(out->dtype)) {
    Node* node = make_node(op, in, params);
    set_history(out.get(), node, 0);
    Py_DECREF(node);
    node_in_making = node;
    finish_node(node, out.get());
    if (cut) [[unlikely]]
      out->cut = cut;
  } else if (requires_grad || cut) [[unlikely]] {
    mark_cut(&out, 1, requires_grad ? 0 : cut, op.name, op.differentiable());
  }
}

// --- In place and out= -------------------------------------------------------------------------

Var write_plain(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                bool inplace) {
  admit(op.name, into, [&](const auto& f) {
    for (int i = 0; i < op.inputs; i++) f(in[i].get());
  });
  if (op.validate) op.validate(in);
  Settled call(op, in, into);
  check_cast(call.result, into->dtype);
  // What is refused changes nothing: the output is resized when all is checked.
  Var resized;
  if (!(into->sizes == call.sizes)) {
    if (inplace)
      fail("output with shape ", into->sizes, " doesn't match the broadcast shape ", call.sizes);
    resized = alias(into, call.sizes, pointwise_strides(call.operands, op.inputs, call.sizes),
                    into->offset);
  }
  if (inplace) check_inplace(into, op.name);
  bool any = false;
  for (int i = 0; i < op.inputs; i++) any = any || requires_grad(in[i].get());
  if (!inplace && op.differentiable()) check_out(any, into, op.name);
  check_writable(into);
  for (int i = 0; i < op.inputs; i++)
    if (overlaps_partly(call.operands[i], resized ? resized.get() : into)) {
      GradMode off(false);
      call.read[i] = ops::clone(call.read[i]);
      call.operands[i] = call.read[i].get();
    }
  if (resized) resize_output(into, call.sizes, resized->strides);
  bool recorded = inplace && any && modes.records() && is_differentiable(into->dtype) &&
                  (op.differentiable() || requires_grad(into));
  Node* node = recorded ? make_node(op, in, params, into) : nullptr;
  NodeRef hold = NodeRef::steal(node);
  prepare_write(into, op.name);
  call.run(op, params, into);
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

// In place, what was there is kept aside for the tangents, which are those of the plain form.
Var write_dual(const Pointwise& op, const Var* in, const double* params, Tensor* into,
               bool inplace) {
  if (!inplace) refuse_out(op.name);
  Var before[3];
  for (int i = 0; i < op.inputs; i++)
    before[i] = in[i]->storage == into->storage ? ops::clone(in[i]) : in[i];
  Var out = write_plain(op, in, params, into, true);
  replace_tangents(into, run_pointwise(op, before, params));
  return out;
}

[[gnu::noinline]] Var write(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                            bool inplace) {
  Profiled event;
  if (modes.profiled) [[unlikely]] {
    event.op(inplace ? (std::string(op.name) + "_").c_str() : op.name);
    for (int i = 0; i < op.inputs; i++) event.shape(in[i]);
  }
  if (batched_tensors) [[unlikely]]
    if (is_batched_write(op, in, into)) return write_batched(op, in, params, into, inplace);
  if (dual_levels) [[unlikely]] {
    Levels levels = levels_of(into);
    for (int i = 0; i < op.inputs; i++) levels |= levels_of(in[i].get());
    if (levels) return write_dual(op, in, params, into, inplace);
  }
  return write_plain(op, in, params, into, inplace);
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
  if (into) [[unlikely]]
    return write(op, in, params, into, inplace);
  if (modes.profiled || modes.autocast || modes.shares || dual_levels || batched_tensors ||
      recording || devices_mix || saved_hooks.stack || op.validate) [[unlikely]]
    return run_by_driver(op, in, params);
  const Tensor* operands[] = {in[0].get(), op.inputs > 1 ? in[1].get() : nullptr,
                              op.inputs > 2 ? in[2].get() : nullptr};
  Var out = run_flat(op, operands, params);
  if (!out) out = run_settled(op, in, params);
  leave_history(op, in, params, out);
  return out;
}

const LanesInfo& formula_of(kernel::Lanes lanes) { return compiled().at(lanes); }

Elements elements_of(DType d) {
  if (is_complex(d)) return Elements::Complex;
  return d == DType::Bool ? Elements::Bool : is_integral(d) ? Elements::Integer : Elements::Real;
}

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

OpTable pointwise_table(int inputs, int params) {
  static const ArgumentType *const tensor = &ArgumentOf<Var>::type, *const number =
                                                                        &ArgumentOf<double>::type;
  static const ArgumentType* const types[] = {tensor, tensor, tensor, number,
                                              number, number, number};
  static constexpr uint16_t places[] = {0, 8, 16, 24, 32, 40, 48, 56};
  OpTable t{};
  t.saves = "";
  t.types = types + 3 - inputs;
  t.places = t.kept_places = places;
  t.count = uint8_t(inputs + params);
  t.result = &ResultOf<Var>::type;
  t.family = Family::Pointwise;
  t.stored = Stored::Moved;
  t.out = true;
  t.forward = forward;
  t.batched = batched;
  t.jvp = jvp;
  t.prepare = prepare;
  t.finish = finish;
  return t;
}

Pointwise& new_pointwise(const OpTable& table) { return *new Pointwise(table); }

void finish_pointwise(Pointwise& p) {
  check(p.signature.params().size() >= p.count, p.name,
        ": the signature does not name every input and parameter");
  for (int d = 0; d < kDTypes; d++) {
    DType type = DType(d);
    if (p.lanes[d])
      compiled()[p.lanes[d]] = {p.name,        p.inputs, p.params, type,
                                p.produced[d], p.symbol, nullptr,  p.selects};
    for (const auto& partial : p.partial)
      if (partial.kernel[d])
        compiled()[partial.kernel[d]] = {p.name, p.inputs, p.params,       type,
                                         type,   nullptr,  partial.symbol, p.selects};
  }
  p.node = pointwise_node(p.grad_name ? p.grad_name : backward_name(p.name));
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
    if (integral && has(p.elements, Types::Integer) && PyFloat_Check(slot))
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

void register_pointwise(const Pointwise& p, const char* domain, const char* aliases) {
  table()[p.name] = &p;
  OpInfo info = describe(p);
  info.domain = domain;
  info.pointwise = &p;
  info.call = call;
  info.into = into;
  info.fast = fast;
  register_op(info);
  const std::string text = info.signature.text();
  const std::string others = aliases;  // streams of temporaries need the C++ library of GCC 11
  std::istringstream names(others);
  while (names >> info.name) {
    info.signature = Signature((info.name + text.substr(text.find('('))).c_str());
    register_op(info);
  }
}

}  // namespace detail
}  // namespace rl
