// How an op of ops/op.h is run, recorded, differentiated and bound: all of it follows from forward's
// parameters and the rules that the struct states.
#pragma once

#include <tuple>

#include "autograd/cuts.h"
#include "autograd/history.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "autograd/sharing.h"
#include "ops/batch.h"
#include "ops/each.h"
#include "ops/formula.h"
#include "ops/rule.h"
#include "ops/shift.h"
#include "python/arguments.h"

namespace rl {

namespace detail {

inline constexpr int kMaxKeptOutputs = 3;

template <class T>
struct Keep {
  using type = T;
};
template <>
struct Keep<Var> {
  using type = KeptTensor;
};
template <>
struct Keep<Vars> {
  using type = std::vector<KeptTensor>;
};

// What `saves` says, as bits.
struct SavePlan {
  struct Group {
    uint32_t arguments = 0;
    uint32_t outputs = 0;
  };
  std::vector<Group> groups;  // per tensor argument, or one for all
  SavePlan(const char* text, const Signature& signature);
  const Group& of(int tensor) const {
    return groups[groups.size() == 1               ? 0
                  : size_t(tensor) < groups.size() ? size_t(tensor)
                                                   : groups.size() - 1];
  }
};

template <class Op, class F>
struct Runner;

template <class Op, class R, class... A>
struct Runner<Op, R (*)(A...)> {
  using Args = std::tuple<std::decay_t<A>...>;
  struct Kept {
    std::tuple<typename Keep<std::decay_t<A>>::type...> args;
    SavedTensor outs[kMaxKeptOutputs];
  };
  using KeptPtr = Kept*;
  static constexpr const char* result = result_kind<R>();
  static constexpr bool has_vjp = requires { &Op::vjp; };
  static constexpr bool has_jvp = requires { &Op::jvp; };

  static R run(const std::decay_t<A>&... args) {
    Profiled event;
    if (modes.profiled) [[unlikely]] {
      event.op(name());
      (event.shape(args), ...);
    }
    if constexpr (Op::autocast != Autocast::None)
      if (modes.autocast) [[unlikely]]
        return run_cast(args...);
    if constexpr (shareable)
      if (modes.shares) [[unlikely]] {
        CallKey key(&node_class());
        (key.add(args), ...);
        return shared(key, [&] { return execute(args...); });
      }
    return execute(args...);
  }
  // Ops that rules of many derivatives are made of. None of them draws numbers or is called for
  // memory of its own.
  static constexpr std::string_view family = Op::family;
  static constexpr bool shareable =
      std::is_same_v<R, Var> && (Op::form == Form::Linear || Op::form == Form::General) &&
      (Op::is_view || family == "reduction" || family == "contraction");

  // In a mixed precision region, as the op's policy says.
  [[gnu::noinline]] static R run_cast(const std::decay_t<A>&... args) {
    DType target = Op::autocast == Autocast::Full ? DType::F32 : autocast_state.dtype;
    if constexpr (Op::autocast == Autocast::Widest) (widen(target, args), ...);
    Args cast{each_tensor(args, [&](const Var& v) { return rl::autocast(v, target); })...};
    WithoutAutocast off;
    return std::apply(execute, cast);
  }

  static R execute(const std::decay_t<A>&... args) {
    if constexpr (Op::form == Form::Composite) {
      if constexpr (requires { Op::reads_numbers; })
        if (batched_tensors) [[unlikely]] {
          HiddenDims hidden;
          (hidden.add(args), ...);
          if (hidden) return apart(hidden, args...);
        }
      return Op::forward(args...);
    } else if constexpr (Op::form == Form::NonDifferentiable) {
      bool requires_grad = (false || ... || any_requires(args));
      Plain plain;
      R result = compute(args...);
      if constexpr (requires { result_data(result); }) {
        own(result_data(result), result_count(result));
        if (requires_grad) mark_cut(result_data(result), result_count(result), 0, name(), false);
      }
      return result;
    } else {
      bool requires_grad = (false || ... || any_requires(args));
      bool records = requires_grad && modes.records();
      // Hooks see what is saved before the kernel runs: one that raises spares it.
      Var node;
      if constexpr (!std::is_same_v<R, Vars>)
        if (records && saved_hooks.stack) [[unlikely]] {
          R places;
          node = prepare(result_count(places), args...);
        }
      R result = [&] {
        Plain plain;
        return compute(args...);
      }();
      if constexpr (Op::is_view) {
        Creation creation = modes.inference            ? Creation::Inference
                            : !modes.grad              ? Creation::NoGrad
                            : result_count(result) > 1 ? Creation::MultiOutput
                                                       : Creation::Default;
        const Var& of = std::get<0>(std::forward_as_tuple(args...));
        for (size_t i = 0; i < result_count(result); i++) {
          Tensor* view = result_data(result)[i].get();
          // What is made of inference tensors in inference mode belongs to no one.
          if (!modes.inference || !of->storage->inference) set_view(view, of.get(), creation);
          if (of->extra && of->extra->tangents) share_tangents(view, of.get());
        }
      } else {
        own(result_data(result), result_count(result));
      }
      if (records) {
        if (!node) node = prepare(result_count(result), args...);
        finish(reinterpret_cast<Node*>(node.get()), result);
      }
      // What cut an argument off is known to the results: errors name it.
      uint32_t cut = 0;
      if (records || !requires_grad) (void)(false || ... || (cut = cut_of(args)));
      if (cut || (requires_grad && !records)) [[unlikely]]
        mark_cut(result_data(result), result_count(result), cut, name(), true);
      if constexpr (!Op::is_view)
        if (dual_levels) [[unlikely]]
          push(result, args...);
      return result;
    }
  }
  static const char* name() { return signature().name().c_str(); }

  // forward, over all samples at once where an argument is batched.
  static R compute(const std::decay_t<A>&... args) {
    // A view is made of strides: its samples keep their hidden ones.
    constexpr bool by_strides = Op::is_view && Op::batching == Batching::Loop;
    if constexpr (!by_strides && !requires { Op::sees_batches; }) {
      if (batched_tensors) [[unlikely]] {
        HiddenDims hidden;
        (hidden.add(args), ...);
        if (hidden) return compute_batched(hidden, args...);
      }
    }
    return Op::forward(args...);
  }

  [[gnu::noinline]] static R compute_batched(const HiddenDims& hidden,
                                             const std::decay_t<A>&... args) {
    if constexpr (!requires(R& r) { result_data(r); }) {
      refuse_batched(name());
    } else if constexpr (requires { &Op::batched; }) {
      return hide(hidden, Op::batched(hidden, args...));
    } else {
      if constexpr (Op::batching == Batching::Shift) {
        Shift shift(hidden, signature(), std::string_view(Op::family) == "reduction", added_dims());
        size_t at = 0;
        auto next = [&](const auto& argument) { return shift(at++, argument); };
        Args moved{next(args)...};
        if (shift.possible()) return hide(hidden, std::apply(Op::forward, moved));
      }
      if constexpr (Op::batching == Batching::Broadcast) {
        int rank = 0;
        ((rank = std::max(rank, rank_of(args))), ...);
        Args level{each_tensor(
            args, [&](const Var& v) { return v ? hidden.front(v, rank - v.dim()) : v; })...};
        return hide(hidden, std::apply(Op::forward, level));
      }
      return hide(hidden, each_sample(hidden, args...));
    }
  }
  static int rank_of(const Var& v) { return v ? v.dim() : 0; }
  template <class T>
  static int rank_of(const T&) {
    return 0;
  }
  static constexpr int added_dims() {
    if constexpr (requires { Op::added_dims; }) return Op::added_dims;
    else return 0;
  }
  static R hide(const HiddenDims& hidden, R physical) {
    for (size_t k = 0; k < result_count(physical); k++)
      result_data(physical)[k] = hidden.hide(result_data(physical)[k]);
    return physical;
  }
  // Runs the op sample by sample; the results stand side by side.
  static R each_sample(const HiddenDims& hidden, const std::decay_t<A>&... args) {
    int64_t samples = hidden.samples();
    std::vector<R> parts;
    for (int64_t n = 0; n < std::max<int64_t>(samples, 1); n++)
      parts.push_back(Op::forward(hidden.sample(args, n)...));
    R joined = parts[0];
    for (size_t k = 0; k < result_count(joined); k++) {
      Vars results;
      for (R& part : parts) {
        check(result_count(part) == result_count(joined), "vmap: ", name(),
              " gives samples different numbers of results");
        results.push_back(result_data(part)[k]);
      }
      result_data(joined)[k] = hidden.join(name(), results);
    }
    return joined;
  }

  // A composite that reads numbers out of its arguments: one sample of the innermost level after
  // the other, recorded.
  static R apart(const HiddenDims& hidden, const std::decay_t<A>&... args) {
    int64_t level = hidden.levels.back(), size = hidden.sizes.back();
    std::vector<R> parts;
    for (int64_t n = 0; n < size; n++)
      parts.push_back(run(
          each_tensor(args, [&](const Var& v) { return ops::one_sample(v, level, size, n); })...));
    check(size > 0, "vmap: ", name(), " needs a sample to know its result's shape");
    R joined = parts[0];
    for (size_t k = 0; k < result_count(joined); k++) {
      Vars results;
      for (R& part : parts) results.push_back(result_data(part)[k]);
      result_data(joined)[k] = ops::as_samples(results, level);
    }
    return joined;
  }

  // Gives the results their tangents, of the lowest level first: each may read those below it.
  static void push(R& result, const std::decay_t<A>&... args) {
    for (Levels rest = (Levels(0) | ... | levels_in(args)); rest; rest &= rest - 1)
      push_level(result, lowest(rest), args...);
  }

  static void push_level(R& result, int level, const std::decay_t<A>&... args) {
    Var* outs = result_data(result);
    Vars tangents;
    auto collect = [&](const Var& v) { return tangents.emplace_back(tangent_of(v, level)); };
    (each_tensor(args, collect), ...);
    Push p(tangents, outs, result_count(result));
    if constexpr (has_jvp) {
      Op::jvp(p, each_tensor(args, [&](const Var& v) { return below(v, level); })...);
    } else if constexpr (requires { Op::bilinear; }) {
      for (size_t i = 0; i < tangents.size(); i++)
        if (tangents[i])
          p.add(on_tangents(args..., [&](size_t at, bool, const Var& v) {
            return at == i ? tangents[i] : below(v, level);
          }));
    } else {
      R moved = on_tangents(args..., [&](size_t at, bool saved, const Var& v) {
        return saved || !v ? v : tangents[at] ? tangents[at] : zeros_like(v);
      });
      for (size_t k = 0; k < result_count(moved); k++) p[int(k)] = result_data(moved)[k];
    }
    if constexpr (Op::whole_history) {
      Vars inputs;
      auto gather = [&](const Var& v) { return inputs.emplace_back(below(v, level)); };
      (each_tensor(args, gather), ...);
      for (size_t k = 0; k < result_count(result); k++) bind_history(p[int(k)], inputs);
    }
    for (size_t k = 0; k < result_count(result); k++)
      if (is_differentiable(outs[k].dtype()))
        set_tangent(outs[k].get(), level, p[int(k)] ? p[int(k)] : zeros_like(outs[k]));
  }

  // The op with choose(position, named by `saves`, v) for each of its tensors.
  template <class F>
  static R on_tangents(const std::decay_t<A>&... args, const F& choose) {
    uint32_t saved = 0, bit = 1;
    for (const auto& group : plan().groups) saved |= group.arguments;
    size_t at = 0;
    auto next = [&](const auto& argument) {
      bool named = saved & bit;
      bit <<= 1;
      return each_tensor(argument, [&](const Var& v) { return choose(at++, named, v); });
    };
    Args chosen{next(args)...};
    return std::apply(run, chosen);
  }

  static void record(R& result, const std::decay_t<A>&... args) {
    Var node = prepare(result_count(result), args...);
    finish(reinterpret_cast<Node*>(node.get()), result);
  }

  // The node with its edges and saved arguments, as a Python object.
  static Var prepare(size_t outputs, const std::decay_t<A>&... args) {
    int edges = (0 + ... + tensor_count(args));
    Node* node = new_node(node_class(), edges, int(outputs));
    Var hold = Var::steal(reinterpret_cast<Tensor*>(node));
    Kept* kept = new Kept;
    node->payload<KeptPtr>() = kept;
    int at = 0;
    (connect(node, args, at), ...);
    node_in_making = node;
    [[maybe_unused]] std::conditional_t<Op::spares, Spared, bool> spared(true);
    keep(*kept, wanted_saves(node).arguments, std::index_sequence_for<A...>{}, args...);
    return hold;
  }

  static void finish(Node* node, R& result) {
    Kept* kept = node->payload<KeptPtr>();
    SavePlan::Group group = wanted_saves(node);
    node_in_making = node;
    [[maybe_unused]] std::conditional_t<Op::spares, Spared, bool> spared(true);
    Var* out = result_data(result);
    for (size_t i = 0; i < result_count(result); i++) {
      if (!is_differentiable(out[i].dtype())) {
        set_output_meta(node, int(i), out[i].get());
      } else {
        set_history(out[i].get(), node, int(i));
        if constexpr (Op::is_view) out[i]->extra->view_version = out[i]->storage->version;
      }
      if (i < kMaxKeptOutputs && group.outputs >> i & 1)
        kept->outs[i].save_output(out[i].get(), uint32_t(i));
    }
    created(node);
  }

  static const SavePlan& plan() {
    static const SavePlan p(Op::saves, Signature(Op::signature));
    return p;
  }
  static SavePlan::Group wanted_saves(Node* node) {
    if (plan().groups.size() == 1) return plan().groups[0];
    SavePlan::Group all;
    for (uint32_t i = 0; i < node->edge_count; i++)
      if (node->edges[i].node) {
        all.arguments |= plan().of(int(i)).arguments;
        all.outputs |= plan().of(int(i)).outputs;
      }
    return all;
  }

  static void connect(Node* node, const Var& v, int& at) { set_edge(node, at++, v.get()); }
  static void connect(Node* node, const Vars& vars, int& at) {
    for (const Var& v : vars) set_edge(node, at++, v.get());
  }
  template <class T>
  static void connect(Node*, const T&, int&) {}

  static void keep_one(KeptTensor& kept, const Var& v, bool save) {
    if (!v) return;
    kept.defined = true;
    kept.sizes = v.sizes();
    kept.dtype = v.dtype();
    if (save) kept.saved.save_input(v.get());
  }
  static void keep_one(std::vector<KeptTensor>& kept, const Vars& vars, bool save) {
    kept.resize(vars.size());
    for (size_t i = 0; i < vars.size(); i++) keep_one(kept[i], vars[i], save);
  }
  template <class T>
  static void keep_one(T& kept, const T& value, bool) {
    kept = value;
  }
  template <size_t... I>
  static void keep(Kept& kept, uint32_t bits, std::index_sequence<I...>,
                   const std::decay_t<A>&... args) {
    (keep_one(std::get<I>(kept.args), args, bits >> I & 1), ...);
  }

  static In reading(Node* node, const KeptTensor& kept) { return In(kept, node); }
  static InList reading(Node* node, const std::vector<KeptTensor>& kept) {
    InList list;
    for (const KeptTensor& k : kept) list.emplace_back(k, node);
    return list;
  }
  template <class T>
  static const T& reading(Node*, const T& value) {
    return value;
  }

  static void apply(Node* node, Pass& pass) {
    Kept& kept = *node->payload<KeptPtr>();
    Back back(node, pass, kept.outs);
    std::apply(
        [&](const auto&... args) {
          if constexpr (has_vjp) Op::vjp(back, reading(node, args)...);
          else put_back(node, pass, args...);
        },
        kept.args);
    if constexpr (Op::whole_history)
      if (pass.create_graph)
        for (uint32_t i = 0; i < node->edge_count; i++) bind_history(pass.results[i], node);
  }

  // A view without a rule of its own: find where its elements lie, put the gradient there.
  template <class First, class... Rest>
  static void put_back(Node*, Pass& pass, const First& input, const Rest&... rest) {
    static_assert(Op::is_view, "state a vjp");
    const KeptTensor& kept = input;
    Var region = [&] {
      Plain plain;
      return Op::forward(empty(kept.sizes, kept.dtype), rest...);
    }();
    pass.results[0] = ops::embed(pass.grads[0], kept.sizes, region->strides, region->offset);
  }
  template <class First, class... Rest>
  static void deposit_in(Var& sum, const Var& grad, const First&, const Rest&... rest) {
    Var region = Op::forward(sum, rest...);
    ops::accumulate_into(region.get(), grad.get());
  }
  static void deposit(Node* node, const Var& grad, Var& sum) {
    GradMode off(false);
    std::apply([&](const auto&... args) { deposit_in(sum, grad, args...); },
               node->payload<KeptPtr>()->args);
  }

  static void destroy(Node* node) { delete std::exchange(node->payload<KeptPtr>(), nullptr); }

  static void visit_kept(KeptTensor& kept, SavedVisitor& visitor, const char* name) {
    visitor.visit(kept.saved, name);
  }
  static void visit_kept(std::vector<KeptTensor>& kept, SavedVisitor& visitor, const char* name) {
    for (KeptTensor& k : kept) visitor.visit(k.saved, name);
  }
  template <class T>
  static void visit_kept(T&, SavedVisitor&, const char*) {}

  static const Signature& signature() {
    static const Signature s(Op::signature);
    return s;
  }
  template <size_t... I>
  static void visit_all(Kept& kept, SavedVisitor& visitor, std::index_sequence<I...>) {
    (visit_kept(std::get<I>(kept.args), visitor, signature().params()[I].name.c_str()), ...);
  }
  static void each_saved(Node* node, SavedVisitor& visitor) {
    Kept* kept = node->payload<KeptPtr>();
    if (!kept) return;
    visit_all(*kept, visitor, std::index_sequence_for<A...>{});
    for (int i = 0; i < kMaxKeptOutputs; i++)
      visitor.visit(kept->outs[i], i == 0 ? "result" : i == 1 ? "result1" : "result2");
  }

  template <size_t... I>
  static PyObject* find_attribute(Kept& kept, const char* name, std::index_sequence<I...>) {
    PyObject* found = nullptr;
    ((found || signature().params()[I].name != name
          ? void()
          : void(found = attribute_value(std::get<I>(kept.args)))),
     ...);
    return found;
  }
  template <size_t... I>
  static PyObject* find_sizes(Kept& kept, const char* name, std::index_sequence<I...>) {
    PyObject* found = nullptr;
    ((found ? void() : void(found = sizes_value(std::get<I>(kept.args), I, name))), ...);
    return found;
  }
  static PyObject* sizes_value(const KeptTensor& kept, size_t i, const char* name) {
    std::string own = signature().params()[i].name;
    return (own == "input" ? "self" : own) + "_sym_sizes" == name ? attribute_value(kept.sizes)
                                                                  : nullptr;
  }
  template <class T>
  static PyObject* sizes_value(const T&, size_t, const char*) {
    return nullptr;
  }
  static PyObject* attribute(Node* node, const char* name) {
    if (std::strncmp(name, "_saved_", 7) != 0 || !node->payload<KeptPtr>()) return nullptr;
    if (PyObject* sizes =
            find_sizes(*node->payload<KeptPtr>(), name + 7, std::index_sequence_for<A...>{}))
      return sizes;
    return find_attribute(*node->payload<KeptPtr>(), name + 7, std::index_sequence_for<A...>{});
  }

  static NodeClass& node_class() {
    static NodeClass cls = [] {
      NodeClass c{};
      if constexpr (requires { Op::grad_name; }) c.name = Op::grad_name;
      else c.name = backward_name(signature().name().c_str());
      c.apply = apply;
      c.each_saved = each_saved;
      c.destroy = destroy;
      c.attribute = attribute;
      if constexpr (Op::is_view && !has_vjp) c.deposit = deposit;
      c.payload = sizeof(KeptPtr);
      return c;
    }();
    return cls;
  }

  template <size_t... I>
  static PyObject* call_slots(const OpInfo& info, PyObject* const* slots,
                              std::index_sequence<I...>) {
    const Signature& s = info.signature;
    return to_python(s, run(Argument<std::decay_t<A>>::get(s, int(I), slots[I])...));
  }
  static PyObject* call(const OpInfo& info, PyObject* const* slots) {
    return call_slots(info, slots, std::index_sequence_for<A...>{});
  }
  template <size_t... I>
  static void into_slots(const OpInfo& info, PyObject* const* slots, Tensor* into, bool inplace,
                         std::index_sequence<I...>) {
    const Signature& s = info.signature;
    Op::into(into, inplace, Argument<std::decay_t<A>>::get(s, int(I), slots[I])...);
  }
  static void into(const OpInfo& info, PyObject* const* slots, Tensor* into, bool inplace) {
    into_slots(info, slots, into, inplace, std::index_sequence_for<A...>{});
  }
};

template <class Op>
OpInfo describe() {
  using Run = Runner<Op, decltype(&Op::forward)>;
  static_assert(Op::form != Form::General || Run::has_vjp, "a general op states a vjp");
  static_assert(Op::form != Form::General || Run::has_jvp, "a general op states a jvp");
  static_assert(Op::form != Form::Linear || Op::is_view || Run::has_vjp,
                "a linear op states a vjp");
  OpInfo info;
  info.signature = Signature(Op::signature);
  info.name = info.signature.name();
  info.doc = Op::doc;
  info.module = Op::module;
  info.family = Op::family;
  info.former = Op::former;
  info.result = Run::result;
  info.form = Op::form;
  info.function = Op::function;
  info.method = Op::method;
  info.inplace = Op::inplace;
  info.out = Op::out;
  info.call = Run::call;
  if constexpr (requires { &Op::into; }) info.into = Run::into;
  return info;
}

}  // namespace detail

}  // namespace rl
