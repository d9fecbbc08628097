// The CUDA device that this thread's kernels, memory and libraries' calls go to. It is that of the
// tensors, and not the one that the program chose: on(x) (kernels/kernels.h) makes it so, and nothing
// has to set it back.
#pragma once

namespace rl::cuda {

extern constinit thread_local int active;  // negative: none yet
void use(int device);

// What the program chose, for tensors of "cuda" without a number: the thread's own.
extern constinit thread_local int chosen;

}  // namespace rl::cuda
