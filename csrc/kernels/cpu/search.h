// Searching in sorted rows, and counting. Contiguous memory; any dtype but the complex ones.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// For each of `count` values per row the first place in its row (of `length`) that is not less,
// or greater when `right`. One row serves all when `rows` is 1. With a sorter (of the row's shape)
// the row is read through it. `index` is I64 or I32.
void search_sorted(DType d, const void* row, const int64_t* sorter, const void* values,
                   DType index_type, void* index, int64_t rows, int64_t length, int64_t count,
                   bool right);

// y[x[i]] += weight[i], or 1 where `weights` is null: y is F32 or F64 like the weights, else I64.
void bincount(const int64_t* x, DType weight_type, const void* weights, void* y, int64_t n);

// Adds to the counts of the values in `bins` equal parts of [low, high], the last one closed. F32
// and F64.
void histogram(DType d, const void* x, int64_t* counts, int64_t n, int64_t bins, double low,
               double high);

}  // namespace rl::cpu
