// Normalisation of channels over a batch.
#include <cmath>

#include "autograd/batch.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "ops/nn/channel_norm.h"

namespace rl {

kernel::ChannelShape channel_shape(const Ints& sizes) {
  kernel::ChannelShape s{sizes[0], sizes[1], 1};
  for (int i = 2; i < sizes.size(); i++) s.inner *= sizes[i];
  return s;
}

namespace {

DType wide(DType d) { return compute_type(d); }

// With the channels innermost, every pixel is a row of them.
kernel::ChannelShape shape_in(MemoryFormat format, const Ints& sizes) {
  kernel::ChannelShape s = channel_shape(sizes);
  if (format == MemoryFormat::Contiguous) return s;
  return {s.batch * s.inner, s.channels, 1};
}

// All dimensions but that of the channels.
Ints other_dims(int ndim) {
  Ints dims;
  for (int i = 0; i < ndim; i++)
    if (i != 1) dims.push_back(i);
  return dims;
}

void check_count(const char* name, const Var& v, int64_t channels) {
  check(!v || v.numel() == channels, name, " should contain ", channels, " elements not ",
        v ? v.numel() : 0, " (one for each channel of the input)");
}

void check_constant(const char* name, const Var& v) {
  check(!v || !is_tracked(v.get()),
        "The function 'native_batch_norm' is not differentiable with respect to argument '", name,
        "'. This input cannot have requires_grad True.");
}

void check_arguments(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
                     const Var& running_var, bool training) {
  check(input.dim() >= 2,
        "batch_norm: expected an input of at least 2 dimensions (batch, "
        "channels, ...), but got input of size ",
        input.sizes());
  if (!is_floating(input.dtype()))
    fail_as(PyExc_NotImplementedError, "\"batch_norm\" not implemented for '",
            info(input.dtype()).tensor_name, "'");
  if (bool(running_mean) != bool(running_var))
    fail_as(PyExc_ValueError,
            "running_mean and running_var must either both be None or neither be None");
  check(training || running_mean, "running_mean must be defined in evaluation mode");
  SameDevice same("batch_norm");
  same.need(input.get());
  struct Named {
    const char* name;
    const Var& v;
  };
  for (auto [name, v] : {Named{"weight", weight}, Named{"bias", bias},
                         Named{"running_mean", running_mean}, Named{"running_var", running_var}}) {
    check_count(name, v, input.size(1));
    check_mixed("batch_norm", input.dtype(), v);
    if (v) same.need(v.get());
  }
  check_constant("running_mean", running_mean);
  check_constant("running_var", running_var);
  if (training && running_mean) {
    check_batched_write(running_mean.get(), input.get());
    check_batched_write(running_var.get(), input.get());
  }
}

// running = (1 - momentum) * running + momentum * factor * now
void update(const Var& running, const Var& now, double momentum, double factor) {
  prepare_write(running.get(), "batch_norm");
  if (recording) [[unlikely]]
    recording->hold(running.get());
  Plain plain;
  Var fresh = alias(now.get());
  if (running->contiguous && running.dtype() == now.dtype() && !batch_of(running.get())) {
    on(running).blend(now.dtype(), running->data(), now->data(), now.numel(), 1 - momentum,
                      momentum * factor);
    return;
  }
  Var next = alias(running.get()) * Var(1 - momentum) + fresh * Var(momentum * factor);
  if (batch_of(running.get())) copy_batched(running.get(), next.get());
  else ops::copy_data(running.get(), next.get());
}

// The result, the mean and 1 / deviation that it was computed with, and in training the variance.
struct BatchNormOf : General {
  static constexpr auto signature =
      "_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
      "Tensor? running_var, bool training, float eps)";
  static constexpr auto grad_name = "NativeBatchNormBackward0";
  static constexpr auto saves = "input weight out1 out2|input out1 out2|";
  static constexpr bool whole_history = true;

  static std::array<Var, 4> forward(const Var& input, const Var& weight, const Var& bias,
                                    const Var& running_mean, const Var& running_var, bool training,
                                    double eps) {
    DType d = input.dtype(), c = wide(d), e = layer_type(input);
    MemoryFormat format = suggested_format(input.get());
    kernel::ChannelShape s = shape_in(format, input.sizes());
    Var x = dense_in(format, input, e), w = dense_as(weight, c), b = dense_as(bias, c);
    Var y = empty_in(format, x.sizes(), e, input.device()),
        mean = empty({s.channels}, c, input.device()),
        rstd = empty({s.channels}, c, input.device());
    if (!training) {
      mean = ops::clone(dense_as(running_mean, c));
      rstd = Var(1) / math::sqrt(dense_as(running_var, c) + Var(eps));
      Launch launch(double(x.numel()),
                    {x.get(), w.get(), b.get(), mean.get(), rstd.get(), y.get()});
      on(x).batch_norm_given(e, x->data(), data_or_null(w), data_or_null(b), mean->data(),
                             rstd->data(), y->data(), s);
      return {ops::to(y, d), mean, rstd, empty({0}, c, input.device())};
    }
    Var variance = empty({s.channels}, c, input.device());
    {
      Launch launch(double(x.numel()) * 3,
                    {x.get(), w.get(), b.get(), y.get(), mean.get(), rstd.get(), variance.get()});
      on(x).batch_norm(e, x->data(), data_or_null(w), data_or_null(b), y->data(), mean->data(),
                       rstd->data(), variance->data(), s, eps);
    }
    return {ops::to(y, d), mean, rstd, variance};
  }

  static void vjp(Back& b, const In& input, const In& weight, const In& bias, const In&, const In&,
                  bool training, double eps) {
    if (b.create_graph()) return rule(b, input, weight, bias, training, eps);
    Var g = b.g(), x, w, mean, rstd, gx, gw, gb;
    DType c = wide(input.dtype()), e = layer_type(g);
    if (b.wants(2)) gb = empty(bias.sizes(), c, input.device());
    if (!b.wants(0) && !b.wants(1)) {
      b[2] = ops::reshape(ops::sum(dense_as(g, c), other_dims(input.dim()), false), bias.sizes());
      return;
    }
    x = *input, mean = b.out(1), rstd = b.out(2);
    MemoryFormat format = suggested_format(x.get());
    kernel::ChannelShape s = shape_in(format, input.sizes());
    if (e != x.dtype()) e = c;  // a gradient of another type
    x = dense_in(format, x, e);
    g = dense_in(format, g, e);
    if (b.wants(0)) {
      gx = empty_in(format, x.sizes(), e, input.device());
      if (weight) w = dense_as(*weight, c);
    }
    if (b.wants(1)) gw = empty(weight.sizes(), c, input.device());
    Launch launch(double(x.numel()) * 4, {g.get(), x.get(), w.get(), mean.get(), rstd.get(),
                                          gx.get(), gw.get(), gb.get()});
    on(g).batch_norm_backward(e, g->data(), x->data(), data_or_null(w), mean->data(), rstd->data(),
                              data_or_null(gx), data_or_null(gw), data_or_null(gb), s, !training);
    b[0] = gx;
    b[1] = gw;
    b[2] = gb;
  }

  // The mean of every channel.
  static Var mean_of(const Var& x) { return ops::mean(x, other_dims(x.dim()), true); }
  static Var inverse_deviation(const Var& centered, double eps) {
    return Var(1) / math::sqrt(mean_of(centered * centered) + Var(eps));
  }

  // With the statistics of the batch everything comes from x, so that every further derivative is
  // right; those that were given are constants.
  static void rule(Back& b, const In& input, const In& weight, const In& bias, bool training,
                   double eps) {
    int n = input.dim();
    Var g = ops::to(b.g(), wide(input.dtype()));
    auto by_parameter = [&](const Var& each, const In& parameter) {
      return ops::reshape(ops::sum(each, other_dims(n), false), parameter.sizes());
    };
    if (b.wants(2)) b[2] = by_parameter(g, bias);
    if (!b.wants(0) && !b.wants(1)) return;
    Var each = b.wants(0) && weight ? g * by_channel(*weight, n) : g;
    Var x = ops::to(*input, g.dtype()), mean = training ? mean_of(x) : constant(b.out(1), n);
    Var centered = x - mean;
    Var rstd = training ? inverse_deviation(centered, eps) : constant(b.out(2), n);
    Var normal = centered * rstd;
    if (b.wants(1)) b[1] = by_parameter(g * normal, weight);
    if (!b.wants(0)) return;
    b[0] = training ? rstd * (each - mean_of(each) - normal * mean_of(each * normal)) : rstd * each;
  }
  static Var constant(const Var& out, int ndim) { return by_channel(alias(out.get()), ndim); }

  static void jvp(Push& p, const Var& input, const Var& weight, const Var&, const Var&, const Var&,
                  bool training, double eps) {
    int n = input.dim();
    Var x = ops::to(input, wide(input.dtype()));
    Var centered = x - (training ? mean_of(x) : constant(p.out(1), n));
    Var rstd = training ? inverse_deviation(centered, eps) : constant(p.out(2), n);
    Var normal = centered * rstd;
    if (p.t(0)) {
      Var t = ops::to(p.t(0), x.dtype());
      Var y = rstd * t;
      if (training) {
        t = t - mean_of(t);
        y = rstd * (t - normal * mean_of(normal * t));
      }
      p.add(weight ? y * by_channel(weight, n) : y);
    }
    if (p.t(1)) p.add(normal * by_channel(p.t(1), n));
    if (p.t(2)) p.add(ops::expand(by_channel(p.t(2), n), x.sizes()));
  }
};

// The same, after which the running statistics follow those of the batch.
std::array<Var, 4> normalize(const Var& input, const Var& weight, const Var& bias,
                             const Var& running_mean, const Var& running_var, bool training,
                             double momentum, double eps) {
  auto all = call<BatchNormOf>(input, weight, bias, training ? Var() : running_mean,
                               training ? Var() : running_var, training, eps);
  if (training && running_mean) {
    kernel::ChannelShape s = channel_shape(input.sizes());
    double count = double(s.batch) * double(s.inner);
    update(running_mean, all[1], momentum, 1);
    update(running_var, all[3], momentum, count / (count - 1));
  }
  return all;
}

struct NativeBatchNorm : Composite {
  static constexpr auto signature =
      "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
      "Tensor? running_var, bool training, float momentum, float eps)";
  static constexpr auto doc =
      "native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps): "
      "batch_norm, and the mean and the inverse deviation of each channel of the batch.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& input, const Var& weight, const Var& bias,
                                    const Var& running_mean, const Var& running_var, bool training,
                                    double momentum, double eps) {
    check_arguments(input, weight, bias, running_mean, running_var, training);
    auto [y, mean, rstd, variance] =
        normalize(input, weight, bias, running_mean, running_var, training, momentum, eps);
    if (training) return {y, alias(mean.get()), alias(rstd.get())};
    return {y, empty({0}, mean.dtype(), mean.device()), empty({0}, mean.dtype(), mean.device())};
  }
};
RL_OP(NativeBatchNorm)

struct BatchNorm : Composite {
  static constexpr auto signature =
      "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
      "Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled)";
  static constexpr auto doc =
      "batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, "
      "cudnn_enabled): every channel with mean 0 and variance 1 over the batch, times weight plus "
      "bias; the running statistics follow those of the batch, or stand for them unless training.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
                     const Var& running_var, bool training, double momentum, double eps, bool) {
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  }
};
RL_OP(BatchNorm)

struct BatchNormFunctional : Composite {
  static constexpr auto signature =
      "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
      "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05)";
  static constexpr auto doc =
      "batch_norm(x, running_mean, running_var, weight, bias, training): every channel with mean 0 "
      "and variance 1 over the batch (or by the running statistics), times weight plus bias.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& running_mean, const Var& running_var,
                     const Var& weight, const Var& bias, bool training, double momentum,
                     double eps) {
    if (training && input.dim() >= 2 && values_per_channel(input) == 1)
      fail_as(PyExc_ValueError,
              "Expected more than 1 value per channel when training, got input size torch.Size(",
              input.sizes(), ")");
    if (training ? !(eps > 0) : !(eps >= 0))
      fail_as(PyExc_ValueError, "batch_norm eps must be ",
              training ? "positive during training" : "non-negative", ", but got ", eps);
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  }
  static int64_t values_per_channel(const Var& input) {
    kernel::ChannelShape s = channel_shape(input.sizes());
    return s.batch * s.inner;
  }
};
RL_OP(BatchNormFunctional)

// Every instance's channels as channels of one batch element.
Var instance_norm(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
                  const Var& running_var, bool use_input_stats, double momentum, double eps) {
  check(use_input_stats || (running_mean && running_var),
        "Expected running_mean and running_var to be defined when use_input_stats is false");
  check(input.dim() >= 2,
        "instance_norm: expected an input of at least 2 dimensions (batch, "
        "channels, ...), but got input of size ",
        input.sizes());
  int64_t batch = input.size(0), channels = input.size(1);
  Ints sizes = input.sizes();
  sizes[0] = 1;
  sizes[1] = batch * channels;
  auto repeated = [&](const char* name, const Var& v) {
    if (!v) return v;
    check_count(name, v, channels);
    return ops::reshape(ops::expand(ops::reshape(v, {1, channels}), {batch, channels}),
                        {batch * channels});
  };
  check_constant("running_mean", running_mean);
  check_constant("running_var", running_var);
  Var mean = repeated("running_mean", running_mean), var = repeated("running_var", running_var);
  // What is written below must not be the user's memory.
  if (mean) mean = ops::clone(mean), var = ops::clone(var);
  Var y = batch_norm(ops::reshape(input, sizes), repeated("weight", weight), repeated("bias", bias),
                     mean, var, use_input_stats, momentum, eps);
  if (use_input_stats && mean && batch > 0) {
    GradMode off(false);
    auto follow = [&](const Var& running, const Var& now) {
      prepare_write(running.get(), "instance_norm");
      Var one = ops::mean(ops::reshape(now, {batch, channels}), {0}, false);
      if (batch_of(running.get())) copy_batched(running.get(), one.get());
      else ops::copy_data(running.get(), one.get());
    };
    follow(running_mean, mean);
    follow(running_var, var);
  }
  return ops::reshape(y, input.sizes());
}

struct InstanceNorm : Composite {
  static constexpr auto signature =
      "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
      "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled)";
  static constexpr auto doc =
      "instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, "
      "cudnn_enabled): every channel of every instance with mean 0 and variance 1, times weight "
      "plus bias.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
                     const Var& running_var, bool use_input_stats, double momentum, double eps,
                     bool) {
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                         eps);
  }
};
RL_OP(InstanceNorm)

struct InstanceNormFunctional : Composite {
  static constexpr auto signature =
      "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, "
      "Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, "
      "float eps=1e-05)";
  static constexpr auto doc =
      "instance_norm(x, running_mean, running_var, weight, bias, use_input_stats): every channel "
      "of every instance with mean 0 and variance 1, times weight plus bias.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& running_mean, const Var& running_var,
                     const Var& weight, const Var& bias, bool use_input_stats, double momentum,
                     double eps) {
    int64_t spatial = 1;
    for (int i = 2; i < input.dim(); i++) spatial *= input.size(i);
    if (use_input_stats && spatial == 1)
      fail_as(PyExc_ValueError,
              "Expected more than 1 spatial element when training, got input size torch.Size(",
              input.sizes(), ")");
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                         eps);
  }
};
RL_OP(InstanceNormFunctional)

}  // namespace

Var batch_norm(const Var& input, const Var& weight, const Var& bias, const Var& running_mean,
               const Var& running_var, bool training, double momentum, double eps) {
  if (input.dim() == 1 && input.numel() == 0) return ops::clone(input);  // no channels at all
  check_arguments(input, weight, bias, running_mean, running_var, training);
  if (input.numel() > 0)
    return normalize(input, weight, bias, running_mean, running_var, training, momentum, eps)[0];
  // Without elements there are no statistics, but there is a history.
  Var y = ops::clone(input);
  if (weight) y = y * ops::to(by_channel(weight, input.dim()), input.dtype());
  if (bias) y = y + ops::to(by_channel(bias, input.dim()), input.dtype());
  return y;
}

}  // namespace rl
