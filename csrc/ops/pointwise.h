// The pointwise family. An op is a struct:
//
//   struct Sigmoid : Unary<Sigmoid> {
//     static constexpr auto name = "sigmoid";
//     static constexpr auto doc = "...";
//     static constexpr Save saves[] = {Save::Out};
//     template <class V> static V value(V x) { return 1 / (1 + exp(-x)); }
//     template <class V> static V partial(V x, V y) { return y * (1 - y); }
//   };
//   RL_POINTWISE(Sigmoid)
//
// value takes the inputs and then the scalar parameters; partial (partial0, partial1, ... when
// there are several inputs) takes the same and then the output, and may read only what `saves`
// lists for it. An op without any partial is not differentiable and says so.
#pragma once

#include "ops/formula.h"
#include "ops/registry.h"

namespace rl {

// What the derivative for one input reads.
enum class Save : uint8_t { None = 0, A = 1, B = 2, C = 4, Out = 8 };
constexpr Save operator|(Save a, Save b) { return Save(uint8_t(a) | uint8_t(b)); }
constexpr bool has(Save set, Save one) { return (uint8_t(set) & uint8_t(one)) != 0; }

// Which element types the formula is compiled for.
enum class Types : uint8_t {
  Float = 1,         // float, double (halves compute as float)
  Integer = 2,
  Bool = 4,
  Complex = 8,
  Real = Float | Integer,
  Numeric = Float | Integer | Complex,
  All = Float | Integer | Bool | Complex,
  FloatComplex = Float | Complex,
  IntegerBool = Integer | Bool,
  RealBool = Float | Integer | Bool,
};
constexpr bool has(Types set, Types one) { return (uint8_t(set) & uint8_t(one)) != 0; }

// The type of the result.
enum class Result : uint8_t {
  Same,   // the promoted type of the inputs
  Float,  // the same, integers become the default float type
  Bool,
};

// A derivative of exactly 1 or -1: the gradient passes without a kernel.
struct One {};
struct MinusOne {};

using TensorPartial = Var (*)(const Var* in, const double* params, const Var& out);
using SymbolText = std::string (*)();

// What the runtime needs to know of a pointwise op.
struct Pointwise {
  const char* name;
  int inputs;
  int params;
  Types types;
  Result result;
  bool differentiable;
  bool selects;  // a zero derivative means "not chosen": it stops even an infinite gradient
  double cost;
  cpu::Kernel forward[kDTypes];
  DType produced[kDTypes];  // what the forward kernel writes
  struct Partial {
    Save saves;
    int unit;  // 1, -1, or 0 when there is a kernel
    cpu::Kernel kernel[kDTypes];  // reads the gradient, the inputs, the output
    TensorPartial tensor;
    SymbolText symbol;
  } partial[3];
  SymbolText symbol;
  NodeClass node;
};

// Runs the op and records it. With `into`, the result is written there (in-place or out=).
Var run_pointwise(const Pointwise& op, const Var* in, const double* params, Tensor* into = nullptr,
                  bool inplace = false);
// Sum over inputs of partial times tangent; null tangents count as zero.
Var pointwise_jvp(const Pointwise& op, const Var* in, const double* params, const Var* tangents);

const Pointwise& find_pointwise(const char* name);
// The same op, recorded under another grad_fn name.
Pointwise renamed(const Pointwise& op, const char* grad_name);

template <class Op>
const Pointwise& pointwise_info();

namespace detail {

template <class Op, int Inputs>
struct PointwiseDefaults {
  static constexpr int inputs = Inputs;
  static constexpr int params = 0;
  static constexpr Types types = Types::Float;
  static constexpr Result result = Result::Same;
  static constexpr double cost = 1;
  static constexpr bool selects = false;
  static constexpr bool inplace = true;
  static constexpr bool function = true;
  static constexpr bool method = true;
  static constexpr auto module = "";
  static constexpr auto aliases = "";  // other names of the same op, split by spaces
  // Where samples are drawn from: "real", "nonzero", "positive", "above_one", "unit" for (-1, 1),
  // "probability" for (0, 1).
  static constexpr const char* domain = "real";
};

// Calls f(x...) with the inputs and params as values of type V.
template <class V, int Inputs, int Params, class F, size_t... I, size_t... P>
RL_INLINE auto spread(const F& f, const V* in, const double* params, std::index_sequence<I...>,
                      std::index_sequence<P...>) {
  if constexpr (math::is_complex_v<V>) {
    using R = typename V::value_type;
    return f(in[I]..., V(R(params[P]))...);
  } else {
    return f(in[I]..., V(params[P])...);
  }
}

template <class Op>
struct ValueOf {
  template <class... V>
  RL_INLINE auto operator()(V... v) const {
    return Op::value(v...);
  }
};
template <class Op, int K>
struct PartialOf {
  template <class... V>
  RL_INLINE auto operator()(V... v) const {
    if constexpr (Op::inputs == 1)
      return Op::partial(v...);
    else if constexpr (K == 0)
      return Op::partial0(v...);
    else if constexpr (K == 1)
      return Op::partial1(v...);
    else
      return Op::partial2(v...);
  }
};

template <class Op, class T>
RL_INLINE auto lane_value(const T* x, const double* params) {
  return spread<T, Op::inputs, Op::params>(ValueOf<Op>{}, x, params,
                                           std::make_index_sequence<size_t(Op::inputs)>{},
                                           std::make_index_sequence<size_t(Op::params)>{});
}

// The first element of `where` is a condition; it is read as a bool of its own.
template <class Op, class T>
RL_INLINE void forward_body(char* out, const char* const* in, const double* params, int64_t n) {
  using R = decltype(lane_value<Op, T>(nullptr, nullptr));
  R* y = reinterpret_cast<R*>(out);
  const T* a = reinterpret_cast<const T*>(in[0]);
  [[maybe_unused]] const T* b = reinterpret_cast<const T*>(in[Op::inputs > 1 ? 1 : 0]);
  [[maybe_unused]] const T* c = reinterpret_cast<const T*>(in[Op::inputs > 2 ? 2 : 0]);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    T x[3] = {a[i], b[i], c[i]};
    y[i] = lane_value<Op, T>(x, params);
  }
}
template <class Op, class T>
RL_CLONES void forward_cloned(char* out, const char* const* in, const double* params, int64_t n) {
  forward_body<Op, T>(out, in, params, n);
}
template <class Op, class T>
void forward_plain(char* out, const char* const* in, const double* params, int64_t n) {
  forward_body<Op, T>(out, in, params, n);
}

// in: gradient, inputs..., output; only those that the partial saves are read.
template <class Op, int K, class T>
RL_INLINE void backward_body(char* out, const char* const* in, const double* params, int64_t n) {
  constexpr Save saves = Op::saves[K];
  T* y = reinterpret_cast<T*>(out);
  const T* g = reinterpret_cast<const T*>(in[0]);
  auto pick = [&](Save which, int at) {
    return has(saves, which) ? reinterpret_cast<const T*>(in[at]) : g;
  };
  const T* a = pick(Save::A, 1);
  const T* b = Op::inputs > 1 ? pick(Save::B, 2) : g;
  const T* c = Op::inputs > 2 ? pick(Save::C, 3) : g;
  const T* o = pick(Save::Out, Op::inputs + 1);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    T x[3] = {a[i], b[i], c[i]};
    T saved_out = o[i];
    auto with_out = [&](auto... v) RL_LAMBDA_INLINE { return PartialOf<Op, K>{}(v..., saved_out); };
    T d = spread<T, Op::inputs, Op::params>(with_out, x, params,
                                            std::make_index_sequence<size_t(Op::inputs)>{},
                                            std::make_index_sequence<size_t(Op::params)>{});
    T product = g[i] * math::conj(d);
    y[i] = Op::selects && d == T(0) ? T(0) : product;
  }
}
template <class Op, int K, class T>
RL_CLONES void backward_cloned(char* out, const char* const* in, const double* params, int64_t n) {
  backward_body<Op, K, T>(out, in, params, n);
}
template <class Op, int K, class T>
void backward_plain(char* out, const char* const* in, const double* params, int64_t n) {
  backward_body<Op, K, T>(out, in, params, n);
}

template <class Op, class T>
void add_forward(Pointwise& p) {
  constexpr int d = int(dtype_of<T>::value);
  using R = decltype(lane_value<Op, T>(nullptr, nullptr));
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    p.forward[d] = forward_cloned<Op, T>;
  else
    p.forward[d] = forward_plain<Op, T>;
  using Stored = std::conditional_t<std::is_same_v<R, int> && !std::is_same_v<T, int32_t>, T, R>;
  p.produced[d] = Op::result == Result::Bool ? DType::Bool : dtype_of<Stored>::value;
}

template <class Op, int K>
Var tensor_partial(const Var* in, const double* params, const Var& out) {
  auto with_out = [&](auto... v) { return PartialOf<Op, K>{}(v..., out); };
  return spread<Var, Op::inputs, Op::params>(with_out, in, params,
                                             std::make_index_sequence<size_t(Op::inputs)>{},
                                             std::make_index_sequence<size_t(Op::params)>{});
}

inline const Symbol* symbol_names() {
  static const Symbol names[3] = {"a", "b", "c"};
  return names;
}
template <size_t... I, class F>
std::string symbol_of(const F& f, int inputs, std::index_sequence<I...>) {
  auto name = [&](size_t i) {
    return int(i) < inputs ? symbol_names()[i] : Symbol("p" + std::to_string(int(i) - inputs));
  };
  return Symbol(f(name(I)...)).text();
}
template <class Op>
std::string value_symbol() {
  return symbol_of([](auto... v) { return Op::value(v...); }, Op::inputs,
                   std::make_index_sequence<size_t(Op::inputs + Op::params)>{});
}
template <class Op, int K>
std::string partial_symbol() {
  return symbol_of([](auto... v) { return PartialOf<Op, K>{}(v..., Symbol("y")); }, Op::inputs,
                   std::make_index_sequence<size_t(Op::inputs + Op::params)>{});
}

template <class Op, int K>
void add_partial(Pointwise& p) {
  auto& partial = p.partial[K];
  auto probe = [](auto... v) { return PartialOf<Op, K>{}(v..., 0.0); };
  double params[8] = {}, in[3] = {};
  using D = decltype(spread<double, Op::inputs, Op::params>(
      probe, in, params, std::make_index_sequence<size_t(Op::inputs)>{},
      std::make_index_sequence<size_t(Op::params)>{}));
  if constexpr (std::is_same_v<D, One>) {
    partial.unit = 1;
  } else if constexpr (std::is_same_v<D, MinusOne>) {
    partial.unit = -1;
  } else {
    partial.saves = Op::saves[K];
    partial.kernel[int(DType::F32)] = backward_cloned<Op, K, float>;
    partial.kernel[int(DType::F64)] = backward_cloned<Op, K, double>;
    if constexpr (has(Op::types, Types::Complex)) {
      partial.kernel[int(DType::C64)] = backward_plain<Op, K, c64>;
      partial.kernel[int(DType::C128)] = backward_plain<Op, K, c128>;
    }
    partial.tensor = tensor_partial<Op, K>;
    partial.symbol = partial_symbol<Op, K>;
  }
}

template <class Op>
constexpr bool is_differentiable_op() {
  if constexpr (requires { Op::differentiable; })
    return Op::differentiable;
  else
    return true;
}

void finish_pointwise(Pointwise& p, const char* grad_name);

template <class Op>
Pointwise make_pointwise() {
  Pointwise p{};
  p.name = Op::name;
  p.inputs = Op::inputs;
  p.params = Op::params;
  p.types = Op::types;
  p.result = Op::result;
  p.cost = Op::cost;
  p.selects = Op::selects;
  p.differentiable = is_differentiable_op<Op>();
  if constexpr (has(Op::types, Types::Float)) {
    add_forward<Op, float>(p);
    add_forward<Op, double>(p);
  }
  if constexpr (has(Op::types, Types::Integer)) {
    add_forward<Op, uint8_t>(p);
    add_forward<Op, int8_t>(p);
    add_forward<Op, int16_t>(p);
    add_forward<Op, int32_t>(p);
    add_forward<Op, int64_t>(p);
  }
  if constexpr (has(Op::types, Types::Bool)) add_forward<Op, bool>(p);
  if constexpr (has(Op::types, Types::Complex)) {
    add_forward<Op, c64>(p);
    add_forward<Op, c128>(p);
  }
  p.symbol = value_symbol<Op>;
  if constexpr (is_differentiable_op<Op>()) {
    add_partial<Op, 0>(p);
    if constexpr (Op::inputs > 1) add_partial<Op, 1>(p);
    if constexpr (Op::inputs > 2) add_partial<Op, 2>(p);
  }
  if constexpr (requires { Op::grad_name; })
    finish_pointwise(p, Op::grad_name);
  else
    finish_pointwise(p, nullptr);
  return p;
}

void register_pointwise(const Pointwise& p, const OpInfo& info, const char* aliases);

}  // namespace detail

template <class Op>
const Pointwise& pointwise_info() {
  static const Pointwise info = detail::make_pointwise<Op>();
  return info;
}

template <class Op>
using Unary = detail::PointwiseDefaults<Op, 1>;
template <class Op>
using Binary = detail::PointwiseDefaults<Op, 2>;
template <class Op>
using Ternary = detail::PointwiseDefaults<Op, 3>;
// An op that only other ops call.
template <class Op, int Inputs>
struct Hidden : detail::PointwiseDefaults<Op, Inputs> {
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool inplace = false;
};

// Calls a pointwise op from C++.
template <class Op, class... X>
Var apply(const X&... inputs) {
  const Var in[] = {inputs...};
  return run_pointwise(pointwise_info<Op>(), in, nullptr);
}

template <class Op>
OpInfo describe_pointwise() {
  OpInfo info;
  std::string text;
  if constexpr (requires { Op::signature; })
    text = Op::signature;
  else
    text = std::string(Op::name) + (Op::inputs == 1   ? "(Tensor input)"
                                    : Op::inputs == 2 ? "(Tensor|Number input, Tensor|Number other)"
                                                      : "(Tensor a, Tensor b, Tensor c)");
  info.signature = Signature(text.c_str());
  info.name = info.signature.name();
  info.doc = Op::doc;
  info.module = Op::module;
  info.domain = Op::domain;
  info.function = Op::function;
  info.method = Op::method;
  info.inplace = Op::inplace;
  return info;
}

#define RL_POINTWISE(Op)                                                                \
  [[maybe_unused]] static const bool registered_##Op =                                  \
      (detail::register_pointwise(pointwise_info<Op>(), describe_pointwise<Op>(),       \
                                  Op::aliases),                                         \
       true);

// Resizes an out= tensor, warning when it held something.
void resize_output(Tensor* out, const Ints& sizes);

}  // namespace rl
