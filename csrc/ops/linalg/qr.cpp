// QR factors and the reflections that they are made of.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

enum Mode : int64_t { Reduced, Complete, OnlyR };

// a in columns with r and the reflections, and their factors.
std::array<Var, 2> factored(const Var& input) {
  Var a = in_columns(input);
  int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  Ints sizes = batch_sizes(input);
  sizes.push_back(k);
  Var tau = empty(sizes, a.dtype(), a.device());
  if (a.numel() > 0) {
    Launch launch(double(a.numel()) * double(k) * 2, {a.get(), tau.get()});
    linalg_on(a).qr(a.dtype(), batch_count(a), m, n, a->data(), tau->data());
  }
  return {a, tau};
}

// The first n columns of the product of the reflections in the columns of a.
Var product(const Var& a, const Var& tau, int64_t n) {
  int64_t m = a.size(-2), k = tau.size(-1);
  Var q = empty_columns(with_matrix(batch_sizes(a), m, n), a.dtype(), a.device());
  if (q.numel() == 0) return q;
  ops::copy_data(ops::narrow(q, -1, 0, k).get(), ops::narrow(a, -1, 0, k).get());
  Var factors = ops::contiguous(tau);
  Launch launch(double(q.numel()) * double(k) * 4, {q.get(), factors.get()});
  linalg_on(q).reflect(q.dtype(), batch_count(q), m, n, k, q->data(), factors->data());
  return q;
}

// LAPACK makes the diagonal of r real.
struct Qr : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_qr(Tensor A, int mode) -> (Q, R)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgQrBackward0";
  static constexpr auto doc = "_qr(a, mode): a = q @ r.";
  static constexpr auto saves = "out out1";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, int64_t mode) {
    check_dims(input, "linalg.qr");
    check_numbers(input, "linalg.qr");
    auto [a, tau] = factored(input);
    int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), rows = mode == Complete ? m : k;
    Var r = empty_columns(with_matrix(batch_sizes(a), rows, n), a.dtype(), a.device());
    ops::copy_data(r.get(), ops::triu(ops::narrow(a, -2, 0, rows), 0).get());
    if (mode == OnlyR) return {empty({0}, a.dtype(), a.device()), r};
    return {product(a, tau, rows), r};
  }
  static void check_mode(int64_t mode, int64_t m, int64_t n) {
    check(mode != OnlyR,
          "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
          "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
    check(mode != Complete || m <= n,
          "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
  }
  // Of a with at least as many rows as columns.
  static Var tall(const Var& q, const Var& r, const Var& gq, const Var& gr) {
    Var qh = adjoint(q), rh = adjoint(r), x;
    if (gr) x = ops::matmul(gr, rh);
    if (gq) {
      Var turned = ops::matmul(qh, gq);
      x = x ? x - turned : -turned;
    }
    x = ops::triu(x, 0);
    Var onto = ops::matmul(q, x + adjoint(x) - half_of_twice(x));
    if (gq) onto = onto + gq;
    return linalg::solve_triangular(rh, onto, false, false);
  }
  // What x + x^H has too much on its diagonal, of an upper triangle: its real part.
  static Var half_of_twice(const Var& x) {
    Var d = diagonal(x);
    return ops::to(diagonal_matrix(ops::real(d)), x.dtype());
  }
  static void vjp(Back& b, const In& input, int64_t mode) {
    int64_t m = input.size(-2), n = input.size(-1);
    check_mode(mode, m, n);
    Var q = b.out(0), r = b.out(1), gq = b.g(0), gr = b.g(1);
    if (m >= n) {
      b[0] = tall(q, r, gq, gr);
      return;
    }
    // r = [r1, q^H * a2]
    Var g1, g2;
    if (gr) {
      g1 = ops::narrow(gr, -1, 0, m);
      g2 = ops::narrow(gr, -1, m, n - m);
      Var a2 = ops::matmul(q, ops::narrow(r, -1, m, n - m));
      Var more = ops::matmul(a2, adjoint(g2));
      gq = gq ? gq + more : more;
    }
    Var first = tall(q, ops::narrow(r, -1, 0, m), gq, g1);
    Var rest = g2 ? ops::matmul(q, g2)
                  : ops::zeros(with_matrix(batch_sizes(q), m, n - m), q.dtype(), q.device());
    b[0] = ops::cat({first, rest}, -1);
  }
  static void jvp(Push& p, const Var& input, int64_t mode) {
    int64_t m = input.size(-2), n = input.size(-1);
    check_mode(mode, m, n);
    Var q = p.out(0), r = p.out(1), t = p.t(0), qh = adjoint(q);
    Var r1 = m < n ? ops::narrow(r, -1, 0, m) : r, t1 = m < n ? ops::narrow(t, -1, 0, m) : t;
    Var x = linalg::solve_triangular(r1, t1, true, false), inner = ops::matmul(qh, x);
    // inner = (a skew part) + (a triangle with a real diagonal)
    Var below = ops::tril(inner, -1), turn = below - adjoint(below);
    if (is_complex(inner))
      turn = turn +
             diagonal_matrix(diagonal(inner) - ops::to(ops::real(diagonal(inner)), inner.dtype()));
    Var upper = inner - turn;
    p[0] = x - ops::matmul(q, upper);
    Var dr = ops::matmul(upper, r1);
    if (m < n) {
      Var a2 = ops::narrow(input, -1, m, n - m), t2 = ops::narrow(t, -1, m, n - m);
      dr = ops::cat({dr, ops::matmul(adjoint(p[0]), a2) + ops::matmul(qh, t2)}, -1);
    }
    p[1] = dr;
  }
};
RL_OP(Qr)

struct LinalgQr : Composite {
  static constexpr auto signature = "qr(Tensor A, str mode='reduced') -> (Q, R)";
  static constexpr auto doc =
      "qr(a, mode): a = q @ r of orthonormal columns and an upper triangle. Mode 'complete' gives "
      "a "
      "square q, 'r' only r.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& a, const std::string& mode) {
    check(mode == "reduced" || mode == "complete" || mode == "r",
          "linalg.qr: qr received unrecognized mode '", mode,
          "' but expected one of 'reduced' (default), 'r', or 'complete'");
    return call<Qr>(a, mode == "reduced" ? Reduced : mode == "r" ? OnlyR : Complete);
  }
};
RL_OP(LinalgQr)

struct QrOld : Composite {
  static constexpr auto signature = "qr(Tensor input, bool some=True) -> (Q, R)";
  static constexpr auto doc = "qr(a, some): linalg.qr in the mode 'reduced', or 'complete'.";
  static std::array<Var, 2> forward(const Var& input, bool some) {
    return call<Qr>(input, some ? Reduced : Complete);
  }
};
RL_OP(QrOld)

// ---- the reflections themselves

struct Reflections : General {
  static constexpr auto signature = "_reflections(Tensor input) -> (a, tau)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "GeqrfBackward0";
  static constexpr auto doc = "_reflections(a): geqrf.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input) { return factored(input); }
  static void vjp(Back&, const In&) { refuse(); }
  static void jvp(Push&, const Var&) { refuse(); }
  [[noreturn]] static void refuse() {
    fail_as(PyExc_NotImplementedError,
            "the derivative for geqrf is not implemented: linalg.qr has one");
  }
};
RL_OP(Reflections)

struct Geqrf : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "geqrf(Tensor input) -> (a, tau)";
  static constexpr auto doc =
      "geqrf(a): r of linalg.qr and, below it, the vectors of reflections whose factors are tau.";
  static std::array<Var, 2> forward(const Var& input) {
    check(input.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
    check_numbers(input, "geqrf");
    return call<Reflections>(input);
  }
};
RL_OP(Geqrf)

struct ReflectionsProduct : NonDifferentiable {
  static constexpr auto signature = "_reflections_product(Tensor input, Tensor tau)";
  static constexpr auto doc = "_reflections_product(a, tau): the columns that geqrf describes.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& tau) {
    return product(input, tau, input.size(-1));
  }
};
RL_OP(ReflectionsProduct)

struct ReflectionsApplied : NonDifferentiable {
  static constexpr auto signature =
      "_reflections_applied(Tensor input, Tensor tau, Tensor other, bool left, bool adjoint)";
  static constexpr auto doc = "_reflections_applied(a, tau, x): reflections of x.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& tau, const Var& other, bool left,
                     bool of_adjoint) {
    int64_t k = tau.size(-1);
    Var a = in_columns(ops::narrow(input, -1, 0, k)), c = in_columns(other);
    Var factors = ops::contiguous(tau);
    if (c.numel() == 0) return c;
    Launch launch(double(c.numel()) * double(k) * 4, {a.get(), factors.get(), c.get()});
    linalg_on(c).apply_reflections(c.dtype(), batch_count(c), c.size(-2), c.size(-1), k, a->data(),
                                   factors->data(), c->data(), !left, of_adjoint);
    return c;
  }
};
RL_OP(ReflectionsApplied)

// Reflection i as a column v with v^H: x - tau * v * (v^H * x), recorded.
Var reflected(const Var& input, const Var& tau, int64_t i, const Var& x, bool left,
              bool of_adjoint) {
  Var v = ops::tril(ops::narrow(input, -1, i, 1), -i - 1);
  Var one = ops::narrow(identity(input.size(-2), input), -1, i, 1);
  v = v + one;
  Var factor = ops::unsqueeze(ops::narrow(tau, -1, i, 1), -1);
  if (of_adjoint) factor = ops::conj(factor);
  if (left) return x - factor * ops::matmul(v, ops::matmul(adjoint(v), x));
  return x - factor * ops::matmul(ops::matmul(x, v), adjoint(v));
}

void check_reflections(const Var& input, const Var& tau, const char* op) {
  check(input.dim() >= 2, op, ": input must have at least 2 dimensions.");
  check(input.size(-1) >= tau.size(-1), op,
        ": input.shape[-1] must be greater than or equal to tau.shape[-1]");
  Ints expected = batch_sizes(input);
  check(Ints(tau.sizes().data(), tau.dim() - 1) == expected, op,
        ": Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
        tau.sizes());
  check(tau.dtype() == input.dtype(), op, ": tau dtype ", info(tau.dtype()).tensor_name,
        " does not match input dtype ", info(input.dtype()).tensor_name);
  check_numbers(input, op);
}

Var householder_product(const Var& input, const Var& tau) {
  auto op = "torch.linalg.householder_product";
  check(tau.dim() >= 1, op, ": tau must have at least 1 dimension.");
  check(input.dim() < 2 || input.size(-2) >= input.size(-1), op,
        ": input.shape[-2] must be greater than or equal to input.shape[-1]");
  check_reflections(input, tau, op);
  if (!is_tracked(input.get()) && !is_tracked(tau.get()))
    return call<ReflectionsProduct>(input, tau);
  int64_t n = input.size(-1);
  Var eye = ops::narrow(identity(input.size(-2), input), -1, 0, n);
  Var q = ops::expand(eye, input.sizes());
  for (int64_t i = tau.size(-1) - 1; i >= 0; i--) q = reflected(input, tau, i, q, true, false);
  return q;
}

struct LinalgHouseholderProduct : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "householder_product(Tensor input, Tensor tau)";
  static constexpr auto doc =
      "householder_product(a, tau): the first columns of the product of the reflections that geqrf "
      "gives.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& tau) { return householder_product(input, tau); }
};
RL_OP(LinalgHouseholderProduct)

struct Orgqr : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "orgqr(Tensor input, Tensor input2)";
  static constexpr auto doc = "orgqr(a, tau): linalg.householder_product.";
  static Var forward(const Var& input, const Var& input2) {
    return householder_product(input, input2);
  }
};
RL_OP(Orgqr)

struct Ormqr : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "ormqr(Tensor input, Tensor input2, Tensor input3, bool left=True, bool transpose=False)";
  static constexpr auto doc =
      "ormqr(a, tau, x, left, transpose): q @ x, or x @ q, of the product q of reflections, or its "
      "adjoint.";
  static Var forward(const Var& input, const Var& input2, const Var& input3, bool left,
                     bool transpose) {
    auto op = "torch.ormqr";
    check(input2.dim() >= 1, op, ": tau must have at least 1 dimension.");
    check_reflections(input, input2, op);
    check(input3.dim() >= 2, op, ": other must have at least 2 dimensions.");
    int side = left ? -2 : -1;
    check(input3.size(side) >= input2.size(-1), op, ": other.shape[", side,
          "] must be greater than or equal to tau.shape[-1]");
    check(input3.size(side) == input.size(-2), op, ": other.shape[", side,
          "] must be equal to input.shape[-2]");
    check(batch_sizes(input3) == batch_sizes(input), op,
          ": batch dimensions of other should be equal to input.shape[:-2], but got ",
          input3.sizes());
    check_same_dtype(input, input3, op);
    if (!is_tracked(input.get()) && !is_tracked(input2.get()) && !is_tracked(input3.get()))
      return call<ReflectionsApplied>(input, input2, input3, left, transpose);
    Var x = input3;
    int64_t k = input2.size(-1);
    // q = h0 * h1 * ...: the last comes first from the left, of the adjoint the first.
    bool backwards = left != transpose;
    for (int64_t i = 0; i < k; i++)
      x = reflected(input, input2, backwards ? k - 1 - i : i, x, left, transpose);
    return x;
  }
};
RL_OP(Ormqr)

}  // namespace
}  // namespace rl
