#include "call/batch.h"

#include "autograd/batch.h"
#include "autograd/inplace.h"
#include "call/op.h"

namespace rl {

namespace {

struct AddBatchDim : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_add_batch_dim(Tensor input, int dim, int level)";
  static constexpr auto doc = "_add_batch_dim(x, dim, level): hides a dimension, as vmap does.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static constexpr bool sees_batches = true;

  static constexpr bool is_view = true;

  static Var forward(const Var& input, int64_t dim, int64_t level) {
    dim = wrap_dim(dim, input.dim(), "vmap");
    check(input.dim() > 0, "vmap: a tensor without dimensions cannot be batched");
    const Batch* outer = batch_of(input.get());
    Batch batch = outer ? *outer : Batch{};
    check(!batch.levels.contains(level), "_add_batch_dim: the tensor is batched at level ", level,
          " already");
    int at = 0;
    while (at < batch.levels.size() && batch.levels[at] < level) at++;
    batch.levels.insert(at, level);
    batch.sizes.insert(at, input->sizes[int(dim)]);
    batch.strides.insert(at, input->strides[int(dim)]);
    Ints sizes = input->sizes, strides = input->strides;
    sizes.erase(int(dim));
    strides.erase(int(dim));
    Var sample = alias(input.get(), std::move(sizes), std::move(strides), input->offset);
    set_batch(sample.get(), batch);
    return sample;
  }
  static void vjp(Back& b, const In& input, int64_t dim, int64_t level) {
    dim = wrap_dim(dim, input.dim());
    b[0] = ops::remove_batch_dim(b.g(), level, input.size(int(dim)), dim);
  }
};
RL_OP(AddBatchDim)

// The dimension in its place again, as a dimension of the same memory.
Var show(const Var& input, int64_t level, int64_t size, int64_t dim) {
  dim = wrap_dim(dim, input.dim() + 1, "vmap");
  const Batch* outer = batch_of(input.get());
  Batch batch = outer ? *outer : Batch{};
  Ints sizes = input->sizes, strides = input->strides;
  int at = 0;
  while (at < batch.levels.size() && batch.levels[at] != level) at++;
  bool has = at < batch.levels.size();
  sizes.insert(int(dim), has ? batch.sizes[at] : size);
  strides.insert(int(dim), has ? batch.strides[at] : 0);
  Var shown = alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  if (has) {
    batch.levels.erase(at);
    batch.sizes.erase(at);
    batch.strides.erase(at);
    if (batch.levels.empty()) drop_batch(&extra(shown.get()));
    else set_batch(shown.get(), batch);
  }
  return shown;
}

struct ShowBatchDim : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_show_batch_dim(Tensor input, int level, int size, int dim)";
  static constexpr auto grad_name = "RemoveBatchDimBackward0";
  static constexpr bool sees_batches = true;

  static Var forward(const Var& input, int64_t level, int64_t size, int64_t dim) {
    return show(input, level, size, dim);
  }
  static void vjp(Back& b, const In&, int64_t level, int64_t, int64_t dim) {
    b[0] = ops::add_batch_dim(b.g(), dim, level);
  }
};

// The same of a view of something outside of the region: a write reaches that.
struct ShowBatchView : ShowBatchDim {
  static constexpr bool is_view = true;
};

struct RemoveBatchDim : Composite {
  static constexpr auto signature = "_remove_batch_dim(Tensor input, int level, int size, int dim)";
  static constexpr auto doc =
      "_remove_batch_dim(x, level, size, dim): shows a hidden dimension again, as vmap does.";
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, int64_t level, int64_t size, int64_t dim) {
    const Batch* of_base = rl::is_view(input.get()) ? batch_of(input->extra->base) : nullptr;
    bool outside = rl::is_view(input.get()) && !(of_base && of_base->levels.contains(level));
    return outside ? call<ShowBatchView>(input, level, size, dim)
                   : call<ShowBatchDim>(input, level, size, dim);
  }
};
RL_OP(RemoveBatchDim)

}  // namespace

namespace ops {

Var add_batch_dim(const Var& a, int64_t dim, int64_t level) {
  return call<AddBatchDim>(a, dim, level);
}
Var remove_batch_dim(const Var& a, int64_t level, int64_t size, int64_t dim) {
  return call<RemoveBatchDim>(a, level, size, dim);
}

Var one_sample(const Var& a, int64_t level, int64_t size, int64_t n) {
  const Batch* batch = batch_of(a.get());
  if (!batch || !batch->levels.contains(level)) return a;
  return select(remove_batch_dim(a, level, size, 0), 0, n);
}
Var as_samples(const std::vector<Var>& samples, int64_t level) {
  for (const Var& v : samples)
    check(v.sizes() == samples[0].sizes(), "vmap: samples have results of different shapes, ",
          samples[0].sizes(), " and ", v.sizes(),
          ": operators that can output dynamic shape cannot be batched then");
  return add_batch_dim(stack(samples, 0), 0, level);
}

}  // namespace ops

}  // namespace rl
