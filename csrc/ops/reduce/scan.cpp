// Running sums, products and extremes.
#include "ops/reduce/scan.h"

#include "call/broadcast.h"
#include "call/op.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/reduce/reduce.h"

namespace rl {

namespace {

using Scan = decltype(&kernel::Table::cumsum);

// Integers add up in int64; the kernel writes what it reads, or int64.
Var run_scan(const Var& input, int64_t dim, const std::optional<DType>& dtype, Scan run,
             const char* op) {
  DType d = input.dtype(), result = dtype ? *dtype : is_integral(d) ? DType::I64 : d;
  if (result == DType::Bool)
    fail_as(PyExc_NotImplementedError, op, "(): not implemented for 'Bool'");
  Reduction r = plan_reduction(ops::to(input, result), Ints{dim}, false, op);
  DType direct = is_integral(result) ? DType::I64 : result;
  Var y = empty(input.sizes(), direct, input.device());
  {
    Launch launch(double(y.numel()) * 2, {r.input.get(), y.get()});
    (on(y).*run)(result, direct, r.input->data(), y->data(), r.outer, r.n, r.inner);
  }
  return ops::to(y, result);
}

template <class T>
int64_t length(const T& input, int64_t dim) {
  return input.dim() == 0 ? 1 : input.size(int(wrap_dim(dim, input.dim())));
}

// All but the last (or but the first) along dim.
Var leading(const Var& x, int64_t dim) { return ops::narrow(x, dim, 0, x.size(int(dim)) - 1); }
Var trailing(const Var& x, int64_t dim) { return ops::narrow(x, dim, 1, x.size(int(dim)) - 1); }

struct Recurrence : General {
  static constexpr auto signature =
      "_linear_recurrence(Tensor links, Tensor b, int dim, bool reverse)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "_linear_recurrence(links, b, dim, reverse): y[k] = b[k] + links[k-1] * y[k-1] along dim.";
  static constexpr auto saves = "links out|links";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& links, const Var& b, int64_t dim, bool reverse) {
    Promotion promotion;
    promotion.add(links.get());
    promotion.add(b.get());
    DType common = promotion.result(), d = compute_type(common);
    check(is_differentiable(d), "_linear_recurrence: needs floating point numbers, got ",
          info(d).tensor_name);
    Ints expected = b.sizes();
    int64_t at = wrap_dim(dim, b.dim(), "_linear_recurrence");
    check(b.dim() > 0 && expected[int(at)] > 0, "_linear_recurrence: b of shape ", expected,
          " has nothing along dim ", dim);
    expected[int(at)]--;
    check(links.sizes() == expected, "_linear_recurrence: links of shape ", links.sizes(),
          " where b needs ", expected);
    Var a = ops::contiguous(ops::to(links, d)), x = ops::contiguous(ops::to(b, d));
    Reduction r = plan_reduction(x, Ints{dim}, false, "_linear_recurrence");
    Var y = empty(b.sizes(), d, links.device());
    {
      Launch launch(double(y.numel()) * 4, {a.get(), x.get(), y.get()});
      on(a).recurrence(d, a->data(), x->data(), y->data(), r.outer, r.n, r.inner, reverse);
    }
    return ops::to(y, common);
  }
  // What flows into b flows on the other way.
  static void vjp(Back& b, const In& links, const In&, int64_t dim, bool reverse) {
    Var flow = linear_recurrence(ops::conj(*links), b.g(), dim, !reverse);
    if (b.wants(1)) b[1] = flow;
    if (!b.wants(0)) return;
    Var y = ops::conj(b.out());
    int64_t d = wrap_dim(dim, y.dim());
    b[0] = reverse ? leading(flow, d) * trailing(y, d) : trailing(flow, d) * leading(y, d);
  }
  // Tangents obey the same recurrence, fed by those of b and of the links.
  static void jvp(Push& p, const Var& links, const Var&, int64_t dim, bool reverse) {
    const Var& y = p.out();
    int64_t d = wrap_dim(dim, y.dim());
    Var source = p.t(1);
    if (p.t(0)) {
      Var moved = p.t(0) * (reverse ? trailing(y, d) : leading(y, d));
      Var none = ops::zeros(ops::narrow(y, d, 0, 1).sizes(), y.dtype(), y.device());
      moved = ops::cat(reverse ? Vars{moved, none} : Vars{none, moved}, d);
      source = source ? source + moved : moved;
    }
    p[0] = linear_recurrence(links, source, dim, reverse);
  }
};
RL_OP(Recurrence)

struct SuffixSum : Linear {
  static constexpr auto signature = "_suffix_sum(Tensor input, int dim)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "FlipBackward0";
  static constexpr auto doc = "_suffix_sum(x, dim): the sums of each element and all behind it.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim) {
    Reduction r = plan_reduction(input, Ints{dim}, false, "_suffix_sum");
    Var y = empty(input.sizes(), input.dtype(), input.device());
    {
      Launch launch(double(y.numel()) * 2, {r.input.get(), y.get()});
      on(r.input).suffix_sum(y.dtype(), r.input->data(), y->data(), r.outer, r.n, r.inner);
    }
    return y;
  }
  static void vjp(Back& b, const In&, int64_t dim);
};

struct CumSum : Linear {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature = "cumsum(Tensor input, int dim, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "cumsum(x, dim): the running sums along a dimension.";
  static constexpr Family family = Family::Scan;
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, std::optional<DType> dtype) {
    return run_scan(input, dim, dtype, &kernel::Table::cumsum, "cumsum");
  }
  static void vjp(Back& b, const In&, int64_t dim, std::optional<DType>) {
    b[0] = call<SuffixSum>(b.g(), dim);
  }
};
RL_OP(CumSum)

void SuffixSum::vjp(Back& b, const In&, int64_t dim) {
  b[0] = call<CumSum>(b.g(), dim, std::nullopt);
}
RL_OP(SuffixSum)

struct CumProd : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature = "cumprod(Tensor input, int dim, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "cumprod(x, dim): the running products along a dimension.";
  static constexpr Family family = Family::Scan;
  static constexpr auto saves = "input";
  static Var forward(const Var& input, int64_t dim, std::optional<DType> dtype) {
    return run_scan(input, dim, dtype, &kernel::Table::cumprod, "cumprod");
  }
  // Element k is in every product from k on: what stands before it, times the gradients of those
  // products, each with what stands between.
  static void vjp(Back& b, const In& input, int64_t dim, std::optional<DType>) {
    if (length(input, dim) <= 1) {
      b[0] = b.g();
      return;
    }
    int64_t d = wrap_dim(dim, input.dim());
    Var x = ops::conj(ops::to(*input, b.g().dtype()));
    Var behind = linear_recurrence(trailing(x, d), b.g(), d, true);
    b[0] = exclusive_products(x, d, false) * behind;
  }
  // y[k] = x[k] y[k-1], by the product rule.
  static void jvp(Push& p, const Var& input, int64_t dim, std::optional<DType>) {
    if (length(input, dim) <= 1) {
      p[0] = p.t(0);
      return;
    }
    int64_t d = wrap_dim(dim, input.dim());
    Var x = ops::to(input, p.out().dtype());
    p[0] = linear_recurrence(trailing(x, d), p.t(0) * exclusive_products(x, d, false), d, false);
  }
};
RL_OP(CumProd)

// In place the products overwrite what their derivative reads: it keeps a copy.
struct CumProdInPlace : Composite {
  static constexpr auto signature = "cumprod_(Tensor input, int dim, *, dtype? dtype=None)";
  static constexpr auto doc = "cumprod_(dim): cumprod in place.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, std::optional<DType> dtype) {
    check(!dtype || *dtype == input.dtype(), "Bad in-place call: input tensor dtype ",
          name(input.dtype()), " and output tensor dtype ", name(dtype.value_or(input.dtype())),
          " should match");
    replace_inplace(input.get(), "cumprod_",
                    [&](const Var& x) { return call<CumProd>(x, dim, input.dtype()); });
    return input;
  }
};
RL_OP(CumProdInPlace)

template <class Op>
struct RunningExtreme : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr Family family = Family::Scan;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, int64_t dim) {
    if (is_complex(input.dtype()))
      fail_as(PyExc_NotImplementedError, Op::word, "(): not implemented for '",
              info(input.dtype()).tensor_name, "': complex numbers have no order");
    Reduction r = plan_reduction(input, Ints{dim}, false, Op::word);
    Var y = empty(input.sizes(), input.dtype(), input.device()),
        index = empty(input.sizes(), DType::I64, input.device());
    if (y.numel() > 0) {
      Launch launch(double(y.numel()) * 4, {r.input.get(), y.get(), index.get()});
      (on(y).*Op::run)(y.dtype(), r.input->data(), y->data(), index->data<int64_t>(), r.outer, r.n,
                       r.inner);
    }
    return {y, index};
  }
  static void vjp(Back& b, const In& input, int64_t dim) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, true);
  }
  static void jvp(Push& p, const Var&, int64_t dim) {
    p[0] = pick_out(p.t(0), p.out(1), dim, true);
  }
};

struct CumMax : RunningExtreme<CumMax> {
  static constexpr auto word = "cummax";
  static constexpr auto signature = "cummax(Tensor input, int dim) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "cummax(x, dim): the running maxima and where they occurred last.";
  static constexpr auto run = &kernel::Table::cummax_with_index;
};
RL_OP(CumMax)

struct CumMin : RunningExtreme<CumMin> {
  static constexpr auto word = "cummin";
  static constexpr auto signature = "cummin(Tensor input, int dim) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "cummin(x, dim): the running minima and where they occurred last.";
  static constexpr auto run = &kernel::Table::cummin_with_index;
};
RL_OP(CumMin)

struct LogCumSumExp : General {
  static constexpr auto signature = "logcumsumexp(Tensor input, int dim)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "logcumsumexp(x, dim): log(cumsum(exp(x), dim)), without overflow.";
  static constexpr Family family = Family::Scan;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, int64_t dim) {
    if (!is_differentiable(input.dtype()))
      fail_as(PyExc_NotImplementedError, "logcumsumexp(): not implemented for '",
              info(input.dtype()).tensor_name, "'");
    Reduction r = plan_reduction(input, Ints{dim}, false, "logcumsumexp");
    Var y = empty(input.sizes(), input.dtype(), input.device());
    {
      Launch launch(double(y.numel()) * 20, {r.input.get(), y.get()});
      auto run = is_complex(y.dtype()) ? on(y).complex_logcumsumexp : on(y).logcumsumexp;
      run(y.dtype(), r.input->data(), y->data(), r.outer, r.n, r.inner);
    }
    return y;
  }
  // In double: a long product of steps would lose the digits of a float.
  static Var wide(const Var& v) {
    return ops::to(v, is_complex(v.dtype()) ? DType::C128 : DType::F64);
  }
  static void vjp(Back& b, const In& input, int64_t dim) {
    Var x = wide(*input), y = wide(b.out()), g = wide(b.g());
    if (length(input, dim) > 1) {
      int64_t d = wrap_dim(dim, input.dim());
      g = linear_recurrence(ops::conj(steps(y, d)), g / ops::conj(total(x, y, d)), d, true);
    }
    b[0] = g * ops::conj(math::exp(x - y));
  }
  static void jvp(Push& p, const Var& input, int64_t dim) {
    Var x = wide(input), y = wide(p.out()), t = wide(p.t(0)) * math::exp(x - y);
    if (length(input, dim) > 1) {
      int64_t d = wrap_dim(dim, input.dim());
      t = linear_recurrence(steps(y, d), t, d, false) / total(x, y, d);
    }
    p[0] = ops::to(t, input.dtype());
  }
  // What the weights exp(x[k] - y[j]) add up to for each j: 1, but for the rounding of y, which
  // this takes out again.
  static Var total(const Var& x, const Var& y, int64_t dim) {
    GradMode off(false);
    Var sum = linear_recurrence(steps(y, dim), math::exp(x - y), dim, false);
    return math::where(math::isnan(sum - sum), Var(1), sum);
  }
  // exp(x[k] - y[j]) is exp(x[k] - y[k]) times the steps from y[k] to y[j]; y never decreases, so
  // that no factor exceeds 1.
  static Var steps(const Var& y, int64_t dim) {
    Var low = leading(y, dim), high = trailing(y, dim);
    Var both_infinite = math::both(low == high, math::isnan(high - high));
    return math::exp(math::where(both_infinite, Var(0), low - high));
  }
};
RL_OP(LogCumSumExp)

}  // namespace

Var linear_recurrence(const Var& links, const Var& b, int64_t dim, bool reverse) {
  return call<Recurrence>(links, b, dim, reverse);
}

Var exclusive_products(const Var& x, int64_t dim, bool reverse) {
  int64_t d = wrap_dim(dim, x.dim()), n = x.size(int(d));
  Var first = ops::zeros(x.sizes(), x.dtype(), x.device());
  Var one = ops::narrow(first, d, reverse ? n - 1 : 0, 1);
  ops::fill_data(one.get(), 1);
  return linear_recurrence(reverse ? trailing(x, d) : leading(x, d), first, d, reverse);
}

namespace ops {

Var cumsum(const Var& a, int64_t dim) { return call<CumSum>(a, dim, std::nullopt); }

}  // namespace ops
}  // namespace rl
