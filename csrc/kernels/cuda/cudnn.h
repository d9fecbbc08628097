// Convolutions and attention by cuDNN, opened by name. False, and nothing done, where it is not there
// or has no way.
#pragma once

#include "kernels/arguments.h"

namespace rl::cuda {

struct CudnnSwitches {
  bool tf32 = true;  // of convolutions
  bool attention = true;
  bool deterministic = false;
};
extern CudnnSwitches cudnn_switches;

// 0: not there.
int64_t cudnn_version();

enum class Convolve { Forward, Data, Weight };
// Forward: y from x and w. Data: x from y and w. Weight: w from x and y.
bool convolve_by_library(Convolve what, DType d, const kernel::Convolution& c, const void* x,
                         const void* w, const void* y);

// Of halves that suit our own kernel, aligned alike; lse is theirs.
bool attend_by_library(DType d, const kernel::AttentionShape& s, kernel::Heads q, kernel::Heads k,
                       kernel::Heads v, kernel::Heads out, void* lse);
bool attend_backward_by_library(DType d, const kernel::AttentionShape& s, kernel::Heads g,
                                kernel::Heads q, kernel::Heads k, kernel::Heads v,
                                kernel::Heads out, const void* lse, kernel::Heads gq,
                                kernel::Heads gk, kernel::Heads gv);

}  // namespace rl::cuda
