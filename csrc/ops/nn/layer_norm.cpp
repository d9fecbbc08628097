// Normalisation over the last dimensions.
#include "kernels/kernels.h"

#include <cmath>

#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"

namespace rl {

namespace {

// The rows that are normalised, n elements each.
struct Rows {
  int64_t count = 1, n = 1;
  Ints stats;  // the input's sizes with 1 for normalised dimensions
  Ints dims;
  Rows(const Ints& sizes, int normalized) : stats(sizes) {
    int lead = sizes.size() - normalized;
    for (int i = 0; i < sizes.size(); i++) {
      (i < lead ? count : n) *= sizes[i];
      if (i < lead) continue;
      stats[i] = 1;
      dims.push_back(i);
    }
  }
};

void check_shapes(const Var& input, const Ints& shape, const Var& weight, const Var& bias) {
  check(!shape.empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing "
        "at least one element, but got normalized_shape = ",
        shape);
  check(!weight || weight.sizes() == shape,
        "Expected weight to be of same shape as normalized_shape, but got weight of shape ",
        weight ? weight.sizes() : shape, " and normalized_shape = ", shape);
  check(!bias || bias.sizes() == shape,
        "Expected bias to be of same shape as normalized_shape, but got bias of shape ",
        bias ? bias.sizes() : shape, " and normalized_shape = ", shape);
  int lead = input.dim() - shape.size();
  bool fits = lead >= 0;
  for (int i = 0; fits && i < shape.size(); i++) fits = input.size(lead + i) == shape[i];
  if (fits) return;
  std::string wanted;
  for (int64_t s : shape) wanted += concat(", ", s);
  fail("Given normalized_shape=", shape, ", expected input with shape [*", wanted,
       "], but got input of size", input.sizes());
}

void check_floating(const char* kernel, DType dtype) {
  if (!is_floating(dtype))
    fail_as(PyExc_NotImplementedError, "\"", kernel, "\" not implemented for '",
            info(dtype).tensor_name, "'");
}

// A row-major tensor of this dtype; none stays none.
Var dense(const Var& x, DType dtype) { return x ? ops::contiguous(ops::to(x, dtype)) : x; }
const char* data_of(const Var& x) { return x ? x->data() : nullptr; }
DType wide(DType d) { return compute_type(d); }

Var mean_of(const Var& x, const Rows& rows) {
  return ops::sum(x, rows.dims, true) / Var(double(rows.n));
}

struct NativeLayerNorm : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature =
      "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
      "float eps)";
  static constexpr auto doc =
      "native_layer_norm(x, shape, weight, bias, eps): layer_norm, and the mean and the inverse "
      "deviation of each row.";
  static constexpr Family family = Family::Norm;
  static constexpr auto saves = "input weight out1 out2|input out1 out2|";
  static constexpr bool whole_history = true;
  static constexpr bool method = false;
  static constexpr bool out = false;

  static std::array<Var, 3> forward(const Var& input, const Ints& shape, const Var& weight,
                                    const Var& bias, double eps) {
    check_shapes(input, shape, weight, bias);
    DType d = input.dtype(), parameters = parameter_type(d, weight, bias);
    check_floating("LayerNormKernelImpl", d);
    // Halves with float parameters are computed in float.
    Var x = dense(input, parameters), w = dense(weight, parameters), b = dense(bias, parameters);
    Rows rows(x.sizes(), shape.size());
    Var y = empty(x.sizes(), parameters, input.device());
    Var mean = empty(rows.stats, wide(d), input.device()),
        rstd = empty(rows.stats, wide(d), input.device());
    if (rows.n == 0) {
      ops::fill_data(mean.get(), 0);
      ops::fill_data(rstd.get(), NAN);
    } else if (rows.count > 0) {
      Launch launch(double(x.numel()) * 3,
                    {x.get(), y.get(), w.get(), b.get(), mean.get(), rstd.get()});
      on(x).layer_norm(parameters, x->data(), data_of(w), data_of(b), y->data(), mean->data(),
                       rstd->data(), rows.count, rows.n, eps);
    }
    return {ops::to(y, d), mean, rstd};
  }

  // Weights of their own are applied afterwards.
  static std::array<Var, 3> batched(const HiddenDims& hidden, const Var& input, const Ints& shape,
                                    const Var& weight, const Var& bias, double eps) {
    bool apart = batch_of(weight.get()) || batch_of(bias.get());
    auto result =
        forward(hidden.front(input), shape, apart ? Var() : weight, apart ? Var() : bias, eps);
    int ones = input.dim() - shape.size();
    if (apart && weight) result[0] = result[0] * hidden.front(weight, ones);
    if (apart && bias) result[0] = result[0] + hidden.front(bias, ones);
    return result;
  }

  static DType parameter_type(DType d, const Var& weight, const Var& bias) {
    if (!weight && !bias) return d;
    DType p = weight ? weight.dtype() : bias.dtype();
    bool mixed = p == DType::F32 && wide(d) == p;
    check((p == d || mixed) && (!weight || !bias || bias.dtype() == p),
          "mixed dtype (CPU): expect parameter to have scalar type of Float, or that of the input "
          "(",
          info(d).tensor_name, "), but got weight ",
          weight ? info(weight.dtype()).tensor_name : "None", " and bias ",
          bias ? info(bias.dtype()).tensor_name : "None");
    return p;
  }

  static void vjp(Back& b, const In& input, const Ints& shape, const In& weight, const In& bias,
                  double eps) {
    Rows rows(input.sizes(), shape.size());
    if (b.create_graph() || !b.g(0) || b.g(1) || b.g(2)) return rule(b, rows, input, weight, eps);
    const Var& g0 = b.g();
    bool wants_x = b.wants(0), wants_w = weight && b.wants(1), wants_b = bias && b.wants(2);
    DType d = weight ? weight.dtype() : bias ? bias.dtype() : input.dtype();
    Var g = dense(g0, d), x, w, mean, rstd, gx, gw, gb;
    if (wants_x || wants_w) {
      x = dense(*input, d);
      mean = b.out(1);
      rstd = b.out(2);
    } else {
      b[2] = g0;
      return;
    }
    if (wants_x) {
      if (weight) w = dense(*weight, d);
      gx = empty(x.sizes(), d, input.device());
    }
    if (wants_w) gw = empty(shape, d, input.device());
    if (wants_b) gb = empty(shape, d, input.device());
    Launch launch(double(x.numel()) * 4, {g.get(), x.get(), w.get(), mean.get(), rstd.get(),
                                          gx.get(), gw.get(), gb.get()});
    on(g).layer_norm_backward(d, g->data(), x->data(), data_of(w), mean->data(), rstd->data(),
                              gx ? gx->data() : nullptr, gw ? gw->data() : nullptr,
                              gb ? gb->data() : nullptr, rows.count, rows.n);
    b[0] = gx;
    b[1] = gw;
    b[2] = gb;
  }

  // Everything from x, so that every further derivative is right.
  static void rule(Back& b, const Rows& rows, const In& input, const In& weight, double eps) {
    Var g = ops::to(b.g_or_zeros(0), wide(input.dtype()));
    if (b.wants(2)) b[2] = g;
    if (!b.wants(0) && !b.wants(1)) return;
    Var x = ops::to(*input, g.dtype());
    Var centered = x - mean_of(x, rows);
    Var rstd = Var(1) / math::sqrt(mean_of(centered * centered, rows) + Var(eps));
    Var normal = centered * rstd;
    if (b.wants(1)) b[1] = g * normal;
    if (!b.wants(0)) return;
    Var each = weight ? g * *weight : g;
    Var gx = rstd * (each - mean_of(each, rows) - normal * mean_of(each * normal, rows));
    double share = 1.0 / double(rows.n);
    if (b.g(1)) gx = gx + b.g(1) * Var(share);
    if (b.g(2)) gx = gx - b.g(2) * rstd * rstd * normal * Var(share);
    b[0] = gx;
  }

  static void jvp(Push& p, const Var& input, const Ints& shape, const Var& weight, const Var&,
                  double eps) {
    Rows rows(input.sizes(), shape.size());
    Var x = ops::to(input, wide(input.dtype())), centered = x - mean_of(x, rows);
    Var rstd = Var(1) / math::sqrt(mean_of(centered * centered, rows) + Var(eps));
    Var normal = centered * rstd;
    if (p.t(0)) {
      Var t = ops::to(p.t(0), x.dtype()), mean = mean_of(t, rows);
      Var along = mean_of(normal * (t - mean), rows);
      Var y = rstd * (t - mean - normal * along);
      p.add(weight ? y * weight : y);
      p[1] = mean;
      p[2] = -(rstd * rstd * along);
    }
    if (p.t(1)) p.add(normal * p.t(1));
    if (p.t(2)) p.add(p.t(2));
  }
};
RL_OP(NativeLayerNorm)

Var layer_norm(const Var& input, const Ints& shape, const Var& weight, const Var& bias,
               double eps) {
  return call<NativeLayerNorm>(input, shape, weight, bias, eps)[0];
}

struct LayerNorm : Composite {
  static constexpr auto signature =
      "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, bool cudnn_enable=True)";
  static constexpr auto doc =
      "layer_norm(x, shape, weight, bias, eps): x with mean 0 and variance 1 over its last "
      "dimensions, times weight plus bias.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& shape, const Var& weight, const Var& bias,
                     double eps, bool) {
    return layer_norm(input, shape, weight, bias, eps);
  }
};
RL_OP(LayerNorm)

struct LayerNormFunctional : Composite {
  static constexpr auto signature =
      "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05)";
  static constexpr auto doc = LayerNorm::doc;
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& shape, const Var& weight, const Var& bias,
                     double eps) {
    return layer_norm(input, shape, weight, bias, eps);
  }
};
RL_OP(LayerNormFunctional)

// x / sqrt(mean(x^2) + eps) * weight, and the inverse roots.
struct FusedRmsNorm : General {
  static constexpr auto signature =
      "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)";
  static constexpr auto grad_name = "MulBackward0";
  static constexpr auto doc =
      "_fused_rms_norm(x, shape, weight, eps): rms_norm, and the inverse root of each row.";
  static constexpr auto saves = "input weight out1|input out1";
  static constexpr bool method = false;
  static constexpr bool out = false;

  static double epsilon(DType d, const std::optional<double>& eps) {
    if (eps) return *eps;
    return d == DType::F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  }

  static std::array<Var, 2> forward(const Var& input, const Ints& shape, const Var& weight,
                                    std::optional<double> eps) {
    check_shapes(input, shape, weight, {});
    DType d = input.dtype();
    check_floating("rms_norm", d);
    DType weight_type = weight ? weight.dtype() : d, work = promote(d, weight_type);
    check_floating("rms_norm", weight_type);
    Var x = dense(input, work), w = dense(weight, work);
    Rows rows(x.sizes(), shape.size());
    Var y = empty(x.sizes(), work, input.device()),
        rstd = empty(rows.stats, wide(work), input.device());
    if (x.numel() > 0) {
      Launch launch(double(x.numel()) * 3, {x.get(), y.get(), w.get(), rstd.get()});
      on(x).rms_norm(work, x->data(), data_of(w), y->data(), rstd->data(), rows.count, rows.n,
                     epsilon(d, eps));
    } else {
      ops::fill_data(rstd.get(), NAN);
    }
    return {suggested(input.get(), ops::to(y, d)), rstd};
  }

  static void vjp(Back& b, const In& input, const Ints& shape, const In& weight,
                  std::optional<double> eps) {
    Rows rows(input.sizes(), shape.size());
    DType work = weight ? promote(input.dtype(), weight.dtype()) : input.dtype();
    if (b.create_graph() || !b.g(0) || b.g(1))
      return rule(b, rows, input, weight, epsilon(input.dtype(), eps), wide(work));
    Var g = dense(b.g(), work), x = dense(*input, work), rstd = b.out(1), w, gx, gw;
    if (b.wants(0)) {
      if (weight) w = dense(*weight, work);
      gx = empty(x.sizes(), work, input.device());
    }
    if (weight && b.wants(1)) gw = empty(shape, work, input.device());
    Launch launch(double(x.numel()) * 4,
                  {g.get(), x.get(), w.get(), rstd.get(), gx.get(), gw.get()});
    on(g).rms_norm_backward(work, g->data(), x->data(), data_of(w), rstd->data(),
                            gx ? gx->data() : nullptr, gw ? gw->data() : nullptr, rows.count,
                            rows.n);
    b[0] = gx;
    b[1] = gw;
  }

  static void rule(Back& b, const Rows& rows, const In& input, const In& weight, double eps,
                   DType work) {
    Var g = ops::to(b.g_or_zeros(0), work), x = ops::to(*input, work);
    Var rstd = Var(1) / math::sqrt(mean_of(x * x, rows) + Var(eps));
    Var normal = x * rstd;
    if (b.wants(1)) b[1] = g * normal;
    if (!b.wants(0)) return;
    Var each = weight ? g * *weight : g;
    Var gx = rstd * (each - normal * mean_of(each * normal, rows));
    if (b.g(1)) gx = gx - b.g(1) * rstd * rstd * normal * Var(1.0 / double(rows.n));
    b[0] = gx;
  }

  static void jvp(Push& p, const Var& input, const Ints& shape, const Var& weight,
                  std::optional<double> eps) {
    Rows rows(input.sizes(), shape.size());
    DType work = wide(weight ? promote(input.dtype(), weight.dtype()) : input.dtype());
    Var x = ops::to(input, work);
    Var rstd = Var(1) / math::sqrt(mean_of(x * x, rows) + Var(epsilon(input.dtype(), eps)));
    Var normal = x * rstd;
    if (p.t(0)) {
      Var t = ops::to(p.t(0), work), along = mean_of(normal * t, rows);
      Var y = rstd * (t - normal * along);
      p.add(weight ? y * weight : y);
      p[1] = -(rstd * rstd * along);
    }
    if (p.t(1)) p.add(normal * p.t(1));
  }
};
RL_OP(FusedRmsNorm)

struct RmsNorm : Composite {
  static constexpr auto signature =
      "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None)";
  static constexpr auto doc =
      "rms_norm(x, shape, weight, eps): x over the root of the mean of its squares, over its last "
      "dimensions, times weight.";
  static constexpr Family family = Family::Norm;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& shape, const Var& weight,
                     std::optional<double> eps) {
    if (is_complex(input.dtype())) return of_complex(input, shape, weight, eps);
    return call<FusedRmsNorm>(input, shape, weight, eps)[0];
  }
  // Squares, not those of absolute values.
  static Var of_complex(const Var& x, const Ints& shape, const Var& weight,
                        std::optional<double> eps) {
    check_shapes(x, shape, weight, {});
    double least = FusedRmsNorm::epsilon(real_of(x.dtype()), eps);
    Var y = x / math::sqrt(mean_of(x * x, Rows(x.sizes(), shape.size())) + Var(least));
    return weight ? y * weight : y;
  }
};
RL_OP(RmsNorm)

struct RmsNormFunctional : RmsNorm {
  static constexpr auto module = "nn.functional";
};
RL_OP(RmsNormFunctional)

}  // namespace
}  // namespace rl
