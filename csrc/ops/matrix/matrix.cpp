// Triangles, diagonals and traces of matrices.
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/shape/creation.h"

namespace rl {

namespace {

Var triangle(const Var& input, int64_t diagonal, bool upper, const char* op) {
  check(input.dim() >= 2, op, ": input tensor must have at least 2 dimensions, got ", input.dim());
  Var x = ops::contiguous(input), y = empty(input.sizes(), input.dtype(), input.device());
  int64_t rows = y.size(-2), cols = y.size(-1);
  if (y.numel() == 0) return y;
  Launch launch(double(y.numel()), {x.get(), y.get()});
  on(x).triangle(itemsize(x.dtype()), x->data(), y->data(), y.numel() / (rows * cols), rows, cols,
                 diagonal, upper);
  return y;
}

struct Tril : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "tril(Tensor input, int diagonal=0)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "tril(x, diagonal): zeros above the diagonal of each matrix.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t diagonal) {
    return triangle(input, diagonal, false, "tril");
  }
  static void vjp(Back& b, const In&, int64_t diagonal) { b[0] = ops::tril(b.g(), diagonal); }
};
RL_OP(Tril)

struct Triu : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "triu(Tensor input, int diagonal=0)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "triu(x, diagonal): zeros below the diagonal of each matrix.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t diagonal) {
    return triangle(input, diagonal, true, "triu");
  }
  static void vjp(Back& b, const In&, int64_t diagonal) { b[0] = ops::triu(b.g(), diagonal); }
};
RL_OP(Triu)

// How many places of a row x col matrix have column - row <= offset.
__int128 lower_count(int64_t row, int64_t col, __int128 offset) {
  __int128 first = std::max<__int128>(-offset, 0);              // rows before it are empty
  __int128 full = std::max<__int128>(col - 1 - offset, first);  // rows from it on are full
  __int128 slope = std::min<__int128>(full, row) - first, rest = row - std::max(full, first);
  __int128 n = 0;
  if (slope > 0) n += slope * (first + offset + 1) + slope * (slope - 1) / 2;
  if (rest > 0) n += rest * col;
  return n;
}

// The rows and columns of the places in a triangle of a matrix, row by row.
Var triangle_indices(int64_t row, int64_t col, int64_t offset, bool upper,
                     std::optional<DType> dtype, Device device, const char* op) {
  check(row >= 0, op, ": row must be non-negative, got ", row);
  check(col >= 0, op, ": col must be non-negative, got ", col);
  DType result = dtype.value_or(DType::I64);
  if (result != DType::I64 && result != DType::I32)
    fail_as(PyExc_NotImplementedError, "\"", op, "\" not implemented for '",
            info(result).tensor_name, "'");
  __int128 count = upper ? __int128(row) * col - lower_count(row, col, __int128(offset) - 1)
                         : lower_count(row, col, offset);
  check(count < (int64_t(1) << 58), op, ": Storage size calculation overflowed for a matrix of ",
        row, " by ", col);
  int64_t n = int64_t(count);
  if (without_data(device)) return empty({2, n}, result, device);
  std::vector<int64_t> both(size_t(2 * n));
  int64_t *rows = both.data(), *cols = rows + n;
  for (int64_t r = upper ? 0 : std::max<int64_t>(-offset, 0), left = n; left > 0; r++) {
    int64_t from = upper ? std::max<int64_t>(r + offset, 0) : 0;
    int64_t to = upper ? col : std::min(r + offset + 1, col);
    for (int64_t c = from; c < to; c++) {
      *rows++ = r;
      *cols++ = c;
    }
    left -= to - from;
  }
  return ops::to(ops::reshape(ops::integers(both, device), {2, n}), result);
}

#define RL_TRIANGLE_INDICES(Type, function_name, upper, text)                                     \
  struct Type : Creation_ {                                                                       \
    static constexpr auto signature =                                                             \
        function_name "(int row, int col, int offset=0, *, " RL_OPTIONS ")";                      \
    static constexpr auto doc = function_name "(row, col, offset): rows and columns of the " text \
                                              " triangle of a matrix.";                           \
    static constexpr bool out = false;                                                            \
    static Var forward(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,      \
                       PyObject*, std::optional<Device> device, bool requires_grad, PyObject*) {  \
      return finish(                                                                              \
          triangle_indices(row, col, offset, upper, dtype, chosen(device), function_name),        \
          requires_grad);                                                                         \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type)
RL_TRIANGLE_INDICES(TrilIndices, "tril_indices", false, "lower")
RL_TRIANGLE_INDICES(TriuIndices, "triu_indices", true, "upper")

struct DiagEmbed : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr int added_dims = 1;
  static constexpr auto doc =
      "diag_embed(x, offset, dim1, dim2): matrices of zeros with the last dimension on a diagonal.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t offset, int64_t dim1, int64_t dim2) {
    int n = input.dim() + 1;
    if (input.dim() == 0)
      fail_as(PyExc_IndexError,
              "diag_embed: Dimension out of range: a 0-d tensor has no last "
              "dimension");
    int64_t a = wrap_dim(dim1, n), b = wrap_dim(dim2, n);
    check(a != b, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    int64_t size = 0;
    check(!__builtin_add_overflow(input.size(-1), std::abs(std::max(offset, -INT64_MAX)), &size),
          "diag_embed: offset ", offset, " is too large");
    Ints sizes = input.sizes();
    sizes.erase(n - 2);
    sizes.insert(int(std::min(a, b)), size);
    sizes.insert(int(std::max(a, b)), size);
    Var y = ops::zeros(sizes, input.dtype(), input.device());
    ops::copy_data(ops::diagonal(y, offset, a, b).get(), input.get());
    return y;
  }
  static void vjp(Back& b, const In&, int64_t offset, int64_t dim1, int64_t dim2) {
    b[0] = ops::diagonal(b.g(), offset, dim1, dim2);
  }
};
RL_OP(DiagEmbed)

// The diagonal as a tensor of its own.
struct DiagonalCopy : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "DiagonalBackward0_copy";
  static constexpr auto doc = "diagonal_copy(x, offset, dim1, dim2): a copy of a diagonal.";
  static constexpr bool method = false;
  static Var forward(const Var& input, int64_t offset, int64_t dim1, int64_t dim2) {
    return ops::contiguous(ops::clone(ops::diagonal(input, offset, dim1, dim2)));
  }
  static void vjp(Back& b, const In& input, int64_t offset, int64_t dim1, int64_t dim2) {
    Var whole = empty(input.sizes(), b.g().dtype(), b.g().device());
    Var region = [&] {
      GradMode off(false);
      return ops::diagonal(whole, offset, dim1, dim2);
    }();
    b[0] = ops::embed(b.g(), input.sizes(), region->strides, region->offset);
  }
};
RL_OP(DiagonalCopy)

struct Diag : Composite {
  static constexpr auto signature = "diag(Tensor input, int diagonal=0)";
  static constexpr auto doc = "diag(x, k): a vector as a diagonal matrix, a matrix's diagonal.";
  static Var forward(const Var& input, int64_t diagonal) {
    check(input.dim() == 1 || input.dim() == 2, "diag(): Supports 1D or 2D tensors. Got ",
          input.dim(), "D");
    if (input.dim() == 1) return call<DiagEmbed>(input, diagonal, 0, 1);
    return call<DiagonalCopy>(input, diagonal, 0, 1);
  }
};
RL_OP(Diag)

struct DiagFlat : Composite {
  static constexpr auto signature = "diagflat(Tensor input, int offset=0)";
  static constexpr auto doc = "diagflat(x, offset): all elements on a diagonal.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t offset) {
    return call<DiagEmbed>(ops::reshape(input, {-1}), offset, 0, 1);
  }
};
RL_OP(DiagFlat)

struct Trace : Linear {
  static constexpr auto signature = "trace(Tensor input)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "trace(x): the sum of a matrix's diagonal.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dim() == 2, "trace: expected a matrix, but got tensor with dim ", input.dim());
    if (input.dtype() == DType::Bool)
      fail_as(PyExc_NotImplementedError, "\"trace\" not implemented for 'Bool'");
    return ops::sum(ops::diagonal(input, 0, 0, 1), {0}, false);
  }
  static void vjp(Back& b, const In& input) {
    int64_t rows = input.size(0), cols = input.size(1), n = std::min(rows, cols);
    b[0] = ops::embed(ops::expand(b.g(), {n}), {rows, cols}, {cols + 1}, 0);
  }
};
RL_OP(Trace)

}  // namespace

namespace ops {

Var tril(const Var& a, int64_t diagonal) { return call<Tril>(a, diagonal); }
Var triu(const Var& a, int64_t diagonal) { return call<Triu>(a, diagonal); }

}  // namespace ops
}  // namespace rl
