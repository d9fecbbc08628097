// Where the elements of several operands lie, for a kernel that numbers them: dimensions merged,
// strides in bytes. The text of the same struct is part of kernels that use it.
#pragma once

#include <cstdint>

namespace rl::cuda {

inline constexpr int kLayoutDims = 8;  // after merging

[[noreturn]] void fail_dims(const char* what, int ndim);

template <int Operands>
struct Layout {
  int ndim = 0, narrow = 0;    // narrow: positions fit 32 bits
  int64_t sizes[kLayoutDims];  // innermost first
  int64_t strides[kLayoutDims][Operands];

  // Outermost first. The order is by the strides of the first operand.
  void set(const int64_t* const* of, const int64_t* dims, int count, const char* what) {
    int order[64], used = 0;
    for (int i = count - 1; i >= 0; i--) {
      if (dims[i] == 1) continue;
      int at = used++;
      while (at > 0 && of[0][order[at - 1]] > of[0][i]) {
        order[at] = order[at - 1];
        at--;
      }
      order[at] = i;
    }
    ndim = 0;
    for (int k = 0; k < used; k++) {
      int d = order[k];
      bool merges = ndim > 0;
      for (int o = 0; merges && o < Operands; o++)
        merges = of[o][d] == strides[ndim - 1][o] * sizes[ndim - 1];
      if (merges) {
        sizes[ndim - 1] *= dims[d];
        continue;
      }
      if (ndim == kLayoutDims) fail_dims(what, ndim + 1);
      sizes[ndim] = dims[d];
      for (int o = 0; o < Operands; o++) strides[ndim][o] = of[o][d];
      ndim++;
    }
    if (ndim == 0) {
      sizes[0] = 1;
      for (int o = 0; o < Operands; o++) strides[0][o] = of[o] && count ? of[o][count - 1] : 0;
      ndim = 1;
    }
    int64_t n = 1;
    for (int k = 0; k < ndim; k++) n *= sizes[k];
    narrow = n < (int64_t(1) << 31);
  }
};

// A number of the host's, as kernels take it.
struct Bits {
  uint64_t a = 0, b = 0;
};

}  // namespace rl::cuda
