// Sums and what is made of them.
#include "ops/reduce/reduce.h"

#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

bool reduces_all(const std::optional<Ints>& dims) { return !dims || dims->empty(); }

}  // namespace

Ints keepdim_sizes(const Ints& sizes, const std::optional<Ints>& dims) {
  if (reduces_all(dims)) return Ints(sizes.size(), 1);
  Ints kept = sizes;
  for (int64_t d : wrap_dims(*dims, sizes.size(), "reduction"))
    if (sizes.size()) kept[int(d)] = 1;
  return kept;
}

int64_t reduced_count(const Ints& sizes, const std::optional<Ints>& dims) {
  int64_t all = element_count(sizes);
  if (reduces_all(dims)) return all;
  int64_t n = 1;
  for (int64_t d : wrap_dims(*dims, sizes.size(), "reduction"))
    if (sizes.size()) n *= sizes[int(d)];
  return n;
}

Var restore_dims(const Var& g, const Ints& sizes, const std::optional<Ints>& dims, bool keepdim) {
  return keepdim || sizes.empty() ? g : ops::reshape(g, keepdim_sizes(sizes, dims));
}

Reduction plan_reduction(const Var& input, const std::optional<Ints>& dims, bool keepdim,
                         const char* op) {
  Reduction r;
  const Ints& sizes = input.sizes();
  int ndim = input.dim();
  if (reduces_all(dims)) {
    r.outer = r.inner = 1;
    r.n = input.numel();
    r.kept = Ints(ndim, 1);
    if (keepdim) r.sizes = r.kept;
    // The order does not matter for a dense tensor: read it as it lies.
    r.input = input->contiguous || is_dense(sizes, input->strides) ? input : ops::contiguous(input);
    return r;
  }
  Ints reduced = wrap_dims(*dims, ndim, op);
  r.kept = sizes;
  for (int64_t d : reduced)
    if (ndim) r.kept[int(d)] = 1;
  for (int i = 0; i < ndim; i++)
    if (keepdim || !reduced.contains(i)) r.sizes.push_back(r.kept[i]);
  // Adjacent reduced dimensions (ones aside) need no copy of a contiguous tensor.
  int first = ndim, last = -1;
  for (int i = 0; i < ndim; i++)
    if (reduced.contains(i) && sizes[i] != 1) {
      first = std::min(first, i);
      last = std::max(last, i);
    }
  bool adjacent = true;
  for (int i = first; i <= last; i++) adjacent = adjacent && (reduced.contains(i) || sizes[i] == 1);
  if (first > last) first = last = -1;
  Var x = input;
  if (!adjacent) {
    Ints order;
    for (int i = 0; i < ndim; i++)
      if (!reduced.contains(i)) order.push_back(i);
    int kept_count = order.size();
    for (int i = 0; i < ndim; i++)
      if (reduced.contains(i)) order.push_back(i);
    x = ops::permute(x, order);
    first = kept_count;
    last = ndim - 1;
  }
  r.input = ops::contiguous(x);
  r.outer = r.n = r.inner = 1;
  for (int i = 0; i < ndim; i++) {
    int64_t s = r.input.sizes()[i];
    if (i < first || first < 0) r.outer *= s;
    else if (i <= last) r.n *= s;
    else r.inner *= s;
  }
  return r;
}

namespace {

DType sum_type(DType d, const std::optional<DType>& wanted) {
  return wanted ? *wanted : is_integral(d) ? DType::I64 : d;
}

Var reduce_sum(const Var& input, const std::optional<Ints>& dim, bool keepdim, DType result,
               double divisor, const char* op) {
  Var x = input;
  // To a type that is wider or of another kind before it is summed: sums of halves may overflow.
  bool wider = !is_integral(x.dtype()) && itemsize(result) > itemsize(x.dtype());
  bool other =
      category(result) != category(x.dtype()) && !(result == DType::I64 && is_integral(x.dtype()));
  if (wider || other) x = ops::to(x, result);
  Reduction r = plan_reduction(x, dim, keepdim, op);
  DType direct = is_integral(r.input.dtype()) ? DType::I64 : r.input.dtype();
  Var y = empty(r.sizes, direct, input.device());
  {
    Launch launch(double(r.input.numel()), {r.input.get(), y.get()});
    on(r.input).sum(r.input.dtype(), direct, r.input->data(), y->data(), r.outer, r.n, r.inner,
                    divisor);
  }
  return direct == result ? y : ops::to(y, result);
}

// The gradient of a sum: the same number for every element that went in.
Var spread(const Var& g, const Ints& sizes, const std::optional<Ints>& dim, bool keepdim) {
  return ops::expand(restore_dims(g, sizes, dim, keepdim), sizes);
}

struct SumAll : Linear {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature = "sum(Tensor input, *, dtype? dtype=None)";
  static constexpr auto doc = "sum(x): the sum of all elements, of the same precision.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, std::optional<DType> dtype) {
    return reduce_sum(input, std::nullopt, false, sum_type(input.dtype(), dtype), 1, "sum");
  }
  static Var batched(const HiddenDims& hidden, const Var& input, std::optional<DType> dtype) {
    return reduce_sum(hidden.flat(input), Ints{-1}, false, sum_type(input.dtype(), dtype), 1,
                      "sum");
  }
  static void vjp(Back& b, const In& input, std::optional<DType>) {
    b[0] = ops::expand(b.g(), input.sizes());
  }
};
RL_OP(SumAll)

struct Sum : Linear {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature =
      "sum(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "SumBackward1";
  static constexpr auto doc = "sum(x, dim, keepdim): the sums over these dimensions.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, std::optional<Ints> dim, bool keepdim,
                     std::optional<DType> dtype) {
    return reduce_sum(input, dim, keepdim, sum_type(input.dtype(), dtype), 1, "sum");
  }
  static void vjp(Back& b, const In& input, std::optional<Ints> dim, bool keepdim,
                  std::optional<DType>) {
    b[0] = spread(b.g(), input.sizes(), dim, keepdim);
  }
};
RL_OP(Sum)

DType mean_type(DType d, const std::optional<DType>& wanted) {
  DType result = wanted.value_or(d);
  check(is_differentiable(result),
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: ",
        info(d).tensor_name);
  return result;
}

struct MeanAll : Linear {
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature = "mean(Tensor input, *, dtype? dtype=None)";
  static constexpr auto doc = "mean(x): the mean of all elements.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, std::optional<DType> dtype) {
    return reduce_sum(input, std::nullopt, false, mean_type(input.dtype(), dtype),
                      double(input.numel()), "mean");
  }
  static Var batched(const HiddenDims& hidden, const Var& input, std::optional<DType> dtype) {
    return reduce_sum(hidden.flat(input), Ints{-1}, false, mean_type(input.dtype(), dtype),
                      double(input.numel()), "mean");
  }
  static void vjp(Back& b, const In& input, std::optional<DType>) {
    Var each = b.g() / Var(double(element_count(input.sizes())));
    b[0] = ops::expand(each, input.sizes());
  }
};
RL_OP(MeanAll)

struct Mean : Linear {
  static constexpr Stored stored = Stored::Summed;
  static constexpr auto signature =
      "mean(Tensor input, int[]? dim, bool keepdim=False, *, dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "MeanBackward1";
  static constexpr auto doc = "mean(x, dim, keepdim): the means over these dimensions.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, std::optional<Ints> dim, bool keepdim,
                     std::optional<DType> dtype) {
    return reduce_sum(input, dim, keepdim, mean_type(input.dtype(), dtype),
                      double(reduced_count(input.sizes(), dim)), "mean");
  }
  static void vjp(Back& b, const In& input, std::optional<Ints> dim, bool keepdim,
                  std::optional<DType>) {
    Var each = b.g() / Var(double(reduced_count(input.sizes(), dim)));
    b[0] = spread(each, input.sizes(), dim, keepdim);
  }
};
RL_OP(Mean)

}  // namespace

namespace ops {

Var sum(const Var& a, const Ints& dims, bool keepdim) {
  return call<Sum>(a, std::optional<Ints>(dims), keepdim, std::nullopt);
}

Var sum_all(const Var& a) { return call<SumAll>(a, std::nullopt); }
Var mean_all(const Var& a) { return call<MeanAll>(a, std::nullopt); }

Var mean(const Var& a, const Ints& dims, bool keepdim) {
  return call<Mean>(a, std::optional<Ints>(dims), keepdim, std::nullopt);
}

Var sum_to(const Var& a, const Ints& sizes) {
  if (a.sizes() == sizes) return a;
  int lead = a.dim() - sizes.size();
  Ints dims;
  for (int i = 0; i < a.dim(); i++)
    if (i < lead || (sizes[i - lead] == 1 && a.sizes()[i] != 1)) dims.push_back(i);
  Var s = dims.empty() ? a : sum(a, dims, true);
  return s.sizes() == sizes ? s : reshape(s, sizes);
}

}  // namespace ops
}  // namespace rl
