// Other readings of the storage: any strides, and complex numbers as pairs.
#include <algorithm>

#include "autograd/inplace.h"
#include "autograd/region.h"
#include "call/op.h"

namespace rl {

namespace {

// `region` is where the elements lie in a row-major tensor of the input's shape.
struct AsStridedView : View {
  static constexpr auto signature =
      "_as_strided(Tensor input, int[] size, int[] stride, int offset, int[] region, int start)";
  static constexpr auto grad_name = "AsStridedBackward0";
  static constexpr auto doc = "_as_strided(...): as_strided with the region worked out.";
  static constexpr bool method = false;
  static constexpr bool function = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride, int64_t offset,
                     const Ints&, int64_t) {
    return alias(input.get(), size, stride, offset);
  }
  static void vjp(Back& b, const In& input, const Ints&, const Ints&, int64_t, const Ints& region,
                  int64_t start) {
    b[0] = ops::embed(b.g(), input.sizes(), region, start);
  }
};
RL_OP(AsStridedView)

// The same for elements that are not all the input's own: those of the others are constants. The
// places are counted in a piece of the storage, `span` elements long, that has all of both.
struct AsStridedBeyond : View {
  static constexpr auto signature =
      "_as_strided_beyond(Tensor input, int[] size, int[] stride, int offset, int[] input_stride, "
      "int input_offset, int span)";
  static constexpr auto grad_name = "AsStridedBackward0";
  static constexpr auto doc = "_as_strided_beyond(...): as_strided beyond the elements of x.";
  static constexpr bool method = false;
  static constexpr bool function = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride, int64_t offset,
                     const Ints&, int64_t input_offset, int64_t) {
    return alias(input.get(), size, stride, input->offset + offset - input_offset);
  }
  static void vjp(Back& b, const In& input, const Ints&, const Ints& stride, int64_t offset,
                  const Ints& input_stride, int64_t input_offset, int64_t span) {
    Var piece = ops::embed(b.g(), {span}, stride, offset);
    b[0] = ops::as_strided(piece, input.sizes(), input_stride, input_offset);
  }
};
RL_OP(AsStridedBeyond)

struct AsStrided : Composite {
  static constexpr auto signature =
      "as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None)";
  static constexpr auto doc = "as_strided(x, size, stride, offset): any reading of the storage.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride,
                     std::optional<int64_t> storage_offset) {
    int64_t offset = storage_offset.value_or(input->offset), start = offset - input->offset;
    check_region(input.get(), size, stride, offset);
    if (!requires_grad(input.get()))
      return call<AsStridedView>(input, size, stride, offset, stride, start);
    bool inside = start >= 0 && end_of(size, stride, start) <= input.numel();
    inside &= is_dense(input.sizes(), input->strides);
    if (inside || std::count(size.begin(), size.end(), 0) > 0) {
      // A gradient has its places in the order of the memory.
      Var rows = in_order(input.get()) ? input : ops::permute(input, memory_order(input.get()));
      return call<AsStridedView>(rows, size, stride, offset, stride, start);
    }
    // What a view does not show of its base has its history there.
    if (rl::is_view(input.get()) && !batch_of(input.get()) && requires_grad(input->extra->base))
      return forward(Var(input->extra->base), size, stride, offset);
    check(has_distinct_elements(input.sizes(), input->strides) && !batch_of(input.get()) &&
              !levels_of(input.get()),
          "as_strided: the view reaches outside of its input (sizes ", input.sizes(),
          "), so it has no gradient; detach() it first");
    int64_t low = std::min(offset, input->offset);
    int64_t span = std::max(end_of(size, stride, offset),
                            end_of(input.sizes(), input->strides, input->offset)) -
                   low;
    return call<AsStridedBeyond>(input, size, stride, offset - low, input->strides,
                                 input->offset - low, span);
  }
  static bool in_order(const Tensor* t) {
    Ints order = memory_order(t);
    for (int i = 0; i < order.size(); i++)
      if (order[i] != i) return false;
    return true;
  }
  // One past the last element.
  static int64_t end_of(const Ints& sizes, const Ints& strides, int64_t offset) {
    int64_t last = offset;
    for (int i = 0; i < sizes.size(); i++) {
      if (sizes[i] == 0) return offset;
      last += (sizes[i] - 1) * strides[i];
    }
    return last + 1;
  }
};
RL_OP(AsStrided)

struct ViewAsReal : View {
  static constexpr auto signature = "view_as_real(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "view_as_real(x): real and imaginary parts as a last dimension of 2.";
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    check(is_complex(input.dtype()), "view_as_real is only supported for complex tensors, got ",
          name(input.dtype()));
    Ints sizes = input.sizes(), strides = input->strides;
    for (int i = 0; i < strides.size(); i++) strides[i] *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    return wrap_storage(retain(input->storage), sizes, strides, input->offset * 2,
                        real_of(input.dtype()));
  }
  static void vjp(Back& b, const In&) { b[0] = ops::view_as_complex(ops::contiguous(b.g())); }
};
RL_OP(ViewAsReal)

struct ViewAsComplex : View {
  static constexpr auto signature = "view_as_complex(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "view_as_complex(x): the last dimension of 2 read as complex numbers.";
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    check(
        input.dtype() == DType::F16 || input.dtype() == DType::F32 || input.dtype() == DType::F64,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
        "scalar type: ",
        info(input.dtype()).tensor_name);
    check(input.dim() > 0 && input.size(-1) == 2, "Tensor must have a last dimension of size 2");
    check(input->strides.back() == 1, "Tensor must have a last dimension with stride 1");
    check(input->offset % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    Ints sizes = input.sizes(), strides = input->strides;
    sizes.erase(sizes.size() - 1);
    strides.erase(strides.size() - 1);
    for (int i = 0; i < strides.size(); i++) {
      check(strides[i] % 2 == 0,
            "Tensor must have a stride divisible by 2 for all but last "
            "dimension");
      strides[i] /= 2;
    }
    return wrap_storage(retain(input->storage), sizes, strides, input->offset / 2,
                        complex_of(input.dtype()));
  }
  static void vjp(Back& b, const In&) { b[0] = ops::view_as_real(ops::contiguous(b.g())); }
};
RL_OP(ViewAsComplex)

}  // namespace

namespace ops {

Var view_as_real(const Var& a) { return call<ViewAsReal>(a); }
Var view_as_complex(const Var& a) { return call<ViewAsComplex>(a); }
Var as_strided(const Var& a, const Ints& sizes, const Ints& strides, int64_t offset) {
  return call<AsStrided>(a, sizes, strides, a->offset + offset);
}

}  // namespace ops
}  // namespace rl
