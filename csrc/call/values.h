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

// What a call asks of its tensors before kernels see them: that they lie on one device, unless the
// op takes any, and that a region which is recorded keeps them. each(f) calls f with all that are
// read; `written` may be null.
template <class Each>
[[gnu::always_inline]] inline void admit(const char* op, const Tensor* written, const Each& each,
                                         bool any_devices = false) {
  if (devices_mix && !any_devices) [[unlikely]] {
    SameDevice same(op);
    if (written) same.need(written);
    each([&](const Tensor* t) { same.add(t); });
  }
  if (recording) [[unlikely]] {
    if (written) recording->hold(written);
    each([](const Tensor* t) { recording->hold(t); });
  }
}
void admit(const OpRecord& op, const Tensor* written, Values args);

}  // namespace rl
