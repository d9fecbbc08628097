#include "kernels/launch.h"

namespace rl {

namespace {
thread_local bool stay_locked = false;
}

Locked::Locked() : before_(std::exchange(stay_locked, true)) {}
Locked::~Locked() { stay_locked = before_; }

void Launch::unlock(std::initializer_list<const Tensor*> tensors) {
  if (stay_locked) return;
  for (const Tensor* t : tensors)
    if (t && t->device() != kHost) return;
  for (const Tensor* t : tensors)
    if (t && count_ < 8) held_[count_++] = retain(t->storage);
  state_ = PyEval_SaveThread();
}

void Launch::lock() {
  PyEval_RestoreThread(state_);
  for (int i = 0; i < count_; i++) release(held_[i]);
}

}  // namespace rl
