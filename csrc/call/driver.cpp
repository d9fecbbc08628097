// How a call of any op is run: autocast, sharing, batching, the kernel, recording, tangents; how a
// node runs its rule; how a call comes from Python. See docs/design/calls.md.
#include <cstring>

#include "autograd/autocast_devices.h"
#include "autograd/cuts.h"
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "call/batch.h"
#include "call/call_node.h"
#include "call/formula.h"
#include "call/values.h"

namespace rl {

namespace {

// Arguments that belong to the call.
class Arguments {
 public:
  explicit Arguments(const OpRecord& op) : op_(op) {}
  ~Arguments() {
    for (int k = 0; k < op_.tensor_count && op_.tensors[k] < made_; k++) {
      int i = op_.tensors[k];
      if (op_.holds[i] == Holds::Tensor) static_cast<Var*>(place(i))->~Var();
      else static_cast<Vars*>(place(i))->~Vars();
    }
    for (int k = 0; k < op_.ended_count && op_.ended[k] < made_; k++)
      op_.types[op_.ended[k]]->destroy(place(op_.ended[k]));
  }
  Arguments(const Arguments&) = delete;

  // Has make(type, number, place) make all of them.
  template <class F>
  void fill(const F& make) {
    for (; made_ < op_.count; made_++) {
      make(*op_.types[made_], made_, place(made_));
      values_[made_] = place(made_);
    }
  }
  // Copies of args, with f(number of the argument, tensor) for each tensor.
  template <class F>
  void fill(Values args, const F& f) {
    fill([&](const ArgumentType& type, int i, void* place) {
      if (type.holds == Holds::Tensor) {
        new (place) Var(f(i, tensor(args[i])));
      } else if (type.holds == Holds::Tensors) {
        Vars all;
        for (const Var& v : tensors(args[i])) all.push_back(f(i, v));
        new (place) Vars(std::move(all));
      } else {
        type.copy(args[i], place);
      }
    });
  }
  Values values() const { return values_; }

 private:
  void* place(int i) { return block_ + op_.places[i]; }

  const OpRecord& op_;
  int made_ = 0;
  const void* values_[kMaxParams];
  alignas(8) char block_[kMaxBlock];
};

// The results of a call in memory of their own type, which may be the caller's.
class Results {
 public:
  Results(const OpRecord& op, void* result) : op_(op), result_(result) {}
  Var* data() const {
    return op_.results == ResultKind::List ? static_cast<Vars*>(result_)->data()
                                           : static_cast<Var*>(result_);
  }
  size_t count() const {
    return op_.results == ResultKind::One       ? 1
           : op_.results == ResultKind::Several ? op_.result->count
                                                : static_cast<Vars*>(result_)->size();
  }
  Var& operator[](size_t i) const { return data()[i]; }

 private:
  const OpRecord& op_;
  void* result_;
};

class OwnResult {
 public:
  explicit OwnResult(const OpRecord& op) : op_(op) { op_.result->make(memory_); }
  ~OwnResult() { op_.result->drop(memory_); }
  OwnResult(const OwnResult&) = delete;
  void* get() { return memory_; }

 private:
  const OpRecord& op_;
  alignas(8) char memory_[kMaxResult];
};

bool may_require(const Var& v) {
  return v && is_differentiable(v.dtype()) && requires_grad(v.get());
}

// What the arguments bring along: whether one requires grad, where the first was cut off.
struct Origins {
  bool requires_grad = false, stored = false;
  uint32_t cut = 0;
  Origins(const OpRecord& op, Values args) {
    each_tensor(op, args, [&](const Var& v) {
      requires_grad |= may_require(v);
      if (!v) return;
      stored |= is_stored(v.dtype());
      if (!cut) cut = v->cut;
    });
  }
};

HiddenDims hidden_dims(const OpRecord& op, Values args) {
  HiddenDims hidden;
  each_tensor(op, args, [&](const Var& v) { hidden.add(v); });
  return hidden;
}

// --- Batches ---------------------------------------------------------------------------------

void hide(const HiddenDims& hidden, const Results& results) {
  for (size_t k = 0; k < results.count(); k++) results[k] = hidden.hide(results[k]);
}

// Puts the results of samples together: join(results number k of all samples).
template <class F>
void join_samples(const OpRecord& op, std::vector<Vars>& parts, void* result, const F& join) {
  size_t count = parts[0].size();
  if (op.results == ResultKind::List) static_cast<Vars*>(result)->resize(count);
  for (size_t k = 0; k < count; k++) {
    Vars samples;
    for (Vars& part : parts) {
      check(part.size() == count, "vmap: ", op.name, " gives samples different numbers of results");
      samples.push_back(part[k]);
    }
    Results(op, result)[k] = join(samples);
  }
}

// Runs the op sample by sample; the results stand side by side.
void run_each_sample(const OpRecord& op, const HiddenDims& hidden, Values args, void* result) {
  std::vector<Vars> parts;
  for (int64_t n = 0; n < std::max<int64_t>(hidden.samples(), 1); n++) {
    Arguments sample(op);
    sample.fill(args, [&](int, const Var& v) { return hidden.sample(v, n); });
    OwnResult own(op);
    op.forward(op, sample.values(), own.get());
    Results part(op, own.get());
    parts.emplace_back(part.data(), part.data() + part.count());
  }
  join_samples(op, parts, result, [&](Vars& v) { return hidden.join(op.name, v); });
}

[[gnu::noinline]] void compute_batched(const OpRecord& op, const HiddenDims& hidden, Values args,
                                       void* result) {
  const OpTable& table = op;
  if (op.results == ResultKind::Other) refuse_batched(op.name);
  Results results(op, result);
  if (table.batched) {
    table.batched(op, hidden, args, result);
    return hide(hidden, results);
  }
  if (table.batching == Batching::Shift) {
    Shift shift(hidden, op.signature, table.family == Family::Reduction, table.added_dims);
    Arguments moved(op);
    moved.fill([&](const ArgumentType& type, int i, void* place) {
      type.shift(shift, size_t(i), args[i], place);
    });
    if (shift.possible()) {
      table.forward(op, moved.values(), result);
      return hide(hidden, results);
    }
  }
  if (table.batching == Batching::Broadcast) {
    int rank = 0;
    for (int i = 0; i < table.count; i++)
      if (op.holds[i] == Holds::Tensor && tensor(args[i]))
        rank = std::max(rank, tensor(args[i]).dim());
    Arguments level(op);
    level.fill(args, [&](int, const Var& v) { return v ? hidden.front(v, rank - v.dim()) : v; });
    table.forward(op, level.values(), result);
    return hide(hidden, results);
  }
  run_each_sample(op, hidden, args, result);
  hide(hidden, results);
}

// A composite that reads numbers out of its arguments: one sample of the innermost level after the
// other, recorded.
void run_apart(const OpRecord& op, const HiddenDims& hidden, Values args, void* result) {
  int64_t level = hidden.levels.back(), size = hidden.sizes.back();
  std::vector<Vars> parts;
  for (int64_t n = 0; n < size; n++) {
    Arguments sample(op);
    sample.fill(args, [&](int, const Var& v) { return ops::one_sample(v, level, size, n); });
    OwnResult own(op);
    run(op, sample.values(), own.get());
    Results part(op, own.get());
    parts.emplace_back(part.data(), part.data() + part.count());
  }
  check(size > 0, "vmap: ", op.name, " needs a sample to know its result's shape");
  join_samples(op, parts, result, [&](Vars& v) { return ops::as_samples(v, level); });
}

// forward, over all samples at once where an argument is batched.
void compute(const OpRecord& op, Values args, void* result) {
  // A view is made of strides: its samples keep their hidden ones.
  bool by_strides = op.is_view && op.batching == Batching::Loop;
  if (batched_tensors && !by_strides && !op.sees_batches) [[unlikely]]
    if (HiddenDims hidden = hidden_dims(op, args)) return compute_batched(op, hidden, args, result);
  op.forward(op, args, result);
}

// --- Tangents --------------------------------------------------------------------------------

// The op with choose(number of the tensor, named by `saves`, v) for each of its tensors.
template <class F>
void run_on_tangents(const OpRecord& op, Values args, void* result, const F& choose) {
  size_t at = 0;
  Arguments chosen(op);
  chosen.fill(args, [&](int i, const Var& v) { return choose(at++, bool(op.saved >> i & 1), v); });
  run(op, chosen.values(), result);
}

void push_level(const OpRecord& op, Values args, Var* results, size_t count, int level) {
  Vars tangents;
  each_tensor(op, args, [&](const Var& v) { tangents.push_back(tangent_of(v, level)); });
  Push p(tangents, results, count);
  if (op.jvp) {
    Arguments primals(op);
    primals.fill(args, [&](int, const Var& v) { return below(v, level); });
    op.jvp(op, p, primals.values());
  } else if (op.bilinear) {
    for (size_t i = 0; i < tangents.size(); i++) {
      if (!tangents[i]) continue;
      OwnResult term(op);
      run_on_tangents(op, args, term.get(), [&](size_t at, bool, const Var& v) {
        return at == i ? tangents[i] : below(v, level);
      });
      p.add(Results(op, term.get())[0]);
    }
  } else {
    OwnResult own(op);
    run_on_tangents(op, args, own.get(), [&](size_t at, bool saved, const Var& v) {
      return saved || !v ? v : tangents[at] ? tangents[at] : no_tangent(v);
    });
    Results moved(op, own.get());
    for (size_t k = 0; k < moved.count(); k++) p[int(k)] = moved[k];
  }
  if (op.whole_history) {
    Vars inputs;
    each_tensor(op, args, [&](const Var& v) { inputs.push_back(below(v, level)); });
    for (size_t k = 0; k < count; k++) bind_history(p[int(k)], inputs);
  }
  for (size_t k = 0; k < count; k++)
    if (is_differentiable(results[k].dtype()))
      set_tangent(results[k].get(), level, p[int(k)] ? p[int(k)] : no_tangent(results[k]));
}

// --- Stored types ----------------------------------------------------------------------------

// The type that a call asks for by a parameter of this type, or I64.
DType wanted_type(const OpRecord& op, Values args) {
  for (int i = 0; i < op.count; i++) {
    if (op.types[i] != &detail::ArgumentOf<std::optional<DType>>::type) continue;
    const auto& given = *static_cast<const std::optional<DType>*>(args[i]);
    if (given && !is_integral(*given)) return *given;
  }
  return DType::I64;
}

// uint64 as int64 of the same order, and back. A conversion keeps the bits.
Var flipped(const Var& v, DType as) {
  Var bits = ops::to(v, DType::I64), top = ops::full({}, -0x1p63, DType::I64, v.device());
  return ops::to(math::call_pointwise("bitwise_xor", {bits, top}), as);
}

// Runs an op, which has no derivative here, on what it can compute with.
[[gnu::noinline]] void run_converted(const OpRecord& op, Values args, void* result) {
  DType type = DType::I64,
        target = op.stored == Stored::Truth ? DType::Bool : wanted_type(op, args);
  each_tensor(op, args, [&](const Var& v) {
    if (v && is_stored(v.dtype())) type = v.dtype();
  });
  bool integers = op.stored >= Stored::Summed && target == DType::I64;
  if (op.stored == Stored::Refused || (integers && !is_wide_unsigned(type)))
    refuse_stored(op.name, type);
  bool flips = op.stored == Stored::Ordered && type == DType::U64;
  Arguments converted(op);
  converted.fill(args, [&](int, const Var& v) {
    if (!v || !is_stored(v.dtype())) return v;
    if (flips) {
      check(v.dtype() == type, op.name, ": expected tensors of one dtype, got ", name(type),
            " and ", name(v.dtype()));
      return flipped(v, DType::I64);
    }
    return ops::to(v, target);
  });
  run(op, converted.values(), result);
  if (op.stored != Stored::Ordered || op.form == Form::NonDifferentiable) return;
  Var& first = Results(op, result)[0];
  first = flips ? flipped(first, type) : ops::to(first, type);
}

// --- The way of a call -----------------------------------------------------------------------

// Views of inference tensors belong to no one, but for those that a transform differentiates.
bool is_untracked(const Var& of) {
  return of->storage->inference && (modes.inference || !modes.transforms);
}

void make_views(const Var& of, Var* views, size_t count) {
  Creation creation = modes.inference ? Creation::Inference
                      : !modes.grad   ? Creation::NoGrad
                      : count > 1     ? Creation::MultiOutput
                                      : Creation::Default;
  for (size_t i = 0; i < count; i++) {
    Tensor* view = views[i].get();
    if (!is_untracked(of)) set_view(view, of.get(), creation);
    if (of->extra && of->extra->tangents) share_tangents(view, of.get());
  }
}

void execute(const OpRecord& op, Values args, void* result) {
  if (op.form == Form::Composite) {
    if (op.reads_numbers && batched_tensors) [[unlikely]]
      if (HiddenDims hidden = hidden_dims(op, args)) return run_apart(op, hidden, args, result);
    return op.forward(op, args, result);
  }
  if (devices_mix || recording) [[unlikely]]
    admit(op, nullptr, args);
  Origins origins(op, args);
  if (origins.stored && op.stored != Stored::Moved) [[unlikely]]
    return run_converted(op, args, result);
  bool requires_grad = origins.requires_grad, differentiable = op.form != Form::NonDifferentiable;
  bool records = requires_grad && differentiable && modes.records();
  if (op.is_view && records && is_untracked(tensor(args[0]))) [[unlikely]]
    records = false;
  Results results(op, result);
  // Hooks see what is saved before the kernel runs: one that raises spares it.
  NodeRef node;
  if (records && saved_hooks.stack && op.results != ResultKind::List) [[unlikely]]
    node = op.prepare(op, results.count(), args);
  {
    Plain plain;
    compute(op, args, result);
  }
  if (op.results == ResultKind::Other) return;
  Var* out = results.data();
  size_t count = results.count();
  if (op.is_view) make_views(tensor(args[0]), out, count);
  else own(out, count);
  if (records) {
    if (!node) node = op.prepare(op, count, args);
    op.finish(op, node.get(), out, count);
  }
  // What cut an argument off is known to the results: errors name it.
  uint32_t cut = records || !requires_grad ? origins.cut : 0;
  if (cut || (requires_grad && !records)) [[unlikely]]
    mark_cut(out, count, cut, op.name, differentiable);
  if (dual_levels && differentiable && !op.is_view) [[unlikely]]
    push_forward(op, args, out, count);
}

// In a mixed precision region, as the op's policy says.
void run_cast(const OpRecord& op, Values args, void* result) {
  Device device = kHost;
  each_tensor(op, args, [&](const Var& v) {
    if (v && v.device().type == Device::CUDA) device = v.device();
  });
  Autocast policy = autocasts_on(device) ? autocast_on(op.autocast, device) : Autocast::None;
  if (policy == Autocast::None) return execute(op, args, result);
  DType target = policy == Autocast::Full ? DType::F32 : autocast_dtype_on(device);
  if (policy == Autocast::Widest)
    each_tensor(op, args, [&](const Var& v) {
      if (is_castable(v) && v.dtype() != target) target = DType::F32;
    });
  Arguments cast(op);
  cast.fill(args, [&](int, const Var& v) { return autocast(v, target); });
  WithoutAutocast off;
  execute(op, cast.values(), result);
}

void run_shared(const OpRecord& op, Values args, void* result) {
  CallKey key(&op);
  for (int i = 0; i < op.count; i++) op.types[i]->key(key, args[i]);
  *static_cast<Var*>(result) = shared(key, [&] {
    Var computed;
    execute(op, args, &computed);
    return computed;
  });
}

[[gnu::noinline]] void run_in_modes(const OpRecord& op, Values args, void* result) {
  Profiled event;
  if (modes.profiled) {
    event.op(op.name);
    each_tensor(op, args, [&](const Var& v) { event.shape(v); });
  }
  if (modes.autocast && op.autocast != Autocast::None) run_cast(op, args, result);
  else if (modes.shares && op.shareable) run_shared(op, args, result);
  else execute(op, args, result);
}

// --- Python ----------------------------------------------------------------------------------

void parse(Arguments& args, const OpInfo& info, PyObject* const* slots) {
  args.fill([&](const ArgumentType& type, int i, void* place) {
    type.parse(info.signature, i, slots[i], place);
  });
}

PyObject* call_slots(const OpInfo& info, PyObject* const* slots) {
  const OpRecord& op = *info.record;
  Arguments args(op);
  parse(args, info, slots);
  OwnResult result(op);
  run(op, args.values(), result.get());
  return op.result->to_python(info.signature, result.get());
}

// A factory: layouts other than None are Python's business, and rare.
PyObject* call_factory(const OpInfo& info, PyObject* const* slots) {
  PyObject* layout = slots[info.layout_at];
  if (layout == Py_None) return call_slots(info, slots);
  PyObject* module = PyImport_ImportModule("rushlight._layout");
  PyObject* made =
      module ? PyObject_CallMethod(module, "_check", "sO", info.name.c_str(), layout) : nullptr;
  Py_XDECREF(module);
  if (!made) throw PythonError{};
  PyObject* result = nullptr;
  try {
    result = call_slots(info, slots);
  } catch (...) {
    Py_DECREF(made);
    throw;
  }
  if (result && made != Py_None) Py_SETREF(result, PyObject_CallOneArg(made, result));
  Py_DECREF(made);
  if (!result) throw PythonError{};
  return result;
}

void write_slots(const OpInfo& info, PyObject* const* slots, Tensor* into, bool inplace) {
  Arguments args(*info.record);
  parse(args, info, slots);
  admit(*info.record, into, args.values());
  info.record->into(into, inplace, args.values());
}

}  // namespace

void admit(const OpRecord& op, const Tensor* written, Values args) {
  auto each = [&](const auto& f) { each_tensor(op, args, [&](const Var& v) { f(v.get()); }); };
  admit(op.name, written, each, op.any_devices);
}

bool requires_any(const OpRecord& op, Values args) { return Origins(op, args).requires_grad; }

void record(const OpRecord& op, Values args, Var* results, size_t count) {
  NodeRef node = op.prepare(op, count, args);
  op.finish(op, node.get(), results, count);
}

void push_forward(const OpRecord& op, Values args, Var* results, size_t count) {
  Levels all = 0;
  each_tensor(op, args, [&](const Var& v) { all |= levels_of(v.get()); });
  // Of the lowest level first: each may read those below it.
  for (Levels rest = all; rest; rest &= rest - 1)
    push_level(op, args, results, count, lowest(rest));
}

void run(const OpRecord& op, Values args, void* result) {
  if (modes.profiled || modes.autocast || modes.shares) [[unlikely]]
    run_in_modes(op, args, result);
  else execute(op, args, result);
}

OpRecord::OpRecord(const OpTable& table)
    : OpTable(table),
      signature(table.text),
      plan(table.saves, signature),
      node{},
      results(table.result->kind) {
  if (!name) name = signature.name().c_str();
  for (uint8_t i = 0; i < count; i++) {
    holds[i] = types[i]->holds;
    if (holds[i] != Holds::Value) tensors[tensor_count++] = i;
    else if (types[i]->destroy) ended[ended_count++] = i;
  }
  for (const SavePlan::Group& group : plan.groups) {
    saved |= group.arguments;
    saved_outputs |= group.outputs;
  }
  // Ops that rules of many derivatives are made of. None of them draws numbers or is called for
  // memory of its own.
  bool derived = table.form == Form::Linear || table.form == Form::General;
  bool often =
      table.is_view || table.family == Family::Reduction || table.family == Family::Contraction;
  shareable =
      results == ResultKind::One && (table.family == Family::Pointwise || (derived && often));
  node = node_class(*this);
}

const OpRecord& make_record(const OpTable& table) { return *new OpRecord(table); }

OpInfo& register_op(const OpRecord& op) { return register_op(describe(op)); }

OpInfo describe(const OpRecord& op) {
  const OpTable& table = op;
  OpInfo info;
  info.signature = op.signature;
  info.name = op.signature.name();
  info.doc = table.doc;
  info.module = table.module;
  info.family = table.family;
  info.former = table.former;
  info.result = table.result->word;
  info.form = table.form;
  info.function = table.function;
  info.method = table.method;
  info.inplace = table.inplace;
  info.out = table.out;
  info.tried_last = table.tried_last;
  info.record = &op;
  info.call = call_slots;
  const std::vector<Param>& params = info.signature.params();
  for (size_t i = 0; i < params.size(); i++)
    if (params[i].name == "layout") info.layout_at = int(i), info.call = call_factory;
  if (table.into) info.into = write_slots;
  return info;
}

}  // namespace rl
