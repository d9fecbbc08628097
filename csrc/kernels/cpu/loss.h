// Cross entropy from logits [rows, classes, inner], contiguous, with class indices as targets.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// Writes loss_each[rows, inner] (dtype d, times the class weight, 0 where ignored),
// lse[rows, inner] (compute_type(d), for the backward) and total_weight, the sum of the targets'
// weights (the number of targets not ignored, without weights): the divisor of the mean. `weight`
// (dtype d) may be null. Returns the flat position of the first target out of range (then nothing
// was written), or -1.
int64_t cross_entropy(DType d, const void* logits, const int64_t* target, const void* weight,
                      int64_t ignore_index, double smoothing, void* loss_each, void* lse,
                      double* total_weight, int64_t rows, int64_t classes, int64_t inner);
// The gradient for the logits, given the gradient (dtype d) of each entry of loss_each.
void cross_entropy_backward(DType d, const void* grad_each, const void* logits, const void* lse,
                            const int64_t* target, const void* weight, int64_t ignore_index,
                            double smoothing, void* glogits, int64_t rows, int64_t classes,
                            int64_t inner);

}  // namespace rl::cpu
