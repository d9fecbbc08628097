// Which devices tensors can lie on here.
#pragma once

#include "tensor/storage.h"

namespace rl {

// Raises, as torch built without the device does, for all but the CPU and meta; `op` asked for it.
void check_device(Device device, const char* op);

}  // namespace rl
