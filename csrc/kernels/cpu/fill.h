// One value into many places.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// out[i] = *value for i in [0, n); value has out's dtype, the stride is in bytes.
void fill(DType d, void* out, int64_t stride_bytes, int64_t n, const void* value);

}  // namespace rl::cpu
