// Convolutions of contiguous tensors over up to three spatial dimensions; fewer are leading ones of
// size 1. Every element is summed in one order, whatever the number of threads.
#pragma once

#include <array>

#include "tensor/dtype.h"

namespace rl::cpu {

using Extent = std::array<int64_t, 3>;

// x [batch, groups * in, *input], w [groups * out, in, *kernel], y [batch, groups * out, *output].
struct Convolution {
  int64_t batch, groups, in, out;  // channels of one group
  Extent input, output, kernel, stride, padding, dilation;
};

// y = x (*) w + bias; bias may be null.
void convolve(DType d, const Convolution& c, const void* x, const void* w, const void* bias,
              void* y);
// The transposed map, from y's shape to x's, and bias for each channel of x; bias may be null.
void convolve_transposed(DType d, const Convolution& c, const void* y, const void* w,
                         const void* bias, void* x);
// The gradient of w: y's is g.
void convolve_weight(DType d, const Convolution& c, const void* x, const void* g, void* gw);

inline int64_t volume(const Extent& e) { return e[0] * e[1] * e[2]; }

}  // namespace rl::cpu
