// The table of a device's kernels of linear algebra, and the way to it.
#pragma once

#include "kernels/kernels.h"
#include "kernels/linalg_arguments.h"

namespace rl {

namespace kernel {
struct LinalgTable {
#define KERNEL(Result, name, parameters) Result(*name) parameters;
#include "kernels/linalg.def"
#undef KERNEL
};
}  // namespace kernel

// As kernel_tables; null where a device has none.
extern const kernel::LinalgTable* linalg_tables[];
extern const kernel::LinalgTable cpu_linalg;
extern const kernel::LinalgTable recording_linalg;  // the CPU's while a region is recorded

// The kernels for a tensor; raises where its device has none.
const kernel::LinalgTable& linalg_on(const Var& v);

}  // namespace rl
