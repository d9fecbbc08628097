// Dropout: elements or whole channels set to zero at random, the others scaled up.
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/random/random.h"

namespace rl {

namespace {

Var dense_mask(const Var& mask) {
  return mask->contiguous || is_dense(mask.sizes(), mask->strides) ? mask : ops::contiguous(mask);
}
// x with the strides of a dense mask, so that both are read straight through.
Var laid_out_as(const Var& mask, const Var& x) {
  if (x->strides == mask->strides || (x->contiguous && mask->contiguous)) return x;
  Var moved = empty_like(mask.get(), x.dtype());
  ops::copy_data(moved.get(), x.get());
  return moved;
}

// x where the mask is true, scaled; zero elsewhere. The mask takes a byte per element.
#define RL_APPLY(Type, name)                                                                   \
  struct Type : Linear {                                                                       \
    static constexpr auto signature = "_dropout(Tensor input, Tensor mask, float scale)";      \
    static constexpr auto grad_name = name;                                                    \
    static constexpr auto saves = "mask";                                                      \
    static constexpr Batching batching = Batching::Broadcast;                                  \
    static Var forward(const Var& input, const Var& mask, double scale) {                      \
      Var m = dense_mask(mask), x = laid_out_as(m, input);                                     \
      Var y = empty_like(m.get(), input.dtype());                                              \
      run(x.get(), m.get(), y.get(), scale);                                                   \
      return y;                                                                                \
    }                                                                                          \
    static void vjp(Back& b, const In&, const In& mask, double scale) {                        \
      b[0] = call<Type>(b.g(), *mask, scale);                                                  \
    }                                                                                          \
    static void run(const Tensor* x, const Tensor* mask, Tensor* y, double scale) {            \
      Launch launch(double(y->numel), {x, mask, y});                                           \
      on(x).masked_scale(y->dtype, x->data(), mask->data<Bool>(), y->data(), y->numel, scale); \
    }                                                                                          \
  };
RL_APPLY(Apply, "MulBackward0")
RL_APPLY(NativeApply, "NativeDropoutBackward0")

void check_probability(double p, PyObject* error) {
  if (!(p >= 0 && p <= 1))
    fail_as(error, "dropout probability has to be between 0 and 1, but got ", p);
}

void check_dropout(const Var& input, double p) {
  check_probability(p, PyExc_RuntimeError);
  if (!is_differentiable(input.dtype())) check_cast(DType::F32, input.dtype());
}

double scale_of(double p) { return p == 1 ? 0 : 1 / (1 - p); }

// Drawn in x's layout: torch's engine follows the order of memory.
Var draw_mask(const Var& x, double p, Generator* generator) {
  Var mask = empty_like(x.get(), DType::Bool);
  if (p == 1) {
    ops::fill_data(mask.get(), 0);
    return mask;
  }
  fill_bernoulli(mask.get(), 1 - p, generator);
  return mask;
}

Var dropout(const Var& input, double p, bool train, bool inplace, Generator* generator) {
  if (train) check_dropout(input, p);
  if (!train || p == 0 || input.numel() == 0) return input;
  Var mask = draw_mask(input, p, generator);
  if (!inplace) return call<Apply>(input, mask, scale_of(p));
  auto write = [&] {
    if (input->contiguous || input->strides == mask->strides)
      return Apply::run(input.get(), mask.get(), input.get(), scale_of(p));
    ops::copy_data(input.get(), Apply::forward(input, mask, scale_of(p)).get());
  };
  write_inplace<Apply>(input.get(), "dropout_", write, input, mask, scale_of(p));
  return input;
}

struct Dropout : Composite {
  static constexpr auto signature =
      "dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False, *, "
      "Generator? generator=None)";
  static constexpr auto doc =
      "dropout(x, p, training): each element zero with probability p, else divided by 1 - p.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Random;
  static constexpr bool out = false;
  static Var forward(const Var& input, double p, bool training, bool inplace,
                     Generator* generator) {
    check_probability(p, PyExc_ValueError);
    return dropout(input, p, training, inplace, generator);
  }
};
RL_OP(Dropout)

struct NativeDropout : Composite {
  static constexpr auto signature =
      "native_dropout(Tensor input, float p, bool? train=True, *, Generator? generator=None)";
  static constexpr auto doc = "native_dropout(x, p, train): dropout and the mask of what it kept.";
  static constexpr Family family = Family::Random;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, double p, std::optional<bool> train,
                                    Generator* generator) {
    check_dropout(input, p);
    bool on = train.value_or(true);
    Var mask = on ? draw_mask(input, p, generator)
                  : ops::full(input.sizes(), 1, DType::Bool, input.device());
    return {call<NativeApply>(input, mask, on ? scale_of(p) : 1.0), mask};
  }
};
RL_OP(NativeDropout)

// The shape of a mask for whole channels.
Ints channel_sizes(const Var& input) {
  check(input.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input, got ",
        input.dim());
  Ints sizes(input.dim(), 1);
  sizes[0] = input.sizes()[0];
  sizes[1] = input.sizes()[1];
  return sizes;
}

// The result of f(x) given back, or put in x's place.
template <class F>
Var as_asked(const Var& x, bool inplace, const char* name, const F& f) {
  if (!inplace) return f(x);
  replace_inplace(x.get(), name, f);
  return x;
}

Var feature_dropout(const Var& input, double p, bool train, bool inplace, Generator* generator) {
  if (train) check_dropout(input, p);
  if (!train || p == 0 || input.numel() == 0) return input;
  Var noise = empty(channel_sizes(input), input.dtype(), input.device());
  if (p == 1)
    ops::copy_data(noise.get(), ops::zeros(noise.sizes(), noise.dtype(), noise.device()).get());
  else fill_bernoulli(noise.get(), 1 - p, generator);
  noise = ops::mul(noise, Var(scale_of(p)));
  return as_asked(input, inplace, "feature_dropout_", [&](const Var& x) { return x * noise; });
}

// Dropout for SELU networks: what is dropped takes SELU's lowest value, and the result is scaled
// and shifted so that mean and variance stay.
Var alpha_dropout(const Var& input, double p, bool train, bool features, bool inplace,
                  Generator* generator) {
  if (train) check_dropout(input, p);
  if (!train || p == 0 || input.numel() == 0) return input;
  const char* name = features ? "feature_alpha_dropout_" : "alpha_dropout_";
  if (p == 1) {
    Var zero = ops::zeros({}, input.dtype(), input.device());
    return as_asked(input, inplace, name, [&](const Var& x) { return x * zero; });
  }
  constexpr double alpha = 1.7580993408473766;
  double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  Var noise = features ? empty(channel_sizes(input), input.dtype(), input.device())
                       : empty_like(input.get(), input.dtype());
  fill_bernoulli(noise.get(), 1 - p, generator);
  Var shift = (Var(1) - noise) * Var(-alpha * a) + Var(alpha * a * p);
  Var scale = noise * Var(a);
  return as_asked(input, inplace, name, [&](const Var& x) { return x * scale + shift; });
}

#define RL_DROPOUT(Type, word, text, expression)                                       \
  struct Type : Composite {                                                            \
    static constexpr auto signature =                                                  \
        word "(Tensor input, float p, bool train, *, Generator? generator=None)";      \
    static constexpr auto doc = word "(x, p, train): " text;                           \
    static constexpr Family family = Family::Random;                                   \
    static constexpr bool method = false;                                              \
    static constexpr bool out = false;                                                 \
    static constexpr bool inplace = false;                                             \
    static Var forward(const Var& input, double p, bool train, Generator* generator) { \
      constexpr bool in = false;                                                       \
      return expression;                                                               \
    }                                                                                  \
  };                                                                                   \
  RL_OP(Type)                                                                          \
  struct Type##_ : Composite {                                                         \
    static constexpr auto signature =                                                  \
        word "_(Tensor input, float p, bool train, *, Generator? generator=None)";     \
    static constexpr auto doc = word "_(x, p, train): the same in place.";             \
    static constexpr Family family = Family::Random;                                   \
    static constexpr bool method = false;                                              \
    static constexpr bool out = false;                                                 \
    static Var forward(const Var& input, double p, bool train, Generator* generator) { \
      constexpr bool in = true;                                                        \
      return expression;                                                               \
    }                                                                                  \
  };                                                                                   \
  RL_OP(Type##_)
RL_DROPOUT(PlainDropout, "dropout", "elements zero with probability p.",
           dropout(input, p, train, in, generator))
RL_DROPOUT(FeatureDropout, "feature_dropout", "whole channels zero with probability p.",
           feature_dropout(input, p, train, in, generator))
RL_DROPOUT(AlphaDropout, "alpha_dropout", "dropout that keeps mean and variance after SELU.",
           alpha_dropout(input, p, train, false, in, generator))
RL_DROPOUT(FeatureAlphaDropout, "feature_alpha_dropout", "alpha_dropout of whole channels.",
           alpha_dropout(input, p, train, true, in, generator))

#define RL_LAYER(Type, word, default_training, text)                                               \
  struct Type : Composite {                                                                        \
    static constexpr auto signature =                                                              \
        word "(Tensor input, float p=0.5, bool training=" default_training                         \
             ", bool inplace=False, *, Generator? generator=None)";                                \
    static constexpr auto doc = word "(x, p, training): " text;                                    \
    static constexpr auto module = "nn.functional";                                                \
    static constexpr Family family = Family::Random;                                               \
    static constexpr bool out = false;                                                             \
    static Var forward(const Var& input, double p, bool training, bool inplace,                    \
                       Generator* generator) {                                                     \
      check_probability(p, PyExc_ValueError);                                                      \
      return run(input, p, training, inplace, generator);                                          \
    }                                                                                              \
    static Var run(const Var& input, double p, bool training, bool inplace, Generator* generator); \
  };                                                                                               \
  RL_OP(Type)
RL_LAYER(LayerAlpha, "alpha_dropout", "False", "dropout that keeps mean and variance after SELU.")
RL_LAYER(LayerFeatureAlpha, "feature_alpha_dropout", "False", "alpha_dropout of whole channels.")
RL_LAYER(Layer1d, "dropout1d", "True", "whole channels of (N, C, L) or (C, L) zero.")
RL_LAYER(Layer2d, "dropout2d", "True", "whole channels of (N, C, H, W) zero.")
RL_LAYER(Layer3d, "dropout3d", "True", "whole channels of (N, C, D, H, W) or (C, D, H, W) zero.")

Var LayerAlpha::run(const Var& input, double p, bool training, bool inplace, Generator* generator) {
  return alpha_dropout(input, p, training, false, inplace, generator);
}
Var LayerFeatureAlpha::run(const Var& input, double p, bool training, bool inplace,
                           Generator* generator) {
  return alpha_dropout(input, p, training, true, inplace, generator);
}

// Without a batch dimension: one is added and taken away.
Var unbatched(const Var& input, double p, bool training, bool inplace, Generator* generator) {
  Var one = ops::unsqueeze(input, 0);
  Var result = ops::reshape(feature_dropout(one, p, training, inplace, generator), input.sizes());
  return inplace ? input : result;
}

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
}

std::string other_rank(const char* op, int dim, const char* spatial, const char* ranks) {
  return concat(op, ": Received a ", dim, "-D input to ", op,
                ", which is deprecated and will "
                "result in an error in a future release. To retain the behavior and silence this "
                "warning, please use dropout instead. Note that ",
                op,
                " exists to provide "
                "channel-wise dropout on inputs with ",
                spatial,
                " spatial dimensions, a channel "
                "dimension, and an optional batch dimension (i.e. ",
                ranks, " inputs).");
}

Var Layer1d::run(const Var& input, double p, bool training, bool inplace, Generator* generator) {
  check(input.dim() == 2 || input.dim() == 3, "dropout1d: Expected 2D or 3D input, but received a ",
        input.dim(),
        "D input. Note that dropout1d exists to provide channel-wise dropout on inputs "
        "with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D "
        "or 3D inputs).");
  return input.dim() == 3 ? feature_dropout(input, p, training, inplace, generator)
                          : unbatched(input, p, training, inplace, generator);
}

Var Layer2d::run(const Var& input, double p, bool training, bool inplace, Generator* generator) {
  if (input.dim() == 3)
    warn(
        "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
        "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
        "dim. This behavior will change in a future release to interpret the input as one without "
        "a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout "
        "behavior, please switch to using dropout1d instead.");
  else if (input.dim() != 4) warn(other_rank("dropout2d", input.dim(), "2", "3D or 4D"));
  return feature_dropout(input, p, training, inplace, generator);
}

Var Layer3d::run(const Var& input, double p, bool training, bool inplace, Generator* generator) {
  if (input.dim() != 4 && input.dim() != 5)
    warn(other_rank("dropout3d", input.dim(), "3", "4D or 5D"));
  return input.dim() == 5 ? feature_dropout(input, p, training, inplace, generator)
                          : unbatched(input, p, training, inplace, generator);
}

}  // namespace
}  // namespace rl
