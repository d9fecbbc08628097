// LU factors and what is solved with them.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

void check_pivots(const Var& pivots, int64_t low, int64_t high, const char* text) {
  if (!can_read(pivots) || pivots.numel() == 0) return;
  Plain plain;
  Var wide = ops::contiguous(ops::to(pivots, DType::I64));
  kernel::Range range = on(wide).range(wide->data<int64_t>(), wide.numel());
  check(range.low >= low && range.high <= high, text);
}

// Of pivots that somebody wrote into: a kernel would follow them anywhere.
void check_own_pivots(const Var& pivots, int64_t rows) {
  check_pivots(pivots, 1, rows, "linalg: the pivots of an LU factorisation were overwritten");
}

struct LuOrder : NonDifferentiable {
  static constexpr auto signature = "_lu_order(Tensor pivots, int rows, bool inverse)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_lu_order(pivots, rows, inverse): the permutation of the rows.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& pivots, int64_t rows, bool inverse) {
    Var given = ops::contiguous(pivots);
    check_own_pivots(given, rows);
    Ints sizes = pivots.sizes();
    int64_t k = sizes.back();
    sizes[sizes.size() - 1] = rows;
    Var order = empty(sizes, DType::I64, pivots.device());
    Launch launch(double(order.numel()), {given.get(), order.get()});
    if (order.numel())
      linalg_on(given).lu_order(given->data<int32_t>(), order.numel() / rows, k, rows, inverse,
                                order->data<int64_t>());
    return order;
  }
};
RL_OP(LuOrder)

// The rows of x in another order.
Var reordered(const Var& x, const Var& pivots, bool inverse) {
  Var order = ops::unsqueeze(call<LuOrder>(pivots, x.size(-2), inverse), -1);
  return ops::gather(x, -2, ops::expand(order, x.sizes()));
}

// The parts of a tensor that holds both factors.
Var lower_of(const Var& lu) {
  int64_t m = lu.size(-2), k = std::min(m, lu.size(-1));
  Var eye = identity(std::max(m, k), lu);
  return ops::tril(ops::narrow(lu, -1, 0, k), -1) + ops::narrow(eye, -1, 0, k);
}
Var upper_of(const Var& lu) {
  return ops::triu(ops::narrow(lu, -2, 0, std::min(lu.size(-2), lu.size(-1))), 0);
}

// A tensor [m, n] cut into the leading square and what lies below or beside it.
struct Cut {
  int64_t m, n, k;
  explicit Cut(const Var& a) : m(a.size(-2)), n(a.size(-1)), k(std::min(m, n)) {}
  Var square(const Var& a) const {
    return ops::narrow(ops::narrow(a, -2, 0, std::min(a.size(-2), k)), -1, 0,
                       std::min(a.size(-1), k));
  }
  Var below(const Var& a) const { return ops::narrow(a, -2, k, m - k); }
  Var beside(const Var& a) const { return ops::narrow(a, -1, k, n - k); }
};

Var left_solved(const Var& l, const Var& x) {
  return linalg::solve_triangular(l, x, false, true, true);
}
Var right_solved(const Var& u, const Var& x) { return linalg::solve_triangular(u, x, true, false); }

struct LuFactor : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "_lu_factor(Tensor input, bool check_errors, str op) -> (LU, pivots, info)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgLuFactorExBackward0";
  static constexpr auto doc = "_lu_factor(a): both triangular factors of each matrix in one.";
  static constexpr auto saves = "out out1";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& input, bool check_errors, const std::string& op) {
    check(input.dim() >= 2, op,
          ": Expected tensor with 2 or more dimensions. Got size: ", input.sizes(), " instead");
    check_numbers(input, op);
    Var lu = in_columns(input), info = no_failures(input);
    int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
    Ints sizes = batch_sizes(input);
    sizes.push_back(k);
    Var pivots = empty(sizes, DType::I32, lu.device());
    if (k > 0) {
      Launch launch(double(lu.numel()) * double(k), {lu.get(), pivots.get(), info.get()});
      linalg_on(lu).lu(lu.dtype(), batch_count(lu), m, n, lu->data(), pivots->data<int32_t>(),
                       info->data<int32_t>());
    }
    if (check_errors)
      check_info(info, "torch." + op, PyExc_RuntimeError, [](int64_t at) {
        return concat("U[", at, ",", at,
                      "] is zero and using it on lu_solve would result in a division by zero. If "
                      "you still want to perform the factorization, consider calling linalg.lu(A, "
                      "pivot) or linalg.lu_factor_ex(A, pivot)");
      });
    return {lu, pivots, info};
  }
  static void vjp(Back& b, const In&, bool, const std::string&) {
    Var lu = b.out(0), pivots = b.out(1), g = b.g();
    Cut cut(lu);
    if (cut.k == 0) {
      b[0] = g;
      return;
    }
    Var l = lower_of(cut.square(lu)), u = upper_of(cut.square(lu)), lh = adjoint(l),
        uh = adjoint(u);
    Var gl = ops::tril(cut.square(g), -1), gu = ops::triu(cut.square(g), 0), rest;
    if (cut.m > cut.n) {
      rest = linalg::solve_triangular(uh, cut.below(g), false, false);
      gu = gu - ops::matmul(adjoint(cut.below(lu)), rest);
    } else if (cut.m < cut.n) {
      rest = linalg::solve_triangular(lh, cut.beside(g), true, true, true);
      gl = gl - ops::matmul(rest, adjoint(cut.beside(lu)));
    }
    Var inner = ops::tril(ops::matmul(lh, gl), -1) + ops::triu(ops::matmul(gu, uh), 0);
    Var whole = linalg::solve_triangular(lh, inner, true, true, true);
    whole = linalg::solve_triangular(uh, whole, false, false);
    if (rest) whole = ops::cat({whole, rest}, cut.m > cut.n ? -2 : -1);
    b[0] = reordered(whole, pivots, true);
  }
  static void jvp(Push& p, const Var&, bool, const std::string&) {
    Var lu = p.out(0), t = reordered(p.t(0), p.out(1), false);
    Cut cut(lu);
    if (cut.k == 0) return;
    Var l = lower_of(cut.square(lu)), u = upper_of(cut.square(lu));
    Var inner = right_solved(u, left_solved(l, cut.square(t)));
    Var dl = ops::matmul(l, ops::tril(inner, -1)), du = ops::matmul(ops::triu(inner, 0), u);
    Var moved = dl + du;
    if (cut.m > cut.n) {
      Var rest = right_solved(u, cut.below(t) - ops::matmul(cut.below(lu), du));
      moved = ops::cat({moved, rest}, -2);
    } else if (cut.m < cut.n) {
      Var rest = left_solved(l, cut.beside(t) - ops::matmul(dl, cut.beside(lu)));
      moved = ops::cat({moved, rest}, -1);
    }
    p[0] = moved;
  }
};
RL_OP(LuFactor)

void check_pivoting(bool pivot, const char* op) {
  check(pivot, op, ": LU without pivoting is not implemented on the CPU");
}

struct LinalgLuFactorEx : Composite {
  static constexpr auto signature =
      "lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (LU, pivots, info)";
  static constexpr auto doc =
      "lu_factor_ex(a, pivot, check_errors): linalg.lu_factor without errors: info is 0, or the "
      "place of the first zero on the diagonal of u.";
  static constexpr auto module = "linalg";
  static std::array<Var, 3> forward(const Var& a, bool pivot, bool check_errors) {
    check_pivoting(pivot, "linalg.lu_factor");
    return linalg::lu_factor(a, check_errors, "linalg.lu_factor_ex");
  }
};
RL_OP(LinalgLuFactorEx)

struct LinalgLuFactor : Composite {
  static constexpr auto signature = "lu_factor(Tensor A, *, bool pivot=True) -> (LU, pivots)";
  static constexpr auto doc =
      "lu_factor(a, pivot): the factors of linalg.lu in one tensor, and the rows that changed "
      "places, counted from 1.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& a, bool pivot) {
    check_pivoting(pivot, "linalg.lu_factor");
    auto [lu, pivots, info] = linalg::lu_factor(a, true, "linalg.lu_factor");
    return {lu, pivots};
  }
};
RL_OP(LinalgLuFactor)

struct Lu : Composite {
  static constexpr auto signature = "lu(Tensor input, bool pivot=True, bool get_infos=False)";
  static constexpr auto doc =
      "lu(a, pivot, get_infos): what linalg.lu_factor_ex gives, info where it is asked for.";
  static Vars forward(const Var& input, bool pivot, bool get_infos) {
    check_pivoting(pivot, "linalg.lu_factor");
    auto [lu, pivots, info] = linalg::lu_factor(input, false, "linalg.lu_factor");
    Vars found{lu, pivots};
    if (get_infos) found.push_back(info);
    return found;
  }
};
RL_OP(Lu)

Var permutation(const Var& pivots, int64_t m, DType dtype) {
  Var order = ops::unsqueeze(call<LuOrder>(pivots, m, false), -2);
  return ops::to(ops::unsqueeze(ops::counting(m, pivots.device()), -1) == order, dtype);
}

struct LinalgLu : Composite {
  static constexpr auto signature = "lu(Tensor A, *, bool pivot=True) -> (P, L, U)";
  static constexpr auto doc =
      "lu(a, pivot): a = p @ l @ u of a permutation, a lower triangle with ones on its diagonal "
      "and "
      "an upper one.";
  static constexpr auto module = "linalg";
  static std::array<Var, 3> forward(const Var& a, bool pivot) {
    check_pivoting(pivot, "linalg.lu_factor");
    auto [lu, pivots, info] = linalg::lu_factor(a, false, "linalg.lu");
    return {permutation(pivots, a.size(-2), a.dtype()), lower_of(lu), upper_of(lu)};
  }
};
RL_OP(LinalgLu)

struct LuUnpack : Composite {
  static constexpr auto signature =
      "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
      "unpack_pivots=True) -> (P, L, U)";
  static constexpr auto doc =
      "lu_unpack(lu, pivots, unpack_data, unpack_pivots): the results of linalg.lu from those of "
      "linalg.lu_factor.";
  static constexpr bool method = false;
  static std::array<Var, 3> forward(const Var& lu, const Var& pivots, bool unpack_data,
                                    bool unpack_pivots) {
    check(lu.dim() >= 2,
          "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: ", lu.sizes(),
          " instead");
    check(!unpack_pivots || pivots.dtype() == DType::I32,
          "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
          "Note: this function is intended to be used with the output produced by "
          "torch.linalg.lu_factor");
    // Each one its own: whoever writes to one of them resizes no other.
    auto none = [&] { return empty({0}, lu.dtype(), lu.device()); };
    if (unpack_pivots)
      check_pivots(pivots, 1, lu.size(-2),
                   "lu_unpack: pivots passed to lu_unpack must be between 1 and LU.size(-2) "
                   "inclusive. Did you properly pass the result of lu_factor?");
    return {unpack_pivots ? permutation(pivots, lu.size(-2), lu.dtype()) : none(),
            unpack_data ? lower_of(lu) : none(), unpack_data ? upper_of(lu) : none()};
  }
};
RL_OP(LuUnpack)

struct LuSolved : NonDifferentiable {
  static constexpr auto signature =
      "_lu_solved(Tensor LU, Tensor pivots, Tensor B, bool of_adjoint)";
  static constexpr auto doc = "_lu_solved(lu, pivots, b): the solutions of a @ x = b.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& lu, const Var& pivots, const Var& b, bool of_adjoint) {
    int64_t n = lu.size(-1);
    Ints batch = broadcast(batch_sizes(b), batch_sizes(lu));
    Ints sizes = with_matrix(batch, n, n), places = batch;
    places.push_back(n);
    bool fits = lu.sizes() == sizes && transposed(lu)->contiguous;
    Var factors = fits ? lu : in_columns(lu, sizes);
    Var rows = ops::contiguous(ops::expand(pivots, places));
    check_own_pivots(pivots, n);
    Var x = in_columns(b, with_matrix(batch, n, b.size(-1)));
    if (x.numel() == 0) return x;
    Launch launch(double(x.numel()) * double(n), {factors.get(), rows.get(), x.get()});
    linalg_on(x).lu_solve(x.dtype(), batch_count(x), n, x.size(-1), factors->data(),
                          rows->data<int32_t>(), x->data(),
                          of_adjoint ? kernel::MatrixForm::Adjoint : kernel::MatrixForm::Plain);
    return x;
  }
};
RL_OP(LuSolved)

// a * x = b, or that of the adjoint, by the parts of lu.
Var solved_by_parts(const Var& lu, const Var& pivots, const Var& b, bool of_adjoint) {
  if (of_adjoint) {
    Var x = linalg::solve_triangular(adjoint(lu), b, false);
    return reordered(linalg::solve_triangular(adjoint(lu), x, true, true, true), pivots, true);
  }
  return linalg::solve_triangular(lu, left_solved(lu, reordered(b, pivots, false)), true);
}

struct LinalgLuSolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)";
  static constexpr auto doc =
      "lu_solve(lu, pivots, b, left, adjoint): the x with a @ x = b, or x @ a = b, of the factors "
      "that linalg.lu_factor(a) gives; with adjoint, a.mH stands in its place.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& lu, const Var& pivots, const Var& b, bool left, bool of_adjoint) {
    auto op = "linalg.lu_solve";
    check_numbers(lu, op);
    check(pivots.dtype() == DType::I32, op,
          ": pivots should be a Tensor of scalar type torch.int32");
    check_square(lu, op, "LU");
    check_dims(b, op, "B");
    check_same_dtype(lu, b, op);
    int64_t n = lu.size(-1);
    check(b.size(left ? -2 : -1) == n, op, ": Incompatible shapes of A and B for the equation ",
          left ? "AX = B" : "XA = B", " (", n, "x", n, " and ", b.size(-2), "x", b.size(-1), ")");
    check(pivots.dim() >= 1 && pivots.size(-1) == n, op,
          ": Number of pivots per batch should be same as the dimension of the matrix");
    check(Ints(pivots.sizes().data(), pivots.dim() - 1) == batch_sizes(lu), op,
          ": Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape ",
          pivots.sizes(), " and LU with shape ", lu.sizes(), " instead");
    check_pivots(pivots, 1, n,
                 "linalg.lu_solve: Pivots given to lu_solve must all be greater or equal to 1 and "
                 "smaller or equal to LU.size(-2). Did you properly pass the result of lu_factor?");
    if (!left) return adjoint(solve(lu, pivots, adjoint(b), !of_adjoint));
    return solve(lu, pivots, b, of_adjoint);
  }
  static Var solve(const Var& lu, const Var& pivots, const Var& b, bool of_adjoint) {
    if (!is_tracked(lu.get()) && !is_tracked(b.get()))
      return call<LuSolved>(lu, pivots, b, of_adjoint);
    Ints batch = broadcast(batch_sizes(b), batch_sizes(lu)), places = batch;
    places.push_back(lu.size(-1));
    return solved_by_parts(lu, ops::expand(pivots, places),
                           ops::expand(b, with_matrix(batch, b.size(-2), b.size(-1))), of_adjoint);
  }
};
RL_OP(LinalgLuSolve)

struct LuSolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots)";
  static constexpr auto doc = "lu_solve(b, lu, pivots): linalg.lu_solve(lu, pivots, b).";
  static Var forward(const Var& input, const Var& lu, const Var& pivots) {
    return call<LinalgLuSolve>(lu, pivots, input, true, false);
  }
};
RL_OP(LuSolve)

}  // namespace

namespace linalg {

std::array<Var, 3> lu_factor(const Var& a, bool check_errors, const std::string& op) {
  return call<LuFactor>(a, check_errors, op);
}

Var lu_solved(const Var& lu, const Var& pivots, const Var& b, bool of_adjoint) {
  return call<LuSolved>(lu, pivots, b, of_adjoint);
}

}  // namespace linalg
}  // namespace rl
