// What the kernels of linear algebra are told besides pointers.
#pragma once

#include "kernels/arguments.h"

namespace rl::kernel {

enum class MatrixForm { Plain, Transposed, Adjoint };
// The ways of LAPACK: QR, QR with pivots, singular values by bisection, singular values by QR.
enum class LeastSquares { Gels, Gelsy, Gelsd, Gelss };

}  // namespace rl::kernel
