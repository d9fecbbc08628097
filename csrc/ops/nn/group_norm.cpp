// Normalisation of groups of channels within each batch element.
#include <cmath>

#include "call/broadcast.h"
#include "call/layout.h"
#include "ops/nn/channel_norm.h"

namespace rl {

namespace {

DType wide(DType d) { return compute_type(d); }

struct NativeGroupNorm : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature =
      "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, "
      "int group, float eps)";
  static constexpr auto doc =
      "native_group_norm(x, weight, bias, N, C, HxW, group, eps): group_norm, and the mean and the "
      "inverse deviation of each group.";
  static constexpr Family family = Family::Norm;
  static constexpr auto saves = "input weight out1 out2|input out1 out2|";
  static constexpr bool whole_history = true;
  static constexpr bool method = false;
  static constexpr bool out = false;

  static void check_sizes(const Var& input, const Var& weight, const Var& bias, int64_t groups) {
    check(groups > 0, "Expected num groups to be greater than 0, got ", groups);
    check(input.dim() >= 2, "Expected at least 2 dimensions for input tensor but received ",
          input.dim());
    int64_t channels = input.size(1);
    check(channels % groups == 0,
          "Expected number of channels in input to be divisible by num_groups, but got input of "
          "shape ",
          input.sizes(), " and num_groups=", groups);
    check_vector("weight", weight, channels, input);
    check_vector("bias", bias, channels, input);
    if (!is_floating(input.dtype()))
      fail_as(PyExc_NotImplementedError, "\"GroupNormKernelImpl\" not implemented for '",
              info(input.dtype()).tensor_name, "'");
    check_mixed("group_norm", input.dtype(), weight);
    check_mixed("group_norm", input.dtype(), bias);
  }
  static void check_vector(const char* name, const Var& v, int64_t channels, const Var& input) {
    check(!v || (v.dim() == 1 && v.numel() == channels), "Expected ", name,
          " to be a vector of size equal to the number of channels in input, but got ", name,
          " of shape ", v ? v.sizes() : Ints(), " and input of shape ", input.sizes());
  }

  static std::array<Var, 3> forward(const Var& input, const Var& weight, const Var& bias, int64_t n,
                                    int64_t channels, int64_t inner, int64_t groups, double eps) {
    check_sizes(input, weight, bias, groups);
    kernel::ChannelShape s = channel_shape(input.sizes());
    check(n == s.batch && channels == s.channels && inner == s.inner,
          "native_group_norm: expected N, C and HxW to describe the input of shape ", input.sizes(),
          ", but got ", n, ", ", channels, " and ", inner);
    DType d = input.dtype(), c = wide(d), e = layer_type(input);
    Var x = dense_as(input, e), w = dense_as(weight, c), b = dense_as(bias, c);
    Var y = empty(x.sizes(), e, input.device()), mean = empty({n, groups}, c, input.device()),
        rstd = empty({n, groups}, c, input.device());
    if (x.numel() == 0) {
      ops::fill_data(mean.get(), 0);
      ops::fill_data(rstd.get(), NAN);
    } else {
      Launch launch(double(x.numel()) * 3,
                    {x.get(), w.get(), b.get(), y.get(), mean.get(), rstd.get()});
      on(x).group_norm(e, x->data(), data_or_null(w), data_or_null(b), y->data(), mean->data(),
                       rstd->data(), s, groups, eps);
    }
    return {suggested(input.get(), ops::to(y, d)), mean, rstd};
  }

  static void vjp(Back& b, const In& input, const In& weight, const In& bias, int64_t, int64_t,
                  int64_t, int64_t groups, double eps) {
    bool fused = !b.create_graph() && b.g(0) && !b.g(1) && !b.g(2) && (b.wants(0) || b.wants(1));
    if (!fused || element_count(input.sizes()) == 0)
      return rule(b, input, weight, bias, groups, eps);
    DType c = wide(input.dtype()), e = layer_type(b.g());
    Var x = *input, mean = b.out(1), rstd = b.out(2), w, gx, gw, gb;
    if (e != x.dtype()) e = c;  // a gradient of another type
    Var g = dense_as(b.g(), e);
    x = dense_as(x, e);
    if (b.wants(0)) {
      gx = empty(x.sizes(), e, input.device());
      if (weight) w = dense_as(*weight, c);
    }
    if (b.wants(1)) gw = empty(weight.sizes(), c, input.device());
    if (b.wants(2)) gb = empty(bias.sizes(), c, input.device());
    Launch launch(double(x.numel()) * 4, {g.get(), x.get(), w.get(), mean.get(), rstd.get(),
                                          gx.get(), gw.get(), gb.get()});
    on(g).group_norm_backward(e, g->data(), x->data(), data_or_null(w), mean->data(), rstd->data(),
                              data_or_null(gx), data_or_null(gw), data_or_null(gb),
                              channel_shape(x.sizes()), groups);
    b[0] = gx;
    b[1] = gw;
    b[2] = gb;
  }

  // x as [batch, groups, elements], its mean over the elements, and what follows from them.
  struct Groups {
    Ints sizes;
    Var rstd, normal;
    Groups(const Var& input, int64_t groups, double eps) : sizes{input.size(0), groups, 1} {
      int64_t all = element_count(input.sizes()), count = sizes[0] * groups;
      sizes[2] = count ? all / count : 0;
      Var centered = grouped(input) - mean(grouped(input));
      rstd = Var(1) / math::sqrt(mean(centered * centered) + Var(eps));
      normal = centered * rstd;
    }
    Var grouped(const Var& x) const { return ops::reshape(x, sizes); }
    static Var mean(const Var& x) {
      return ops::sum(x, {2}, true) * Var(x.size(2) ? 1.0 / double(x.size(2)) : 0.0);
    }
  };

  static void rule(Back& b, const In& input, const In& weight, const In& bias, int64_t groups,
                   double eps) {
    int n = input.dim();
    Var g = ops::to(b.g_or_zeros(0), wide(input.dtype()));
    Ints dims;
    for (int i = 0; i < n; i++)
      if (i != 1) dims.push_back(i);
    if (b.wants(2)) b[2] = ops::reshape(ops::sum(g, dims, false), bias.sizes());
    if (!b.wants(0) && !b.wants(1)) return;
    Var x = ops::to(*input, g.dtype());
    Groups of(x, groups, eps);
    if (b.wants(1))
      b[1] = ops::reshape(ops::sum(g * ops::reshape(of.normal, x.sizes()), dims, false),
                          weight.sizes());
    if (!b.wants(0)) return;
    Var each = of.grouped(weight ? g * by_channel(*weight, n) : g);
    Var gx = of.rstd * (each - of.mean(each) - of.normal * of.mean(each * of.normal));
    double share = of.sizes[2] ? 1.0 / double(of.sizes[2]) : 0;
    if (b.g(1)) gx = gx + ops::unsqueeze(b.g(1), 2) * Var(share);
    if (b.g(2)) gx = gx - ops::unsqueeze(b.g(2), 2) * of.rstd * of.rstd * of.normal * Var(share);
    b[0] = ops::reshape(gx, input.sizes());
  }

  static void jvp(Push& p, const Var& input, const Var& weight, const Var&, int64_t, int64_t,
                  int64_t, int64_t groups, double eps) {
    int n = input.dim();
    Var x = ops::to(input, wide(input.dtype()));
    Groups of(x, groups, eps);
    if (p.t(0)) {
      Var t = of.grouped(ops::to(p.t(0), x.dtype())), mean = of.mean(t);
      Var along = of.mean(of.normal * (t - mean));
      Var y = ops::reshape(of.rstd * (t - mean - of.normal * along), x.sizes());
      p.add(weight ? y * by_channel(weight, n) : y);
      p[1] = ops::reshape(mean, p.out(1).sizes());
      p[2] = ops::reshape(-(of.rstd * of.rstd * along), p.out(2).sizes());
    }
    if (p.t(1)) p.add(ops::reshape(of.normal, x.sizes()) * by_channel(p.t(1), n));
    if (p.t(2)) p.add(ops::expand(by_channel(p.t(2), n), x.sizes()));
  }
};
RL_OP(NativeGroupNorm)

Var group_norm(const Var& input, int64_t groups, const Var& weight, const Var& bias, double eps) {
  NativeGroupNorm::check_sizes(input, weight, bias, groups);
  kernel::ChannelShape s = channel_shape(input.sizes());
  return call<NativeGroupNorm>(input, weight, bias, s.batch, s.channels, s.inner, groups, eps)[0];
}

struct GroupNorm : Composite {
  static constexpr auto signature =
      "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, bool cudnn_enabled=True)";
  static constexpr auto doc =
      "group_norm(x, num_groups, weight, bias, eps): every group of channels of every batch "
      "element with mean 0 and variance 1, times weight plus bias of the channel.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t groups, const Var& weight, const Var& bias,
                     double eps, bool) {
    return group_norm(input, groups, weight, bias, eps);
  }
};
RL_OP(GroupNorm)

struct GroupNormFunctional : Composite {
  static constexpr auto signature =
      "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05)";
  static constexpr auto doc = GroupNorm::doc;
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t groups, const Var& weight, const Var& bias,
                     double eps) {
    NativeGroupNorm::check_sizes(input, weight, bias, groups);
    kernel::ChannelShape s = channel_shape(input.sizes());
    if (s.batch * (s.channels / groups) * s.inner == 1)
      fail_as(PyExc_ValueError,
              "Expected more than 1 value per channel when training, got input size ",
              input.sizes(), " (group_norm with num_groups=", groups, ")");
    return group_norm(input, groups, weight, bias, eps);
  }
};
RL_OP(GroupNormFunctional)

}  // namespace
}  // namespace rl
