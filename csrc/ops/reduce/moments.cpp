// Products, variances, sums without NaN, logarithms of sums, and counts.
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/scan.h"

namespace rl {

namespace {

using Dims = std::optional<Ints>;

// Runs kernel(x, y) over the plan, y being the result.
template <class Kernel>
Var reduced(const Reduction& r, DType result, double cost, const Kernel& kernel) {
  Var y = empty(r.sizes, result, r.input.device());
  Launch launch(double(r.input.numel()) * cost, {r.input.get(), y.get()});
  kernel(r.input->data(), y->data());
  return y;
}

bool has_zero(const Var& x) {
  GradMode off(false);
  if (!has_data(x.get())) return false;
  Var dense = ops::contiguous(x);
  Launch launch(double(dense.numel()), {dense.get()});
  return on(dense).nonzero(dense.dtype(), dense->data(), dense.numel(), nullptr) != dense.numel();
}

Var product(const Var& input, const Dims& dim, bool keepdim, const std::optional<DType>& dtype) {
  DType d = input.dtype(), result = dtype ? *dtype : is_integral(d) ? DType::I64 : d;
  Reduction r = plan_reduction(ops::to(input, result), dim, keepdim, "prod");
  DType direct = is_integral(result) ? DType::I64 : result;
  Var y = reduced(r, direct, 1, [&](const void* x, void* to) {
    on(r.input).prod(result, direct, x, to, r.outer, r.n, r.inner);
  });
  return ops::to(y, result);
}

// The product of the other factors, for each. Without zeros every factor divides the product;
// with some, the others are multiplied anew.
Var other_factors(const Var& x, const Var& out, int64_t dim) {
  if (x.numel() == 0) return x;
  if (x.dim() == 0 || x.size(int(dim)) <= 1) return ops::full(x.sizes(), 1, x.dtype(), x.device());
  if (!has_zero(x)) return out / x;
  return exclusive_products(x, dim, false) * exclusive_products(x, dim, true);
}

struct ProdAll : General {
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature = "prod(Tensor input, *, dtype? dtype=None)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "prod(x): the product of all elements; prod(x, dim): of each line.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, std::optional<DType> dtype) {
    return product(input, std::nullopt, false, dtype);
  }
  static void vjp(Back& b, const In& input, std::optional<DType>) {
    b[0] = b.g() * ops::conj(others(*input, b.out()));
  }
  static void jvp(Push& p, const Var& input, std::optional<DType>) {
    p[0] = ops::sum_all(p.t(0) * others(input, p.out()));
  }
  static Var others(const Var& input, const Var& out) {
    Var flat = ops::reshape(ops::to(input, out.dtype()), {input.numel()});
    return ops::reshape(other_factors(flat, out, 0), input.sizes());
  }
};
RL_OP(ProdAll)

struct Prod : General {
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature =
      "prod(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto grad_name = "ProdBackward1";
  static constexpr auto doc = "prod(x, dim, keepdim): the products along a dimension.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, int64_t dim, bool keepdim, std::optional<DType> dtype) {
    return product(input, Ints{dim}, keepdim, dtype);
  }
  static void vjp(Back& b, const In& input, int64_t dim, bool keepdim, std::optional<DType>) {
    Var each = restore_dims(b.g(), input.sizes(), Ints{dim}, keepdim);
    b[0] = each * ops::conj(others(*input, b.out(), dim, keepdim));
  }
  static void jvp(Push& p, const Var& input, int64_t dim, bool keepdim, std::optional<DType>) {
    p[0] = ops::sum(p.t(0) * others(input, p.out(), dim, keepdim), {dim}, keepdim);
  }
  static Var others(const Var& input, const Var& out, int64_t dim, bool keepdim) {
    Var x = ops::to(input, out.dtype());
    return other_factors(x, restore_dims(out, x.sizes(), Ints{dim}, keepdim),
                         wrap_dim(dim, x.dim()));
  }
};
RL_OP(Prod)

// -- variance ------------------------------------------------------------------------------------

using Correction = std::optional<double>;

Correction correction_of(bool unbiased) { return unbiased ? 1.0 : 0.0; }

// The variance and the mean.
std::array<Var, 2> moments(const Var& input, const Dims& dim, Correction correction, bool keepdim,
                           const char* op) {
  DType d = input.dtype();
  check(is_differentiable(d), op,
        "(): std and var only support floating point and complex dtypes, "
        "got ",
        info(d).tensor_name);
  Reduction r = plan_reduction(input, dim, keepdim, op);
  double unseen = correction.value_or(1);
  Var mean = empty(r.sizes, d, input.device());
  if (r.n == 0) {
    ops::fill_data(mean.get(), std::nan(""));
    return {ops::full(r.sizes, std::nan(""), real_of(d), input.device()), mean};
  }
  Var var = reduced(r, real_of(d), 4, [&](const void* x, void* y) {
    on(mean).var(d, x, y, mean->data(), r.outer, r.n, r.inner, unseen);
  });
  return {var, mean};
}

Var square_root(const Var& var) { return math::sqrt(var); }

// 2 (x - mean) / (n - correction): the derivative by each element.
Var var_slope(const Var& x, const Dims& dim, Correction correction) {
  double divisor = double(reduced_count(x.sizes(), dim)) - correction.value_or(1);
  Var mean = ops::mean(x, dim.value_or(Ints()), true);
  if (divisor <= 0) {
    auto number = [&](double value) { return ops::full({}, value, x.dtype(), x.device()); };
    return math::where(x == mean, number(std::nan("")), number(HUGE_VAL));
  }
  return Var(2 / divisor) * (x - mean);
}

// Through the root; a deviation of 0 has the gradient 0.
Var std_gradient(const Var& g, const Var& std) {
  Var flat = std == Var(0);
  return math::where(flat, Var(0), g / (Var(2) * math::where(flat, Var(1), std)));
}

// The tangent of the variance, or of its root `out`.
Var push_spread(const Var& t, const Var& x, const Dims& dim, Correction correction, bool keepdim,
                bool root, const Var& out) {
  Var each = ops::real(ops::conj(var_slope(x, dim, correction)) * t);
  Var var = ops::sum(each, dim.value_or(Ints()), keepdim);
  return root ? std_gradient(var, out) : var;
}

template <class Op>
struct Spread : General {
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, Dims dim, Correction correction, bool keepdim) {
    Var var = moments(input, dim, correction, keepdim, Op::word)[0];
    return Op::root ? square_root(var) : var;
  }
  static void vjp(Back& b, const In& input, Dims dim, Correction correction, bool keepdim) {
    Var g = Op::root ? std_gradient(b.g(), b.out()) : b.g();
    g = restore_dims(g, input.sizes(), dim, keepdim);
    b[0] = g * var_slope(*input, dim, correction);
  }
  static void jvp(Push& p, const Var& input, Dims dim, Correction correction, bool keepdim) {
    p[0] = push_spread(p.t(0), input, dim, correction, keepdim, Op::root, p.out());
  }
};

template <class Op>
struct SpreadAndMean : General {
  static constexpr Family family = Family::Reduction;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, Dims dim, Correction correction,
                                    bool keepdim) {
    auto [var, mean] = moments(input, dim, correction, keepdim, Op::word);
    return {Op::root ? square_root(var) : var, mean};
  }
  static void vjp(Back& b, const In& input, Dims dim, Correction correction, bool keepdim) {
    const Ints& sizes = input.sizes();
    if (b.g(0)) {
      Var g = Op::root ? std_gradient(b.g(0), b.out()) : b.g(0);
      b[0] = restore_dims(g, sizes, dim, keepdim) * var_slope(*input, dim, correction);
    }
    if (b.g(1)) {
      Var each = b.g(1) / Var(double(reduced_count(sizes, dim)));
      each = ops::expand(restore_dims(each, sizes, dim, keepdim), sizes);
      b[0] = b[0] ? b[0] + each : each;
    }
  }
  static void jvp(Push& p, const Var& input, Dims dim, Correction correction, bool keepdim) {
    p[0] = push_spread(p.t(0), input, dim, correction, keepdim, Op::root, p.out());
    p[1] = ops::mean(p.t(0), dim.value_or(Ints()), keepdim);
  }
};

// The overloads of one name: (dim, unbiased, keepdim), (dim, correction, keepdim), (unbiased).
#define RL_SPREAD(Type, Base, function, takes_root, saved, is_method, text)                        \
  struct Type : Base<Type> {                                                                       \
    static constexpr auto word = function;                                                         \
    static constexpr bool root = takes_root;                                                       \
    static constexpr auto signature =                                                              \
        function "(Tensor input, int[]? dim=None, *, float? correction=None, bool keepdim=False)"; \
    static constexpr auto saves = saved;                                                           \
    static constexpr auto doc = function "(x, dim, correction=1, keepdim): " text;                 \
  };                                                                                               \
  struct Type##Dim : Composite {                                                                   \
    static constexpr auto signature =                                                              \
        function "(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False)";             \
    static constexpr auto doc = function "(x, dim, unbiased, keepdim): " text;                     \
    static constexpr bool method = is_method;                                                      \
    static constexpr bool out = is_method;                                                         \
    static auto forward(const Var& input, Dims dim, bool unbiased, bool keepdim) {                 \
      return call<Type>(input, dim, correction_of(unbiased), keepdim);                             \
    }                                                                                              \
  };                                                                                               \
  struct Type##All : Composite {                                                                   \
    static constexpr auto signature = function "(Tensor input, bool unbiased)";                    \
    static constexpr auto doc = function "(x, unbiased): " text;                                   \
    static constexpr bool method = is_method;                                                      \
    static constexpr bool out = is_method;                                                         \
    static auto forward(const Var& input, bool unbiased) {                                         \
      return call<Type>(input, std::nullopt, correction_of(unbiased), false);                      \
    }                                                                                              \
  };                                                                                               \
  RL_OP(Type##Dim)                                                                                 \
  RL_OP(Type)                                                                                      \
  RL_OP(Type##All)
RL_SPREAD(Variance, Spread, "var", false, "input", true,
          "the variance; the divisor is n minus the correction.")
RL_SPREAD(Deviation, Spread, "std", true, "input out", true,
          "the standard deviation, the root of var.")
RL_SPREAD(VarianceMean, SpreadAndMean, "var_mean", false, "input", false,
          "the variance and the mean.")
RL_SPREAD(DeviationMean, SpreadAndMean, "std_mean", true, "input out", false,
          "the standard deviation and the mean.")

// -- sums ----------------------------------------------------------------------------------------

struct NanSum : General {
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature =
      "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "nansum(x, dim): the sum, a NaN counting as 0.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input";
  static Var forward(const Var& input, Dims dim, bool keepdim, std::optional<DType> dtype) {
    DType d = input.dtype(), result = dtype ? *dtype : is_integral(d) ? DType::I64 : d;
    if (is_complex(d) || is_complex(result))
      fail_as(PyExc_NotImplementedError, "nansum on CPU does not support complex inputs");
    // As an integer a NaN could not be told from the others.
    bool hides = is_integral(result) && is_floating(d);
    Var x = hides ? math::where(math::isnan(input), Var(0), input) : input;
    Reduction r = plan_reduction(ops::to(x, result), dim, keepdim, "nansum");
    DType direct = is_integral(result) ? DType::I64 : result;
    Var y = reduced(r, direct, 1, [&](const void* from, void* to) {
      on(r.input).nansum(result, direct, from, to, r.outer, r.n, r.inner, 1);
    });
    return ops::to(y, result);
  }
  static void vjp(Back& b, const In& input, Dims dim, bool keepdim, std::optional<DType>) {
    Var g = restore_dims(b.g(), input.sizes(), dim, keepdim);
    b[0] = math::where(math::isnan(*input), Var(0), g);
  }
  static void jvp(Push& p, const Var& input, Dims dim, bool keepdim, std::optional<DType> dtype) {
    Var present = math::where(math::isnan(input), Var(0), p.t(0));
    p[0] = ops::sum(ops::to(present, dtype.value_or(input.dtype())), dim.value_or(Ints()), keepdim);
  }
};
RL_OP(NanSum)

struct NanMean : Composite {
  static constexpr auto signature =
      "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)";
  static constexpr auto doc = "nanmean(x, dim): the mean of the elements that are not NaN.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, Dims dim, bool keepdim, std::optional<DType> dtype) {
    check(is_differentiable(input.dtype()),
          "nanmean(): expected input to have floating point or "
          "complex dtype but got ",
          info(input.dtype()).tensor_name);
    check(!dtype || is_differentiable(*dtype),
          "nanmean(): could not infer output dtype. Optional dtype must be either a floating point "
          "or complex dtype. Got: ",
          info(dtype.value_or(DType::F32)).tensor_name);
    Var present = ops::sum(input == input, dim.value_or(Ints()), keepdim);
    return call<NanSum>(input, dim, keepdim, dtype) / present;
  }
};
RL_OP(NanMean)

struct LogSumExp : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "logsumexp(Tensor input, int[] dim, bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "logsumexp(x, dim): log(sum(exp(x), dim)), without overflow.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, const Ints& dim, bool keepdim) {
    if (is_complex(input.dtype())) return complex_value(input, dim, keepdim);
    Var x = is_integral(input.dtype()) ? ops::to(input, default_dtype()) : input;
    Reduction r = plan_reduction(x, dim, keepdim, "logsumexp");
    return reduced(r, x.dtype(), 10, [&](const void* from, void* to) {
      on(r.input).logsumexp(x.dtype(), from, to, r.outer, r.n, r.inner);
    });
  }
  // Shifted by the largest real part.
  static Var complex_value(const Var& input, const Ints& dim, bool keepdim) {
    Var real = ops::select(ops::view_as_real(input), input.dim(), 0), shift;
    Reduction r = plan_reduction(real, dim, true, "logsumexp");
    if (r.n == 0)
      return ops::full(keepdim ? r.kept : plan_reduction(real, dim, false, "").sizes, -HUGE_VAL,
                       input.dtype(), input.device());
    shift = reduced(r, real.dtype(), 1, [&](const void* from, void* to) {
      on(r.input).amax(real.dtype(), from, to, r.outer, r.n, r.inner);
    });
    shift = math::where(math::isnan(shift - shift), Var(0), shift);
    Var kept = math::log(ops::sum(math::exp(input - shift), dim, true)) + shift;
    return keepdim ? kept : ops::reshape(kept, plan_reduction(real, dim, false, "").sizes);
  }
  static void vjp(Back& b, const In& input, const Ints& dim, bool keepdim) {
    Var x = *input, out = restore_dims(b.out(), x.sizes(), dim, keepdim);
    b[0] = restore_dims(b.g(), x.sizes(), dim, keepdim) * ops::conj(math::exp(x - out));
  }
  static void jvp(Push& p, const Var& input, const Ints& dim, bool keepdim) {
    Var out = restore_dims(p.out(), input.sizes(), dim, keepdim);
    p[0] = ops::sum(p.t(0) * math::exp(input - out), dim, keepdim);
  }
};
RL_OP(LogSumExp)

// -- truth ---------------------------------------------------------------------------------------

using Truth = decltype(&kernel::Table::any);

// Bytes answer in bytes, everything else in bools.
Var truth(const Var& input, const Dims& dim, bool keepdim, Truth run, const char* op) {
  Var y;
  if (dim && dim->empty()) {
    y = input != Var(0);
  } else {
    Reduction r = plan_reduction(input, dim, keepdim, op);
    y = reduced(r, DType::Bool, 1, [&](const void* x, void* to) {
      (on(input).*run)(input.dtype(), x, static_cast<bool*>(to), r.outer, r.n, r.inner);
    });
  }
  return input.dtype() == DType::U8 ? ops::to(y, DType::U8) : y;
}

struct Any : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "any(Tensor input, int[]? dim=None, bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "any(x, dim): whether one of the elements is nonzero.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, Dims dim, bool keepdim) {
    return truth(input, dim, keepdim, &kernel::Table::any, "any");
  }
};
RL_OP(Any)

struct All : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "all(Tensor input, int[]? dim=None, bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "all(x, dim): whether all elements are nonzero.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, Dims dim, bool keepdim) {
    return truth(input, dim, keepdim, &kernel::Table::all, "all");
  }
};
RL_OP(All)

struct CountNonzero : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "count_nonzero(Tensor input, int[]? dim=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "count_nonzero(x, dim): how many elements are nonzero.";
  static constexpr Family family = Family::Reduction;
  static constexpr bool out = false;
  static Var forward(const Var& input, Dims dim) {
    Reduction r = plan_reduction(input, dim, false, "count_nonzero");
    return reduced(r, DType::I64, 1, [&](const void* x, void* y) {
      on(r.input).count_nonzero(input.dtype(), x, static_cast<int64_t*>(y), r.outer, r.n, r.inner);
    });
  }
};
RL_OP(CountNonzero)

}  // namespace
}  // namespace rl
