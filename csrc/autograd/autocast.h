// Mixed precision: what an op's struct says of itself, and the casts of its arguments in a region.
#pragma once

#include "autograd/modes.h"
#include "tensor/tensor.h"

namespace rl {

// Lower: runs in the region's dtype. Full: runs in float32. Widest: in the widest of its arguments'.
// Those of CUDA leave the ops of other devices as they are.
enum class Autocast : uint8_t { None, Lower, Full, Widest, LowerOnCuda, FullOnCuda, WidestOnCuda };

struct AutocastState {
  DType dtype = DType::BF16;
  bool cache = true;
  int nesting = 0;
};
extern constinit thread_local AutocastState autocast_state;

// v as an op that runs in `target` takes it. Only float32 and halves are cast, and those of leaves
// that require grad once in a region.
Var autocast(const Var& v, DType target);
void clear_autocast_cache();

inline bool is_castable(const Var& v) {
  return v && (v.dtype() == DType::F32 || v.dtype() == DType::F16 || v.dtype() == DType::BF16);
}

// The ops that an op with a policy calls have none.
class WithoutAutocast {
 public:
  WithoutAutocast() : before_(modes.autocast) { modes.autocast = false; }
  ~WithoutAutocast() { modes.autocast = before_; }
  WithoutAutocast(const WithoutAutocast&) = delete;

 private:
  bool before_;
};

}  // namespace rl
