// Linear maps over up to three spatial dimensions that are products of a map along each: means over
// windows and resampling, and their transposes.
#pragma once

#include <vector>

#include "tensor/dtype.h"

namespace rl::cpu {

// Output j is the sum of weight[e] * input index[e] for e in [first[j], first[j + 1]), divided by
// divisor[j].
struct AxisMap {
  int64_t input, output;
  std::vector<int32_t> first, index;
  std::vector<double> weight;    // empty: all are one
  std::vector<int64_t> divisor;  // empty: all are one

  AxisMap(int64_t input, int64_t output) : input(input), output(output), first{0} {}
  // The next output is the sum over [begin, end).
  void add_window(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) index.push_back(int32_t(i));
    first.push_back(int32_t(index.size()));
  }
  void add(int64_t at, double w) {
    index.push_back(int32_t(at));
    weight.push_back(w);
  }
  void close() { first.push_back(int32_t(index.size())); }
};

using AxisMaps = std::vector<AxisMap>;  // three of them

// x [planes, *inputs] to y [planes, *outputs]. Integers are divided towards zero.
void map_axes(DType d, int64_t planes, const AxisMaps& axes, const void* x, void* y);
// The transposed map, from y to x; floating dtypes.
void map_axes_transposed(DType d, int64_t planes, const AxisMaps& axes, const void* y, void* x);

}  // namespace rl::cpu
