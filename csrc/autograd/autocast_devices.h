// Which devices' ops mixed precision casts for, and to what: the host's and CUDA's have switches of
// their own. `modes.autocast` says whether any is on.
#pragma once

#include "autograd/autocast.h"

namespace rl {

struct DeviceAutocast {
  bool host = false, cuda = false;
  DType cuda_dtype = DType::F16;  // the host's is in autocast_state
};
extern constinit thread_local DeviceAutocast device_autocast;

inline void set_autocast_host(bool on) {
  device_autocast.host = on;
  modes.autocast = on || device_autocast.cuda;
}
inline void set_autocast_cuda(bool on, DType dtype) {
  device_autocast.cuda = on;
  device_autocast.cuda_dtype = dtype;
  modes.autocast = on || device_autocast.host;
}

inline bool autocasts_on(Device device) {
  return modes.autocast &&
         (device.type == Device::CUDA ? device_autocast.cuda : device_autocast.host);
}
// What an op's policy says for a device.
inline Autocast autocast_on(Autocast policy, Device device) {
  if (policy <= Autocast::Widest) return policy;
  if (device.type != Device::CUDA) return Autocast::None;
  return Autocast(int(policy) - int(Autocast::Widest));
}
inline DType autocast_dtype_on(Device device) {
  return device.type == Device::CUDA ? device_autocast.cuda_dtype : autocast_state.dtype;
}

}  // namespace rl
