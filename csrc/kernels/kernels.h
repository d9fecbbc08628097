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

// By Device::Type; null where there is no such device. That of the CPU notes calls while a region is
// recorded (call/recording.h).
extern const kernel::Table* kernel_tables[];
extern const kernel::Table cpu_table;

// The kernels for a tensor.
inline const kernel::Table& on(Device device) { return *kernel_tables[device.type]; }
inline const kernel::Table& on(const Tensor* t) { return on(t->device()); }
inline const kernel::Table& on(const Var& v) { return on(v.get()); }
inline const kernel::Table& on_host() { return cpu_table; }

}  // namespace rl
