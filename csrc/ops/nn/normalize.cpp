// Division by a norm, and by the activity of neighbouring channels.
#include "call/pointwise.h"
#include "call/write.h"
#include "ops/reduce/vector_norm.h"

namespace rl {

namespace {

struct Normalize : Composite {
  static constexpr auto signature =
      "normalize(Tensor input, float p=2.0, int[] dim=1, float eps=1e-12, Tensor? out=None)";
  static constexpr auto doc =
      "normalize(x, p, dim, eps): x over its p-norm along a dimension, or over eps where that is "
      "smaller.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, double p, const Ints& dim, double eps, const Var& into) {
    Var norm = ops::vector_norm(input, p, dim, true);
    Var least = math::call_pointwise("clamp_min", {norm, Var(eps)});
    Var y = input / ops::expand(least, input.sizes());
    if (!into) return y;
    write_out(into.get(), y, "normalize");
    return into;
  }
};
RL_OP(Normalize)

struct LocalResponseNorm : Composite {
  static constexpr auto signature =
      "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, "
      "float k=1.0)";
  static constexpr auto doc =
      "local_response_norm(x, size, alpha, beta, k): x / (k + alpha * a)**beta, a being the mean "
      "of x**2 over `size` neighbouring channels.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Norm;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t size, double alpha, double beta, double k) {
    if (input.dim() < 3)
      fail_as(PyExc_ValueError, "Expected 3D or higher dimensionality input (got ", input.dim(),
              " dimensions)");
    check(size > 0, "kernel size should be greater than zero, but got ", size,
          " (local_response_norm: size)");
    if (input.numel() == 0) return input;
    Var mean = window_sum(input * input, size) * Var(1.0 / double(size));
    return input / ops::pow_number(mean * Var(alpha) + Var(k), Var(beta));
  }
  // Sums over size / 2 channels before each, itself, and the rest after it.
  static Var window_sum(const Var& x, int64_t size) {
    int64_t channels = x.size(1), before = size / 2;
    Ints edge = x.sizes();
    auto zeros = [&](int64_t count) {
      edge[1] = count;
      return ops::zeros(edge, x.dtype(), x.device());
    };
    Var padded = ops::cat({zeros(before), x, zeros(size - 1 - before)}, 1);
    Var sum = ops::narrow(padded, 1, 0, channels);
    for (int64_t i = 1; i < size; i++) sum = sum + ops::narrow(padded, 1, i, channels);
    return sum;
  }
};
RL_OP(LocalResponseNorm)

}  // namespace
}  // namespace rl
