// The table of CUDA's kernels.
#include <type_traits>

#include "kernels/cuda/kernels.h"
#include "kernels/kernels.h"
#include "kernels/linalg.h"

namespace rl::cuda {

bool deterministic_algorithms = false;

namespace {

inline void note_dtype(const DType*&) {}
template <class First, class... Rest>
void note_dtype(const DType*& found, const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, DType>) {
    if (!found) found = &first;
  }
  note_dtype(found, rest...);
}

template <class Label, class F>
struct Missing;
template <class Label, class R, class... A>
struct Missing<Label, R (*)(A...)> {
  static R run(A... arguments) {
    const DType* d = nullptr;
    note_dtype(d, arguments...);
    fail_missing(Label::text, d);
  }
};

#define KERNEL(Result, name, parameters)       \
  struct Label_##name {                        \
    static constexpr const char* text = #name; \
  };
#include "kernels/table.def"
#undef KERNEL

kernel::Table make_table() {
  kernel::Table table;
  table.halves = true;
  table.channels_last = true;
#define KERNEL(Result, name, parameters) \
  table.name = cuda::name ? cuda::name : Missing<Label_##name, decltype(table.name)>::run;
#include "kernels/table.def"
#undef KERNEL
  return table;
}

}  // namespace

void use_table() {
  static const kernel::Table table = make_table();
  kernel_tables[Device::CUDA] = &table;
  static const kernel::LinalgTable linalg = {
#define KERNEL(Result, name, parameters) .name = cuda::name,
#include "kernels/linalg.def"
#undef KERNEL
  };
  linalg_tables[Device::CUDA] = &linalg;
}

const KernelState* kernel_states(int* count) {
  static const KernelState all[] = {
#define KERNEL(Result, name, parameters) {#name, cuda::name != nullptr},
#include "kernels/table.def"
#undef KERNEL
  };
  *count = int(sizeof all / sizeof *all);
  return all;
}

void fail_missing(const char* kernel, const DType* d) {
  fail_as(PyExc_NotImplementedError, "\"", kernel, "\" not implemented",
          d ? concat(" for '", info(*d).tensor_name, "'") : std::string(),
          " on the device 'cuda': compute it on the CPU, as in x.cpu()");
}

void fail_out_of_memory(const std::string& text) {
  // rushlight.OutOfMemoryError is made in Python.
  PyObject* module = PyImport_ImportModule("rushlight._absent");
  PyObject* type = module ? PyObject_GetAttrString(module, "OutOfMemoryError") : nullptr;
  Py_XDECREF(module);
  if (!type) {
    PyErr_Clear();
    fail(text);
  }
  PyErr_SetString(type, text.c_str());
  Py_DECREF(type);
  throw PythonError{};
}

}  // namespace rl::cuda
