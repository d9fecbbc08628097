#include "kernels/cpu/kernels.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr double kTileWork = 1 << 19;

// Batch dimensions without those of size 1, merged where one runs on into the next.
struct Batch {
  BatchDim dims[kMaxBatchDims];
  int count = 0;
  int64_t items = 1;

  void add(const BatchDim& dim) {
    items *= dim.size;
    if (dim.size == 1) return;
    if (count > 0) {
      BatchDim& last = dims[count - 1];
      bool c_runs_on = dim.summed || last.c == dim.c * dim.size;
      if (last.a == dim.a * dim.size && last.b == dim.b * dim.size && c_runs_on) {
        last = {last.size * dim.size, dim.a, dim.b, dim.c, dim.summed};
        return;
      }
    }
    dims[count++] = dim;
  }
  BatchDim offset(int64_t item) const {
    BatchDim at{0, 0, 0, 0, false};
    for (int d = count - 1; d >= 0; --d) {
      int64_t i = item % dims[d].size;
      item /= dims[d].size;
      at.a += i * dims[d].a;
      at.b += i * dims[d].b;
      at.c += i * dims[d].c;
    }
    return at;
  }
};

const void* advance(const void* data, int64_t elements, int64_t item) {
  return static_cast<const char*>(data) + elements * item;
}

}  // namespace

void gemm_nd(DType dtype, const BatchDim* dims, int ndim, int64_t m, int64_t n, int64_t k,
             double alpha, MatrixRef a, MatrixRef b, double beta, void* c, int64_t c_row_stride) {
  Batch kept, summed;
  for (int i = 0; i < ndim; ++i) (dims[i].summed ? summed : kept).add(dims[i]);
  if (kept.items == 0 || m == 0 || n == 0) return;
  if (summed.items == 0) k = 0;
  // A sum whose terms lie behind one another is one long product.
  if (summed.count == 1 &&
      (k == 0 || (summed.dims[0].a == k * a.col_stride && summed.dims[0].b == k * b.row_stride))) {
    k *= summed.items;
    summed.count = 0;
    summed.items = 1;
  }
  if (kept.count <= 1 && summed.count == 0) {
    BatchDim only = kept.count ? kept.dims[0] : BatchDim{1, 0, 0, 0, false};
    return gemm_batched(dtype, kept.items, m, n, k, alpha, a, only.a, b, only.b, beta, c, only.c,
                        c_row_stride);
  }
  int64_t item = itemsize(dtype);
  auto one = [&](int64_t i) {
    BatchDim at = kept.offset(i);
    for (int64_t j = 0; j < std::max<int64_t>(summed.items, 1); ++j) {
      BatchDim term = summed.offset(j);
      MatrixRef x = a, y = b;
      x.data = advance(a.data, at.a + term.a, item);
      y.data = advance(b.data, at.b + term.b, item);
      gemm(dtype, m, n, k, alpha, x, y, j == 0 ? beta : 1, static_cast<char*>(c) + at.c * item,
           c_row_stride);
    }
  };
  double product = double(m) * double(n) * double(k) + 1;
  double work = product * double(std::max<int64_t>(summed.items, 1));
  if (kept.items < 8 && product >= 2 * kTileWork) {
    for (int64_t i = 0; i < kept.items; ++i) one(i);
    return;
  }
  parallel_for(kept.items, std::max<int64_t>(int64_t(kTileWork / work), 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) one(i);
               });
}

}  // namespace rl::cpu
