// The scope in which a kernel runs.
#pragma once

#include <initializer_list>

#include "tensor/tensor.h"

namespace rl {

// Of kernels of one device over these tensors, whose memory it keeps. While the host computes, other
// Python threads run when the work is worth it; elsewhere a kernel is only asked for here.
class Launch {
 public:
  // work: about the number of additions.
  Launch(double work, std::initializer_list<const Tensor*> tensors) {
    if (work >= kWorth) [[unlikely]]
      unlock(tensors);
  }
  ~Launch() {
    if (state_) [[unlikely]]
      lock();
  }
  Launch(const Launch&) = delete;

 private:
  static constexpr double kWorth = 100000;  // about 20 microseconds
  void unlock(std::initializer_list<const Tensor*> tensors);
  void lock();

  PyThreadState* state_ = nullptr;
  Storage* held_[8];
  int count_ = 0;
};

// Keeps the GIL for a scope whatever the work, so that what is read, changed and stored there is one
// step to other threads.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;

 private:
  bool before_;
};

}  // namespace rl
