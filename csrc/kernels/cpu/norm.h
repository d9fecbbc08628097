// Normalisation over the rows of [rows, n], contiguous; real floating dtypes. mean and rstd hold
// `rows` values of compute_type(d) (float for halves); w and b are of dtype d or null.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// (x - mean) * rstd * w + b with rstd = 1 / sqrt(var + eps).
void layer_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, int64_t rows, int64_t n, double eps);
// Gradients of layer_norm for x, w and b (dtype d); a null one is not computed.
void layer_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, int64_t rows, int64_t n);
// x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps).
void rms_norm(DType d, const void* x, const void* w, void* y, void* rstd, int64_t rows, int64_t n,
              double eps);
// Gradients of rms_norm for x and w (dtype d); a null one is not computed.
void rms_norm_backward(DType d, const void* g, const void* x, const void* w, const void* rstd,
                       void* gx, void* gw, int64_t rows, int64_t n);

}  // namespace rl::cpu
