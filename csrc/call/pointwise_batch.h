// Pointwise ops on batched tensors (autograd/batch.h).
#pragma once

#include "autograd/batch.h"
#include "call/pointwise.h"

namespace rl {

// The op on all samples at once; its result has their dimensions in front.
Var run_batched(const Pointwise& op, const Var* in, const double* params, const HiddenDims& hidden);

// Gives these tensors (none stays none) the hidden dimensions that they have together, in front of
// dimensions of one number; without hidden ones, they stay as they are.
HiddenDims bring_front(std::initializer_list<Var*> tensors);

// In place: whether hidden dimensions are about, and the write.
bool is_batched_write(const Pointwise& op, const Var* in, const Tensor* into);
Var write_batched(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                  bool inplace);

}  // namespace rl
