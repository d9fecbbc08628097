// Functions of matrices, and small things with the names of linear algebra.
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"

namespace rl {

namespace {

using namespace linalg;

// The derivative along t stands in the corner of exp of [[a, t], [0, a]]. It is linear in t: of
// one far larger than a, the digits of a would be lost.
struct MatrixExp : General {
  static constexpr auto signature = "_matrix_exp(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgMatrixExpBackward0";
  static constexpr auto doc = "_matrix_exp(a): the exponential of each matrix.";
  static constexpr auto saves = "input";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    // The exponential of the transpose is the transpose: rows serve as columns.
    Var a = ops::contiguous(input), y = empty(a.sizes(), a.dtype(), a.device());
    int64_t n = a.size(-1);
    if (y.numel() == 0) return y;
    Launch launch(double(y.numel()) * double(n) * 20, {a.get(), y.get()});
    linalg_on(a).matrix_exp(a.dtype(), batch_count(a), n, a->data(), y->data());
    return y;
  }
  static Var largest(const Var& t) {
    Plain plain;
    Var size = ops::amax(math::abs(t), {-2, -1}, true);
    return math::where(size > Var(0), size, Var(1));
  }
  static Var along(const Var& a, const Var& t) {
    int64_t n = a.size(-1);
    Var size = n ? largest(t) : Var(1);
    Var zero = ops::zeros(a.sizes(), a.dtype(), a.device());
    Var above = ops::cat({a, t / size}, -1), below = ops::cat({zero, a}, -1);
    Var whole = call<MatrixExp>(ops::cat({above, below}, -2));
    return ops::narrow(ops::narrow(whole, -2, 0, n), -1, n, n) * size;
  }
  static void vjp(Back& b, const In& input) { b[0] = along(adjoint(*input), b.g()); }
  static void jvp(Push& p, const Var& input) { p[0] = along(input, p.t(0)); }
};
RL_OP(MatrixExp)

Var matrix_exp(const Var& input) {
  auto op = "linalg.matrix_exp";
  check_square(input, op);
  check(is_differentiable(input.dtype()), op,
        ": Expected a floating point or complex tensor as input. Got ",
        info(input.dtype()).tensor_name);
  DType wide = compute_type(input.dtype());
  return ops::to(call<MatrixExp>(ops::to(input, wide)), input.dtype());
}

struct LinalgMatrixExp : Composite {
  static constexpr auto signature = "matrix_exp(Tensor input)";
  static constexpr auto doc = "matrix_exp(a): the exponentials of square matrices.";
  static constexpr auto module = "linalg";
  static constexpr bool out = false;
  static Var forward(const Var& input) { return matrix_exp(input); }
};
RL_OP(LinalgMatrixExp)

struct MatrixExpOld : Composite {
  static constexpr auto signature = "matrix_exp(Tensor input)";
  static constexpr auto doc = "matrix_exp(a): linalg.matrix_exp.";
  static constexpr bool out = false;
  static Var forward(const Var& input) { return matrix_exp(input); }
};
RL_OP(MatrixExpOld)

Var matrix_power(const Var& input, int64_t n) {
  check_square(input, "linalg.matrix_power");
  if (n == 0)  // a gradient of zeros, as of any power
    return math::where(ops::full(input.sizes(), 1, DType::Bool, input.device()),
                       identity(input.size(-1), input), input);
  Var square = n < 0 ? linalg::inverse(input, "linalg.inv") : input, power;
  for (uint64_t left = n < 0 ? uint64_t(0) - uint64_t(n) : uint64_t(n); left; left >>= 1) {
    if (left & 1) power = power ? ops::matmul(power, square) : square;
    if (left > 1) square = ops::matmul(square, square);
  }
  return n == 1 ? ops::contiguous(ops::clone(power)) : power;
}

struct LinalgMatrixPower : Composite {
  static constexpr auto signature = "matrix_power(Tensor input, int n)";
  static constexpr auto doc =
      "matrix_power(a, n): the n-th powers of square matrices; negative ones are of the inverse.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, int64_t n) { return matrix_power(input, n); }
};
RL_OP(LinalgMatrixPower)

struct MatrixPowerOld : Composite {
  static constexpr auto signature = "matrix_power(Tensor input, int n)";
  static constexpr auto doc = "matrix_power(a, n): linalg.matrix_power.";
  static Var forward(const Var& input, int64_t n) { return matrix_power(input, n); }
};
RL_OP(MatrixPowerOld)

struct LinalgMatmul : Composite {
  static constexpr auto signature = "matmul(Tensor input, Tensor other)";
  static constexpr auto doc = "matmul(a, b): torch.matmul.";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& other) { return ops::matmul(input, other); }
};
RL_OP(LinalgMatmul)

struct LinalgDiagonal : Composite {
  static constexpr auto signature = "diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1)";
  static constexpr auto doc =
      "diagonal(a, offset, dim1, dim2): torch.diagonal, by default of the last two dimensions.";
  static constexpr auto module = "linalg";
  static constexpr bool out = false;
  static Var forward(const Var& a, int64_t offset, int64_t dim1, int64_t dim2) {
    return ops::diagonal(a, offset, dim1, dim2);
  }
};
RL_OP(LinalgDiagonal)

struct LinalgVecdot : Composite {
  static constexpr auto signature = "vecdot(Tensor x, Tensor y, *, int dim=-1)";
  static constexpr auto doc = "vecdot(x, y, dim): sum(x.conj() * y, dim).";
  static constexpr auto module = "linalg";
  static Var forward(const Var& x, const Var& y, int64_t dim) {
    check(x.dtype() == y.dtype(),
          "linalg.vecdot: Expected x and y to have the same dtype, but found x of type ",
          info(x.dtype()).tensor_name, " and y of type ", info(y.dtype()).tensor_name, " instead");
    check(x.dim() > 0 || y.dim() > 0, "linalg.vecdot: expected vectors, got two 0-d tensors");
    return ops::sum((is_complex(x) ? ops::conj(x) : x) * y, {dim}, false);
  }
};
RL_OP(LinalgVecdot)

struct LinalgVander : Composite {
  static constexpr auto signature = "vander(Tensor x, *, int? N=None)";
  static constexpr auto doc =
      "vander(x, N): the powers 0 to N - 1 (by default as many as x has) of each number, in rows.";
  static constexpr auto module = "linalg";
  static constexpr bool out = false;
  static Var forward(const Var& x, std::optional<int64_t> count) {
    int64_t n = count.value_or(x.dim() ? x.size(-1) : 0);
    check(n > 1, "linalg.vander: N must be greater than 1. Got ", n);
    check(x.dtype() != DType::Bool, "linalg.vander: expected numbers, got a tensor of bools");
    Var base = is_integral(x.dtype()) ? ops::to(x, DType::I64) : x;
    if (base.dim() == 0) base = ops::reshape(base, {1});
    Vars powers{ops::full(base.sizes(), 1, base.dtype(), base.device()), base};
    while (int64_t(powers.size()) < n) powers.push_back(powers.back() * base);
    return ops::stack(powers, -1);
  }
};
RL_OP(LinalgVander)

struct Adjoint : Composite {
  static constexpr auto signature = "adjoint(Tensor input)";
  static constexpr auto doc = "adjoint(a): the conjugate of the transposed matrices, as a.mH.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dim() != 1,
          "adjoint: tensor.adjoint() is only supported on matrices or batches of "
          "matrices. Got 1-D tensor.");
    return input.dim() ? adjoint(input) : ops::conj(input);
  }
};
RL_OP(Adjoint)

}  // namespace
}  // namespace rl
