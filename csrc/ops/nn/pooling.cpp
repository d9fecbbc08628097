// What pooling ops check.
#include "ops/nn/pooling.h"

#include "call/broadcast.h"
#include "call/layout.h"

namespace rl {

namespace {

Ints each(const char* op, const char* name, int dims, const Ints& given) {
  if (given.size() == dims) return given;
  static constexpr const char* words[] = {"one int", "two ints", "three ints"};
  check(given.size() == 1, op, ": ", name, " must either be a single int, or a tuple of ",
        words[dims - 1], ", but got ", given);
  return Ints(dims, given[0]);
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

}  // namespace

Windows::Windows(const char* op, int dims, const Ints& kernel, const Ints& stride,
                 const Ints& padding, const Ints& dilation, bool ceil_mode)
    : kernel(each(op, "kernel_size", dims, kernel)),
      stride(stride.empty() ? this->kernel : each(op, "stride", dims, stride)),
      padding(each(op, "padding", dims, padding)),
      dilation(each(op, "dilation", dims, dilation)),
      ceil_mode(ceil_mode),
      dims(dims) {
  check_range("kernel_size", this->kernel);
  check_range("stride", this->stride);
  check_range("dilation", this->dilation);
  check_range("padding", this->padding);
  for (int i = 0; i < dims; i++) {
    int64_t k = this->kernel[i], s = this->stride[i], p = this->padding[i], d = this->dilation[i];
    check(s != 0, op, ": stride should not be zero, but got kernel_size=", this->kernel,
          ", stride=", this->stride);
    check(s > 0, op, ": stride should be greater than zero, but got stride=", this->stride);
    check(k > 0, op,
          ": kernel size should be greater than zero, but got kernel_size=", this->kernel);
    check(d > 0, op, ": dilation should be greater than zero, but got dilation=", this->dilation);
    check(p >= 0, op, ": pad must be non-negative, but got pad: ", p);
    check(p <= (d * (k - 1) + 1) / 2, op,
          ": pad should be at most half of effective kernel size, but got pad=", p,
          ", kernel_size=", k, " and dilation=", d);
  }
}

Ints Windows::result(const char* op, const Ints& input) const {
  Ints sizes(dims);
  bool fits = true;
  for (int i = 0; i < dims; i++) {
    int64_t in = input[input.size() - dims + i];
    int64_t room = in + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
    int64_t n = floor_div(room + (ceil_mode ? stride[i] - 1 : 0), stride[i]) + 1;
    // The last window starts inside the input or its left padding.
    if (ceil_mode && (n - 1) * stride[i] >= in + padding[i]) n--;
    sizes[i] = n;
    fits &= n >= 1;
  }
  if (!fits) {
    Ints before = last_of(input, dims), after(dims);
    for (int i = 0; i < dims; i++) after[i] = std::max<int64_t>(sizes[i], 0);
    int64_t channels = input[input.size() - dims - 1];
    before.insert(0, channels);
    after.insert(0, channels);
    fail(op, ": Given input size: (", times(before, "x"), "). Calculated output size: (",
         times(after, "x"), "). Output size is too small: the windows of kernel_size=", kernel,
         " do not fit");
  }
  return sizes;
}

kernel::Pooling Windows::over(const Ints& input, const Ints& output) const {
  return {planes_of(input, dims),   spatial_extent(input, dims), spatial_extent(output, dims),
          extent(kernel, dims, 1),  extent(stride, dims, 1),     extent(padding, dims, 0),
          extent(dilation, dims, 1)};
}

void check_pooled(const char* op, int dims, const Ints& input) {
  bool fits = input.size() == dims + 1 || input.size() == dims + 2;
  for (int i = fits && input.size() == dims + 2 ? 1 : 0; fits && i < input.size(); i++)
    fits &= input[i] > 0;
  check(fits, op, ": Expected ", dims + 1, "D or ", dims + 2,
        "D (batch mode) tensor with optional 0 dim batch size for input, but got:", input);
}

Ints with_spatial(const Ints& input, const Ints& spatial) {
  Ints sizes = input;
  for (int i = 0; i < spatial.size(); i++) sizes[sizes.size() - spatial.size() + i] = spatial[i];
  return sizes;
}

Var map_planes(const Var& x, int dims, const Ints& sizes,
               const std::function<kernel::AxisMaps()>& make_axes, bool transposed) {
  check(!transposed || is_differentiable(x.dtype()), "gradients are floating, not ",
        info(x.dtype()).tensor_name);
  MemoryFormat format = dims == 2 ? suggested_format(x.get()) : MemoryFormat::Contiguous;
  Var from = dense_in(format, x, x.dtype()), to = empty_in(format, sizes, x.dtype(), x.device());
  if (from.numel() == 0 || to.numel() == 0) {
    ops::fill_data(to.get(), 0);
    return to;
  }
  kernel::AxisMaps axes = make_axes();
  int64_t planes = planes_of(sizes, dims);
  if (format != MemoryFormat::Contiguous) {
    // An image with the channels innermost is a volume whose last dimension stays as it is.
    planes = sizes[0];
    axes.erase(axes.begin());
    kernel::AxisMap& channels = axes.emplace_back(sizes[1], sizes[1]);
    for (int64_t c = 0; c < sizes[1]; c++) channels.add_window(c, c + 1);
  }
  Launch launch(double(from.numel() + to.numel()) * 4, {from.get(), to.get()});
  auto run = transposed ? on(x).map_axes_transposed : on(x).map_axes;
  run(x.dtype(), planes, axes, from->data(), to->data());
  return to;
}

int64_t planes_of(const Ints& sizes, int dims) {
  int64_t n = 1;
  for (int i = 0; i < sizes.size() - dims; i++) n *= sizes[i];
  return n;
}

}  // namespace rl
