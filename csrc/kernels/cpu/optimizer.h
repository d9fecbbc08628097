// One step of an optimizer over the elements of parameters: every rule is one loop that reads the
// parameter, its gradient and its state once and writes them once.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace rl::cpu {

inline constexpr int kStepStates = 3;
inline constexpr int kStepNumbers = 10;

struct Step;
using StepKernel = void (*)(const Step&, int64_t begin, int64_t end);

// The work of one parameter: contiguous arrays of n real elements and the rule's numbers. The
// first two of these are the sign of the gradient and the decay.
struct Step {
  StepKernel kernel;
  DType dtype;
  int64_t n;
  void* param;
  const void* grad;
  void* state[kStepStates];
  double numbers[kStepNumbers];
};

// Runs all steps; large ones on several threads.
void run_steps(const Step* steps, size_t count);

// Weight decay: none, added to the gradient, or a factor of the parameter.
enum class Decay : uint8_t { None, Gradient, Parameter };

// The kernels, with the numbers that follow sign and decay; states in brackets.
// lr, momentum, 1 - dampening [momentum_buffer]. First: the buffer becomes the gradient.
enum class Momentum : uint8_t { None, First, FirstNesterov, Plain, Nesterov };
StepKernel sgd_kernel(DType d, Decay decay, Momentum momentum);
// 1 - beta1, beta2, 1 - beta2, step size, 1 / root of the second bias correction, eps
// [exp_avg, exp_avg_sq, max_exp_avg_sq]
StepKernel adam_kernel(DType d, Decay decay, bool amsgrad);
// lr, alpha, 1 - alpha, eps, momentum [square_avg, momentum_buffer, grad_avg when centered]
StepKernel rmsprop_kernel(DType d, Decay decay, bool centered, bool momentum);
// step size, eps [sum]
StepKernel adagrad_kernel(DType d, Decay decay);
// lr, rho, 1 - rho, eps [square_avg, acc_delta]
StepKernel adadelta_kernel(DType d, Decay decay);
// 1 - beta1, beta2, eps, step size [exp_avg, exp_inf]
StepKernel adamax_kernel(DType d, Decay decay);
// 1 - beta1, beta2, 1 - beta2, 1 / second bias correction, eps, factors of gradient and average
// [exp_avg, exp_avg_sq]
StepKernel nadam_kernel(DType d, Decay decay);
// 1 - beta1, beta2, 1 - beta2, eps, step size, rectification [exp_avg, exp_avg_sq]
StepKernel radam_kernel(DType d, Decay decay, bool rectified);
// etaminus, etaplus, smallest and largest step [prev, step_size]
StepKernel rprop_kernel(DType d);
// factor of the parameter, eta, mu [ax]
StepKernel asgd_kernel(DType d, Decay decay, bool averages);

}  // namespace rl::cpu
