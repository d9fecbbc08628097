// Tensors of random numbers.
#include "ops/random/random.h"
#include "call/recording.h"

#include "call/memory_format.h"
#include "ops/shape/creation.h"

namespace rl {

namespace {

using Options = std::optional<DType>;

struct Sampling : Creation_ {
  static constexpr Family family = Family::Random;
  static constexpr bool sees_batches = true;
};

#define RL_RANDOM(Type, function_name, fill, text)                                                \
  struct Type : Sampling {                                                                        \
    static constexpr auto signature =                                                             \
        function_name "(size size, *, Generator? generator=None, " RL_OPTIONS ")";                \
    static constexpr auto doc = function_name "(*size): " text;                                   \
    static Var forward(const Ints& size, Generator* generator, Options dtype, PyObject*,          \
                       std::optional<Device> device, bool requires_grad, PyObject*) {             \
      Var v = empty(size, chosen(dtype), chosen(device));                                         \
      fill(v.get(), 0, 1, generator);                                                             \
      return finish(v, requires_grad);                                                            \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type)                                                                                     \
  struct Type##Like : Sampling {                                                                  \
    static constexpr auto signature =                                                             \
        function_name "_like(Tensor input, *, Generator? generator=None, " RL_OPTIONS             \
                      ", object? memory_format=None)";                                            \
    static constexpr auto doc = function_name "_like(x): the same with the shape and type of x."; \
    static Var forward(const Var& input, Generator* generator, Options dtype, PyObject*,          \
                       std::optional<Device> device, bool requires_grad, PyObject*,               \
                       PyObject* memory_format) {                                                 \
      Var v = empty_like(input, dtype.value_or(input.dtype()), device.value_or(input.device()),   \
                         memory_format, function_name "_like");                                   \
      fill(v.get(), 0, 1, generator);                                                             \
      return finish(v, requires_grad);                                                            \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type##Like)
RL_RANDOM(Rand, "rand", fill_uniform, "uniform numbers from [0, 1).")
RL_RANDOM(Randn, "randn", fill_normal, "numbers from the standard normal distribution.")

Var integers(Var v, int64_t low, int64_t high, Generator* generator, bool requires_grad) {
  fill_integers(v.get(), low, high, generator);
  return finish(v, requires_grad);
}

#define RL_RANDINT(Type, parameters, low, high, ...)                                              \
  struct Type : Sampling {                                                                        \
    static constexpr auto signature =                                                             \
        "randint(" parameters ", int[] size, *, Generator? generator=None, " RL_OPTIONS ")";      \
    static constexpr auto doc = "randint(low, high, size): integers from [low, high).";           \
    static Var forward(__VA_ARGS__, const Ints& size, Generator* generator, Options dtype,        \
                       PyObject*, std::optional<Device> device, bool requires_grad, PyObject*) {  \
      return integers(empty(size, dtype.value_or(DType::I64), chosen(device)), low, high,         \
                      generator, requires_grad);                                                  \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type)                                                                                     \
  struct Type##Like : Sampling {                                                                  \
    static constexpr auto signature =                                                             \
        "randint_like(Tensor input, " parameters ", *, Generator? generator=None, " RL_OPTIONS    \
        ", object? memory_format=None)";                                                          \
    static constexpr auto doc = "randint_like(x, low, high): integers with x's shape and type.";  \
    static Var forward(const Var& input, __VA_ARGS__, Generator* generator, Options dtype,        \
                       PyObject*, std::optional<Device> device, bool requires_grad, PyObject*,    \
                       PyObject* memory_format) {                                                 \
      return integers(empty_like(input, dtype.value_or(input.dtype()),                            \
                                 device.value_or(input.device()), memory_format, "randint_like"), \
                      low, high, generator, requires_grad);                                       \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type##Like)
RL_RANDINT(RandInt, "int low, int high", low, high, int64_t low, int64_t high)
RL_RANDINT(RandIntHigh, "int high", 0, high, int64_t high)

struct RandPerm : Sampling {
  static constexpr auto signature = "randperm(int n, *, Generator? generator=None, " RL_OPTIONS ")";
  static constexpr auto doc = "randperm(n): the integers from 0 to n - 1 in a random order.";
  static Var forward(int64_t n, Generator* generator, Options dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*) {
    if (!vmap_levels.empty())
      if (HiddenDims different = random_levels()) {
        Vars samples;
        for (int64_t i = 0; i < std::max<int64_t>(different.samples(), 1); i++)
          samples.push_back(order(n, generator, dtype, chosen(device), requires_grad));
        return different.hide(different.join("randperm", samples));
      }
    return order(n, generator, dtype, chosen(device), requires_grad);
  }
  static Var order(int64_t n, Generator* generator, Options dtype, Device device,
                   bool requires_grad) {
    DType result = dtype.value_or(DType::I64);
    check(n >= 0, "randperm: Trying to create tensor with negative dimension ", n);
    if (result == DType::Bool || is_complex(result))
      fail_as(PyExc_NotImplementedError, "\"randperm\" not implemented for '",
              info(result).tensor_name, "'");
    if (is_float8(result)) refuse_stored("randperm", result);
    check(n <= exact_integers(result), "randperm: n = ", n, " is too large for ", name(result));
    Var order = empty({n}, DType::I64, device);
    if (recording) refuse_recording("randperm");
    generator = generator_on(device, generator);
    if (generator->mersenne && has_data(order.get())) {
      cpu::fill_permutation(*generator->mersenne, order->data<int64_t>(), n);
    } else {
      Stream stream(generator, n);
      Launch launch(double(n) * 8, {order.get()});
      on(order).fill_permutation(order->data<int64_t>(), n, stream.seed, stream.offset);
    }
    return finish(ops::to(order, result), requires_grad);
  }
  // How many integers from 0 on the type tells apart.
  static int64_t exact_integers(DType d) {
    switch (d) {
      case DType::U8: return 256;
      case DType::U16: return 65536;
      case DType::U32: return int64_t(1) << 32;
      case DType::I8: return 128;
      case DType::I16: return 32768;
      case DType::I32: return int64_t(1) << 31;
      case DType::F16: return 2049;
      case DType::BF16: return 257;
      case DType::F32: return (1 << 24) + 1;
      case DType::F64: return (int64_t(1) << 53) + 1;
      default: return INT64_MAX;
    }
  }
};
RL_OP(RandPerm)

// The results do not depend on the arguments in a way that has a derivative: it is zero.
void zero_gradients(Back& b, const In& first, const In* second) {
  if (b.wants(0)) b[0] = ops::zeros(first.sizes(), first.dtype(), first.device());
  if (second && b.wants(1)) b[1] = ops::zeros(second->sizes(), second->dtype(), second->device());
}

struct Bernoulli : General {
  static constexpr auto signature = "bernoulli(Tensor input, *, Generator? generator=None)";
  static constexpr bool sees_batches = true;
  static constexpr auto doc = "bernoulli(p): 1 with the probability in p, else 0.";
  static constexpr Family family = Family::Random;
  static Var forward(const Var& input, Generator* generator) {
    if (batch_of(input.get())) {
      Var uniform = empty(input.sizes(), input.dtype(), input.device());
      fill_uniform(uniform.get(), 0, 1, generator);
      return ops::to(uniform < input, input.dtype());
    }
    Var v = empty(input.sizes(), input.dtype(), input.device());
    fill_bernoulli(v.get(), probabilities(input, input.sizes(), input.device()), input.dtype(),
                   generator);
    return v;
  }
  static void vjp(Back& b, const In& input, Generator*) { zero_gradients(b, input, nullptr); }
  static void jvp(Push&, const Var&, Generator*) {}
};
RL_OP(Bernoulli)

struct BernoulliNumber : General {
  static constexpr auto signature =
      "bernoulli(Tensor input, float p, *, Generator? generator=None)";
  static constexpr bool sees_batches = true;
  static constexpr auto doc = "bernoulli(x, p): 1 with probability p, else 0, shaped as x.";
  static constexpr Family family = Family::Random;
  static Var forward(const Var& input, double p, Generator* generator) {
    Var v = empty(input.sizes(), input.dtype(), input.device());
    fill_bernoulli(v.get(), p, generator);
    return v;
  }
  static void vjp(Back& b, const In& input, double, Generator*) {
    zero_gradients(b, input, nullptr);
  }
  static void jvp(Push&, const Var&, double, Generator*) {}
};
RL_OP(BernoulliNumber)

struct Multinomial : NonDifferentiable {
  static constexpr auto signature =
      "multinomial(Tensor input, int num_samples, bool replacement=False, *, "
      "Generator? generator=None)";
  static constexpr auto doc =
      "multinomial(weights, num_samples, replacement): indices drawn by the weights of each row.";
  static constexpr Family family = Family::Random;
  static Var forward(const Var& input, int64_t num_samples, bool replacement,
                     Generator* generator) {
    if (!vmap_levels.empty()) random_levels();
    check(input.dim() == 1 || input.dim() == 2, "prob_dist must be 1 or 2 dim, got shape ",
          input.sizes());
    check(is_floating(input.dtype()),
          "multinomial only supports floating-point dtypes for input, got: ",
          info(input.dtype()).tensor_name);
    check(num_samples > 0, "cannot sample n_sample <= 0 samples, got ", num_samples);
    int64_t cols = input.size(-1), rows = input.dim() == 2 ? input.sizes()[0] : 1;
    check(replacement || num_samples <= cols,
          "cannot sample n_sample > prob_dist.size(-1) samples "
          "without replacement: ",
          num_samples, " > ", cols);
    Var weights = ops::contiguous(ops::to(input, DType::F64));
    if (weights.device() == kHost)
      for (int64_t r = 0; r < rows; r++) check_row(weights->host<double>() + r * cols, cols);
    Var drawn = empty(input.dim() == 2 ? Ints{rows, num_samples} : Ints{num_samples}, DType::I64,
                      input.device());
    if (recording) refuse_recording("multinomial");
    generator = generator_on(input.device(), generator);
    if (generator->mersenne && has_data(drawn.get())) {
      cpu::multinomial(*generator->mersenne, input.dtype(), weights->data<double>(), rows, cols,
                       num_samples, replacement, drawn->data<int64_t>());
      return drawn;
    }
    int64_t each = (std::max(num_samples, cols) + 31) / 32 * 32;
    Stream stream(generator, rows * each);
    Launch launch(double(rows) * double(cols + num_samples) * 8, {weights.get(), drawn.get()});
    on(weights).multinomial(weights->data<double>(), rows, cols, num_samples, replacement,
                            drawn->data<int64_t>(), stream.seed, stream.offset);
    return drawn;
  }
  static void check_row(const double* w, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
      check(std::isfinite(w[i]) && w[i] >= 0,
            "probability tensor contains either `inf`, `nan` or element < 0: ", w[i]);
      sum += w[i];
    }
    check(sum > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
};
RL_OP(Multinomial)

// Standard normal numbers, scaled and shifted.
Var normal(const Ints& sizes, DType dtype, const Var& mean, const Var& std, Generator* generator) {
  Var v = empty(sizes, dtype, mean->wrapped_number ? std.device() : mean.device());
  fill_normal(v.get(), 0, 1, generator);
  if (batch_of(std.get())) return ops::to(v * std + mean, dtype);
  Var deviations = ops::contiguous(ops::to(std, DType::F64));
  if (deviations.device() != kHost || recording) return ops::to(v * std + mean, dtype);
  const double* s = deviations->host<double>();
  for (int64_t i = 0; i < deviations.numel(); i++)
    check(s[i] >= 0, "normal expects all elements of std >= 0.0, but found ", s[i]);
  return ops::to(v * std + mean, dtype);
}

struct NormalBoth : General {
  static constexpr bool sees_batches = true;
  static constexpr auto signature = "normal(Tensor mean, Tensor std, *, Generator? generator=None)";
  static constexpr auto grad_name = "NormalBackward3";
  static constexpr auto doc = "normal(mean, std): normal numbers, a mean and a deviation for each.";
  static constexpr Family family = Family::Random;
  static constexpr bool method = false;
  static Var forward(const Var& mean, const Var& std, Generator* generator) {
    return normal(broadcast(mean.sizes(), std.sizes()), mean.dtype(), mean, std, generator);
  }
  static void vjp(Back& b, const In& mean, const In& std, Generator*) {
    zero_gradients(b, mean, &std);
  }
  static void jvp(Push&, const Var&, const Var&, Generator*) {}
};
RL_OP(NormalBoth)

struct NormalMean : General {
  static constexpr bool sees_batches = true;
  static constexpr auto signature =
      "normal(Tensor mean, float std=1, *, Generator? generator=None)";
  static constexpr auto grad_name = "NormalBackward1";
  static constexpr auto doc = "normal(mean, std): normal numbers, a mean for each.";
  static constexpr Family family = Family::Random;
  static constexpr bool method = false;
  static Var forward(const Var& mean, double std, Generator* generator) {
    check_normal(mean.dtype(), std);
    return normal(mean.sizes(), mean.dtype(), mean, Var(std), generator);
  }
  static void vjp(Back& b, const In& mean, double, Generator*) { zero_gradients(b, mean, nullptr); }
  static void jvp(Push&, const Var&, double, Generator*) {}
};
RL_OP(NormalMean)

struct NormalStd : General {
  static constexpr bool sees_batches = true;
  static constexpr auto signature = "normal(float mean, Tensor std, *, Generator? generator=None)";
  static constexpr auto grad_name = "NormalBackward2";
  static constexpr auto doc = "normal(mean, std): normal numbers, a deviation for each.";
  static constexpr Family family = Family::Random;
  static constexpr bool method = false;
  static Var forward(double mean, const Var& std, Generator* generator) {
    return normal(std.sizes(), std.dtype(), Var(mean), std, generator);
  }
  static void vjp(Back& b, double, const In& std, Generator*) { zero_gradients(b, std, nullptr); }
  static void jvp(Push&, double, const Var&, Generator*) {}
};
RL_OP(NormalStd)

struct NormalSize : Sampling {
  static constexpr auto signature =
      "normal(float mean, float std, int[] size, *, Generator? generator=None, " RL_OPTIONS ")";
  static constexpr auto doc = "normal(mean, std, size): normal numbers.";
  static Var forward(double mean, double std, const Ints& size, Generator* generator, Options dtype,
                     PyObject*, std::optional<Device> device, bool requires_grad, PyObject*) {
    Var v = empty(size, chosen(dtype), chosen(device));
    fill_normal(v.get(), mean, std, generator);
    return finish(v, requires_grad);
  }
};
RL_OP(NormalSize)

}  // namespace
}  // namespace rl
