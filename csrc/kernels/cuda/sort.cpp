// Order: every row is padded to a power of two and sorted by Batcher's network, by value and then
// by place, so that it is stable.
#include <algorithm>
#include <bit>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Item {
  T value;
  int32 at;
};
template <class V> struct Order {
  static __device__ bool less(V a, V b) { return a < b; }
  static __device__ bool nan(V) { return false; }
};
#define RL_FLOATS(V)                                              \
  template <> struct Order<V> {                                   \
    static __device__ bool less(V a, V b) { return A(a) < A(b); } \
    static __device__ bool nan(V a) { return A(a) != A(a); }      \
  };
RL_FLOATS(F16)
RL_FLOATS(BF16)
RL_FLOATS(float)
RL_FLOATS(double)
    // at < 0: padding, behind all others. A NaN is the greatest.
    __device__ inline bool comes_after(Item a, Item b, int descending) {
  if (a.at < 0 || b.at < 0) return a.at < 0 && b.at >= 0;
  bool nan_a = Order<T>::nan(a.value), nan_b = Order<T>::nan(b.value);
  bool less = nan_b ? !nan_a : !nan_a && Order<T>::less(a.value, b.value);
  bool more = nan_a ? !nan_b : !nan_b && Order<T>::less(b.value, a.value);
  if (less || more) return descending ? less : more;
  return a.at > b.at;
}
__device__ inline void exchange(Item* items, int64 i, int64 j, int descending) {
  Item a = items[i], b = items[j];
  if (comes_after(a, b, descending)) {
    items[i] = b;
    items[j] = a;
  }
}
extern "C" __global__ void load(const T* x, Item* items, int64 rows, int64 cols, int64 width) {
  RL_EACH(i, rows * width) {
    int64 c = i % width, r = i / width;
    Item item;
    if (c < cols) item.value = x[r * cols + c];
    item.at = c < cols ? int32(c) : -1;
    items[i] = item;
  }
}
// One step for all: first the halves of a run are compared end to start, then at a distance.
extern "C" __global__ void step(Item* items, int64 pairs, int64 run, int64 apart, int descending) {
  RL_EACH(p, pairs) {
    int64 group = p / apart, k = p % apart, base = group * 2 * apart;
    int64 i = base + k, j = apart * 2 == run ? base + 2 * apart - 1 - k : i + apart;
    exchange(items, i, j, descending);
  }
}
// Rows of up to 1024, or runs of that many: all steps in shared memory.
extern "C" __global__ void steps(Item* items, int64 width, int64 first_run, int64 last_run,
                                 int descending) {
  __shared__ __align__(16) char room[1024 * sizeof(Item)];
  Item* shared = (Item*)room;
  int64 size = width < 1024 ? width : 1024, start = int64(blockIdx.x) * size;
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) shared[i] = items[start + i];
  __syncthreads();
  for (int64 run = first_run; run <= last_run; run *= 2)
    for (int64 apart = (run < size ? run : size) / 2; apart > 0; apart /= 2) {
      for (int64 p = threadIdx.x; p < size / 2; p += blockDim.x) {
        int64 base = p / apart * 2 * apart, k = p % apart, i = base + k;
        exchange(shared, i, apart * 2 == run ? base + 2 * apart - 1 - k : i + apart, descending);
      }
      __syncthreads();
    }
  for (int64 i = threadIdx.x; i < size; i += blockDim.x) items[start + i] = shared[i];
}
extern "C" __global__ void store(const Item* items, T* values, int64* indices, int64 rows,
                                 int64 width, int64 k) {
  RL_EACH(i, rows * k) {
    Item item = items[i / k * width + i % k];
    values[i] = item.value;
    indices[i] = item.at;
  }
}
)";

// The first k of every row in order.
void sort(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
          int64_t k, bool descending) {
  if (rows * cols * k == 0) return;
  if (is_complex(d)) fail_missing("sort", &d);
  static Kernel load(kText, "load"), step(kText, "step"), steps(kText, "steps"),
      store(kText, "store");
  int64_t width = int64_t(std::bit_ceil(uint64_t(cols)));
  int64_t item = itemsize(d) <= 4 ? 8 : 16, total = rows * width;
  Scratch room(total * item);
  void* items = room.get<void>();
  int down = descending;
  launch(load.of(d), grid_for(total, 256), 256, in, items, rows, cols, width);
  int64_t size = std::min<int64_t>(width, 1024), two = 2;
  if (width > 1)
    launch(steps.of(d), {unsigned(total / size)}, unsigned(std::max<int64_t>(size / 2, 32)), items,
           width, two, size, down);
  for (int64_t run = 2048; run <= width; run *= 2) {
    for (int64_t apart = run / 2; apart >= 1024; apart /= 2)
      launch(step.of(d), grid_for(total / 2, 256), 256, items, total / 2, run, apart, down);
    launch(steps.of(d), {unsigned(total / size)}, 512, items, width, run, run, down);
  }
  launch(store.of(d), grid_for(rows * k, 256), 256, items, values, indices, rows, width, k);
}

constexpr char kSearch[] = R"(
extern "C" __global__ void search(const T* row, const int64* sorter, const T* values, U* index,
                                  int64 rows, int64 length, int64 count, int64 total, int right) {
  RL_EACH(i, total) {
    int64 r = rows == 1 ? 0 : i / count, low = 0, high = length;
    A v = A(values[i]);
    while (low < high) {
      int64 middle = (low + high) / 2;
      A m = A(row[r * length + (sorter ? sorter[r * length + middle] : middle)]);
      bool before = right ? !(m > v) : !(m >= v);  // so that a NaN goes to the end
      if (before) low = middle + 1;
      else high = middle;
    }
    index[i] = U(low);
  }
}
)";

}  // namespace

void sort_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               bool descending) {
  sort(d, in, values, indices, rows, cols, cols, descending);
}
void topk_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               int64_t k, bool largest) {
  sort(d, in, values, indices, rows, cols, k, largest);
}
void search_sorted(DType d, const void* row, const int64_t* sorter, const void* values,
                   DType index_type, void* index, int64_t rows, int64_t length, int64_t count,
                   bool right) {
  int64_t total = rows * count;
  if (total == 0) return;
  static Kernel2 kernel(kSearch, "search");
  launch(kernel.of(d, index_type), grid_for(total, 256), 256, row, sorter, values, index, rows,
         length, count, total, int(right));
}

}  // namespace rl::cuda
