#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 512;  // elements of a half type that are converted at a time

template <class C>
RL_INLINE C root(C x) {
  return std::sqrt(x);
}

// A running mean moved towards a value, from the end that is nearer: the larger part is exact.
template <class C>
struct Mean {
  C near, weight;  // near: positive when the mean is; compared as the lanes are, so that it is one
  explicit Mean(double w) : near(w < 0.5 ? C(1) : C(-1)), weight(C(w < 0.5 ? w : w - 1)) {}
  RL_INLINE C operator()(C mean, C value) const {
    return (near > C(0) ? mean : value) + weight * (value - mean);
  }
};

// The gradient with its sign and decay, which every rule starts from.
template <class C, Decay D>
struct Base {
  C sign, decay;
  explicit Base(const double* c) : sign(C(c[0])), decay(C(c[1])) {}

  RL_INLINE C gradient(C& p, C g) const {
    g = sign * g;
    if constexpr (D == Decay::Gradient) g = g + decay * p;
    if constexpr (D == Decay::Parameter) p = p * decay;
    return g;
  }
};

template <class C, Decay D, Momentum M>
struct Sgd : Base<C, D> {
  static constexpr int states = M == Momentum::None ? 0 : 1;
  C lr, momentum, rest;
  explicit Sgd(const double* c) : Base<C, D>(c), lr(C(c[2])), momentum(C(c[3])), rest(C(c[4])) {}

  RL_INLINE void update(C& p, C g, C& buffer, C&, C&) const {
    g = this->gradient(p, g);
    if constexpr (M == Momentum::First || M == Momentum::FirstNesterov) buffer = g;
    if constexpr (M == Momentum::Plain || M == Momentum::Nesterov)
      buffer = buffer * momentum + rest * g;
    if constexpr (M == Momentum::Plain) g = buffer;
    if constexpr (M == Momentum::Nesterov || M == Momentum::FirstNesterov)
      g = g + momentum * buffer;
    p = p - lr * g;
  }
};

// The averages of the gradient and of its square.
template <class C, Decay D>
struct Averages : Base<C, D> {
  Mean<C> mean;
  C beta2, rest2;
  explicit Averages(const double* c) : Base<C, D>(c), mean(c[2]), beta2(C(c[3])), rest2(C(c[4])) {}

  RL_INLINE C average(C& p, C g, C& m, C& v) const {
    g = this->gradient(p, g);
    m = mean(m, g);
    v = v * beta2 + rest2 * g * g;
    return g;
  }
};

template <class C, Decay D, bool Amsgrad>
struct Adam : Averages<C, D> {
  static constexpr int states = Amsgrad ? 3 : 2;
  C size, correction, eps;
  explicit Adam(const double* c)
      : Averages<C, D>(c), size(C(c[5])), correction(C(c[6])), eps(C(c[7])) {}

  RL_INLINE void update(C& p, C g, C& m, C& v, C& largest) const {
    this->average(p, g, m, v);
    C square = v;
    if constexpr (Amsgrad) {
      largest = largest > v || largest != largest ? largest : v;
      square = largest;
    }
    p = p - size * (m / (root(square) * correction + eps));
  }
};

template <class C, Decay D>
struct Nadam : Averages<C, D> {
  static constexpr int states = 2;
  C correction, eps, of_gradient, of_average;
  explicit Nadam(const double* c)
      : Averages<C, D>(c),
        correction(C(c[5])),
        eps(C(c[6])),
        of_gradient(C(c[7])),
        of_average(C(c[8])) {}

  RL_INLINE void update(C& p, C g, C& m, C& v, C&) const {
    g = this->average(p, g, m, v);
    C denominator = root(v * correction) + eps;
    p = p - of_gradient * (g / denominator);
    p = p - of_average * (m / denominator);
  }
};

template <class C, Decay D, bool Rectified>
struct Radam : Averages<C, D> {
  static constexpr int states = 2;
  C eps, size, rectification;
  explicit Radam(const double* c)
      : Averages<C, D>(c), eps(C(c[5])), size(C(c[6])), rectification(C(c[7])) {}

  RL_INLINE void update(C& p, C g, C& m, C& v, C&) const {
    this->average(p, g, m, v);
    C change = m * size;
    if constexpr (Rectified) change = change * (rectification / (root(v) + eps));
    p = p - change;
  }
};

template <class C, Decay D, bool Centered, bool HasMomentum>
struct Rmsprop : Base<C, D> {
  static constexpr int states = 1 + Centered + HasMomentum;
  C lr, alpha, rest;
  Mean<C> mean;
  C eps, momentum;
  explicit Rmsprop(const double* c)
      : Base<C, D>(c),
        lr(C(c[2])),
        alpha(C(c[3])),
        rest(C(c[4])),
        mean(c[4]),
        eps(C(c[5])),
        momentum(C(c[6])) {}

  RL_INLINE void update(C& p, C g, C& square, C& second, C& third) const {
    g = this->gradient(p, g);
    square = square * alpha + rest * g * g;
    C spread = square;
    if constexpr (Centered) {
      C& center = HasMomentum ? third : second;
      center = mean(center, g);
      spread = square - center * center;
    }
    C change = g / (root(spread) + eps);
    if constexpr (HasMomentum) {
      second = second * momentum + change;
      change = second;
    }
    p = p - lr * change;
  }
};

template <class C, Decay D>
struct Adagrad : Base<C, D> {
  static constexpr int states = 1;
  C size, eps;
  explicit Adagrad(const double* c) : Base<C, D>(c), size(C(c[2])), eps(C(c[3])) {}

  RL_INLINE void update(C& p, C g, C& sum, C&, C&) const {
    g = this->gradient(p, g);
    sum = sum + g * g;
    p = p - size * (g / (root(sum) + eps));
  }
};

template <class C, Decay D>
struct Adadelta : Base<C, D> {
  static constexpr int states = 2;
  C lr, rho, rest, eps;
  explicit Adadelta(const double* c)
      : Base<C, D>(c), lr(C(c[2])), rho(C(c[3])), rest(C(c[4])), eps(C(c[5])) {}

  RL_INLINE void update(C& p, C g, C& square, C& changes, C&) const {
    g = this->gradient(p, g);
    square = square * rho + rest * g * g;
    C change = root(changes + eps) / root(square + eps) * g;
    changes = changes * rho + rest * change * change;
    p = p - lr * change;
  }
};

template <class C, Decay D>
struct Adamax : Base<C, D> {
  static constexpr int states = 2;
  Mean<C> mean;
  C beta2, eps, size;
  explicit Adamax(const double* c)
      : Base<C, D>(c), mean(c[2]), beta2(C(c[3])), eps(C(c[4])), size(C(c[5])) {}

  RL_INLINE void update(C& p, C g, C& m, C& largest, C&) const {
    g = this->gradient(p, g);
    m = mean(m, g);
    C before = largest * beta2, now = std::abs(g) + eps;
    largest = before > now || before != before ? before : now;
    p = p - size * (m / largest);
  }
};

template <class C, Decay D>
struct Rprop : Base<C, D> {
  static constexpr int states = 2;
  C shrink, grow, smallest, largest;
  explicit Rprop(const double* c)
      : Base<C, D>(c), shrink(C(c[2])), grow(C(c[3])), smallest(C(c[4])), largest(C(c[5])) {}

  RL_INLINE void update(C& p, C g, C& before, C& size, C&) const {
    g = this->sign * g;
    C turn = g * before;
    C factor = turn > 0 ? grow : (turn < 0 ? shrink : C(1));
    size = size * factor;
    size = size < smallest ? smallest : size;
    size = size > largest ? largest : size;
    g = turn < 0 ? C(0) : g;
    C direction = C(g > 0 ? 1 : 0) - C(g < 0 ? 1 : 0);
    p = p - direction * size;
    before = g;
  }
};

template <class C, Decay D, bool Average>
struct Asgd : Base<C, D> {
  static constexpr int states = 1;
  C factor, eta, mu;
  explicit Asgd(const double* c) : Base<C, D>(c), factor(C(c[2])), eta(C(c[3])), mu(C(c[4])) {}

  RL_INLINE void update(C& p, C g, C& average, C&, C&) const {
    g = this->gradient(p, g);
    p = p * factor - eta * g;
    if constexpr (Average) average = average + (p - average) * mu;
    else average = p;
  }
};

template <class Rule, class C>
RL_CLONES void sweep(const Rule rule, C* p, const C* g, C* a, C* b, C* c, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    C x = p[i], first = 0, second = 0, third = 0;
    if constexpr (Rule::states > 0) first = a[i];
    if constexpr (Rule::states > 1) second = b[i];
    if constexpr (Rule::states > 2) third = c[i];
    rule.update(x, g[i], first, second, third);
    p[i] = x;
    if constexpr (Rule::states > 0) a[i] = first;
    if constexpr (Rule::states > 1) b[i] = second;
    if constexpr (Rule::states > 2) c[i] = third;
  }
}

template <class Rule, class C>
void run_direct(const Step& step, int64_t begin, int64_t end) {
  C* state[kStepStates];
  for (int k = 0; k < kStepStates; ++k)
    state[k] = k < Rule::states ? static_cast<C*>(step.state[k]) + begin : nullptr;
  sweep(Rule(step.numbers), static_cast<C*>(step.param) + begin,
        static_cast<const C*>(step.grad) + begin, state[0], state[1], state[2], end - begin);
}

// Halves are stepped as floats, a block at a time.
template <class Rule>
void run_halves(const Step& step, int64_t begin, int64_t end) {
  Convert load = loader<float>(step.dtype), store = storer<float>(step.dtype);
  int64_t size = itemsize(step.dtype);
  float blocks[2 + kStepStates][kBlock];
  Rule rule(step.numbers);
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t n = std::min(kBlock, end - at);
    auto of = [&](void* array) { return static_cast<char*>(array) + at * size; };
    load(of(step.param), blocks[0], n);
    load(static_cast<const char*>(step.grad) + at * size, blocks[1], n);
    for (int k = 0; k < Rule::states; ++k) load(of(step.state[k]), blocks[2 + k], n);
    sweep(rule, blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], n);
    store(blocks[0], of(step.param), n);
    for (int k = 0; k < Rule::states; ++k) store(blocks[2 + k], of(step.state[k]), n);
  }
}

template <template <class> class Rule>
StepKernel of_dtype(DType d) {
  switch (d) {
    case DType::F64: return run_direct<Rule<double>, double>;
    case DType::F32: return run_direct<Rule<float>, float>;
    default: return run_halves<Rule<float>>;
  }
}

// A rule with everything but the type of its elements fixed.
template <Decay D, Momentum M>
struct SgdOf {
  template <class C>
  using Rule = Sgd<C, D, M>;
};
template <Decay D, bool... Options>
struct AdamOf {
  template <class C>
  using Rule = Adam<C, D, Options...>;
};
template <Decay D, bool... Options>
struct RmspropOf {
  template <class C>
  using Rule = Rmsprop<C, D, Options...>;
};
template <Decay D, bool... Options>
struct RadamOf {
  template <class C>
  using Rule = Radam<C, D, Options...>;
};
template <Decay D, bool... Options>
struct AsgdOf {
  template <class C>
  using Rule = Asgd<C, D, Options...>;
};
template <template <class, Decay> class R>
struct Plainly {
  template <Decay D>
  struct Of {
    template <class C>
    using Rule = R<C, D>;
  };
};

template <class Of>
StepKernel kernel(DType d) {
  return of_dtype<Of::template Rule>(d);
}

template <template <Decay, bool...> class Of, Decay D>
StepKernel with_flags(DType d, bool flag) {
  return flag ? kernel<Of<D, true>>(d) : kernel<Of<D, false>>(d);
}

// Rules that decay in either way: to have none is a factor of 1.
template <template <Decay> class Of>
StepKernel with_decay(DType d, Decay decay) {
  return decay == Decay::Gradient ? kernel<Of<Decay::Gradient>>(d)
                                  : kernel<Of<Decay::Parameter>>(d);
}

// Rules that decay only through the gradient.
template <template <Decay> class Of>
StepKernel with_gradient_decay(DType d, Decay decay) {
  return decay == Decay::None ? kernel<Of<Decay::None>>(d) : kernel<Of<Decay::Gradient>>(d);
}

template <Decay D>
StepKernel sgd_of(DType d, Momentum momentum) {
  switch (momentum) {
    case Momentum::None: return kernel<SgdOf<D, Momentum::None>>(d);
    case Momentum::First: return kernel<SgdOf<D, Momentum::First>>(d);
    case Momentum::FirstNesterov: return kernel<SgdOf<D, Momentum::FirstNesterov>>(d);
    case Momentum::Plain: return kernel<SgdOf<D, Momentum::Plain>>(d);
    default: return kernel<SgdOf<D, Momentum::Nesterov>>(d);
  }
}

template <Decay D>
StepKernel rmsprop_of(DType d, bool centered, bool momentum) {
  if (centered)
    return momentum ? kernel<RmspropOf<D, true, true>>(d) : kernel<RmspropOf<D, true, false>>(d);
  return momentum ? kernel<RmspropOf<D, false, true>>(d) : kernel<RmspropOf<D, false, false>>(d);
}

// Whether parameters share memory, as one that is listed twice: their steps must then run one
// after the other.
bool have_overlaps(const Step* steps, size_t count) {
  std::vector<std::pair<const char*, const char*>> ranges(count);
  for (size_t i = 0; i < count; ++i) {
    auto* start = static_cast<const char*>(steps[i].param);
    ranges[i] = {start, start + steps[i].n * itemsize(steps[i].dtype)};
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < count; ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

}  // namespace

void run_steps(const Step* steps, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count; ++i) total += steps[i].n;
  if (total <= 2 * kGrain || have_overlaps(steps, count)) {
    for (size_t i = 0; i < count; ++i) steps[i].kernel(steps[i], 0, steps[i].n);
    return;
  }
  std::vector<int64_t> starts(count + 1);  // the first chunk of each step
  for (size_t i = 0; i < count; ++i) starts[i + 1] = starts[i] + (steps[i].n + kGrain - 1) / kGrain;
  parallel_chunks(starts[count], [&](int64_t chunk) {
    size_t i = size_t(std::upper_bound(starts.begin(), starts.end(), chunk) - starts.begin()) - 1;
    int64_t begin = (chunk - starts[i]) * kGrain;
    steps[i].kernel(steps[i], begin, std::min(begin + kGrain, steps[i].n));
  });
}

StepKernel sgd_kernel(DType d, Decay decay, Momentum momentum) {
  return decay == Decay::None ? sgd_of<Decay::None>(d, momentum)
                              : sgd_of<Decay::Gradient>(d, momentum);
}
StepKernel adam_kernel(DType d, Decay decay, bool amsgrad) {
  return decay == Decay::Gradient ? with_flags<AdamOf, Decay::Gradient>(d, amsgrad)
                                  : with_flags<AdamOf, Decay::Parameter>(d, amsgrad);
}
StepKernel rmsprop_kernel(DType d, Decay decay, bool centered, bool momentum) {
  return decay == Decay::None ? rmsprop_of<Decay::None>(d, centered, momentum)
                              : rmsprop_of<Decay::Gradient>(d, centered, momentum);
}
StepKernel adagrad_kernel(DType d, Decay decay) {
  return with_gradient_decay<Plainly<Adagrad>::Of>(d, decay);
}
StepKernel adadelta_kernel(DType d, Decay decay) {
  return with_gradient_decay<Plainly<Adadelta>::Of>(d, decay);
}
StepKernel adamax_kernel(DType d, Decay decay) {
  return with_gradient_decay<Plainly<Adamax>::Of>(d, decay);
}
StepKernel nadam_kernel(DType d, Decay decay) { return with_decay<Plainly<Nadam>::Of>(d, decay); }
StepKernel radam_kernel(DType d, Decay decay, bool rectified) {
  return decay == Decay::Gradient ? with_flags<RadamOf, Decay::Gradient>(d, rectified)
                                  : with_flags<RadamOf, Decay::Parameter>(d, rectified);
}
StepKernel rprop_kernel(DType d) { return kernel<Plainly<Rprop>::Of<Decay::None>>(d); }
StepKernel asgd_kernel(DType d, Decay decay, bool averages) {
  return decay == Decay::None ? with_flags<AsgdOf, Decay::None>(d, averages)
                              : with_flags<AsgdOf, Decay::Gradient>(d, averages);
}

}  // namespace rl::cpu
