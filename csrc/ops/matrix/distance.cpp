// Distances and similarities of vectors.
#include "ops/matrix/distance.h"

#include <cmath>

#include "call/broadcast.h"
#include "ops/reduce/vector_norm.h"

namespace rl {

Var at_least(const Var& x, double low, bool straight) {
  if (!straight) return math::call_pointwise("clamp_min", {x, Var(low)});
  Var lift;
  {
    Plain plain;
    Var value = alias(x.get());
    lift = math::call_pointwise("clamp_min", {value, Var(low)}) - value;
  }
  return x + lift;
}

Var pairwise_distance(const Var& x1, const Var& x2, double p, double eps, bool keepdim) {
  Var apart = x1 - x2 + Var(eps);
  return ops::vector_norm(apart, p, {-1}, keepdim);
}

namespace {

struct CosineSimilarity : Composite {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature =
      "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08)";
  static constexpr auto doc =
      "cosine_similarity(x1, x2, dim, eps): the cosine of the angle between the vectors along a "
      "dimension.";
  static constexpr Family family = Family::Distance;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& x1, const Var& x2, int64_t dim, double eps) {
    DType common = result_type(x1.get(), x2.get());
    check(is_floating(common), "expected common dtype to be floating point, yet common dtype is ",
          info(common).tensor_name, " (cosine_similarity)");
    Ints sizes = broadcast(x1.sizes(), x2.sizes());
    int64_t d = wrap_dim(dim, sizes.size(), "cosine_similarity");
    auto unit = [&](const Var& x) {
      Var wide = ops::expand(ops::to(x, common), sizes);
      return wide / at_least(ops::vector_norm(wide, 2, {d}, true), eps, true);
    };
    return ops::sum(unit(x1) * unit(x2), {d}, false);
  }
};
RL_OP(CosineSimilarity)

struct CosineSimilarityFunctional : CosineSimilarity {
  static constexpr auto module = "nn.functional";
};
RL_OP(CosineSimilarityFunctional)

struct PairwiseDistance : Composite {
  static constexpr auto signature =
      "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False)";
  static constexpr auto doc =
      "pairwise_distance(x1, x2, p, eps): the p-norm of x1 - x2 + eps over the last dimension.";
  static constexpr Family family = Family::Distance;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& x1, const Var& x2, double p, double eps, bool keepdim) {
    return pairwise_distance(x1, x2, p, eps, keepdim);
  }
};
RL_OP(PairwiseDistance)

struct PairwiseDistanceFunctional : PairwiseDistance {
  static constexpr auto module = "nn.functional";
};
RL_OP(PairwiseDistanceFunctional)

struct Pdist : Composite {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "pdist(Tensor input, float p=2)";
  static constexpr auto doc =
      "pdist(x, p): the p-norm distance of every pair of rows, first with second, first with "
      "third, and so on.";
  static constexpr Family family = Family::Distance;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, double p) {
    check(input.dim() == 2, "pdist only supports 2D tensors, got: ", input.dim(), "D");
    check(is_floating(input.dtype()),
          "pdist only supports floating-point dtypes, got: ", info(input.dtype()).tensor_name);
    check(p >= 0, "pdist only supports non-negative p values, got ", p);
    auto [left, right] = pairs(input.size(0), input.device());
    Var apart = ops::index_select(input, 0, left) - ops::index_select(input, 0, right);
    if (input.size(1) == 0) return ops::sum(apart, {1}, false);
    return ops::vector_norm(apart, p, {1}, false);
  }
  // The rows of each pair.
  static std::pair<Var, Var> pairs(int64_t n, Device device) {
    int64_t count = 0;
    check(!__builtin_mul_overflow(n, n - 1, &count), "pdist: too many pairs of ", n, " rows");
    Ints sizes{count / 2};
    if (device.type == Device::Meta)
      return {empty(sizes, DType::I64, device), empty(sizes, DType::I64, device)};
    Var left = empty(sizes, DType::I64, kHost), right = empty(sizes, DType::I64, kHost);
    int64_t *l = left->host<int64_t>(), *r = right->host<int64_t>();
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = i + 1; j < n; j++) {
        *l++ = i;
        *r++ = j;
      }
    return {ops::to(left, DType::I64, device), ops::to(right, DType::I64, device)};
  }
};
RL_OP(Pdist)

struct PdistFunctional : Pdist {
  static constexpr auto module = "nn.functional";
};
RL_OP(PdistFunctional)

struct Cdist : Composite {
  static constexpr auto signature =
      "cdist(Tensor x1, Tensor x2, float p=2.0, "
      "str? compute_mode='use_mm_for_euclid_dist_if_necessary')";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "cdist(x1, x2, p): the p-norm distance of every row of x1 to every row of x2.";
  static constexpr Family family = Family::Distance;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static constexpr int64_t kFew = 25;  // rows up to which differences are taken one by one

  static Var forward(const Var& x1, const Var& x2, double p, std::optional<std::string> mode) {
    check_matrix("X1", x1);
    check_matrix("X2", x2);
    check(x1.dtype() == x2.dtype(), "expected scalar type ", info(x1.dtype()).tensor_name,
          " but found ", info(x2.dtype()).tensor_name, " (cdist)");
    check(x1.size(-1) == x2.size(-1),
          "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
          " X2: ", x2.size(-1));
    check(p >= 0, "cdist only supports non-negative p values, got ", p);
    if (p == 2 && by_product(mode.value_or("use_mm_for_euclid_dist_if_necessary"), x1, x2))
      return euclidean(x1, x2);
    Var apart = ops::unsqueeze(x1, -2) - ops::unsqueeze(x2, -3);
    if (x1.size(-1) == 0) return ops::sum(apart, {-1}, false);
    return ops::vector_norm(apart, p, {-1}, false);
  }
  static void check_matrix(const char* name, const Var& x) {
    check(is_floating(x.dtype()), "cdist only supports floating-point dtypes, ", name,
          " got: ", info(x.dtype()).tensor_name);
    check(x.dim() >= 2, "cdist only supports at least 2D tensors, ", name, " got: ", x.dim(), "D");
  }
  static bool by_product(const std::string& mode, const Var& x1, const Var& x2) {
    if (mode == "use_mm_for_euclid_dist") return x1.numel() > 0 && x2.numel() > 0;
    if (mode == "donot_use_mm_for_euclid_dist") return false;
    if (mode == "use_mm_for_euclid_dist_if_necessary")
      return (x1.size(-2) > kFew || x2.size(-2) > kFew) && x1.numel() > 0 && x2.numel() > 0;
    fail_as(PyExc_ValueError, mode, " is not a valid value for compute_mode");
  }
  // |a - b|^2 = |a|^2 + |b|^2 - 2 a b, with the derivative 0 where it is 0.
  static Var euclidean(const Var& x1, const Var& x2) {
    Var squares = ops::sum(x1 * x1, {-1}, true) +
                  ops::transpose(ops::sum(x2 * x2, {-1}, true), -2, -1) -
                  Var(2) * ops::matmul(x1, ops::transpose(x2, -2, -1));
    Var apart = squares > Var(0);
    return math::where(apart, math::sqrt(math::where(apart, squares, Var(1))), Var(0));
  }
};
RL_OP(Cdist)

}  // namespace
}  // namespace rl
