// The nuclear norm of matrices, the sum of their singular values. Its gradient is the unitary polar
// factor U V^H of U S V^H, whose derivative is known in turn.
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/reduce/vector_norm.h"

namespace rl {

namespace {

struct Factors {
  Var u, s, vh;

  // Of a matrix of double or complex double.
  explicit Factors(const Var& input) {
    int64_t m = input.size(0), n = input.size(1), k = std::min(m, n);
    DType d = input.dtype();
    u = empty({m, k}, d, input.device()), s = empty({k}, DType::F64, input.device()),
    vh = empty({k, n}, d, input.device());
    if (k == 0) return;
    Var a = ops::contiguous(ops::clone(input));
    bool failed;
    {
      Launch launch(double(m) * double(n) * double(k) * 20, {a.get(), u.get(), vh.get()});
      failed = on(a).svd(d, m, n, a->data(), u->data(), s->data<double>(), vh->data());
    }
    check(!failed, "linalg.svd: The algorithm failed to converge because the input matrix ",
          input.sizes(), " contains non-finite values or is ill-conditioned");
  }
};

Var adjoint(const Var& a) { return ops::conj(ops::transpose(a, 0, 1)); }

// The derivative of the polar factor at `input` in a direction: linear in it, its own adjoint.
struct PolarTurn : General {
  static constexpr auto signature = "_polar_turn(Tensor input, Tensor direction)";
  static constexpr auto doc = "_polar_turn(a, x): how the polar factor of a changes along x.";
  static constexpr auto saves = "input direction";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& x) {
    Factors f(input);
    Var uh = adjoint(f.u), v = adjoint(f.vh), inverse = Var(1) / f.s;
    Var across = ops::mm(ops::mm(uh, x), v);
    Var core = (across - adjoint(across)) / (ops::unsqueeze(f.s, 1) + f.s);
    Var left = x - ops::mm(f.u, ops::mm(uh, x)), right = x - ops::mm(ops::mm(x, v), f.vh);
    return ops::mm(ops::mm(f.u, core), f.vh) + ops::mm(ops::mm(left, v) * inverse, f.vh) +
           ops::mm(f.u * inverse, ops::mm(uh, right));
  }
  static void vjp(Back& b, const In& input, const In&) {
    if (b.wants(0)) refuse();
    b[1] = call<PolarTurn>(*input, b.g());
  }
  static void jvp(Push& p, const Var& input, const Var&) {
    if (p.t(0)) refuse();
    p[0] = call<PolarTurn>(input, p.t(1));
  }
  [[noreturn]] static void refuse() {
    fail_as(PyExc_NotImplementedError,
            "norm(p='nuc'): derivatives are implemented up to the second");
  }
};
RL_OP(PolarTurn)

struct PolarFactor : General {
  static constexpr auto signature = "_polar_factor(Tensor input)";
  static constexpr auto doc = "_polar_factor(a): u @ vh of the singular value decomposition.";
  static constexpr auto saves = "input";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    Factors f(input);
    return ops::mm(f.u, f.vh);
  }
  static void vjp(Back& b, const In& input) { b[0] = call<PolarTurn>(*input, b.g()); }
  static void jvp(Push& p, const Var& input) { p[0] = call<PolarTurn>(input, p.t(0)); }
};
RL_OP(PolarFactor)

struct NuclearNorm : General {
  static constexpr auto signature = "_nuclear_norm(Tensor input)";
  static constexpr auto doc = "_nuclear_norm(a): the sum of the singular values of a matrix.";
  static constexpr auto saves = "input";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::sum_all(Factors(input).s); }
  static void vjp(Back& b, const In& input) { b[0] = b.g() * call<PolarFactor>(*input); }
  static void jvp(Push& p, const Var& input) {
    p[0] = ops::sum_all(ops::real(ops::conj(call<PolarFactor>(input)) * p.t(0)));
  }
};
RL_OP(NuclearNorm)

}  // namespace

namespace ops {

Var nuclear_norm(const Var& a, const std::optional<Ints>& dim, bool keepdim) {
  Ints all;
  for (int i = 0; i < a.dim(); i++) all.push_back(i);
  const Ints& given = dim && !dim->empty() ? *dim : all;
  check(given.size() == 2, "linalg.matrix_norm: dim must be a 2-tuple. Got ", given);
  Ints two = wrap_dims(given, a.dim(), "linalg.matrix_norm");
  check(two[0] != two[1], "linalg.matrix_norm: dims must be different. Got ", given);
  check(is_differentiable(a.dtype()),
        "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got ",
        info(a.dtype()).tensor_name);
  Ints order, sizes, kept = a.sizes();
  for (int64_t i : all)
    if (i != two[0] && i != two[1]) {
      order.push_back(i);
      sizes.push_back(a.size(int(i)));
    }
  int64_t count = element_count(sizes), m = a.size(int(two[0])), n = a.size(int(two[1]));
  for (int64_t i : two) {
    order.push_back(i);
    kept[int(i)] = 1;
  }
  Var wide = ops::to(a, is_complex(a.dtype()) ? DType::C128 : DType::F64);
  Var matrices = ops::reshape(ops::permute(wide, order), {count, m, n});
  Vars norms;
  for (int64_t i = 0; i < count; i++) norms.push_back(call<NuclearNorm>(select(matrices, 0, i)));
  Var joined = count ? ops::stack(norms, 0) : zeros({0}, DType::F64, a.device());
  return ops::to(ops::reshape(joined, keepdim ? kept : sizes), real_of(a.dtype()));
}

}  // namespace ops
}  // namespace rl
