// The devices.
#include "kernels/cpu/kernels.h"
#include "kernels/kernels.h"

namespace rl {

const kernel::Table cpu_table = {
#define KERNEL(Result, name, parameters) .name = cpu::name,
#include "kernels/table.def"
#undef KERNEL
};

namespace {

// ---- meta: shapes without elements. Kernels have nothing to do and find nothing amiss.

template <class R, class... A>
R nothing(A...) {
  return R();
}

// What a result's shape, or the program, depends on.
template <class R, class... A>
R refused(A...) {
  fail_as(PyExc_NotImplementedError,
          "Cannot copy out of meta tensor; no data! The result depends on the elements, and a meta "
          "tensor is a shape and a dtype alone.");
}

// Not null, and nothing lies there: who reads or writes it is found out at once.
void* no_memory(size_t) { return reinterpret_cast<void*>(64); }

constexpr kernel::Table meta_table = [] {
  kernel::Table table = {
#define KERNEL(Result, name, parameters) .name = nothing,
#include "kernels/table.def"
#undef KERNEL
  };
  table.allocate = no_memory;
  table.read = refused;
  table.nonzero = refused;
  table.range = refused;
  return table;
}();

}  // namespace

const kernel::Table* kernel_tables[] = {&cpu_table, nullptr, &meta_table};

}  // namespace rl
