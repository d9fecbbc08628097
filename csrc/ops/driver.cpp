// How a call of any op is run: autocast, sharing, batching, the kernel, recording, tangents; how a
// node runs its rule; how a call comes from Python. See docs/design/calls.md.
#include <cstring>

#include "autograd/cuts.h"
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "ops/batch.h"
#include "ops/call.h"

namespace rl {

namespace {

constexpr int kMaxKeptOutputs = 3;

const Var& tensor(const void* value) { return *static_cast<const Var*>(value); }
const Vars& tensors(const void* value) { return *static_cast<const Vars*>(value); }

template <class F>
[[gnu::always_inline]] inline void each_tensor(const OpRecord& op, Values args, const F& f) {
  for (int k = 0; k < op.tensor_count; k++) {
    int i = op.tensors[k];
    if (op.holds[i] == Holds::Tensor) f(tensor(args[i]));
    else
      for (const Var& v : tensors(args[i])) f(v);
  }
}

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
           : op_.results == ResultKind::Several ? op_.result_count
                                                : static_cast<Vars*>(result_)->size();
  }
  Var& operator[](size_t i) const { return data()[i]; }

 private:
  const OpTable& op_;
  void* result_;
};

class OwnResult {
 public:
  explicit OwnResult(const OpRecord& op) : op_(op) { op_.make_result(memory_); }
  ~OwnResult() { op_.drop_result(memory_); }
  OwnResult(const OwnResult&) = delete;
  void* get() { return memory_; }

 private:
  const OpTable& op_;
  alignas(8) char memory_[kMaxResult];
};

bool may_require(const Var& v) {
  return v && is_differentiable(v.dtype()) && requires_grad(v.get());
}

// What the arguments bring along: whether one requires grad, where the first was cut off.
struct Origins {
  bool requires_grad = false;
  uint32_t cut = 0;
  Origins(const OpRecord& op, Values args) {
    each_tensor(op, args, [&](const Var& v) {
      requires_grad |= may_require(v);
      if (v && !cut) cut = v->cut;
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
      check(part.size() == count, "vmap: ", op.name(),
            " gives samples different numbers of results");
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
    op.forward(sample.values(), own.get());
    Results part(op, own.get());
    parts.emplace_back(part.data(), part.data() + part.count());
  }
  join_samples(op, parts, result, [&](Vars& v) { return hidden.join(op.name(), v); });
}

[[gnu::noinline]] void compute_batched(const OpRecord& op, const HiddenDims& hidden, Values args,
                                       void* result) {
  const OpTable& table = op;
  if (table.results == ResultKind::Other) refuse_batched(op.name());
  Results results(op, result);
  if (table.batched) {
    table.batched(hidden, args, result);
    return hide(hidden, results);
  }
  if (table.batching == Batching::Shift) {
    Shift shift(hidden, op.signature, std::strcmp(table.family, "reduction") == 0,
                table.added_dims);
    Arguments moved(op);
    moved.fill([&](const ArgumentType& type, int i, void* place) {
      type.shift(shift, size_t(i), args[i], place);
    });
    if (shift.possible()) {
      table.forward(moved.values(), result);
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
    table.forward(level.values(), result);
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
  check(size > 0, "vmap: ", op.name(), " needs a sample to know its result's shape");
  join_samples(op, parts, result, [&](Vars& v) { return ops::as_samples(v, level); });
}

// forward, over all samples at once where an argument is batched.
void compute(const OpRecord& op, Values args, void* result) {
  // A view is made of strides: its samples keep their hidden ones.
  bool by_strides = op.is_view && op.batching == Batching::Loop;
  if (batched_tensors && !by_strides && !op.sees_batches) [[unlikely]]
    if (HiddenDims hidden = hidden_dims(op, args)) return compute_batched(op, hidden, args, result);
  op.forward(args, result);
}

// --- Nodes -----------------------------------------------------------------------------------
//
// A node keeps a block: what it saved of the outputs, then each argument at its place.

struct SavedOutputs {
  SavedTensor outs[kMaxKeptOutputs];
};

SavedOutputs* outputs_of(char* block) { return reinterpret_cast<SavedOutputs*>(block); }
char* arguments_of(char* block) { return block + sizeof(SavedOutputs); }
char*& block_of(Node* node) { return node->payload<char*>(); }

KeptTensor& kept_tensor(const OpRecord& op, char* kept, int i) {
  return *reinterpret_cast<KeptTensor*>(kept + op.kept_places[i]);
}
std::vector<KeptTensor>& kept_tensors(const OpRecord& op, char* kept, int i) {
  return *reinterpret_cast<std::vector<KeptTensor>*>(kept + op.kept_places[i]);
}

void drop_arguments(const OpRecord& op, char* kept, int count) {
  for (int i = 0; i < count; i++) {
    if (op.holds[i] == Holds::Tensor) kept_tensor(op, kept, i).~KeptTensor();
    else if (op.holds[i] == Holds::Tensors) kept_tensors(op, kept, i).~vector();
    else if (op.types[i]->destroy) op.types[i]->destroy(kept + op.kept_places[i]);
  }
}

char* new_block(const OpRecord& op, Values args) {
  auto* block = static_cast<char*>(::operator new(sizeof(SavedOutputs) + op.kept_size));
  new (block) SavedOutputs;
  char* kept = arguments_of(block);
  int made = 0;
  try {
    for (; made < op.count; made++) {
      char* place = kept + op.kept_places[made];
      if (op.holds[made] == Holds::Tensor) new (place) KeptTensor;
      else if (op.holds[made] == Holds::Tensors) new (place) std::vector<KeptTensor>;
      else op.types[made]->copy(args[made], place);
    }
  } catch (...) {
    drop_arguments(op, kept, made);
    ::operator delete(block);
    throw;
  }
  return block;
}

const OpRecord& op_of(Node* node) { return *node->cls->op; }

void destroy(Node* node) {
  char* block = std::exchange(block_of(node), nullptr);
  if (!block) return;
  const OpRecord& op = op_of(node);
  drop_arguments(op, arguments_of(block), op.count);
  outputs_of(block)->~SavedOutputs();
  ::operator delete(block);
}

SavePlan::Group wanted_saves(const OpRecord& op, Node* node) {
  if (op.plan.groups.size() == 1) return op.plan.groups[0];
  SavePlan::Group all;
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (node->edges[i].node) {
      all.arguments |= op.plan.of(int(i)).arguments;
      all.outputs |= op.plan.of(int(i)).outputs;
    }
  return all;
}

void keep(KeptTensor& kept, const Var& v, bool save) {
  if (!v) return;
  kept.defined = true;
  kept.sizes = v.sizes();
  kept.dtype = v.dtype();
  if (save) kept.saved.save_input(v.get());
}

// The node with its edges and saved arguments, as a Python object.
Var prepare(const OpRecord& op, size_t outputs, Values args) {
  int edges = 0;
  each_tensor(op, args, [&](const Var&) { edges++; });
  Node* node = new_node(op.node, edges, int(outputs));
  Var hold = Var::steal(reinterpret_cast<Tensor*>(node));
  char* block = block_of(node) = new_block(op, args);
  int at = 0;
  each_tensor(op, args, [&](const Var& v) { set_edge(node, at++, v.get()); });
  node_in_making = node;
  std::optional<Spared> spared;
  if (op.spares) spared.emplace(true);
  uint32_t saved = wanted_saves(op, node).arguments;
  char* kept = arguments_of(block);
  for (int t = 0; t < op.tensor_count; t++) {
    int i = op.tensors[t];
    bool save = saved >> i & 1;
    if (op.holds[i] == Holds::Tensor) {
      keep(kept_tensor(op, kept, i), tensor(args[i]), save);
    } else {
      std::vector<KeptTensor>& all = kept_tensors(op, kept, i);
      all.resize(tensors(args[i]).size());
      for (size_t k = 0; k < all.size(); k++) keep(all[k], tensors(args[i])[k], save);
    }
  }
  return hold;
}

void finish(const OpRecord& op, Node* node, Var* results, size_t count) {
  SavedOutputs& kept = *outputs_of(block_of(node));
  SavePlan::Group group = wanted_saves(op, node);
  node_in_making = node;
  std::optional<Spared> spared;
  if (op.spares) spared.emplace(true);
  for (size_t i = 0; i < count; i++) {
    if (!is_differentiable(results[i].dtype())) {
      set_output_meta(node, int(i), results[i].get());
    } else {
      set_history(results[i].get(), node, int(i));
      if (op.is_view) results[i]->extra->view_version = results[i]->storage->version;
    }
    if (i < kMaxKeptOutputs && group.outputs >> i & 1)
      kept.outs[i].save_output(results[i].get(), uint32_t(i));
  }
  created(node);
}

// A view without a rule of its own is taken of an empty tensor to find where its elements lie.
Var same_view(const OpRecord& op, const Var& of, const char* kept) {
  const void* args[kMaxParams];
  args[0] = &of;
  for (int i = 1; i < op.count; i++) args[i] = kept + op.kept_places[i];
  Var view;
  op.forward(args, &view);
  return view;
}

void apply(Node* node, Pass& pass) {
  const OpRecord& op = op_of(node);
  char *block = block_of(node), *kept = arguments_of(block);
  if (op.vjp) {
    Back back(node, pass, outputs_of(block)->outs);
    op.vjp(back, node, kept);
  } else {
    const KeptTensor& input = kept_tensor(op, kept, 0);
    Var region = [&] {
      Plain plain;
      return same_view(op, empty(input.sizes, input.dtype), kept);
    }();
    pass.results[0] = ops::embed(pass.grads[0], input.sizes, region->strides, region->offset);
  }
  if (op.whole_history && pass.create_graph)
    for (uint32_t i = 0; i < node->edge_count; i++) bind_history(pass.results[i], node);
}

void deposit(Node* node, const Var& grad, Var& sum) {
  GradMode off(false);
  Var region = same_view(op_of(node), sum, arguments_of(block_of(node)));
  ops::accumulate_into(region.get(), grad.get());
}

void each_saved(Node* node, SavedVisitor& visitor) {
  char* block = block_of(node);
  if (!block) return;
  const OpRecord& op = op_of(node);
  char* kept = arguments_of(block);
  for (int k = 0; k < op.tensor_count; k++) {
    int i = op.tensors[k];
    if (!(op.saved >> i & 1)) continue;
    const char* name = op.signature.params()[size_t(i)].name.c_str();
    if (op.holds[i] == Holds::Tensor) visitor.visit(kept_tensor(op, kept, i).saved, name);
    else
      for (KeptTensor& one : kept_tensors(op, kept, i)) visitor.visit(one.saved, name);
  }
  static const char* const names[kMaxKeptOutputs] = {"result", "result1", "result2"};
  for (int i = 0; i < kMaxKeptOutputs; i++)
    if (op.saved_outputs >> i & 1) visitor.visit(outputs_of(block)->outs[i], names[i]);
}

// _saved_dim, _saved_self_sym_sizes and the like.
PyObject* attribute(Node* node, const char* name) {
  if (std::strncmp(name, "_saved_", 7) != 0 || !block_of(node)) return nullptr;
  name += 7;
  const OpRecord& op = op_of(node);
  char* kept = arguments_of(block_of(node));
  const std::vector<Param>& params = op.signature.params();
  for (int i = 0; i < op.count; i++) {
    const std::string& own = params[size_t(i)].name;
    if (op.holds[i] == Holds::Tensor && (own == "input" ? "self" : own) + "_sym_sizes" == name)
      return attribute_value(kept_tensor(op, kept, i).sizes);
  }
  for (int i = 0; i < op.count; i++)
    if (params[size_t(i)].name == name) return op.types[i]->attribute(kept + op.kept_places[i]);
  return nullptr;
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
    op.jvp(p, primals.values());
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

// --- The way of a call -----------------------------------------------------------------------

void make_views(const Var& of, Var* views, size_t count) {
  Creation creation = modes.inference ? Creation::Inference
                      : !modes.grad   ? Creation::NoGrad
                      : count > 1     ? Creation::MultiOutput
                                      : Creation::Default;
  for (size_t i = 0; i < count; i++) {
    Tensor* view = views[i].get();
    // What is made of inference tensors in inference mode belongs to no one.
    if (!modes.inference || !of->storage->inference) set_view(view, of.get(), creation);
    if (of->extra && of->extra->tangents) share_tangents(view, of.get());
  }
}

void execute(const OpRecord& op, Values args, void* result) {
  if (op.form == Form::Composite) {
    if (op.reads_numbers && batched_tensors) [[unlikely]]
      if (HiddenDims hidden = hidden_dims(op, args)) return run_apart(op, hidden, args, result);
    return op.forward(args, result);
  }
  Origins origins(op, args);
  bool requires_grad = origins.requires_grad, differentiable = op.form != Form::NonDifferentiable;
  bool records = requires_grad && differentiable && modes.records();
  Results results(op, result);
  // Hooks see what is saved before the kernel runs: one that raises spares it.
  Var node;
  if (records && saved_hooks.stack && op.results != ResultKind::List) [[unlikely]]
    node = prepare(op, results.count(), args);
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
    if (!node) node = prepare(op, count, args);
    finish(op, reinterpret_cast<Node*>(node.get()), out, count);
  }
  // What cut an argument off is known to the results: errors name it.
  uint32_t cut = differentiable && (records || !requires_grad) ? origins.cut : 0;
  if (cut || (requires_grad && !records)) [[unlikely]]
    mark_cut(out, count, cut, op.name(), differentiable);
  if (dual_levels && differentiable && !op.is_view) [[unlikely]]
    push_forward(op, args, out, count);
}

// In a mixed precision region, as the op's policy says.
void run_cast(const OpRecord& op, Values args, void* result) {
  DType target = op.autocast == Autocast::Full ? DType::F32 : autocast_state.dtype;
  if (op.autocast == Autocast::Widest)
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
    event.op(op.name());
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
  if (op.results == ResultKind::One)
    return to_python(info.signature, std::move(*static_cast<Var*>(result.get())));
  return op.to_python(info.signature, result.get());
}

void write_slots(const OpInfo& info, PyObject* const* slots, Tensor* into, bool inplace) {
  Arguments args(*info.record);
  parse(args, info, slots);
  info.record->into(into, inplace, args.values());
}

}  // namespace

bool requires_any(const OpRecord& op, Values args) { return Origins(op, args).requires_grad; }

void record(const OpRecord& op, Values args, Var* results, size_t count) {
  Var node = prepare(op, count, args);
  finish(op, reinterpret_cast<Node*>(node.get()), results, count);
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
    : OpTable(table), signature(table.text), plan(table.saves, signature), node{} {
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
  std::string_view family = table.family;
  shareable = table.results == ResultKind::One &&
              (table.form == Form::Linear || table.form == Form::General) &&
              (table.is_view || family == "reduction" || family == "contraction");
  node.name = table.grad_name ? table.grad_name : backward_name(name());
  node.apply = apply;
  node.each_saved = each_saved;
  node.destroy = destroy;
  node.attribute = attribute;
  if (table.is_view && !table.vjp) node.deposit = deposit;
  node.payload = sizeof(char*);
  node.op = this;
}

OpInfo describe(const OpRecord& op) {
  const OpTable& table = op;
  OpInfo info;
  info.signature = op.signature;
  info.name = op.signature.name();
  info.doc = table.doc;
  info.module = table.module;
  info.family = table.family;
  info.former = table.former;
  info.result = table.result;
  info.form = table.form;
  info.function = table.function;
  info.method = table.method;
  info.inplace = table.inplace;
  info.out = table.out;
  info.record = &op;
  info.call = call_slots;
  if (table.into) info.into = write_slots;
  return info;
}

}  // namespace rl
