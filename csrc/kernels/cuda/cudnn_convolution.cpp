#include <cstring>
#include <utility>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/cudnn_graph.h"

namespace rl::cuda {

using kernel::Convolution;
using namespace dnn;

namespace {

constexpr int64_t kIds[] = {1, 2, 3};  // of x, w and y

Object tensor(int64_t id, int type, const int64_t* sizes, int dims, bool channels_last,
              int64_t alignment) {
  int64_t strides[5], step = 1;
  auto lay = [&](int i) {
    strides[i] = step;
    step *= sizes[i];
  };
  if (channels_last) lay(1);
  for (int i = dims - 1; i >= 0; i--)
    if (i != 1 || !channels_last) lay(i);
  Object t(kTensor);
  t.set(901, kData, type).set(902, kInt, dims, sizes).set(903, kInt, dims, strides);
  t.set(906, id).set(900, alignment);
  return t;
}

// The one operation.
Drawing draw(Convolve what, const Convolution& c, int type, int64_t alignment) {
  // Two spatial dimensions at least; a leading one of 1 is left out.
  bool flat = c.input[0] == 1 && c.output[0] == 1 && c.kernel[0] == 1 && c.padding[0] == 0;
  int first = flat ? 1 : 0, spatial = 3 - first, dims = spatial + 2;
  int64_t x[5] = {c.batch, c.groups * c.in}, y[5] = {c.batch, c.groups * c.out},
          w[5] = {c.groups * c.out, c.in}, padding[3], stride[3], dilation[3];
  for (int i = 0; i < spatial; i++) {
    size_t at = size_t(first + i);
    x[2 + i] = c.input[at], y[2 + i] = c.output[at], w[2 + i] = c.kernel[at];
    padding[i] = c.padding[at], stride[i] = c.stride[at], dilation[i] = c.dilation[at];
  }
  bool wide = type == kFloat64, last = c.channels_last != 0;
  Drawing drawing;
  Object rule(kConvolution);
  rule.set(100, kData, wide ? kFloat64 : kFloat32).set(101, kConvolutionMode, 1);
  rule.set(106, int64_t(spatial));
  rule.set(102, kInt, spatial, dilation).set(103, kInt, spatial, stride);
  rule.set(104, kInt, spatial, padding).set(105, kInt, spatial, padding);
  const Object& convolution = drawing.part(std::move(rule));
  const Object& image = drawing.part(tensor(kIds[0], type, x, dims, last, alignment));
  const Object& filter = drawing.part(tensor(kIds[1], type, w, dims, last, alignment));
  const Object& result = drawing.part(tensor(kIds[2], type, y, dims, last, alignment));
  // The descriptor, its first attribute (alpha; beta and the convolution follow), and where x, w
  // and y stand.
  struct Layout {
    int kind, alpha, x, w, y;
  };
  static constexpr Layout layouts[] = {
      {10, 700, 704, 703, 705}, {12, 706, 710, 709, 711}, {11, 712, 716, 715, 717}};
  const Layout& l = layouts[int(what)];
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;
  Object operation(l.kind);
  if (wide) {
    operation.set(l.alpha, kDouble, 1, &wide_alpha).set(l.alpha + 1, kDouble, 1, &wide_beta);
  } else {
    operation.set(l.alpha, kFloat, 1, &alpha).set(l.alpha + 1, kFloat, 1, &beta);
  }
  operation.set(l.alpha + 2, convolution).set(l.x, image).set(l.w, filter).set(l.y, result);
  drawing.operation(std::move(operation));
  return drawing;
}

constexpr size_t kWords = sizeof(Convolution) / 8;
static_assert(sizeof(Convolution) % 8 == 0);

}  // namespace

bool convolve_by_library(Convolve what, DType d, const Convolution& c, const void* x, const void* w,
                         const void* y) {
  int type;
  if (!handle() || !type_of(d, type)) return false;
  bool aligned = (uint64_t(x) | uint64_t(w) | uint64_t(y)) % 16 == 0;
  static auto* plans = new Plans<kWords + 1>;
  Plans<kWords + 1>::Key key;
  std::memcpy(key.data(), &c, sizeof c);
  key[kWords] = int64_t(what) | int64_t(d) << 8 | int64_t(cudnn_switches.tf32) << 16 |
                int64_t(repeats()) << 17 | int64_t(aligned) << 18;
  Plan* plan = plans->get(key, d, [&] { return draw(what, c, type, aligned ? 16 : itemsize(d)); });
  const void* places[] = {x, w, y};
  return plan->run(kIds, places, 3);
}

}  // namespace rl::cuda
