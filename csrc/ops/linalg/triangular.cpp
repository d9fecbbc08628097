// Equations with triangular matrices.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

// A matrix for the kernel: where it lies if it may, else a copy in columns.
struct Triangle {
  Var a;
  kernel::MatrixRef ref;
  int64_t step;  // from one matrix to the next

  Triangle(const Var& given, const Ints& batch) {
    int64_t n = given.size(-1);
    bool single = given.dim() == 2, alike = single || batch_sizes(given) == batch;
    bool columns = transposed(given)->contiguous;
    bool dense = alike && (given->contiguous || columns);
    a = dense ? given : in_columns(given, with_matrix(batch, n, n));
    bool by_columns = !dense || columns;
    ref = {a->data(), by_columns ? 1 : n, by_columns ? n : 1};
    step = dense && single ? 0 : n * n;
  }
};

// What is read of a matrix.
Var triangle(const Var& a, bool upper, bool unit) {
  return upper ? ops::triu(a, unit) : ops::tril(a, unit ? -1 : 0);
}

struct SolveTriangular : General {
  static constexpr auto signature =
      "solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool "
      "unitriangular=False)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr auto grad_name = "LinalgSolveTriangularBackward0";
  static constexpr auto doc =
      "solve_triangular(a, b, upper, left, unitriangular): the x with a @ x = b, or x @ a = b, of "
      "the upper or lower triangles of a; with unitriangular, its diagonal counts as ones.";
  static constexpr auto module = "linalg";
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, const Var& b, bool upper, bool left, bool unit) {
    auto op = "linalg.solve_triangular";
    check_square(input, op);
    check_dims(b, op, "B");
    check_numbers(input, op);
    check_same_dtype(input, b, op);
    int64_t n = input.size(-1);
    check(b.size(left ? -2 : -1) == n, op, ": Incompatible shapes of A and B for the equation ",
          left ? "AX = B" : "XA = B", " (", n, "x", n, " and ", b.size(-2), "x", b.size(-1), ")");
    Ints batch = broadcast(batch_sizes(b), batch_sizes(input));
    Triangle t(input, batch);
    Var x = in_columns(b, with_matrix(batch, b.size(-2), b.size(-1)));
    if (x.numel() == 0) return x;
    Launch launch(double(x.numel()) * double(n), {t.a.get(), x.get()});
    linalg_on(x).solve_triangular(x.dtype(), batch_count(x), n, x.size(left ? -1 : -2), t.ref,
                                  t.step, x->data(), upper, unit, !left);
    return x;
  }
  static void vjp(Back& b, const In& input, const In&, bool upper, bool left, bool unit) {
    Var a = *input;
    Var g = linalg::solve_triangular(adjoint(a), b.g(), !upper, left, unit);
    if (b.wants(1)) b[1] = g;
    if (!b.wants(0)) return;
    Var x = adjoint(b.out());
    b[0] = -triangle(left ? ops::matmul(g, x) : ops::matmul(x, g), upper, unit);
  }
  static void jvp(Push& p, const Var& input, const Var&, bool upper, bool left, bool unit) {
    Var change = p.t(1);
    if (p.t(0)) {
      Var t = triangle(p.t(0), upper, unit);
      Var moved = left ? ops::matmul(t, p.out()) : ops::matmul(p.out(), t);
      change = change ? change - moved : -moved;
    }
    p[0] = linalg::solve_triangular(input, change, upper, left, unit);
  }
};
RL_OP(SolveTriangular)

struct TriangularSolve : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, bool "
      "unitriangular=False) -> (solution, cloned_coefficient)";
  static constexpr auto doc =
      "triangular_solve(b, a, upper, transpose, unitriangular): linalg.solve_triangular(a, b) and "
      "a copy of a.";
  static std::array<Var, 2> forward(const Var& input, const Var& a, bool upper, bool transpose,
                                    bool unit) {
    check(input.dim() >= 2,
          "torch.triangular_solve: Expected b to have at least 2 dimensions, but "
          "it has ",
          input.dim(), " dimensions instead");
    check(a.dim() >= 2,
          "torch.triangular_solve: Expected A to have at least 2 dimensions, but it "
          "has ",
          a.dim(), " dimensions instead");
    Var of = transpose ? transposed(a) : a;
    Var x = linalg::solve_triangular(of, input, upper != transpose, true, unit);
    Ints sizes = with_matrix(batch_sizes(x), a.size(-2), a.size(-1));
    return {x, ops::clone(ops::expand(a, sizes))};
  }
};
RL_OP(TriangularSolve)

}  // namespace

namespace linalg {

Var solve_triangular(const Var& a, const Var& b, bool upper, bool left, bool unit) {
  return call<SolveTriangular>(a, b, upper, left, unit);
}

}  // namespace linalg
}  // namespace rl
