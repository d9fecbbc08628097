// The sums behind a convolution and its transpose: over a source padded with zeros, outputs lie on
// a grid, and each adds up the same taps around it (docs/design/convolution.md).
#pragma once

#include <vector>

#include "kernels/cpu/kernels.h"

namespace rl::cpu {

// One dimension. Output j reads padded positions j * step + tap.offset; the padded position p is
// the source's p - lead. It is written at first + j * stride.
struct Axis {
  struct Tap {
    int64_t index, offset;  // in the kernel; in the padded source
  };
  int64_t count, step, lead, source, first, stride, size;  // size: of the result
  std::vector<Tap> taps;

  int64_t reach() const;  // the largest offset of a tap
};

struct Correlation {
  int64_t in, out;  // channels
  Axis axes[3];
  int64_t w_out, w_in;  // strides of the weights
  Extent kernel;

  int64_t taps() const {
    return int64_t(axes[0].taps.size() * axes[1].taps.size() * axes[2].taps.size());
  }
};

// Of a padded image: more than any memory, few enough to count.
constexpr double kMostElements = 1e12;

Correlation correlation_of(const Convolution& c);
// The transpose splits by residues of positions modulo the stride, one correlation for each.
std::vector<Correlation> transposed_correlations(const Convolution& c);

// Of this machine's registers, which the kernels below are compiled for; 0 where they are not.
int register_bytes();

// Runs them for all images and groups. T is float or double.
template <class T>
void correlate(const std::vector<Correlation>& parts, int64_t batch, int64_t groups,
               const T* source, const T* w, int64_t w_group, const T* bias, T* result);

template <class T>
void correlate_weight(const Convolution& c, const T* x, const T* g, T* gw);

}  // namespace rl::cpu
