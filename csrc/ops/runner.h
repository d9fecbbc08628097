// From the struct of an op to its record: forward's parameters are read off its type, the rules
// become functions of untyped arguments. What is compiled for each op is this and no more.
#pragma once

#include "ops/call.h"
#include "ops/formula.h"

namespace rl::detail {

template <class R>
constexpr ResultKind result_kind() {
  if constexpr (std::is_same_v<R, Var>) return ResultKind::One;
  else if constexpr (std::is_same_v<R, Vars>) return ResultKind::List;
  else if constexpr (requires(R r) {
                       std::is_same_v<decltype(r[0]), Var&>;
                       std::tuple_size<R>();
                     })
    return ResultKind::Several;
  else return ResultKind::Other;
}

template <size_t N>
constexpr std::array<uint16_t, N + 1> sums(const std::array<uint16_t, N>& sizes) {
  std::array<uint16_t, N + 1> places{};
  for (size_t i = 0; i < N; i++) places[i + 1] = uint16_t(places[i] + sizes[i]);
  return places;
}

// A kept argument as a rule sees it.
inline In reading(Node* node, const KeptTensor& kept) { return In(kept, node); }
inline InList reading(Node* node, const std::vector<KeptTensor>& kept) {
  InList list;
  for (const KeptTensor& k : kept) list.emplace_back(k, node);
  return list;
}
template <class T>
const T& reading(Node*, const T& value) {
  return value;
}

template <class Op, class F>
struct Runner;

template <class Op, class R, class... A>
struct Runner<Op, R (*)(A...)> {
  static constexpr size_t count = sizeof...(A);
  static_assert(count <= kMaxParams);
  static constexpr const ArgumentType* types[] = {&argument_type<std::decay_t<A>>..., nullptr};
  static constexpr auto places = sums<count>({argument_type<std::decay_t<A>>.size...});
  static constexpr auto kept_places = sums<count>({argument_type<std::decay_t<A>>.kept_size...});
  static_assert(places[count] <= kMaxBlock && sizeof(R) <= kMaxResult);

  static R run(const std::decay_t<A>&... args) {
    const void* values[] = {&args..., nullptr};
    R result{};
    rl::run(record(), values, &result);
    return result;
  }

  // f(record, arguments) of a call that is not run.
  template <class F>
  static void with(const F& f, const std::decay_t<A>&... args) {
    const void* values[] = {&args..., nullptr};
    f(record(), values);
  }

  template <size_t I>
  static decltype(auto) argument(Values args) {
    using T = std::decay_t<std::tuple_element_t<I, std::tuple<A...>>>;
    return *static_cast<const T*>(args[I]);
  }
  template <size_t I>
  static decltype(auto) kept(Node* node, const char* block) {
    using T = typename Keep<std::decay_t<std::tuple_element_t<I, std::tuple<A...>>>>::type;
    return reading(node, *reinterpret_cast<const T*>(block + kept_places[I]));
  }

  template <size_t... I>
  static constexpr OpTable table(std::index_sequence<I...>) {
    OpTable t{};
    t.text = Op::signature;
    t.doc = Op::doc;
    t.module = Op::module;
    t.family = Op::family;
    t.former = Op::former;
    t.saves = Op::saves;
    if constexpr (requires { Op::grad_name; }) t.grad_name = Op::grad_name;
    t.types = types;
    t.places = places.data();
    t.kept_places = kept_places.data();
    t.kept_size = kept_places[count];
    t.count = count;
    t.results = result_kind<R>();
    t.result = std::is_same_v<R, bool>          ? "bool"
               : t.results == ResultKind::One   ? "Tensor"
               : t.results == ResultKind::Other ? "object"
                                                : "tuple";
    if constexpr (result_kind<R>() == ResultKind::Several) t.result_count = std::tuple_size_v<R>;
    t.form = Op::form;
    t.autocast = Op::autocast;
    t.batching = Op::batching;
    if constexpr (requires { Op::added_dims; }) t.added_dims = Op::added_dims;
    t.function = Op::function;
    t.method = Op::method;
    t.inplace = Op::inplace;
    t.out = Op::out;
    t.is_view = Op::is_view;
    t.spares = Op::spares;
    t.whole_history = Op::whole_history;
    t.bilinear = requires { Op::bilinear; };
    t.reads_numbers = requires { Op::reads_numbers; };
    t.sees_batches = requires { Op::sees_batches; };
    t.forward = [](Values args, void* result) {
      *static_cast<R*>(result) = Op::forward(argument<I>(args)...);
    };
    if constexpr (requires { &Op::batched; })
      t.batched = [](const HiddenDims& hidden, Values args, void* result) {
        *static_cast<R*>(result) = Op::batched(hidden, argument<I>(args)...);
      };
    if constexpr (requires { &Op::vjp; })
      t.vjp = [](Back& b, Node* node, const char* block) { Op::vjp(b, kept<I>(node, block)...); };
    if constexpr (requires { &Op::jvp; })
      t.jvp = [](Push& p, Values args) { Op::jvp(p, argument<I>(args)...); };
    if constexpr (requires { &Op::into; })
      t.into = [](Tensor* into, bool inplace, Values args) {
        Op::into(into, inplace, argument<I>(args)...);
      };
    t.make_result = [](void* result) { new (result) R{}; };
    t.drop_result = [](void* result) { static_cast<R*>(result)->~R(); };
    t.to_python = [](const Signature& s, void* result) {
      return to_python(s, std::move(*static_cast<R*>(result)));
    };
    static_assert(Op::form != Form::General || requires { &Op::vjp; }, "state a vjp");
    static_assert(Op::form != Form::General || requires { &Op::jvp; }, "state a jvp");
    static_assert(Op::form != Form::Linear || Op::is_view || requires { &Op::vjp; }, "state a vjp");
    return t;
  }

  static const OpRecord& record() {
    static constexpr OpTable constants = table(std::index_sequence_for<A...>{});
    static const OpRecord whole(constants);
    return whole;
  }
};

template <class Op>
const OpRecord& record_of() {
  return Runner<Op, decltype(&Op::forward)>::record();
}

}  // namespace rl::detail
