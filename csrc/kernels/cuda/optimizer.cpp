// Optimizer steps: many parameters in one launch.
#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

// The rules of kernels/cpu/optimizer.cpp. Decay: 0 none, 1 of the gradient, 2 of the parameter.
constexpr char kRules[] = R"(
typedef A C;
struct Mean {
  bool near;
  C weight;
  __device__ explicit Mean(double w) : near(w < 0.5), weight(C(near ? w : w - 1)) {}
  __device__ C operator()(C mean, C value) const {
    return (near ? mean : value) + weight * (value - mean);
  }
};
template <int D> struct Base {
  C sign, decay;
  __device__ explicit Base(const double* c) : sign(C(c[0])), decay(C(c[1])) {}
  __device__ C gradient(C& p, C g) const {
    g = sign * g;
    if (D == 1) g = g + decay * p;
    if (D == 2) p = p * decay;
    return g;
  }
};
// M: 0 none, 1 first, 2 first of Nesterov, 3 plain, 4 Nesterov
template <int D, int M> struct Sgd : Base<D> {
  static const int states = M == 0 ? 0 : 1;
  C lr, momentum, rest;
  __device__ explicit Sgd(const double* c)
      : Base<D>(c), lr(C(c[2])), momentum(C(c[3])), rest(C(c[4])) {}
  __device__ void update(C& p, C g, C& buffer, C&, C&) const {
    g = this->gradient(p, g);
    if (M == 1 || M == 2) buffer = g;
    if (M == 3 || M == 4) buffer = buffer * momentum + rest * g;
    if (M == 3) g = buffer;
    if (M == 4 || M == 2) g = g + momentum * buffer;
    p = p - lr * g;
  }
};
template <int D> struct Averages : Base<D> {
  Mean mean;
  C beta2, rest2;
  __device__ explicit Averages(const double* c)
      : Base<D>(c), mean(c[2]), beta2(C(c[3])), rest2(C(c[4])) {}
  __device__ C average(C& p, C g, C& m, C& v) const {
    g = this->gradient(p, g);
    m = mean(m, g);
    v = v * beta2 + rest2 * g * g;
    return g;
  }
};
template <int D, int Amsgrad> struct Adam : Averages<D> {
  static const int states = Amsgrad ? 3 : 2;
  C size, correction, eps;
  __device__ explicit Adam(const double* c)
      : Averages<D>(c), size(C(c[5])), correction(C(c[6])), eps(C(c[7])) {}
  __device__ void update(C& p, C g, C& m, C& v, C& largest) const {
    this->average(p, g, m, v);
    C square = v;
    if (Amsgrad) {
      largest = largest > v || largest != largest ? largest : v;
      square = largest;
    }
    p = p - size * (m / (sqrt(square) * correction + eps));
  }
};
template <int D, int O> struct Nadam : Averages<D> {
  static const int states = 2;
  C correction, eps, of_gradient, of_average;
  __device__ explicit Nadam(const double* c)
      : Averages<D>(c),
        correction(C(c[5])),
        eps(C(c[6])),
        of_gradient(C(c[7])),
        of_average(C(c[8])) {}
  __device__ void update(C& p, C g, C& m, C& v, C&) const {
    g = this->average(p, g, m, v);
    C denominator = sqrt(v * correction) + eps;
    p = p - of_gradient * (g / denominator);
    p = p - of_average * (m / denominator);
  }
};
template <int D, int Rectified> struct Radam : Averages<D> {
  static const int states = 2;
  C eps, size, rectification;
  __device__ explicit Radam(const double* c)
      : Averages<D>(c), eps(C(c[5])), size(C(c[6])), rectification(C(c[7])) {}
  __device__ void update(C& p, C g, C& m, C& v, C&) const {
    this->average(p, g, m, v);
    C change = m * size;
    if (Rectified) change = change * (rectification / (sqrt(v) + eps));
    p = p - change;
  }
};
// O: bit 0 centered, bit 1 momentum
template <int D, int O> struct Rmsprop : Base<D> {
  static const int states = 1 + (O & 1) + (O >> 1);
  C lr, alpha, rest;
  Mean mean;
  C eps, momentum;
  __device__ explicit Rmsprop(const double* c)
      : Base<D>(c),
        lr(C(c[2])),
        alpha(C(c[3])),
        rest(C(c[4])),
        mean(c[4]),
        eps(C(c[5])),
        momentum(C(c[6])) {}
  __device__ void update(C& p, C g, C& square, C& second, C& third) const {
    g = this->gradient(p, g);
    square = square * alpha + rest * g * g;
    C spread = square;
    if (O & 1) {
      C& center = O & 2 ? third : second;
      center = mean(center, g);
      spread = square - center * center;
    }
    C change = g / (sqrt(spread) + eps);
    if (O & 2) {
      second = second * momentum + change;
      change = second;
    }
    p = p - lr * change;
  }
};
template <int D, int O> struct Adagrad : Base<D> {
  static const int states = 1;
  C size, eps;
  __device__ explicit Adagrad(const double* c) : Base<D>(c), size(C(c[2])), eps(C(c[3])) {}
  __device__ void update(C& p, C g, C& sum, C&, C&) const {
    g = this->gradient(p, g);
    sum = sum + g * g;
    p = p - size * (g / (sqrt(sum) + eps));
  }
};
template <int D, int O> struct Adadelta : Base<D> {
  static const int states = 2;
  C lr, rho, rest, eps;
  __device__ explicit Adadelta(const double* c)
      : Base<D>(c), lr(C(c[2])), rho(C(c[3])), rest(C(c[4])), eps(C(c[5])) {}
  __device__ void update(C& p, C g, C& square, C& changes, C&) const {
    g = this->gradient(p, g);
    square = square * rho + rest * g * g;
    C change = sqrt(changes + eps) / sqrt(square + eps) * g;
    changes = changes * rho + rest * change * change;
    p = p - lr * change;
  }
};
template <int D, int O> struct Adamax : Base<D> {
  static const int states = 2;
  Mean mean;
  C beta2, eps, size;
  __device__ explicit Adamax(const double* c)
      : Base<D>(c), mean(c[2]), beta2(C(c[3])), eps(C(c[4])), size(C(c[5])) {}
  __device__ void update(C& p, C g, C& m, C& largest, C&) const {
    g = this->gradient(p, g);
    m = mean(m, g);
    C before = largest * beta2, now = fabs(g) + eps;
    largest = before > now || before != before ? before : now;
    p = p - size * (m / largest);
  }
};
template <int D, int O> struct Rprop : Base<D> {
  static const int states = 2;
  C shrink, grow, smallest, largest;
  __device__ explicit Rprop(const double* c)
      : Base<D>(c), shrink(C(c[2])), grow(C(c[3])), smallest(C(c[4])), largest(C(c[5])) {}
  __device__ void update(C& p, C g, C& before, C& size, C&) const {
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
template <int D, int O> struct Asgd : Base<D> {
  static const int states = 1;
  C factor, eta, mu;
  __device__ explicit Asgd(const double* c)
      : Base<D>(c), factor(C(c[2])), eta(C(c[3])), mu(C(c[4])) {}
  __device__ void update(C& p, C g, C& average, C&, C&) const {
    g = this->gradient(p, g);
    p = p * factor - eta * g;
    average = O ? average + (p - average) * mu : p;
  }
};
)";

constexpr int kMost = 40;         // parameters of a launch
constexpr int64_t kChunk = 4096;  // elements of a block

constexpr char kKernel[] = R"(
struct Item {
  T* param;
  const T* grad;
  T* state[3];
  int64 n;
};
struct Steps {
  Item items[40];
  int starts[41];
  int count;
  double numbers[10];
};
extern "C" __global__ void steps(const Steps s) {
  int block = blockIdx.x, k = 0;
  while (s.starts[k + 1] <= block) k++;
  const Item& item = s.items[k];
  const Rule rule(s.numbers);
  int64 begin = int64(block - s.starts[k]) * 4096;
  int64 end = begin + 4096 < item.n ? begin + 4096 : item.n;
  for (int64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
    C p = C(item.param[i]), a = 0, b = 0, c = 0;
    if (Rule::states > 0) a = C(item.state[0][i]);
    if (Rule::states > 1) b = C(item.state[1][i]);
    if (Rule::states > 2) c = C(item.state[2][i]);
    rule.update(p, C(item.grad[i]), a, b, c);
    item.param[i] = T(p);
    if (Rule::states > 0) item.state[0][i] = T(a);
    if (Rule::states > 1) item.state[1][i] = T(b);
    if (Rule::states > 2) item.state[2][i] = T(c);
  }
}
)";

struct Item {
  void* param;
  const void* grad;
  void* state[3];
  int64_t n;
};
struct Steps {
  Item items[kMost];
  int starts[kMost + 1];
  int count;
  double numbers[kStepNumbers];
};

const char* const kRuleNames[] = {"Sgd",    "Adam",  "Rmsprop", "Adagrad", "Adadelta",
                                  "Adamax", "Nadam", "Radam",   "Rprop",   "Asgd"};

// A rule's number stands for it: the device has no function of the host's to call.
StepKernel tag(int rule, Decay decay, int option, DType d) {
  return reinterpret_cast<StepKernel>(
      uintptr_t(1 + (((rule * 3 + int(decay)) * 8 + option) * kDTypes + int(d))));
}

Function function_of(StepKernel kernel) {
  static Slots<10 * 3 * 8 * kDTypes + 1> slots;
  int number = int(reinterpret_cast<uintptr_t>(kernel));
  return slots.get(number, [&] {
    int rest = number - 1, d = rest % kDTypes, option = rest / kDTypes % 8,
        decay = rest / kDTypes / 8 % 3, rule = rest / kDTypes / 8 / 3;
    return compiled(concat("typedef ", type_name(DType(d)), " T; typedef ", compute_name(DType(d)),
                           " A;\n", kRules, "typedef ", kRuleNames[rule], "<", decay, ", ", option,
                           "> Rule;\n", kKernel),
                    "steps");
  });
}

}  // namespace

namespace {

// Sets the numbers of a recorded pack, whose first step is number `first`.
auto renewed(Steps pack, size_t first) {
  return [pack, first, node = last_node()](Exec exec, const std::vector<Step>& steps) mutable {
    for (int k = 0; k < kStepNumbers; k++) pack.numbers[k] = steps[first].numbers[k];
    void* list[] = {&pack};
    KernelNode what{function_of(steps[first].kernel)->here().raw,
                    unsigned(pack.starts[pack.count]),
                    1,
                    1,
                    256,
                    1,
                    1,
                    0,
                    list,
                    nullptr};
    ok(driver.exec_set(exec, node, &what), "renewing a recorded step");
  };
}

}  // namespace

void run_steps(const Step* steps, size_t count) {
  Steps pack;
  StepKernel kernel = nullptr;
  pack.count = 0;
  size_t first = 0;
  if (capture) capture->steps.push_back({std::vector<Step>(steps, steps + count), {}, {}});
  auto flush = [&] {
    if (!pack.count) return;
    launch(function_of(kernel), {unsigned(pack.starts[pack.count])}, 256, pack);
    if (capture) capture->steps.back().packs.push_back(renewed(pack, first));
    pack.count = 0;
  };
  for (size_t i = 0; i < count; i++) {
    const Step& s = steps[i];
    if (s.n == 0) continue;
    bool fits = pack.count > 0 && pack.count < kMost && s.kernel == kernel;
    for (int k = 0; fits && k < kStepNumbers; k++) fits = s.numbers[k] == pack.numbers[k];
    // A parameter that is listed twice is stepped twice, one after the other.
    for (int k = 0; fits && k < pack.count; k++) fits = pack.items[k].param != s.param;
    if (!fits) {
      flush();
      first = i;
      kernel = s.kernel;
      for (int k = 0; k < kStepNumbers; k++) pack.numbers[k] = s.numbers[k];
      pack.starts[0] = 0;
    }
    pack.items[pack.count] = {s.param, s.grad, {s.state[0], s.state[1], s.state[2]}, s.n};
    pack.starts[pack.count + 1] = pack.starts[pack.count] + int((s.n + kChunk - 1) / kChunk);
    pack.count++;
  }
  flush();
}

StepKernel sgd_kernel(DType d, Decay decay, Momentum momentum) {
  return tag(0, decay, int(momentum), d);
}
StepKernel adam_kernel(DType d, Decay decay, bool amsgrad) { return tag(1, decay, amsgrad, d); }
StepKernel rmsprop_kernel(DType d, Decay decay, bool centered, bool momentum) {
  return tag(2, decay, int(centered) + 2 * int(momentum), d);
}
StepKernel adagrad_kernel(DType d, Decay decay) { return tag(3, decay, 0, d); }
StepKernel adadelta_kernel(DType d, Decay decay) { return tag(4, decay, 0, d); }
StepKernel adamax_kernel(DType d, Decay decay) { return tag(5, decay, 0, d); }
StepKernel nadam_kernel(DType d, Decay decay) { return tag(6, decay, 0, d); }
StepKernel radam_kernel(DType d, Decay decay, bool rectified) {
  return tag(7, decay, rectified, d);
}
StepKernel rprop_kernel(DType d) { return tag(8, Decay::None, 0, d); }
StepKernel asgd_kernel(DType d, Decay decay, bool averages) { return tag(9, decay, averages, d); }

// ---- gradients

namespace {

constexpr char kScale[] = R"(
extern "C" __global__ void scale(T* x, int64 n, double factor, int* infinite) {
  RL_EACH(i, n) {
    A v = A(x[i]);
    if (infinite && !(v - v == 0)) *infinite = 1;
    x[i] = T(v * A(factor));
  }
}
extern "C" __global__ void masked_scale(const T* x, const Bool* mask, T* y, int64 n, double scale) {
  RL_EACH(i, n) y[i] = T(A(x[i]) * (mask[i] ? A(scale) : A(0)));
}
extern "C" __global__ void blend(T* y, const T* x, int64 n, double keep, double add) {
  RL_EACH(i, n) y[i] = T(keep * double(A(y[i])) + add * double(A(x[i])));
}
)";

}  // namespace

void scale(DType d, void* x, int64_t n, double factor) {
  static Kernel kernel(kScale, "scale");
  int* none = nullptr;
  launch(kernel.of(d), grid_for(n, 256), 256, x, n, factor, none);
}
bool scale_checked(DType d, void* x, int64_t n, double factor) {
  static Kernel kernel(kScale, "scale");
  Scratch flag(4);
  clear(flag.get<void>(), 4);
  launch(kernel.of(d), grid_for(n, 256), 256, x, n, factor, flag.get<int>());
  int found = 0;
  read(&found, flag.get<void>(), 4);
  return found != 0;
}
void masked_scale(DType d, const void* x, const Bool* mask, void* y, int64_t n, double scale) {
  if (n == 0) return;
  if (is_complex(d)) fail_missing("dropout", &d);
  static Kernel kernel(kScale, "masked_scale");
  launch(kernel.of(d), grid_for(n, 256), 256, x, mask, y, n, scale);
}
void blend(DType d, void* y, const void* x, int64_t n, double keep, double add) {
  if (n == 0) return;
  static Kernel kernel(kScale, "blend");
  launch(kernel.of(d), grid_for(n, 256), 256, y, x, n, keep, add);
}

}  // namespace rl::cuda
