// copy_strided: orders the dimensions, cuts the work into two-dimensional tiles and runs them.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int kMaxDims = 64;
constexpr int64_t kParallelBytes = 256 << 10;  // below this one thread is as quick
constexpr int64_t kChunkBytes = 32 << 10, kCrossedBytes = 128 << 10;  // of a tile
constexpr int64_t kBlockItems = 2048;  // of a conversion, so that its buffers stay in L1

struct Dim {
  int64_t size, out, in;
};

struct Plan {
  DType to, from;
  int ndim;  // at least 2: the last two are the tile's
  Dim dims[kMaxDims + 2];
};

// One tile of equal dtypes or not; the buffers make any layout contiguous for convert_unit.
void copy_tile(const Plan& plan, char* out, const char* in, int64_t outer, int64_t inner) {
  const Dim &row = plan.dims[plan.ndim - 2], &col = plan.dims[plan.ndim - 1];
  int64_t to_size = itemsize(plan.to), from_size = itemsize(plan.from);
  if (plan.to == plan.from) {
    move2d(to_size, out, row.out, col.out, in, row.in, col.in, outer, inner);
    return;
  }
  alignas(64) char in_block[kBlockItems * 16], out_block[kBlockItems * 16];
  int64_t width = std::min(inner, row.in == from_size ? int64_t(64) : kBlockItems);
  int64_t height = std::min(outer, kBlockItems / width);
  for (int64_t i = 0; i < outer; i += height) {
    int64_t h = std::min(height, outer - i);
    for (int64_t j = 0; j < inner; j += width) {
      int64_t w = std::min(width, inner - j);
      const char* x = in + i * row.in + j * col.in;
      char* y = out + i * row.out + j * col.out;
      bool x_flat = col.in == from_size && (h == 1 || row.in == w * from_size);
      bool y_flat = col.out == to_size && (h == 1 || row.out == w * to_size);
      if (!x_flat) {
        move2d(from_size, in_block, w * from_size, from_size, x, row.in, col.in, h, w);
      }
      convert_unit(plan.to, y_flat ? y : out_block, plan.from, x_flat ? x : in_block, h * w);
      if (!y_flat) move2d(to_size, y, row.out, col.out, out_block, w * to_size, to_size, h, w);
    }
  }
}

// Orders the dimensions by out's strides and merges neighbours that run on from each other.
void order(Plan& plan, const int64_t* out_strides, const int64_t* in_strides, const int64_t* sizes,
           int ndim) {
  Dim* dims = plan.dims;
  int count = 0;
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 1) continue;
    Dim dim{sizes[d], out_strides[d], in_strides[d]};
    int at = count++;
    for (; at > 0 && std::abs(dims[at - 1].out) < std::abs(dim.out); --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int kept = 0;
  for (int d = 0; d < count; ++d) {
    Dim& last = dims[kept > 0 ? kept - 1 : 0];
    const Dim& dim = dims[d];
    if (kept > 0 && last.out == dim.out * dim.size && last.in == dim.in * dim.size) {
      last = {last.size * dim.size, dim.out, dim.in};
    } else {
      dims[kept++] = dim;
    }
  }
  while (kept < 2) {
    for (int d = kept++; d > 0; --d) dims[d] = dims[d - 1];
    dims[0] = {1, 0, 0};
  }
  // The tile's other dimension is the one along which in runs fastest, if it is not the same.
  int fastest = kept - 1;
  for (int d = kept - 2; d >= 0; --d) {
    int64_t stride = std::abs(dims[d].in);
    if (stride != 0 && dims[d].size >= 4 && stride < std::abs(dims[fastest].in)) fastest = d;
  }
  if (fastest < kept - 2) std::rotate(dims + fastest, dims + fastest + 1, dims + kept - 1);
  plan.ndim = kept;
}

struct Cut {
  int64_t outer, inner;  // tile shape
  int64_t rows, cols;    // tiles along the two dimensions
};

Cut cut_tiles(const Plan& plan, int64_t item) {
  const Dim &row = plan.dims[plan.ndim - 2], &col = plan.dims[plan.ndim - 1];
  bool crossed = std::abs(row.in) < std::abs(col.in) && row.in != 0 && row.size > 1;
  int64_t budget = std::max<int64_t>((crossed ? kCrossedBytes : kChunkBytes) / item, 1);
  Cut cut;
  cut.inner = std::min(col.size, crossed ? std::max<int64_t>(1024 / item, 64) : budget);
  cut.outer = std::min(row.size, std::max<int64_t>(budget / cut.inner, 1));
  cut.cols = (col.size + cut.inner - 1) / cut.inner;
  cut.rows = (row.size + cut.outer - 1) / cut.outer;
  return cut;
}

void run(const Plan& plan, const Cut& cut, char* out, const char* in, int64_t begin, int64_t end) {
  const Dim &row = plan.dims[plan.ndim - 2], &col = plan.dims[plan.ndim - 1];
  for (int64_t task = begin; task < end; ++task) {
    int64_t j = task % cut.cols * cut.inner, rest = task / cut.cols;
    int64_t i = rest % cut.rows * cut.outer;
    rest /= cut.rows;
    char* y = out + i * row.out + j * col.out;
    const char* x = in + i * row.in + j * col.in;
    for (int d = plan.ndim - 3; d >= 0 && rest > 0; --d) {
      int64_t at = rest % plan.dims[d].size;
      rest /= plan.dims[d].size;
      y += at * plan.dims[d].out;
      x += at * plan.dims[d].in;
    }
    copy_tile(plan, y, x, std::min(cut.outer, row.size - i), std::min(cut.inner, col.size - j));
  }
}

}  // namespace

void copy_strided(DType to, void* out, const int64_t* out_strides, DType from, const void* in,
                  const int64_t* in_strides, const int64_t* sizes, int ndim) {
  int64_t items = 1, item = std::max(itemsize(to), itemsize(from));
  for (int d = 0; d < ndim; ++d) items *= sizes[d];
  if (items == 0) return;
  if (ndim <= 1 && items * item <= kChunkBytes) {
    if (ndim == 0 || (out_strides[0] == itemsize(to) && in_strides[0] == itemsize(from))) {
      return convert_unit(to, out, from, in, items);
    }
  }
  Plan plan;
  plan.to = to;
  plan.from = from;
  order(plan, out_strides, in_strides, sizes, ndim);
  Cut cut = cut_tiles(plan, item);
  int64_t tasks = cut.rows * cut.cols;
  for (int d = 0; d < plan.ndim - 2; ++d) tasks *= plan.dims[d].size;
  char* y = static_cast<char*>(out);
  const char* x = static_cast<const char*>(in);
  if (items * item < kParallelBytes) return run(plan, cut, y, x, 0, tasks);
  int64_t grain = std::max<int64_t>(kChunkBytes / item / (cut.outer * cut.inner), 1);
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) { run(plan, cut, y, x, begin, end); });
}

}  // namespace rl::cpu
