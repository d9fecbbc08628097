// Sliding windows as columns and back, and the shuffles between channels and pixels.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/nn/spatial.h"

namespace rl {

namespace {

// The windows of unfold and fold over planes of two dimensions.
struct Blocks {
  Ints kernel, dilation, padding, stride;

  Blocks(const Ints& kernel_size, const Ints& dilation, const Ints& padding, const Ints& stride)
      : kernel(pair(kernel_size, "kernel_size")),
        dilation(pair(dilation, "dilation")),
        padding(pair(padding, "padding")),
        stride(pair(stride, "stride")) {
    positive(kernel, "kernel size", "kernel");
    positive(this->stride, "stride", "stride");
    positive(this->dilation, "dilation", "dilation");
    check(this->padding[0] >= 0 && this->padding[1] >= 0,
          "padding should be non-negative, but got pad_height: ", this->padding[0],
          " pad_width: ", this->padding[1]);
  }
  // One int was two by the time it came here, as in torch; a tuple of one is refused.
  static Ints pair(const Ints& given, const char* name) {
    check(given.size() == 2, "It is expected ", name, " equals to 2, but got size ", given.size());
    check_range(name, given);
    return given;
  }
  static void positive(const Ints& v, const char* what, const char* name) {
    check(v[0] > 0 && v[1] > 0, what, " should be greater than zero, but got ", name,
          "_height: ", v[0], " ", name, "_width: ", v[1]);
  }
  int64_t count(int i, int64_t size) const {
    int64_t room = size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
    return room < 0 ? 0 : room / stride[i] + 1;
  }
  kernel::Convolution over(int64_t channels, int64_t height, int64_t width) const {
    return {1,
            1,
            channels,
            1,
            {1, height, width},
            {1, count(0, height), count(1, width)},
            {1, kernel[0], kernel[1]},
            {1, stride[0], stride[1]},
            {0, padding[0], padding[1]},
            {1, dilation[0], dilation[1]}};
  }
};

std::string pair_text(const Ints& v) { return concat("(", v[0], ", ", v[1], ")"); }

void check_kind(const char* op, DType d) {
  if (is_integral(d) && d != DType::Bool) fail_dtype(op, d);
}

struct Im2Col : Linear {
  static constexpr auto signature =
      "_im2col(Tensor input, int[] kernel_size, int[] dilation, int[] padding, int[] stride)";
  static constexpr auto grad_name = "Im2ColBackward0";
  static constexpr auto doc =
      "_im2col(x, kernel_size, dilation, padding, stride): the windows of x as columns.";
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, const Ints& kernel_size, const Ints& dilation,
                     const Ints& padding, const Ints& stride) {
    Blocks b(kernel_size, dilation, padding, stride);
    bool fits = input.dim() == 3 || input.dim() == 4;
    for (int i = input.dim() - 3; fits && i < input.dim(); i++) fits &= input.size(i) > 0;
    if (input.dim() < 3) fail_few_dims("unfold", input.sizes(), 3);
    check(fits,
          "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
          "non-zero dimensions for input, but got: ",
          input.sizes());
    check_kind("im2col_out_cpu", input.dtype());
    kernel::Convolution c = b.over(input.size(-3), input.size(-2), input.size(-1));
    check(kernel::volume(c.output) > 0, "unfold: Given input with spatial size (", input.size(-2),
          ", ", input.size(-1), "), kernel_size=", pair_text(b.kernel),
          ", dilation=", pair_text(b.dilation), ", padding=", pair_text(b.padding),
          ", calculated shape of the array of sliding blocks as (", c.output[1], ", ", c.output[2],
          "), but its components must be at least one.");
    Ints sizes{c.in * kernel::volume(c.kernel), kernel::volume(c.output)};
    if (input.dim() == 4) sizes.insert(0, input.size(0));
    Var x = ops::contiguous(input), y = empty(sizes, x.dtype(), x.device());
    int64_t batch = input.dim() == 4 ? input.size(0) : 1, item = itemsize(x.dtype());
    Launch launch(double(y.numel()), {x.get(), y.get()});
    for (int64_t n = 0; n < batch; n++)
      on(x).unfold(x.dtype(), c, x->data() + n * c.in * kernel::volume(c.input) * item,
                   y->data() + n * sizes[sizes.size() - 2] * sizes.back() * item);
    return y;
  }
  static void vjp(Back& b, const In& input, const Ints& kernel_size, const Ints& dilation,
                  const Ints& padding, const Ints& stride);
};
RL_OP(Im2Col)

struct Col2Im : Linear {
  static constexpr auto signature =
      "_col2im(Tensor input, int[] output_size, int[] kernel_size, int[] dilation, "
      "int[] padding, int[] stride)";
  static constexpr auto grad_name = "Col2ImBackward0";
  static constexpr auto doc =
      "_col2im(columns, output_size, kernel_size, dilation, padding, stride): the sum of the "
      "windows where they came from.";
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, const Ints& output_size, const Ints& kernel_size,
                     const Ints& dilation, const Ints& padding, const Ints& stride) {
    Blocks b(kernel_size, dilation, padding, stride);
    check(output_size.size() == 2, "It is expected output_size equals to 2, but got size ",
          output_size.size());
    check(output_size[0] > 0 && output_size[1] > 0,
          "fold: Expected output spatial size to be positive, but got: output_size=",
          pair_text(output_size));
    check_range("output_size", output_size);
    bool fits = input.dim() == 2 || input.dim() == 3;
    for (int i = input.dim() - 2; fits && i < input.dim(); i++) fits &= input.size(i) > 0;
    check(fits,
          "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
          "non-zero dimensions for input, but got: ",
          input.sizes());
    int64_t taps = b.kernel[0] * b.kernel[1], rows = input.size(-2);
    check(rows % taps == 0,
          "fold: Expected size of input's dimension 1 to be divisible by the product of "
          "kernel_size, but got input.size(1)=",
          rows, " and kernel_size=", pair_text(b.kernel), ".");
    check_kind("col2im_out_cpu", input.dtype());
    if (input.dtype() == DType::Bool) fail_dtype("col2im_out_cpu", DType::Bool);
    kernel::Convolution c = b.over(rows / taps, output_size[0], output_size[1]);
    check(kernel::volume(c.output) == input.size(-1),
          "fold: Given output_size=", pair_text(output_size), ", kernel_size=", pair_text(b.kernel),
          ", dilation=", pair_text(b.dilation), ", padding=", pair_text(b.padding),
          ", stride=", pair_text(b.stride),
          ", expected size of input's dimension 2 to match the calculated number of sliding "
          "blocks ",
          c.output[1], " * ", c.output[2], " = ", kernel::volume(c.output),
          ", but got input.size(2)=", input.size(-1), ".");
    Ints sizes{c.in, output_size[0], output_size[1]};
    if (input.dim() == 3) sizes.insert(0, input.size(0));
    DType d = input.dtype(), work = compute_type(d);
    Var x = dense_as(input, work), y = ops::zeros(sizes, work, input.device());
    int64_t batch = input.dim() == 3 ? input.size(0) : 1, item = itemsize(work);
    {
      Launch launch(double(x.numel()), {x.get(), y.get()});
      for (int64_t n = 0; n < batch; n++)
        on(x).fold(work, c, x->data() + n * rows * x.size(-1) * item,
                   y->data() + n * c.in * kernel::volume(c.input) * item);
    }
    return ops::to(y, d);
  }
  static void vjp(Back& b, const In&, const Ints&, const Ints& kernel_size, const Ints& dilation,
                  const Ints& padding, const Ints& stride) {
    b[0] = call<Im2Col>(b.g(), kernel_size, dilation, padding, stride);
  }
};
RL_OP(Col2Im)

void Im2Col::vjp(Back& b, const In& input, const Ints& kernel_size, const Ints& dilation,
                 const Ints& padding, const Ints& stride) {
  b[0] = call<Col2Im>(b.g(), last_of(input.sizes(), 2), kernel_size, dilation, padding, stride);
}

// The shuffles move whole elements: reshape, permute, reshape.
Var shuffled(const Var& x, const Ints& split, const Ints& order, const Ints& sizes) {
  Var rows = ops::contiguous(ops::reshape(ops::permute(ops::reshape(x, split), order), sizes));
  if (rows->storage == x->storage) rows = ops::clone(rows);
  return x.dim() == 4 ? suggested(x.get(), rows) : rows;
}

struct Shuffle : Linear {
  static constexpr Family family = Family::Shuffle;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

struct PixelShuffle : Shuffle {
  static constexpr auto signature = "pixel_shuffle(Tensor input, int upscale_factor)";
  static constexpr auto doc =
      "pixel_shuffle(x, r): r * r channels become blocks of r x r pixels of one.";
  static Var forward(const Var& input, int64_t upscale_factor) {
    int64_t r = upscale_factor;
    int n = input.dim();
    check(n >= 3, "pixel_shuffle expects input to have at least 3 dimensions, but got input with ",
          n, " dimension(s)");
    check(r > 0, "pixel_shuffle expects a positive upscale_factor, but got ", r);
    check(r <= (int64_t(1) << 31) && input.size(-3) % (r * r) == 0,
          "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
          "upscale_factor, but input.size(-3)=",
          input.size(-3), " is not divisible by ", r * r);
    int64_t c = input.size(-3) / (r * r), h = input.size(-2), w = input.size(-1);
    Ints sizes(input.sizes().data(), n - 3), split = sizes, order;
    for (int64_t s : {c, h * r, w * r}) sizes.push_back(s);
    for (int64_t s : {c, r, r, h, w}) split.push_back(s);
    for (int i = 0; i < n - 3; i++) order.push_back(i);
    for (int i : {0, 3, 1, 4, 2}) order.push_back(n - 3 + i);
    return shuffled(input, split, order, sizes);
  }
  static void vjp(Back& b, const In&, int64_t upscale_factor);
};
RL_OP(PixelShuffle)

struct PixelUnshuffle : Shuffle {
  static constexpr auto signature = "pixel_unshuffle(Tensor input, int downscale_factor)";
  static constexpr auto doc =
      "pixel_unshuffle(x, r): blocks of r x r pixels become r * r channels; undoes pixel_shuffle.";
  static Var forward(const Var& input, int64_t downscale_factor) {
    int64_t r = downscale_factor;
    int n = input.dim();
    check(n >= 3,
          "pixel_unshuffle expects input to have at least 3 dimensions, but got input with ", n,
          " dimension(s)");
    check(r > 0, "pixel_unshuffle expects a positive downscale_factor, but got ", r);
    check(input.size(-2) % r == 0,
          "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=",
          input.size(-2), " is not divisible by ", r);
    check(input.size(-1) % r == 0,
          "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=",
          input.size(-1), " is not divisible by ", r);
    int64_t c = input.size(-3), h = input.size(-2) / r, w = input.size(-1) / r;
    Ints sizes(input.sizes().data(), n - 3), split = sizes, order;
    for (int64_t s : {c * r * r, h, w}) sizes.push_back(s);
    for (int64_t s : {c, h, r, w, r}) split.push_back(s);
    for (int i = 0; i < n - 3; i++) order.push_back(i);
    for (int i : {0, 2, 4, 1, 3}) order.push_back(n - 3 + i);
    return shuffled(input, split, order, sizes);
  }
  static void vjp(Back& b, const In&, int64_t downscale_factor) {
    b[0] = call<PixelShuffle>(b.g(), downscale_factor);
  }
};
RL_OP(PixelUnshuffle)

void PixelShuffle::vjp(Back& b, const In&, int64_t upscale_factor) {
  b[0] = call<PixelUnshuffle>(b.g(), upscale_factor);
}

struct ChannelShuffle : Shuffle {
  static constexpr auto signature = "channel_shuffle(Tensor input, int groups)";
  static constexpr auto doc =
      "channel_shuffle(x, groups): the channels of each group dealt out in turn.";
  static Var forward(const Var& input, int64_t groups) {
    check(input.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ",
          input.sizes());
    check(groups > 0,
          "Number of groups to divide channels in must be positive. Value of groups:", groups);
    int64_t c = input.size(1);
    check(c % groups == 0, "Number of channels must be divisible by groups. Got ", c,
          " channels and ", groups, " groups.");
    Ints split{input.size(0), groups, c / groups}, order{0, 2, 1};
    for (int i = 2; i < input.dim(); i++) {
      split.push_back(input.size(i));
      order.push_back(i + 1);
    }
    return shuffled(input, split, order, input.sizes());
  }
  static void vjp(Back& b, const In& input, int64_t groups) {
    b[0] = call<ChannelShuffle>(b.g(), std::max<int64_t>(input.size(1) / groups, 1));
  }
};
RL_OP(ChannelShuffle)

struct PixelShuffleFunctional : PixelShuffle {
  static constexpr auto module = "nn.functional";
};
RL_OP(PixelShuffleFunctional)
struct PixelUnshuffleFunctional : PixelUnshuffle {
  static constexpr auto module = "nn.functional";
};
RL_OP(PixelUnshuffleFunctional)
struct ChannelShuffleFunctional : ChannelShuffle {
  static constexpr auto module = "nn.functional";
};
RL_OP(ChannelShuffleFunctional)

}  // namespace
}  // namespace rl
