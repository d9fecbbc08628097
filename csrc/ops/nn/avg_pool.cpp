// Means over windows: of one shape, or of a grid that covers the input.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/nn/pooling.h"

namespace rl {

namespace {

// The map along the dimensions before the spatial ones of a plane of fewer than three.
void add_identities(kernel::AxisMaps& axes, int count) {
  for (int i = 0; i < count; i++) {
    axes.emplace_back(1, 1);
    axes.back().add_window(0, 1);
  }
}

kernel::AxisMaps window_means(const Windows& w, const Ints& input, const Ints& output,
                              bool count_include_pad, std::optional<int64_t> divisor) {
  kernel::AxisMaps axes;
  add_identities(axes, 3 - w.dims);
  for (int i = 0; i < w.dims; i++) {
    int64_t in = input[input.size() - w.dims + i], out = output[output.size() - w.dims + i];
    kernel::AxisMap& axis = axes.emplace_back(in, out);
    for (int64_t j = 0; j < out; j++) {
      int64_t begin = j * w.stride[i] - w.padding[i];
      int64_t end = std::min(begin + w.kernel[i], in + w.padding[i]), whole = end - begin;
      begin = std::max<int64_t>(begin, 0), end = std::min(end, in);
      axis.add_window(begin, end);
      int64_t each = i == 0 ? divisor.value_or(1) : 1;
      axis.divisor.push_back(divisor ? each : count_include_pad ? whole : end - begin);
    }
  }
  return axes;
}

kernel::AxisMaps grid_means(int dims, const Ints& input, const Ints& output) {
  kernel::AxisMaps axes;
  add_identities(axes, 3 - dims);
  for (int i = 0; i < dims; i++) {
    int64_t in = input[input.size() - dims + i], out = output[output.size() - dims + i];
    kernel::AxisMap& axis = axes.emplace_back(in, out);
    for (int64_t j = 0; j < out; j++) {
      int64_t begin = j * in / out, end = ((j + 1) * in + out - 1) / out;
      axis.add_window(begin, end);
      axis.divisor.push_back(end - begin);
    }
  }
  return axes;
}

void check_gradient(const char* op, const Var& grad, const Ints& wanted) {
  check(grad.sizes() == wanted, op, ": a gradient of ", grad.sizes(),
        " does not belong to a result of ", wanted);
  if (!is_floating(grad.dtype())) fail_dtype(op, grad.dtype());
}

struct PoolOp : Linear {
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

#define RL_WINDOWS                                                                                \
  const Ints &kernel_size, const std::optional<Ints>&stride, const Ints &padding, bool ceil_mode, \
      bool count_include_pad, std::optional<int64_t> divisor_override
#define RL_GIVEN kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override

template <int N>
Windows windows_of(const Ints& kernel_size, const std::optional<Ints>& stride, const Ints& padding,
                   bool ceil_mode, std::optional<int64_t> divisor) {
  static constexpr const char* op = N == 2 ? "avg_pool2d" : "avg_pool3d";
  check(!divisor || *divisor != 0, op, ": divisor must be not zero");
  return Windows(op, N, kernel_size, stride.value_or(Ints()), padding, {1}, ceil_mode);
}

template <int N>
struct AvgBackward : PoolOp {
  static constexpr const char* op = N == 2 ? "avg_pool2d" : "avg_pool3d";
  static Var forward(const Var& grad, const Ints& input_size, RL_WINDOWS) {
    Windows w = windows_of<N>(kernel_size, stride, padding, ceil_mode, divisor_override);
    check_pooled(op, N, input_size);
    Ints sizes = with_spatial(input_size, w.result(op, input_size));
    check_gradient(op, grad, sizes);
    auto make_axes = [&] {
      return window_means(w, input_size, sizes, count_include_pad, divisor_override);
    };
    return map_planes(grad, N, input_size, make_axes, true);
  }
  static void vjp(Back& b, const In&, const Ints&, RL_WINDOWS);
};

template <int N>
struct Avg : PoolOp {
  static constexpr bool whole_history = true;
  static constexpr const char* op = N == 2 ? "avg_pool2d" : "avg_pool3d";
  static constexpr Autocast autocast = N == 3 ? Autocast::Full : Autocast::None;
  static constexpr auto module = "nn.functional";
  static Var forward(const Var& input, RL_WINDOWS) {
    Windows w = windows_of<N>(kernel_size, stride, padding, ceil_mode, divisor_override);
    if (!is_floating(input.dtype()) && input.dtype() != DType::I64) fail_dtype(op, input.dtype());
    if (N == 2 && input.dim() < 3) fail_few_dims(op, input.sizes(), 3);
    check_pooled(op, N, input.sizes());
    Ints sizes = with_spatial(input.sizes(), w.result(op, input.sizes()));
    return map_planes(input, N, sizes, [&] {
      return window_means(w, input.sizes(), sizes, count_include_pad, divisor_override);
    });
  }
  static void vjp(Back& b, const In& input, RL_WINDOWS);
};

template <int N>
struct AdaptiveBackward : PoolOp {
  static constexpr const char* op = N == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
  static Var forward(const Var& grad, const Ints& input_size, const Ints& output_size) {
    check_pooled(op, N, input_size);
    check(output_size.size() == N, op, ": output_size must be ", N, " ints, but got ", output_size);
    check_gradient(op, grad, with_spatial(input_size, output_size));
    auto make_axes = [&] { return grid_means(N, input_size, grad.sizes()); };
    return map_planes(grad, N, input_size, make_axes, true);
  }
  static void vjp(Back& b, const In&, const Ints&, const Ints& output_size);
};

template <int N>
struct Adaptive : PoolOp {
  static constexpr bool whole_history = true;
  static constexpr const char* op = AdaptiveBackward<N>::op;
  static Var forward(const Var& input, const Ints& output_size) {
    check(output_size.size() == N, op, ": output_size must be ", N, " ints, but got ", output_size);
    for (int64_t s : output_size)
      check(s >= 0, op,
            ": elements of output_size must be greater than or equal to 0 but received ",
            output_size);
    check(input.dim() == N + 1 || input.dim() == N + 2, op, "(): Expected ", N + 1, "D or ", N + 2,
          "D tensor, but got ", input.sizes());
    for (int i = input.dim() - N - 1; i < input.dim(); i++)
      check(input.size(i) > 0, op,
            "(): Expected input to have non-zero size for non-batch dimensions, but input has "
            "sizes ",
            input.sizes(), " with dimension ", i, " being empty");
    if (!is_floating(input.dtype())) fail_dtype(op, input.dtype());
    check_range("output_size", output_size);
    Ints sizes = with_spatial(input.sizes(), output_size);
    return map_planes(input, N, sizes, [&] { return grid_means(N, input.sizes(), sizes); });
  }
  static void vjp(Back& b, const In& input, const Ints& output_size);
};

#define RL_AVG_POOL(N)                                                                             \
  struct AvgPool##N##d : Avg<N> {                                                                  \
    static constexpr auto signature =                                                              \
        "avg_pool" #N                                                                              \
        "d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, "                 \
        "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)";          \
    static constexpr auto grad_name = "AvgPool" #N "DBackward0";                                   \
    static constexpr auto doc =                                                                    \
        "avg_pool" #N                                                                              \
        "d(x, kernel_size, stride, padding, ceil_mode, count_include_pad, "                        \
        "divisor_override): the mean of each window over the last " #N " dimensions.";             \
  };                                                                                               \
  RL_OP(AvgPool##N##d)                                                                             \
  struct AvgPool##N##dBackward : AvgBackward<N> {                                                  \
    static constexpr auto signature =                                                              \
        "_avg_pool" #N                                                                             \
        "d_backward(Tensor grad, int[] input_size, int[] kernel_size, "                            \
        "int[]? stride, int[] padding, bool ceil_mode, bool count_include_pad, "                   \
        "int? divisor_override)";                                                                  \
    static constexpr auto grad_name = "AvgPool" #N "DBackwardBackward0";                           \
    static constexpr auto doc =                                                                    \
        "_avg_pool" #N "d_backward(g, input_size, ...): the transpose of avg_pool" #N "d.";        \
  };                                                                                               \
  RL_OP(AvgPool##N##dBackward)                                                                     \
  template <>                                                                                      \
  void Avg<N>::vjp(Back& b, const In& input, RL_WINDOWS) {                                         \
    b[0] = call<AvgPool##N##dBackward>(b.g(), input.sizes(), RL_GIVEN);                            \
  }                                                                                                \
  template <>                                                                                      \
  void AvgBackward<N>::vjp(Back& b, const In&, const Ints&, RL_WINDOWS) {                          \
    b[0] = call<AvgPool##N##d>(b.g(), RL_GIVEN);                                                   \
  }                                                                                                \
  struct AdaptiveAvgPool##N##dGrid : Adaptive<N> {                                                 \
    static constexpr auto signature =                                                              \
        "_adaptive_avg_pool" #N "d(Tensor input, int[] output_size)";                              \
    static constexpr auto grad_name = "AdaptiveAvgPool" #N "DBackward0";                           \
    static constexpr auto doc =                                                                    \
        "_adaptive_avg_pool" #N "d(x, output_size): the means of a grid of windows over x.";       \
  };                                                                                               \
  RL_OP(AdaptiveAvgPool##N##dGrid)                                                                 \
  struct AdaptiveAvgPool##N##dBackward : AdaptiveBackward<N> {                                     \
    static constexpr auto signature =                                                              \
        "_adaptive_avg_pool" #N "d_backward(Tensor grad, int[] input_size, int[] output_size)";    \
    static constexpr auto grad_name = "AdaptiveAvgPool" #N "DBackwardBackward0";                   \
    static constexpr auto doc = "_adaptive_avg_pool" #N                                            \
                                "d_backward(g, input_size, output_size): the transpose of "        \
                                "adaptive_avg_pool" #N "d.";                                       \
  };                                                                                               \
  RL_OP(AdaptiveAvgPool##N##dBackward)                                                             \
  template <>                                                                                      \
  void Adaptive<N>::vjp(Back& b, const In& input, const Ints& output_size) {                       \
    b[0] = call<AdaptiveAvgPool##N##dBackward>(b.g(), input.sizes(), output_size);                 \
  }                                                                                                \
  template <>                                                                                      \
  void AdaptiveBackward<N>::vjp(Back& b, const In&, const Ints&, const Ints& output_size) {        \
    b[0] = call<AdaptiveAvgPool##N##dGrid>(b.g(), output_size);                                    \
  }                                                                                                \
  struct AdaptiveAvgPool##N##d : Composite {                                                       \
    static constexpr auto signature = "adaptive_avg_pool" #N "d(Tensor input, int[] output_size)"; \
    static constexpr Autocast autocast = N == 3 ? Autocast::Full : Autocast::None;                 \
    static constexpr auto module = "nn.functional";                                                \
    static constexpr Family family = Family::Pooling;                                              \
    static constexpr bool out = false;                                                             \
    static constexpr auto doc = "adaptive_avg_pool" #N                                             \
                                "d(x, output_size): the means of a grid of output_size windows "   \
                                "that covers the last " #N " dimensions.";                         \
    static Var forward(const Var& input, const Ints& output_size) {                                \
      return adaptive<N, AdaptiveAvgPool##N##dGrid>(input, output_size);                           \
    }                                                                                              \
  };                                                                                               \
  RL_OP(AdaptiveAvgPool##N##d)

// A grid of one window is a mean.
template <int N, class Grid>
Var adaptive(const Var& input, const Ints& output_size) {
  bool whole = is_floating(input.dtype()) && input.dim() > N && input.numel() > 0;
  for (int64_t s : output_size) whole &= s == 1;
  if (!whole || output_size.size() != N) return call<Grid>(input, output_size);
  Ints dims;
  for (int i = 1; i <= N; i++) dims.push_back(input.dim() - i);
  return suggested(input.get(), ops::mean(input, dims, true));
}

RL_AVG_POOL(2)
RL_AVG_POOL(3)
#undef RL_AVG_POOL
#undef RL_WINDOWS
#undef RL_GIVEN

Ints flat(const Ints& given, const char* op, const char* name, int64_t first) {
  check(given.size() <= 1, op, ": ", name,
        " must either be a single int, or a tuple of one int, but got ", given);
  return given.empty() ? Ints() : Ints{first, given[0]};
}

struct AvgPool1d : Composite {
  static constexpr auto signature =
      "avg_pool1d(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=0, "
      "bool ceil_mode=False, bool count_include_pad=True)";
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static constexpr auto doc =
      "avg_pool1d(x, kernel_size, stride, padding, ceil_mode, count_include_pad): the mean of "
      "each window over the last dimension.";
  static Var forward(const Var& input, const Ints& kernel_size, const std::optional<Ints>& stride,
                     const Ints& padding, bool ceil_mode, bool count_include_pad) {
    check(input.dim() == 2 || input.dim() == 3, "avg_pool1d: Expected 2 to 3 dimensions, but got ",
          input.dim(), "-dimensional tensor for argument #1 'self' (while checking arguments for ",
          "avg_pool1d)");
    Var y = call<AvgPool2d>(ops::unsqueeze(input, -2),
                            flat(kernel_size, "avg_pool1d", "kernel_size", 1),
                            std::optional(flat(stride.value_or(Ints()), "avg_pool1d", "stride", 1)),
                            flat(padding, "avg_pool1d", "padding", 0), ceil_mode, count_include_pad,
                            std::optional<int64_t>());
    return ops::squeeze(y, -2);
  }
};
RL_OP(AvgPool1d)
struct AvgPool1dFunctional : AvgPool1d {
  static constexpr auto module = "nn.functional";
};
RL_OP(AvgPool1dFunctional)

struct AdaptiveAvgPool1d : Composite {
  static constexpr auto signature = "adaptive_avg_pool1d(Tensor input, int[] output_size)";
  static constexpr Family family = Family::Pooling;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static constexpr auto doc =
      "adaptive_avg_pool1d(x, output_size): the means of output_size windows that cover the last "
      "dimension.";
  static Var forward(const Var& input, const Ints& output_size) {
    check(input.dim() == 2 || input.dim() == 3,
          "adaptive_avg_pool1d(): Expected 2D or 3D tensor, but got ", input.sizes());
    check(output_size.size() == 1, "adaptive_avg_pool1d: output_size must be one int, but got ",
          output_size);
    Var y = call<AdaptiveAvgPool2d>(ops::unsqueeze(input, -2), Ints{1, output_size[0]});
    return ops::squeeze(y, -2);
  }
};
RL_OP(AdaptiveAvgPool1d)
struct AdaptiveAvgPool1dFunctional : AdaptiveAvgPool1d {
  static constexpr auto module = "nn.functional";
};
RL_OP(AdaptiveAvgPool1dFunctional)

}  // namespace
}  // namespace rl
