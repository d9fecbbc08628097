// From the struct of an op to its record: forward's parameters are read off its type, the rules
// become functions of untyped arguments. What is compiled for each op is this and no more.
#pragma once

#include <string_view>

#include "call/call.h"
#include "call/call_node.h"
#include "call/formula.h"

namespace rl::detail {

// Whether a parameter that a signature declares with this word may be of type T in forward.
template <class T>
struct Declared {
  static constexpr bool fits(std::string_view word) {
    if constexpr (std::is_same_v<T, Var>) {
      if (word.ends_with('?')) word.remove_suffix(1);
      return word == "Tensor" || word == "Tensor|Number" || word == "Number";
    }
    return (std::is_same_v<T, Vars> && (word == "Tensor[]" || word == "tensors")) ||
           (std::is_same_v<T, Ints> && (word == "int[]" || word == "size")) ||
           (std::is_same_v<T, int64_t> && word == "int") ||
           (std::is_same_v<T, double> && word == "float") ||
           (std::is_same_v<T, bool> && word == "bool") ||
           (std::is_same_v<T, DType> && word == "dtype") ||
           (std::is_same_v<T, Device> && word == "device") ||
           (std::is_same_v<T, std::string> && word == "str") ||
           (std::is_same_v<T, Generator*> && word == "Generator?") ||
           (std::is_same_v<T, PyObject*> && (word == "object" || word == "object?"));
  }
};
template <class T>
struct Declared<std::optional<T>> {
  static constexpr bool fits(std::string_view word) {
    if (!word.ends_with('?')) return false;
    word.remove_suffix(1);
    return Declared<T>::fits(word);
  }
};

// The type of the parameter that `text` begins with, which is then cut off.
constexpr std::string_view next_word(std::string_view& text) {
  if (text.starts_with("*, ")) text.remove_prefix(3);
  size_t end = 0;
  int depth = 0;
  for (; end < text.size() && (depth > 0 || (text[end] != ',' && text[end] != ')')); end++)
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
  std::string_view word = text.substr(0, std::min(end, text.find(' ')));
  text.remove_prefix(std::min(end + 2, text.size()));
  return word;
}

// Whether the text of a signature declares the parameters of forward.
template <class... T>
constexpr bool declares(std::string_view text) {
  text.remove_prefix(text.find('(') + 1);
  bool fits = true;
  ((fits = fits && Declared<T>::fits(next_word(text))), ...);
  return fits && (text.empty() || text == ")" || text.starts_with("->") || text.starts_with("> "));
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
  static_assert(declares<std::decay_t<A>...>(Op::signature), "signature and forward differ");
  static constexpr const ArgumentType* types[] = {&ArgumentOf<std::decay_t<A>>::type..., nullptr};
  static constexpr auto places = sums<count>({rounded(sizeof(std::decay_t<A>))...});
  static constexpr auto kept_places =
      sums<count>({rounded(sizeof(typename Keep<std::decay_t<A>>::type))...});
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
    t.result = &ResultOf<R>::type;
    t.form = Op::form;
    t.autocast = Op::autocast;
    t.batching = Op::batching;
    t.stored = Op::stored;
    if constexpr (requires { Op::added_dims; }) t.added_dims = Op::added_dims;
    t.function = Op::function;
    t.method = Op::method;
    t.inplace = Op::inplace;
    t.out = Op::out;
    t.tried_last = Op::tried_last;
    t.is_view = Op::is_view;
    t.spares = Op::spares;
    t.whole_history = Op::whole_history;
    t.bilinear = requires { Op::bilinear; };
    t.reads_numbers = requires { Op::reads_numbers; };
    t.sees_batches = requires { Op::sees_batches; };
    t.any_devices = requires { Op::any_devices; };
    t.forward = [](const OpRecord&, Values args, void* result) {
      *static_cast<R*>(result) = Op::forward(argument<I>(args)...);
    };
    if constexpr (requires { &Op::batched; })
      t.batched = [](const OpRecord&, const HiddenDims& hidden, Values args, void* result) {
        *static_cast<R*>(result) = Op::batched(hidden, argument<I>(args)...);
      };
    if constexpr (requires { &Op::vjp; })
      t.vjp = [](Back& b, Node* node, const char* block) { Op::vjp(b, kept<I>(node, block)...); };
    if constexpr (requires { &Op::jvp; })
      t.jvp = [](const OpRecord&, Push& p, Values args)
                  RL_COLD { Op::jvp(p, argument<I>(args)...); };
    if constexpr (requires { &Op::into; })
      t.into = [](Tensor* into, bool inplace, Values args) {
        Op::into(into, inplace, argument<I>(args)...);
      };
    t.prepare = prepare_call;
    t.finish = finish_call;
    static_assert(Op::form != Form::General || requires { &Op::vjp; }, "state a vjp");
    static_assert(Op::form != Form::General || requires { &Op::jvp; }, "state a jvp");
    static_assert(Op::form != Form::Linear || Op::is_view || requires { &Op::vjp; }, "state a vjp");
    return t;
  }

  static const OpRecord& record() {
    static constexpr OpTable constants = table(std::index_sequence_for<A...>{});
    static const OpRecord& whole = make_record(constants);
    return whole;
  }
};

template <class Op>
const OpRecord& record_of() {
  return Runner<Op, decltype(&Op::forward)>::record();
}

}  // namespace rl::detail
