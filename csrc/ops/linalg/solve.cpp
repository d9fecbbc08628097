// Linear equations, inverses, and both for tensors.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

constexpr auto kSingular = "The solver failed because the input matrix is singular.";

// a [.., n, n] and b [.., n, k] of one batch.
struct SolveMatrices : General {
  static constexpr auto signature =
      "_solve(Tensor A, Tensor B, bool check_errors, str op) -> (result, LU, pivots, info)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr auto grad_name = "LinalgSolveExBackward0";
  static constexpr auto doc = "_solve(a, b): the solutions of a @ x = b, and the factors of a.";
  static constexpr auto saves = "A out out1 out2";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 4> forward(const Var& a, const Var& b, bool check_errors,
                                    const std::string& op) {
    auto [lu, pivots, info] = linalg::lu_factor(a, false, op);
    if (check_errors)
      check_info(info, "torch." + op, linalg_error, [](int64_t) { return kSingular; });
    return {linalg::lu_solved(lu, pivots, b, false), lu, pivots, info};
  }
  static void vjp(Back& b, const In& a, const In&, bool, const std::string&) {
    Var g = b.create_graph() ? linalg::solve(adjoint(*a), b.g())
                             : linalg::lu_solved(b.out(1), b.out(2), b.g(), true);
    if (b.wants(1)) b[1] = g;
    if (b.wants(0)) b[0] = -ops::matmul(g, adjoint(b.out()));
  }
  static void jvp(Push& p, const Var& a, const Var&, bool, const std::string&) {
    Var change = p.t(1);
    if (p.t(0)) {
      Var moved = ops::matmul(p.t(0), p.out());
      change = change ? change - moved : -moved;
    }
    p[0] = linalg::solve(a, change);
  }
};
RL_OP(SolveMatrices)

// The result, and the fate of each matrix.
std::array<Var, 2> solve_any(const Var& a, const Var& b, bool left, bool check_errors,
                             const std::string& op) {
  check_square(a, op);
  check_numbers(a, op);
  check_same_dtype(a, b, op);
  bool vector = b.dim() > 0 && is_vector(a, b);
  check(left || !vector, op,
        ": Vector broadcasting of the left hand side is not supported for "
        "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
  Var matrix = vector ? ops::unsqueeze(b, -1) : b;
  check_dims(matrix, op, "B");
  int64_t n = a.size(-1);
  check(matrix.size(left ? -2 : -1) == n, op, ": Incompatible shapes of A and B for the equation ",
        left ? "AX = B" : "XA = B", " (", n, "x", n, " and ", matrix.size(-2), "x", matrix.size(-1),
        ")");
  broadcast(batch_sizes(matrix), batch_sizes(a));
  Var of = left ? a : transposed(a), to = left ? matrix : transposed(matrix);
  std::array<Var, 4> found = call<SolveMatrices>(of, to, check_errors, op);
  Var x = left ? found[0] : transposed(found[0]);
  return {vector ? ops::select(x, -1, 0) : x, found[3]};
}

struct LinalgSolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "solve(Tensor A, Tensor B, *, bool left=True)";
  static constexpr auto doc =
      "solve(a, b, left): the x with a @ x = b, or x @ a = b, of invertible matrices. b may be a "
      "batch of vectors.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& a, const Var& b, bool left) {
    return solve_any(a, b, left, true, "linalg.solve")[0];
  }
};
RL_OP(LinalgSolve)

struct LinalgSolveEx : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (result, info)";
  static constexpr auto doc =
      "solve_ex(a, b, left, check_errors): linalg.solve without errors: info is 0, or the place of "
      "the first zero on the diagonal of the factor u.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& a, const Var& b, bool left, bool check_errors) {
    return solve_any(a, b, left, check_errors, check_errors ? "linalg.solve_ex" : "linalg.solve");
  }
};
RL_OP(LinalgSolveEx)

// ---- inverses

struct InverseMatrix : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "_inverse(Tensor A, bool check_errors, str op) -> (inverse, info)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgInvExBackward0";
  static constexpr auto doc = "_inverse(a): the inverse of each matrix, and its fate.";
  static constexpr auto saves = "out";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& a, bool check_errors, const std::string& op) {
    check_square(a, op);
    check_numbers(a, op);
    Var x = in_columns(a), info = no_failures(a);
    if (x.numel() > 0) {
      Launch launch(double(x.numel()) * double(x.size(-1)) * 2, {x.get(), info.get()});
      linalg_on(x).inverse(x.dtype(), batch_count(x), x.size(-1), x->data(), info->data<int32_t>());
    }
    if (check_errors)
      check_info(info, op, linalg_error, [](int64_t at) {
        return concat("The diagonal element ", at,
                      " is zero, the inversion could not be completed because the input matrix is "
                      "singular.");
      });
    return {x, info};
  }
  static void vjp(Back& b, const In&, bool, const std::string&) {
    Var xh = adjoint(b.out());
    b[0] = -ops::matmul(xh, ops::matmul(b.g(), xh));
  }
  static void jvp(Push& p, const Var&, bool, const std::string&) {
    p[0] = -ops::matmul(p.out(), ops::matmul(p.t(0), p.out()));
  }
};
RL_OP(InverseMatrix)

struct LinalgInvEx : Composite {
  static constexpr auto signature =
      "inv_ex(Tensor A, *, bool check_errors=False) -> (inverse, info)";
  static constexpr auto doc =
      "inv_ex(a, check_errors): linalg.inv without errors: info is 0, or the place of the first "
      "zero "
      "on the diagonal of the factor u.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& a, bool check_errors) {
    return call<InverseMatrix>(a, check_errors, check_errors ? "linalg.inv_ex" : "linalg.inv");
  }
};
RL_OP(LinalgInvEx)

struct LinalgInv : Composite {
  static constexpr auto signature = "inv(Tensor A)";
  static constexpr auto doc = "inv(a): the inverses of invertible matrices.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& a) { return linalg::inverse(a, "linalg.inv"); }
};
RL_OP(LinalgInv)

struct Inverse : Composite {
  static constexpr auto signature = "inverse(Tensor input)";
  static constexpr auto doc = "inverse(a): linalg.inv.";
  static Var forward(const Var& input) { return linalg::inverse(input, "linalg.inv"); }
};
RL_OP(Inverse)

// ---- tensors as matrices

Ints part(const Ints& sizes, int from, int to) { return Ints(sizes.data() + from, to - from); }

struct LinalgTensorInv : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "tensorinv(Tensor input, int ind=2)";
  static constexpr auto doc =
      "tensorinv(a, ind): the inverse of tensordot(a, x, ind): its first ind dimensions are those "
      "that a has last.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, int64_t ind) {
    check(ind > 0, "linalg.tensorinv: Expected a strictly positive integer for 'ind', but got ",
          ind);
    int at = int(std::min<int64_t>(ind, input.dim()));
    Ints first = part(input.sizes(), 0, at), last = part(input.sizes(), at, input.dim());
    int64_t rows = element_count(first), columns = element_count(last);
    check(rows == columns,
          "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
          "prod(self.shape[:ind]), but got ",
          columns, " != ", rows);
    Ints sizes = last;
    for (int64_t size : first) sizes.push_back(size);
    return ops::reshape(linalg::inverse(ops::reshape(input, {rows, columns}), "linalg.tensorinv"),
                        sizes);
  }
};
RL_OP(LinalgTensorInv)

struct LinalgTensorSolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "tensorsolve(Tensor input, Tensor other, int[]? dims=None)";
  static constexpr auto doc =
      "tensorsolve(a, b, dims): the x with tensordot(a, x, x.dim()) = b; dims of a are moved to "
      "its "
      "end first.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& other, const std::optional<Ints>& dims) {
    Var a = input;
    if (dims) {
      Ints last = wrap_dims(*dims, a.dim(), "linalg.tensorsolve"), order;
      for (int i = 0; i < a.dim(); i++)
        if (std::find(last.begin(), last.end(), i) == last.end()) order.push_back(i);
      for (int64_t d : last) order.push_back(d);
      check(order.size() == a.dim(), "linalg.tensorsolve: dims repeat a dimension: ", *dims);
      a = ops::permute(a, order);
    }
    int at = std::min(other.dim(), a.dim());
    Ints sizes = part(a.sizes(), at, a.dim());
    int64_t rows = element_count(part(a.sizes(), 0, at)), columns = element_count(sizes);
    check(rows == columns && other.numel() == rows,
          "linalg.tensorsolve: Expected self to satisfy the requirement "
          "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got ",
          columns, " != ", rows);
    Var x = solve_any(ops::reshape(a, {rows, columns}), ops::reshape(other, {-1}), true, true,
                      "linalg.tensorsolve")[0];
    return ops::reshape(x, sizes);
  }
};
RL_OP(LinalgTensorSolve)

}  // namespace

namespace linalg {

Var solve(const Var& a, const Var& b) {
  return call<SolveMatrices>(a, b, false, "linalg.solve")[0];
}

Var inverse(const Var& a, const std::string& op) { return call<InverseMatrix>(a, true, op)[0]; }
Var inverse_or_nan(const Var& a) { return call<InverseMatrix>(a, false, "linalg.inv")[0]; }

}  // namespace linalg
}  // namespace rl
