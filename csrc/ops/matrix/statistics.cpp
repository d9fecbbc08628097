// Covariances and correlations.
#include "call/broadcast.h"
#include "call/op.h"

namespace rl {

namespace {

// Whether its elements are at hand, and not those of a batch or of a recording.
bool is_readable(const Var& w) { return has_data(w.get()) && !batch_of(w.get()) && !recording; }

bool any_negative(const Var& w) {
  Plain plain;
  return ops::whole_number(ops::sum_all(w >= Var(0))) < w.numel();
}

void check_weights(const Var& w, const char* name, bool whole, int64_t count) {
  check(w.dim() <= 1, "cov(): expected ", name, " to have one or fewer dimensions but got ", name,
        " with ", w.dim(), " dimensions");
  check(whole ? is_integral(w.dtype()) && w.dtype() != DType::Bool : is_floating(w.dtype()),
        "cov(): expected ", name, " to have ", whole ? "integral" : "floating point",
        " dtype but got ", name, " with ", info(w.dtype()).tensor_name, " dtype");
  check(w.numel() == count, "cov(): expected ", name,
        " to have the same numel as there are "
        "observations in the input but got ",
        w.numel(), " != ", count);
  check(!is_readable(w) || !any_negative(w), "cov(): ", name, " cannot be negative");
}

Var covariance(const Var& input, int64_t correction, const Var& fweights, const Var& aweights) {
  check(input.dim() <= 2,
        "cov(): expected input to have two or fewer dimensions but got an input with ", input.dim(),
        " dimensions");
  check(input.dtype() != DType::Bool, "cov(): bool dtype is not supported for input");
  Var x = input.dim() < 2 ? ops::reshape(input, {1, -1}) : input;
  int64_t count = x.size(1);
  if (is_integral(x.dtype())) x = ops::to(x, default_dtype());
  Var w;
  if (fweights) {
    check_weights(fweights, "fweights", true, count);
    w = fweights;
  }
  if (aweights) {
    check_weights(aweights, "aweights", false, count);
    w = w ? w * aweights : aweights;
  }
  Var total = w ? ops::sum_all(w) : Var(double(count)), mean, norm;
  if (w) {
    check(!is_readable(w) || ops::number(ops::to(total, DType::F64)) != 0,
          "cov(): weights sum to zero, can't be normalized");
    mean = ops::sum(x * w, {1}, true) / total;
    norm = total - (aweights ? Var(double(correction)) * ops::sum_all(w * aweights) / total
                             : Var(double(correction)));
  } else {
    mean = ops::mean(x, {1}, true);
    norm = Var(double(count - correction));
  }
  norm = math::where(norm > Var(0), norm, Var(0));
  Var centred = x - mean, other = is_complex(x.dtype()) ? ops::conj(centred) : centred;
  Var products = ops::mm(w ? centred * w : centred, ops::transpose(other, 0, 1));
  return ops::reshape(products / norm, products.numel() == 1 ? Ints{} : products.sizes());
}

struct Cov : Composite {
  static constexpr auto signature =
      "cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)";
  static constexpr auto doc =
      "cov(x, correction, fweights, aweights): the covariances of the rows, which are variables.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t correction, const Var& fweights,
                     const Var& aweights) {
    return covariance(input, correction, fweights, aweights);
  }
};
RL_OP(Cov)

struct Corrcoef : Composite {
  static constexpr auto signature = "corrcoef(Tensor input)";
  static constexpr auto doc = "corrcoef(x): the correlations of the rows, which are variables.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dim() <= 2,
          "corrcoef(): expected input to have two or fewer dimensions but got an "
          "input with ",
          input.dim(), " dimensions");
    Var c = covariance(input, 1, {}, {});
    if (c.dim() == 0) return c / c;
    Var deviation = math::sqrt(ops::real(ops::diagonal(c, 0, 0, 1)));
    c = c / ops::unsqueeze(deviation, -1) / ops::unsqueeze(deviation, -2);
    if (!is_complex(c.dtype())) return bounded(c);
    return ops::view_as_complex(ops::stack({bounded(ops::real(c)), bounded(ops::imag(c))}, -1));
  }
  static Var bounded(const Var& x) {
    return math::where(x > Var(1), Var(1), math::where(x < Var(-1), Var(-1), x));
  }
};
RL_OP(Corrcoef)

}  // namespace
}  // namespace rl
