// Reductions and scans. The input is [outer, n, inner], contiguous; a reduction's output is
// [outer, inner], a scan's has the input's shape. Halves accumulate in float, F32 scans in double.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// Sum times `scale`. `out` is `in`, F32 or F64 for a half, or I64 for a bool or an integer.
void sum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
         double scale = 1);
// Sum in which a NaN counts as 0; not for complex dtypes.
void nansum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
            double scale = 1);
// Product; 1 when n is 0.
void prod(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

// Extremes of real dtypes, n > 0. A NaN propagates.
void amax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
void amin(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
// The first index of the extreme; the first NaN wins.
void argmax(DType d, const void* x, int64_t* index, int64_t outer, int64_t n, int64_t inner);
void argmin(DType d, const void* x, int64_t* index, int64_t outer, int64_t n, int64_t inner);
// The extreme and its first index.
void max_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                    int64_t inner);
void min_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                    int64_t inner);

// Nonzero (NaN too) is true.
void any(DType d, const void* x, bool* y, int64_t outer, int64_t n, int64_t inner);
void all(DType d, const void* x, bool* y, int64_t outer, int64_t n, int64_t inner);
void count_nonzero(DType d, const void* x, int64_t* y, int64_t outer, int64_t n, int64_t inner);

// Variance with divisor max(0, n - correction), and the mean (dtype d) unless `mean` is null.
// Complex input: the mean of |x - mean|^2, y of the real dtype.
void var(DType d, const void* x, void* y, void* mean, int64_t outer, int64_t n, int64_t inner,
         double correction);
// p-norm for any p (0, 1, 2, inf and -inf included); y is of the real dtype. Floating and complex.
void norm(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner, double p);
// log(sum(exp(x))), shifted by the maximum; real floating dtypes. -inf when n is 0.
void logsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

// Scans along n; y is [outer, n, inner].
void cumsum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
void cumprod(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
// Running extreme and its index: the last one among ties, a NaN stays.
void cummax_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner);
void cummin_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner);
// Running log(sum(exp(x))); real floating dtypes.
void logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

}  // namespace rl::cpu
