#include "ops/linalg/linalg.h"

#include "call/recording.h"

namespace rl {

PyObject* linalg_error = nullptr;

int add_linalg_error(PyObject* module) {
  linalg_error = PyErr_NewExceptionWithDoc("rushlight._C._LinAlgError",
                                           "A matrix does not have what was asked of it.",
                                           PyExc_RuntimeError, nullptr);
  if (!linalg_error) return -1;
  Py_INCREF(linalg_error);
  return PyModule_AddObject(module, "_LinAlgError", linalg_error);
}

namespace linalg {

void check_dims(const Var& a, const std::string& op, const char* name) {
  check(a.dim() >= 2, op, ": The input tensor ", name, " must have at least 2 dimensions.");
}

void check_square(const Var& a, const std::string& op, const char* name) {
  check_dims(a, op, name);
  check(a.size(-1) == a.size(-2), op, ": ", name,
        " must be batches of square matrices, but they are ", a.size(-2), " by ", a.size(-1),
        " matrices");
  check(a.size(-1) < INT32_MAX, op, ": the matrices are too large: ", a.sizes());
}

void check_numbers(const Var& a, const std::string& op) {
  DType d = a.dtype();
  check(is_differentiable(d), op, ": Expected a floating point or complex tensor as input. Got ",
        info(d).tensor_name);
  if (itemsize(real_of(d)) < 4)
    fail_as(PyExc_NotImplementedError, "\"", op, "\" not implemented for '", info(d).tensor_name,
            "': ", op, ": Low precision dtypes not supported. Convert with .float() first");
  for (int i = -2; i < 0 && a.dim() >= 2; i++)
    check(a.size(i) < INT32_MAX, op, ": the matrices are too large: ", a.sizes());
}

void check_same_dtype(const Var& a, const Var& b, const std::string& op) {
  check(a.dtype() == b.dtype(), op,
        ": Expected A and B to have the same dtype, but found A of type ",
        info(a.dtype()).tensor_name, " and B of type ", info(b.dtype()).tensor_name, " instead");
}

Ints batch_sizes(const Var& a) { return Ints(a.sizes().data(), a.dim() - 2); }

Ints with_matrix(Ints batch, int64_t m, int64_t n) {
  batch.push_back(m);
  batch.push_back(n);
  return batch;
}

int64_t batch_count(const Var& a) { return element_count(batch_sizes(a)); }

Var empty_columns(const Ints& sizes, DType dtype, Device device) {
  Ints strides = contiguous_strides(sizes);
  int n = sizes.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<int64_t>(1, sizes[n - 2]);
  return empty_strided(sizes, strides, dtype, device);
}

Var in_columns(const Var& a) { return in_columns(a, a.sizes()); }

Var in_columns(const Var& a, const Ints& sizes) {
  Var copy = empty_columns(sizes, a.dtype(), a.device());
  ops::copy_data(copy.get(), a.get());
  return copy;
}

Var no_failures(const Var& a) { return ops::zeros(batch_sizes(a), DType::I32, a.device()); }

Var transposed(const Var& a) { return ops::transpose(a, -2, -1); }

Var identity(int64_t n, const Var& like) {
  Plain plain;
  Var eye = ops::zeros({n, n}, like.dtype(), like.device());
  ops::fill_data(alias(eye.get(), {n}, {n + 1}, 0).get(), 1);
  return eye;
}

Var diagonal(const Var& a) { return ops::diagonal(a, 0, -2, -1); }

Var trace(const Var& a) { return ops::sum(diagonal(a), {-1}, false); }

Var diagonal_matrix(const Var& v) { return ops::unsqueeze(v, -2) * identity(v.size(-1), v); }

Var hermitian_part(const Var& a) { return (a + adjoint(a)) * Var(0.5); }

bool is_complex(const Var& v) { return rl::is_complex(v.dtype()); }

bool can_read(const Var& v) { return has_data(v.get()) && !batch_of(v.get()) && !recording; }

bool any(const Var& condition) {
  Plain plain;
  return ops::whole_number(ops::to(ops::sum_all(condition), DType::I64)) > 0;
}

bool depends_on_phases(const Var& x) {
  if (!can_read(x) || x.numel() == 0) return false;
  Plain plain;
  double limit = itemsize(x.dtype()) == 8 ? 1e-2 : 1e-4;
  double most = ops::number(ops::to(ops::sum_all(math::abs(x)), DType::F64));
  return any(math::abs(ops::imag(diagonal(x))) > Var(limit * std::max(1.0, most)));
}

namespace {

// Ones where i == j.
Var on_diagonal(const Var& gaps) { return ops::to(identity(gaps.size(-1), gaps), DType::Bool); }

Var largest(const Var& a) {  // of each matrix, with its dimensions
  Plain plain;
  Var flat = ops::reshape(math::abs(a), with_matrix(batch_sizes(a), 1, a.size(-2) * a.size(-1)));
  Var most = empty(with_matrix(batch_sizes(a), 1, 1), flat.dtype(), a.device());
  flat = ops::contiguous(flat);
  on(flat).amax(flat.dtype(), flat->data(), most->data(), batch_count(a), flat.size(-1), 1);
  return most;
}

double rounding(const Var& v) { return itemsize(real_of(v.dtype())) == 4 ? 1.2e-7 : 2.3e-16; }

[[noreturn]] void fail_equal(const char* what) {
  fail(what,
       " are equal where the derivative depends on their difference: the vectors that belong "
       "to them are free up to a rotation, and what was computed of these has no derivative "
       "here. Use a function of the values alone, of a projection on all vectors of equal "
       "values, or a matrix function (matrix_exp, pinv, inv) in place of one made of "
       "vectors and values");
}

}  // namespace

Var over_gaps(const Var& numerators, const Var& gaps, const char* what) {
  Var same = on_diagonal(gaps);
  Var safe = math::where(same, Var(1), gaps);
  if (can_read(gaps) && can_read(numerators)) {
    Var equal = safe == Var(0);
    if (any(equal)) {
      if (any(math::both(equal, math::abs(numerators) != Var(0)))) fail_equal(what);
      safe = math::where(equal, Var(1), safe);
    }
  }
  return math::where(same, Var(0), numerators / safe);
}

Var over_gaps(const Var& numerators, const Var& scale, const Var& values, const Var& gaps,
              bool alone, const char* what) {
  Var none = on_diagonal(gaps);
  if (gaps.numel() > 0 && can_read(gaps) && can_read(numerators)) {
    Plain plain;
    double slack = double(gaps.size(-1)) * rounding(gaps);
    Var limit = largest(ops::unsqueeze(values, -1)) * Var(100 * slack);
    Var near = math::both(math::abs(gaps) <= limit, none == Var(0));
    if (any(near)) {
      Var zero =
          alone ? math::abs(numerators) <= largest(scale) * Var(30 * slack) : numerators == Var(0);
      Var left = math::both(math::both(near, gaps == Var(0)), zero == Var(0));
      if (any(left)) fail_equal(what);
      none = math::either(none, math::both(near, zero));
    }
  }
  return math::where(none, Var(0), numerators / math::where(none, Var(1), gaps));
}

bool is_vector(const Var& a, const Var& b) {
  if (b.dim() == 1) return true;
  return a.dim() - 1 == b.dim() && b.sizes() == Ints(a.sizes().data(), a.dim() - 1);
}

}  // namespace linalg
}  // namespace rl
