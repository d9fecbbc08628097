// Kernels from text: NVRTC compiles them for a device, a folder on disk keeps what it made.
#pragma once

#include <string>

#include "kernels/cuda/driver.h"
#include "tensor/dtype.h"

namespace rl::cuda {

// Where libraries and compiled kernels are looked for; set before the device starts.
void set_folders(const std::string& libraries, const std::string& cache);
const std::string& library_folders();

// A function of the text: compiled, or read from the cache, or already there. The prelude
// (prelude.cpp) goes before it. Raises with the compiler's words. `function` is kept as it is;
// launches may have so many bytes of shared memory.
Function compiled(const std::string& text, const char* function, unsigned shared_bytes = 0);
// The whole text that is compiled for it.
std::string whole_text(const std::string& text);

struct CompilerStats {
  int64_t compiled, from_disk, loaded;
};
CompilerStats compiler_stats();

// How kernels spell a dtype, and the type it computes in ("float" for halves).
const char* type_name(DType d);
const char* compute_name(DType d);

// The functions of one kernel, by a small number that stands for its types. Found in a few
// nanoseconds once it is there.
template <int Count>
class Slots {
 public:
  template <class Make>
  Function get(int at, const Make& make) {
    if (!functions_[at]) [[unlikely]]
      functions_[at] = make();
    return functions_[at];
  }

 private:
  Function functions_[Count] = {};
};

// A kernel of a text for elements of one dtype: `using T = ...; using A = ...;` go before it, A
// being what T computes in.
class Kernel {
 public:
  Kernel(const char* text, const char* function) : text_(text), function_(function) {}
  Function of(DType d) {
    return slots_.get(int(d), [&] { return make(d); });
  }

 private:
  Function make(DType d) const;
  const char* text_;
  const char* function_;
  Slots<kDTypes> slots_;
};

// The same for two dtypes, T and U; A is what T computes in.
class Kernel2 {
 public:
  Kernel2(const char* text, const char* function) : text_(text), function_(function) {}
  Function of(DType t, DType u) {
    return slots_.get(int(t) * kDTypes + int(u), [&] { return make(t, u); });
  }

 private:
  Function make(DType t, DType u) const;
  const char* text_;
  const char* function_;
  Slots<kDTypes * kDTypes> slots_;
};

}  // namespace rl::cuda
