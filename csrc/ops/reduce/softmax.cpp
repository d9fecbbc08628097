// Softmax and its logarithm.
#include "call/around.h"
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

using Forward = decltype(&kernel::Table::softmax);
using Backward = decltype(&kernel::Table::softmax_backward);

Var run_forward(Forward run, const char* name, const Var& input, int64_t dim) {
  int64_t d = wrap_dim(dim, input.dim());
  if (!is_floating(input.dtype()))
    fail_as(PyExc_NotImplementedError, "\"", name, d + 1 >= input.dim() ? "_lastdim" : "",
            "_kernel_impl\" not implemented for '", info(input.dtype()).tensor_name,
            "' (give dtype= to convert)");
  Var x = ops::contiguous(input), y = empty(x.sizes(), x.dtype(), x.device());
  if (x.numel() == 0) return y;
  Around at(x.sizes(), d);
  Launch launch(double(x.numel()) * 4, {x.get(), y.get()});
  (on(x).*run)(x.dtype(), x->data(), y->data(), at.outer, at.n, at.inner);
  return y;
}

Var run_backward(Backward run, const Var& gradient, const Var& out, int64_t dim) {
  Var g = ops::contiguous(gradient), y = ops::contiguous(out),
      gx = empty(y.sizes(), y.dtype(), y.device());
  if (y.numel() == 0) return gx;
  Around at(y.sizes(), wrap_dim(dim, y.dim()));
  Launch launch(double(y.numel()) * 2, {g.get(), y.get(), gx.get()});
  (on(y).*run)(y.dtype(), g->data(), y->data(), gx->data(), at.outer, at.n, at.inner);
  return gx;
}

struct SoftmaxOf : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "_softmax(Tensor input, int dim)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_softmax(x, dim): exp(x) / sum(exp(x)) along a dimension.";
  static constexpr auto saves = "out";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim) {
    return run_forward(&kernel::Table::softmax, "softmax", input, dim);
  }
  static void vjp(Back& b, const In&, int64_t dim) {
    Var y = b.out();
    if (!b.create_graph()) {
      b[0] = run_backward(&kernel::Table::softmax_backward, b.g(), y, dim);
      return;
    }
    Var weighted = b.g() * y;
    b[0] = weighted - y * ops::sum(weighted, {dim}, true);
  }
  static void jvp(Push& p, const Var&, int64_t dim) {
    p[0] = p.out() * (p.t(0) - ops::sum(p.out() * p.t(0), {dim}, true));
  }
};
RL_OP(SoftmaxOf)

struct LogSoftmaxOf : General {
  static constexpr Autocast autocast = Autocast::FullOnCuda;
  static constexpr auto signature = "_log_softmax(Tensor input, int dim)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "_log_softmax(x, dim): x - log(sum(exp(x))) along a dimension.";
  static constexpr auto saves = "out";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim) {
    return run_forward(&kernel::Table::log_softmax, "log_softmax", input, dim);
  }
  static void vjp(Back& b, const In&, int64_t dim) {
    Var y = b.out();
    if (!b.create_graph()) {
      b[0] = run_backward(&kernel::Table::log_softmax_backward, b.g(), y, dim);
      return;
    }
    b[0] = b.g() - math::exp(y) * ops::sum(b.g(), {dim}, true);
  }
  static void jvp(Push& p, const Var&, int64_t dim) {
    p[0] = p.t(0) - ops::sum(math::exp(p.out()) * p.t(0), {dim}, true);
  }
};
RL_OP(LogSoftmaxOf)

Var in_dtype(const Var& x, const std::optional<DType>& dtype) {
  return dtype ? ops::to(x, *dtype) : x;
}

// The dimension that F.softmax takes when none is given.
int64_t implicit_dim(const char* function, int ndim) {
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "Implicit dimension choice for %s has been deprecated. Change the call to "
                       "include dim=X as an argument.",
                       function) < 0)
    throw PythonError{};
  return ndim == 0 || ndim == 1 || ndim == 3 ? 0 : 1;
}

// One function as torch, a Tensor method, torch.special and torch.nn.functional have it.
#define RL_SOFTMAX(Name, function, formula, compute)                                         \
  struct Name : Composite {                                                                  \
    static constexpr auto signature = function "(Tensor input, int dim, dtype? dtype=None)"; \
    static constexpr auto doc = function "(x, dim): " formula " along a dimension.";         \
    static constexpr Family family = Family::Softmax;                                        \
    static Var forward(const Var& input, int64_t dim, std::optional<DType> dtype) {          \
      return compute(in_dtype(input, dtype), dim);                                           \
    }                                                                                        \
  };                                                                                         \
  RL_OP(Name)                                                                                \
  struct Name##Special : Name {                                                              \
    static constexpr auto module = "special";                                                \
  };                                                                                         \
  RL_OP(Name##Special)                                                                       \
  RL_SOFTMAX_FUNCTIONAL(Name##Functional, function, formula, compute)

#define RL_SOFTMAX_FUNCTIONAL(Name, function, formula, compute)                         \
  struct Name : Composite {                                                             \
    static constexpr auto signature =                                                   \
        function "(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None)"; \
    static constexpr auto doc = function "(x, dim): " formula " along a dimension.";    \
    static constexpr auto module = "nn.functional";                                     \
    static constexpr Family family = Family::Softmax;                                   \
    static constexpr bool out = false;                                                  \
    static Var forward(const Var& input, std::optional<int64_t> dim, int64_t,           \
                       std::optional<DType> dtype) {                                    \
      int64_t d = dim ? *dim : implicit_dim(function, input.dim());                     \
      return compute(in_dtype(input, dtype), d);                                        \
    }                                                                                   \
  };                                                                                    \
  RL_OP(Name)

Var softmin(const Var& x, int64_t dim) { return ops::softmax(ops::neg(x), dim); }

RL_SOFTMAX(Softmax, "softmax", "exp(x) / sum(exp(x))", ops::softmax)
RL_SOFTMAX(LogSoftmax, "log_softmax", "x - log(sum(exp(x)))", ops::log_softmax)
RL_SOFTMAX_FUNCTIONAL(Softmin, "softmin", "softmax of -x", softmin)

}  // namespace

namespace ops {

Var softmax(const Var& a, int64_t dim) { return call<SoftmaxOf>(a, dim); }
Var log_softmax(const Var& a, int64_t dim) { return call<LogSoftmaxOf>(a, dim); }

}  // namespace ops
}  // namespace rl
