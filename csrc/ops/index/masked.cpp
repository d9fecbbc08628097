// Masks and slices as places to read from and write to.
#include "call/broadcast.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// What masked_fill writes: a 0-d tensor of the right type.
Var fill_value(const Var& mask, const Var& value, DType dtype) {
  check(mask.dtype() == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype ", name(mask.dtype()));
  check(value.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
        value.dim(), " dimension(s).");
  return scalar_of(value, dtype, mask.device());
}

// Where a mask is true for any of the elements that an expanded tensor has in one place.
Var any_of_place(const Tensor* t, const Var& mask) {
  Ints places = without_repeats(t).sizes();
  return ops::sum_to(ops::to(ops::expand(mask, t->sizes), DType::I64), places) != Var(0);
}

#define RL_MASKED_FILL(Type, kind, text, grad)                                                   \
  struct Type : Linear {                                                                         \
    static constexpr auto signature = "masked_fill(Tensor input, Tensor mask, " kind " value)";  \
    static constexpr auto grad_name = grad;                                                      \
    static constexpr auto doc = "masked_fill(x, mask, value): " text " where the mask is true."; \
    static constexpr Family family = Family::Indexing;                                           \
    static constexpr Stored stored = Stored::Moved;                                              \
    static constexpr auto saves = "mask";                                                        \
    static constexpr bool inplace = true;                                                        \
    static constexpr bool out = false;                                                           \
    static Var forward(const Var& input, const Var& mask, const Var& value) {                    \
      Var number = fill_value(mask, value, input.dtype());                                       \
      Var y = empty(broadcast(input.sizes(), mask.sizes()), input.dtype(), input.device());      \
      Var in[] = {mask, number, input};                                                          \
      run_pointwise_into(y.get(), in);                                                           \
      return y;                                                                                  \
    }                                                                                            \
    static void vjp(Back& b, const In&, const In& mask, const In&) {                             \
      Var m = *mask;                                                                             \
      if (b.wants(0)) b[0] = ops::masked_fill(b.g(), m, Var(0));                                 \
      if (b.wants(2)) b[2] = ops::sum_to(math::where(m, b.g(), Var(0)), {});                     \
    }                                                                                            \
    static void into(Tensor* self, bool, const Var& input, const Var& mask, const Var& value) {  \
      Var number = fill_value(mask, value, self->dtype), m = apart_from(self, mask);             \
      check(can_expand(mask.sizes(), self->sizes), "output with shape ", self->sizes,            \
            " doesn't match the broadcast shape ", broadcast(self->sizes, mask.sizes()));        \
      if (may_repeat(self, value, "masked_fill_")) {                                             \
        Var places = without_repeats(self);                                                      \
        return into(places.get(), true, places, any_of_place(self, mask), value);                \
      }                                                                                          \
      auto write = [&] {                                                                         \
        Var in[] = {m, number, alias(self)};                                                     \
        run_pointwise_into(self, in);                                                            \
      };                                                                                         \
      write_inplace<Type>(self, "masked_fill_", write, input, mask, value);                      \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type)

// where(...) computed into a tensor that is ready to be written.
void run_pointwise_into(Tensor* into, const Var* in) {
  const Pointwise& where = find_pointwise("where");
  DType moved = moved_as(into->dtype), compute = compute_type(moved);
  kernel::PointwiseCall call{};
  call.lanes = where.lanes[int(compute)];
  call.compute = call.produced = compute;
  call.cost = 1;
  call.inputs = 3;
  call.sizes = into->sizes.data();
  call.ndim = into->dim();
  call.out = {into->data(), into->strides.data(), moved};
  Ints strides[3];
  for (int i = 0; i < 3; i++) {
    strides[i] = broadcast_strides(in[i].get(), into->sizes);
    call.in[i] = {in[i]->data(), strides[i].data(), i == 0 ? in[i].dtype() : moved};
  }
  Launch launch(double(into->numel), {into, in[0].get(), in[1].get()});
  on(into).pointwise(call);
}

RL_MASKED_FILL(MaskedFillTensor, "Tensor", "a 0-d tensor's value", "MaskedFillBackward1")
RL_MASKED_FILL(MaskedFill, "Number", "a number", "MaskedFillBackward0")

// The flat positions where the mask, read with these sizes, is true.
Var true_positions(const Var& mask, const Ints& sizes) {
  Var m = ops::contiguous(mask.sizes() == sizes ? mask : ops::expand(mask, sizes));
  int64_t n;
  {
    Launch launch(double(m.numel()), {m.get()});
    n = on(m).nonzero(DType::Bool, m->data(), m.numel(), nullptr);
  }
  Var flat = empty({n}, DType::I64, mask.device());
  Launch launch(double(m.numel()), {m.get(), flat.get()});
  on(m).nonzero(DType::Bool, m->data(), m.numel(), flat->data<int64_t>());
  return flat;
}

struct MaskedSelect : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "masked_select(Tensor input, Tensor mask)";
  static constexpr auto doc = "masked_select(x, mask): the elements where the mask is true.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "mask";
  static Var forward(const Var& input, const Var& mask) {
    check(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask, got ",
          name(mask.dtype()));
    Ints sizes = broadcast(input.sizes(), mask.sizes());
    Var x = ops::contiguous(input.sizes() == sizes ? input : ops::expand(input, sizes));
    Var at = true_positions(mask, sizes), y = empty({at.numel()}, x.dtype(), x.device());
    Launch launch(double(y.numel()), {x.get(), at.get(), y.get()});
    on(x).index_select(itemsize(x.dtype()), x->data(), at->data<int64_t>(), y->data(), 1, x.numel(),
                       1, at.numel());
    return y;
  }
  static void vjp(Back& b, const In& input, const In& mask);
};
RL_OP(MaskedSelect)

struct MaskedScatter : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "masked_scatter(Tensor input, Tensor mask, Tensor source)";
  static constexpr auto doc =
      "masked_scatter(x, mask, source): x with the elements of source, in order, at the true ones.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "mask";
  static constexpr bool inplace = true;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& mask, const Var& source) {
    check(mask.dtype() == DType::Bool,
          "masked_scatter_ only supports boolean masks, but got mask with dtype ",
          name(mask.dtype()));
    check(input.dtype() == source.dtype(),
          "masked_scatter: expected self and source to have same dtypes but got ",
          info(input.dtype()).tensor_name, " and ", info(source.dtype()).tensor_name);
    Ints sizes = broadcast(input.sizes(), mask.sizes());
    Var y = row_major_copy(input.sizes() == sizes ? input : ops::expand(input, sizes));
    if (!has_data(y.get())) return y;
    Var at = true_positions(mask, sizes), src = ops::contiguous(source);
    check(at.numel() <= source.numel(),
          "masked_scatter: Number of elements of source < number of ones in mask: ", source.numel(),
          " and ", at.numel());
    Launch launch(double(at.numel()), {y.get(), at.get(), src.get()});
    on(y).index_write(itemsize(y.dtype()), y->data(), at->data<int64_t>(), src->data(), 1,
                      y.numel(), 1, at.numel());
    return y;
  }
  static void vjp(Back& b, const In&, const In& mask, const In& source) {
    Var m = *mask;
    if (b.wants(0)) b[0] = ops::masked_fill(b.g(), m, Var(0));
    if (!b.wants(2)) return;
    Var used = call<MaskedSelect>(b.g(), m);
    Var all = ops::embed(used, {element_count(source.sizes())}, {1}, 0);
    b[2] = ops::reshape(all, source.sizes());
  }
};
RL_OP(MaskedScatter)

void MaskedSelect::vjp(Back& b, const In& input, const In& mask) {
  Var m = *mask;
  Var zeros = ops::zeros(broadcast(input.sizes(), m.sizes()), b.g().dtype(), b.g().device());
  b[0] = call<MaskedScatter>(zeros, m, b.g());
}

// A copy of x, with its strides, in which a view is replaced by src.
template <class Choose>
Var with_region(const Var& input, const Var& src, const Choose& choose) {
  bool overlaps = overlaps_itself(input.sizes(), input->strides);
  Var y = overlaps ? empty_like(input.get(), input.dtype())
                   : empty_strided(input.sizes(), input->strides, input.dtype(), input.device());
  ops::copy_data(y.get(), input.get());
  Var region = choose(y);
  check(region.sizes() == src.sizes(),
        "expected src to have a size equal to the slice of self. src size = ", src.sizes(),
        ", slice size = ", region.sizes());
  ops::copy_data(region.get(), src.get());
  return y;
}

struct SelectScatter : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "select_scatter(Tensor input, Tensor src, int dim, int index)";
  static constexpr auto doc = "select_scatter(x, src, dim, index): x with x.select(...) = src.";
  static constexpr Family family = Family::Indexing;
  static Var forward(const Var& input, const Var& src, int64_t dim, int64_t index) {
    return with_region(input, src, [&](const Var& y) { return ops::select(y, dim, index); });
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& src, int64_t dim,
                     int64_t index) {
    dim = wrap_dim(dim, input.dim(), "select_scatter") + hidden.count();
    return forward(hidden.front(input), hidden.front(src), dim, index);
  }
  static void vjp(Back& b, const In&, const In& src, int64_t dim, int64_t index) {
    if (b.wants(0))
      b[0] = call<SelectScatter>(b.g(), ops::zeros(src.sizes(), b.g().dtype(), b.g().device()), dim,
                                 index);
    if (b.wants(1)) b[1] = ops::select(b.g(), dim, index);
  }
};
RL_OP(SelectScatter)

struct SliceScatter : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, "
      "int step=1)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "slice_scatter(x, src, dim, start, end, step): x with x[start:end:step] = src.";
  static constexpr Family family = Family::Indexing;
  using Bound = std::optional<int64_t>;
  static Var region(const Var& y, int64_t dim, Bound start, Bound end, int64_t step) {
    return ops::slice(y, dim, start.value_or(0), end.value_or(INT64_MAX), step);
  }
  static Var forward(const Var& input, const Var& src, int64_t dim, Bound start, Bound end,
                     int64_t step) {
    auto choose = [&](const Var& y) { return region(y, dim, start, end, step); };
    return with_region(input, src, choose);
  }
  static void vjp(Back& b, const In&, const In& src, int64_t dim, Bound start, Bound end,
                  int64_t step) {
    if (b.wants(0)) {
      Var zeros = ops::zeros(src.sizes(), b.g().dtype(), b.g().device());
      b[0] = call<SliceScatter>(b.g(), zeros, dim, start, end, step);
    }
    if (b.wants(1)) b[1] = region(b.g(), dim, start, end, step);
  }
};
RL_OP(SliceScatter)

struct DiagonalScatter : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "diagonal_scatter(x, src, offset, dim1, dim2): x with a diagonal replaced by src.";
  static constexpr Family family = Family::Indexing;
  static Var forward(const Var& input, const Var& src, int64_t offset, int64_t dim1, int64_t dim2) {
    auto choose = [&](const Var& y) { return ops::diagonal(y, offset, dim1, dim2); };
    return with_region(input, src, choose);
  }
  static void vjp(Back& b, const In&, const In& src, int64_t offset, int64_t dim1, int64_t dim2) {
    if (b.wants(0)) {
      Var zeros = ops::zeros(src.sizes(), b.g().dtype(), b.g().device());
      b[0] = call<DiagonalScatter>(b.g(), zeros, offset, dim1, dim2);
    }
    if (b.wants(1)) b[1] = ops::diagonal(b.g(), offset, dim1, dim2);
  }
};
RL_OP(DiagonalScatter)

}  // namespace

namespace ops {

Var masked_fill(const Var& a, const Var& mask, const Var& value) {
  if (value->wrapped_number) return call<MaskedFill>(a, mask, value);
  return call<MaskedFillTensor>(a, mask, value);
}

}  // namespace ops
}  // namespace rl
