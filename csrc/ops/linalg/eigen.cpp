// Eigenvalues and eigenvectors.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

Var differences(const Var& values) {  // value[j] - value[i]
  return ops::unsqueeze(values, -2) - ops::unsqueeze(values, -1);
}

// x: v^H * gv.
void check_eigenvectors(const Var& x, const char* op) {
  check(!depends_on_phases(x), op,
        ": The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
        "The specified loss function depends on this quantity, so it is ill-defined.");
}

struct Eigh : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature =
      "_eigh(Tensor input, bool upper) -> (eigenvalues, eigenvectors)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgEighBackward0";
  static constexpr auto doc = "_eigh(a, upper): the eigenvalues and vectors of Hermitian matrices.";
  static constexpr auto saves = "out out1";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, bool upper) {
    return run(input, upper, true);
  }
  static std::array<Var, 2> run(const Var& input, bool upper, bool vectors) {
    auto op = "linalg.eigh";
    check_square(input, op);
    check_numbers(input, op);
    Var v = in_columns(input), info = no_failures(input);
    int64_t n = v.size(-1);
    Ints sizes = batch_sizes(input);
    sizes.push_back(n);
    Var w = empty(sizes, real_of(v.dtype()), v.device());
    if (v.numel() > 0) {
      Launch launch(double(v.numel()) * double(n) * 9, {v.get(), w.get(), info.get()});
      linalg_on(v).eigh(v.dtype(), batch_count(v), n, v->data(), w->data(), vectors, upper,
                        info->data<int32_t>());
    }
    check_info(info, op, linalg_error, [](int64_t code) {
      return concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned, "
          "has too many repeated eigenvalues or contains non-finite values (error code: ",
          code, ").");
    });
    return {w, v};
  }
  static void vjp(Back& b, const In&, bool) {
    Var v = b.out(1), vh = adjoint(v), gw = b.g(0), gv = b.g(1);
    if (!gv) {
      b[0] = ops::matmul(v * ops::unsqueeze(gw, -2), vh);
      return;
    }
    Var x = ops::matmul(vh, gv), w = b.out(0);
    if (is_complex(v)) check_eigenvectors(x, "linalg_eigh_backward");
    // Of a rotation of the vectors: the Hermitian part has no meaning.
    Var skew = (x - adjoint(x)) * Var(0.5);
    Var inner = over_gaps(skew, x, w, differences(w), !gw, "linalg.eigh: eigenvalues");
    if (gw) inner = inner + diagonal_matrix(gw);
    b[0] = ops::matmul(v, ops::matmul(inner, vh));
  }
  static void jvp(Push& p, const Var&, bool) {
    Var w = p.out(0), v = p.out(1);
    Var inner = ops::matmul(adjoint(v), ops::matmul(hermitian_part(p.t(0)), v));
    p[0] = ops::real(diagonal(inner));
    p[1] = ops::matmul(v, over_gaps(inner, differences(w), "linalg.eigh: eigenvalues"));
  }
};
RL_OP(Eigh)

struct EighValues : NonDifferentiable {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_eigvalsh(Tensor input, bool upper)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_eigvalsh(a, upper): the eigenvalues of Hermitian matrices.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, bool upper) { return Eigh::run(input, upper, false)[0]; }
};
RL_OP(EighValues)

bool is_upper(const std::string& uplo) {
  check(uplo.size() == 1 && std::string("LlUu").find(uplo) != std::string::npos,
        "linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got ", uplo);
  return uplo == "U" || uplo == "u";
}

struct LinalgEigh : Composite {
  static constexpr auto signature =
      "eigh(Tensor input, str UPLO='L') -> (eigenvalues, eigenvectors)";
  static constexpr auto doc =
      "eigh(a, UPLO): the real eigenvalues of Hermitian matrices, ascending, and orthonormal "
      "vectors in columns. UPLO is the triangle that is read.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& input, const std::string& uplo) {
    return call<Eigh>(input, is_upper(uplo));
  }
};
RL_OP(LinalgEigh)

struct LinalgEigvalsh : Composite {
  static constexpr auto signature = "eigvalsh(Tensor input, str UPLO='L')";
  static constexpr auto doc =
      "eigvalsh(a, UPLO): the real eigenvalues of Hermitian matrices, ascending.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const std::string& uplo) {
    return linalg::eigvalsh(input, is_upper(uplo));
  }
};
RL_OP(LinalgEigvalsh)

// ---- of any square matrix

struct Eig : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_eig(Tensor input, str op) -> (eigenvalues, eigenvectors)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgEigBackward0";
  static constexpr auto doc = "_eig(a): the complex eigenvalues and vectors of square matrices.";
  static constexpr auto saves = "out out1";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, const std::string& op) {
    return run(input, op, true);
  }
  static std::array<Var, 2> run(const Var& input, const std::string& op, bool vectors) {
    check_square(input, op);
    check_numbers(input, op);
    if (can_read(input))
      check(!any(math::either(math::isnan(input - input), input - input != Var(0))), "torch.", op,
            ": input tensor should not contain infs or NaNs.");
    Var a = in_columns(input), info = no_failures(input);
    int64_t n = a.size(-1);
    DType result = complex_of(a.dtype());
    Ints sizes = batch_sizes(input);
    sizes.push_back(n);
    Var w = empty(sizes, result, a.device()), v;
    if (vectors) v = empty_columns(a.sizes(), result, a.device());
    if (a.numel() > 0) {
      Launch launch(double(a.numel()) * double(n) * 25, {a.get(), w.get(), v.get(), info.get()});
      linalg_on(a).eig(a.dtype(), batch_count(a), n, a->data(), w->data(),
                       vectors ? v->data() : nullptr, info->data<int32_t>());
    }
    check_info(info, op, linalg_error, [](int64_t code) {
      return concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned "
          "or has too many repeated eigenvalues (error code: ",
          code, ").");
    });
    return {w, v};
  }
  static void vjp(Back& b, const In& input, const std::string&) {
    Var v = b.out(1), vh = adjoint(v), gw = b.g(0), gv = b.g(1), inner;
    if (gv) {
      Var x = ops::matmul(vh, gv), w = b.out(0);
      check_eigenvectors(x, "linalg_eig_backward");
      Var length = ops::unsqueeze(ops::real(diagonal(x)), -2);
      Var free = x - ops::matmul(vh, v) * length;
      inner = over_gaps(free, x, w, ops::conj(differences(w)), !gw, "linalg.eig: eigenvalues");
      if (gw) inner = inner + diagonal_matrix(gw);
      inner = ops::matmul(inner, vh);
    } else {
      inner = ops::unsqueeze(gw, -1) * vh;
    }
    Var g = linalg::solve(vh, inner);
    b[0] = rl::is_complex(input.dtype()) ? g : ops::real(g);
  }
  static void jvp(Push& p, const Var&, const std::string&) {
    Var w = p.out(0), v = p.out(1);
    Var inner = linalg::solve(v, ops::matmul(ops::to(p.t(0), v.dtype()), v));
    p[0] = diagonal(inner);
    Var moved = ops::matmul(v, over_gaps(inner, differences(w), "linalg.eig: eigenvalues"));
    Var longer = ops::unsqueeze(ops::real(diagonal(ops::matmul(adjoint(v), moved))), -2);
    p[1] = moved - v * longer;
  }
};
RL_OP(Eig)

struct EigValues : NonDifferentiable {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_eigvals(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_eigvals(a): the complex eigenvalues of square matrices.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return Eig::run(input, "linalg.eigvals", false)[0]; }
};
RL_OP(EigValues)

struct LinalgEig : Composite {
  static constexpr auto signature = "eig(Tensor input) -> (eigenvalues, eigenvectors)";
  static constexpr auto doc =
      "eig(a): the complex eigenvalues of square matrices, in no order, and vectors of length 1 in "
      "columns.";
  static constexpr auto module = "linalg";
  static std::array<Var, 2> forward(const Var& input) { return call<Eig>(input, "linalg.eig"); }
};
RL_OP(LinalgEig)

struct LinalgEigvals : Composite {
  static constexpr auto signature = "eigvals(Tensor input)";
  static constexpr auto doc =
      "eigvals(a): the complex eigenvalues of square matrices, in no order.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input) {
    if (is_tracked(input.get())) return call<Eig>(input, "linalg.eigvals")[0];
    return call<EigValues>(input);
  }
};
RL_OP(LinalgEigvals)

}  // namespace

namespace linalg {

std::array<Var, 2> eigh(const Var& a, bool upper) { return call<Eigh>(a, upper); }

Var eigvalsh(const Var& a, bool upper) {
  if (is_tracked(a.get())) return call<Eigh>(a, upper)[0];
  return call<EighValues>(a, upper);
}

}  // namespace linalg
}  // namespace rl
