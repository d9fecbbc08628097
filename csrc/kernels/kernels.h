// The table of a device's kernels, and the way to it.
#pragma once

#include "kernels/arguments.h"
#include "kernels/launch.h"

namespace rl {

namespace kernel {
struct Table {
#define KERNEL(Result, name, parameters) Result(*name) parameters;
#include "kernels/table.def"
#undef KERNEL
};
}  // namespace kernel

// By Device::Type; null where there is no such device.
extern const kernel::Table* const kernel_tables[];

// The kernels for a tensor.
inline const kernel::Table& on(Device device) { return *kernel_tables[device.type]; }
inline const kernel::Table& on(const Tensor* t) { return on(t->device()); }
inline const kernel::Table& on(const Var& v) { return on(v.get()); }
inline const kernel::Table& on_host() { return on(kHost); }

}  // namespace rl
