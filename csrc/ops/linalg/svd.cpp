// Singular values and vectors.
#include "ops/linalg/linalg.h"

namespace rl {

namespace {

using namespace linalg;

// Some matrix has singular values that are NaN: says which.
[[noreturn]] void fail_not_finite(const char* op, const Var& s) {
  Plain plain;
  Var clean = ops::to(ops::sum(ops::to(s == s, DType::I64), {-1}, false) == Var(double(s.size(-1))),
                      DType::I64);
  kernel::Outside bad = on(clean).find_zero(clean->data<int64_t>(), clean.numel());
  fail_as(linalg_error, op, ": ",
          s.dim() > 1 ? concat("(Batch element ", bad.at, "): ") : std::string(),
          "The algorithm failed to converge because the input matrix contained non-finite values.");
}

// u, s and v^H without the columns that only `full` adds.
struct Factors {
  Var u, s, vh;
  int64_t m, n, k;
  Factors(const Var& u, const Var& s, const Var& vh)
      : u(ops::narrow(u, -1, 0, s.size(-1))),
        s(s),
        vh(ops::narrow(vh, -2, 0, s.size(-1))),
        m(u.size(-2)),
        n(vh.size(-1)),
        k(s.size(-1)) {}
  Var gaps() const { return ops::unsqueeze(s, -2) - ops::unsqueeze(s, -1); }
  Var sums() const { return ops::unsqueeze(s, -2) + ops::unsqueeze(s, -1); }
  Var columns() const { return ops::unsqueeze(s, -2); }
};

constexpr auto kEqual = "linalg.svd: singular values";

// Numerators over the sums of singular values. Two that are 0 leave nothing to divide by.
Var over_sums(const Var& numerators, const Var& sums) {
  Var none;
  if (sums.numel() > 0 && can_read(sums) && can_read(numerators)) {
    Plain plain;
    none = math::both(sums == Var(0), numerators == Var(0));
    if (!any(none)) none = {};
  }
  if (!none) return numerators / sums;
  return math::where(none, Var(0), numerators / math::where(none, Var(1), sums));
}

// With P = u^H * da * v: u^H * du and v^H * dv are halves of (P + P^H) over the gaps plus and minus
// (P - P^H) over the sums. Stated so, and not by the differences of squares, a function that does
// not depend on the choice of vectors for equal values has its derivative.
struct Svd : General {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_svd(Tensor A, bool full_matrices) -> (U, S, Vh)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgSvdBackward0";
  static constexpr auto doc = "_svd(a, full_matrices): a = u @ diag(s) @ vh.";
  static constexpr auto saves = "out out1 out2";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 3> forward(const Var& a, bool full) { return run(a, true, full); }
  static std::array<Var, 3> run(const Var& input, bool vectors, bool full) {
    auto op = "linalg.svd";
    check_dims(input, op);
    check_numbers(input, op);
    Var a = in_columns(input), info = no_failures(input);
    int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    Ints batch = batch_sizes(input), sizes = batch;
    sizes.push_back(k);
    Var s = empty(sizes, real_of(a.dtype()), a.device()), u, vh;
    if (vectors) {
      u = empty_columns(with_matrix(batch, m, full ? m : k), a.dtype(), a.device());
      vh = empty_columns(with_matrix(batch, full ? n : k, n), a.dtype(), a.device());
    }
    if (a.numel() > 0) {
      Launch launch(double(a.numel()) * double(k) * 20,
                    {a.get(), u.get(), s.get(), vh.get(), info.get()});
      linalg_on(a).singular(a.dtype(), batch_count(a), m, n, a->data(),
                            vectors ? u->data() : nullptr, s->data(),
                            vectors ? vh->data() : nullptr, full, info->data<int32_t>());
    } else if (vectors) {
      if (u.numel()) ops::copy_data(u.get(), identity(m, u).get());
      if (vh.numel()) ops::copy_data(vh.get(), identity(n, vh).get());
    }
    if (can_read(s) && any(math::isnan(s))) fail_not_finite(op, s);
    check_info(info, op, linalg_error, [](int64_t code) {
      if (code < 0)
        return std::string(
            "The algorithm failed to converge because the input matrix contained "
            "non-finite values.");
      return concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned "
          "or has too many repeated singular values (error code: ",
          code, ").");
    });
    return {u, s, vh};
  }
  static void vjp(Back& b, const In&, bool) {
    Factors f(b.out(0), b.out(1), b.out(2));
    Var gu = b.g(0), gs = b.g(1), gvh = b.g(2), uh = adjoint(f.u);
    if (!gu && !gvh) {
      b[0] = ops::matmul(f.u * ops::unsqueeze(gs, -2), f.vh);
      return;
    }
    if (gu) gu = ops::narrow(gu, -1, 0, f.k);
    Var v = adjoint(f.vh), gv = gvh ? adjoint(ops::narrow(gvh, -2, 0, f.k)) : gvh, x, y;
    Var first = gu ? ops::matmul(uh, gu) : gu, second = gv ? ops::matmul(f.vh, gv) : gv;
    if (gu) x = skew(first);
    if (gv) y = skew(second);
    Var both = x && y ? x + y : x ? x : y, apart = x && y ? x - y : x ? x : -y;
    check(!is_complex(f.u) || !depends_on_phases(both),
          "svd_backward: The singular vectors in the complex case are specified up to "
          "multiplication by e^{i phi}. The specified loss function depends on this phase term, "
          "making it ill-defined.");
    Var inner = over_gaps(both, first ? first : second, f.s, f.gaps(), !gs, kEqual) +
                over_sums(apart, f.sums());
    inner = inner * Var(0.5);
    if (gs) inner = inner + diagonal_matrix(gs);
    Var g = ops::matmul(f.u, ops::matmul(inner, f.vh));
    if (gu && f.m > f.k) {
      Var beyond = (gu - ops::matmul(f.u, ops::matmul(uh, gu))) / f.columns();
      g = g + ops::matmul(beyond, f.vh);
    }
    if (gv && f.n > f.k) {
      Var beyond = (gv - ops::matmul(v, ops::matmul(f.vh, gv))) / f.columns();
      g = g + ops::matmul(f.u, adjoint(beyond));
    }
    b[0] = g;
  }
  static void jvp(Push& p, const Var&, bool full) {
    Factors f(p.out(0), p.out(1), p.out(2));
    Var t = p.t(0), v = adjoint(f.vh), uh = adjoint(f.u);
    Var tv = ops::matmul(t, v), th = ops::matmul(adjoint(t), f.u), inner = ops::matmul(uh, tv);
    p[1] = ops::real(diagonal(inner));
    Var back = adjoint(inner);
    Var first = over_gaps(inner + back, f.gaps(), kEqual);
    Var second = over_sums(inner - back, f.sums());
    p[0] = ops::matmul(f.u, (first + second) * Var(0.5));
    Var dv = ops::matmul(v, (first - second) * Var(0.5));
    if (f.m > f.k) p[0] = p[0] + (tv - ops::matmul(f.u, inner)) / f.columns();
    if (f.n > f.k) dv = dv + (th - ops::matmul(v, back)) / f.columns();
    if (full) {
      p[0] = with_others(p[0], f.u, p.out(0), f.m - f.k);
      dv = with_others(dv, v, adjoint(p.out(2)), f.n - f.k);
    }
    p[2] = adjoint(dv);
  }
  // The vectors beyond the singular values are free but for staying orthogonal to those: they turn
  // as little as that takes.
  static Var with_others(const Var& t, const Var& first, const Var& all, int64_t count) {
    if (count == 0) return t;
    Var others = ops::narrow(all, -1, first.size(-1), count);
    return ops::cat({t, -ops::matmul(first, ops::matmul(adjoint(t), others))}, -1);
  }
  static Var skew(const Var& x) { return x - adjoint(x); }
};
RL_OP(Svd)

struct SingularValues : NonDifferentiable {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "_svdvals(Tensor A)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_svdvals(a): the singular values of matrices.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& a) { return Svd::run(a, false, false)[1]; }
};
RL_OP(SingularValues)

// cuSOLVER's drivers, which the CPU does not have.
void check_driver(const std::optional<std::string>& driver, const char* op) {
  check(!driver, op,
        ": keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
        "backend.");
}

struct LinalgSvd : Composite {
  static constexpr auto signature =
      "svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (U, S, Vh)";
  static constexpr auto doc =
      "svd(a, full_matrices): a = u @ diag(s) @ vh of orthonormal columns and rows and singular "
      "values s, descending. Without full_matrices, u and vh have no more of them than s.";
  static constexpr auto module = "linalg";
  static std::array<Var, 3> forward(const Var& a, bool full,
                                    const std::optional<std::string>& driver) {
    check_driver(driver, "linalg.svd");
    return linalg::svd(a, full);
  }
};
RL_OP(LinalgSvd)

struct LinalgSvdvals : Composite {
  static constexpr auto signature = "svdvals(Tensor A, *, str? driver=None)";
  static constexpr auto doc = "svdvals(a): the singular values of matrices, descending.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& a, const std::optional<std::string>& driver) {
    check_driver(driver, "linalg.svdvals");
    return linalg::svdvals(a);
  }
};
RL_OP(LinalgSvdvals)

struct SvdOld : Composite {
  static constexpr auto signature =
      "svd(Tensor input, bool some=True, bool compute_uv=True) -> (U, S, V)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "svd(a, some, compute_uv): linalg.svd with full_matrices=not some, and v in place of vh.";
  static std::array<Var, 3> forward(const Var& input, bool some, bool compute_uv) {
    check(input.dim() >= 2, "linalg.svd: input should have at least 2 dimensions, but has ",
          input.dim(), " dimensions instead");
    if (compute_uv) {
      auto [u, s, vh] = linalg::svd(input, !some);
      return {u, s, adjoint(vh)};
    }
    int64_t m = input.size(-2), n = input.size(-1);
    Ints batch = batch_sizes(input);
    DType d = input.dtype();
    return {ops::zeros(with_matrix(batch, m, m), d, input.device()), linalg::svdvals(input),
            transposed(ops::zeros(with_matrix(batch, n, n), d, input.device()))};
  }
};
RL_OP(SvdOld)

}  // namespace

namespace linalg {

std::array<Var, 3> svd(const Var& a, bool full) { return call<Svd>(a, full); }

Var svdvals(const Var& a) {
  if (is_tracked(a.get())) return call<Svd>(a, false)[1];
  return call<SingularValues>(a);
}

}  // namespace linalg
}  // namespace rl
