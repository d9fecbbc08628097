// gather and scatter: an index for every element along one dimension.
#include "autograd/structured.h"
#include "call/broadcast.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// A 0-d tensor read as a vector of one element.
Var as_vector(const Var& v) { return v.dim() ? v : alias(v.get(), Ints{1}, Ints{1}, v->offset); }

Ints byte_strides(const Tensor* t) {
  Ints strides = t->strides;
  for (int i = 0; i < strides.size(); i++) strides[i] *= itemsize(t->dtype);
  return strides;
}

// The index as the kernels want it; indices that point outside raise.
Var checked_index(const Var& index, int64_t size, int d) {
  Var plain = as_vector(ops::contiguous(ops::to(index, DType::I64)));
  kernel::Outside bad = on(plain).find_outside(plain->data<int64_t>(), plain.numel(), size);
  check(!bad, "index ", bad.value, " is out of bounds for dimension ", d, " with size ", size);
  return plain;
}

struct Gather : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "gather(x, dim, index): x with its position along dim read off index.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static Var forward(const Var& input, int64_t dim, const Var& index, bool) {
    int d = int(wrap_dim(dim, input.dim()));
    Var result = empty(index.sizes(), input.dtype(), input.device());
    if (index.numel() == 0) return result;  // of any dtype, as torch has it
    check_index_type(index, "gather()", "int32/int64");
    Var x = as_vector(input), y = as_vector(result);
    check(std::max(index.dim(), 1) == x.dim(),
          "Index tensor must have the same number of dimensions as input tensor: got ", index.dim(),
          " and ", input.dim());
    for (int i = 0; i < index.dim(); i++)
      check(i == d || index.sizes()[i] <= x.sizes()[i], "Size does not match at dimension ", i,
            " expected index ", index.sizes(), " to be no larger than self ", input.sizes(),
            " apart from dimension ", d);
    Var at = checked_index(index, x.sizes()[d], d);
    Ints from = byte_strides(x.get()), along = byte_strides(at.get()), to = byte_strides(y.get());
    Launch launch(double(y.numel()) * 2, {x.get(), at.get(), y.get()});
    on(x).gather(itemsize(x.dtype()), x->data(), from.data(), at->data<int64_t>(), along.data(),
                 y->data(), to.data(), at->sizes.data(), at.dim(), d, x.sizes()[d]);
    return result;
  }
  static void vjp(Back& b, const In& input, int64_t dim, const In& index, bool sparse) {
    if (sparse && input.dim() > 0 && !batch_of(b.g().get()) && input.device() == kHost)
      b[0] = structured::gathered(b.g(), dim, *index, input.sizes());
    else
      b[0] = ops::scatter_add(ops::zeros(input.sizes(), b.g().dtype(), b.g().device()), dim, *index,
                              b.g());
  }
};
RL_OP(Gather)

// What a scatter is asked to do, checked.
struct Plan {
  Var index, src;
  int dim;
};

Plan plan_scatter(const Tensor* into, int64_t dim, const Var& index, const Var& src) {
  Plan plan;
  plan.dim = int(wrap_dim(dim, into->dim()));
  if (index.numel() > 0) check_index_type(index, "scatter()", "int32/int64");
  bool number = src->wrapped_number;
  if (number) plan.src = scalar_of(src, into->dtype, into->device());
  else
    check(src.dtype() == into->dtype,
          "scatter(): Expected self.dtype to be equal to src.dtype, got ", name(into->dtype),
          " and ", name(src.dtype()));
  if (index.numel() == 0) return plan;
  int n = std::max(into->dim(), 1);
  check(std::max(index.dim(), 1) == n,
        "Index tensor must have the same number of dimensions as self tensor: got ", index.dim(),
        " and ", into->dim());
  check(number || std::max(src.dim(), 1) == n,
        "Index tensor must have the same number of dimensions as src tensor: got ", index.dim(),
        " and ", src.dim());
  for (int i = 0; i < index.dim(); i++) {
    int64_t size = index.sizes()[i];
    bool fits = i == plan.dim || into->dim() == 0 || size <= into->sizes[i];
    bool covered = number || size <= (src.dim() ? src.sizes()[i] : 1);
    if (fits && covered) continue;
    if (number)
      fail("Expected index ", index.sizes(), " to be no larger than self ", into->sizes,
           " apart from dimension ", plan.dim);
    fail("Expected index ", index.sizes(), " to be no larger than self ", into->sizes,
         " apart from dimension ", plan.dim, " and to be no larger size than src ", src.sizes());
  }
  plan.index =
      apart_from(into, checked_index(index, into->dim() ? into->sizes[plan.dim] : 1, plan.dim));
  if (!number) plan.src = apart_from(into, src);
  return plan;
}

void run_scatter(Tensor* into, const Plan& plan, kernel::Scatter mode) {
  if (!plan.index) return;
  Var y = as_vector(Var(into));
  Ints to = byte_strides(y.get()), along = byte_strides(plan.index.get());
  Ints from = plan.src.dim() ? byte_strides(plan.src.get()) : Ints(y.dim());
  Launch launch(double(plan.index.numel()) * 3, {into, plan.index.get(), plan.src.get()});
  DType d = mode == kernel::Scatter::Set ? moved_as(into->dtype) : into->dtype;
  on(into).scatter(d, mode, into->data(), to.data(), plan.index->data<int64_t>(), along.data(),
                   plan.src->data(), from.data(), plan.index->sizes.data(), y.dim(), plan.dim,
                   y.sizes()[plan.dim]);
}

Var scattered(const Var& input, int64_t dim, const Var& index, const Var& src,
              kernel::Scatter mode) {
  Plan plan = plan_scatter(input.get(), dim, index, src);
  Var result = row_major_copy(input);
  run_scatter(result.get(), plan, mode);
  return result;
}

// The gradient for src, which may be larger than index.
Var picked(const Var& g, int64_t dim, const Var& index, const Ints& sizes) {
  Var part = ops::gather(g, dim, index);
  if (part.sizes() == sizes) return part;
  if (part.dim() != sizes.size()) return ops::reshape(part, sizes);
  return ops::embed(part, sizes, contiguous_strides(sizes), 0);
}

struct ScatterSet : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "scatter(Tensor input, int dim, Tensor index, Tensor src)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "scatter(x, dim, index, src): x with src written to the positions along dim in index.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src) {
    return scattered(input, dim, index, src, kernel::Scatter::Set);
  }
  static void vjp(Back& b, const In&, int64_t dim, const In& index, const In& src) {
    if (b.wants(0)) b[0] = ops::scatter(b.g(), dim, *index, Var(0));
    if (b.wants(2)) b[2] = picked(b.g(), dim, *index, src.sizes());
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& src) {
    if (!inplace) return write_out(self, call<ScatterSet>(input, dim, index, src), "scatter");
    Plan plan = plan_scatter(self, dim, index, src);
    auto write = [&] { run_scatter(self, plan, kernel::Scatter::Set); };
    write_inplace<ScatterSet>(self, "scatter_", write, input, dim, index, src);
  }
};
RL_OP(ScatterSet)

struct ScatterValue : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "scatter(Tensor input, int dim, Tensor index, Number value)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "ScatterBackward1";
  static constexpr auto doc = "scatter(x, dim, index, value): x with value at those positions.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& value) {
    return scattered(input, dim, index, value, kernel::Scatter::Set);
  }
  static void vjp(Back& b, const In&, int64_t dim, const In& index, const In&) {
    b[0] = ops::scatter(b.g(), dim, *index, Var(0));
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& value) {
    if (!inplace) return write_out(self, call<ScatterValue>(input, dim, index, value), "scatter");
    Plan plan = plan_scatter(self, dim, index, value);
    auto write = [&] { run_scatter(self, plan, kernel::Scatter::Set); };
    write_inplace<ScatterValue>(self, "scatter_", write, input, dim, index, value);
  }
};
RL_OP(ScatterValue)

struct ScatterAdd : Linear {
  static constexpr Autocast autocast = Autocast::WidestOnCuda;
  static constexpr auto signature = "scatter_add(Tensor input, int dim, Tensor index, Tensor src)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "scatter_add(x, dim, index, src): x with src added at the positions along dim in index.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src) {
    return scattered(input, dim, index, src, kernel::Scatter::Add);
  }
  static void vjp(Back& b, const In&, int64_t dim, const In& index, const In& src) {
    if (b.wants(0)) b[0] = b.g();
    if (b.wants(2)) b[2] = picked(b.g(), dim, *index, src.sizes());
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& src) {
    if (!inplace) return write_out(self, call<ScatterAdd>(input, dim, index, src), "scatter_add");
    Plan plan = plan_scatter(self, dim, index, src);
    auto write = [&] { run_scatter(self, plan, kernel::Scatter::Add); };
    write_inplace<ScatterAdd>(self, "scatter_add_", write, input, dim, index, src);
  }
};
RL_OP(ScatterAdd)

// How many of src fall on each element, at least one where the result divides by it.
Var counts(const Ints& sizes, DType dtype, int64_t dim, const Var& index, bool include_self) {
  Var n = ops::full(sizes, include_self ? 1 : 0, dtype, index.device());
  n = ops::scatter_add(n, dim, index, ops::full(index.sizes(), 1, dtype, index.device()));
  return math::where(n == Var(0), ops::full({}, 1, dtype, index.device()), n);
}

// Positions that src replaces altogether when self is not included.
Var without_self(const Var& g, int64_t dim, const Var& index, bool include_self) {
  return include_self ? g : ops::scatter(g, dim, index, Var(0));
}

struct ScatterSum : Linear {
  static constexpr auto signature =
      "_scatter_sum(Tensor input, int dim, Tensor index, Tensor src, bool mean, bool include_self)";
  static constexpr auto grad_name = "ScatterReduceBackward0";
  static constexpr auto doc = "_scatter_sum(...): scatter_reduce with 'sum' or 'mean'.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool method = false;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src, bool mean,
                     bool include_self) {
    if (mean && input.dtype() == DType::Bool)
      fail_as(PyExc_NotImplementedError, "scatter_reduce: 'mean' not implemented for 'Bool'");
    Var from = include_self ? input : scattered(input, dim, index, Var(0), kernel::Scatter::Set);
    Var total = scattered(from, dim, index, src, kernel::Scatter::Add);
    if (!mean) return total;
    Var n = counts(input.sizes(), input.dtype(), dim, index, include_self);
    return is_integral(input.dtype()) ? math::call_pointwise("floor_divide", {total, n})
                                      : total / n;
  }
  static void vjp(Back& b, const In& input, int64_t dim, const In& index, const In& src, bool mean,
                  bool include_self) {
    Var at = *index, g = b.g();
    if (mean) g = g / counts(input.sizes(), g.dtype(), dim, at, include_self);
    if (b.wants(0)) b[0] = without_self(g, dim, at, include_self);
    if (b.wants(2)) b[2] = picked(g, dim, at, src.sizes());
  }
};

// The part of src that index covers.
Var covered(const Var& src, const Ints& sizes) {
  Var part = src;
  for (int i = 0; i < sizes.size() && i < src.dim(); i++)
    if (src.sizes()[i] != sizes[i]) part = ops::narrow(part, i, 0, sizes[i]);
  return part;
}

struct ScatterChoice : General {
  static constexpr auto signature =
      "_scatter_choice(Tensor input, int dim, Tensor index, Tensor src, str reduce, "
      "bool include_self)";
  static constexpr auto grad_name = "ScatterReduceBackward0";
  static constexpr auto doc = "_scatter_choice(...): scatter_reduce with 'prod', 'amax' or 'amin'.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "input index src out";
  static constexpr bool method = false;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src,
                     const std::string& reduce, bool include_self) {
    bool product = reduce == "prod";
    if (!product && is_complex(input.dtype()))
      fail_as(PyExc_NotImplementedError, "scatter_reduce: '", reduce, "' not implemented for '",
              info(input.dtype()).tensor_name, "'");
    Var from = input;
    if (!include_self)  // an extreme may start from any of the candidates
      from = scattered(input, dim, index, product ? Var(1) : src, kernel::Scatter::Set);
    return scattered(from, dim, index, src,
                     product            ? kernel::Scatter::Multiply
                     : reduce == "amax" ? kernel::Scatter::Amax
                                        : kernel::Scatter::Amin);
  }
  static void vjp(Back& b, const In& input, int64_t dim, const In& index, const In& src,
                  const std::string& reduce, bool include_self) {
    Var x = *input, at = *index, result = b.out(), s = covered(*src, at.sizes()), gx, gs;
    if (reduce == "prod") product_rule(b, x, dim, at, s, result, include_self, gx, gs);
    else extreme_rule(b.g(), x, dim, at, s, result, include_self, gx, gs);
    if (b.wants(0)) b[0] = without_self(gx, dim, at, include_self);
    if (b.wants(2))
      b[2] = gs.sizes() == src.sizes()
                 ? gs
                 : ops::embed(gs, src.sizes(), contiguous_strides(src.sizes()), 0);
  }
  static void jvp(Push& p, const Var& x, int64_t dim, const Var& at, const Var& src,
                  const std::string& reduce, bool include_self) {
    Var s = covered(src, at.sizes()), tx = p.t(0), ts, divisor;
    if (p.t(2)) ts = covered(p.t(2), at.sizes());
    if (reduce == "prod") {
      bool again = is_tracked(x.get()) || is_tracked(s.get());
      Factors f(x, dim, at, s, p.out(), include_self, again);
      if (tx) tx = tx * f.others;
      if (ts) ts = ts * f.each;
    } else {
      Ties ties(x, dim, at, s, p.out(), include_self);
      if (tx) tx = tx * ties.from_x;
      if (ts) ts = ts * ties.from_s;
      divisor = ties.count;
    }
    if (tx) p.add(without_self(tx, dim, at, include_self));
    if (ts) p.add(ops::scatter_add(ops::zeros(x.sizes(), ts.dtype(), ts.device()), dim, at, ts));
    if (divisor) p[0] = p[0] / divisor;
  }
  // Ties share the gradient evenly; what was left out is none of them.
  struct Ties {
    Var from_x, from_s, count;
    Ties(const Var& x, int64_t dim, const Var& at, const Var& s, const Var& result,
         bool include_self)
        : from_x(without_self(ops::to(x == result, result.dtype()), dim, at, include_self)),
          from_s(ops::to(s == ops::gather(result, dim, at), result.dtype())),
          count(ops::scatter_add(from_x, dim, at, from_s)) {}
  };
  static void extreme_rule(const Var& g, const Var& x, int64_t dim, const Var& at, const Var& s,
                           const Var& result, bool include_self, Var& gx, Var& gs) {
    Ties ties(x, dim, at, s, result, include_self);
    Var each = g / ties.count;
    gx = math::where(ties.from_x == Var(0), Var(0), each);
    gs = math::where(ties.from_s == Var(0), Var(0), ops::gather(each, dim, at));
  }
  static bool any_nonzero(const Var& v) {
    Var rows = ops::contiguous(v);
    return on(rows).nonzero(rows.dtype(), rows->data(), rows.numel(), nullptr) > 0;
  }
  // The products of the others, for x and for each of s: a lone zero among them is put aside, two
  // zeros leave nothing.
  struct Factors {
    Var others, each;
    Factors(const Var& x, int64_t dim, const Var& at, const Var& s, const Var& result,
            bool include_self, bool again) {
      std::string prod = "prod";
      others = call<ScatterChoice>(ops::full(x.sizes(), 1, x.dtype(), x.device()), dim, at, s, prod,
                                   true);
      Var zero = s == Var(0);
      Var zeros_here = ops::gather(ops::scatter_add(ops::zeros(x.sizes(), DType::I64, x.device()),
                                                    dim, at, ops::to(zero, DType::I64)),
                                   dim, at);
      check(!again || !any_nonzero(zeros_here > Var(1)),
            "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are "
            "scattered to the same position in self");
      Var alone = math::both(zero, zeros_here == Var(1));
      Var without =
          call<ScatterChoice>(x, dim, at, math::where(alone, Var(1), s), prod, include_self);
      Var quotient = ops::gather(result, dim, at) / math::where(zero, Var(1), s);
      each = math::where(alone, ops::gather(without, dim, at), quotient);
    }
  };
  static void product_rule(const Back& b, const Var& x, int64_t dim, const Var& at, const Var& s,
                           const Var& result, bool include_self, Var& gx, Var& gs) {
    Factors f(x, dim, at, s, result, include_self, b.create_graph());
    gx = b.g() * ops::conj(f.others);
    gs = ops::gather(b.g(), dim, at) * ops::conj(f.each);
  }
};

struct ScatterReduce : Composite {
  static constexpr auto signature =
      "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, "
      "bool include_self=True)";
  static constexpr auto doc =
      "scatter_reduce(x, dim, index, src, reduce): src combined into x at the positions in index; "
      "reduce is 'sum', 'prod', 'mean', 'amax' or 'amin'.";
  static constexpr Family family = Family::Indexing;
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src,
                     const std::string& reduce, bool include_self) {
    if (reduce == "sum" || reduce == "mean")
      return call<ScatterSum>(input, dim, index, src, reduce == "mean", include_self);
    std::string how = reduce == "max" ? "amax" : reduce == "min" ? "amin" : reduce;
    check(how == "prod" || how == "amax" || how == "amin",
          "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
    return call<ScatterChoice>(input, dim, index, src, how, include_self);
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& src, const std::string& reduce, bool include_self) {
    if (!inplace)
      return write_out(self, forward(input, dim, index, src, reduce, include_self),
                       "scatter_reduce");
    auto result = [&](const Var& x) { return forward(x, dim, index, src, reduce, include_self); };
    replace_inplace(self, "scatter_reduce_", result);
  }
};
RL_OP(ScatterReduce)

Var reduced(const Var& input, int64_t dim, const Var& index, const Var& src,
            const std::string& reduce) {
  if (reduce == "add") return ops::scatter_add(input, dim, index, src);
  check(reduce == "multiply", "reduce argument must be either add or multiply, got ", reduce);
  return call<ScatterChoice>(input, dim, index, src, std::string("prod"), true);
}

struct ScatterSourceReduce : Composite {
  static constexpr auto signature =
      "scatter(Tensor input, int dim, Tensor index, Tensor src, *, str reduce)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "scatter(x, dim, index, src, reduce): 'add' or 'multiply' src there.";
  static constexpr Family family = Family::Indexing;
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& src,
                     const std::string& reduce) {
    return reduced(input, dim, index, src, reduce);
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& src, const std::string& reduce) {
    if (!inplace) return write_out(self, forward(input, dim, index, src, reduce), "scatter");
    auto result = [&](const Var& x) { return forward(x, dim, index, src, reduce); };
    replace_inplace(self, "scatter_", result);
  }
};
RL_OP(ScatterSourceReduce)

struct ScatterValueReduce : Composite {
  static constexpr auto signature =
      "scatter(Tensor input, int dim, Tensor index, Number value, *, str reduce)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "scatter(x, dim, index, value, reduce): 'add' or 'multiply' a number.";
  static constexpr Family family = Family::Indexing;
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& value,
                     const std::string& reduce) {
    Var src = ops::expand(scalar_of(value, input.dtype(), input.device()), index.sizes());
    return reduced(input, dim, index, src, reduce);
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& value, const std::string& reduce) {
    if (!inplace) return write_out(self, forward(input, dim, index, value, reduce), "scatter");
    auto result = [&](const Var& x) { return forward(x, dim, index, value, reduce); };
    replace_inplace(self, "scatter_", result);
  }
};
RL_OP(ScatterValueReduce)

}  // namespace

namespace ops {

Var gather(const Var& a, int64_t dim, const Var& index) {
  return call<Gather>(a, dim, index, false);
}
Var scatter(const Var& a, int64_t dim, const Var& index, const Var& src) {
  if (src->wrapped_number) return call<ScatterValue>(a, dim, index, src);
  return call<ScatterSet>(a, dim, index, src);
}
Var scatter_add(const Var& a, int64_t dim, const Var& index, const Var& src) {
  return call<ScatterAdd>(a, dim, index, src);
}

}  // namespace ops
}  // namespace rl
