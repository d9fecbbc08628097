// The largest, the smallest and the middle: of everything or along dimensions.
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/reduce/reduce.h"

namespace rl {

namespace {

using Dims = std::optional<Ints>;

void refuse_complex(const Var& input, const char* op) {
  if (is_complex(input.dtype()))
    fail_as(PyExc_NotImplementedError, op, "(): not implemented for '",
            info(input.dtype()).tensor_name, "': complex numbers have no order");
}

void refuse_bool(const Var& input, const char* op) {
  if (input.dtype() == DType::Bool)
    fail_as(PyExc_NotImplementedError, op,
            "(): not implemented for 'Bool', does not support bool "
            "input. Convert it first, for example with .to(torch.uint8)");
}

// There is no extreme of nothing.
void check_nonempty(const Var& input, const Dims& dim, const char* op) {
  if (input.numel() > 0) return;
  if (!dim || dim->empty())
    fail(op,
         "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
         "reduction dim with the 'dim' argument.");
  for (int64_t d : wrap_dims(*dim, input.dim(), op))
    if (input.size(int(d)) == 0)
      fail_as(PyExc_IndexError, op, "(): Expected reduction dim ", d,
              " to have non-zero size, got input of shape ", input.sizes());
}

using Fold = decltype(&kernel::Table::amax);

Var reduce_extreme(const Var& input, const Dims& dim, bool keepdim, Fold run, const char* op) {
  refuse_complex(input, op);
  check_nonempty(input, dim, op);
  Reduction r = plan_reduction(input, dim, keepdim, op);
  Var y = empty(r.sizes, input.dtype(), input.device());
  {
    Launch launch(double(r.input.numel()), {r.input.get(), y.get()});
    (on(y).*run)(y.dtype(), r.input->data(), y->data(), r.outer, r.n, r.inner);
  }
  return y;
}

// Which elements equal the result.
Var reached(const Var& x, const Var& out, const Dims& dim, bool keepdim) {
  return x == restore_dims(out, x.sizes(), dim, keepdim);
}

// The gradient of amax and amin: shared evenly by the elements that equal the result.
Var share(const Var& g, const Var& x, const Var& out, const Dims& dim, bool keepdim) {
  Var mask = reached(x, out, dim, keepdim);
  Var count = ops::sum(mask, dim.value_or(Ints()), true);
  return restore_dims(g, x.sizes(), dim, keepdim) * mask / count;
}

// The tangent of amax and amin: the mean over those elements.
Var mean_where(const Var& mask, const Var& t, const Dims& dim, bool keepdim) {
  Ints dims = dim.value_or(Ints());
  return ops::sum(math::where(mask, t, Var(0)), dims, keepdim) / ops::sum(mask, dims, keepdim);
}

bool is_nan(const Var& value) {
  if (!has_data(value.get())) return false;
  GradMode off(false);
  double v = ops::number(value);
  return v != v;
}

// The same for results that a NaN reaches together with the gradient.
Var reached_all(const Var& x, const Var& out) { return is_nan(out) ? math::isnan(x) : x == out; }
Var share_all(const Var& g, const Var& x, const Var& out) {
  Var mask = reached_all(x, out);
  return math::where(mask, g / ops::sum(mask, {}, false), Var(0));
}

template <class Op>
struct ExtremeOverDims : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, Dims dim, bool keepdim) {
    return reduce_extreme(input, dim, keepdim, Op::run, Op::word);
  }
  static void vjp(Back& b, const In& input, Dims dim, bool keepdim) {
    b[0] = share(b.g(), *input, b.out(), dim, keepdim);
  }
  static void jvp(Push& p, const Var& input, Dims dim, bool keepdim) {
    p[0] = mean_where(reached(input, p.out(), dim, keepdim), p.t(0), dim, keepdim);
  }
};

struct Amax : ExtremeOverDims<Amax> {
  static constexpr auto word = "amax";
  static constexpr auto signature = "amax(Tensor input, int[]? dim=(), bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "amax(x, dim, keepdim): the maxima over these dimensions. Ties share the gradient.";
  static constexpr auto run = &kernel::Table::amax;
};
RL_OP(Amax)

struct Amin : ExtremeOverDims<Amin> {
  static constexpr auto word = "amin";
  static constexpr auto signature = "amin(Tensor input, int[]? dim=(), bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "amin(x, dim, keepdim): the minima over these dimensions. Ties share the gradient.";
  static constexpr auto run = &kernel::Table::amin;
};
RL_OP(Amin)

struct Aminmax : General {
  static constexpr auto signature =
      "aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (min, max)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "aminmax(x, dim=None): the minimum and the maximum.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out out1";
  static Dims dims(std::optional<int64_t> dim) { return dim ? Dims(Ints{*dim}) : Dims(); }
  static std::array<Var, 2> forward(const Var& input, std::optional<int64_t> dim, bool keepdim) {
    check(dim || input.numel() > 0,
          "aminmax(): cannot compute aminmax over an empty dimension as "
          "the operation has no identity. (shape ",
          input.sizes(), ")");
    return {reduce_extreme(input, dims(dim), keepdim, &kernel::Table::amin, "aminmax"),
            reduce_extreme(input, dims(dim), keepdim, &kernel::Table::amax, "aminmax")};
  }
  static void vjp(Back& b, const In& input, std::optional<int64_t> dim, bool keepdim) {
    Var x = *input;
    for (int i = 0; i < 2; i++) {
      if (!b.g(i)) continue;
      Var part = share(b.g(i), x, b.out(i), dims(dim), keepdim);
      b[0] = b[0] ? b[0] + part : part;
    }
  }
  static void jvp(Push& p, const Var& input, std::optional<int64_t> dim, bool keepdim) {
    for (int i = 0; i < 2; i++)
      p[i] = mean_where(reached(input, p.out(i), dims(dim), keepdim), p.t(0), dims(dim), keepdim);
  }
};
RL_OP(Aminmax)

template <class Op>
struct ExtremeOfAll : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input) {
    return reduce_extreme(input, std::nullopt, false, Op::run, Op::word);
  }
  static void vjp(Back& b, const In& input) { b[0] = share_all(b.g(), *input, b.out()); }
  static void jvp(Push& p, const Var& input) {
    p[0] = mean_where(reached_all(input, p.out()), p.t(0), std::nullopt, false);
  }
};

struct MaxAll : ExtremeOfAll<MaxAll> {
  static constexpr auto word = "max";
  static constexpr auto signature = "max(Tensor input)";
  static constexpr auto grad_name = "MaxBackward1";
  static constexpr auto doc =
      "max(x): the largest element, whose ties share the gradient. max(x, dim): the largest along "
      "a dimension and where it is. max(a, b): maximum(a, b).";
  static constexpr auto run = &kernel::Table::amax;
};
RL_OP(MaxAll)

struct MinAll : ExtremeOfAll<MinAll> {
  static constexpr auto word = "min";
  static constexpr auto signature = "min(Tensor input)";
  static constexpr auto grad_name = "MinBackward1";
  static constexpr auto doc =
      "min(x): the smallest element, whose ties share the gradient. min(x, dim): the smallest "
      "along a dimension and where it is. min(a, b): minimum(a, b).";
  static constexpr auto run = &kernel::Table::amin;
};
RL_OP(MinAll)

struct MaxOther : Composite {
  static constexpr auto signature = "max(Tensor input, Tensor other)";
  static constexpr auto doc = "max(a, b): maximum(a, b).";
  static Var forward(const Var& input, const Var& other) {
    return math::call_pointwise("maximum", {input, other});
  }
};
RL_OP(MaxOther)

struct MinOther : Composite {
  static constexpr auto signature = "min(Tensor input, Tensor other)";
  static constexpr auto doc = "min(a, b): minimum(a, b).";
  static Var forward(const Var& input, const Var& other) {
    return math::call_pointwise("minimum", {input, other});
  }
};
RL_OP(MinOther)

// Values picked along a dimension, and the positions that take the gradient. `last`: what the
// kernel is told besides the shape.
template <class Run, class... Last>
std::array<Var, 2> pick(const Var& input, int64_t dim, bool keepdim, const char* op, Run run,
                        Last... last) {
  Ints dims{dim};
  refuse_complex(input, op);
  check_nonempty(input, dims, op);
  Reduction r = plan_reduction(input, dims, keepdim, op);
  Var y = empty(r.sizes, input.dtype(), input.device()),
      index = empty(r.sizes, DType::I64, input.device());
  if (y.numel() > 0) {
    Launch launch(double(r.input.numel()) * 2, {r.input.get(), y.get(), index.get()});
    (on(y).*run)(y.dtype(), r.input->data(), y->data(), index->data<int64_t>(), r.outer, r.n,
                 r.inner, last...);
  }
  return {y, index};
}

template <class Op>
struct Picked : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, int64_t dim, bool keepdim) {
    return pick(input, dim, keepdim, Op::word, Op::run);
  }
  static void vjp(Back& b, const In& input, int64_t dim, bool keepdim) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, keepdim);
  }
  static void jvp(Push& p, const Var&, int64_t dim, bool keepdim) {
    p[0] = pick_out(p.t(0), p.out(1), dim, keepdim);
  }
};

struct MaxDim : Picked<MaxDim> {
  static constexpr auto word = "max";
  static constexpr auto signature =
      "max(Tensor input, int dim, bool keepdim=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "max(x, dim): the maxima along a dimension, with positions.";
  static constexpr auto run = &kernel::Table::max_with_index;
};
RL_OP(MaxDim)

struct MinDim : Picked<MinDim> {
  static constexpr auto word = "min";
  static constexpr auto signature =
      "min(Tensor input, int dim, bool keepdim=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "min(x, dim): the minima along a dimension, with positions.";
  static constexpr auto run = &kernel::Table::min_with_index;
};
RL_OP(MinDim)

struct Mode : Picked<Mode> {
  static constexpr auto word = "mode";
  static constexpr auto signature =
      "mode(Tensor input, int dim=-1, bool keepdim=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "mode(x, dim): the most frequent values along a dimension (the least of several) and where "
      "they are.";
  static constexpr auto run = &kernel::Table::mode;
};
RL_OP(Mode)

struct MedianAll : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature = "median(Tensor input)";
  static constexpr auto doc =
      "median(x): the lower median of all elements. median(x, dim): along a dimension, with its "
      "position.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input) {
    refuse_bool(input, "median");
    refuse_complex(input, "median");
    if (input.numel() == 0) return ops::full({}, std::nan(""), input.dtype(), input.device());
    Var x = plan_reduction(input, std::nullopt, false, "median").input;
    Var y = empty({}, x.dtype(), x.device());
    {
      Launch launch(double(x.numel()) * 4, {x.get(), y.get()});
      on(x).median_value(x.dtype(), x->data(), y->data(), x.numel());
    }
    return y;
  }
  static void vjp(Back& b, const In& input) { b[0] = share_all(b.g(), *input, b.out()); }
  static void jvp(Push& p, const Var& input) {
    p[0] = mean_where(reached_all(input, p.out()), p.t(0), std::nullopt, false);
  }
};
RL_OP(MedianAll)

struct MedianDim : Picked<MedianDim> {
  static constexpr auto word = "median";
  static constexpr auto signature =
      "median(Tensor input, int dim, bool keepdim=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "MedianBackward1";
  static constexpr auto doc = "median(x, dim): the lower medians of a dimension, with positions.";
  static constexpr auto run = &kernel::Table::median;
  static std::array<Var, 2> forward(const Var& input, int64_t dim, bool keepdim) {
    refuse_bool(input, word);
    return Picked::forward(input, dim, keepdim);
  }
};
RL_OP(MedianDim)

struct KthValue : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "kthvalue(x, k, dim): the k-th smallest values along a dimension (k from 1) and where they "
      "are.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, int64_t k, int64_t dim, bool keepdim) {
    refuse_bool(input, "kthvalue");
    check_nonempty(input, Ints{dim}, "kthvalue");
    int64_t d = wrap_dim(dim, input.dim(), "kthvalue");
    int64_t n = input.dim() == 0 ? 1 : input.size(int(d));
    check(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", d,
          ": k is ", k, ", the dimension has ", n, " elements");
    return pick(input, dim, keepdim, "kthvalue", &kernel::Table::kth, k);
  }
  static void vjp(Back& b, const In& input, int64_t, int64_t dim, bool keepdim) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, keepdim);
  }
  static void jvp(Push& p, const Var&, int64_t, int64_t dim, bool keepdim) {
    p[0] = pick_out(p.t(0), p.out(1), dim, keepdim);
  }
};
RL_OP(KthValue)

template <class Op>
struct Position : NonDifferentiable {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, std::optional<int64_t> dim, bool keepdim) {
    const char* op = Op::word;
    refuse_bool(input, op);
    refuse_complex(input, op);
    if (!dim && input.numel() == 0)
      fail_as(PyExc_IndexError, op,
              "(): Expected reduction dim to be specified for input.numel() "
              "== 0.");
    if (dim) check_nonempty(input, Ints{*dim}, op);
    // Positions count rows, whatever the layout.
    Var flat = dim ? input : ops::reshape(input, {input.numel()});
    Reduction r = plan_reduction(flat, Ints{dim.value_or(0)}, keepdim, op);
    Var index = empty(dim || !keepdim ? r.sizes : Ints(input.dim(), 1), DType::I64, input.device());
    {
      Launch launch(double(r.input.numel()), {r.input.get(), index.get()});
      (on(index).*Op::run)(input.dtype(), r.input->data(), index->data<int64_t>(), r.outer, r.n,
                           r.inner);
    }
    return index;
  }
};

struct ArgMax : Position<ArgMax> {
  static constexpr auto word = "argmax";
  static constexpr auto signature = "argmax(Tensor input, int? dim=None, bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "argmax(x, dim=None): where the maximum first occurs: flat, or along a dimension.";
  static constexpr auto run = &kernel::Table::argmax;
};
RL_OP(ArgMax)

struct ArgMin : Position<ArgMin> {
  static constexpr auto word = "argmin";
  static constexpr auto signature = "argmin(Tensor input, int? dim=None, bool keepdim=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "argmin(x, dim=None): where the minimum first occurs: flat, or along a dimension.";
  static constexpr auto run = &kernel::Table::argmin;
};
RL_OP(ArgMin)

}  // namespace

Var put_back(const Var& g, const Var& index, const Ints& sizes, int64_t dim, bool keepdim) {
  if (sizes.empty()) return g;
  int64_t d = wrap_dim(dim, sizes.size());
  Var zeros = ops::zeros(sizes, g.dtype(), g.device());
  if (keepdim) return ops::scatter_add(zeros, d, index, g);
  return ops::scatter_add(zeros, d, ops::unsqueeze(index, d), ops::unsqueeze(g, d));
}

Var pick_out(const Var& x, const Var& index, int64_t dim, bool keepdim) {
  if (x.dim() == 0) return x;
  int64_t d = wrap_dim(dim, x.dim());
  if (keepdim) return ops::gather(x, d, index);
  return ops::select(ops::gather(x, d, ops::unsqueeze(index, d)), d, 0);
}

namespace ops {

Var amax(const Var& a, const Ints& dims, bool keepdim) { return call<Amax>(a, dims, keepdim); }
Var amin(const Var& a, const Ints& dims, bool keepdim) { return call<Amin>(a, dims, keepdim); }

}  // namespace ops
}  // namespace rl
