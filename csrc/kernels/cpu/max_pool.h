// Maxima over windows. Which tap of its window each came from is kept as a number of tap_type():
// one byte for windows of up to kNoTap taps.
#pragma once

#include "kernels/cpu/convolution.h"

namespace rl::cpu {

// x [planes, *input] to y [planes, *output].
struct Pooling {
  int64_t planes;
  Extent input, output, kernel, stride, padding, dilation;
};

DType tap_type(const Pooling& p);

// The first of equals wins, and a NaN over all; a window of padding alone has no tap.
void max_pool(DType d, const Pooling& p, const void* x, void* y, void* taps);
// x at the taps. This and the next two are false when a tap lies outside its plane.
bool max_pool_gather(DType d, const Pooling& p, const void* x, const void* taps, void* y);
// Adds each y to its tap in a plane of zeros.
bool max_pool_scatter(DType d, const Pooling& p, const void* y, const void* taps, void* x);
// The taps as positions in a plane of x; -1 for none.
bool max_pool_positions(const Pooling& p, const void* taps, int64_t* positions);

// Maxima over a grid of windows that covers the input, with their positions in a plane.
void adaptive_max_pool(DType d, int64_t planes, const Extent& input, const Extent& output,
                       const void* x, void* y, int64_t* positions);

}  // namespace rl::cpu
