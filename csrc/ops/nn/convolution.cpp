// Convolutions. Three bilinear maps are closed under differentiation: the convolution, its transpose
// and the gradient of the weights (docs/design/convolution.md).
#include "kernels/kernels.h"

#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "ops/nn/spatial.h"

namespace rl {

namespace {

// One int for all dimensions, or one for each.
Ints each(const Ints& given, int dims, const char* name) {
  if (given.size() == dims) return given;
  check(given.size() == 1, "expected ", name, " to be a single integer value or a list of ", dims,
        " values to match the convolution dimensions, but got ", name, "=", given);
  return Ints(dims, given[0]);
}

bool any_below(const Ints& values, int64_t least) {
  for (int64_t v : values)
    if (v < least) return true;
  return false;
}

// The parameters of a convolution with one entry for each spatial dimension, and their checks.
struct Geometry {
  Ints stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
  int dims;

  Geometry(int dims, const Ints& stride, const Ints& padding, const Ints& dilation, bool transposed,
           const Ints& output_padding, int64_t groups)
      : stride(each(stride, dims, "stride")),
        padding(each(padding, dims, "padding")),
        dilation(each(dilation, dims, "dilation")),
        output_padding(each(output_padding, dims, "output_padding")),
        transposed(transposed),
        groups(groups),
        dims(dims) {
    check(!any_below(this->padding, 0), "negative padding is not supported: padding=", padding);
    check(!any_below(this->output_padding, 0),
          "negative output_padding is not supported: output_padding=", output_padding);
    check(!any_below(this->stride, 1), "non-positive stride is not supported: stride=", stride);
    check(!any_below(this->dilation, 1),
          "non-positive dilation is not supported: dilation=", dilation);
    check_range("padding", this->padding);
    check_range("output_padding", this->output_padding);
    check_range("stride", this->stride);
    check_range("dilation", this->dilation);
    check(groups > 0, "non-positive groups is not supported: groups=", groups);
  }

  void check_tensors(const Var& input, const Var& weight, const Var& bias) const {
    int wanted = dims + 2;
    check(input.dim() == wanted, "Expected ", wanted, "-dimensional input for ", wanted,
          "-dimensional weight ", weight.sizes(), ", but got ", input.dim(),
          "-dimensional input of size ", input.sizes(), " instead");
    const char* sort = transposed ? "Given transposed=1, weight of size " : "weight of size ";
    check(weight.size(0) >= groups, "Given groups=", groups, ", expected weight to be at least ",
          groups, " at dimension 0, but got weight of size ", weight.sizes(), " instead");
    check(weight.size(0) % groups == 0, "Given groups=", groups,
          ", expected weight to be divisible by ", groups,
          " at dimension 0, but got weight of size [", weight.sizes(), "] instead");
    int64_t in = transposed ? weight.size(0) : weight.size(1) * groups;
    int64_t out = transposed ? weight.size(1) * groups : weight.size(0);
    if (input.size(1) != in) {
      if (transposed)
        fail(sort, weight.sizes(), ", expected input", input.sizes(), " to have ", in,
             " channels, but got ", input.size(1), " channels instead");
      fail("Given groups=", groups, ", weight of size ", weight.sizes(), ", expected input",
           input.sizes(), " to have ", in, " channels, but got ", input.size(1),
           " channels instead");
    }
    check(!bias || (bias.dim() == 1 && bias.size(0) == out),
          transposed ? sort : "Given weight of size ", weight.sizes(),
          ", expected bias to be 1-dimensional with ", out, " elements, but got bias of size ",
          bias ? bias.sizes() : Ints(), " instead");
    check_types(input, weight, bias);
  }

  static void check_types(const Var& input, const Var& weight, const Var& bias) {
    DType d = input.dtype();
    check(weight.dtype() == d, "Input type (torch.", info(d).tensor_name,
          "Tensor) and weight type (torch.", info(weight.dtype()).tensor_name,
          "Tensor) should be the same: convert one of them with .to()");
    check(!bias || bias.dtype() == d, "Input type (", name(d), ") and bias type (",
          bias ? name(bias.dtype()) : "", ") should be the same: convert one of them with .to()");
    if (d == DType::Bool) fail_dtype("slow_conv2d_cpu", d);
  }

  // The spatial sizes of the result.
  Ints result(const Ints& input, const Ints& kernel) const {
    check(!any_below(kernel, 1), "kernel size should be greater than zero, but got ",
          times(kernel));
    Ints sizes(dims), padded(dims);
    for (int i = 0; i < dims; i++) {
      int64_t span = dilation[i] * (kernel[i] - 1) + 1;
      padded[i] = input[i] + 2 * padding[i];
      sizes[i] = transposed ? (input[i] - 1) * stride[i] - 2 * padding[i] + span + output_padding[i]
                            : (padded[i] - span) / stride[i] + 1;
      if (!transposed && padded[i] < span) {
        Ints spans(dims);
        for (int k = 0; k < dims; k++) spans[k] = dilation[k] * (kernel[k] - 1) + 1;
        for (int k = i; k < dims; k++) padded[k] = input[k] + 2 * padding[k];
        fail("Calculated padded input size per channel: (", times(padded), "). Kernel size: (",
             times(spans), "). Kernel size can't be greater than actual input size");
      }
    }
    if (transposed) {
      check(!any_below(input, 1),
            "Only zero batch or zero channel inputs are supported, but got input with spatial "
            "size (",
            times(input), ")");
      check(!any_below(sizes, 1), "Given input size per channel: (", times(input),
            "). Calculated output size per channel: (", times(sizes),
            "). Output size is too small: padding=", padding, " takes off more than there is");
    }
    return sizes;
  }
};

// The plain convolution from `large` to `small`, whatever is computed from what.
kernel::Convolution shape_of(const Geometry& g, int64_t batch, const Ints& large, const Ints& small,
                             const Ints& weight) {
  int n = g.dims;
  kernel::Convolution c{batch,
                        g.groups,
                        weight[1],
                        weight[0] / g.groups,
                        spatial_extent(large, n),
                        spatial_extent(small, n),
                        spatial_extent(weight, n),
                        extent(g.stride, n, 1),
                        extent(g.padding, n, 0),
                        extent(g.dilation, n, 1)};
  // Steps that are never taken may be any.
  for (size_t i = 0; i < 3; i++) {
    if (c.output[i] == 1) c.stride[i] = 1;
    if (c.kernel[i] == 1) c.dilation[i] = 1;
  }
  return c;
}

MemoryFormat format_of_both(const Var& a, const Var& b) {
  MemoryFormat format = suggested_format(a.get());
  return format == MemoryFormat::Contiguous ? suggested_format(b.get()) : format;
}
// The format that the device takes tensors in that lie in this one.
MemoryFormat taken_by(const Var& input, MemoryFormat format) {
  return on(input).channels_last ? format : MemoryFormat::Contiguous;
}

double work_of(const kernel::Convolution& c) {
  return double(c.batch * c.groups) * double(c.in * c.out) * double(kernel::volume(c.kernel)) *
         double(kernel::volume(c.output));
}

// The first `sizes` of each spatial dimension.
Var cropped(Var x, const Ints& sizes) {
  for (int i = 2; i < x.dim(); i++)
    if (x.size(i) > sizes[i]) x = ops::narrow(x, i, 0, sizes[i]);
  return x;
}

// All samples of [batch, channels, *spatial] as one tensor whose channels they divide.
Var by_channels(const HiddenDims& hidden, const Var& v) {
  Ints sizes = v.sizes();
  sizes[1] *= hidden.samples();
  Ints split = v.sizes();
  split.insert(0, hidden.samples());
  Var rows = ops::reshape(hidden.front(v), split);
  return ops::reshape(ops::contiguous(ops::transpose(rows, 0, 1)), sizes);
}

// Weights or biases of all samples one after the other.
Var in_a_row(const HiddenDims& hidden, const Var& v) {
  if (!v) return v;
  Ints sizes = v.sizes();
  sizes[0] *= hidden.samples();
  return ops::reshape(hidden.front(v), sizes);
}

// What stands for a tensor that is batched over no samples.
Var unbatched(const Var& v) {
  return batch_of(v.get()) ? ops::zeros(v.sizes(), v.dtype(), v.device()) : v;
}

// Takes the samples apart that by_channels put together.
Var from_channels(const HiddenDims& hidden, const Var& y) {
  Ints split = y.sizes();
  split[1] /= hidden.samples();
  Ints sizes = hidden.prefixed(split);
  split.insert(1, hidden.samples());
  return ops::reshape(ops::contiguous(ops::transpose(ops::reshape(y, split), 0, 1)), sizes);
}

Var weight_gradient(const Var& input, const Var& grad, const Ints& kernel, const Geometry& g);
Var convolved(const Var& input, const Var& weight, const Var& bias, const Geometry& g);

// The transpose of the convolution, onto a tensor of these sizes.
Var transposed_onto(const Ints& sizes, const Var& grad, const Var& weight, Geometry g) {
  for (int i = 0; i < g.dims; i++) {
    int64_t reach = (grad.size(i + 2) - 1) * g.stride[i] - 2 * g.padding[i] +
                    g.dilation[i] * (weight.size(i + 2) - 1) + 1;
    g.output_padding[i] = sizes[i + 2] - reach;
  }
  g.transposed = true;
  return convolved(grad, weight, {}, g);
}

void check_dims(const Var& weight) {
  check(weight.dim() >= 3 && weight.dim() <= 5,
        "convolution: expected weight of 3 to 5 dimensions, but got weight of size ",
        weight.sizes());
}

struct Convolve : General {
  static constexpr auto signature =
      "_convolve(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
      "int[] dilation, bool transposed, int[] output_padding, int groups)";
  static constexpr auto grad_name = "ConvolutionBackward0";
  static constexpr auto doc =
      "_convolve(x, weight, bias, ...): convolution without torch's limit on output_padding.";
  static constexpr auto saves = "weight|input|";
  static constexpr bool whole_history = true;
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, const Var& weight, const Var& bias, const Ints& stride,
                     const Ints& padding, const Ints& dilation, bool transposed,
                     const Ints& output_padding, int64_t groups) {
    check_dims(weight);
    int dims = weight.dim() - 2;
    Geometry g(dims, stride, padding, dilation, transposed, output_padding, groups);
    g.check_tensors(input, weight, bias);
    Ints sizes = g.result(last_of(input.sizes(), dims), last_of(weight.sizes(), dims));
    sizes.insert(0, transposed ? weight.size(1) * groups : weight.size(0));
    sizes.insert(0, input.size(0));
    DType d = input.dtype(), work = layer_type(input);
    MemoryFormat format = format_of_both(input, weight), taken = taken_by(input, format);
    Var x = dense_in(taken, input, work), w = dense_in(taken, weight, work),
        b = dense_as(bias, work), y = empty_in(taken, sizes, work, input.device());
    if (y.numel() == 0) return in_format(format, ops::to(y, d));
    kernel::Convolution c = transposed ? shape_of(g, x.size(0), y.sizes(), x.sizes(), w.sizes())
                                       : shape_of(g, x.size(0), x.sizes(), y.sizes(), w.sizes());
    c.channels_last = taken != MemoryFormat::Contiguous;
    {
      Launch launch(work_of(c), {x.get(), w.get(), b.get(), y.get()});
      auto run = transposed ? on(x).convolve_transposed : on(x).convolve;
      run(work, c, x->data(), w->data(), b ? b->data() : nullptr, y->data());
    }
    return in_format(format, ops::to(y, d));
  }

  // Samples that share their weights are a larger batch; others are groups.
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& weight, const Var& bias,
                     const Ints& stride, const Ints& padding, const Ints& dilation, bool transposed,
                     const Ints& output_padding, int64_t groups) {
    check_dims(weight);
    Geometry(weight.dim() - 2, stride, padding, dilation, transposed, output_padding, groups)
        .check_tensors(input, weight, bias);
    if (hidden.samples() > 0 && (batch_of(weight.get()) || batch_of(bias.get())))
      return from_channels(hidden, forward(by_channels(hidden, input), in_a_row(hidden, weight),
                                           in_a_row(hidden, bias), stride, padding, dilation,
                                           transposed, output_padding, groups * hidden.samples()));
    Var y = forward(in_a_row(hidden, input), unbatched(weight), unbatched(bias), stride, padding,
                    dilation, transposed, output_padding, groups);
    Ints sizes = y.sizes();
    sizes[0] = input.size(0);
    return ops::reshape(y, hidden.prefixed(sizes));
  }

  static void vjp(Back& b, const In& input, const In& weight, const In&, const Ints& stride,
                  const Ints& padding, const Ints& dilation, bool transposed,
                  const Ints& output_padding, int64_t groups) {
    Geometry g(weight.dim() - 2, stride, padding, dilation, transposed, output_padding, groups);
    if (b.wants(0)) {
      Var w = math::conj(*weight);
      g.transposed = false;
      b[0] = transposed ? cropped(convolved(b.g(), w, {}, g), input.sizes())
                        : transposed_onto(input.sizes(), b.g(), w, g);
    }
    if (b.wants(1)) {
      Var x = math::conj(*input);
      Ints kernel = last_of(weight.sizes(), g.dims);
      b[1] =
          transposed ? weight_gradient(b.g(), x, kernel, g) : weight_gradient(x, b.g(), kernel, g);
    }
    if (b.wants(2)) {
      Ints dims{0};
      for (int i = 2; i < input.dim(); i++) dims.push_back(i);
      b[2] = ops::sum(b.g(), dims, false);
    }
  }

  static void jvp(Push& p, const Var& input, const Var& weight, const Var&, const Ints& stride,
                  const Ints& padding, const Ints& dilation, bool transposed,
                  const Ints& output_padding, int64_t groups) {
    Geometry g(weight.dim() - 2, stride, padding, dilation, transposed, output_padding, groups);
    if (p.t(0)) p.add(convolved(p.t(0), weight, {}, g));
    if (p.t(1)) p.add(convolved(input, p.t(1), {}, g));
    if (!p.t(2)) return;
    Ints sizes(g.dims + 1, 1);
    sizes[0] = p.t(2).size(0);
    p.add(ops::expand(ops::reshape(p.t(2), sizes), p.out().sizes()));
  }
};
RL_OP(Convolve)

Var convolved(const Var& input, const Var& weight, const Var& bias, const Geometry& g) {
  Ints none(g.dims, 0);
  return call<Convolve>(input, weight, bias, g.stride, g.padding, g.dilation, g.transposed,
                        g.transposed ? g.output_padding : none, g.groups);
}

struct ConvolveWeight : Bilinear {
  static constexpr auto signature =
      "_convolve_weight(Tensor input, Tensor grad, int[] kernel_size, int[] stride, "
      "int[] padding, int[] dilation, int groups)";
  static constexpr auto grad_name = "ConvolutionBackwardBackward0";
  static constexpr auto doc =
      "_convolve_weight(x, g, kernel_size, ...): the gradient of a convolution's weights.";
  static constexpr auto saves = "grad|input";
  static constexpr bool method = false;
  static constexpr bool out = false;

  static Var forward(const Var& input, const Var& grad, const Ints& kernel, const Ints& stride,
                     const Ints& padding, const Ints& dilation, int64_t groups) {
    int dims = input.dim() - 2;
    check(dims >= 1 && dims <= 3 && grad.dim() == dims + 2 && kernel.size() == dims &&
              input.size(0) == grad.size(0),
          "_convolve_weight: sizes do not fit: input ", input.sizes(), ", grad ", grad.sizes(),
          ", kernel_size=", kernel);
    Geometry g(dims, stride, padding, dilation, false, {0}, groups);
    check(input.size(1) % groups == 0 && grad.size(1) % groups == 0,
          "_convolve_weight: groups=", groups, " does not divide the channels of ", input.sizes(),
          " and ", grad.sizes());
    Ints most = g.result(last_of(input.sizes(), dims), kernel);
    for (int i = 0; i < dims; i++)
      check(grad.size(i + 2) <= most[i], "_convolve_weight: grad ", grad.sizes(),
            " is larger than the convolution's result of ", times(most));
    Geometry::check_types(input, grad, {});
    Ints sizes = kernel;
    sizes.insert(0, input.size(1) / groups);
    sizes.insert(0, grad.size(1));
    DType d = input.dtype(), work = layer_type(input);
    MemoryFormat taken = taken_by(input, format_of_both(input, grad));
    Var x = dense_in(taken, input, work), y = dense_in(taken, grad, work);
    if (x.numel() == 0 || y.numel() == 0) return ops::zeros(sizes, d, input.device());
    Var w = empty_in(taken, sizes, work, input.device());
    kernel::Convolution c = shape_of(g, x.size(0), x.sizes(), y.sizes(), sizes);
    c.channels_last = taken != MemoryFormat::Contiguous;
    {
      Launch launch(work_of(c), {x.get(), y.get(), w.get()});
      on(x).convolve_weight(work, c, x->data(), y->data(), w->data());
    }
    return ops::to(w, d);
  }

  static Var batched(const HiddenDims& hidden, const Var& input, const Var& grad,
                     const Ints& kernel, const Ints& stride, const Ints& padding,
                     const Ints& dilation, int64_t groups) {
    check(input.dim() >= 3 && grad.dim() >= 3, "_convolve_weight: sizes do not fit: input ",
          input.sizes(), ", grad ", grad.sizes());
    if (hidden.samples() == 0) {
      Ints sizes =
          forward(unbatched(input), unbatched(grad), kernel, stride, padding, dilation, groups)
              .sizes();
      return ops::zeros(hidden.prefixed(sizes), input.dtype(), input.device());
    }
    Var w = forward(by_channels(hidden, input), by_channels(hidden, grad), kernel, stride, padding,
                    dilation, groups * hidden.samples());
    Ints sizes = w.sizes();
    sizes[0] = grad.size(1);
    return ops::reshape(w, hidden.prefixed(sizes));
  }

  static void vjp(Back& b, const In& input, const In& grad, const Ints&, const Ints& stride,
                  const Ints& padding, const Ints& dilation, int64_t groups) {
    Geometry g(input.dim() - 2, stride, padding, dilation, false, {0}, groups);
    if (b.wants(0)) b[0] = transposed_onto(input.sizes(), math::conj(*grad), b.g(), g);
    if (b.wants(1)) b[1] = cropped(convolved(math::conj(*input), b.g(), {}, g), grad.sizes());
  }
};
RL_OP(ConvolveWeight)

Var weight_gradient(const Var& input, const Var& grad, const Ints& kernel, const Geometry& g) {
  return call<ConvolveWeight>(input, grad, kernel, g.stride, g.padding, g.dilation, g.groups);
}

void check_output_padding(const Geometry& g) {
  bool fits = true;
  for (int i = 0; i < g.dims; i++)
    fits &= g.output_padding[i] < std::max(g.stride[i], g.dilation[i]);
  check(fits, "output padding must be smaller than either stride or dilation, but got ",
        "output_padding=", g.output_padding, " stride=", g.stride, " dilation=", g.dilation);
}

struct Convolution : Composite {
  static constexpr auto signature =
      "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
      "int[] dilation, bool transposed, int[] output_padding, int groups)";
  static constexpr auto doc =
      "convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, "
      "groups): the convolution of any number of dimensions behind conv1d to conv_transpose3d.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Ints& stride,
                     const Ints& padding, const Ints& dilation, bool transposed,
                     const Ints& output_padding, int64_t groups) {
    check_dims(weight);
    Geometry g(weight.dim() - 2, stride, padding, dilation, transposed, output_padding, groups);
    if (transposed) check_output_padding(g);
    return convolved(input, weight, bias, g);
  }
};
RL_OP(Convolution)

// The input with a batch, and the result without one if the input had none.
template <int N, class F>
Var batched(const char* op, const Var& input, const Var& weight, const F& run) {
  check(input.dim() == N + 1 || input.dim() == N + 2, "Expected ", N + 1, "D (unbatched) or ",
        N + 2, "D (batched) input to ", op, ", but got input of size: ", input.sizes());
  check(weight.dim() == N + 2, op, ": expected weight of ", N + 2,
        " dimensions, but got weight of size ", weight.sizes());
  if (input.dim() == N + 2) return run(input);
  return ops::squeeze(run(ops::unsqueeze(input, 0)), 0);
}

struct ConvBase : Composite {
  static constexpr Family family = Family::Convolution;
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

template <int N>
struct Conv : ConvBase {
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Ints& stride,
                     const Ints& padding, const Ints& dilation, int64_t groups) {
    static constexpr const char* op[] = {"conv1d", "conv2d", "conv3d"};
    return batched<N>(op[N - 1], input, weight, [&](const Var& x) {
      return convolved(x, weight, bias, Geometry(N, stride, padding, dilation, false, {0}, groups));
    });
  }
};

// padding='valid' pads nothing; 'same' keeps the input's size.
template <int N>
struct ConvNamedPadding : ConvBase {
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Ints& stride,
                     const std::string& padding, const Ints& dilation, int64_t groups) {
    if (padding == "valid")
      return Conv<N>::forward(input, weight, bias, stride, {0}, dilation, groups);
    check(padding == "same", "Invalid padding string: '", padding,
          "': it is 'valid', 'same', or ints");
    check(weight.dim() == N + 2, "conv", N, "d: expected weight of ", N + 2,
          " dimensions, but got weight of size ", weight.sizes());
    for (int64_t s : stride)
      check(s == 1, "padding='same' is not supported for strided convolutions: stride=", stride);
    Ints steps = each(dilation, N, "dilation"), both(N);
    Var x = input;
    for (int i = 0; i < N && x.dim() > N; i++) {
      int64_t total = std::max<int64_t>(steps[i] * (weight.size(i + 2) - 1), 0);
      both[i] = total / 2;
      // An odd total puts one more zero at the end.
      if (total % 2) x = with_zero(x, x.dim() - N + i);
    }
    return Conv<N>::forward(x, weight, bias, stride, both, dilation, groups);
  }

  static Var with_zero(const Var& x, int dim) {
    Ints sizes = x.sizes();
    sizes[dim] = 1;
    return ops::cat({x, ops::zeros(sizes, x.dtype(), x->storage->device)}, dim);
  }
};

template <int N>
struct ConvTranspose : ConvBase {
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Ints& stride,
                     const Ints& padding, const Ints& output_padding, int64_t groups,
                     const Ints& dilation) {
    static constexpr const char* op[] = {"conv_transpose1d", "conv_transpose2d",
                                         "conv_transpose3d"};
    return batched<N>(op[N - 1], input, weight, [&](const Var& x) {
      Geometry g(N, stride, padding, dilation, true, output_padding, groups);
      check_output_padding(g);
      return convolved(x, weight, bias, g);
    });
  }
};

#define RL_CONVOLUTION(N)                                                                \
  struct Conv##N##d : Conv<N> {                                                          \
    static constexpr auto signature =                                                    \
        "conv" #N                                                                        \
        "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, "             \
        "int[] padding=0, int[] dilation=1, int groups=1)";                              \
    static constexpr auto doc =                                                          \
        "conv" #N                                                                        \
        "d(x, weight, bias, stride, padding, dilation, groups): weight slides over "     \
        "the last " #N " dimension(s) of x; padding is ints, 'same' or 'valid'.";        \
  };                                                                                     \
  RL_OP(Conv##N##d)                                                                      \
  struct Conv##N##dNamed : ConvNamedPadding<N> {                                         \
    static constexpr auto signature =                                                    \
        "conv" #N                                                                        \
        "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, "             \
        "str padding='valid', int[] dilation=1, int groups=1)";                          \
    static constexpr auto doc = Conv##N##d::doc;                                         \
  };                                                                                     \
  RL_OP(Conv##N##dNamed)                                                                 \
  struct ConvTranspose##N##d : ConvTranspose<N> {                                        \
    static constexpr auto signature =                                                    \
        "conv_transpose" #N                                                              \
        "d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, "             \
        "int[] padding=0, int[] output_padding=0, int groups=1, int[] dilation=1)";      \
    static constexpr auto doc =                                                          \
        "conv_transpose" #N                                                              \
        "d(x, weight, bias, stride, padding, output_padding, groups, "                   \
        "dilation): the transpose of conv" #N "d as a linear map, which spreads x out."; \
  };                                                                                     \
  RL_OP(ConvTranspose##N##d)                                                             \
  struct FunctionalConv##N##d : Conv##N##d {                                             \
    static constexpr auto module = "nn.functional";                                      \
  };                                                                                     \
  RL_OP(FunctionalConv##N##d)                                                            \
  struct FunctionalConv##N##dNamed : Conv##N##dNamed {                                   \
    static constexpr auto module = "nn.functional";                                      \
  };                                                                                     \
  RL_OP(FunctionalConv##N##dNamed)                                                       \
  struct FunctionalConvTranspose##N##d : ConvTranspose##N##d {                           \
    static constexpr auto module = "nn.functional";                                      \
  };                                                                                     \
  RL_OP(FunctionalConvTranspose##N##d)

RL_CONVOLUTION(1)
RL_CONVOLUTION(2)
RL_CONVOLUTION(3)
#undef RL_CONVOLUTION

}  // namespace
}  // namespace rl
