// Norms of vectors.
#include "ops/reduce/vector_norm.h"

#include "call/broadcast.h"
#include "kernels/kernels.h"
#include "ops/reduce/reduce.h"

namespace rl {

void check_norm_dtype(const char* op, DType from, DType to) {
  const char* wanted = info(to).tensor_name;
  check(is_differentiable(to), op, ": dtype should be floating point or complex, but got ", wanted);
  check(is_complex(to) == is_complex(from), op, ": dtype should be ",
        is_complex(from) ? "complex for complex" : "real for real", " inputs, but got ", wanted);
  check(promote(from, to) == to, op, ": the dtype of the input (", info(from).tensor_name,
        ") should be convertible without narrowing to the specified dtype (", wanted, ")");
}

namespace {

using Dims = std::optional<Ints>;

// A norm of nothing exists where adding nothing changes nothing.
void check_identity(const Var& x, const Dims& dim, double ord) {
  if (x.numel() > 0 || (ord >= 0 && ord != HUGE_VAL)) return;
  check(dim && !dim->empty(), "linalg.vector_norm cannot compute the ", ord,
        " norm on an empty tensor because the operation does not have an identity");
  for (int64_t d : wrap_dims(*dim, x.dim(), "linalg.vector_norm"))
    check(x.size(int(d)) != 0, "linalg.vector_norm cannot compute the ", ord,
          " norm on the dimension ", d,
          " because this dimension is empty and the operation does not have an identity");
}

Var norm_value(const Var& x, double ord, const Dims& dim, bool keepdim) {
  check_identity(x, dim, ord);
  Reduction r = plan_reduction(x, dim, keepdim, "linalg.vector_norm");
  Var y = empty(r.sizes, real_of(x.dtype()), x.device());
  {
    Launch launch(double(x.numel()) * 4, {r.input.get(), y.get()});
    on(r.input).norm(x.dtype(), r.input->data(), y->data(), r.outer, r.n, r.inner, ord);
  }
  return y;
}

// x / |x|, 0 at 0.
Var direction(const Var& x) {
  if (!is_complex(x.dtype())) return math::sign(x);
  Var zero = x == Var(0);
  return math::where(zero, Var(0), x / math::abs(math::where(zero, Var(1), x)));
}

// x |x|^(p-2), 0 at 0 in all its derivatives unless it is a polynomial there.
Var signed_power(const Var& x, double p) {
  if (!is_complex(x.dtype()) && p >= 2 && p == std::floor(p) && p < 64) {
    Var power = ops::pow_number(x, Var(p - 1));
    return std::fmod(p, 2) == 0 ? power : math::sign(x) * power;
  }
  Var zero = x == Var(0), safe = math::where(zero, Var(1), x);
  return math::where(zero, Var(0), safe * ops::pow_number(math::abs(safe), Var(p - 2)));
}

Var vector_norm(const Var& x, double ord, const Dims& dim);  // keeps the dimensions

// The largest or smallest of these magnitudes. The norm itself may differ from it by a rounding,
// since its kernel takes the magnitude of complex numbers in its own way.
Var extreme(const Var& size, double p, const Dims& dim) {
  if (size.numel() == 0) return size;
  Plain plain;
  return vector_norm(size, p, dim);
}

// g and norm have the reduced dimensions. A norm of 0 has the gradient 0.
Var norm_gradient(const Var& g, const Var& x, double p, const Var& norm, const Dims& dim) {
  if (p == 1) return direction(x) * g;
  if (std::isinf(p)) {
    Var size = math::abs(x), end = extreme(size, p, dim);
    Var reached = math::either(size == end, math::both(math::isnan(size), math::isnan(end)));
    Var count = ops::sum(reached, dim.value_or(Ints()), true);
    return direction(x) * math::where(reached, g / count, Var(0));
  }
  Var none = norm == Var(0), safe = math::where(none, Var(1), norm);
  // One over a small norm is more than a half holds.
  if (p == 2 && itemsize(real_of(x.dtype())) == 2) return (x / safe) * math::where(none, Var(0), g);
  if (p == 2) return x * math::where(none, Var(0), g / safe);
  return signed_power(x, p) * math::where(none, Var(0), g * ops::pow_number(safe, Var(1 - p)));
}

// The tangent of the norm of x.
Var push_norm(const Var& t, const Var& x, double p, const Var& norm, const Dims& dim,
              bool keepdim) {
  Var slope = norm_gradient(ops::full({}, 1, norm.dtype(), norm.device()), x, p, norm, dim);
  return ops::sum(ops::real(ops::conj(slope) * t), dim.value_or(Ints()), keepdim);
}

struct VectorNorm : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature =
      "vector_norm(Tensor input, float ord=2, int[]? dim=None, bool keepdim=False, *, "
      "dtype? dtype=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgVectorNormBackward0";
  static constexpr auto doc =
      "vector_norm(x, ord, dim): sum(abs(x)**ord, dim)**(1/ord); the largest magnitude for inf, "
      "the smallest for -inf, the number of nonzeros for 0.";
  static constexpr auto module = "linalg";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, double ord, Dims dim, bool keepdim,
                     std::optional<DType> dtype) {
    DType d = input.dtype();
    check(is_differentiable(d),
          "linalg.vector_norm: Expected a floating point or complex tensor "
          "as input. Got ",
          info(d).tensor_name);
    if (dtype) check_norm_dtype("linalg.vector_norm", d, *dtype);
    return norm_value(ops::to(input, dtype.value_or(d)), ord, dim, keepdim);
  }
  static void vjp(Back& b, const In& input, double ord, Dims dim, bool keepdim,
                  std::optional<DType> dtype) {
    if (ord == 0) return;
    Var x = ops::to(*input, dtype.value_or(input.dtype()));
    b[0] = norm_gradient(restore_dims(b.g(), x.sizes(), dim, keepdim), x, ord,
                         restore_dims(b.out(), x.sizes(), dim, keepdim), dim);
  }
  static void jvp(Push& p, const Var& input, double ord, Dims dim, bool keepdim,
                  std::optional<DType> dtype) {
    if (ord == 0) return;
    Var x = ops::to(input, dtype.value_or(input.dtype()));
    p[0] = push_norm(ops::to(p.t(0), x.dtype()), x, ord,
                     restore_dims(p.out(), x.sizes(), dim, keepdim), dim, keepdim);
  }
};
RL_OP(VectorNorm)

Var vector_norm(const Var& x, double ord, const Dims& dim) {
  return call<VectorNorm>(x, ord, dim, true, std::nullopt);
}

struct Norm : Composite {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature =
      "norm(Tensor input, object? p='fro', int[]? dim=None, bool keepdim=False, "
      "dtype? dtype=None)";
  static constexpr auto doc =
      "norm(x, p, dim): linalg.vector_norm of order p; 'fro' is the order 2 over at most two "
      "dimensions, 'nuc' the sum of singular values.";
  static constexpr Family family = Family::Reduction;
  static Var forward(const Var& input, PyObject* p, Dims dim, bool keepdim,
                     std::optional<DType> dtype) {
    if (PyUnicode_Check(p) && PyUnicode_CompareWithASCIIString(p, "nuc") == 0)
      return ops::nuclear_norm(dtype ? ops::to(input, *dtype) : input, dim, keepdim);
    return call<VectorNorm>(input, order(p, dim), dim, keepdim, dtype);
  }
  static double order(PyObject* p, const Dims& dim) {
    if (p == Py_None) return 2;
    if (PyUnicode_Check(p)) {
      check(PyUnicode_CompareWithASCIIString(p, "fro") == 0, "linalg.matrix_norm: Order ",
            PyUnicode_AsUTF8(p), " not supported.");
      check(!dim || dim->size() <= 2, "linalg.matrix_norm: dim must be a 2-tuple. Got ",
            dim.value_or(Ints()));
      return 2;
    }
    check(!PyComplex_Check(p),
          "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    if (is_tensor(p) && reinterpret_cast<Tensor*>(p)->dim() > 0)
      fail_as(PyExc_TypeError,
              "norm(): argument 'p' must be a number, 'fro' or None, not a Tensor "
              "of shape ",
              reinterpret_cast<Tensor*>(p)->sizes);
    double value = PyFloat_AsDouble(p);
    if (value == -1 && PyErr_Occurred()) throw PythonError{};
    return value;
  }
};
RL_OP(Norm)

struct Dist : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "dist(Tensor input, Tensor other, float p=2)";
  static constexpr auto doc = "dist(a, b, p): the p-norm of a - b.";
  static constexpr Family family = Family::Reduction;
  static constexpr auto saves = "input other out";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& other, double p) {
    Var apart = input - other;
    check(is_differentiable(apart.dtype()),
          "norm(): input dtype should be either floating point "
          "or complex. Got ",
          info(apart.dtype()).tensor_name, " instead.");
    return norm_value(apart, p, std::nullopt, false);
  }
  static void vjp(Back& b, const In& input, const In& other, double p) {
    if (p == 0) return;
    Var apart = *input - *other;
    Var g = norm_gradient(b.g(), apart, p, b.out(), std::nullopt);
    if (b.wants(0)) b[0] = g;
    if (b.wants(1)) b[1] = -g;
  }
  static void jvp(Push& p, const Var& input, const Var& other, double ord) {
    if (ord == 0) return;
    Var t = p.t(0) && p.t(1) ? p.t(0) - p.t(1) : p.t(0) ? p.t(0) : -p.t(1);
    Var apart = input - other;
    p[0] = push_norm(ops::expand(t, apart.sizes()), apart, ord, p.out(), std::nullopt, false);
  }
};
RL_OP(Dist)

}  // namespace

namespace ops {

Var vector_norm(const Var& a, double ord, const Ints& dims, bool keepdim) {
  return call<VectorNorm>(a, ord, dims, keepdim, std::nullopt);
}

}  // namespace ops
}  // namespace rl
