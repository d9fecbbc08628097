// Losses that pick one class of [rows, classes, inner], contiguous, by int64 targets that are in
// range or equal to ignore_index. `weight` (one value for each class, of dtype d) may be null.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// loss[r, i] = -weight[t] * x[r, t, i], 0 where ignored; returns the sum of the weights used (the
// number of targets not ignored, without weights).
double nll_loss(DType d, const void* x, const int64_t* target, const void* weight,
                int64_t ignore_index, void* loss, int64_t rows, int64_t classes, int64_t inner);
// gx[r, t, i] = -weight[t] * scale * g[r, i], 0 elsewhere. The stride of g is 0 (one value for
// all) or 1.
void nll_loss_backward(DType d, const void* g, int64_t g_stride, double scale,
                       const int64_t* target, const void* weight, int64_t ignore_index, void* gx,
                       int64_t rows, int64_t classes, int64_t inner);
// The weight that each log probability has in the loss: (1 - smoothing) * weight[t] for the target
// and smoothing / classes * weight[c] for all. Floats only (d is F32 or F64).
void class_weights(DType d, const int64_t* target, const void* weight, int64_t ignore_index,
                   double smoothing, void* out, int64_t rows, int64_t classes, int64_t inner);
// The position of the first target that is neither a class nor ignored, or -1.
int64_t find_bad_target(const int64_t* target, int64_t count, int64_t classes,
                        int64_t ignore_index);

}  // namespace rl::cpu
