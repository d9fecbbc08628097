// Determinants and their logarithms.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

// 1 for an even number of exchanges of rows, -1 for an odd one.
Var parity(const Var& pivots, DType dtype) {
  Var places = ops::counting(pivots.size(-1), pivots.device()) + Var(1);
  Var count = ops::to(ops::sum(pivots != places, {-1}, false), DType::F64);
  return ops::to(Var(1) - Var(2) * (count - Var(2) * math::floor(count * Var(0.5))), dtype);
}

Var product(const Var& rows) {  // along the last dimension
  Var x = ops::contiguous(rows);
  Var y = empty(Ints(rows.sizes().data(), rows.dim() - 1), rows.dtype(), rows.device());
  Launch launch(double(x.numel()), {x.get(), y.get()});
  on(x).prod(x.dtype(), x.dtype(), x->data(), y->data(), y.numel(), x.size(-1), 1);
  return y;
}

bool is_singular(const Var& lu) {
  return lu.numel() > 0 && can_read(lu) && any(diagonal(lu) == Var(0));
}

Var matrices(const Var& numbers) { return ops::unsqueeze(ops::unsqueeze(numbers, -1), -1); }

// The transposed cofactors by the coefficients of the characteristic polynomial (Faddeev and
// LeVerrier): products and sums alone, so that it holds for singular matrices in all derivatives.
Var adjugate(const Var& a) {
  int64_t n = a.size(-1);
  Var eye = identity(n, a), m = ops::expand(eye, a.sizes());
  for (int64_t k = 1; k < n; k++) {
    Var next = ops::matmul(a, m);
    m = next - matrices(trace(next) / Var(double(k))) * eye;
  }
  return n % 2 ? m : -m;
}

struct Determinant : General {
  static constexpr auto signature = "_determinant(Tensor A) -> (result, LU, pivots)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgDetBackward0";
  static constexpr auto doc = "_determinant(a): the determinant of each matrix, and its factors.";
  static constexpr auto saves = "A out out1 out2";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& a) {
    check_square(a, "linalg.det");
    check_numbers(a, "linalg.det");
    auto [lu, pivots, info] = linalg::lu_factor(a, false, "linalg.det");
    return {product(diagonal(lu)) * parity(pivots, a.dtype()), lu, pivots};
  }
  static void vjp(Back& b, const In& a) {
    Var lu = b.out(1);
    if (is_singular(lu)) b[0] = matrices(b.g()) * adjoint(adjugate(*a));
    else if (b.create_graph())
      b[0] = matrices(b.g() * ops::conj(b.out())) *
             adjoint(linalg::solve(*a, identity(a.size(-1), lu)));
    else {
      Var scale = matrices(b.g() * ops::conj(b.out())) * identity(a.size(-1), lu);
      b[0] = linalg::lu_solved(lu, b.out(2), scale, true);
    }
  }
  static void jvp(Push& p, const Var& a) {
    if (is_singular(p.out(1))) p[0] = trace(ops::matmul(adjugate(a), p.t(0)));
    else p[0] = p.out() * trace(linalg::solve(a, p.t(0)));
  }
};
RL_OP(Determinant)

struct LinalgDet : Composite {
  static constexpr auto signature = "det(Tensor A)";
  static constexpr auto doc = "det(a): the determinants of square matrices.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& a) { return call<Determinant>(a)[0]; }
};
RL_OP(LinalgDet)

struct Det : Composite {
  static constexpr auto signature = "det(Tensor input)";
  static constexpr auto doc = "det(a): linalg.det.";
  static constexpr bool out = false;
  static Var forward(const Var& input) { return call<Determinant>(input)[0]; }
};
RL_OP(Det)

struct SignAndLog : General {
  static constexpr auto signature = "_slogdet(Tensor A, str op) -> (sign, LU, pivots, logabsdet)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgSlogdetBackward0";
  static constexpr auto doc = "_slogdet(a): sign and logarithm of the determinants, and factors.";
  static constexpr auto saves = "A out out1 out2";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 4> forward(const Var& a, const std::string& op) {
    check_square(a, op);
    check_numbers(a, op);
    auto [lu, pivots, info] = linalg::lu_factor(a, false, op);
    Var d = diagonal(lu);
    Var sign = product(math::sign(d)) * parity(pivots, a.dtype());
    return {sign, lu, pivots, ops::sum(math::log(math::abs(d)), {-1}, false)};
  }
  static void vjp(Back& b, const In& a, const std::string&) {
    Var scale = b.g(3);
    if (b.g(0) && rl::is_complex(a.dtype())) {
      Var turn = ops::imag(ops::conj(b.g(0)) * b.out());
      Var whole = ops::stack({scale ? scale : turn * Var(0), -turn}, -1);
      scale = ops::view_as_complex(whole);
    }
    if (!scale) return;
    if (b.create_graph())
      b[0] = matrices(scale) * adjoint(linalg::solve(*a, identity(a.size(-1), b.out(1))));
    else
      b[0] = linalg::lu_solved(b.out(1), b.out(2),
                               ops::to(matrices(scale) * identity(a.size(-1), b.out(1)), a.dtype()),
                               true);
  }
  static void jvp(Push& p, const Var& a, const std::string&) {
    Var z = trace(linalg::solve(a, p.t(0)));
    p[3] = ops::real(z);
    if (!is_complex(a)) return;
    Var turn = ops::imag(z);
    p[0] = ops::view_as_complex(ops::stack({turn * Var(0), turn}, -1)) * p.out(0);
  }
};
RL_OP(SignAndLog)

struct LinalgSlogdet : Composite {
  static constexpr auto signature = "slogdet(Tensor A) -> (sign, logabsdet)";
  static constexpr auto doc =
      "slogdet(a): the sign (or the phase) of the determinant and the logarithm of its magnitude.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& a) { return linalg::slogdet(a, "linalg.slogdet"); }
};
RL_OP(LinalgSlogdet)

struct Slogdet : Composite {
  static constexpr auto signature = "slogdet(Tensor input) -> (sign, logabsdet)";
  static constexpr auto doc = "slogdet(a): linalg.slogdet.";
  static std::array<Var, 2> forward(const Var& input) {
    return linalg::slogdet(input, "linalg.slogdet");
  }
};
RL_OP(Slogdet)

struct Logdet : Composite {
  static constexpr auto signature = "logdet(Tensor input)";
  static constexpr auto doc =
      "logdet(a): the logarithm of the determinant; NaN where a real one is negative.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    auto [sign, log] = linalg::slogdet(input, "logdet");
    if (is_complex(input)) return log + math::log(sign);
    return math::where(sign == Var(-1), Var(std::numeric_limits<double>::quiet_NaN()), log);
  }
};
RL_OP(Logdet)

}  // namespace

namespace linalg {

std::array<Var, 2> slogdet(const Var& a, const std::string& op) {
  std::array<Var, 4> found = call<SignAndLog>(a, op);
  return {found[0], found[3]};
}

}  // namespace linalg
}  // namespace rl
