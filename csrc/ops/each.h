// What a runner asks of an op's arguments and results, whatever their types are: tensors, lists of
// tensors, and everything else.
#pragma once

#include <array>

#include "autograd/autocast.h"
#include "autograd/forward.h"
#include "ops/functions.h"

namespace rl::detail {

inline int tensor_count(const Var&) { return 1; }
inline int tensor_count(const Vars& v) { return int(v.size()); }
template <class T>
int tensor_count(const T&) {
  return 0;
}
inline bool any_requires(const Var& v) {
  return v && is_differentiable(v.dtype()) && requires_grad(v.get());
}
inline bool any_requires(const Vars& vars) {
  for (const Var& v : vars)
    if (any_requires(v)) return true;
  return false;
}
template <class T>
bool any_requires(const T&) {
  return false;
}

inline uint32_t cut_of(const Var& v) { return v ? v->cut : 0; }
inline uint32_t cut_of(const Vars& vars) {
  for (const Var& v : vars)
    if (uint32_t cut = cut_of(v)) return cut;
  return 0;
}
template <class T>
uint32_t cut_of(const T&) {
  return 0;
}

// The widest dtype of what a mixed precision region casts.
inline void widen(DType& widest, const Var& v) {
  if (is_castable(v) && v.dtype() != widest) widest = DType::F32;
}
inline void widen(DType& widest, const Vars& vars) {
  for (const Var& v : vars) widen(widest, v);
}
template <class T>
void widen(DType&, const T&) {}

inline Levels levels_in(const Var& v) { return levels_of(v.get()); }
inline Levels levels_in(const Vars& vars) {
  Levels all = 0;
  for (const Var& v : vars) all |= levels_in(v);
  return all;
}
template <class T>
Levels levels_in(const T&) {
  return 0;
}

// The tangent of what has none.
inline Var zeros_like(const Var& v) {
  Var zeros = ops::zeros(v.sizes(), v.dtype(), v->storage->device);
  zeros->wrapped_number = v->wrapped_number;
  return zeros;
}

// f applied to every tensor of an argument, in order.
template <class F>
Var each_tensor(const Var& v, const F& f) {
  return f(v);
}
template <class F>
Vars each_tensor(const Vars& vars, const F& f) {
  Vars all;
  for (const Var& v : vars) all.push_back(f(v));
  return all;
}
template <class T, class F>
const T& each_tensor(const T& value, const F&) {
  return value;
}

inline Var* result_data(Var& v) { return &v; }
inline size_t result_count(Var&) { return 1; }
inline Var* result_data(Vars& v) { return v.data(); }
inline size_t result_count(Vars& v) { return v.size(); }
template <size_t N>
Var* result_data(std::array<Var, N>& v) {
  return v.data();
}
template <size_t N>
size_t result_count(std::array<Var, N>&) {
  return N;
}

template <class R>
constexpr const char* result_kind() {
  if constexpr (std::is_same_v<R, Var>) return "Tensor";
  else if constexpr (std::is_same_v<R, bool>) return "bool";
  else if constexpr (requires(R& r) { result_data(r); }) return "tuple";
  else return "object";
}

}  // namespace rl::detail
