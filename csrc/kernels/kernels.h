// The table of a device's kernels, and the way to it.
#pragma once

#include "kernels/arguments.h"
#include "kernels/cuda/active.h"
#include "kernels/launch.h"

namespace rl {

namespace kernel {
struct Table {
  // Layers take halves as they are and compute in float; where not, ops widen their tensors.
  bool halves = false;
  // Convolutions take tensors whose channels lie innermost (Convolution::channels_last).
  bool channels_last = false;
#define KERNEL(Result, name, parameters) Result(*name) parameters;
#include "kernels/table.def"
#undef KERNEL
};
}  // namespace kernel

// By Device::Type; null where there is no such device. That of the CPU notes calls while a region is
// recorded (call/recording.h).
extern const kernel::Table* kernel_tables[];
extern const kernel::Table cpu_table;

// The kernels for a tensor, which from here on run on its device.
inline const kernel::Table& on(Device device) {
  if (device.type == Device::CUDA) [[unlikely]]
    cuda::use(device.index);
  return *kernel_tables[device.type];
}
inline const kernel::Table& on(const Tensor* t) { return on(t->device()); }
inline const kernel::Table& on(const Var& v) { return on(v.get()); }
// The element type in which layers hand a tensor to their kernels.
inline DType layer_type(const Var& x) { return on(x).halves ? x.dtype() : compute_type(x.dtype()); }
inline const kernel::Table& on_host() { return cpu_table; }

}  // namespace rl
