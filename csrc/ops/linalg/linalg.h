// What the ops of linear algebra share: matrices are the last two dimensions, all others a batch.
#pragma once

#include <string>

#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/linalg.h"
#include "ops/matrix/contraction.h"

namespace rl {

// rushlight._C._LinAlgError, a RuntimeError.
extern PyObject* linalg_error;

namespace linalg {

// ---- arguments; messages begin with `op`

void check_dims(const Var& a, const std::string& op, const char* name = "A");
void check_square(const Var& a, const std::string& op, const char* name = "A");
// Floating point or complex, but no halves.
void check_numbers(const Var& a, const std::string& op);
void check_same_dtype(const Var& a, const Var& b, const std::string& op);
// Raises the error of this text for the first matrix that the kernel did not manage: text(info).
template <class Text>
void check_info(const Var& info, const std::string& op, PyObject* type, const Text& text);

// ---- memory

Ints batch_sizes(const Var& a);
Ints with_matrix(Ints batch, int64_t m, int64_t n);
int64_t batch_count(const Var& a);
// In columns without gaps, as LAPACK works.
Var empty_columns(const Ints& sizes, DType dtype, Device device);
// A copy of a in columns, expanded to these sizes where they are given.
Var in_columns(const Var& a);
Var in_columns(const Var& a, const Ints& sizes);
Var no_failures(const Var& a);  // the info of each matrix

// ---- recorded

Var transposed(const Var& a);
Var identity(int64_t n, const Var& like);
Var diagonal(const Var& a);
Var trace(const Var& a);
// v[..., None, :] * eye: a batch of diagonal matrices.
Var diagonal_matrix(const Var& v);
Var hermitian_part(const Var& a);

bool is_complex(const Var& v);
// Whether the host may look at the elements now.
bool can_read(const Var& v);
bool any(const Var& condition);
// Vectors are free up to a phase, which a loss must not depend on. x: their adjoint times their
// gradient.
bool depends_on_phases(const Var& x);

// Numerators over the differences value[j] - value[i], 0 on the diagonal. Where values are equal it
// is 0 if that is what the loss means: if it depends neither on the choice of vectors, nor (`alone`)
// on the values. Where equal values leave it undefined, this raises with what is wrong.
// `scale`: numbers beside which a rounding error of the numerators is small.
Var over_gaps(const Var& numerators, const Var& scale, const Var& values, const Var& gaps,
              bool alone, const char* what);
// The same for tangents, where nothing is known of what follows.
Var over_gaps(const Var& numerators, const Var& gaps, const char* what);

// ---- the ops, recorded

Var solve_triangular(const Var& a, const Var& b, bool upper, bool left = true, bool unit = false);
// a^-1 * b of matrices of one rank.
Var solve(const Var& a, const Var& b);
Var inverse(const Var& a, const std::string& op);
Var inverse_or_nan(const Var& a);  // of singular matrices: NaN
std::array<Var, 3> lu_factor(const Var& a, bool check_errors, const std::string& op);
// a^-1 * b of the factors, or that of the adjoint. Not recorded.
Var lu_solved(const Var& lu, const Var& pivots, const Var& b, bool of_adjoint);
std::array<Var, 2> eigh(const Var& a, bool upper);
Var eigvalsh(const Var& a, bool upper);
std::array<Var, 3> svd(const Var& a, bool full);
Var svdvals(const Var& a);
std::array<Var, 2> slogdet(const Var& a, const std::string& op);
Var pinv(const Var& a, const Var& atol, const Var& rtol, bool hermitian);
Var matrix_norm(const Var& a, double ord, const Ints& dim, bool keepdim);
// One whose rank is larger by one where the vectors of a batch were meant.
bool is_vector(const Var& a, const Var& b);

template <class Text>
void check_info(const Var& info, const std::string& op, PyObject* type, const Text& text) {
  kernel::Outside bad = linalg_on(info).find_failure(info->data<int32_t>(), info.numel());
  if (!bad) return;
  std::string element = info.dim() ? concat("(Batch element ", bad.at, "): ") : "";
  fail_as(type, op, ": ", element, text(bad.value));
}

}  // namespace linalg
}  // namespace rl
