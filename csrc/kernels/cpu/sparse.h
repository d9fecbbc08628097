// Products with a sparse matrix: entries k at (row[k], column[k]) with a value each.
#pragma once

#include <vector>

#include "tensor/dtype.h"

namespace rl::cpu {

// Entries by the line they lie in: those of line i are order[begin[i]] to order[begin[i + 1] - 1],
// or these numbers themselves where `order` is empty.
struct Lines {
  std::vector<int64_t> begin, order;
};

// The entries with these lines, each in [0, lines).
Lines lines_of(const int64_t* line, int64_t entries, int64_t lines);

// y[i] = sum over the entries k of line i of value[k] * x[other[k]], for rows of `width` numbers.
// An entry whose `other` is outside [0, rows) makes the result false.
bool sparse_product(DType d, const int64_t* begin, const int64_t* order, int64_t lines,
                    const int64_t* other, const void* value, const void* x, int64_t rows,
                    int64_t width, void* y);

// out[k] = sum over j of a[row[k]][j] * b[column[k]][j]; the places were checked.
void sampled_product(DType d, const int64_t* row, const int64_t* column, int64_t entries,
                     const void* a, const void* b, int64_t width, void* out);

}  // namespace rl::cpu
