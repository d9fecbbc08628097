#include "python/optim_rules.h"

#include <algorithm>
#include <cmath>

namespace rl {
namespace {

using kernel::Decay;
using kernel::Momentum;
using kernel::StepKernel;

unsigned all_slots(const double*) { return ~0u; }
double zero(const double*, int) { return 0; }

// Sign and decay, which come first for every rule. No decay is a factor of 1, too.
Decay begin(const Preparation& p, double maximize, double decay, double lr = 0,
            double decoupled = 0) {
  p.numbers[0] = maximize != 0 ? -1 : 1;
  p.numbers[1] = decay == 0 ? 1 : decoupled != 0 ? 1 - lr * decay : decay;
  if (decay == 0) return Decay::None;
  return decoupled != 0 ? Decay::Parameter : Decay::Gradient;
}

double advance(const Preparation& p) { return p.scalars[0].value += 1; }

void averages(const Preparation& p, double beta1, double beta2) {
  p.numbers[2] = 1 - beta1;
  p.numbers[3] = beta2;
  p.numbers[4] = 1 - beta2;
}

namespace sgd {
enum { lr, momentum, dampening, weight_decay, nesterov, maximize };
unsigned used(const double* h) { return h[momentum] != 0; }
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  p.numbers[2] = h[lr];
  p.numbers[3] = h[momentum];
  p.numbers[4] = 1 - h[dampening];
  Momentum kind = Momentum::None;
  if (h[momentum] != 0) {
    kind = p.first ? Momentum::First : Momentum::Plain;
    if (h[nesterov] != 0) kind = p.first ? Momentum::FirstNesterov : Momentum::Nesterov;
  }
  return p.on.sgd_kernel(p.dtype, decay, kind);
}
}  // namespace sgd

namespace adam {
enum { lr, beta1, beta2, eps, weight_decay, amsgrad, maximize, decoupled };
unsigned used(const double* h) { return h[amsgrad] != 0 ? 15 : 7; }
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay], h[lr], h[decoupled]);
  averages(p, h[beta1], h[beta2]);
  p.numbers[5] = h[lr] / (1 - std::pow(h[beta1], step));
  p.numbers[6] = 1 / std::sqrt(1 - std::pow(h[beta2], step));
  p.numbers[7] = h[eps];
  return p.on.adam_kernel(p.dtype, decay, h[amsgrad] != 0);
}
}  // namespace adam

namespace rmsprop {
enum { lr, alpha, eps, weight_decay, momentum, centered, maximize };
unsigned used(const double* h) {
  return 3 | (h[momentum] > 0 ? 4 : 0) | (h[centered] != 0 ? 8 : 0);
}
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  p.numbers[2] = h[lr];
  p.numbers[3] = h[alpha];
  p.numbers[4] = 1 - h[alpha];
  p.numbers[5] = h[eps];
  p.numbers[6] = h[momentum];
  return p.on.rmsprop_kernel(p.dtype, decay, h[centered] != 0, h[momentum] > 0);
}
}  // namespace rmsprop

namespace adagrad {
enum { lr, lr_decay, eps, weight_decay, maximize, initial_value };
double initial(const double* h, int slot) { return slot == 1 ? h[initial_value] : 0; }
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  p.numbers[2] = h[lr] / (1 + (step - 1) * h[lr_decay]);
  p.numbers[3] = h[eps];
  return p.on.adagrad_kernel(p.dtype, decay);
}
}  // namespace adagrad

namespace adadelta {
enum { lr, rho, eps, weight_decay, maximize };
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  p.numbers[2] = h[lr];
  p.numbers[3] = h[rho];
  p.numbers[4] = 1 - h[rho];
  p.numbers[5] = h[eps];
  return p.on.adadelta_kernel(p.dtype, decay);
}
}  // namespace adadelta

namespace adamax {
enum { lr, beta1, beta2, eps, weight_decay, maximize };
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  p.numbers[2] = 1 - h[beta1];
  p.numbers[3] = h[beta2];
  p.numbers[4] = h[eps];
  p.numbers[5] = h[lr] / (1 - std::pow(h[beta1], step));
  return p.on.adamax_kernel(p.dtype, decay);
}
}  // namespace adamax

namespace nadam {
enum { lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled, maximize };
double initial(const double*, int slot) { return slot == 1; }  // mu_product
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay], h[lr], h[decoupled]);
  auto mu_at = [&](double t) {
    return h[beta1] * (1 - 0.5 * std::pow(0.96, t * h[momentum_decay]));
  };
  double mu = mu_at(step), mu_next = mu_at(step + 1);
  Scalar& product = p.scalars[1];
  product.multiply(mu);
  averages(p, h[beta1], h[beta2]);
  p.numbers[5] = 1 / (1 - std::pow(h[beta2], step));
  p.numbers[6] = h[eps];
  p.numbers[7] = h[lr] * (1 - mu) / (1 - product.value);
  p.numbers[8] = h[lr] * mu_next / (1 - product.value * mu_next);
  return p.on.nadam_kernel(p.dtype, decay);
}
}  // namespace nadam

namespace radam {
enum { lr, beta1, beta2, eps, weight_decay, decoupled, maximize };
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay], h[lr], h[decoupled]);
  averages(p, h[beta1], h[beta2]);
  double power = std::pow(h[beta2], step), correction2 = 1 - power;
  // The length of the average: when it is too short the variance has no bound.
  double longest = 2 / (1 - h[beta2]) - 1, length = longest - 2 * step * power / correction2;
  bool rectified = length > 5;
  p.numbers[5] = h[eps];
  p.numbers[6] = h[lr] / (1 - std::pow(h[beta1], step));
  p.numbers[7] = std::sqrt(correction2) * std::sqrt((length - 4) * (length - 2) * longest /
                                                    ((longest - 4) * (longest - 2) * length));
  return p.on.radam_kernel(p.dtype, decay, rectified);
}
}  // namespace radam

namespace rprop {
enum { lr, shrink, grow, smallest, largest, maximize };
double initial(const double* h, int slot) { return slot == 2 ? h[lr] : 0; }  // step_size
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  advance(p);
  begin(p, h[maximize], 0);
  for (int i = 0; i < 4; i++) p.numbers[2 + i] = h[shrink + i];
  return p.on.rprop_kernel(p.dtype);
}
}  // namespace rprop

namespace asgd {
enum { lr, lambd, alpha, t0, weight_decay, maximize };
enum { step_slot, eta_slot, mu_slot };
double initial(const double* h, int slot) {
  return slot == eta_slot ? h[lr] : slot == mu_slot ? 1 : 0;
}
StepKernel prepare(const Preparation& p) {
  const double* h = p.hyper;
  double step = advance(p);
  Decay decay = begin(p, h[maximize], h[weight_decay]);
  double &eta = p.scalars[eta_slot].value, &mu = p.scalars[mu_slot].value;
  p.numbers[2] = 1 - h[lambd] * eta;
  p.numbers[3] = eta;
  p.numbers[4] = mu;
  bool averages = mu != 1;
  eta = h[lr] / std::pow(1 + h[lambd] * h[lr] * step, h[alpha]);
  mu = 1 / std::max(1.0, step - h[t0]);
  return p.on.asgd_kernel(p.dtype, decay, averages);
}
}  // namespace asgd

}  // namespace

const Rule optimizer_rules[] = {
    {"SGD",
     "SGD.step",
     {{"lr"}, {"momentum"}, {"dampening"}, {"weight_decay"}, {"nesterov"}, {"maximize"}},
     {{"momentum_buffer"}},
     sgd::used,
     zero,
     sgd::prepare},
    {"Adam",
     "Adam.step",
     {{"lr"},
      {"betas", true},
      {"eps"},
      {"weight_decay"},
      {"amsgrad"},
      {"maximize"},
      {"decoupled_weight_decay"}},
     {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}},
     adam::used,
     zero,
     adam::prepare},
    {"AdamW",
     "AdamW.step",
     {{"lr"},
      {"betas", true},
      {"eps"},
      {"weight_decay"},
      {"amsgrad"},
      {"maximize"},
      {"decoupled_weight_decay"}},
     {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}},
     adam::used,
     zero,
     adam::prepare},
    {"RMSprop",
     "RMSprop.step",
     {{"lr"}, {"alpha"}, {"eps"}, {"weight_decay"}, {"momentum"}, {"centered"}, {"maximize"}},
     {{"step", true}, {"square_avg"}, {"momentum_buffer"}, {"grad_avg"}},
     rmsprop::used,
     zero,
     rmsprop::prepare},
    {"Adagrad",
     "Adagrad.step",
     {{"lr"}, {"lr_decay"}, {"eps"}, {"weight_decay"}, {"maximize"}, {"initial_accumulator_value"}},
     {{"step", true}, {"sum"}},
     all_slots,
     adagrad::initial,
     adagrad::prepare},
    {"Adadelta",
     "Adadelta.step",
     {{"lr"}, {"rho"}, {"eps"}, {"weight_decay"}, {"maximize"}},
     {{"step", true}, {"square_avg"}, {"acc_delta"}},
     all_slots,
     zero,
     adadelta::prepare},
    {"Adamax",
     "Adamax.step",
     {{"lr"}, {"betas", true}, {"eps"}, {"weight_decay"}, {"maximize"}},
     {{"step", true}, {"exp_avg"}, {"exp_inf"}},
     all_slots,
     zero,
     adamax::prepare},
    {"NAdam",
     "NAdam.step",
     {{"lr"},
      {"betas", true},
      {"eps"},
      {"weight_decay"},
      {"momentum_decay"},
      {"decoupled_weight_decay"},
      {"maximize"}},
     {{"step", true}, {"mu_product", true}, {"exp_avg"}, {"exp_avg_sq"}},
     all_slots,
     nadam::initial,
     nadam::prepare},
    {"RAdam",
     "RAdam.step",
     {{"lr"}, {"betas", true}, {"eps"}, {"weight_decay"}, {"decoupled_weight_decay"}, {"maximize"}},
     {{"step", true}, {"exp_avg"}, {"exp_avg_sq"}},
     all_slots,
     zero,
     radam::prepare},
    {"Rprop",
     "Rprop.step",
     {{"lr"}, {"etas", true}, {"step_sizes", true}, {"maximize"}},
     {{"step", true}, {"prev"}, {"step_size"}},
     all_slots,
     rprop::initial,
     rprop::prepare},
    {"ASGD",
     "ASGD.step",
     {{"lr"}, {"lambd"}, {"alpha"}, {"t0"}, {"weight_decay"}, {"maximize"}},
     {{"step", true}, {"eta", true}, {"mu", true}, {"ax"}},
     all_slots,
     asgd::initial,
     asgd::prepare},
};
const int optimizer_rule_count = int(sizeof optimizer_rules / sizeof *optimizer_rules);

}  // namespace rl
