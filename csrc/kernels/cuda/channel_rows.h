// Normalisation of channels that lie innermost: x is [rows, channels]. batch_norm.cpp joins the parts.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rl::cuda::rows {

// How many blocks share the rows of a channel.
int parts(DType d, int64_t rows, int64_t channels);
// Count, mean and squares about it, [channels, count, 3].
void moments(DType d, const void* x, void* parts, int count, int64_t rows, int64_t channels);
// Of g and of g * (x - mean), [channels, count, 2].
void sums(DType d, const void* g, const void* x, const void* mean, void* parts, int count,
          int64_t rows, int64_t channels);
void normalize(DType d, const void* x, const void* w, const void* b, const void* mean,
               const void* rstd, void* y, int64_t rows, int64_t channels);
// `sums` of each channel, [channels, 2], as batch_norm.cpp joins them.
void input_gradient(DType d, const void* g, const void* x, const void* w, const void* mean,
                    const void* rstd, const void* sums, void* gx, int64_t rows, int64_t channels,
                    bool given);

}  // namespace rl::cuda::rows
