// Gamma, Poisson, binomial and Dirichlet numbers. Samples of gamma and Dirichlet distributions are
// differentiable: at a fixed value u of the distribution function F(x, a) = u, the sample x moves
// with the parameter by dx/da = -F_a / f (implicit reparameterisation; Figurnov et al., 2018).
#include "kernels/cpu/variates.h"

#include "call/op.h"
#include "call/pointwise.h"
#include "call/recording.h"
#include "ops/random/random.h"

namespace rl {

using namespace math;

namespace {

// The hidden dimensions of the arguments and those of levels whose samples differ.
template <class... V>
HiddenDims drawn_levels(const V&... in) {
  if (vmap_levels.empty()) return {};
  HiddenDims hidden = random_levels();
  (hidden.add(in), ...);
  return hidden;
}

// Calls fill(source, dtype, data) for a new tensor of these sizes. Halves are drawn as float32.
template <class Fill>
Var draw(const char* op, const Ints& sizes, DType dtype, Device device, Generator* generator,
         const Fill& fill) {
  if (recording) refuse_recording(op);
  DType computed = dtype == DType::F64 ? DType::F64 : DType::F32;
  Var v = empty(sizes, computed, device);
  generator = generator_on(device, generator);
  if (v.numel() && has_data(v.get())) {
    Stream stream(generator, (v.numel() + cpu::kVariates - 1) / cpu::kVariates);
    fill(kernel::UniformSource{generator->mersenne, stream.seed, stream.offset}, computed,
         v->data());
  }
  return ops::to(v, dtype);
}

// As the kernels read it.
Var operand(const Var& v, DType dtype) {
  return ops::contiguous(ops::to(v, dtype == DType::F64 ? DType::F64 : DType::F32));
}

void check_floating(const char* kernel, const Var& v) {
  if (!is_floating(v.dtype()))
    fail_as(PyExc_NotImplementedError, "\"", kernel, "\" not implemented for '",
            info(v.dtype()).tensor_name, "'");
}

struct Variates : General {
  static constexpr bool sees_batches = true;
  static constexpr Family family = Family::Random;
  static constexpr bool method = false;
};

void zero(Back& b, int i, const In& v) {
  if (b.wants(i)) b[i] = ops::zeros(v.sizes(), v.dtype(), v.device());
}

struct Poisson : Variates {
  static constexpr auto signature = "poisson(Tensor input, Generator? generator=None)";
  static constexpr auto doc = "poisson(rate): numbers of events, each from its own rate.";
  static Var forward(const Var& input, Generator* generator) {
    check_floating("poisson_cpu", input);
    if (HiddenDims hidden = drawn_levels(input))
      return hidden.hide(sampled(hidden.front(input), generator));
    return sampled(input, generator);
  }
  static Var sampled(const Var& input, Generator* generator) {
    Var rate = operand(input, input.dtype());
    if (has_data(rate.get())) {
      Var checked = ops::contiguous(ops::to(rate, DType::F64, kHost));
      const double* r = checked->host<double>();
      for (int64_t i = 0; i < rate.numel(); i++)
        check(r[i] >= 0, "poisson: invalid Poisson rate, expected rate to be non-negative, got ",
              r[i]);
    }
    return draw("poisson", input.sizes(), input.dtype(), input.device(), generator,
                [&](const kernel::UniformSource& s, DType d, void* out) {
                  on(rate).fill_poisson(s, d, rate->data(), out, rate.numel());
                });
  }
  static void vjp(Back& b, const In& input, Generator*) { zero(b, 0, input); }
  static void jvp(Push&, const Var&, Generator*) {}
};
RL_OP(Poisson)

struct Binomial : Variates {
  static constexpr auto signature =
      "binomial(Tensor count, Tensor prob, Generator? generator=None)";
  static constexpr auto doc =
      "binomial(count, prob): numbers of successes in count trials of probability prob.";
  static Var forward(const Var& count, const Var& prob, Generator* generator) {
    check_floating("binomial_cpu", count);
    check(count.dtype() == prob.dtype(), "binomial: Found dtype ", info(prob.dtype()).tensor_name,
          " but expected ", info(count.dtype()).tensor_name,
          ": count and prob must have the same dtype");
    Ints sizes = broadcast(count.sizes(), prob.sizes());
    Var n = ops::expand(count, sizes), p = ops::expand(prob, sizes);
    if (HiddenDims hidden = drawn_levels(count, prob))
      return hidden.hide(sampled(hidden.front(n), hidden.front(p), generator));
    return sampled(n, p, generator);
  }
  static Var sampled(const Var& count, const Var& prob, Generator* generator) {
    Var n = operand(count, count.dtype()), p = operand(prob, prob.dtype());
    return draw("binomial", count.sizes(), count.dtype(), count.device(), generator,
                [&](const kernel::UniformSource& s, DType d, void* out) {
                  on(n).fill_binomial(s, d, n->data(), p->data(), out, n.numel());
                });
  }
  static void vjp(Back& b, const In& count, const In& prob, Generator*) {
    zero(b, 0, count);
    zero(b, 1, prob);
  }
  static void jvp(Push&, const Var&, const Var&, Generator*) {}
};
RL_OP(Binomial)

Var polygamma(int order, const Var& x) {
  if (order == 0) return call_pointwise("digamma", {x});
  double n = order;
  return run_pointwise(find_pointwise("polygamma"), &x, &n);
}

// polygamma(m, v) for m < count, as the kernels of slopes read them.
struct Psi {
  Vars values;
  std::vector<const double*> data;
  Psi(const Var& v, int count) {
    for (int m = 0; m < count; m++) {
      values.push_back(ops::contiguous(polygamma(m, v)));
      data.push_back(values.back()->data<double>());
    }
  }
};

Var as_double(const Var& v, const Ints& sizes) {
  return ops::contiguous(ops::expand(ops::to(v, DType::F64), sizes));
}

void check_order(int64_t order) {
  check(order <= cpu::kSlopeOrder, "derivatives of samples are there up to order ",
        cpu::kSlopeOrder);
}

// (d/da)^order F / f for the distribution function F and the density f of Gamma(a, 1) at x.
struct GammaSlope : General {
  static constexpr auto signature = "_gamma_slope(Tensor a, Tensor x, int order)";
  static constexpr auto grad_name = "StandardGammaGradBackward0";
  static constexpr auto saves = "a x out";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr bool function = false, method = false;
  static Var forward(const Var& a, const Var& x, int64_t order) {
    check_order(order);
    Ints sizes = broadcast(a.sizes(), x.sizes());
    Var y = empty(sizes, DType::F64, a.device());
    if (has_data(y.get()) && y.numel()) {
      Var shape = as_double(a, sizes), at = as_double(x, sizes);
      Psi psi(shape, int(order));
      on(shape).gamma_slope(int(order), shape->data<double>(), at->data<double>(), psi.data.data(),
                            y->data<double>(), y.numel());
    }
    return ops::to(y, a.dtype());
  }
  static Var by_a(const Var& a, const Var& x, const Var& out, int64_t order) {
    return call<GammaSlope>(a, x, order + 1) - out * (log(x) - polygamma(0, a));
  }
  static Var by_x(const Var& a, const Var& x, const Var& out, int64_t order) {
    Var along = log(x) - polygamma(0, a);
    Var ratio = cpu::density_ratio<Var>(
        int(order), 0, [&](int p, int) { return p == 1 ? along : -polygamma(p - 1, a); });
    return ratio - out * ((a - Var(1)) / x - Var(1));
  }
  static void vjp(Back& b, const In& a, const In& x, int64_t order) {
    if (b.wants(0)) b[0] = b.g() * by_a(*a, *x, b.out(), order);
    if (b.wants(1)) b[1] = b.g() * by_x(*a, *x, b.out(), order);
  }
  static void jvp(Push& p, const Var& a, const Var& x, int64_t order) {
    if (p.t(0)) p.add(p.t(0) * by_a(a, x, p.out(), order));
    if (p.t(1)) p.add(p.t(1) * by_x(a, x, p.out(), order));
  }
};
RL_OP(GammaSlope)

Var gamma_grad(const Var& shape, const Var& sample) { return -call<GammaSlope>(shape, sample, 1); }

struct StandardGammaGrad : Composite {
  static constexpr auto signature = "_standard_gamma_grad(Tensor input, Tensor output)";
  static constexpr auto doc =
      "_standard_gamma_grad(a, x): how a sample x of Gamma(a, 1) moves with a.";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& output) { return gamma_grad(input, output); }
};
RL_OP(StandardGammaGrad)

struct StandardGamma : Variates {
  static constexpr auto signature = "_standard_gamma(Tensor input, Generator? generator=None)";
  static constexpr auto doc = "_standard_gamma(a): numbers from Gamma(a, 1), differentiable in a.";
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, Generator* generator) {
    check_floating("gamma_cpu", input);
    if (HiddenDims hidden = drawn_levels(input))
      return hidden.hide(sampled(hidden.front(input), generator));
    return sampled(input, generator);
  }
  static Var sampled(const Var& input, Generator* generator) {
    Var shape = operand(input, input.dtype());
    return draw("_standard_gamma", input.sizes(), input.dtype(), input.device(), generator,
                [&](const kernel::UniformSource& s, DType d, void* out) {
                  on(shape).fill_gamma(s, d, shape->data(), out, shape.numel());
                });
  }
  static void vjp(Back& b, const In& input, Generator*) {
    b[0] = b.g() * gamma_grad(*input, b.out());
  }
  static void jvp(Push& p, const Var& input, Generator*) {
    p[0] = p.t(0) * gamma_grad(input, p.out());
  }
};
RL_OP(StandardGamma)

// (d/da)^j (d/db)^k F / f for the distribution function F and the density f of Beta(a, b) at x.
struct BetaSlope : General {
  static constexpr auto signature = "_beta_slope(Tensor x, Tensor a, Tensor b, int j, int k)";
  static constexpr auto grad_name = "DirichletGradBackward0";
  static constexpr auto saves = "x a b out";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr bool function = false, method = false;
  static Var forward(const Var& x, const Var& a, const Var& b, int64_t j, int64_t k) {
    check_order(j + k);
    Ints sizes = broadcast(x.sizes(), broadcast(a.sizes(), b.sizes()));
    Var y = empty(sizes, DType::F64, x.device());
    if (has_data(y.get()) && y.numel()) {
      Var at = as_double(x, sizes), first = as_double(a, sizes), second = as_double(b, sizes);
      int order = int(j + k);
      Psi of_a(first, order), of_b(second, order), of_sum(first + second, order);
      on(at).beta_slope(int(j), int(k), at->data<double>(), first->data<double>(),
                        second->data<double>(), of_a.data.data(), of_b.data.data(),
                        of_sum.data.data(), y->data<double>(), y.numel());
    }
    return ops::to(y, x.dtype());
  }
  static Var by_x(const Var& x, const Var& a, const Var& b, const Var& out, int64_t j, int64_t k) {
    Var rest = Var(1) - x, log_x = log(x), log_rest = log(rest);
    Var ratio = cpu::density_ratio<Var>(int(j), int(k), [&](int p, int q) {
      Var l = polygamma(p + q - 1, a + b);
      if (q == 0) l = l - polygamma(p - 1, a);
      if (p == 0) l = l - polygamma(q - 1, b);
      return p == 1 && q == 0 ? l + log_x : p == 0 && q == 1 ? l + log_rest : l;
    });
    return ratio - out * ((a - Var(1)) / x - (b - Var(1)) / rest);
  }
  static Var by_a(const Var& x, const Var& a, const Var& b, const Var& out, int64_t j, int64_t k) {
    return call<BetaSlope>(x, a, b, j + 1, k) -
           out * (log(x) - polygamma(0, a) + polygamma(0, a + b));
  }
  static Var by_b(const Var& x, const Var& a, const Var& b, const Var& out, int64_t j, int64_t k) {
    return call<BetaSlope>(x, a, b, j, k + 1) -
           out * (log(Var(1) - x) - polygamma(0, b) + polygamma(0, a + b));
  }
  static void vjp(Back& b, const In& x, const In& a, const In& c, int64_t j, int64_t k) {
    if (b.wants(0)) b[0] = b.g() * by_x(*x, *a, *c, b.out(), j, k);
    if (b.wants(1)) b[1] = b.g() * by_a(*x, *a, *c, b.out(), j, k);
    if (b.wants(2)) b[2] = b.g() * by_b(*x, *a, *c, b.out(), j, k);
  }
  static void jvp(Push& p, const Var& x, const Var& a, const Var& c, int64_t j, int64_t k) {
    if (p.t(0)) p.add(p.t(0) * by_x(x, a, c, p.out(), j, k));
    if (p.t(1)) p.add(p.t(1) * by_a(x, a, c, p.out(), j, k));
    if (p.t(2)) p.add(p.t(2) * by_b(x, a, c, p.out(), j, k));
  }
};
RL_OP(BetaSlope)

// A part x of a Dirichlet sample is a beta variate. With its own concentration it moves by
// (1 - x) times this, the other parts in proportion.
Var dirichlet_grad(const Var& x, const Var& alpha, const Var& total) {
  return call<BetaSlope>(x, alpha, total - alpha, 1, 0) / (x - Var(1));
}

struct DirichletGrad : Composite {
  static constexpr auto signature = "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total)";
  static constexpr auto doc =
      "_dirichlet_grad(x, alpha, total): how a part x of a Dirichlet sample moves with its "
      "concentration, over 1 - x.";
  static constexpr bool method = false;
  static Var forward(const Var& x, const Var& alpha, const Var& total) {
    return dirichlet_grad(x, alpha, total);
  }
};
RL_OP(DirichletGrad)

struct SampleDirichlet : Variates {
  static constexpr auto signature = "_sample_dirichlet(Tensor input, Generator? generator=None)";
  static constexpr auto doc =
      "_sample_dirichlet(alpha): rows that sum to one, from Dirichlet(alpha), differentiable in "
      "alpha.";
  static constexpr auto saves = "input out";
  static Var forward(const Var& input, Generator* generator) {
    check_floating("dirichlet", input);
    check(input.dim() > 0, "_sample_dirichlet: concentrations need a dimension, got a 0-d tensor");
    if (HiddenDims hidden = drawn_levels(input))
      return hidden.hide(sampled(hidden.front(input), generator));
    return sampled(input, generator);
  }
  static Var sampled(const Var& input, Generator* generator) {
    Var shape = operand(input, input.dtype());
    int64_t cols = input.size(-1);
    return draw("_sample_dirichlet", input.sizes(), input.dtype(), input.device(), generator,
                [&](const kernel::UniformSource& s, DType d, void* out) {
                  on(shape).fill_dirichlet(s, d, shape->data(), out, shape.numel() / cols, cols);
                });
  }
  // rate is a column for each concentration: the sample moves by rate * (e_i - x).
  static Var rate(const Var& alpha, const Var& x) {
    return dirichlet_grad(x, alpha, ops::expand(ops::sum(alpha, {-1}, true), alpha.sizes()));
  }
  static void vjp(Back& b, const In& input, Generator*) {
    Var x = b.out();
    b[0] = rate(*input, x) * (b.g() - ops::sum(x * b.g(), {-1}, true));
  }
  static void jvp(Push& p, const Var& input, Generator*) {
    Var x = p.out(), moved = p.t(0) * rate(input, x);
    p[0] = moved - x * ops::sum(moved, {-1}, true);
  }
};
RL_OP(SampleDirichlet)

}  // namespace
}  // namespace rl
