// For kernels that run on the host: what they read comes there, what they write goes back.
#pragma once

#include <vector>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

// What a kernel reads.
class In {
 public:
  In(const void* data, int64_t bytes) : here_(data ? size_t(bytes) : 0) {
    if (!here_.empty()) read(here_.data(), data, here_.size());
    there_ = data;
  }
  template <class T = void>
  const T* get() const {
    return there_ ? reinterpret_cast<const T*>(here_.data()) : nullptr;
  }

 private:
  std::vector<char> here_;
  const void* there_;
};

// What it writes, or changes.
class Out {
 public:
  Out(void* data, int64_t bytes, bool changed = false)
      : here_(data ? size_t(bytes) : 0), there_(data) {
    if (changed && !here_.empty()) read(here_.data(), data, here_.size());
  }
  ~Out() noexcept(false) {
    if (!here_.empty()) write(there_, here_.data(), here_.size());
  }
  Out(const Out&) = delete;
  template <class T = void>
  T* get() {
    return there_ ? reinterpret_cast<T*>(here_.data()) : nullptr;
  }

 private:
  std::vector<char> here_;
  void* there_;
};

}  // namespace rl::cuda
