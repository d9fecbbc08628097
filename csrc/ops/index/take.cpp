// Flat positions, take and put, and positions along a dimension.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// Flat positions for take and put; negative ones count from the end.
Var flat_positions(const Var& index, int64_t numel, const char* op) {
  check(index.dtype() == DType::I64, op, ": Expected a long tensor for index, but got ",
        info(index.dtype()).tensor_name);
  Var at = ops::contiguous(index);
  if (at.numel() > 0 && numel == 0)
    fail_as(PyExc_IndexError, op, ": tried to take from an empty tensor");
  kernel::Outside bad = on(at).find_out_of_range(at->data<int64_t>(), at.numel(), numel);
  if (bad)
    fail_as(PyExc_IndexError, "out of range: tried to access index ", bad.value, " on a tensor of ",
            numel, " elements.");
  Var flat = empty({at.numel()}, DType::I64, index.device());
  on(at).linear_index(at->data<int64_t>(), at.numel(), numel, 1, false, flat->data<int64_t>());
  return flat;
}

struct Take : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "take(Tensor input, Tensor index)";
  static constexpr auto doc = "take(x, index): the elements of x, read as a vector, at index.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static Var forward(const Var& input, const Var& index) {
    Var flat = flat_positions(index, input.numel(), "take()"), x = ops::contiguous(input);
    Var y = empty(index.sizes(), input.dtype(), input.device());
    Launch launch(double(y.numel()), {x.get(), flat.get(), y.get()});
    on(x).index_select(itemsize(x.dtype()), x->data(), flat->data<int64_t>(), y->data(), 1,
                       x.numel(), 1, flat.numel());
    return y;
  }
  static void vjp(Back& b, const In& input, const In& index);
};
RL_OP(Take)

struct Put : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "put(Tensor input, Tensor index, Tensor source, bool accumulate=False)";
  static constexpr auto doc =
      "put(x, index, source, accumulate): x with the elements at flat positions set or added to.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& index, const Var& source, bool accumulate) {
    Var flat = flat_positions(index, input.numel(), "put_()"), src = ops::contiguous(source);
    check(input.dtype() == source.dtype(),
          "put_(): self and source expected to have the same dtype, but got self.dtype = ",
          info(input.dtype()).tensor_name,
          " and source.dtype = ", info(source.dtype()).tensor_name);
    if (index.numel() != source.numel())
      fail_as(PyExc_IndexError,
              "put_(): Expected source and index to have the same number of "
              "elements, but got source.numel() = ",
              source.numel(), ", index.numel() = ", index.numel());
    Var y = row_major_copy(input);
    int64_t n = flat.numel(), size = itemsize(y.dtype());
    if (accumulate)
      on(y).index_add(y.dtype(), y->data(), flat->data<int64_t>(), src->data(), 1, y.numel(), 1, n,
                      1);
    else on(y).index_write(size, y->data(), flat->data<int64_t>(), src->data(), 1, y.numel(), 1, n);
    return kept_strides(input.get(), y);
  }
  static void vjp(Back& b, const In&, const In& index, const In& source, bool accumulate) {
    Var at = *index;
    if (b.wants(0))
      b[0] = accumulate ? b.g()
                        : call<Put>(b.g(), at,
                                    ops::zeros(at.sizes(), b.g().dtype(), b.g().device()), false);
    if (b.wants(2)) b[2] = ops::reshape(call<Take>(b.g(), at), source.sizes());
  }
};
RL_OP(Put)

void Take::vjp(Back& b, const In& input, const In& index) {
  b[0] = call<Put>(ops::zeros(input.sizes(), b.g().dtype(), b.g().device()), *index, b.g(), true);
}

struct TakeAlongDim : Composite {
  static constexpr auto signature = "take_along_dim(Tensor input, Tensor indices, int? dim=None)";
  static constexpr auto doc =
      "take_along_dim(x, indices, dim): gather with broadcasting; without dim, x as a vector.";
  static constexpr Family family = Family::Indexing;
  static Var forward(const Var& input, const Var& indices, std::optional<int64_t> dim) {
    check(indices.dtype() == DType::I64,
          "torch.take_along_dim(): dtype of indices should be Long "
          "but got ",
          info(indices.dtype()).tensor_name);
    if (!dim) return pick(ops::reshape(input, {-1}), 0, ops::reshape(indices, {-1}));
    check(input.dim() == indices.dim(),
          "torch.take_along_dim(): input and indices should have the same number of dimensions, "
          "but got ",
          input.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
    int d = int(wrap_dim(*dim, input.dim()));
    if (input.dim() == 0) return pick(input, 0, indices);
    Ints from = input.sizes(), at = indices.sizes();
    from[d] = at[d] = 1;
    Ints both = broadcast(from, at);
    Ints wide = both, picked = both;
    wide[d] = input.sizes()[d];
    picked[d] = indices.sizes()[d];
    return pick(ops::expand(input, wide), d, ops::expand(indices, picked));
  }
  // Indices wrap around, as torch's do.
  static Var pick(const Var& x, int d, const Var& index) {
    int64_t size = x.dim() ? x.sizes()[d] : 1;
    Var at = size > 0
                 ? math::call_pointwise(
                       "remainder", {index, ops::full({}, double(size), DType::I64, x.device())})
                 : index;
    return ops::gather(x, d, at);
  }
};
RL_OP(TakeAlongDim)

}  // namespace
}  // namespace rl
