// Cholesky factors and what is solved with them.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

// The lower triangle with half of the diagonal.
Var lower_half(const Var& x) {
  Var lower = ops::tril(x, 0);
  return lower - ops::triu(lower, 0) * Var(0.5);
}

// a^-1 * x * a^-H of a lower triangle.
Var between_inverses(const Var& l, const Var& x) {
  Var left = linalg::solve_triangular(l, x, false);
  return linalg::solve_triangular(adjoint(l), left, true, false);
}

// The input counts as Hermitian: gradients are, and tangents are read as if they were.
struct CholeskyFactor : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "_cholesky(Tensor input, bool upper, bool check_errors, str op) -> (L, info)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgCholeskyExBackward0";
  static constexpr auto doc = "_cholesky(a): the triangular factor of each matrix, and its fate.";
  static constexpr auto saves = "out";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, bool upper, bool check_errors,
                                    const std::string& op) {
    check_square(input, op);
    check_numbers(input, op);
    Var l = in_columns(input), info = no_failures(input);
    int64_t n = l.size(-1);
    {
      Launch launch(double(l.numel()) * double(n) / 3, {l.get(), info.get()});
      linalg_on(l).cholesky(l.dtype(), batch_count(l), n, l->data(), upper, info->data<int32_t>());
    }
    if (check_errors)
      check_info(info, op, linalg_error, [](int64_t minor) {
        return concat(
            "The factorization could not be completed because the input is not "
            "positive-definite (the leading minor of order ",
            minor, " is not positive-definite).");
      });
    return {l, info};
  }
  static void vjp(Back& b, const In&, bool upper, bool, const std::string&) {
    Var l = upper ? adjoint(b.out()) : b.out(), g = upper ? adjoint(b.g()) : b.g();
    Var inner = hermitian_part(lower_half(ops::matmul(adjoint(l), g)));
    Var left = linalg::solve_triangular(adjoint(l), inner, true);
    b[0] = linalg::solve_triangular(l, left, false, false);
  }
  static void jvp(Push& p, const Var&, bool upper, bool, const std::string&) {
    Var l = upper ? adjoint(p.out()) : p.out();
    Var moved = ops::matmul(l, lower_half(between_inverses(l, hermitian_part(p.t(0)))));
    p[0] = upper ? adjoint(moved) : moved;
  }
};
RL_OP(CholeskyFactor)

struct LinalgCholeskyEx : Composite {
  static constexpr auto signature =
      "cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (L, info)";
  static constexpr auto doc =
      "cholesky_ex(a, upper, check_errors): linalg.cholesky without errors: info is 0, or the "
      "order "
      "of the first leading minor that is not positive.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& input, bool upper, bool check_errors) {
    return call<CholeskyFactor>(input, upper, check_errors,
                                check_errors ? "linalg.cholesky_ex" : "linalg.cholesky");
  }
};
RL_OP(LinalgCholeskyEx)

struct LinalgCholesky : Composite {
  static constexpr auto signature = "cholesky(Tensor input, *, bool upper=False)";
  static constexpr auto doc =
      "cholesky(a, upper): the lower triangular l with a = l @ l.mH, or the upper u with "
      "a = u.mH @ u, of Hermitian positive-definite matrices.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, bool upper) {
    return call<CholeskyFactor>(input, upper, true, "linalg.cholesky")[0];
  }
};
RL_OP(LinalgCholesky)

struct Cholesky : Composite {
  static constexpr auto signature = "cholesky(Tensor input, bool upper=False)";
  static constexpr auto doc = "cholesky(a, upper): linalg.cholesky.";
  static Var forward(const Var& input, bool upper) {
    return call<CholeskyFactor>(input, upper, true, "cholesky")[0];
  }
};
RL_OP(Cholesky)

// (l * l^H)^-1 * b.
Var solved(const Var& factor, const Var& b, bool upper) {
  Var l = upper ? adjoint(factor) : factor;
  return linalg::solve_triangular(adjoint(l), linalg::solve_triangular(l, b, false), true);
}

struct CholeskySolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "cholesky_solve(Tensor input, Tensor input2, bool upper=False)";
  static constexpr auto doc =
      "cholesky_solve(b, l, upper): the x with (l @ l.mH) @ x = b, of a Cholesky factor.";
  static Var forward(const Var& input, const Var& input2, bool upper) {
    check(input.dim() >= 2, "cholesky_solve: b should have at least 2 dimensions, but has ",
          input.dim(), " dimensions instead");
    check(input2.dim() >= 2, "cholesky_solve: u should have at least 2 dimensions, but has ",
          input2.dim(), " dimensions instead");
    check_square(input2, "cholesky_solve");
    check_numbers(input2, "cholesky_solve");
    check_same_dtype(input2, input, "cholesky_solve");
    check(input.size(-2) == input2.size(-1),
          "Incompatible matrix sizes for cholesky_solve: each A matrix is ", input2.size(-1),
          " by ", input2.size(-1), " but each b matrix is ", input.size(-2), " by ",
          input.size(-1));
    return solved(input2, input, upper);
  }
};
RL_OP(CholeskySolve)

struct CholeskyInverse : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "cholesky_inverse(Tensor input, bool upper=False)";
  static constexpr auto doc =
      "cholesky_inverse(l, upper): the inverse of l @ l.mH, of a Cholesky factor.";
  static Var forward(const Var& input, bool upper) {
    check_square(input, "cholesky_inverse");
    check_numbers(input, "cholesky_inverse");
    if (can_read(input) && input.numel()) {
      Plain plain;
      Var zero = ops::contiguous(ops::to(diagonal(input) == Var(0), DType::I64, kHost));
      const int64_t* found = zero->host<int64_t>();
      for (int64_t i = 0; i < zero.numel(); i++)
        if (found[i])
          fail_as(linalg_error, "cholesky_inverse: ",
                  input.dim() > 2 ? concat("(Batch element ", i / input.size(-1), "): ") : "",
                  "The diagonal element ", i % input.size(-1) + 1,
                  " is zero, the inversion could not be completed because the input matrix is "
                  "singular.");
    }
    return solved(input, identity(input.size(-1), input), upper);
  }
};
RL_OP(CholeskyInverse)

}  // namespace
}  // namespace rl
