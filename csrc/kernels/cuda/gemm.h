// Products of matrices.
#pragma once

namespace rl::cuda {

// Whether products of floats may round their factors to TF32.
extern bool allow_tf32;

}  // namespace rl::cuda
