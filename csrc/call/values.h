// The tensors among the arguments of a call.
#pragma once

#include "call/call.h"

namespace rl {

inline const Var& tensor(const void* value) { return *static_cast<const Var*>(value); }
inline const Vars& tensors(const void* value) { return *static_cast<const Vars*>(value); }

template <class F>
[[gnu::always_inline]] inline void each_tensor(const OpRecord& op, Values args, const F& f) {
  for (int k = 0; k < op.tensor_count; k++) {
    int i = op.tensors[k];
    if (op.holds[i] == Holds::Tensor) f(tensor(args[i]));
    else
      for (const Var& v : tensors(args[i])) f(v);
  }
}

}  // namespace rl
