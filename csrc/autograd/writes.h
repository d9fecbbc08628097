// In-place writes to parts of a storage, so that what was saved of another part stays valid.
#pragma once

#include "tensor/tensor.h"

namespace rl {

// Notes that t, at the storage's present version, was written. Whole-storage writes end the log:
// nothing saved before them is valid.
void log_write(const Tensor* t, const char* op);

// A write after version `since` that touched t's elements.
struct Overwrite {
  bool found = false;
  const char* op = nullptr;
  const Where* where = nullptr;
};
Overwrite find_overwrite(const Tensor* t, uint32_t since);

// Before t's memory becomes another: what was saved of t and written since stays invalid. Where the
// change counts as a write, all that was saved of t becomes so.
void note_swap(Tensor* t, Storage* now, bool counts = false);

}  // namespace rl
