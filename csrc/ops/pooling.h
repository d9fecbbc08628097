// Windows of pooling ops: their parameters with one entry for each dimension, and torch's checks.
#pragma once

#include "kernels/cpu/max_pool.h"
#include "ops/spatial.h"

namespace rl {

struct Windows {
  Ints kernel, stride, padding, dilation;
  bool ceil_mode;
  int dims;

  // An empty stride is the kernel's size.
  Windows(const char* op, int dims, const Ints& kernel, const Ints& stride, const Ints& padding,
          const Ints& dilation, bool ceil_mode);

  // The spatial sizes of the result of pooling a tensor of these sizes.
  Ints result(const char* op, const Ints& input) const;
  cpu::Pooling over(const Ints& input, const Ints& output) const;
};

// Raises unless the input is [channels, *spatial] or [batch, channels, *spatial] and only the batch
// is empty.
void check_pooled(const char* op, int dims, const Ints& input);

// The input's sizes with these spatial ones.
Ints with_spatial(const Ints& input, const Ints& spatial);

// The number of planes of `dims` dimensions.
int64_t planes_of(const Ints& sizes, int dims);

}  // namespace rl
