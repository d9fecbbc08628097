// The devices.
#include <type_traits>

#include "kernels/cpu/kernels.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

// No kernel reads memory as a type that it does not know.
void check_computed(const char* kernel, DType d) {
  if (is_stored(d)) [[unlikely]]
    refuse_stored(kernel, d);
}
template <class T>
void check_computed(const char*, const T&) {}

template <auto kernel, class Label>
struct Checked;
template <class R, class... A, R (*kernel)(A...), class Label>
struct Checked<kernel, Label> {
  static constexpr bool has_dtype = (std::is_same_v<A, DType> || ...);
  static R run(A... a) {
    (check_computed(Label::text, a), ...);
    return kernel(a...);
  }
  static constexpr auto chosen = has_dtype ? run : kernel;
};

#define KERNEL(Result, name, parameters)       \
  struct Label_##name {                        \
    static constexpr const char* text = #name; \
  };
#include "kernels/table.def"
#undef KERNEL

}  // namespace

constinit const kernel::Table cpu_table = [] {
  kernel::Table table = {
#define KERNEL(Result, name, parameters) .name = Checked<cpu::name, Label_##name>::chosen,
#include "kernels/table.def"
#undef KERNEL
  };
  table.fill = cpu::fill;
  table.convert = cpu::convert;
  table.copy_strided = cpu::copy_strided;
  return table;
}();

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
