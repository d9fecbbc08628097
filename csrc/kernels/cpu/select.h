// Order statistics along n of [outer, n, inner], contiguous, n > 0; results are [outer, inner].
// Any dtype but the complex ones. NaN counts as the greatest value.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// The k-th smallest (k from 1) and a position that holds it.
void kth(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n, int64_t inner,
         int64_t k);
// The lower median, by position among equal values; the first NaN when there is one.
void median(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
            int64_t inner);
// The lower median of n elements alone.
void median_value(DType d, const void* x, void* y, int64_t n);
// The most frequent value, the least among equally frequent ones, and a position that holds it.
void mode(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n, int64_t inner);

}  // namespace rl::cpu
