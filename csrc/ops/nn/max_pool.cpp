// Maxima over windows. A node keeps which tap of its window each maximum came from, one byte each;
// int64 positions are made where they are asked for.
#include "kernels/kernels.h"

#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "ops/nn/pooling.h"

namespace rl {

namespace {

// The parameters that every helper repeats.
#define RL_WINDOWS                                                                        \
  const Ints &kernel_size, const Ints &stride, const Ints &padding, const Ints &dilation, \
      bool ceil_mode
#define RL_GIVEN kernel_size, stride, padding, dilation, ceil_mode

template <int N>
constexpr const char* kName = N == 2 ? "max_pool2d" : "max_pool3d";

double work_of(const kernel::Pooling& p) {
  return double(p.planes) * double(kernel::volume(p.output)) * double(kernel::volume(p.kernel));
}

void check_dtype(const char* op, DType d) {
  if (d == DType::Bool || is_complex(d)) fail_dtype(op, d);
}

// Raises unless the taps are those of these windows over a tensor of these sizes.
template <int N>
kernel::Pooling checked(const Windows& w, const Ints& input, const Var& taps) {
  check_pooled(kName<N>, N, input);
  kernel::Pooling p = w.over(input, w.result(kName<N>, input));
  Ints sizes = with_spatial(input, w.result(kName<N>, input));
  check(taps.sizes() == sizes && taps.dtype() == kernel::tap_type(p), kName<N>, ": taps of ",
        taps.sizes(), " do not belong to an input of ", input);
  return p;
}

// What a node saved is in users' reach.
void check_taps(const char* op, bool outside) {
  check(!outside, op, ": the saved positions of the maxima were overwritten: some lie outside");
}

// x at the taps of windows: how a small change of the input moves the maxima.
template <int N>
struct Gather : Linear {
  static constexpr auto saves = "taps";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& taps, RL_WINDOWS);
  static void vjp(Back& b, const In& input, const In& taps, RL_WINDOWS);
};
template <int N>
struct Scatter : Linear {
  static constexpr auto saves = "taps";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& grad, const Var& taps, const Ints& input_size, RL_WINDOWS);
  static void vjp(Back& b, const In& grad, const In& taps, const Ints& input_size, RL_WINDOWS);
};

#define RL_TAKE(N)                                                                         \
  struct MaxPool##N##dGather : Gather<N> {                                                 \
    static constexpr auto signature =                                                      \
        "_max_pool" #N                                                                     \
        "d_gather(Tensor input, Tensor taps, int[] kernel_size, int[] stride, "            \
        "int[] padding, int[] dilation, bool ceil_mode)";                                  \
    static constexpr auto doc =                                                            \
        "_max_pool" #N "d_gather(x, taps, ...): the elements that taps name.";             \
  };                                                                                       \
  RL_OP(MaxPool##N##dGather)                                                               \
  struct MaxPool##N##dScatter : Scatter<N> {                                               \
    static constexpr auto signature =                                                      \
        "_max_pool" #N                                                                     \
        "d_scatter(Tensor grad, Tensor taps, int[] input_size, "                           \
        "int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode)"; \
    static constexpr auto grad_name = "MaxPool" #N "DWithIndicesBackwardBackward0";        \
    static constexpr auto doc =                                                            \
        "_max_pool" #N                                                                     \
        "d_scatter(g, taps, input_size, ...): zeros with g added where taps "              \
        "point.";                                                                          \
  };                                                                                       \
  RL_OP(MaxPool##N##dScatter)

RL_TAKE(2)
RL_TAKE(3)
#undef RL_TAKE

template <int N>
using GatherOf = std::conditional_t<N == 2, MaxPool2dGather, MaxPool3dGather>;
template <int N>
using ScatterOf = std::conditional_t<N == 2, MaxPool2dScatter, MaxPool3dScatter>;

template <int N>
Var Gather<N>::forward(const Var& input, const Var& taps, RL_WINDOWS) {
  check_dtype(kName<N>, input.dtype());
  Windows w(kName<N>, N, RL_GIVEN);
  kernel::Pooling p = checked<N>(w, input.sizes(), taps);
  Var x = ops::contiguous(input), t = ops::contiguous(taps),
      y = empty(t.sizes(), x.dtype(), x.device());
  bool outside;
  {
    Launch launch(double(y.numel()), {x.get(), t.get(), y.get()});
    outside = on(x).max_pool_gather(x.dtype(), p, x->data(), t->data(), y->data());
  }
  check_taps(kName<N>, outside);
  return y;
}
template <int N>
void Gather<N>::vjp(Back& b, const In& input, const In& taps, RL_WINDOWS) {
  b[0] = call<ScatterOf<N>>(b.g(), *taps, input.sizes(), RL_GIVEN);
}

template <int N>
Var Scatter<N>::forward(const Var& grad, const Var& taps, const Ints& input_size, RL_WINDOWS) {
  check(is_differentiable(grad.dtype()), kName<N>, ": gradients are floating, not ",
        info(grad.dtype()).tensor_name);
  check_dtype(kName<N>, grad.dtype());
  check(grad.sizes() == taps.sizes(), kName<N>, ": grad of ", grad.sizes(), " and taps of ",
        taps.sizes(), " should have the same size");
  Windows w(kName<N>, N, RL_GIVEN);
  kernel::Pooling p = checked<N>(w, input_size, taps);
  Var g = ops::contiguous(grad), t = ops::contiguous(taps),
      x = empty(input_size, g.dtype(), g.device());
  bool outside;
  {
    Launch launch(double(x.numel()), {x.get(), t.get(), g.get()});
    outside = on(g).max_pool_scatter(g.dtype(), p, g->data(), t->data(), x->data());
  }
  check_taps(kName<N>, outside);
  return suggested(grad.get(), x);
}
template <int N>
void Scatter<N>::vjp(Back& b, const In&, const In& taps, const Ints&, RL_WINDOWS) {
  b[0] = call<GatherOf<N>>(b.g(), *taps, RL_GIVEN);
}

template <int N>
struct MaxPool : General {
  static constexpr auto saves = "out1";
  static constexpr bool whole_history = true;
  static constexpr bool method = false;
  static constexpr bool out = false;

  static std::array<Var, 2> forward(const Var& input, RL_WINDOWS) {
    Windows w(kName<N>, N, RL_GIVEN);
    check_dtype(kName<N>, input.dtype());
    check_pooled(kName<N>, N, input.sizes());
    Ints sizes = with_spatial(input.sizes(), w.result(kName<N>, input.sizes()));
    kernel::Pooling p = w.over(input.sizes(), sizes);
    check(double(p.kernel[0]) * double(p.kernel[1]) * double(p.kernel[2]) < double(1 << 24),
          kName<N>, ": kernel_size is too large: ", w.kernel);
    Var x = ops::contiguous(input), y = empty(sizes, x.dtype(), x.device()),
        t = empty(sizes, tap_type(p), input.device());
    {
      Launch launch(work_of(p), {x.get(), y.get(), t.get()});
      on(x).max_pool(x.dtype(), p, x->data(), y->data(), t->data());
    }
    return {suggested(input.get(), y), t};
  }
  static void vjp(Back& b, const In& input, RL_WINDOWS) {
    b[0] = call<ScatterOf<N>>(b.g(), b.out(1), input.sizes(), RL_GIVEN);
  }
  static void jvp(Push& p, const Var&, RL_WINDOWS) {
    p[0] = call<GatherOf<N>>(p.t(0), p.out(1), RL_GIVEN);
  }
};

// The taps of windows as positions in a plane of the input.
template <int N>
struct Positions : NonDifferentiable {
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& taps, const Ints& input_size, RL_WINDOWS) {
    Windows w(kName<N>, N, RL_GIVEN);
    kernel::Pooling p = checked<N>(w, input_size, taps);
    Var t = ops::contiguous(taps), positions = empty(t.sizes(), DType::I64, taps.device());
    check_taps(kName<N>, on(t).max_pool_positions(p, t->data(), positions->data<int64_t>()));
    return positions;
  }
};

template <int N>
struct MaxPoolPublic : Composite {
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

#define RL_MAX_POOL(N)                                                                            \
  struct MaxPool##N##dTaps : MaxPool<N> {                                                         \
    static constexpr auto signature =                                                             \
        "_max_pool" #N                                                                            \
        "d(Tensor input, int[] kernel_size, int[] stride, int[] padding, "                        \
        "int[] dilation, bool ceil_mode)";                                                        \
    static constexpr auto grad_name = "MaxPool" #N "DWithIndicesBackward0";                       \
    static constexpr auto doc =                                                                   \
        "_max_pool" #N "d(x, ...): max_pool" #N "d, and the number of the tap of each maximum.";  \
  };                                                                                              \
  RL_OP(MaxPool##N##dTaps)                                                                        \
  struct MaxPool##N##dPositions : Positions<N> {                                                  \
    static constexpr auto signature =                                                             \
        "_max_pool" #N                                                                            \
        "d_positions(Tensor taps, int[] input_size, int[] kernel_size, "                          \
        "int[] stride, int[] padding, int[] dilation, bool ceil_mode)";                           \
    static constexpr auto doc =                                                                   \
        "_max_pool" #N "d_positions(taps, input_size, ...): taps as positions in the input.";     \
  };                                                                                              \
  RL_OP(MaxPool##N##dPositions)                                                                   \
  struct MaxPool##N##d : MaxPoolPublic<N> {                                                       \
    static constexpr Autocast autocast = N == 3 ? Autocast::Full : Autocast::None;                \
    static constexpr auto signature =                                                             \
        "max_pool" #N                                                                             \
        "d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, "                \
        "int[] dilation=1, bool ceil_mode=False)";                                                \
    static constexpr auto doc =                                                                   \
        "max_pool" #N                                                                             \
        "d(x, kernel_size, stride, padding, dilation, ceil_mode): the maximum of "                \
        "each window over the last " #N " dimensions.";                                           \
    static Var forward(const Var& input, const Ints& kernel_size,                                 \
                       const std::optional<Ints>& stride, const Ints& padding,                    \
                       const Ints& dilation, bool ceil_mode) {                                    \
      return call<MaxPool##N##dTaps>(input, kernel_size, stride.value_or(Ints()), padding,        \
                                     dilation, ceil_mode)[0];                                     \
    }                                                                                             \
  };                                                                                              \
  RL_OP(MaxPool##N##d)                                                                            \
  struct MaxPool##N##dIndices : MaxPoolPublic<N> {                                                \
    static constexpr auto signature =                                                             \
        "max_pool" #N                                                                             \
        "d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, "                    \
        "int[] padding=0, int[] dilation=1, bool ceil_mode=False, bool return_indices=False)";    \
    static constexpr auto module = "nn.functional";                                               \
    static constexpr auto doc = "max_pool" #N "d_with_indices(x, ...): max_pool" #N               \
                                "d, and the position of each maximum in its plane of the input."; \
    static std::array<Var, 2> forward(const Var& input, const Ints& kernel_size,                  \
                                      const std::optional<Ints>& stride, const Ints& padding,     \
                                      const Ints& dilation, bool ceil_mode, bool = true) {        \
      Ints steps = stride.value_or(Ints());                                                       \
      auto [y, taps] =                                                                            \
          call<MaxPool##N##dTaps>(input, kernel_size, steps, padding, dilation, ceil_mode);       \
      Var at = call<MaxPool##N##dPositions>(taps, input.sizes(), kernel_size, steps, padding,     \
                                            dilation, ceil_mode);                                 \
      return {y, suggested(input.get(), at)};                                                     \
    }                                                                                             \
  };                                                                                              \
  RL_OP(MaxPool##N##dIndices)

RL_MAX_POOL(2)
RL_MAX_POOL(3)
#undef RL_MAX_POOL

// A window along one dimension as one of [1, k] along two.
Ints flat(const Ints& given, const char* name, int64_t first) {
  check(given.size() <= 1, "max_pool1d: ", name,
        " must either be a single int, or a tuple of one int, but got ", given);
  return given.empty() ? Ints() : Ints{first, given[0]};
}

template <class Pool>
auto along_one(const Var& input, const Ints& kernel_size, const std::optional<Ints>& stride,
               const Ints& padding, const Ints& dilation, bool ceil_mode) {
  check(input.dim() == 2 || input.dim() == 3,
        "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
        "input, but got:",
        input.sizes());
  return Pool::forward(ops::unsqueeze(input, -2), flat(kernel_size, "kernel_size", 1),
                       flat(stride.value_or(Ints()), "stride", 1), flat(padding, "padding", 0),
                       flat(dilation, "dilation", 1), ceil_mode);
}

struct MaxPool1d : MaxPoolPublic<1> {
  static constexpr auto signature =
      "max_pool1d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, "
      "int[] dilation=1, bool ceil_mode=False)";
  static constexpr auto doc =
      "max_pool1d(x, kernel_size, stride, padding, dilation, ceil_mode): the maximum of each "
      "window over the last dimension.";
  static Var forward(const Var& input, const Ints& kernel_size, const std::optional<Ints>& stride,
                     const Ints& padding, const Ints& dilation, bool ceil_mode) {
    return ops::squeeze(
        along_one<MaxPool2d>(input, kernel_size, stride, padding, dilation, ceil_mode), -2);
  }
};
RL_OP(MaxPool1d)

struct MaxPool1dIndices : MaxPoolPublic<1> {
  static constexpr auto signature =
      "max_pool1d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, "
      "int[] padding=0, int[] dilation=1, bool ceil_mode=False)";
  static constexpr auto doc =
      "max_pool1d_with_indices(x, ...): max_pool1d, and the position of each maximum.";
  static std::array<Var, 2> forward(const Var& input, const Ints& kernel_size,
                                    const std::optional<Ints>& stride, const Ints& padding,
                                    const Ints& dilation, bool ceil_mode) {
    auto [y, at] =
        along_one<MaxPool2dIndices>(input, kernel_size, stride, padding, dilation, ceil_mode);
    return {ops::squeeze(y, -2), ops::squeeze(at, -2)};
  }
};
RL_OP(MaxPool1dIndices)
struct MaxPool1dIndicesFunctional : MaxPool1dIndices {
  static constexpr auto signature =
      "max_pool1d_with_indices(Tensor input, int[] kernel_size, int[]? stride=None, "
      "int[] padding=0, int[] dilation=1, bool ceil_mode=False, bool return_indices=False)";
  static constexpr auto module = "nn.functional";
  static std::array<Var, 2> forward(const Var& input, const Ints& kernel_size,
                                    const std::optional<Ints>& stride, const Ints& padding,
                                    const Ints& dilation, bool ceil_mode, bool) {
    return MaxPool1dIndices::forward(input, kernel_size, stride, padding, dilation, ceil_mode);
  }
};
RL_OP(MaxPool1dIndicesFunctional)

#undef RL_WINDOWS
#undef RL_GIVEN

}  // namespace
}  // namespace rl
