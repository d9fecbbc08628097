// Norms of matrices and what is measured by them.
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/vector_norm.h"

namespace rl {

namespace {

using namespace linalg;

// ---- the nuclear norm: its gradient is the polar factor u * vh, whose derivative is known in turn
// for equal singular values too.

// How the polar factor changes along x: linear in it, its own adjoint.
Var polar_turn(const Var& a, const Var& x) {
  auto [u, s, vh] = linalg::svd(a, false);
  Var uh = adjoint(u), v = adjoint(vh), columns = ops::unsqueeze(s, -2);
  Var xv = ops::matmul(x, v), uhx = ops::matmul(uh, x), across = ops::matmul(uh, xv);
  Var core = (across - adjoint(across)) / (columns + ops::unsqueeze(s, -1));
  Var turned = ops::matmul(ops::matmul(u, core), vh);
  if (a.size(-2) > s.size(-1))
    turned = turned + ops::matmul((xv - ops::matmul(u, across)) / columns, vh);
  if (a.size(-1) > s.size(-1))
    turned = turned + ops::matmul(u / columns, uhx - ops::matmul(across, vh));
  return turned;
}

struct PolarFactor : General {
  static constexpr auto signature = "_polar_factor(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_polar_factor(a): u @ vh of the singular value decomposition.";
  static constexpr auto saves = "input";
  static constexpr bool spares = true;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    auto [u, s, vh] = linalg::svd(input, false);
    return ops::matmul(u, vh);
  }
  static void vjp(Back& b, const In& input) { b[0] = polar_turn(*input, b.g()); }
  static void jvp(Push& p, const Var& input) { p[0] = polar_turn(input, p.t(0)); }
};
RL_OP(PolarFactor)

struct NuclearNorm : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "_nuclear_norm(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_nuclear_norm(a): the sums of singular values.";
  static constexpr auto saves = "input";
  static constexpr bool spares = true;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::sum(linalg::svdvals(input), {-1}, false); }
  static void vjp(Back& b, const In& input) {
    b[0] = ops::unsqueeze(ops::unsqueeze(b.g(), -1), -1) * call<PolarFactor>(*input);
  }
  static void jvp(Push& p, const Var& input) {
    p[0] = ops::sum(ops::real(ops::conj(call<PolarFactor>(input)) * p.t(0)), {-2, -1}, false);
  }
};
RL_OP(NuclearNorm)

// ---- norms by order

const Ints kLast{-2, -1};

// The two dimensions of the matrices, wrapped.
Ints matrix_dims(const Var& a, const Ints& dim) {
  auto op = "linalg.matrix_norm";
  check(dim.size() == 2, op, ": dim must be a 2-tuple. Got ", dim);
  Ints two = wrap_dims(dim, a.dim(), op);
  check(two[0] != two[1], op, ": dims must be different. Got ", dim);
  return two;
}

// The matrices last.
Var with_matrices_last(const Var& a, const Ints& two) {
  Ints order;
  for (int i = 0; i < a.dim(); i++)
    if (i != two[0] && i != two[1]) order.push_back(i);
  order.push_back(two[0]);
  order.push_back(two[1]);
  return ops::permute(a, order);
}

Var kept(const Var& result, const Ints& two, bool keepdim) {
  if (!keepdim) return result;
  int64_t first = std::min(two[0], two[1]), second = std::max(two[0], two[1]);
  return ops::unsqueeze(ops::unsqueeze(result, first), second);
}

Var extreme(const Var& a, int64_t dim, bool largest, bool keepdim) {
  if (largest && a.size(int(dim)) == 0)
    return ops::sum(a, {dim}, keepdim);  // norms of nothing are 0
  return largest ? ops::amax(a, {dim}, keepdim) : ops::amin(a, {dim}, keepdim);
}

void check_norm_input(const Var& a) {
  check_dims(a, "linalg.matrix_norm");
  check(is_differentiable(a.dtype()),
        "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got ",
        info(a.dtype()).tensor_name);
}

Var converted(const Var& a, std::optional<DType> dtype, const char* op) {
  if (dtype) check_norm_dtype(op, a.dtype(), *dtype);
  return ops::to(a, dtype.value_or(a.dtype()));
}

bool is_word(PyObject* ord, const char* word) {
  return PyUnicode_Check(ord) && PyUnicode_CompareWithASCIIString(ord, word) == 0;
}

double order_number(PyObject* ord, const char* op) {
  double value = PyFloat_AsDouble(ord);
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail_as(PyExc_TypeError, op, "(): argument 'ord' must be a number or a string, not ",
            Py_TYPE(ord)->tp_name);
  }
  return value;
}

Var norm_of(const Var& input, PyObject* ord, const Ints& dim, bool keepdim,
            std::optional<DType> dtype) {
  check_norm_input(input);
  Var a = converted(input, dtype, "linalg.matrix_norm");
  if (PyUnicode_Check(ord)) {
    if (is_word(ord, "nuc")) return ops::nuclear_norm(a, dim, keepdim);
    check(is_word(ord, "fro"), "linalg.matrix_norm: Order ", PyUnicode_AsUTF8(ord),
          " not supported.");
    return ops::vector_norm(a, 2, matrix_dims(a, dim), keepdim);
  }
  return linalg::matrix_norm(a, order_number(ord, "linalg.matrix_norm"), dim, keepdim);
}

struct LinalgMatrixNorm : Composite {
  static constexpr auto signature =
      "matrix_norm(Tensor input, object ord='fro', int[]? dim=None, bool keepdim=False, *, "
      "dtype? dtype=None)";
  static constexpr auto doc =
      "matrix_norm(a, ord, dim): 'fro', 'nuc', the largest (or smallest) singular value for 2 "
      "(-2), "
      "sum of a column for 1 (-1), or of a row for inf (-inf).";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, PyObject* ord, const std::optional<Ints>& dim, bool keepdim,
                     std::optional<DType> dtype) {
    return norm_of(input, ord, dim.value_or(kLast), keepdim, dtype);
  }
};
RL_OP(LinalgMatrixNorm)

struct LinalgNorm : Composite {
  static constexpr auto signature =
      "norm(Tensor input, object? ord=None, int[]? dim=None, bool keepdim=False, *, dtype? "
      "dtype=None)";
  static constexpr auto doc =
      "norm(x, ord, dim): vector_norm of everything by default, matrix_norm where two dimensions "
      "and an order are meant.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, PyObject* ord, const std::optional<Ints>& dim, bool keepdim,
                     std::optional<DType> dtype) {
    auto op = "linalg.norm";
    if (dim)
      check(dim->size() == 1 || dim->size() == 2, op,
            ": If dim is specified, it must be of length 1 or 2. Got ", *dim);
    else if (ord != Py_None)
      check(input.dim() == 1 || input.dim() == 2, op,
            ": If dim is not specified but ord is, the input must be 1D or 2D. Got ", input.dim(),
            "D.");
    bool matrices = ord != Py_None && (dim ? dim->size() == 2 : input.dim() == 2);
    if (matrices) return norm_of(input, ord, dim ? *dim : Ints{0, 1}, keepdim, dtype);
    check(ord == Py_None || !PyUnicode_Check(ord), op, ": Order ",
          ord == Py_None         ? ""
          : PyUnicode_Check(ord) ? PyUnicode_AsUTF8(ord)
                                 : "",
          " is for matrices: give two dimensions");
    double order = ord == Py_None ? 2 : order_number(ord, op);
    return ops::vector_norm(converted(input, dtype, "linalg.vector_norm"), order,
                            dim ? *dim : Ints(), keepdim);
  }
};
RL_OP(LinalgNorm)

struct NuclearNormOld : Composite {
  static constexpr auto signature =
      "nuclear_norm(Tensor input, int[]? dim=None, bool keepdim=False)";
  static constexpr auto doc = "nuclear_norm(a, dim): the sum of singular values.";
  static constexpr bool method = false;
  static Var forward(const Var& input, const std::optional<Ints>& dim, bool keepdim) {
    return ops::nuclear_norm(input, dim.value_or(kLast), keepdim);
  }
};
RL_OP(NuclearNormOld)

struct FrobeniusNorm : Composite {
  static constexpr auto signature = "frobenius_norm(Tensor input, int[] dim, bool keepdim=False)";
  static constexpr auto doc = "frobenius_norm(a, dim): the norm of all numbers in some dimensions.";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Ints& dim, bool keepdim) {
    check(dim.size() <= 2, "frobenius_norm: Expected at most 2 dimensions, but got ", dim.size(),
          " dimensions instead.");
    return ops::vector_norm(input, 2, dim, keepdim);
  }
};
RL_OP(FrobeniusNorm)

struct LinalgCond : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto signature = "cond(Tensor input, object? p=None)";
  static constexpr auto doc =
      "cond(a, p): the condition number norm(a) * norm(inv(a)) by an order of linalg.matrix_norm, "
      "by default 2.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, PyObject* p) {
    auto op = "linalg.cond";
    check(input.dim() >= 2, op, ": The input tensor must have at least 2 dimensions.");
    bool word = PyUnicode_Check(p);
    double order = p == Py_None ? 2 : word ? 0 : order_number(p, op);
    if (word)
      check(is_word(p, "fro") || is_word(p, "nuc"), op,
            " got an invalid norm type: ", PyUnicode_AsUTF8(p));
    else
      check(std::abs(order) == 2 || std::abs(order) == 1 || std::isinf(order), op,
            " got an invalid norm type: ", order);
    if (std::abs(order) == 2) {
      Var s = linalg::svdvals(input);
      int64_t k = s.size(-1);
      if (k == 0) return ops::zeros(batch_sizes(input), s.dtype(), s.device());
      Var first = ops::select(s, -1, 0), last = ops::select(s, -1, k - 1);
      return order > 0 ? first / last : last / first;
    }
    if (is_word(p, "nuc")) {
      check_square(input, op);
      Var s = linalg::svdvals(input);
      return ops::sum(s, {-1}, false) * ops::sum(Var(1) / s, {-1}, false);
    }
    check_square(input, "linalg.cond");
    check_numbers(input, op);
    if (input.numel() == 0)
      return ops::zeros(batch_sizes(input), real_of(input.dtype()), input.device());
    auto norm = [&](const Var& a) {
      return word ? norm_of(a, p, kLast, false, {}) : linalg::matrix_norm(a, order, kLast, false);
    };
    // A singular matrix has no inverse: its condition number is infinite.
    Var inverse = linalg::inverse_or_nan(input);
    Var product = norm(input) * norm(inverse);
    Var infinite(std::numeric_limits<double>::infinity());
    return math::where(math::isnan(product), infinite, product);
  }
};
RL_OP(LinalgCond)

}  // namespace

namespace linalg {

Var matrix_norm(const Var& a, double ord, const Ints& dim, bool keepdim) {
  Ints two = matrix_dims(a, dim);
  double size = std::abs(ord);
  check(size == 2 || size == 1 || std::isinf(ord), "linalg.matrix_norm: Order ", ord,
        " not supported.");
  if (size == 2) {
    Var s = linalg::svdvals(with_matrices_last(a, two));
    return kept(extreme(s, -1, ord > 0, false), two, keepdim);
  }
  // Sums along one of the dimensions, then the extreme along the other.
  bool rows = std::isinf(ord);
  Var sums = ops::vector_norm(a, 1, {two[rows ? 1 : 0]}, true);
  Var most = extreme(sums, two[rows ? 0 : 1], ord > 0, true);
  if (keepdim) return most;
  int64_t first = std::min(two[0], two[1]), second = std::max(two[0], two[1]);
  return ops::select(ops::select(most, second, 0), first, 0);
}

}  // namespace linalg

namespace ops {

Var nuclear_norm(const Var& a, const std::optional<Ints>& dim, bool keepdim) {
  Ints all;
  for (int i = 0; i < a.dim(); i++) all.push_back(i);
  check(is_differentiable(a.dtype()),
        "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got ",
        info(a.dtype()).tensor_name);
  Ints two = matrix_dims(a, dim && !dim->empty() ? *dim : all);
  Var norms = call<NuclearNorm>(with_matrices_last(a, two));
  return kept(norms, two, keepdim);
}

}  // namespace ops
}  // namespace rl
