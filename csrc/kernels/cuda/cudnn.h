// Convolutions by cuDNN, opened by name. False, and nothing done, where it is not there or has no way.
#pragma once

#include "kernels/arguments.h"

namespace rl::cuda {

extern bool allow_convolution_tf32, deterministic_convolutions;

// 0: not there.
int64_t cudnn_version();

enum class Convolve { Forward, Data, Weight };
// Forward: y from x and w. Data: x from y and w. Weight: w from x and y.
bool convolve_by_library(Convolve what, DType d, const kernel::Convolution& c, const void* x,
                         const void* w, const void* y);

}  // namespace rl::cuda
