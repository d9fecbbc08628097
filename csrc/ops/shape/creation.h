// What the ops that make tensors out of nothing share.
#pragma once

#include "call/op.h"

// Keyword arguments that every factory takes.
#define RL_OPTIONS                                                                          \
  "dtype? dtype=None, object? layout=None, device? device=None, bool requires_grad=False, " \
  "object? pin_memory=None"

namespace rl {

struct Creation_ : NonDifferentiable {
  static constexpr Family family = Family::Creation;
  static constexpr bool method = false;
  static constexpr Stored stored = Stored::Moved;
};

inline Var finish(Var v, bool wants_grad) {
  if (wants_grad) {
    check(is_differentiable(v.dtype()),
          "Only Tensors of floating point and complex dtype can require gradients");
    v->requires_grad = true;
  }
  return v;
}

inline DType chosen(const std::optional<DType>& dtype) { return dtype.value_or(default_dtype()); }
inline Device chosen(const std::optional<Device>& device) {
  return device.value_or(default_device());
}

// Such tensors are a shape alone: no loop over their elements is run.
inline bool without_data(Device device) { return device.type == Device::Meta; }

}  // namespace rl
