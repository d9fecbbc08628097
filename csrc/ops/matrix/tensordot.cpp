// Products that reduce to others: outer, inner, Kronecker, over several dimensions, in chains.
#include <limits>

#include "call/op.h"

namespace rl {

namespace {

Var outer(const Var& a, const Var& b) {
  check(a.dim() == 1, "outer: Expected 1-D argument self, but got ", a.dim(), "-D");
  check(b.dim() == 1, "outer: Expected 1-D argument vec2, but got ", b.dim(), "-D");
  return ops::reshape(a, {a.numel(), 1}) * b;
}

#define RL_OUTER(Type, function)                                                            \
  struct Type : Composite {                                                                 \
    static constexpr auto signature = function "(Tensor input, Tensor vec2)";               \
    static constexpr auto doc = function "(x, y): the matrix of all products x[i] * y[j]."; \
    static constexpr Family family = Family::Contraction;                                   \
    static Var forward(const Var& input, const Var& vec2) { return outer(input, vec2); }    \
  };                                                                                        \
  RL_OP(Type)
RL_OUTER(Outer, "outer")
RL_OUTER(Ger, "ger")

// Sums over pairs of dimensions; what is left of a comes before what is left of b.
Var contract(Var a, Var b, const Ints& dims_a, const Ints& dims_b) {
  check(dims_a.size() == dims_b.size(), "both dimension lists should have same length, got ",
        dims_a, " and ", dims_b);
  check(a.dtype() == b.dtype(), "both inputs should have same dtype, got ",
        info(a.dtype()).tensor_name, " and ", info(b.dtype()).tensor_name);
  Ints over_a = wrap_dims(dims_a, a.dim(), "tensordot"),
       over_b = wrap_dims(dims_b, b.dim(), "tensordot");
  int64_t summed = 1;
  for (int i = 0; i < over_a.size(); i++) {
    int da = int(over_a[i]), db = int(over_b[i]);
    int64_t m = a.size(da), n = b.size(db);
    if (m != n && n == 1) a = ops::to(ops::sum(a, {da}, true), a.dtype());
    else if (m != n && m == 1) b = ops::to(ops::sum(b, {db}, true), b.dtype());
    else
      check(m == n, "contracted dimensions need to match, but first has size ", m, " in dim ",
            dims_a[i], " and second has size ", n, " in dim ", dims_b[i]);
    summed *= a.size(da);
  }
  Ints order_a, order_b = over_b, sizes;
  int64_t rows = 1, cols = 1;
  for (int i = 0; i < a.dim(); i++)
    if (!over_a.contains(i)) {
      order_a.push_back(i);
      sizes.push_back(a.size(i));
      rows *= a.size(i);
    }
  for (int64_t d : over_a) order_a.push_back(d);
  for (int i = 0; i < b.dim(); i++)
    if (!over_b.contains(i)) {
      order_b.push_back(i);
      sizes.push_back(b.size(i));
      cols *= b.size(i);
    }
  Var x = ops::permute(a, order_a), y = ops::permute(b, order_b);
  if (sizes.empty()) return ops::dot(ops::reshape(x, {summed}), ops::reshape(y, {summed}));
  return ops::reshape(ops::mm(ops::reshape(x, {rows, summed}), ops::reshape(y, {summed, cols})),
                      sizes);
}

struct Inner : Composite {
  static constexpr auto signature = "inner(Tensor input, Tensor other)";
  static constexpr auto doc = "inner(a, b): sums of products over the last dimension of both.";
  static constexpr Family family = Family::Contraction;
  static Var forward(const Var& input, const Var& other) {
    check(input.dtype() == other.dtype(), "both inputs should have same dtype, got ",
          info(input.dtype()).tensor_name, " and ", info(other.dtype()).tensor_name);
    if (input.dim() == 0 || other.dim() == 0) return input * other;
    check(input.size(-1) == other.size(-1),
          "inner() the last dimension must match on both input tensors but got shapes ",
          input.sizes(), " and ", other.sizes());
    return contract(input, other, {-1}, {-1});
  }
};
RL_OP(Inner)

// An owned Python object.
struct Held {
  PyObject* object;
  explicit Held(PyObject* owned) : object(owned) {
    if (!owned) throw PythonError{};
  }
  ~Held() { Py_DECREF(object); }
  Held(const Held&) = delete;
};

Ints int_list(PyObject* o) {
  auto one = [](PyObject* item) -> int64_t {
    Py_ssize_t v = PyNumber_AsSsize_t(item, PyExc_ValueError);
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return v;
  };
  Held held(is_tensor(o) ? PyObject_CallMethod(o, "tolist", nullptr) : Py_NewRef(o));
  PyObject* list = held.object;
  if (!PyTuple_Check(list) && !PyList_Check(list)) return {one(list)};
  Ints ints;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++)
    ints.push_back(one(PySequence_Fast_GET_ITEM(list, i)));
  return ints;
}

struct Tensordot : Composite {
  static constexpr Autocast autocast = Autocast::WidestOnCuda;
  static constexpr auto signature = "tensordot(Tensor a, Tensor b, object dims=2)";
  static constexpr auto doc =
      "tensordot(a, b, dims): sums over the last dims of a and the first of b, or over the pairs "
      "that two lists name.";
  static constexpr Family family = Family::Contraction;
  static constexpr bool method = false;
  static Var forward(const Var& a, const Var& b, PyObject* dims) {
    bool one = is_tensor(dims) && reinterpret_cast<Tensor*>(dims)->numel == 1;
    Held held(is_tensor(dims) ? PyObject_CallMethod(dims, "tolist", nullptr) : Py_NewRef(dims));
    PyObject* lists = held.object;
    if (!one && (PyTuple_Check(lists) || PyList_Check(lists))) {
      check(PySequence_Fast_GET_SIZE(lists) == 2,
            "tensordot expects dims to be an int or two lists of ints");
      Held left(Py_NewRef(PySequence_Fast_GET_ITEM(lists, 0)));
      Held right(Py_NewRef(PySequence_Fast_GET_ITEM(lists, 1)));
      return contract(a, b, int_list(left.object), int_list(right.object));
    }
    check(one || PyIndex_Check(dims),
          "tensordot expects dims to be int or tuple[list[int], "
          "list[int]] or list[list[int]] containing two lists, but got an object of type ",
          Py_TYPE(dims)->tp_name);
    int64_t count = int_list(dims)[0];
    check(count >= 0, "tensordot expects dims >= 0, but got dims=", count);
    check(count <= a.dim() && count <= b.dim(),
          "tensordot expects dims < ndim_a or ndim_b, but got dims=", count);
    Ints last, first;
    for (int64_t i = 0; i < count; i++) {
      last.push_back(i - count);
      first.push_back(i);
    }
    return contract(a, b, last, first);
  }
};
RL_OP(Tensordot)

struct Kron : Composite {
  static constexpr auto signature = "kron(Tensor input, Tensor other)";
  static constexpr auto doc = "kron(a, b): the Kronecker product, every a[i] times all of b.";
  static constexpr Family family = Family::Contraction;
  static Var forward(const Var& input, const Var& other) {
    int n = std::max(input.dim(), other.dim());
    Ints a, b, sizes;
    for (int i = 0; i < n; i++) {
      int from_a = i - (n - input.dim()), from_b = i - (n - other.dim());
      a.push_back(from_a < 0 ? 1 : input.size(from_a));
      a.push_back(1);
      b.push_back(1);
      b.push_back(from_b < 0 ? 1 : other.size(from_b));
      sizes.push_back(a[2 * i] * b[2 * i + 1]);
    }
    return ops::reshape(ops::reshape(input, a) * ops::reshape(other, b), sizes);
  }
};
RL_OP(Kron)

// A product of matrices in the order that needs the fewest multiplications.
class Chain {
 public:
  explicit Chain(const Vars& matrices) : matrices_(matrices), n_(matrices.size()) {
    size_t cells = n_ * n_;
    cost_.assign(cells, 0);
    split_.assign(cells, 0);
    for (size_t length = 1; length < n_; length++)
      for (size_t i = 0; i + length < n_; i++) choose(i, i + length);
  }
  Var run() const { return multiply(0, n_ - 1); }

 private:
  double extent(size_t i) const {
    return double(i < n_ ? matrices_[i].size(0) : matrices_[n_ - 1].size(1));
  }
  void choose(size_t i, size_t j) {
    double best = std::numeric_limits<double>::infinity();
    for (size_t k = i; k < j; k++) {
      double cost =
          cost_[i * n_ + k] + cost_[(k + 1) * n_ + j] + extent(i) * extent(k + 1) * extent(j + 1);
      if (cost >= best) continue;
      best = cost;
      split_[i * n_ + j] = k;
    }
    cost_[i * n_ + j] = best;
  }
  Var multiply(size_t i, size_t j) const {
    if (i == j) return matrices_[i];
    size_t k = split_[i * n_ + j];
    return ops::mm(multiply(i, k), multiply(k + 1, j));
  }

  const Vars& matrices_;
  size_t n_;
  std::vector<double> cost_;
  std::vector<size_t> split_;
};

Var multiply_chain(const Vars& tensors, const char* op) {
  Vars matrices = tensors;
  size_t last = tensors.size() - 1;
  for (size_t i = 0; i <= last; i++) {
    bool end = i == 0 || i == last;
    check(tensors[i].dim() == 2 || (end && tensors[i].dim() == 1), op, "(): tensor ", i,
          " must be ", end ? "1D or 2D" : "2D", " but got ", tensors[i].dim(), "D");
  }
  bool row = tensors[0].dim() == 1, column = tensors[last].dim() == 1;
  if (row) matrices[0] = ops::unsqueeze(tensors[0], 0);
  if (column) matrices[last] = ops::unsqueeze(tensors[last], 1);
  for (size_t i = 0; i < last; i++)
    check(matrices[i].size(1) == matrices[i + 1].size(0), op, "(): tensors ", i, " and ", i + 1,
          " with shapes ", tensors[i].sizes(), " and ", tensors[i + 1].sizes(),
          " cannot be multiplied");
  Var out = Chain(matrices).run();
  Ints sizes;
  if (!row) sizes.push_back(out.size(0));
  if (!column) sizes.push_back(out.size(1));
  return row || column ? ops::reshape(out, sizes) : out;
}

struct MultiDot : Composite {
  static constexpr auto signature = "multi_dot(Tensor[] tensors)";
  static constexpr auto doc =
      "multi_dot(tensors): the product of a chain of matrices, in the cheapest order.";
  static constexpr auto module = "linalg";
  static constexpr Family family = Family::Contraction;
  static Var forward(const Vars& tensors) {
    check(tensors.size() >= 2, "multi_dot(): expected at least 2 tensors but got ", tensors.size());
    return multiply_chain(tensors, "multi_dot");
  }
};
RL_OP(MultiDot)

struct ChainMatmul : Composite {
  static constexpr auto signature = "chain_matmul(tensors matrices)";
  static constexpr auto doc =
      "chain_matmul(*matrices): the product of a chain of matrices, in the cheapest order.";
  static constexpr Family family = Family::Contraction;
  static constexpr bool method = false;
  static Var forward(const Vars& matrices) {
    check(!matrices.empty(), "chain_matmul(): Expected one or more matrices");
    for (size_t i = 0; i < matrices.size(); i++)
      check(matrices[i].dim() == 2, "chain_matmul(): Tensor dimension is ", matrices[i].dim(),
            ", expected 2 instead (matrix ", i, ")");
    return matrices.size() == 1 ? ops::clone(matrices[0])
                                : multiply_chain(matrices, "chain_matmul");
  }
};
RL_OP(ChainMatmul)

}  // namespace
}  // namespace rl
