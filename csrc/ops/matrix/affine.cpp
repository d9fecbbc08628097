// A tensor plus a product: linear layers and the add... contractions.
#include "call/broadcast.h"
#include "kernels/kernels.h"
#include "ops/matrix/contraction.h"

namespace rl {

namespace {

void check_expands(const Var& input, const Ints& sizes) {
  if (can_expand(input.sizes(), sizes)) return;
  int lead = sizes.size() - input.dim();
  check(lead >= 0, "expand(", input.sizes(), ", size=", sizes, "): the number of sizes provided (",
        sizes.size(), ") must be greater or equal to the number of dimensions in the tensor (",
        input.dim(), ")");
  int at = sizes.size() - 1;
  while (input.size(at - lead) == 1 || input.size(at - lead) == sizes[at]) at--;
  fail("The expanded size of the tensor (", sizes[at], ") must match the existing size (",
       input.size(at - lead), ") at non-singleton dimension ", at, ".  Target sizes: ", sizes,
       ".  Tensor sizes: ", input.sizes());
}

// Where beta * input + a product is computed: input's values, unless beta is 0.
Var begin_with(const Var& input, const Ints& sizes, DType dtype, double beta) {
  check_expands(input, sizes);
  check(input.dtype() == dtype, "self and mat2 must have the same dtype, but got ",
        info(input.dtype()).tensor_name, " and ", info(dtype).tensor_name);
  Var out = empty(sizes, dtype, input.device());
  if (beta != 0) ops::copy_data(out.get(), input.get());
  return out;
}

// factor * x, of x's dtype.
Var times(const Var& x, double factor) {
  return factor == 1 ? x : x * ops::full({}, factor, x.dtype(), x.device());
}

// At alpha = 0 the factors count for nothing where BLAS computes; elsewhere, as in PyTorch, a NaN in
// them shows.
bool reads_factors(double alpha, DType d) { return alpha == 0 && compute_type(d) != d; }
Var with_nothing(const Var& input, const Var& product, double beta) {
  Var none = times(product, 0);
  return beta == 0 ? none : times(input, beta) + none;
}

// The tangent of beta * input + alpha * product(a, b).
template <class Product>
void push_affine(Push& p, const Var& a, const Var& b, double beta, double alpha,
                 const Product& product) {
  if (p.t(0)) p.add(times(p.t(0), beta));
  if (p.t(1)) p.add(times(product(p.t(1), b), alpha));
  if (p.t(2)) p.add(times(product(a, p.t(2)), alpha));
}

struct Addmm : General {
  static constexpr auto signature =
      "addmm(Tensor input, Tensor mat1, Tensor mat2, *, float beta=1, float alpha=1)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc = "addmm(c, a, b): beta * c + alpha * a @ b, for matrices a and b.";
  static constexpr auto former = "beta input alpha mat1 mat2;beta input mat1 mat2";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "|mat2|mat1";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& mat1, const Var& mat2, double beta,
                     double alpha) {
    check(mat1.dim() == 2, "mat1 must be a matrix, got ", mat1.dim(), "-D tensor");
    check(mat2.dim() == 2, "mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
    check_matrices(mat1, mat2);
    if (reads_factors(alpha, mat2.dtype()))
      return with_nothing(begin_with(input, {mat1.size(0), mat2.size(1)}, mat2.dtype(), 1),
                          ops::mm(mat1, mat2), beta);
    Var out = begin_with(input, {mat1.size(0), mat2.size(1)}, mat2.dtype(), beta);
    multiply({mat1.get()}, {mat2.get()}, out.get(), alpha, beta);
    return out;
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& mat1, const Var& mat2,
                     double beta, double alpha) {
    Var product = ops::matmul(hidden.front(mat1), hidden.front_if(mat2));
    return times(hidden.front(input, 2 - input.dim()), beta) + times(product, alpha);
  }
  static void vjp(Back& b, const In&, const In& mat1, const In& mat2, double beta, double alpha) {
    if (b.wants(0)) b[0] = times(b.g(), beta);
    matrix_vjp(b, 1, mat1, mat2, alpha);
  }
  static void jvp(Push& p, const Var&, const Var& mat1, const Var& mat2, double beta,
                  double alpha) {
    push_affine(p, mat1, mat2, beta, alpha, ops::mm);
  }
};
RL_OP(Addmm)

struct Baddbmm : General {
  static constexpr auto signature =
      "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, float beta=1, float alpha=1)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc = "baddbmm(c, a, b): beta * c + alpha * bmm(a, b).";
  static constexpr auto former = "beta input alpha batch1 batch2;beta input batch1 batch2";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "|batch2|batch1";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& batch1, const Var& batch2, double beta,
                     double alpha) {
    check_batches(batch1, batch2);
    Ints sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
    bool small = sizes[1] * sizes[2] * batch1.size(2) < 400;  // PyTorch does without BLAS there
    if (reads_factors(alpha, batch2.dtype()) || (alpha == 0 && small))
      return with_nothing(begin_with(input, sizes, batch2.dtype(), 1), ops::bmm(batch1, batch2),
                          beta);
    Var out = begin_with(input, sizes, batch2.dtype(), beta);
    multiply_batched({batch1.get()}, {batch2.get()}, {sizes[0]}, out.get(), alpha, beta);
    return out;
  }
  static void vjp(Back& b, const In&, const In& batch1, const In& batch2, double beta,
                  double alpha) {
    if (b.wants(0)) b[0] = times(b.g(), beta);
    batched_vjp(b, 1, batch1, batch2, alpha);
  }
  static void jvp(Push& p, const Var&, const Var& batch1, const Var& batch2, double beta,
                  double alpha) {
    push_affine(p, batch1, batch2, beta, alpha, ops::bmm);
  }
};
RL_OP(Baddbmm)

struct Addbmm : General {
  static constexpr auto signature =
      "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, float beta=1, float alpha=1)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc = "addbmm(c, a, b): beta * c + alpha * bmm(a, b).sum(0).";
  static constexpr auto former = "beta input alpha batch1 batch2;beta input batch1 batch2";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "|batch2|batch1";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& batch1, const Var& batch2, double beta,
                     double alpha) {
    check_batches(batch1, batch2);
    Ints sizes{batch1.size(1), batch2.size(2)};
    if (compute_type(batch1.dtype()) == batch1.dtype()) {
      Var out = begin_with(input, sizes, batch2.dtype(), beta);
      multiply_batched({batch1.get()}, {batch2.get()}, {batch1.size(0)}, out.get(), alpha, beta);
      return out;
    }
    if (alpha == 0)
      return with_nothing(begin_with(input, sizes, batch2.dtype(), 1),
                          ops::sum(ops::bmm(batch1, batch2), {0}, false), beta);
    // Halves are summed in float and rounded once.
    auto wide = [](const Var& x) { return ops::to(x, DType::F32); };
    return ops::to(forward(wide(input), wide(batch1), wide(batch2), beta, alpha), batch1.dtype());
  }
  static void vjp(Back& b, const In&, const In& batch1, const In& batch2, double beta,
                  double alpha) {
    const Var& g = b.g();
    if (b.wants(0)) b[0] = times(g, beta);
    Ints batch{batch1.size(0), g.size(0), g.size(1)};
    if (b.wants(1)) b[1] = times(ops::bmm(ops::expand(g, batch), adjoint(*batch2)), alpha);
    if (b.wants(2)) b[2] = times(ops::bmm(adjoint(*batch1), ops::expand(g, batch)), alpha);
  }
  static void jvp(Push& p, const Var&, const Var& batch1, const Var& batch2, double beta,
                  double alpha) {
    push_affine(p, batch1, batch2, beta, alpha,
                [](const Var& a, const Var& b) { return ops::sum(ops::bmm(a, b), {0}, false); });
  }
};
RL_OP(Addbmm)

struct Addmv : General {
  static constexpr auto signature =
      "addmv(Tensor input, Tensor mat, Tensor vec, *, float beta=1, float alpha=1)";
  static constexpr auto doc =
      "addmv(c, a, x): beta * c + alpha * a @ x, for a matrix and a vector.";
  static constexpr auto former = "beta input alpha mat vec;beta input mat vec";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "|vec|mat";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& mat, const Var& vec, double beta, double alpha) {
    check(mat.dim() == 2 && vec.dim() == 1 && input.dim() <= 1,
          "vector + matrix @ vector expected, got ", input.dim(), ", ", mat.dim(), ", ", vec.dim());
    check(mat.size(1) == vec.size(0) && can_expand(input.sizes(), {mat.size(0)}),
          "size mismatch, got input (", input.dim() ? input.size(0) : 1, "), mat (", mat.size(0),
          "x", mat.size(1), "), vec (", vec.size(0), ")");
    check(input.dtype() == mat.dtype() && mat.dtype() == vec.dtype(),
          "addmv input tensors must have the same dtype, but got ", info(input.dtype()).tensor_name,
          ", ", info(mat.dtype()).tensor_name, ", and ", info(vec.dtype()).tensor_name);
    check_multiplies("addmv_impl_cpu", vec.dtype());
    if (reads_factors(alpha, vec.dtype()) || (alpha == 0 && is_complex(vec.dtype())))
      return with_nothing(begin_with(input, {mat.size(0)}, vec.dtype(), 1), ops::matmul(mat, vec),
                          beta);
    Var out = begin_with(input, {mat.size(0)}, vec.dtype(), beta);
    Var column = alias(vec.get(), {vec.size(0), 1}, {vec->strides[0], 1}, vec->offset);
    multiply({mat.get()}, {column.get()}, out.get(), alpha, beta);
    return out;
  }
  static void vjp(Back& b, const In&, const In& mat, const In& vec, double beta, double alpha) {
    if (b.wants(0)) b[0] = times(b.g(), beta);
    Var g = times(b.g(), alpha);
    if (b.wants(1)) b[1] = ops::unsqueeze(g, 1) * math::conj(*vec);
    if (b.wants(2)) b[2] = ops::matmul(adjoint(*mat), g);
  }
  static void jvp(Push& p, const Var&, const Var& mat, const Var& vec, double beta, double alpha) {
    push_affine(p, mat, vec, beta, alpha, ops::matmul);
  }
};
RL_OP(Addmv)

struct Addr : General {
  static constexpr auto signature =
      "addr(Tensor input, Tensor vec1, Tensor vec2, *, float beta=1, float alpha=1)";
  static constexpr auto doc = "addr(c, x, y): beta * c + alpha * outer(x, y).";
  static constexpr auto former = "beta input alpha vec1 vec2;beta input vec1 vec2";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "|vec2|vec1";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& vec1, const Var& vec2, double beta,
                     double alpha) {
    check(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
    check(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
    Ints sizes{vec1.size(0), vec2.size(0)};
    check_expands(input, sizes);
    Var outer = times(ops::unsqueeze(vec1, 1) * vec2, alpha);
    if (beta == 0) return ops::to(outer, promote(outer.dtype(), input.dtype()));
    return times(input, beta) + outer;
  }
  static void vjp(Back& b, const In&, const In& vec1, const In& vec2, double beta, double alpha) {
    if (b.wants(0)) b[0] = times(b.g(), beta);
    Var g = times(b.g(), alpha);
    if (b.wants(1)) b[1] = ops::matmul(g, math::conj(ops::to(*vec2, g.dtype())));
    if (b.wants(2))
      b[2] = ops::matmul(ops::transpose(g, 0, 1), math::conj(ops::to(*vec1, g.dtype())));
  }
  static void jvp(Push& p, const Var&, const Var& vec1, const Var& vec2, double beta,
                  double alpha) {
    push_affine(p, vec1, vec2, beta, alpha,
                [](const Var& a, const Var& b) { return ops::unsqueeze(a, 1) * b; });
  }
};
RL_OP(Addr)

int64_t row_count(const Var& x) {
  int64_t rows = 1;
  for (int i = 0; i < x.dim() - 1; i++) rows *= x.size(i);
  return rows;
}

// All leading dimensions as one, recorded or not.
Var flatten_rows(const Var& x) { return ops::reshape(x, {row_count(x), x.size(-1)}); }
Var as_rows(const Var& x) {
  if (x.dim() == 2) return x;
  Var dense = ops::contiguous(x);
  return alias(dense.get(), {row_count(x), x.size(-1)}, {x.size(-1), 1}, dense->offset);
}

enum LinearNode { kAddmm, kMm, kView, kUnsafeView, kSqueeze };

// x @ weight^T + bias in one node, under the name that torch's last node has.
template <LinearNode Node>
struct LinearLayer : General {
  static constexpr const char* names[5] = {"AddmmBackward0", "MmBackward0", "ViewBackward0",
                                           "UnsafeViewBackward0", "SqueezeBackward4"};
  static constexpr auto signature = "linear(Tensor input, Tensor weight, Tensor? bias=None)";
  static constexpr auto grad_name = names[Node];
  static constexpr auto saves = "weight|input|";

  static Var forward(const Var& input, const Var& weight, const Var& bias) {
    Ints sizes = input.sizes();
    sizes[sizes.size() - 1] = weight.size(0);
    Var out = empty(sizes, input.dtype(), input.device()), rows = as_rows(input);
    Factor a{rows.get()}, b{weight.get(), true};
    if (bias) multiply_with_bias(a, b, ops::contiguous(bias), out.get());
    else multiply(a, b, out.get());
    return out;
  }

  // With weights of their own the samples' rows are multiplied apart.
  static Var batched(const HiddenDims& hidden, const Var& input, const Var& weight,
                     const Var& bias) {
    if (!batch_of(weight.get()) && !batch_of(bias.get()))
      return forward(hidden.front(input), weight, bias);
    Ints sizes = hidden.prefixed(input.sizes());
    sizes[sizes.size() - 1] = weight.size(0);
    Var rows =
        ops::reshape(hidden.front(input), hidden.prefixed({row_count(input), input.size(-1)}));
    Var product = ops::matmul(rows, ops::transpose(hidden.front_if(weight), -1, -2));
    return ops::reshape(bias ? product + hidden.front(bias, 1) : product, sizes);
  }

  static void vjp(Back& b, const In& input, const In& weight, const In& bias) {
    const Var& g = b.g();
    if (b.create_graph()) {
      if (b.wants(0)) b[0] = ops::matmul(g, math::conj(*weight));
      if (b.wants(1))
        b[1] = ops::mm(ops::transpose(flatten_rows(g), 0, 1), flatten_rows(math::conj(*input)));
      if (b.wants(2)) b[2] = g;
      return;
    }
    Var rows = as_rows(ops::contiguous(g));
    if (b.wants(0)) {
      Var gx = empty(input.sizes(), g.dtype(), g.device());
      multiply({rows.get()}, {math::conj(*weight).get()}, gx.get());
      b[0] = gx;
    }
    if (b.wants(1)) {
      Var x = as_rows(math::conj(*input));
      b[1] = product({rows.get(), true}, {x.get()});
    }
    if (b.wants(2)) {
      Var gb = empty(bias.sizes(), g.dtype(), g.device());
      Launch launch(double(g.numel()), {rows.get(), gb.get()});
      on(rows).sum(g.dtype(), g.dtype(), rows->data(), gb->data(), 1, rows.size(0), rows.size(1),
                   1);
      b[2] = gb;
    }
  }

  static void jvp(Push& p, const Var& input, const Var& weight, const Var&) {
    if (p.t(0)) p.add(call<LinearLayer>(p.t(0), weight, Var()));
    if (p.t(1)) p.add(call<LinearLayer>(input, p.t(1), Var()));
    if (p.t(2)) p.add(p.t(2));
  }
};

struct LinearOp : Composite {
  static constexpr auto signature = "linear(Tensor input, Tensor weight, Tensor? bias=None)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc =
      "linear(x, weight, bias): x @ weight.T + bias, over the last dimension.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Contraction;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight, const Var& bias) {
    int n = input.dim();
    check(n > 0 && weight.dim() > 0,
          "both arguments to linear need to be at least 1D, but they are ", n, "D and ",
          weight.dim(), "D");
    check(weight.dim() <= 2,
          "linear: weight: t() expects a tensor with <= 2 dimensions, but self "
          "is ",
          weight.dim(), "D");
    if (weight.dim() == 1) {
      check(!bias, "linear: mat2 must be a matrix, got 1-D tensor (a bias needs a 2-D weight)");
      return ops::matmul(input, weight);
    }
    check_operands(input, weight, bias);
    if (bias && !(bias.dim() == 1 && bias.size(0) == weight.size(0)))
      return ops::matmul(input, ops::transpose(weight, 0, 1)) + bias;
    if (bias) return n == 2 ? run<kAddmm>(input, weight, bias) : run<kView>(input, weight, bias);
    return n == 2   ? run<kMm>(input, weight, bias)
           : n == 1 ? run<kSqueeze>(input, weight, bias)
                    : run<kUnsafeView>(input, weight, bias);
  }
  template <LinearNode Node>
  static Var run(const Var& input, const Var& weight, const Var& bias) {
    return call<LinearLayer<Node>>(input, weight, bias);
  }
  static void check_operands(const Var& input, const Var& weight, const Var& bias) {
    if (input.size(-1) != weight.size(1))
      fail("mat1 and mat2 shapes cannot be multiplied (", row_count(input), "x", input.size(-1),
           " and ", weight.size(1), "x", weight.size(0), "): linear got input of shape ",
           input.sizes(), " and weight of shape ", weight.sizes());
    check(input.dtype() == weight.dtype(), "mat1 and mat2 must have the same dtype, but got ",
          info(input.dtype()).tensor_name, " and ", info(weight.dtype()).tensor_name,
          " (linear: input and weight)");
    check_multiplies("addmm_impl_cpu_", input.dtype());
    if (!bias) return;
    check(bias.dtype() == weight.dtype(), "self and mat2 must have the same dtype, but got ",
          info(bias.dtype()).tensor_name, " and ", info(weight.dtype()).tensor_name,
          " (linear: bias and weight)");
    Ints sizes = input.sizes();
    sizes[sizes.size() - 1] = weight.size(0);
    check_expands(bias, sizes);
  }
};
RL_OP(LinearOp)

#define RL_BILINEAR(Type, in_module)                                                               \
  struct Type : Composite {                                                                        \
    static constexpr auto signature =                                                              \
        "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None)";                \
    static constexpr auto doc =                                                                    \
        "bilinear(x, y, weight, bias): x^T weight[i] y + bias[i] for each i.";                     \
    static constexpr auto module = in_module;                                                      \
    static constexpr Family family = Family::Contraction;                                          \
    static constexpr bool method = false;                                                          \
    static constexpr bool out = false;                                                             \
    static Var forward(const Var& input1, const Var& input2, const Var& weight, const Var& bias) { \
      return bilinear(input1, input2, weight, bias);                                               \
    }                                                                                              \
  };                                                                                               \
  RL_OP(Type)

Var bilinear(const Var& x, const Var& y, const Var& weight, const Var& bias) {
  check(weight.dim() == 3, "bilinear(): weight must be 3-D, but got shape ", weight.sizes());
  check(x.dim() == y.dim() && x.dim() > 0, "bilinear(): input dimensions do not match: got ",
        x.dim(), " and ", y.dim());
  for (int i = 0; i < x.dim() - 1; i++)
    check(x.size(i) == y.size(i), "bilinear(): input batch dimensions do not match at dim ", i,
          ": got ", x.size(i), " and ", y.size(i));
  check(x.size(-1) == weight.size(1), "bilinear(): input1 size does not match weight size: got ",
        x.size(-1), " but expected ", weight.size(1));
  check(y.size(-1) == weight.size(2), "bilinear(): input2 size does not match weight size: got ",
        y.size(-1), " but expected ", weight.size(2));
  check(!bias || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
        "bilinear(): bias size does not match weight size: got ",
        bias && bias.dim() ? bias.size(0) : 0, " but expected ", weight.size(0));
  WithoutAutocast off;
  // Rows r, outputs o: sum over i of x[r, i] * (y[r] @ weight[o]^T)[i].
  int64_t rows = row_count(x), o = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  Ints sizes = x.sizes();
  sizes[sizes.size() - 1] = o;
  Var flat = ops::transpose(ops::reshape(weight, {o * in1, in2}), 0, 1);
  Var each = ops::reshape(ops::mm(ops::reshape(y, {rows, in2}), flat), {rows, o, in1});
  Var column = ops::reshape(x, {rows, in1, 1});
  Var out = ops::reshape(ops::bmm(each, column), sizes);
  return bias ? out + bias : out;
}
RL_BILINEAR(BilinearFunctional, "nn.functional")
RL_BILINEAR(BilinearTorch, "")

}  // namespace
}  // namespace rl
