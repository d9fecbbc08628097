// Random fills. Element i depends only on (seed, offset, i): not on the number of threads. Outputs
// are contiguous. Each function returns the number of 128-bit counters it used, by which the caller
// advances the offset.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// Real dtypes, in [from, to): never `to` itself, whatever the rounding.
uint64_t fill_uniform(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double from,
                      double to);

// Real dtypes.
uint64_t fill_normal(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double mean,
                     double std);

// Real dtypes, greater than 0.
uint64_t fill_exponential(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset,
                          double lambda);

// Any dtype; integers in [low, low + range), a range of 0 meaning all 2^64.
uint64_t fill_integers(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, int64_t low,
                       uint64_t range);

// Any dtype; 1 with probability p, else 0.
uint64_t fill_bernoulli(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double p);

// The same with a probability for each element.
uint64_t fill_bernoulli_each(DType d, void* out, const double* p, int64_t n, uint64_t seed,
                             uint64_t offset);

// A random order of 0 .. n - 1.
uint64_t fill_permutation(int64_t* out, int64_t n, uint64_t seed, uint64_t offset);

// rows x cols weights (finite, not negative, a positive one in each row; without replacement at
// least `samples` of them) to rows x samples column indices.
uint64_t multinomial(const double* weights, int64_t rows, int64_t cols, int64_t samples,
                     bool replacement, int64_t* out, uint64_t seed, uint64_t offset);

}  // namespace rl::cpu
