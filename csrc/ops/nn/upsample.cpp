// Resampling to a given size. Each op has a private name of its own; nn.functional.interpolate
// chooses among them.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "ops/nn/pooling.h"
#include "ops/nn/resample.h"

namespace rl {

namespace {

using Scale = std::optional<double>;

template <int N>
std::string named(const Ints& sizes) {
  static constexpr const char* names[] = {"D", "H", "W"};
  std::string text;
  for (int i = 0; i < N; i++)
    text += concat(i ? ", " : "", names[3 - N + i], ": ", sizes[sizes.size() - N + i]);
  return text;
}

template <int N>
void check_sizes(const char* op, const Ints& input, const Ints& output) {
  check(output.size() == N, op, ": It is expected output_size equals to ", N, ", but got size ",
        output.size());
  check(input.size() == N + 2, op, ": It is expected input_size equals to ", N + 2,
        ", but got size ", input.size());
  bool positive = true;
  for (int i = 0; i < N; i++) positive &= input[i + 2] > 0 && output[i] > 0;
  check(positive, op, ": Input and output sizes should be greater than 0, but got input (",
        named<N>(input), ") output (", named<N>(output), ")");
  check(input[1] > 0, op, ": Non-empty ", N + 2, "D data tensor expected but got a tensor with ",
        "sizes ", input);
}

template <int N>
kernel::AxisMaps maps_of(Resampling how, const Ints& input, const Ints& output, bool align_corners,
                         const Scale (&scales)[3], bool precise) {
  kernel::AxisMaps axes;
  for (int i = 0; i < 3 - N; i++) {
    axes.emplace_back(1, 1);
    axes.back().add_window(0, 1);
  }
  for (int i = 0; i < N; i++)
    axes.push_back(
        resampling(how, input[i + 2], output[i], align_corners, scales[3 - N + i], precise));
  return axes;
}

// Whole numbers between bytes are rounded.
Var as_bytes(const Var& y) {
  Var rounded = math::floor(y + Var(0.5));
  return ops::to(
      math::call_pointwise("fmin", {math::call_pointwise("fmax", {rounded, Var(0)}), Var(255)}),
      DType::U8);
}

struct Resampled : Linear {
  static constexpr Family family = Family::Resampling;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

template <class Self, Resampling How, int N>
struct Upsample : Resampled {
  static Var forward(const Var& input, const Ints& output_size, bool align_corners, Scale scales_d,
                     Scale scales_h, Scale scales_w) {
    check_sizes<N>(Self::op, input.sizes(), output_size);
    DType d = input.dtype();
    if (!is_floating(d) && d != DType::U8) fail_dtype(Self::op, d);
    bool blends = d == DType::U8 && How > Resampling::NearestExact;
    Var x = ops::to(input, blends ? DType::F32 : d);
    Ints sizes = with_spatial(x.sizes(), output_size);
    Var y = map_planes(x, N, sizes, [&] {
      return maps_of<N>(How, x.sizes(), output_size, align_corners, {scales_d, scales_h, scales_w},
                        d == DType::F64);
    });
    return suggested(input.get(), blends ? as_bytes(y) : y);
  }
  static void vjp(Back& b, const In& input, const Ints& output_size, bool align_corners,
                  Scale scales_d, Scale scales_h, Scale scales_w) {
    b[0] = call<typename Self::Backward>(b.g(), output_size, input.sizes(), align_corners, scales_d,
                                         scales_h, scales_w);
  }
};

template <class Self, Resampling How, int N>
struct UpsampleBackward : Resampled {
  static Var forward(const Var& grad, const Ints& output_size, const Ints& input_size,
                     bool align_corners, Scale scales_d, Scale scales_h, Scale scales_w) {
    check_sizes<N>(Self::op, input_size, output_size);
    check(grad.sizes() == with_spatial(input_size, output_size), Self::op, ": a gradient of ",
          grad.sizes(), " does not belong to a result of ", with_spatial(input_size, output_size));
    DType d = grad.dtype();
    if (!is_floating(d)) fail_dtype(Self::op, d);
    auto make_axes = [&] {
      return maps_of<N>(How, input_size, output_size, align_corners, {scales_d, scales_h, scales_w},
                        d == DType::F64);
    };
    return suggested(grad.get(), map_planes(grad, N, input_size, make_axes, true));
  }
  static void vjp(Back& b, const In&, const Ints& output_size, const Ints&, bool align_corners,
                  Scale scales_d, Scale scales_h, Scale scales_w) {
    b[0] = call<typename Self::Forward>(b.g(), output_size, align_corners, scales_d, scales_h,
                                        scales_w);
  }
};

#define RL_UPSAMPLE(Name, text, How, N)                                                         \
  struct Name##Back;                                                                            \
  struct Name : Upsample<Name, Resampling::How, N> {                                            \
    using Backward = Name##Back;                                                                \
    static constexpr const char* op = text;                                                     \
    static constexpr auto signature =                                                           \
        "_" text                                                                                \
        "(Tensor input, int[] output_size, bool align_corners=False, "                          \
        "float? scales_d=None, float? scales_h=None, float? scales_w=None)";                    \
    static constexpr auto grad_name = #Name "Backward0";                                        \
    static constexpr auto doc =                                                                 \
        "_" text "(x, output_size, align_corners, scales ...): see nn.functional.interpolate."; \
  };                                                                                            \
  struct Name##Back : UpsampleBackward<Name##Back, Resampling::How, N> {                        \
    using Forward = Name;                                                                       \
    static constexpr const char* op = text;                                                     \
    static constexpr auto signature =                                                           \
        "_" text                                                                                \
        "_backward(Tensor grad, int[] output_size, int[] input_size, "                          \
        "bool align_corners, float? scales_d, float? scales_h, float? scales_w)";               \
    static constexpr auto grad_name = #Name "BackwardBackward0";                                \
    static constexpr auto doc = "_" text                                                        \
                                "_backward(g, output_size, input_size, ...): the "              \
                                "transpose of _" text ".";                                      \
  };                                                                                            \
  RL_OP(Name)                                                                                   \
  RL_OP(Name##Back)

RL_UPSAMPLE(UpsampleNearest1D, "upsample_nearest1d", Nearest, 1)
RL_UPSAMPLE(UpsampleNearest2D, "upsample_nearest2d", Nearest, 2)
RL_UPSAMPLE(UpsampleNearest3D, "upsample_nearest3d", Nearest, 3)
RL_UPSAMPLE(UpsampleNearestExact1D, "upsample_nearest_exact1d", NearestExact, 1)
RL_UPSAMPLE(UpsampleNearestExact2D, "upsample_nearest_exact2d", NearestExact, 2)
RL_UPSAMPLE(UpsampleNearestExact3D, "upsample_nearest_exact3d", NearestExact, 3)
RL_UPSAMPLE(UpsampleLinear1D, "upsample_linear1d", Linear, 1)
RL_UPSAMPLE(UpsampleBilinear2D, "upsample_bilinear2d", Linear, 2)
RL_UPSAMPLE(UpsampleTrilinear3D, "upsample_trilinear3d", Linear, 3)
RL_UPSAMPLE(UpsampleBicubic2D, "upsample_bicubic2d", Cubic, 2)
RL_UPSAMPLE(UpsampleBilinear2DAa, "upsample_bilinear2d_aa", LinearAa, 2)
RL_UPSAMPLE(UpsampleBicubic2DAa, "upsample_bicubic2d_aa", CubicAa, 2)
RL_UPSAMPLE(UpsampleLanczos2DAa, "upsample_lanczos2d_aa", LanczosAa, 2)
#undef RL_UPSAMPLE

}  // namespace
}  // namespace rl
