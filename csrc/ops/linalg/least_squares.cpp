// Pseudo-inverses, ranks and least squares.
#include <limits>

#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"

namespace rl {

namespace {

using namespace linalg;

double rounding(DType d) {
  return itemsize(real_of(d)) == 4 ? double(std::numeric_limits<float>::epsilon())
                                   : std::numeric_limits<double>::epsilon();
}

// max(atol, rtol * the largest value), each by default or given for each matrix.
Var threshold(const Var& a, const Var& atol, const Var& rtol, const Var& largest) {
  double relative = double(std::max(a.size(-2), a.size(-1))) * rounding(a.dtype());
  auto given = [&](const Var& v) { return ops::to(v, largest.dtype(), largest.device()); };
  Var low = atol ? given(atol) : Var(0), factor = Var(relative);
  if (rtol) factor = given(rtol);
  else if (atol) factor = math::where(low > Var(0), Var(0), Var(relative));
  Var scaled = factor * largest;
  return math::where(low > scaled, low, scaled);
}

Var largest_of(const Var& values) {
  Var sizes = math::abs(values);
  if (values.size(-1) == 0)
    return ops::zeros(Ints(values.sizes().data(), values.dim() - 1), sizes.dtype(), sizes.device());
  return ops::amax(sizes, {-1}, false);
}

// For a rank that stays, the change of x = pinv(a) along t, and the gradient of a for that of x.
struct PinvRule {
  Var a, x, xh;
  PinvRule(const Var& a, const Var& x) : a(a), x(x), xh(adjoint(x)) {}
  Var beyond_rows(const Var& y) const {  // (1 - a x) y
    return y - ops::matmul(a, ops::matmul(x, y));
  }
  Var beyond_columns(const Var& y) const {  // y (1 - x a)
    return y - ops::matmul(ops::matmul(y, x), a);
  }
  Var push(const Var& t) const {
    Var th = adjoint(t);
    Var rows = ops::matmul(x, ops::matmul(xh, th));
    rows = rows - ops::matmul(ops::matmul(rows, a), x);
    Var columns = ops::matmul(th, ops::matmul(xh, x));
    columns = columns - ops::matmul(x, ops::matmul(a, columns));
    return rows + columns - ops::matmul(x, ops::matmul(t, x));
  }
  Var pull(const Var& g) const {
    Var gh = adjoint(g);
    return beyond_rows(ops::matmul(ops::matmul(gh, x), xh)) +
           beyond_columns(ops::matmul(xh, ops::matmul(x, gh))) -
           ops::matmul(xh, ops::matmul(g, xh));
  }
};

struct Pinv : General {
  static constexpr auto signature =
      "_pinv(Tensor input, Tensor|Number? atol, Tensor|Number? rtol, bool hermitian)";
  static constexpr auto grad_name = "LinalgPinvBackward0";
  static constexpr auto doc = "_pinv(a, atol, rtol, hermitian): the pseudo-inverse.";
  static constexpr auto saves = "input out";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& atol, const Var& rtol, bool hermitian) {
    auto op = "linalg.pinv";
    check(input.dim() >= 2 && is_differentiable(input.dtype()) &&
              itemsize(real_of(input.dtype())) >= 4,
          op, "(", info(input.dtype()).tensor_name, "{", input.sizes(),
          "}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble "
          "types");
    if (hermitian) check_square(input, op);
    if (input.numel() == 0)
      return empty(with_matrix(batch_sizes(input), input.size(-1), input.size(-2)), input.dtype(),
                   input.device());
    Var left, values, right;  // right * (1 / values) * left
    if (hermitian) {
      auto [w, v] = linalg::eigh(input, false);
      values = w, right = v, left = adjoint(v);
    } else {
      auto [u, s, vh] = linalg::svd(input, false);
      values = s, right = adjoint(vh), left = adjoint(u);
    }
    Var limit = ops::unsqueeze(threshold(input, atol, rtol, largest_of(values)), -1);
    Var keep = math::abs(values) > limit;
    Var inverse = math::where(keep, Var(1) / math::where(keep, values, Var(1)), Var(0));
    return ops::matmul(right * ops::unsqueeze(ops::to(inverse, real_of(input.dtype())), -2), left);
  }
  static void vjp(Back& b, const In& input, const In&, const In&, bool) {
    b[0] = PinvRule(*input, b.out()).pull(b.g());
  }
  static void jvp(Push& p, const Var& input, const Var&, const Var&, bool) {
    if (p.t(0)) p[0] = PinvRule(input, p.out()).push(p.t(0));
  }
};
RL_OP(Pinv)

struct LinalgPinv : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "pinv(Tensor input, *, Tensor|Number? atol=None, Tensor|Number? rtol=None, bool "
      "hermitian=False)";
  static constexpr auto doc =
      "pinv(a, atol, rtol, hermitian): the pseudo-inverse, in which singular values up to "
      "max(atol, "
      "rtol * the largest) count as 0. rtol is the larger size times the rounding error unless "
      "atol "
      "is given.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& atol, const Var& rtol, bool hermitian) {
    return linalg::pinv(input, atol, rtol, hermitian);
  }
};
RL_OP(LinalgPinv)

struct LinalgPinvRcond : Composite {
  static constexpr auto signature = "pinv(Tensor input, Tensor|Number rcond, bool hermitian=False)";
  static constexpr auto doc = "pinv(a, rcond, hermitian): pinv(a, rtol=rcond).";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& rcond, bool hermitian) {
    return linalg::pinv(input, Var(0), rcond, hermitian);
  }
};
RL_OP(LinalgPinvRcond)

struct Pinverse : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "pinverse(Tensor input, float rcond=1e-15)";
  static constexpr auto doc = "pinverse(a, rcond): linalg.pinv.";
  static constexpr bool out = false;
  static Var forward(const Var& input, double rcond) {
    return linalg::pinv(input, Var(0), Var(rcond), false);
  }
};
RL_OP(Pinverse)

// ---- ranks

Var rank(const Var& input, const Var& atol, const Var& rtol, bool hermitian) {
  check(input.dim() >= 2,
        "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.");
  check_numbers(input, "linalg.matrix_rank");
  Plain plain;
  if (input.numel() == 0) return ops::zeros(batch_sizes(input), DType::I64, input.device());
  Var values = hermitian ? math::abs(linalg::eigvalsh(input, false)) : linalg::svdvals(input);
  Var limit = ops::unsqueeze(threshold(input, atol, rtol, largest_of(values)), -1);
  return ops::sum(values > limit, {-1}, false);
}

struct LinalgMatrixRank : NonDifferentiable {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "matrix_rank(Tensor input, *, Tensor|Number? atol=None, Tensor|Number? rtol=None, bool "
      "hermitian=False)";
  static constexpr auto doc =
      "matrix_rank(a, atol, rtol, hermitian): how many singular values are above max(atol, rtol * "
      "the largest).";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& atol, const Var& rtol, bool hermitian) {
    return rank(input, atol, rtol, hermitian);
  }
};
RL_OP(LinalgMatrixRank)

struct LinalgMatrixRankTol : NonDifferentiable {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "matrix_rank(Tensor input, Tensor|Number tol, bool hermitian=False)";
  static constexpr auto doc = "matrix_rank(a, tol, hermitian): matrix_rank(a, atol=tol, rtol=0).";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& tol, bool hermitian) {
    return rank(input, tol, Var(0), hermitian);
  }
};
RL_OP(LinalgMatrixRankTol)

// ---- least squares

struct LeastSquaresSolution : General {
  static constexpr auto signature =
      "_lstsq(Tensor input, Tensor b, float rcond, int driver) -> (solution, rank, "
      "singular_values)";
  static constexpr auto grad_name = "LinalgLstsqBackward0";
  static constexpr auto doc = "_lstsq(a, b): the x of least norm(a @ x - b).";
  static constexpr auto saves = "input b";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& input, const Var& b, double rcond, int64_t driver) {
    auto way = kernel::LeastSquares(driver);
    bool values = way == kernel::LeastSquares::Gelsd || way == kernel::LeastSquares::Gelss;
    bool ranks = way != kernel::LeastSquares::Gels;
    int64_t m = input.size(-2), n = input.size(-1), k = std::min(m, n), high = std::max(m, n);
    Ints batch = broadcast(batch_sizes(b), batch_sizes(input)), some = batch;
    some.push_back(k);
    Device device = input.device();
    Var a = in_columns(input, with_matrix(batch, m, n)), info = no_failures(a);
    Var x = empty_columns(with_matrix(batch, high, b.size(-1)), b.dtype(), device);
    ops::fill_data(x.get(), 0);
    ops::copy_data(ops::narrow(x, -2, 0, m).get(), b.get());
    Var rank = ops::zeros(ranks ? batch : Ints{0}, DType::I64, device);
    Var s = ops::zeros(values ? some : Ints{0}, real_of(a.dtype()), device);
    if (a.numel() > 0) {
      Launch launch(double(a.numel()) * double(k + b.size(-1)) * 4,
                    {a.get(), x.get(), rank.get(), s.get(), info.get()});
      linalg_on(a).least_squares(a.dtype(), batch_count(a), m, n, b.size(-1), way, a->data(),
                                 x->data(), rcond, ranks ? rank->data<int64_t>() : nullptr,
                                 values ? s->data() : nullptr, info->data<int32_t>());
    }
    check_info(info, "torch.linalg.lstsq", linalg_error, [](int64_t code) {
      if (code < 0)
        return std::string("the input contains non-finite values, which have no least squares");
      return concat(
          "The least squares solution could not be computed because the input matrix does "
          "not have full rank (error code: ",
          code, ").");
    });
    return {ops::narrow(x, -2, 0, n), rank, s};
  }
  static void vjp(Back& b, const In& input, const In& other, double, int64_t) {
    if (!b.g(0)) return;
    Var a = *input, x = linalg::pinv(a, {}, {}, false);
    if (b.wants(1)) b[1] = ops::matmul(adjoint(x), b.g());
    if (b.wants(0)) b[0] = PinvRule(a, x).pull(ops::matmul(b.g(), adjoint(*other)));
  }
  static void jvp(Push& p, const Var& input, const Var& b, double, int64_t) {
    Var x = linalg::pinv(input, {}, {}, false);
    if (p.t(1)) p.add(ops::matmul(x, p.t(1)));
    if (p.t(0)) p.add(ops::matmul(PinvRule(input, x).push(p.t(0)), b));
  }
};
RL_OP(LeastSquaresSolution)

struct LinalgLstsq : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "lstsq(Tensor input, Tensor b, float? rcond=None, *, str? driver=None) -> (solution, "
      "residuals, rank, singular_values)";
  static constexpr auto doc =
      "lstsq(a, b, rcond, driver): the x of least norm(a @ x - b); the drivers are gels, gelsy, "
      "gelsd and gelss. Residuals are there for more rows than columns and full rank, and not with "
      "gelsy; singular values with gelsd and gelss.";
  static constexpr auto module = "linalg";
  static std::array<Var, 4> forward(const Var& input, const Var& b, std::optional<double> rcond,
                                    const std::optional<std::string>& driver) {
    auto op = "torch.linalg.lstsq";
    check(input.dim() >= 2, op, ": input must have at least 2 dimensions.");
    check(b.dim() >= 1, op, ": other must have at least 1 dimension.");
    check_numbers(input, op);
    check(input.dtype() == b.dtype(), op,
          ": Expected input and other to have the same dtype, but "
          "got input's dtype ",
          info(input.dtype()).tensor_name, " and other's dtype ", info(b.dtype()).tensor_name);
    constexpr const char* names[] = {"gels", "gelsy", "gelsd", "gelss"};
    int64_t way = std::find(names, names + 4, driver.value_or("gelsy")) - names;
    check(way < 4, op, ": parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    int apart = input.dim() - b.dim();
    check(apart == 0 || apart == 1, op,
          ": input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
          "<= 1");
    bool vector = apart == 1;
    Var matrix = vector ? ops::unsqueeze(b, -1) : b;
    int64_t m = input.size(-2), n = input.size(-1);
    check(matrix.size(-2) == m, op, ": input.size(-2) should match other.size(-", vector ? 1 : 2,
          ")");
    double limit = rcond.value_or(double(std::max(m, n)) * rounding(input.dtype()));
    auto [x, rank, s] = call<LeastSquaresSolution>(input, matrix, limit, way);
    // The op does not record the singular values.
    if (s.numel()) s = is_tracked(input.get()) ? linalg::svdvals(input) : s;
    Var residuals = empty({0}, real_of(input.dtype()), input.device());
    if (m > n && way != 1 && has_full_rank(rank, n)) {
      Var size = math::abs(ops::matmul(input, x) - matrix);
      residuals = ops::sum(size * size, {-2}, false);
    }
    return {vector ? ops::select(x, -1, 0) : x, residuals, rank, s};
  }
  static bool has_full_rank(const Var& rank, int64_t n) {
    return !can_read(rank) || !any(rank != Var(double(n)));
  }
};
RL_OP(LinalgLstsq)

}  // namespace

namespace linalg {

Var pinv(const Var& a, const Var& atol, const Var& rtol, bool hermitian) {
  return call<Pinv>(a, atol, rtol, hermitian);
}

}  // namespace linalg
}  // namespace rl
