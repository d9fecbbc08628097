// Maxima over a grid of windows that covers the input, and max_unpool: both know positions in a
// plane.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/nn/pooling.h"

namespace rl {

namespace {

// The last `dims` dimensions as one.
Var plane_rows(const Var& x, int dims) {
  Ints sizes(x.sizes().data(), x.dim() - dims);
  int64_t n = 1;
  for (int i = x.dim() - dims; i < x.dim(); i++) n *= x.size(i);
  sizes.push_back(n);
  return ops::reshape(x, sizes);
}

// Each plane of x at these positions.
Var picked(const Var& x, const Var& positions, int dims) {
  Var y = ops::gather(plane_rows(x, dims), -1, plane_rows(positions, dims));
  return ops::reshape(y, positions.sizes());
}

// Planes of zeros with y added at these positions.
Var placed(const Var& y, const Var& positions, const Ints& sizes, int dims) {
  Var zeros = plane_rows(ops::zeros(sizes, y.dtype(), y->storage->device), dims);
  Var x = ops::scatter_add(zeros, -1, plane_rows(positions, dims), plane_rows(y, dims));
  return ops::reshape(x, sizes);
}

template <int N>
struct AdaptiveMax : General {
  static constexpr const char* op = N == 2 ? "adaptive_max_pool2d" : "adaptive_max_pool3d";
  static constexpr Autocast autocast = N == 3 ? Autocast::Full : Autocast::None;
  static constexpr auto saves = "out1";
  static constexpr bool whole_history = true;
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Pooling;
  static constexpr bool out = false;

  static std::array<Var, 2> forward(const Var& input, const Ints& output_size, bool) {
    Ints grid = output_size.size() == 1 ? Ints(N, output_size[0]) : output_size;
    check(grid.size() == N, op, "(): internal error: output_size must be ", N, " ints, but got ",
          output_size);
    for (int64_t s : grid)
      check(s >= 0, op, ": Trying to create tensor with negative dimension ", s,
            ": output_size=", grid);
    check(input.dim() == N + 1 || input.dim() == N + 2, op, "(): Expected ", N + 1, "D or ", N + 2,
          "D tensor, but got: ", input.sizes());
    for (int i = input.dim() - N - 1; i < input.dim(); i++)
      check(input.size(i) > 0, op,
            "(): Expected input to have non-zero size for non-batch dimensions, but input has "
            "sizes ",
            input.sizes(), " with dimension ", i, " being empty");
    if (!is_floating(input.dtype())) fail_dtype(op, input.dtype());
    Ints sizes = with_spatial(input.sizes(), grid);
    Var x = ops::contiguous(input), y = empty(sizes, x.dtype(), x.device()),
        at = empty(sizes, DType::I64, input.device());
    if (y.numel() > 0) {
      Launch launch(double(x.numel()) * 2, {x.get(), y.get(), at.get()});
      on(x).adaptive_max_pool(x.dtype(), planes_of(sizes, N), spatial_extent(x.sizes(), N),
                              spatial_extent(sizes, N), x->data(), y->data(), at->data<int64_t>());
    }
    if (N == 3) return {y, at};
    return {suggested(input.get(), y), suggested(input.get(), at)};
  }
  static void vjp(Back& b, const In& input, const Ints&, bool) {
    b[0] = placed(b.g(), b.out(1), input.sizes(), N);
  }
  static void jvp(Push& p, const Var&, const Ints&, bool) { p[0] = picked(p.t(0), p.out(1), N); }
};

// y[position] = x in planes of zeros; a position named twice keeps one of the two.
template <int N>
struct Unpool : Linear {
  static constexpr const char* op = N == 2 ? "max_unpool2d" : "max_unpool3d";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto saves = "indices";
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, const Var& indices, const Ints& output_size) {
    check(indices.dtype() == DType::I64, op, ": elements in indices should be type int64 but got: ",
          info(indices.dtype()).tensor_name);
    check(input.dim() == N + 1 || input.dim() == N + 2, op, ": Input to ", op, " should be a ",
          N + 1, "d or ", N + 2, "d Tensor, but got a tensor with ", input.dim(), " dimensions");
    check(indices.sizes() == input.sizes(), op,
          ": Expected shape of indices to be same as that of the input tensor (", input.sizes(),
          ") but got indices tensor with shape: ", indices.sizes());
    check(output_size.size() == N, op, ": There should be exactly ", N,
          " elements in output_size, but got ", output_size);
    for (int64_t s : output_size)
      check(s >= 0, op, ": output_size should not be negative, but got ", output_size);
    int64_t room = element_count(output_size);
    Var at = ops::contiguous(indices);
    kernel::Outside bad = on(at).find_outside(at->data<int64_t>(), at.numel(), room);
    check(!bad, op, ": Found an invalid max index: ", bad.value, " (output volumes are of size ",
          times(output_size, "x"), ")");
    Ints sizes = with_spatial(input.sizes(), output_size);
    Var zeros = plane_rows(ops::zeros(sizes, input.dtype(), input.device()), N);
    Var y = ops::scatter(zeros, -1, plane_rows(at, N), plane_rows(input, N));
    y = ops::reshape(y, sizes);
    return N == 2 ? suggested(input.get(), y) : y;
  }
  static void vjp(Back& b, const In&, const In& indices, const Ints&) {
    b[0] = picked(b.g(), *indices, N);
  }
};

#define RL_POSITIONS(N)                                                                     \
  struct AdaptiveMaxPool##N##d : AdaptiveMax<N> {                                           \
    static constexpr auto signature =                                                       \
        "adaptive_max_pool" #N                                                              \
        "d_with_indices(Tensor input, int[] output_size, bool return_indices=False)";       \
    static constexpr auto grad_name = "AdaptiveMaxPool" #N "DBackward0";                    \
    static constexpr auto doc =                                                             \
        "adaptive_max_pool" #N                                                              \
        "d_with_indices(x, output_size): the maxima of a grid of "                          \
        "output_size windows that covers the last " #N " dimensions, and their positions."; \
  };                                                                                        \
  RL_OP(AdaptiveMaxPool##N##d)                                                              \
  struct MaxUnpool##N##d : Unpool<N> {                                                      \
    static constexpr auto signature =                                                       \
        "_max_unpool" #N "d(Tensor input, Tensor indices, int[] output_size)";              \
    static constexpr auto grad_name = "MaxUnpool" #N "DBackward0";                          \
    static constexpr auto doc =                                                             \
        "_max_unpool" #N                                                                    \
        "d(x, indices, output_size): planes of zeros with x at the positions "              \
        "that max_pool" #N "d gave.";                                                       \
  };                                                                                        \
  RL_OP(MaxUnpool##N##d)

RL_POSITIONS(2)
RL_POSITIONS(3)
#undef RL_POSITIONS

struct AdaptiveMaxPool1d : Composite {
  static constexpr auto signature = "adaptive_max_pool1d(Tensor input, int[] output_size)";
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static constexpr auto doc =
      "adaptive_max_pool1d(x, output_size): the maxima of output_size windows that cover the "
      "last dimension, and their positions.";
  static std::array<Var, 2> forward(const Var& input, const Ints& output_size) {
    check(input.dim() == 2 || input.dim() == 3,
          "adaptive_max_pool1d(): Expected 2D or 3D tensor, but got: ", input.sizes());
    check(output_size.size() == 1, "adaptive_max_pool1d: output_size must be one int, but got ",
          output_size);
    auto [y, at] =
        call<AdaptiveMaxPool2d>(ops::unsqueeze(input, -2), Ints{1, output_size[0]}, true);
    return {ops::squeeze(y, -2), ops::squeeze(at, -2)};
  }
};
RL_OP(AdaptiveMaxPool1d)

struct AdaptiveMaxPool1dFunctional : AdaptiveMaxPool1d {
  static constexpr auto signature =
      "adaptive_max_pool1d_with_indices(Tensor input, int[] output_size, "
      "bool return_indices=False)";
  static constexpr auto module = "nn.functional";
  static std::array<Var, 2> forward(const Var& input, const Ints& output_size, bool) {
    return AdaptiveMaxPool1d::forward(input, output_size);
  }
};
RL_OP(AdaptiveMaxPool1dFunctional)

}  // namespace
}  // namespace rl
