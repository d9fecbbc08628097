// Sums of a tensor and a scaled term; those whose factors are complex numbers, of any kind, as
// expressions of other ops.
#include "call/broadcast.h"
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

namespace {

struct Addcmul : Ternary<Addcmul> {
  static constexpr auto name = "addcmul";
  static constexpr auto signature =
      "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, float value=1)";
  static constexpr auto doc = "addcmul(x, a, b, value=s): x + s * a * b.";
  static constexpr auto former = "input value tensor1 tensor2";
  static constexpr Types types = Types::Numeric;
  static constexpr bool wraps = true;
  static constexpr int params = 1;
  static constexpr Save saves[] = {Save::None, Save::C, Save::B};
  template <class V> static V value(V x, V a, V b, V s) { return V(x + s * a * b); }
  template <class V> static One partial0(V, V, V, V, V) { return {}; }
  template <class V> static V partial1(V, V, V b, V s, V) { return s * b; }
  template <class V> static V partial2(V, V a, V, V s, V) { return s * a; }
};
RL_POINTWISE(Addcmul)

struct Addcdiv : Ternary<Addcdiv> {
  static constexpr auto name = "addcdiv";
  static constexpr auto signature =
      "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, float value=1)";
  static constexpr auto doc = "addcdiv(x, a, b, value=s): x + s * a / b.";
  static constexpr auto former = "input value tensor1 tensor2";
  static constexpr Types types = Types::FloatComplex;
  static constexpr int params = 1;
  static constexpr auto domain = "nonzero";
  static constexpr Save saves[] = {Save::None, Save::C, Save::B | Save::C};
  template <class V> static V value(V x, V a, V b, V s) { return x + s * (a / b); }
  template <class V> static One partial0(V, V, V, V, V) { return {}; }
  template <class V> static V partial1(V, V, V b, V s, V) { return s / b; }
  template <class V> static V partial2(V, V a, V b, V s, V) { return -(s * a) / (b * b); }
};
RL_POINTWISE(Addcdiv)

struct Scaled : Composite {
  static constexpr bool inplace = true;
  static constexpr bool tried_last = true;
};

// A factor that is complex needs a result that is.
void check_factor(const char* what, const Var& factor, std::initializer_list<Var> tensors) {
  Promotion promotion;
  for (const Var& t : tensors) promotion.add(t.get());
  check(!is_complex(factor.dtype()) || is_complex(promotion.result()),
        "For non-complex input tensors, argument ", what, " must not be a complex number.");
}

bool is_zero(const Var& number) {
  switch (number.dtype()) {
    case DType::C128: return *number->host<c128>() == 0.0;
    case DType::F64: return *number->host<double>() == 0;
    case DType::I64: return *number->host<int64_t>() == 0;
    default: return false;
  }
}

#define RL_ADDED(Type, word, sign, old)                                        \
  struct Type : Scaled {                                                       \
    static constexpr auto signature =                                          \
        word "(Tensor|Number input, Tensor|Number other, *, Number alpha)";    \
    static constexpr auto doc = word "(a, b, alpha=s), for a complex s.";      \
    static constexpr auto former = old;                                        \
    static Var forward(const Var& input, const Var& other, const Var& alpha) { \
      check_factor("alpha", alpha, {input, other});                            \
      return input sign alpha * other;                                         \
    }                                                                          \
  };                                                                           \
  RL_OP(Type)
RL_ADDED(AddComplex, "add", +, "input alpha other")
RL_ADDED(SubComplex, "sub", -, "input alpha other")
RL_ADDED(SubtractComplex, "subtract", -, "")
#undef RL_ADDED

struct RsubComplex : Composite {
  static constexpr bool tried_last = true;
  static constexpr auto signature =
      "rsub(Tensor|Number input, Tensor|Number other, *, Number alpha)";
  static constexpr auto doc = "rsub(a, b, alpha=s), for a complex s.";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& other, const Var& alpha) {
    check_factor("alpha", alpha, {input, other});
    return other - alpha * input;
  }
};
RL_OP(RsubComplex)

#define RL_TERM(Type, word, sign)                                                \
  struct Type : Scaled {                                                         \
    static constexpr auto signature =                                            \
        word "(Tensor input, Tensor tensor1, Tensor tensor2, *, Number value)";  \
    static constexpr auto doc = word "(x, a, b, value=s), for a complex s.";     \
    static constexpr auto former = "input value tensor1 tensor2";                \
    static Var forward(const Var& input, const Var& tensor1, const Var& tensor2, \
                       const Var& value) {                                       \
      check_factor("value", value, {input, tensor1, tensor2});                   \
      return input + value * (tensor1 sign tensor2);                             \
    }                                                                            \
  };                                                                             \
  RL_OP(Type)
RL_TERM(AddcmulComplex, "addcmul", *)
RL_TERM(AddcdivComplex, "addcdiv", /)
#undef RL_TERM

#define RL_PRODUCT(Type, word, first, second, product)                                       \
  struct Type : Scaled {                                                                     \
    static constexpr auto signature = word "(Tensor input, Tensor " first ", Tensor " second \
                                           ", *, Number beta=1, Number alpha=1)";            \
    static constexpr auto doc = word "(c, a, b), for complex beta and alpha.";               \
    static constexpr Family family = Family::Contraction;                                    \
    static constexpr auto former =                                                           \
        "beta input alpha " first " " second ";beta input " first " " second;                \
    static Var forward(const Var& input, const Var& a, const Var& b, const Var& beta,        \
                       const Var& alpha) {                                                   \
      check_factor("beta", beta, {input, a, b});                                             \
      check_factor("alpha", alpha, {input, a, b});                                           \
      Var sum = alpha * (product);                                                           \
      return is_zero(beta) ? sum : beta * input + sum;                                       \
    }                                                                                        \
  };                                                                                         \
  RL_OP(Type)
RL_PRODUCT(AddmmComplex, "addmm", "mat1", "mat2", ops::mm(a, b))
RL_PRODUCT(BaddbmmComplex, "baddbmm", "batch1", "batch2", ops::bmm(a, b))
RL_PRODUCT(AddbmmComplex, "addbmm", "batch1", "batch2", ops::sum(ops::bmm(a, b), {0}, false))
RL_PRODUCT(AddmvComplex, "addmv", "mat", "vec", ops::matmul(a, b))
RL_PRODUCT(AddrComplex, "addr", "vec1", "vec2", ops::unsqueeze(a, 1) * b)
#undef RL_PRODUCT

}  // namespace
}  // namespace rl
