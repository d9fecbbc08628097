// Windows of pooling ops: their parameters with one entry for each dimension, and torch's checks.
#pragma once

#include <functional>

#include "kernels/kernels.h"
#include "ops/nn/spatial.h"

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
  kernel::Pooling over(const Ints& input, const Ints& output) const;
};

// Raises unless the input is [channels, *spatial] or [batch, channels, *spatial] and only the batch
// is empty.
void check_pooled(const char* op, int dims, const Ints& input);

// The input's sizes with these spatial ones.
Ints with_spatial(const Ints& input, const Ints& spatial);

// x mapped along its last `dims` dimensions to a result of these sizes, by the maps or by their
// transpose. They are made once there is room for the result. Of images the layout is kept.
Var map_planes(const Var& x, int dims, const Ints& sizes,
               const std::function<kernel::AxisMaps()>& make_axes, bool transposed = false);

// The number of planes of `dims` dimensions.
int64_t planes_of(const Ints& sizes, int dims);

}  // namespace rl
