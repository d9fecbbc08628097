#include "kernels/cpu/block.h"

#include <type_traits>

#include "kernels/cpu/half.h"
#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

template <class From, class To>
RL_CLONES void convert(const void* from, void* to, int64_t n) {
  const From* __restrict x = static_cast<const From*>(from);
  To* __restrict y = static_cast<To*>(to);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
}

template <class From>
RL_CLONES void nonzero_block(const void* from, void* to, int64_t n) {
  const From* __restrict x = static_cast<const From*>(from);
  int64_t* __restrict y = static_cast<int64_t*>(to);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != From(0) ? 1 : 0;
}

template <class R>
RL_CLONES void abs_block(const void* from, void* to, int64_t n) {
  const R* __restrict x = static_cast<const R*>(from);
  R* __restrict y = static_cast<R*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = std::hypot(x[2 * i], x[2 * i + 1]);
}

template <class T>
void floats_of(const void* from, void* to, int64_t n) {
  floats_from_halves(static_cast<float*>(to), static_cast<const T*>(from), n);
}
template <class T>
void halves_of(const void* from, void* to, int64_t n) {
  halves_from_floats(static_cast<T*>(to), static_cast<const float*>(from), n);
}

// Which small types are computed as which large one.
template <class Small, class Large>
constexpr bool widens() {
  if constexpr (std::is_same_v<Large, int64_t>)
    return std::is_integral_v<Small> || std::is_same_v<Small, Bool>;
  constexpr bool half = std::is_same_v<Small, F16> || std::is_same_v<Small, BF16>;
  if constexpr (std::is_same_v<Large, float>) return half;
  if constexpr (std::is_same_v<Large, double>) return half || std::is_same_v<Small, float>;
  return std::is_same_v<Small, c64> && std::is_same_v<Large, c128>;
}

}  // namespace

template <class To>
Convert loader(DType d) {
  if (std::is_same_v<To, float> && d == DType::F16) return floats_of<F16>;
  if (std::is_same_v<To, float> && d == DType::BF16) return floats_of<BF16>;
  return visit(d, [](auto zero) -> Convert {
    using From = decltype(zero);
    if constexpr (!std::is_same_v<From, To> && widens<From, To>()) {
      return convert<From, To>;
    }
    return nullptr;
  });
}

template <class From>
Convert storer(DType d) {
  if (std::is_same_v<From, float> && d == DType::F16) return halves_of<F16>;
  if (std::is_same_v<From, float> && d == DType::BF16) return halves_of<BF16>;
  return visit(d, [](auto zero) -> Convert {
    using To = decltype(zero);
    if constexpr (!std::is_same_v<From, To> && widens<To, From>()) return convert<From, To>;
    return nullptr;
  });
}

template Convert loader<int64_t>(DType);
template Convert loader<float>(DType);
template Convert loader<double>(DType);
template Convert loader<c64>(DType);
template Convert loader<c128>(DType);
template Convert storer<int64_t>(DType);
template Convert storer<float>(DType);
template Convert storer<double>(DType);
template Convert storer<c64>(DType);
template Convert storer<c128>(DType);

Convert nonzero_loader(DType d) {
  if (d == DType::Bool) return loader<int64_t>(d);
  return visit(d, [](auto zero) -> Convert { return nonzero_block<decltype(zero)>; });
}

Convert abs_loader(DType d) { return d == DType::C64 ? abs_block<float> : abs_block<double>; }

}  // namespace rl::cpu
