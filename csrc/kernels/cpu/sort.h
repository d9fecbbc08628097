// Sorting and selection along contiguous rows; any dtype but the complex ones. NaN counts as the
// greatest value, equal values keep their order.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// values and indices are rows x cols; in is not one of them. Stable in both directions.
void sort_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               bool descending);

// The k greatest (or least) of each row, best first; of equal values the lowest index first.
void topk_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               int64_t k, bool largest);

}  // namespace rl::cpu
