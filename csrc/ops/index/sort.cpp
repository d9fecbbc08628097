// Orders: sorting, the largest few, searching, counting.
#include "kernels/kernels.h"

#include <cmath>

#include "call/broadcast.h"
#include "call/op.h"
#include "ops/reduce/reduce.h"
#include "tensor/strides.h"

namespace rl {

namespace {

// The lines along a dimension as the rows of a row-major matrix.
struct Rows {
  Var input;
  Ints sizes;  // with the dimension swapped to the end
  int64_t count, length;
  int dim;

  Rows(const Var& x, int64_t along, const char* op) : dim(int(wrap_dim(along, x.dim(), op))) {
    input = ops::contiguous(x.dim() < 2 ? x : ops::transpose(x, dim, -1));
    sizes = input.sizes();
    length = sizes.empty() ? 1 : sizes.back();
    count = length ? input.numel() / length : 0;
  }
  Ints sizes_of(int64_t columns) const {
    Ints result = sizes;
    if (!result.empty()) result[result.size() - 1] = columns;
    return result;
  }
  // What was computed for the rows, the dimension in its old place, with these strides.
  Var back(const Var& rows, const Ints& strides) const {
    Var view = rows.dim() < 2 ? rows : ops::transpose(rows, dim, -1);
    if (view->strides == strides) return view;
    Var y = empty_strided(view.sizes(), strides, rows.dtype(), rows.device());
    ops::copy_data(y.get(), view.get());
    return y;
  }
};

std::array<Var, 2> sorted_along(const Var& input, int64_t dim, bool descending) {
  check(!is_complex(input.dtype()), "sort(): Sort does not support complex dtypes on CPU");
  Rows r(input, dim, "sort");
  Var values = empty(r.sizes, input.dtype(), input.device()),
      indices = empty(r.sizes, DType::I64, input.device());
  if (values.numel() > 0) {
    Launch launch(double(values.numel()) * 20, {r.input.get(), values.get(), indices.get()});
    on(r.input).sort_rows(values.dtype(), r.input->data(), values->data(), indices->data<int64_t>(),
                          r.count, r.length, descending);
  }
  Ints strides = ordered_strides(input.sizes(), &input->strides, 1);
  return {r.back(values, strides), r.back(indices, strides)};
}

// The same sort serves both: it is always stable.
struct SortStable : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "sort(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "SortBackward1";
  static constexpr auto doc =
      "sort(x, dim, descending): the elements in order along a dimension, and where they were. "
      "Equal ones keep their order.";
  static constexpr Family family = Family::Sort;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, std::optional<bool>, int64_t dim,
                                    bool descending) {
    return sorted_along(input, dim, descending);
  }
  static void vjp(Back& b, const In& input, std::optional<bool>, int64_t dim, bool) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, true);
  }
  static void jvp(Push& p, const Var&, std::optional<bool>, int64_t dim, bool) {
    p[0] = pick_out(p.t(0), p.out(1), dim, true);
  }
};
RL_OP(SortStable)

struct Sort : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "sort(Tensor input, int dim=-1, bool descending=False) -> (values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "sort(x, dim, descending): the elements in order along a dimension.";
  static constexpr Family family = Family::Sort;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, int64_t dim, bool descending) {
    return sorted_along(input, dim, descending);
  }
  static void vjp(Back& b, const In& input, int64_t dim, bool) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, true);
  }
  static void jvp(Push& p, const Var&, int64_t dim, bool) {
    p[0] = pick_out(p.t(0), p.out(1), dim, true);
  }
};
RL_OP(Sort)

struct ArgSortStable : NonDifferentiable {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "argsort(Tensor input, *, bool stable, int dim=-1, bool descending=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "argsort(x, dim, descending): the indices that sort a dimension.";
  static constexpr Family family = Family::Sort;
  static constexpr bool out = false;
  static Var forward(const Var& input, bool, int64_t dim, bool descending) {
    return sorted_along(input, dim, descending)[1];
  }
};
RL_OP(ArgSortStable)

struct ArgSort : NonDifferentiable {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature = "argsort(Tensor input, int dim=-1, bool descending=False)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "argsort(x, dim, descending): the indices that sort a dimension.";
  static constexpr Family family = Family::Sort;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, bool descending) {
    return sorted_along(input, dim, descending)[1];
  }
};
RL_OP(ArgSort)

struct MSort : Composite {
  static constexpr auto signature = "msort(Tensor input)";
  static constexpr auto doc = "msort(x): the elements in order along the first dimension.";
  static constexpr Family family = Family::Sort;
  static Var forward(const Var& input) { return call<Sort>(input, 0, false)[0]; }
};
RL_OP(MSort)

struct TopK : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> "
      "(values, indices)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "topk(x, k, dim, largest): the k largest (or smallest) along a dimension, best first, and "
      "where they are.";
  static constexpr Family family = Family::Sort;
  static constexpr auto saves = "out1";
  static std::array<Var, 2> forward(const Var& input, int64_t k, int64_t dim, bool largest, bool) {
    DType d = input.dtype();
    check(!is_complex(d) && d != DType::Bool, "topk(): does not support ",
          is_complex(d) ? "complex" : "bool", " dtypes on CPU");
    Rows r(input, dim, "topk");
    check(k >= 0 && k <= r.length, "topk(): selected index k out of range: k is ", k,
          ", the dimension has ", r.length, " elements");
    if (input.dim() == 0) return {ops::clone(input), ops::zeros({}, DType::I64, input.device())};
    Ints sizes = r.sizes_of(k);
    Var values = empty(sizes, d, input.device()),
        indices = empty(sizes, DType::I64, input.device());
    if (values.numel() > 0) {
      Launch launch(double(input.numel()) * 4, {r.input.get(), values.get(), indices.get()});
      on(r.input).topk_rows(d, r.input->data(), values->data(), indices->data<int64_t>(), r.count,
                            r.length, k, largest);
    }
    Ints back = input.sizes();
    back[r.dim] = k;
    return {r.back(values, contiguous_strides(back)), r.back(indices, contiguous_strides(back))};
  }
  static void vjp(Back& b, const In& input, int64_t, int64_t dim, bool, bool) {
    b[0] = put_back(b.g(), b.out(1), input.sizes(), dim, true);
  }
  static void jvp(Push& p, const Var&, int64_t, int64_t dim, bool, bool) {
    p[0] = pick_out(p.t(0), p.out(1), dim, true);
  }
};
RL_OP(TopK)

// -- searching -----------------------------------------------------------------------------------

Var search_sorted(const Var& edges, const Var& values, bool out_int32, bool right,
                  const Var& sorter, const char* op) {
  DType common = result_type(edges.get(), values.get());
  if (is_complex(common) || common == DType::Bool)
    fail_as(PyExc_NotImplementedError, op, "(): not implemented for '", info(common).tensor_name,
            "'");
  Var row = ops::contiguous(ops::to(edges, common)),
      x = ops::contiguous(ops::to(values, common, edges.device()));
  Var order = sorter ? ops::contiguous(sorter) : sorter;
  DType index_type = out_int32 ? DType::I32 : DType::I64;
  int64_t length = edges.sizes().back(), rows = length ? edges.numel() / length : 1;
  check(!out_int32 || length < INT32_MAX, op,
        "(): the size of boundaries' last dimension should "
        "be less than ",
        INT32_MAX, ", but we got ", length);
  Var index = empty(x.sizes(), index_type, edges.device());
  if (length == 0) {
    ops::fill_data(index.get(), 0);
  } else if (index.numel() > 0) {
    Launch launch(double(index.numel()) * 20, {row.get(), x.get(), index.get(), order.get()});
    on(row).search_sorted(common, row->data(), order ? order->data<int64_t>() : nullptr, x->data(),
                          index_type, index->data(), rows, length, x.numel() / rows, right);
  }
  return index;
}

struct SearchSorted : NonDifferentiable {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "searchsorted(Tensor sorted_sequence, Tensor|Number input, *, bool out_int32=False, "
      "bool right=False, str? side=None, Tensor? sorter=None)";
  static constexpr auto doc =
      "searchsorted(sorted_sequence, values): where each value would be inserted to keep the last "
      "dimension sorted.";
  static constexpr Family family = Family::Sort;
  static constexpr bool method = false;
  static Var forward(const Var& edges, const Var& input, bool out_int32, bool right,
                     std::optional<std::string> side, const Var& sorter) {
    check(edges.dim() > 0,
          "torch.searchsorted(): boundaries tensor should have positive "
          "dimension, but got 0 dimension");
    check(input.dim() > 0 || edges.dim() == 1,
          "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
          "is 1, but we got boundaries tensor dim(",
          edges.dim(), ") and input value's dim(", input.dim(), ") numel(", input.numel(), ")");
    Ints front = edges.sizes(), same = input.sizes();
    front.erase(front.size() - 1);
    if (edges.dim() > 1 && !same.empty()) same.erase(same.size() - 1);
    check(edges.dim() == 1 || front == same,
          "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
          "dimensions of boundaries tensor and input value tensor must match, but we got "
          "boundaries tensor ",
          edges.sizes(), " and input value tensor ", input.sizes());
    if (side) {
      check(*side == "left" || *side == "right",
            "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
      check(!right || *side == "right",
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True");
      right = *side == "right";
    }
    if (sorter) check_sorter(edges, sorter);
    return search_sorted(edges, input, out_int32, right, sorter, "searchsorted");
  }
  static void check_sorter(const Var& edges, const Var& sorter) {
    check(sorter.sizes() == edges.sizes(),
          "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
          "tensor ",
          edges.sizes(), " and got sorter tensor ", sorter.sizes());
    check(sorter.dtype() == DType::I64,
          "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ",
          info(sorter.dtype()).tensor_name);
    Var order = ops::contiguous(sorter);
    if (order.numel() == 0) return;
    kernel::Outside bad =
        on(order).find_outside(order->data<int64_t>(), order.numel(), edges.sizes().back());
    check(!bad, "torch.searchsorted(): sorter index out of range: ", bad.value);
  }
};
RL_OP(SearchSorted)

struct Bucketize : NonDifferentiable {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature =
      "bucketize(Tensor|Number input, Tensor boundaries, *, bool out_int32=False, "
      "bool right=False)";
  static constexpr auto doc =
      "bucketize(values, boundaries): the number of the bucket between boundaries of each value.";
  static constexpr Family family = Family::Sort;
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& boundaries, bool out_int32, bool right) {
    check(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
          boundaries.dim(), ")");
    return search_sorted(boundaries, input, out_int32, right, {}, "bucketize");
  }
};
RL_OP(Bucketize)

// -- counting ------------------------------------------------------------------------------------

// Linear in the weights.
struct BinCount : Linear {
  static constexpr auto signature = "bincount(Tensor input, Tensor? weights=None, int minlength=0)";
  static constexpr auto doc =
      "bincount(x, weights): how often each of 0, 1, ... occurs in x, or the sum of its weights.";
  static constexpr Family family = Family::Sort;
  static constexpr auto saves = "input";
  static constexpr bool out = false;
  static void vjp(Back& b, const In& input, const In&, int64_t) {
    b[1] = ops::gather(b.g(), 0, ops::to(*input, DType::I64));
  }
  static Var forward(const Var& input, const Var& weights, int64_t minlength) {
    DType d = input.dtype();
    if (!is_integral(d) || d == DType::Bool)
      fail_as(PyExc_NotImplementedError, "bincount(): not implemented for '", info(d).tensor_name,
              "': the values to count are integers");
    check(minlength >= 0, "bincount(): minlength should be >= 0, got ", minlength);
    if (input.dim() == 1 && input.numel() == 0)
      return ops::zeros({minlength}, DType::I64, input.device());
    Var x = ops::contiguous(ops::to(input, DType::I64));
    auto [low, high] =
        x.numel() ? on(x).range(x->data<int64_t>(), x.numel()) : kernel::Range{0, -1};
    check(input.dim() == 1 && low >= 0,
          "bincount only supports 1-d non-negative integral inputs. "
          "(shape ",
          input.sizes(), ", smallest value ", low, ")");
    check(!weights || weights.sizes() == input.sizes(),
          "bincount(): weights should be 1-d and have the same length as input, which is ",
          input.numel());
    check(high < INT64_MAX, "bincount(): too large a value: ", high);
    DType result = !weights ? DType::I64 : weights.dtype() == DType::F32 ? DType::F32 : DType::F64;
    Var w = weights ? ops::contiguous(ops::to(weights, result)) : weights;
    Var counts = ops::zeros({std::max(high + 1, minlength)}, result, input.device());
    {
      Launch launch(double(x.numel()), {x.get(), w.get(), counts.get()});
      on(x).bincount(x->data<int64_t>(), result, w ? w->data() : nullptr, counts->data(),
                     x.numel());
    }
    return counts;
  }
};
RL_OP(BinCount)

struct HistC : NonDifferentiable {
  static constexpr auto signature = "histc(Tensor input, int bins=100, float min=0, float max=0)";
  static constexpr auto doc =
      "histc(x, bins, min, max): the counts of x in equal bins between min and max, by default "
      "those of x.";
  static constexpr Family family = Family::Sort;
  static Var forward(const Var& input, int64_t bins, double min, double max) {
    DType d = input.dtype();
    if (!is_floating(d))
      fail_as(PyExc_NotImplementedError, "histc(): not implemented for '", info(d).tensor_name,
              "': it counts floating point numbers");
    check(bins > 0, "histc(): bins must be > 0, but got ", bins);
    check(min <= max || std::isnan(min) || std::isnan(max),
          "torch.histc: max must be larger than min, got min ", min, " and max ", max);
    Var x = ops::contiguous(ops::to(input, compute_type(d)));
    if (min == max && x.numel() > 0) {
      Var low = empty({}, x.dtype(), x.device()), high = empty({}, x.dtype(), x.device());
      on(x).amin(x.dtype(), x->data(), low->data(), 1, x.numel(), 1);
      on(x).amax(x.dtype(), x->data(), high->data(), 1, x.numel(), 1);
      min = has_data(x.get()) ? ops::number(low) : 0;
      max = has_data(x.get()) ? ops::number(high) : 0;
    }
    if (min == max) {
      min -= 1;
      max += 1;
    }
    check(std::isfinite(min) && std::isfinite(max), "torch.histc: range of [", min, ", ", max,
          "] is not finite");
    Var counts = ops::zeros({bins}, DType::I64, input.device());
    {
      Launch launch(double(x.numel()) * 4, {x.get(), counts.get()});
      on(x).histogram(x.dtype(), x->data(), counts->data<int64_t>(), x.numel(), bins, min, max);
    }
    return ops::to(counts, d);
  }
};
RL_OP(HistC)

}  // namespace
}  // namespace rl
