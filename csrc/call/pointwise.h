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

#include <array>

#include "call/call.h"
#include "call/formula.h"

namespace rl {

// What the derivative for one input reads.
enum class Save : uint8_t { None = 0, A = 1, B = 2, C = 4, Out = 8 };
constexpr Save operator|(Save a, Save b) { return Save(uint8_t(a) | uint8_t(b)); }
constexpr bool has(Save set, Save one) { return (uint8_t(set) & uint8_t(one)) != 0; }

// Which element types the formula is compiled for.
enum class Types : uint8_t {
  Float = 1,  // float, double (halves compute as float)
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

// The record of a pointwise op: what the driver knows of every op, and what its calls take the short
// way by.
struct Pointwise : OpRecord {
  explicit Pointwise(const OpTable& table) : OpRecord(table) {}
  bool differentiable() const { return form == Form::Partial; }

  int inputs = 0;
  int params = 0;
  Types elements{};  // that the formula is compiled for
  Result promotes{};
  bool selects = false;  // a zero derivative means "not chosen": it stops even an infinite gradient
  bool vanishes = false;      // and it may be zero where something is chosen, too
  bool wide_numbers = false;  // beside halves, single numbers keep their digits
  bool any_sign = false;      // what it computes of int64 holds for the bits of uint64 too
  bool takes_float8 = false;  // what it computes of float holds for float8
  bool moves = false;         // elements of the result are elements of the inputs
  void (*validate)(const Var* in) = nullptr;  // raises on inputs that the op refuses; null: none
  double cost = 1;
  kernel::Lanes lanes[kDTypes] = {};
  DType produced[kDTypes] = {};  // what they write
  struct Partial {
    Save saves = Save::None;
    int unit = 0;                        // 1, -1, or 0 when there is a kernel
    kernel::Lanes kernel[kDTypes] = {};  // reads the gradient, the inputs, the output
    TensorPartial tensor = nullptr;
    Formula symbol = nullptr;
  } partial[3];
  Formula symbol = nullptr;
  NodeClass number_node{};  // used when an operand is a Python number; without a name: the same
};

// Runs the op and records it. With `into`, the result is written there (in-place or out=).
Var run_pointwise(const Pointwise& op, const Var* in, const double* params, Tensor* into = nullptr,
                  bool inplace = false);
const Pointwise& find_pointwise(const char* name);
// What lanes compute: an op's value, or the gradient times one of its partial derivatives. Devices
// that have no lanes make a kernel of it.
struct LanesInfo {
  const char* name;
  int inputs, params;
  DType compute, produced;
  Formula value;    // null: a derivative
  Formula partial;  // lanes read the gradient, the inputs and the output
  bool selects;
};
const LanesInfo& formula_of(kernel::Lanes lanes);
Elements elements_of(DType d);
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
  static constexpr bool vanishes = false;
  static constexpr bool wraps = false;  // sums and products: integers wrap around
  static constexpr bool whole_history = false;
  static constexpr bool wide_numbers = false;
  // Calls code of some size, so there is nothing to vectorise: at all, in the loop over doubles, in
  // the derivatives.
  static constexpr bool scalar = false, scalar_doubles = false, scalar_partials = false;
  static constexpr bool inplace = true;
  static constexpr bool function = true;
  static constexpr bool method = true;
  static constexpr auto module = "";
  static constexpr auto former = "";   // deprecated orders of the arguments (call/registry.h)
  static constexpr auto aliases = "";  // other names of the same op, split by spaces
  // Where samples are drawn from: "real", "nonzero", "positive", "above_one", "unit" for (-1, 1),
  // "probability" for (0, 1).
  static constexpr const char* domain = "real";
};

// Scalar parameters as values of type V.
template <class V, int Count>
struct Params {
  V p[Count ? Count : 1];
  explicit Params(const double* params) {
    for (int i = 0; i < Count; i++) p[i] = from(params[i]);
  }
  static V from(double x) {
    if constexpr (math::is_complex_v<V>) return V(typename V::value_type(x));
    else if constexpr (std::is_integral_v<V> && !std::is_same_v<V, bool>)
      return V(std::abs(x) < 0x1p63 ? int64_t(x) : INT64_MIN);
    else return V(x);
  }
};
template <int Count>
struct Params<Var, Count> {
  Var p[Count ? Count : 1];
  explicit Params(const double* params) {
    for (int i = 0; i < Count; i++) p[i] = Var(params[i]);
  }
};

// Op::value and Op::partial with as many of a, b, c as the op has inputs. Values are passed one by
// one: an array inside a vector loop would keep it from vectorising.
template <class V>
using Given = std::conditional_t<std::is_same_v<V, Var> || std::is_same_v<V, Symbol>, const V&, V>;
template <class Op, class V, size_t... P>
RL_INLINE auto value_of(Given<V> a, Given<V> b, Given<V> c, const V* p, std::index_sequence<P...>) {
  (void)b, (void)c, (void)p;
  if constexpr (Op::inputs == 1) return Op::value(a, p[P]...);
  else if constexpr (Op::inputs == 2) return Op::value(a, b, p[P]...);
  else return Op::value(a, b, c, p[P]...);
}
template <class Op, int K, class V, size_t... P>
RL_INLINE auto partial_of(Given<V> a, Given<V> b, Given<V> c, const V* p, Given<V> y,
                          std::index_sequence<P...>) {
  (void)b, (void)c, (void)p;
  if constexpr (Op::inputs == 1) return Op::partial(a, p[P]..., y);
  else if constexpr (Op::inputs == 2 && K == 0) return Op::partial0(a, b, p[P]..., y);
  else if constexpr (Op::inputs == 2) return Op::partial1(a, b, p[P]..., y);
  else if constexpr (K == 0) return Op::partial0(a, b, c, p[P]..., y);
  else if constexpr (K == 1) return Op::partial1(a, b, c, p[P]..., y);
  else return Op::partial2(a, b, c, p[P]..., y);
}
template <class Op>
using Indices = std::make_index_sequence<size_t(Op::params)>;
template <class Op, class V>
using ValueType = decltype(value_of<Op, V>(std::declval<V>(), std::declval<V>(), std::declval<V>(),
                                           nullptr, Indices<Op>{}));
template <class Op, int K, class V>
using PartialType =
    decltype(partial_of<Op, K, V>(std::declval<V>(), std::declval<V>(), std::declval<V>(), nullptr,
                                  std::declval<V>(), Indices<Op>{}));

// Whether a loop becomes vectors.
template <class Op, class T>
inline constexpr bool kVectors = std::is_floating_point_v<T> && !Op::scalar &&
                                 !(Op::scalar_doubles && std::is_same_v<T, double>);
template <class Op, class T>
inline constexpr bool kPartialVectors =
    std::is_floating_point_v<T> && !Op::scalar && !Op::scalar_partials;
// Whether an element's bits may then depend on the vector width: functions of libmvec. The last,
// partial vector is padded, so that a result never depends on the element's place.
template <class Op>
inline constexpr bool kPadded = Op::cost >= 4;
inline constexpr int64_t kLanes = 16;
template <class T>
RL_INLINE void pad(T* vector, const T* from, int64_t count) {
  std::fill_n(vector, kLanes, from[0]);
  std::memcpy(vector, from, size_t(count) * sizeof(T));
}

// What a formula computes with where elements are T: overflow is defined for unsigned integers.
template <class Op, class T>
struct Lane {
  static constexpr bool unsigned_ = Op::wraps && std::is_integral_v<T>;
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  using V =
      std::conditional_t<std::is_same_v<T, Bool>, bool, std::conditional_t<unsigned_, Wide, T>>;
  using Result = std::conditional_t<unsigned_, T, ValueType<Op, V>>;
};

template <class Op, class T>
RL_INLINE void forward_run(typename Lane<Op, T>::Result* y, const T* a, const T* b, const T* c,
                           const typename Lane<Op, T>::V* p, int64_t n) {
  using V = typename Lane<Op, T>::V;
  using R = typename Lane<Op, T>::Result;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    y[i] = R(value_of<Op, V>(V(a[i]), V(b[i]), V(c[i]), p, Indices<Op>{}));
}
// One loop takes the whole vectors, and then the last ones, padded: compiled twice, formulas of
// elementary functions were a twentieth of the extension.
template <class Op, class T>
RL_INLINE void forward_body(char* out, const char* const* in, const double* params, int64_t n) {
  using R = typename Lane<Op, T>::Result;
  R* y = reinterpret_cast<R*>(out);
  const T* a = reinterpret_cast<const T*>(in[0]);
  const T* b = reinterpret_cast<const T*>(in[Op::inputs > 1 ? 1 : 0]);
  const T* c = reinterpret_cast<const T*>(in[Op::inputs > 2 ? 2 : 0]);
  const Params<typename Lane<Op, T>::V, Op::params> p(params);
  if constexpr (!kPadded<Op> || !kVectors<Op, T>) {
    forward_run<Op, T>(y, a, b, c, p.p, n);
  } else {
    T x[Op::inputs][kLanes];
    R last[kLanes];
    int64_t rest = n % kLanes;
    R* to = y;
    for (int64_t count = n - rest;;) {
      forward_run<Op, T>(to, a, b, c, p.p, count / kLanes * kLanes);
      if (to == last || !rest) break;
      const T* from[] = {a, b, c};
      for (int k = 0; k < Op::inputs; k++) pad(x[k], from[k] + count, rest);
      a = x[0], b = x[Op::inputs > 1 ? 1 : 0], c = x[Op::inputs > 2 ? 2 : 0];
      to = last;
      count = kLanes;
    }
    if (rest) std::memcpy(y + (n - rest), last, size_t(rest) * sizeof(R));
  }
}
template <class Op, int K, class T>
RL_INLINE void backward_run(T* y, const T* g, const T* a, const T* b, const T* c, const T* o,
                            const T* p, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    T d = partial_of<Op, K, T>(a[i], b[i], c[i], p, o[i], Indices<Op>{});
    T product = g[i] * math::conj(d);
    y[i] = Op::selects && d == T(0) ? T(0) : product;
  }
}
// in: gradient, inputs..., output; only those that the partial saves are read.
template <class Op, int K, class T>
RL_INLINE void backward_body(char* out, const char* const* in, const double* params, int64_t n) {
  constexpr Save saves = Op::saves[K];
  T* y = reinterpret_cast<T*>(out);
  const T* g = reinterpret_cast<const T*>(in[0]);
  const T* a = has(saves, Save::A) ? reinterpret_cast<const T*>(in[1]) : g;
  const T* b = has(saves, Save::B) ? reinterpret_cast<const T*>(in[2]) : g;
  const T* c = has(saves, Save::C) ? reinterpret_cast<const T*>(in[3]) : g;
  const T* o = has(saves, Save::Out) ? reinterpret_cast<const T*>(in[Op::inputs + 1]) : g;
  const Params<T, Op::params> p(params);
  if constexpr (!kPadded<Op> || !kPartialVectors<Op, T>) {
    backward_run<Op, K, T>(y, g, a, b, c, o, p.p, n);
  } else {
    T x[5][kLanes], last[kLanes];
    int64_t rest = n % kLanes;
    T* to = y;
    for (int64_t count = n - rest;;) {
      backward_run<Op, K, T>(to, g, a, b, c, o, p.p, count / kLanes * kLanes);
      if (to == last || !rest) break;
      const T* from[5] = {g, a, b, c, o};
      for (int k = 0; k < 5; k++) {
        if (k > 0 && from[k] == g) from[k] = x[0];
        else pad(x[k], std::exchange(from[k], x[k]) + count, rest);
      }
      g = x[0], a = from[1], b = from[2], c = from[3], o = from[4];
      to = last;
      count = kLanes;
    }
    if (rest) std::memcpy(y + (n - rest), last, size_t(rest) * sizeof(T));
  }
}
// A formula is part of its loop, however long it is: called, it would not be vectorised.
#define RL_WHOLE __attribute__((flatten))

// Where the baseline has fused multiplication, GCC fuses parts of complex products in one way in its
// vectors and in another in what is left over: bits would depend on an element's place.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__x86_64__)
#define RL_UNFUSED __attribute__((optimize("fp-contract=off")))
#else
#define RL_UNFUSED
#endif

template <kernel::Lanes body>
RL_UNFUSED void plain_loop(char* out, const char* const* in, const double* params, int64_t n) {
  body(out, in, params, n);
}
template <kernel::Lanes body>
RL_WHOLE void loop_v1(char* out, const char* const* in, const double* params, int64_t n) {
  body(out, in, params, n);
}
#if RL_LEVELS
template <kernel::Lanes body>
RL_V3 RL_WHOLE void loop_v3(char* out, const char* const* in, const double* params, int64_t n) {
  body(out, in, params, n);
}
template <kernel::Lanes body>
RL_V4 RL_WHOLE void loop_v4(char* out, const char* const* in, const double* params, int64_t n) {
  body(out, in, params, n);
}
#endif
// The loop, compiled for this machine where elements are floats or doubles.
template <bool Vectors, kernel::Lanes body>
kernel::Lanes loop() {
  if constexpr (!Vectors) return plain_loop<body>;
#if RL_LEVELS
  else return cpu::for_level(loop_v4<body>, loop_v3<body>, loop_v1<body>);
#else
  else return loop_v1<body>;
#endif
}

template <class Op, class T>
RL_COLD void add_forward(Pointwise& p) {
  constexpr int d = int(dtype_of<T>::value);
  using R = typename Lane<Op, T>::Result;
  p.lanes[d] = loop<kVectors<Op, T>, forward_body<Op, T>>();
  using Stored = std::conditional_t<
      std::is_same_v<R, bool>, Bool,
      std::conditional_t<std::is_same_v<R, int> && !std::is_same_v<T, int32_t>, T, R>>;
  p.produced[d] = Op::result == Result::Bool ? DType::Bool : dtype_of<Stored>::value;
}

template <class Op, int K>
RL_COLD Var tensor_partial(const Var* in, const double* params, const Var& out) {
  const Params<Var, Op::params> p(params);
  return partial_of<Op, K, Var>(in[0], in[1], in[2], p.p, out, Indices<Op>{});
}

// The inputs are called a, b, c, the parameters p0, p1, ..., the output y.
inline constexpr const char* kParameters[] = {"p0", "p1", "p2", "p3"};
template <size_t... P>
std::array<Symbol, sizeof...(P) + 1> symbol_params(std::index_sequence<P...>) {
  return {Symbol(kParameters[P])..., Symbol("a")};
}
template <class Op>
RL_COLD Symbol value_symbol() {
  auto p = symbol_params(Indices<Op>{});
  return value_of<Op, Symbol>("a", "b", "c", p.data(), Indices<Op>{});
}
template <class Op, int K>
RL_COLD Symbol partial_symbol() {
  auto p = symbol_params(Indices<Op>{});
  return partial_of<Op, K, Symbol>("a", "b", "c", p.data(), "y", Indices<Op>{});
}

template <class Op, int K>
RL_COLD void add_partial(Pointwise& p) {
  auto& partial = p.partial[K];
  using D = PartialType<Op, K, double>;
  if constexpr (std::is_same_v<D, One>) {
    partial.unit = 1;
  } else if constexpr (std::is_same_v<D, MinusOne>) {
    partial.unit = -1;
  } else {
    partial.saves = Op::saves[K];
    partial.kernel[int(DType::F32)] =
        loop<kPartialVectors<Op, float>, backward_body<Op, K, float>>();
    partial.kernel[int(DType::F64)] =
        loop<kPartialVectors<Op, double>, backward_body<Op, K, double>>();
    if constexpr (has(Op::types, Types::Complex)) {
      partial.kernel[int(DType::C64)] = loop<kPartialVectors<Op, c64>, backward_body<Op, K, c64>>();
      partial.kernel[int(DType::C128)] =
          loop<kPartialVectors<Op, c128>, backward_body<Op, K, c128>>();
    }
    partial.tensor = tensor_partial<Op, K>;
    partial.symbol = partial_symbol<Op, K>;
  }
}

template <class Op>
constexpr bool is_differentiable_op() {
  if constexpr (requires { Op::differentiable; }) return Op::differentiable;
  else return true;
}

// What is the same in all tables of as many inputs and parameters.
OpTable pointwise_table(int inputs, int params);
Pointwise& new_pointwise(const OpTable& table);
void finish_pointwise(Pointwise& p);

template <class Op>
std::string pointwise_text() {
  if constexpr (requires { Op::signature; }) return Op::signature;
  else {
    static_assert(Op::params <= 1, "an op with several parameters names them in its signature");
    return concat(Op::name,
                  Op::inputs == 1   ? "(Tensor input"
                  : Op::inputs == 2 ? "(Tensor|Number input, Tensor|Number other"
                                    : "(Tensor input, Tensor other, Tensor third",
                  Op::params ? ", float n)" : ")");
  }
}

template <class Op>
RL_COLD OpTable pointwise_table() {
  static const std::string text = pointwise_text<Op>();
  OpTable t = pointwise_table(Op::inputs, Op::params);
  t.name = Op::name;
  t.text = text.c_str();
  t.doc = Op::doc;
  t.module = Op::module;
  t.former = Op::former;
  if constexpr (requires { Op::grad_name; }) t.grad_name = Op::grad_name;
  t.form = is_differentiable_op<Op>() ? Form::Partial : Form::NonDifferentiable;
  if constexpr (requires { Op::full_on_cuda; }) t.autocast = Autocast::FullOnCuda;
  t.function = Op::function;
  t.method = Op::method;
  t.inplace = Op::inplace;
  t.whole_history = Op::whole_history;
  return t;
}

template <class Op>
RL_COLD const Pointwise& make_pointwise() {
  Pointwise& p = new_pointwise(pointwise_table<Op>());
  p.inputs = Op::inputs;
  p.params = Op::params;
  p.elements = Op::types;
  p.promotes = Op::result;
  p.cost = Op::cost;
  p.selects = Op::selects;
  p.vanishes = Op::vanishes;
  p.wide_numbers = Op::wide_numbers;
  p.any_sign = Op::wraps || requires { Op::any_sign; };
  p.takes_float8 = requires { Op::takes_float8; };
  p.moves = requires { Op::moves; };
  if constexpr (requires { &Op::validate; }) p.validate = Op::validate;
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
  if constexpr (has(Op::types, Types::Bool)) add_forward<Op, Bool>(p);
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
  finish_pointwise(p);
  if constexpr (requires { Op::number_grad_name; }) {
    p.number_node = p.node;
    p.number_node.name = Op::number_grad_name;
  }
  return p;
}

void register_pointwise(const Pointwise& p, const char* domain, const char* aliases);

}  // namespace detail

template <class Op>
const Pointwise& pointwise_info() {
  static const Pointwise& info = detail::make_pointwise<Op>();
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

#define RL_POINTWISE(Op)                               \
  [[maybe_unused]] static const bool registered_##Op = \
      (detail::register_pointwise(pointwise_info<Op>(), Op::domain, Op::aliases), true);

// Whether `in` shares memory with `into` otherwise than element by element. Raises where both are
// dense, as torch does; true asks the caller for a copy.
bool overlaps_partly(const Tensor* in, const Tensor* into);

}  // namespace rl
