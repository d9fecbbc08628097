// Products of matrices that lie in the first-level cache, as other kernels need them between two
// steps of their own: no packing, no threads.
#pragma once

#include <cstdint>

namespace rl::cpu {

// Elements in a row are padded to a multiple of this.
template <class C>
inline constexpr int64_t kLanes = 64 / int64_t(sizeof(C));
template <class C>
constexpr int64_t pad_lanes(int64_t n) {
  return (n + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
}

// c = a @ b, or c += a @ b when `add`: a is m x k with any strides, b k x n and c m x n have unit
// column strides; n is a multiple of kLanes. For float and double.
template <class C>
void small_gemm(int64_t m, int64_t n, int64_t k, const C* a, int64_t a_row, int64_t a_col,
                const C* b, int64_t b_row, C* c, int64_t c_row, bool add);

}  // namespace rl::cpu
