// Normalisation by channel and by groups of channels. Tensors are [batch, channels, inner],
// row-major, of float or double as `d` says; weights and biases have one value per channel or are
// null.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

struct ChannelShape {
  int64_t batch, channels, inner;
};

// y = (x - mean) * rstd * w + b, with the mean, the variance and 1 / sqrt(variance + eps) of every
// channel over batch and inner.
void batch_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, void* variance, ChannelShape s, double eps);
// The same with a mean and an rstd that are given.
void batch_norm_given(DType d, const void* x, const void* w, const void* b, const void* mean,
                      const void* rstd, void* y, ChannelShape s);
// Gradients; any of gx, gw, gb may be null. `given`: mean and rstd do not depend on x.
void batch_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         bool given);

// The same for each of `groups` runs of channels of each batch element; mean and rstd are
// [batch, groups].
void group_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, ChannelShape s, int64_t groups, double eps);
void group_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         int64_t groups);

}  // namespace rl::cpu
