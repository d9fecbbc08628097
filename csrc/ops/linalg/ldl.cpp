// LDL factors of Hermitian and of symmetric matrices.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

struct LdlFactor : General {
  static constexpr auto signature =
      "_ldl_factor(Tensor input, bool hermitian, bool check_errors, str op) -> (LD, pivots, info)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgLdlFactorExBackward0";
  static constexpr auto doc = "_ldl_factor(a, hermitian): both factors of each matrix in one.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& input, bool hermitian, bool check_errors,
                                    const std::string& op) {
    check_square(input, op);
    check_numbers(input, op);
    Var a = in_columns(input), info = no_failures(input);
    int64_t n = a.size(-1);
    Ints sizes = batch_sizes(input);
    sizes.push_back(n);
    Var pivots = empty(sizes, DType::I32, a.device());
    if (a.numel() > 0) {
      Launch launch(double(a.numel()) * double(n) / 3, {a.get(), pivots.get(), info.get()});
      linalg_on(a).ldl(a.dtype(), batch_count(a), n, a->data(), pivots->data<int32_t>(), hermitian,
                       info->data<int32_t>());
    }
    if (check_errors)
      check_info(info, op, linalg_error, [](int64_t at) {
        return concat("the block of D at element ", at,
                      " is zero: D is singular, and solving with it would divide by zero. Use "
                      "linalg.ldl_factor_ex if you still want the factors.");
      });
    return {a, pivots, info};
  }
  static void vjp(Back&, const In&, bool, bool, const std::string&) { refuse(); }
  static void jvp(Push&, const Var&, bool, bool, const std::string&) { refuse(); }
  [[noreturn]] static void refuse() {
    fail_as(PyExc_NotImplementedError, "the derivative for linalg.ldl_factor is not implemented");
  }
};
RL_OP(LdlFactor)

struct LinalgLdlFactorEx : Composite {
  static constexpr auto signature =
      "ldl_factor_ex(Tensor input, *, bool hermitian=False, bool check_errors=False) -> (LD, "
      "pivots, info)";
  static constexpr auto doc =
      "ldl_factor_ex(a, hermitian, check_errors): linalg.ldl_factor without errors: info is 0, or "
      "the place of the first zero in d.";
  static constexpr auto module = "linalg";
  static std::array<Var, 3> forward(const Var& input, bool hermitian, bool check_errors) {
    return call<LdlFactor>(input, hermitian, check_errors, "torch.linalg.ldl_factor_ex");
  }
};
RL_OP(LinalgLdlFactorEx)

struct LinalgLdlFactor : Composite {
  static constexpr auto signature =
      "ldl_factor(Tensor input, *, bool hermitian=False) -> (LD, pivots)";
  static constexpr auto doc =
      "ldl_factor(a, hermitian): a = l @ d @ l.mT, or l @ d @ l.mH, of triangles with ones on "
      "their "
      "diagonal and blocks of one or two, in one tensor, with the rows that changed places.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& input, bool hermitian) {
    auto [factors, pivots, info] =
        call<LdlFactor>(input, hermitian, true, "torch.linalg.ldl_factor");
    return {factors, pivots};
  }
};
RL_OP(LinalgLdlFactor)

// Linear in b; the factors have no derivative.
struct LinalgLdlSolve : General {
  static constexpr auto signature =
      "ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False)";
  static constexpr auto grad_name = "LinalgLdlSolveBackward0";
  static constexpr auto doc =
      "ldl_solve(ld, pivots, b, hermitian): the x with a @ x = b, of what linalg.ldl_factor(a) "
      "gives.";
  static constexpr auto module = "linalg";
  static constexpr auto saves = "LD pivots";
  static Var forward(const Var& ld, const Var& pivots, const Var& b, bool hermitian) {
    auto op = "torch.linalg.ldl_solve";
    check_square(ld, op, "LD");
    check_numbers(ld, op);
    check(b.dim() >= 2, op, ": Expected B to have at least 2 dimensions, but it has ", b.dim(),
          " dimensions instead");
    check(b.size(-2) == ld.size(-1), "Incompatible matrix sizes for ", op, ": each A matrix is ",
          ld.size(-1), " by ", ld.size(-1), " but each b matrix is ", b.size(-2), " by ",
          b.size(-1));
    check(is_integral(pivots.dtype()), op, ": Expected pivots to be integers. Got ",
          info(pivots.dtype()).tensor_name);
    check(pivots.dim() >= 1 && pivots.size(-1) == ld.size(-1), op,
          ": Expected pivots.shape[-1] to be ", ld.size(-1), ", but got pivots of shape ",
          pivots.sizes());
    check_same_dtype(ld, b, op);
    int64_t n = ld.size(-1);
    Ints batch = broadcast(batch_sizes(b), batch_sizes(ld)), places = batch;
    places.push_back(n);
    Var a = in_columns(ld, with_matrix(batch, n, n));
    Var rows = ops::contiguous(ops::to(ops::expand(pivots, places), DType::I32));
    check_pivots(rows, n);
    Var x = in_columns(b, with_matrix(batch, n, b.size(-1)));
    if (x.numel() == 0) return x;
    Launch launch(double(x.numel()) * double(n), {a.get(), rows.get(), x.get()});
    linalg_on(x).ldl_solve(x.dtype(), batch_count(x), n, x.size(-1), a->data(),
                           rows->data<int32_t>(), x->data(), hermitian);
    return x;
  }
  // The rows of a block of two count negative, both.
  static void check_pivots(const Var& rows, int64_t n) {
    if (!can_read(rows) || rows.numel() == 0) return;
    Plain plain;
    Var wide = ops::to(math::abs(rows), DType::I64);
    kernel::Range range = on(wide).range(wide->data<int64_t>(), wide.numel());
    check(range.low >= 1 && range.high <= n,
          "torch.linalg.ldl_solve: pivots must lie between 1 and ", n,
          " in magnitude. Did you properly pass the result of ldl_factor?");
    Var negative = ops::to(rows < Var(0), DType::I64);
    Var count = ops::cumsum(negative, -1), half = math::floor(count / Var(2));
    Var open = count - half * Var(2);
    Var next = ops::cat(
        {ops::narrow(negative, -1, 1, n - 1),
         ops::zeros(ops::narrow(negative, -1, 0, 1).sizes(), DType::I64, negative.device())},
        -1);
    check(!any(open > next),
          "torch.linalg.ldl_solve: pivots of blocks of two must be negative in pairs. Did you "
          "properly pass the result of ldl_factor?");
  }
  static void refuse_factors() {
    fail_as(PyExc_NotImplementedError,
            "the derivative for linalg.ldl_solve is not implemented with respect to LD. Solve with "
            "torch.linalg.solve(A, B), which is derived by both");
  }
  static void vjp(Back& b, const In& ld, const In& pivots, const In&, bool hermitian) {
    if (b.wants(0)) refuse_factors();
    // Of a Hermitian matrix the adjoint is itself, of a symmetric one the conjugate.
    Var factors = hermitian ? *ld : ops::conj(*ld);
    b[2] = call<LinalgLdlSolve>(factors, *pivots, b.g(), hermitian);
  }
  static void jvp(Push& p, const Var& ld, const Var& pivots, const Var&, bool hermitian) {
    if (p.t(0)) refuse_factors();
    p[0] = call<LinalgLdlSolve>(ld, pivots, p.t(2), hermitian);
  }
};
RL_OP(LinalgLdlSolve)

}  // namespace
}  // namespace rl
