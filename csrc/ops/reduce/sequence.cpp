// Differences, integrals and products along a dimension, and vectors combined.
#include "call/broadcast.h"
#include "call/op.h"

namespace rl {

namespace {

struct Cross : Bilinear {
  static constexpr auto signature = "_cross(Tensor input, Tensor other, int dim)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "LinalgCrossBackward0";
  static constexpr auto doc = "_cross(a, b, dim): the vector product along a dimension of 3.";
  static constexpr auto saves = "other|input";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& other, int64_t dim) {
    check(input.dim() == other.dim(),
          "linalg.cross: inputs must have the same number of dimensions: ", input.sizes(), " and ",
          other.sizes());
    if (input.dim() == 0)
      fail_as(PyExc_IndexError, "linalg.cross: Dimension out of range: the inputs are 0-d");
    int d = int(wrap_dim(dim, input.dim(), "linalg.cross"));
    check(input.sizes()[d] == 3 && other.sizes()[d] == 3, "linalg.cross: inputs dimension ", d,
          " must have length 3. Got ", input.sizes()[d], " and ", other.sizes()[d]);
    check(input.dtype() == other.dtype(), "linalg.cross: expected scalar type ",
          info(input.dtype()).tensor_name, " but found ", info(other.dtype()).tensor_name);
    Var a[3], b[3];
    for (int i = 0; i < 3; i++) {
      a[i] = ops::select(input, d, i);
      b[i] = ops::select(other, d, i);
    }
    Vars parts;
    for (int i = 0; i < 3; i++) {
      int j = (i + 1) % 3, k = (i + 2) % 3;
      parts.push_back(a[j] * b[k] - a[k] * b[j]);
    }
    return ops::stack(parts, d);
  }
  static void vjp(Back& b, const In& input, const In& other, int64_t dim) {
    if (b.wants(0)) b[0] = product(ops::conj(*other), b.g(), dim);
    if (b.wants(1)) b[1] = product(b.g(), ops::conj(*input), dim);
  }
  static Var product(const Var& a, const Var& b, int64_t dim) { return call<Cross>(a, b, dim); }
};
RL_OP(Cross)

struct CrossDefault : Composite {
  static constexpr auto signature = "cross(Tensor input, Tensor other, int? dim=None)";
  static constexpr auto doc =
      "cross(a, b, dim): the vector product along dim, or the first dimension of size 3.";
  static Var forward(const Var& input, const Var& other, std::optional<int64_t> dim) {
    int64_t d = dim.value_or(-1);
    if (!dim) {
      check(input.dim() == other.dim(),
            "linalg.cross: inputs must have the same number of dimensions: ", input.sizes(),
            " and ", other.sizes());
      d = 0;
      while (d < input.dim() && input.sizes()[int(d)] != 3) d++;
      check(d < input.dim(), "no dimension of size 3 in input: ", input.sizes());
    }
    return call<Cross>(input, other, d);
  }
};
RL_OP(CrossDefault)

struct CrossLast : Composite {
  static constexpr auto signature = "cross(Tensor input, Tensor other, *, int dim=-1)";
  static constexpr auto doc = "cross(a, b, dim): the vector product along a dimension of size 3.";
  static constexpr auto module = "linalg";
  static Var forward(const Var& input, const Var& other, int64_t dim) {
    return call<Cross>(input, other, dim);
  }
};
RL_OP(CrossLast)

struct Diff : Composite {
  static constexpr auto signature =
      "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None)";
  static constexpr auto doc = "diff(x, n, dim): differences of neighbours along dim, n times over.";
  static Var forward(const Var& input, int64_t n, int64_t dim, const Var& prepend,
                     const Var& append) {
    check(input.dim() >= 1, "diff expects input to be at least one-dimensional");
    int d = int(wrap_dim(dim, input.dim()));
    check(n >= 0, "order must be non-negative but got ", n);
    for (const Var& extra : {prepend, append}) {
      if (!extra) continue;
      check(extra.dim() == input.dim(),
            "diff expects prepend or append to be the same dimension as input");
      for (int i = 0; i < input.dim(); i++)
        check(i == d || extra.sizes()[i] == input.sizes()[i],
              "diff expects the shape of tensor to prepend or append to match that of input except "
              "along the differencing dimension; input.size(",
              i, ") = ", input.sizes()[i], ", but got tensor.size(", i, ") = ", extra.sizes()[i]);
    }
    if (n == 0) {
      Var copy = empty_like(input.get(), input.dtype());
      ops::copy_(copy, input);
      return copy;
    }
    Vars parts;
    for (const Var& part : {prepend, input, append})
      if (part) parts.push_back(part);
    Var x = parts.size() > 1 ? ops::cat(parts, d) : input;
    bool logical = x.dtype() == DType::Bool;
    for (; n > 0 && x.sizes()[d] > 0; n--) {
      int64_t length = x.sizes()[d] - 1;
      Var later = ops::narrow(x, d, 1, length), earlier = ops::narrow(x, d, 0, length);
      x = logical ? math::call_pointwise("logical_xor", {later, earlier}) : later - earlier;
    }
    return x;
  }
};
RL_OP(Diff)

Var columns(const Vars& parts) { return ops::stack(parts, 1); }

struct CartesianProd : Composite {
  static constexpr auto signature = "cartesian_prod(tensors tensors)";
  static constexpr auto doc = "cartesian_prod(*tensors): every choice of one element from each.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Vars& tensors) {
    check(!tensors.empty(), "cartesian_prod expects a non-empty TensorList");
    check(tensors.size() <= 64, "cartesian_prod: at most 64 tensors can be combined, got ",
          tensors.size());
    Ints sizes;
    for (const Var& t : tensors) {
      check(t.dim() == 1, "Expect a 1D vector, but got shape ", t.sizes());
      sizes.push_back(t.numel());
    }
    if (tensors.size() == 1) return tensors[0];
    Vars parts;
    for (size_t i = 0; i < tensors.size(); i++) {
      Ints shape(sizes.size(), 1);
      shape[int(i)] = sizes[int(i)];
      parts.push_back(ops::reshape(ops::expand(ops::reshape(tensors[i], shape), sizes), {-1}));
    }
    return columns(parts);
  }
};
RL_OP(CartesianProd)

struct Combinations : Composite {
  static constexpr auto signature =
      "combinations(Tensor input, int r=2, bool with_replacement=False)";
  static constexpr auto doc =
      "combinations(x, r): every choice of r elements of a vector, as rows.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t r, bool with_replacement) {
    check(input.dim() == 1, "Expect a 1D vector, but got shape ", input.sizes());
    check(r >= 0, "Expect a non-negative number, but got ", r);
    check(r <= 1 << 20, "combinations: choices of ", r, " elements are too long");
    if (r == 0) return empty({0}, input.dtype(), input.device());
    int64_t n = input.numel(), pool = with_replacement ? n + r - 1 : n, rows = pool >= r ? 1 : 0;
    for (int64_t i = 0; rows > 0 && i < std::min(r, pool - r); i++) {
      check(!__builtin_mul_overflow(rows, pool - i, &rows), "combinations: too many rows");
      rows /= i + 1;
    }
    if (rows == 0) return ops::expand(ops::reshape(ops::narrow(input, 0, 0, 0), {0, 1}), {0, r});
    check(!__builtin_mul_overflow(rows, r, &pool), "combinations: too many rows");
    Device to = input.device().type == Device::Meta ? input.device() : kHost;
    Var index = empty({r * rows}, DType::I64, to);
    if (to == kHost) fill(index->host<int64_t>(), n, r, rows, with_replacement);
    index = ops::to(index, DType::I64, input.device());
    Vars parts;
    for (int64_t k = 0; k < r; k++) {
      Var at = alias(index.get(), Ints{rows}, Ints{1}, k * rows);
      parts.push_back(ops::index_select(input, 0, at));
    }
    return columns(parts);
  }
  // The choices in lexicographic order, a column for each.
  static void fill(int64_t* out, int64_t n, int64_t r, int64_t rows, bool with_replacement) {
    std::vector<int64_t> choice(static_cast<size_t>(r));
    for (int64_t k = 0; k < r; k++) choice[size_t(k)] = with_replacement ? 0 : k;
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t k = 0; k < r; k++) out[k * rows + row] = choice[size_t(k)];
      int64_t k = r - 1;
      while (k > 0 && choice[size_t(k)] == (with_replacement ? n - 1 : n - r + k)) k--;
      int64_t next = choice[size_t(k)] + 1;
      for (; k < r; k++) choice[size_t(k)] = with_replacement ? next : next++;
    }
  }
};
RL_OP(Combinations)

// The widths between sample points, shaped to multiply y's neighbours along d.
Var widths(const Var& y, const Var& x, int d, const char* op) {
  Var points = x;
  if (x.dim() == 1) {
    check(x.numel() == y.sizes()[d], op,
          ": There must be one `x` value for each sample point, got ", x.numel(), " and ",
          y.sizes()[d]);
    Ints shape(y.dim(), 1);
    shape[d] = x.numel();
    points = ops::reshape(x, shape);
  } else if (x.dim() < y.dim()) {
    Ints shape = x.sizes();
    while (shape.size() < y.dim()) shape.insert(0, 1);
    points = ops::reshape(x, shape);
  }
  check(d < points.dim() && points.sizes()[d] > 0, op, ": `x` of shape ", x.sizes(),
        " has no sample points along dimension ", d);
  int64_t n = points.sizes()[d] - 1;
  return ops::narrow(points, d, 1, n) - ops::narrow(points, d, 0, n);
}

int sample_dim(const Var& y, int64_t dim, const char* op) {
  if (y.dim() == 0)
    fail_as(PyExc_IndexError, op, ": Dimension specified as ", dim,
            " but tensor has no dimensions");
  check(y.dtype() != DType::Bool, op, ": received a bool input for `y`, but bool is not supported");
  return int(wrap_dim(dim, y.dim()));
}

// Sums of neighbours along d.
Var pairs(const Var& y, int d) {
  int64_t n = std::max<int64_t>(y.sizes()[d] - 1, 0);
  return ops::narrow(y, d, 0, n) + ops::narrow(y, d, y.sizes()[d] - n, n);
}

Var no_area(const Var& y, int d) {
  Ints sizes = y.sizes();
  sizes.erase(d);
  return ops::zeros(sizes, is_integral(y.dtype()) ? default_dtype() : y.dtype(), y.device());
}

Var area(const Var& y, double dx, int64_t dim) {
  int d = sample_dim(y, dim, "trapezoid");
  if (y.sizes()[d] == 0) return no_area(y, d);
  Var ends = ops::select(y, d, 0) + ops::select(y, d, -1);
  return (ops::sum(y, {d}, false) - ends * Var(0.5)) * Var(dx);
}

Var area_over(const Var& y, const Var& x, int64_t dim) {
  int d = sample_dim(y, dim, "trapezoid");
  check(x.dtype() != DType::Bool,
        "trapezoid: received a bool input for `x`, but bool is not supported");
  if (y.sizes()[d] == 0) return no_area(y, d);
  return ops::sum(widths(y, x, d, "trapezoid") * pairs(y, d), {d}, false) / Var(2);
}

#define RL_TRAPEZOID(Type, function_name)                                                        \
  struct Type##Over : Composite {                                                                \
    static constexpr auto signature = function_name "(Tensor y, Tensor x, *, int dim=-1)";       \
    static constexpr auto doc = function_name "(y, x, dim): the area under y at the points x.";  \
    static constexpr bool method = false;                                                        \
    static constexpr bool out = false;                                                           \
    static Var forward(const Var& y, const Var& x, int64_t dim) { return area_over(y, x, dim); } \
  };                                                                                             \
  RL_OP(Type##Over)                                                                              \
  struct Type : Composite {                                                                      \
    static constexpr auto signature = function_name "(Tensor y, *, float dx=1, int dim=-1)";     \
    static constexpr auto doc = function_name "(y, dx, dim): the area under evenly spaced y.";   \
    static constexpr bool method = false;                                                        \
    static constexpr bool out = false;                                                           \
    static Var forward(const Var& y, double dx, int64_t dim) { return area(y, dx, dim); }        \
  };                                                                                             \
  RL_OP(Type)
RL_TRAPEZOID(Trapezoid, "trapezoid")
RL_TRAPEZOID(Trapz, "trapz")

struct CumulativeTrapezoidOver : Composite {
  static constexpr auto signature = "cumulative_trapezoid(Tensor y, Tensor x, *, int dim=-1)";
  static constexpr auto doc = "cumulative_trapezoid(y, x, dim): the running area under y over x.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& y, const Var& x, int64_t dim) {
    int d = sample_dim(y, dim, "cumulative_trapezoid");
    check(x.dtype() != DType::Bool,
          "cumulative_trapezoid: received a bool input for `x`, but bool is not supported");
    return ops::cumsum(widths(y, x, d, "cumulative_trapezoid") * pairs(y, d), d) / Var(2);
  }
};
RL_OP(CumulativeTrapezoidOver)

struct CumulativeTrapezoid : Composite {
  static constexpr auto signature = "cumulative_trapezoid(Tensor y, *, float dx=1, int dim=-1)";
  static constexpr auto doc = "cumulative_trapezoid(y, dx, dim): the running area under y.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& y, double dx, int64_t dim) {
    int d = sample_dim(y, dim, "cumulative_trapezoid");
    return ops::cumsum(pairs(y, d) * Var(dx / 2), d);
  }
};
RL_OP(CumulativeTrapezoid)

struct Vander : Composite {
  static constexpr auto signature = "vander(Tensor x, int? N=None, bool increasing=False)";
  static constexpr auto doc = "vander(x, N): the powers of x, N - 1 down to 0, as columns.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& x, std::optional<int64_t> n, bool increasing) {
    check(x.dim() == 1, "x must be a one-dimensional tensor., got shape ", x.sizes());
    int64_t count = n.value_or(x.numel());
    check(count >= 0, "N must be non-negative., got ", count);
    check(count <= 1 << 20, "vander: N = ", count, " columns are too many");
    Var base = is_integral(x.dtype()) ? ops::to(x, DType::I64) : x;
    if (count == 0) return empty({x.numel(), 0}, base.dtype(), base.device());
    Vars powers = {ops::full(x.sizes(), 1, base.dtype(), base.device())};
    while (int64_t(powers.size()) < count)
      powers.push_back(powers.size() == 1 ? base : powers.back() * base);
    Var all = columns(powers);
    return increasing ? all : ops::flip(all, {1});
  }
};
RL_OP(Vander)

}  // namespace
}  // namespace rl
