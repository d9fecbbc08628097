// The kernels of CUDA devices (kernels/table.def): those that are there. A kernel that nobody
// defines is found missing when the table is made, and says so when it is called.
#pragma once

#include "kernels/arguments.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/driver.h"
#include "kernels/linalg_arguments.h"

namespace rl::cuda {

using namespace kernel;

#define KERNEL(Result, name, parameters) __attribute__((weak)) Result name parameters;
#include "kernels/table.def"
#undef KERNEL

#define KERNEL(Result, name, parameters) Result name parameters;
#include "kernels/linalg.def"
#undef KERNEL

// Raises for an op that has no kernel for a dtype.
[[noreturn]] void fail_missing(const char* kernel, const DType* d);
[[noreturn]] void fail_out_of_memory(const std::string& text);
// From now on tensors of the device find these kernels.
void use_table();
// The names in table.def, and whether there is one here.
struct KernelState {
  const char* name;
  bool there;
};
const KernelState* kernel_states(int* count);

inline int64_t product(const int64_t* sizes, int ndim) {
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= sizes[i];
  return n;
}

// Whether results must be the same every time.
extern bool deterministic_algorithms;

// Memory for the time of some launches; it goes back to the stream's pool.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : bytes_(size_t(bytes)), data_(allocate(bytes_)) {}
  ~Scratch() { release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  template <class T = char>
  T* get() const {
    return static_cast<T*>(data_);
  }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace rl::cuda
