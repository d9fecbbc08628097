// The optimizers that the core steps: what each reads of a group, keeps for a parameter, and
// computes before its loop over the elements (kernels/table.def).
#pragma once

#include "kernels/kernels.h"

namespace rl {

inline constexpr int kHyper = 10;  // numbers read of a group
inline constexpr int kSlots = 5;   // tensors kept for a parameter

// An entry of a group. A pair (betas) takes two numbers.
struct Key {
  const char* name = nullptr;
  bool pair = false;
};

// An entry of a parameter's state. Scalars come before the tensors of the parameter's shape.
struct Slot {
  const char* name = nullptr;
  bool scalar = false;
};

// A scalar of the state: read before the step, written back after it in its own precision.
struct Scalar {
  double value = 0;
  bool single = true;
  void multiply(double by) { value = single ? double(float(value) * float(by)) : value * by; }
};

struct Preparation {
  const kernel::Table& on;
  const double* hyper;
  DType dtype;  // real
  bool first;   // the tensors of the state were not there before
  Scalar* scalars;
  double* numbers;
};

struct Rule {
  const char* name;    // "Adam"
  const char* writer;  // "Adam.step"
  Key keys[kHyper];
  Slot slots[kSlots];
  // The slots in use with these numbers, a bit for each.
  unsigned (*used)(const double* hyper);
  // What a slot holds before the first step.
  double (*initial)(const double* hyper, int slot);
  // Advances the scalars, fills in the numbers of the loop and picks it.
  kernel::StepKernel (*prepare)(const Preparation& p);
};

extern const Rule optimizer_rules[];
extern const int optimizer_rule_count;

}  // namespace rl
