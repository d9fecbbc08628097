// Products of vectors, matrices and batches of matrices.
#include "ops/matrix/contraction.h"

#include "call/broadcast.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

// How C++ spells an element type, as torch's messages do.
const char* cpp_name(DType d) {
  static const char* const names[kDTypes] = {"bool",
                                             "unsigned char",
                                             "signed char",
                                             "short",
                                             "int",
                                             "long int",
                                             "c10::Half",
                                             "c10::BFloat16",
                                             "float",
                                             "double",
                                             "c10::complex<float>",
                                             "c10::complex<double>",
                                             "unsigned short",
                                             "unsigned int",
                                             "unsigned long",
                                             "c10::Float8_e4m3fn",
                                             "c10::Float8_e5m2",
                                             "c10::Float8_e4m3fnuz",
                                             "c10::Float8_e5m2fnuz",
                                             "c10::Float8_e8m0fnu",
                                             "c10::complex<c10::Half>"};
  return names[int(d)];
}

// Products per microsecond of one addition per nanosecond: what Launch counts in.
double work_of(int64_t m, int64_t n, int64_t k) { return double(m) * double(n) * double(k) / 8; }

bool is_columns(const Var& x) {
  return x && !x->contiguous && x->strides[x.dim() - 2] == 1 && x->strides[x.dim() - 1] != 1;
}

Var conjugated(const Var& x) { return is_complex(x.dtype()) ? ops::conj(x) : x; }
Var scaled(const Var& g, double alpha) { return alpha == 1 ? g : g * Var(alpha); }

}  // namespace

Ints batch_sizes(const Ints& sizes) { return Ints(sizes.data(), sizes.size() - 2); }

Var adjoint(const Var& a) { return ops::transpose(conjugated(a), -2, -1); }

void check_multiplies(const char* kernel, DType dtype) {
  if (dtype == DType::Bool)
    fail_as(PyExc_NotImplementedError, "\"", kernel, "\" not implemented for 'Bool'");
}

void check_matrices(const Var& a, const Var& b) {
  if (a.size(1) != b.size(0))
    fail("mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
         b.size(0), "x", b.size(1), ")");
  if (a.dtype() != b.dtype())
    fail("expected m1 and m2 to have the same dtype, but got: ", cpp_name(a.dtype()),
         " != ", cpp_name(b.dtype()), ". Convert one of them, as in x.to(torch.",
         name(promote(a.dtype(), b.dtype())), ").");
  check_multiplies("addmm_impl_cpu_", a.dtype());
}

void check_batches(const Var& a, const Var& b) {
  check(a.dim() == 3, "batch1 must be a 3D tensor, but got shape ", a.sizes());
  check(b.dim() == 3, "batch2 must be a 3D tensor, but got shape ", b.sizes());
  check(a.size(0) == b.size(0) && a.size(2) == b.size(1),
        "Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ",
        a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
  check(a.dtype() == b.dtype(), "expected scalar type ", info(a.dtype()).tensor_name, " but found ",
        info(b.dtype()).tensor_name);
  check_multiplies("bmm", a.dtype());
}

void multiply(Factor a, Factor b, Tensor* into, double alpha, double beta) {
  int64_t m = a.rows(), n = b.cols(), k = a.cols();
  Launch launch(work_of(m, n, k), {a.t, b.t, into});
  on(into).gemm(into->dtype, m, n, k, alpha, a.ref(), b.ref(), beta, into->data(), n);
}

void multiply_with_bias(Factor a, Factor b, const Var& bias, Tensor* into) {
  int64_t m = a.rows(), n = b.cols(), k = a.cols();
  Launch launch(work_of(m, n, k), {a.t, b.t, bias.get(), into});
  on(bias).gemm_with_bias(into->dtype, m, n, k, a.ref(), b.ref(), bias->data(), into->data());
}

Var product(Factor a, Factor b, double alpha, bool columns) {
  if (columns) {
    Var turned = product(b.flipped(), a.flipped(), alpha);
    return alias(turned.get(), {a.rows(), b.cols()}, {1, a.rows()}, 0);
  }
  Var out = empty({a.rows(), b.cols()}, a.t->dtype, a.t->device());
  multiply(a, b, out.get(), alpha);
  return out;
}

void multiply_batched(Factor a, Factor b, const Ints& batch, Tensor* into, double alpha,
                      double beta) {
  int count = batch.size();
  check(count <= kernel::kMaxBatchDims, "matmul: tensors of more than ", kernel::kMaxBatchDims + 2,
        " dimensions are not supported");
  int64_t m = a.rows(), n = b.cols(), k = a.cols();
  Launch launch(work_of(m, n, k) * double(element_count(batch)), {a.t, b.t, into});
  if (count == 1 && into->dim() == 3 && a.t->dim() == 3 && b.t->dim() == 3 &&
      a.t->sizes[0] == batch[0] && b.t->sizes[0] == batch[0] && into->sizes[0] == batch[0]) {
    on(into).gemm_batched(into->dtype, batch[0], m, n, k, alpha, a.ref(), a.t->strides[0], b.ref(),
                          b.t->strides[0], beta, into->data(), m * n, n);
    return;
  }
  kernel::BatchDim dims[kernel::kMaxBatchDims];
  auto stride = [&](const Tensor* t, int d) -> int64_t {
    int at = d - (count - (t->dim() - 2));
    return at < 0 || (t->sizes[at] == 1 && batch[d] != 1) ? 0 : t->strides[at];
  };
  for (int d = 0; d < count; d++) {
    int at = d - (count - (into->dim() - 2));
    bool summed = at < 0 || into->sizes[at] != batch[d];
    dims[d] = {batch[d], stride(a.t, d), stride(b.t, d), summed ? 0 : into->strides[at], summed};
  }
  on(into).gemm_nd(into->dtype, dims, count, m, n, k, alpha, a.ref(), b.ref(), beta, into->data(),
                   n);
}

void matrix_vjp(Back& back, int at, const In& a, const In& b, double alpha) {
  const Var& g = back.g();
  Var x, y;
  if (back.wants(at)) y = *b;
  if (back.wants(at + 1)) x = *a;
  if (back.create_graph() || alpha == 0) {  // kernels do not read what they multiply with 0
    if (y) back[at] = ops::mm(scaled(g, alpha), adjoint(y));
    if (x) back[at + 1] = ops::mm(adjoint(x), scaled(g, alpha));
    return;
  }
  if (y) back[at] = product({g.get()}, {conjugated(y).get(), true}, alpha, is_columns(x));
  if (x) back[at + 1] = product({conjugated(x).get(), true}, {g.get()}, alpha, is_columns(y));
}

namespace {

// a @ b summed to the sizes of an argument, laid out as `like`.
Var batched_gradient(Factor a, Factor b, const Ints& batch, Ints sizes, double alpha,
                     const Var& like) {
  bool half = compute_type(a.t->dtype) != a.t->dtype;
  if (half) sizes = batch;  // the engine sums in higher precision
  else sizes = batch_sizes(sizes);
  bool columns = is_columns(like);
  if (columns) {
    Factor left = a.flipped();
    a = b.flipped();
    b = left;
  }
  sizes.push_back(a.rows());
  sizes.push_back(b.cols());
  Var into = empty(sizes, a.t->dtype, a.t->device());
  multiply_batched(a, b, batch, into.get(), alpha);
  if (!columns) return into;
  Ints strides = into->strides;
  int last = sizes.size() - 1;
  std::swap(sizes[last], sizes[last - 1]);
  std::swap(strides[last], strides[last - 1]);
  return alias(into.get(), std::move(sizes), std::move(strides), 0);
}

}  // namespace

void batched_vjp(Back& back, int at, const In& a, const In& b, double alpha) {
  const Var& g = back.g();
  Var x, y;
  if (back.wants(at)) y = *b;
  if (back.wants(at + 1)) x = *a;
  if (back.create_graph() || alpha == 0) {
    if (y) back[at] = ops::matmul(scaled(g, alpha), adjoint(y));
    if (x) back[at + 1] = ops::matmul(adjoint(x), scaled(g, alpha));
    return;
  }
  Ints batch = batch_sizes(g.sizes());
  if (y)
    back[at] = batched_gradient({g.get()}, {conjugated(y).get(), true}, batch, a.sizes(), alpha, x);
  if (x)
    back[at + 1] =
        batched_gradient({conjugated(x).get(), true}, {g.get()}, batch, b.sizes(), alpha, y);
}

namespace {

// Matrix products of all samples: what is not batched broadcasts.
Var batched_product(const HiddenDims& hidden, const Var& a, const Var& b) {
  int rank = std::max(a.dim(), b.dim());
  auto operand = [&](const Var& v) {
    return batch_of(v.get()) ? hidden.front(v, rank - v.dim()) : v;
  };
  return ops::matmul(operand(a), operand(b));
}

struct Mm : Bilinear {
  static constexpr auto signature = "mm(Tensor input, Tensor mat2)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc = "mm(a, b): the product of two matrices.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "mat2|input";
  static Var forward(const Var& input, const Var& mat2) {
    check(input.dim() == 2, "self must be a matrix: mm() got a first argument of shape ",
          input.sizes());
    check(mat2.dim() == 2, "mat2 must be a matrix: mm() got a second argument of shape ",
          mat2.sizes());
    check_matrices(input, mat2);
    return product({input.get()}, {mat2.get()});
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& mat2) {
    return batched_product(hidden, input, mat2);
  }
  static void vjp(Back& b, const In& input, const In& mat2) { matrix_vjp(b, 0, input, mat2, 1); }
};
RL_OP(Mm)

struct Bmm : Bilinear {
  static constexpr auto signature = "bmm(Tensor input, Tensor mat2)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc = "bmm(a, b): the products of two batches of matrices, one by one.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "mat2|input";
  static Var forward(const Var& input, const Var& mat2) {
    check_batches(input, mat2);
    Var out = empty({input.size(0), input.size(1), mat2.size(2)}, input.dtype(), input.device());
    multiply_batched({input.get()}, {mat2.get()}, {input.size(0)}, out.get());
    return out;
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& mat2) {
    return batched_product(hidden, input, mat2);
  }
  static void vjp(Back& b, const In& input, const In& mat2) { batched_vjp(b, 0, input, mat2, 1); }
};
RL_OP(Bmm)

// bmm for any number of batch dimensions, which broadcast.
struct BroadcastBmm : Bilinear {
  static constexpr auto signature = "_broadcast_bmm(Tensor input, Tensor mat2)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto grad_name = "BmmBackward0";
  static constexpr auto doc = "_broadcast_bmm(a, b): the products of batches that broadcast.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "mat2|input";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& mat2) {
    check(input.dim() >= 2 && mat2.dim() >= 2, "matmul: expected matrices, got shapes ",
          input.sizes(), " and ", mat2.sizes());
    Ints batch = broadcast(batch_sizes(input.sizes()), batch_sizes(mat2.sizes()));
    if (input.size(-1) != mat2.size(-2)) {
      int64_t count = element_count(batch);
      fail("Expected size for first two dimensions of batch2 tensor to be: [", count, ", ",
           input.size(-1), "] but got: [", count, ", ", mat2.size(-2), "]. (matmul of shapes ",
           input.sizes(), " and ", mat2.sizes(), ")");
    }
    check(input.dtype() == mat2.dtype(), "expected scalar type ", info(input.dtype()).tensor_name,
          " but found ", info(mat2.dtype()).tensor_name);
    check_multiplies("bmm", input.dtype());
    Ints sizes = batch;
    sizes.push_back(input.size(-2));
    sizes.push_back(mat2.size(-1));
    Var out = empty(sizes, input.dtype(), input.device());
    multiply_batched({input.get()}, {mat2.get()}, batch, out.get());
    return out;
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& mat2) {
    return batched_product(hidden, input, mat2);
  }
  static void vjp(Back& b, const In& input, const In& mat2) { batched_vjp(b, 0, input, mat2, 1); }
};
RL_OP(BroadcastBmm)

struct Mv : Bilinear {
  static constexpr Autocast autocast = Autocast::LowerOnCuda;
  static constexpr auto signature = "mv(Tensor input, Tensor vec)";
  static constexpr auto doc = "mv(a, x): the product of a matrix and a vector.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "vec|input";
  static Var forward(const Var& input, const Var& vec) {
    check(input.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got 1, ",
          input.dim(), ", ", vec.dim());
    int64_t m = input.size(0), k = input.size(1);
    check(k == vec.size(0), "size mismatch, got input (", m, "), mat (", m, "x", k, "), vec (",
          vec.size(0), ")");
    check(input.dtype() == vec.dtype(), "addmv input tensors must have the same dtype, but got ",
          info(vec.dtype()).tensor_name, ", ", info(input.dtype()).tensor_name, ", and ",
          info(vec.dtype()).tensor_name);
    check_multiplies("addmv_impl_cpu", vec.dtype());
    Var out = empty({m}, input.dtype(), input.device());
    Launch launch(work_of(m, 1, k), {input.get(), vec.get(), out.get()});
    kernel::MatrixRef column{vec->data(), vec->strides[0], 1};
    on(out).gemm(out->dtype, m, 1, k, 1, Factor{input.get()}.ref(), column, 0, out->data(), 1);
    return out;
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& vec) {
    if (!batch_of(input.get())) return ops::matmul(hidden.front(vec), ops::transpose(input, 0, 1));
    if (!batch_of(vec.get())) return ops::matmul(hidden.front(input), vec);
    Var columns = ops::unsqueeze(hidden.front(vec), -1);
    Var product = ops::matmul(hidden.front_if(input), columns);
    return ops::select(product, -1, 0);
  }
  static void vjp(Back& b, const In& input, const In& vec) {
    if (b.wants(0)) b[0] = ops::unsqueeze(b.g(), 1) * conjugated(*vec);
    if (b.wants(1)) b[1] = call<Mv>(adjoint(*input), b.g());
  }
};
RL_OP(Mv)

Var dot_product(const Var& a, const Var& b, const char* op) {
  check(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(),
        "D tensors");
  check(a.dtype() == b.dtype(), op, " : expected both vectors to have same dtype, but found ",
        info(a.dtype()).tensor_name, " and ", info(b.dtype()).tensor_name);
  check(a.numel() == b.numel(), "inconsistent tensor size, expected tensor ", a.sizes(),
        " and src ", b.sizes(), " to have the same number of elements, but got ", a.numel(),
        " and ", b.numel(), " elements respectively");
  check_multiplies(op, a.dtype());
  Var out = empty({}, a.dtype(), a.device());
  Launch launch(double(a.numel()), {a.get(), b.get(), out.get()});
  on(a).dot(a.dtype(), a.numel(), a->data(), a->strides[0], b->data(), b->strides[0], out->data());
  return out;
}

struct Dot : Bilinear {
  static constexpr Autocast autocast = Autocast::WidestOnCuda;
  static constexpr auto signature = "dot(Tensor input, Tensor tensor)";
  static constexpr auto doc = "dot(a, b): the sum of a * b over two vectors.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "tensor|input";
  static Var forward(const Var& input, const Var& tensor) {
    return dot_product(input, tensor, "dot");
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& tensor) {
    return ops::sum(hidden.front(input) * hidden.front(tensor), {-1}, false);
  }
  static void vjp(Back& b, const In& input, const In& tensor) {
    if (b.wants(0)) b[0] = b.g() * conjugated(*tensor);
    if (b.wants(1)) b[1] = b.g() * conjugated(*input);
  }
};
RL_OP(Dot)

struct Vdot : Bilinear {
  static constexpr Autocast autocast = Autocast::WidestOnCuda;
  static constexpr auto signature = "vdot(Tensor input, Tensor other)";
  static constexpr auto doc = "vdot(a, b): the sum of conj(a) * b over two vectors.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "other|input";
  static Var forward(const Var& input, const Var& other) {
    return dot_product(conjugated(input), other, "vdot");
  }
  static void vjp(Back& b, const In& input, const In& other) {
    if (b.wants(0)) b[0] = conjugated(b.g()) * *other;
    if (b.wants(1)) b[1] = b.g() * *input;
  }
};
RL_OP(Vdot)

// A result under another shape: nobody else holds its memory, so it is not a view.
struct UnsafeView : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_unsafe_view(Tensor input, int[] size)";
  static constexpr auto doc = "_unsafe_view(x, size): x, which is row-major, with another shape.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size) {
    check(input->contiguous && element_count(size) == input.numel(), "shape '", size,
          "' is invalid for input of size ", input.numel());
    return alias(input.get(), Ints(size), contiguous_strides(size), input->offset);
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Ints& size) {
    return ops::reshape(hidden.front(input), hidden.prefixed(size));
  }
  static void vjp(Back& b, const In& input, const Ints&) {
    b[0] = ops::reshape(b.g(), input.sizes());
  }
};
RL_OP(UnsafeView)

// vec @ mat as torch has it: one row, its dimension taken away again.
struct SqueezeRow : UnsafeView {
  static constexpr auto signature = "_squeeze_row(Tensor input, int[] size)";
  static constexpr auto grad_name = "SqueezeBackward4";
  static constexpr auto doc = "_squeeze_row(x, size): x, one row, as a vector.";
};
RL_OP(SqueezeRow)

// A tensor of n dimensions times a matrix or a vector: all leading dimensions are rows.
Var fold_matmul(const Var& a, const Var& b) {
  int64_t k = a.size(-1), rows = 1;
  Ints sizes(a.sizes().data(), a.dim() - 1);
  for (int64_t s : sizes) rows *= s;
  Var flat = ops::reshape(a, {rows, k});
  Var out;
  if (b.dim() == 1) {
    out = call<Mv>(flat, b);
  } else {
    out = ops::mm(flat, b);
    sizes.push_back(b.size(1));
  }
  return call<UnsafeView>(out, sizes);
}

struct Matmul : Composite {
  static constexpr auto signature = "matmul(Tensor input, Tensor other)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc =
      "matmul(a, b): the matrix product, as the operator @ gives it; leading dimensions are "
      "batches and broadcast.";
  static constexpr Family family = Family::Contraction;
  static Var forward(const Var& input, const Var& other) { return ops::matmul(input, other); }
};
RL_OP(Matmul)

}  // namespace

namespace ops {

Var mm(const Var& a, const Var& b) { return call<Mm>(a, b); }
Var bmm(const Var& a, const Var& b) { return call<Bmm>(a, b); }
Var dot(const Var& a, const Var& b) { return call<Dot>(a, b); }

Var matmul(const Var& a, const Var& b) {
  int m = a.dim(), n = b.dim();
  if (m == 2 && n == 2) return mm(a, b);
  check(m > 0 && n > 0, "both arguments to matmul need to be at least 1D, but they are ", m,
        "D and ", n, "D");
  if (m == 1 && n == 1) return dot(a, b);
  if (n == 1) return m == 2 ? call<Mv>(a, b) : fold_matmul(a, b);
  if (m == 1 && n == 2) return call<SqueezeRow>(mm(unsqueeze(a, 0), b), Ints{b.size(1)});
  if (n == 2) return fold_matmul(a, b);
  Var out = call<BroadcastBmm>(m == 1 ? unsqueeze(a, 0) : a, b);
  Ints sizes = out.sizes();
  if (m == 1) sizes.erase(sizes.size() - 2);
  return call<UnsafeView>(out, sizes);
}

}  // namespace ops
}  // namespace rl
