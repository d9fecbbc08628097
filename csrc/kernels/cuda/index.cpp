// Elements by index. Indices out of range are noted by the checks (find_...), raised when the host
// next waits for the device, and passed over by the kernels here.
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/layout.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

// A size of 0 along the dimension: the indices are offsets, which were made of checked ones.
constexpr char kMoves[] = R"(
extern "C" __global__ void index_select(const T* x, const int64* index, T* y, int64 n, int64 units,
                                        int64 count, int64 total) {
  RL_EACH(i, total) {
    int64 at = i % units, line = i / units, from = index[line % count];
    if (from < 0) from += n;
    if (uint64(from) < uint64(n)) y[i] = x[(line / count * n + from) * units + at];
  }
}
extern "C" __global__ void index_write(T* y, const int64* index, const T* src, int64 n, int64 units,
                                       int64 count, int64 outer) {
  // One after the other along the index: the last of equal ones stays.
  RL_EACH(i, outer * units) {
    int64 o = i / units, at = i % units;
    for (int64 c = 0; c < count; c++) {
      int64 to = index[c] < 0 ? index[c] + n : index[c];
      if (uint64(to) < uint64(n)) y[(o * n + to) * units + at] = src[(o * count + c) * units + at];
    }
  }
}
// Many indices: the last one that names a line is found first, and writes alone.
extern "C" __global__ void index_forget(uint32* last, const int64* index, int64 n, int64 count) {
  RL_EACH(c, count) {
    int64 to = index[c] < 0 ? index[c] + n : index[c];
    if (uint64(to) < uint64(n)) last[to] = 0;
  }
}
extern "C" __global__ void index_last(uint32* last, const int64* index, int64 n, int64 count) {
  RL_EACH(c, count) {
    int64 to = index[c] < 0 ? index[c] + n : index[c];
    if (uint64(to) < uint64(n)) atomicMax(last + to, uint32(c));
  }
}
extern "C" __global__ void index_write_last(T* y, const int64* index, const T* src,
                                            const uint32* last, int64 n, int64 units, int64 count,
                                            int64 total) {
  RL_EACH(i, total) {
    int64 at = i % units, line = i / units, c = line % count;
    int64 to = index[c] < 0 ? index[c] + n : index[c];
    if (uint64(to) < uint64(n) && last[to] == uint32(c))
      y[(line / count * n + to) * units + at] = src[i];
  }
}
extern "C" __global__ void gather(const char* x, int64 along, const char* index, char* y,
                                  Layout<3> layout, int64 size, int64 n) {
  RL_EACH(i, n) {
    int64 at[3];
    layout.find(i, at);
    int64 from = *(const int64*)(index + at[1]);
    if (from < 0) from += size;
    if (!size || uint64(from) < uint64(size))
      *(T*)(y + at[2]) = *(const T*)(x + at[0] + from * along);
  }
}
extern "C" __global__ void scatter_set(char* y, int64 along, const char* index, const char* src,
                                       Layout<3> layout, int64 size, int64 n) {
  RL_EACH(i, n) {
    int64 at[3];
    layout.find(i, at);
    int64 to = *(const int64*)(index + at[1]);
    if (to < 0) to += size;
    if (!size || uint64(to) < uint64(size))
      *(T*)(y + at[0] + to * along) = *(const T*)(src + at[2]);
  }
}
extern "C" __global__ void triangle(const T* x, T* y, int64 rows, int64 cols, int64 k, int upper,
                                    int64 n) {
  RL_EACH(i, n) {
    int64 c = i % cols, r = i / cols % rows;
    T zero;
    for (int b = 0; b < int(sizeof(T)); b++) ((char*)&zero)[b] = 0;
    y[i] = (upper ? c - r >= k : c - r <= k) ? x[i] : zero;
  }
}
)";

// mode: 1 add, 2 multiply, 3 the larger, 4 the smaller.
constexpr char kJoins[] = R"(
template <class V> struct Mix {
  static __device__ V of(V a, V b, int mode) {
    return mode == 1   ? V(a + b)
           : mode == 2 ? V(a * b)
           : mode == 3 ? (a > b || a != a ? a : b)
                       : (a < b || a != a ? a : b);
  }
};
template <> struct Mix<Bool> {
  static __device__ Bool of(Bool a, Bool b, int mode) {
    return mode == 1 || mode == 3 ? Bool(a || b) : Bool(a && b);
  }
};
#define RL_HALF(H)                                        \
  template <> struct Mix<H> {                             \
    static __device__ H of(H a, H b, int mode) {          \
      return H(Mix<float>::of(float(a), float(b), mode)); \
    }                                                     \
  };
RL_HALF(F16) RL_HALF(BF16) template <class R> struct Mix<Complex<R>> {
  static __device__ Complex<R> of(Complex<R> a, Complex<R> b, int mode) {
    return mode == 1 ? a + b : a * b;
  }
};
// Through the word that an element lies in. Two doubles are no word: a sum goes part by part, a
// product under one of a thousand locks, found by the address.
__device__ uint32 taken[1024];
template <class V, int Size> struct Join {
  static __device__ void run(V* at, V value, int mode) {
    unsigned long long address = (unsigned long long)at;
    uint32* word = (uint32*)(address & ~3ull);
    int shift = int(address & 3) * 8;
    uint32 seen = *word, before;
    do {
      before = seen;
      union {
        V value;
        unsigned short bits;
        uint8 byte;
      } old, now;
      old.bits = 0;
      if (Size == 2) old.bits = (unsigned short)(before >> shift);
      else old.byte = uint8(before >> shift);
      now.bits = 0;
      now.value = Mix<V>::of(old.value, value, mode);
      uint32 mask = (Size == 2 ? 0xffffu : 0xffu) << shift;
      uint32 bits = uint32(Size == 2 ? now.bits : now.byte) << shift;
      seen = atomicCAS(word, before, (before & ~mask) | bits);
    } while (seen != before);
  }
};
template <class V> struct Join<V, 4> {
  static __device__ void run(V* at, V value, int mode) {
    uint32* word = (uint32*)at;
    uint32 seen = *word, before;
    do {
      before = seen;
      union {
        V value;
        uint32 bits;
      } old, now;
      old.bits = before;
      now.value = Mix<V>::of(old.value, value, mode);
      seen = atomicCAS(word, before, now.bits);
    } while (seen != before);
  }
};
template <class V> struct Join<V, 8> {
  static __device__ void run(V* at, V value, int mode) {
    uint64* word = (uint64*)at;
    uint64 seen = *word, before;
    do {
      before = seen;
      union {
        V value;
        uint64 bits;
      } old, now;
      old.bits = before;
      now.value = Mix<V>::of(old.value, value, mode);
      seen = atomicCAS(word, before, now.bits);
    } while (seen != before);
  }
};
template <class V> struct Join<V, 16> {
  static __device__ void run(V* at, V value, int mode) {
    volatile double* part = (volatile double*)at;
    if (mode == 1) {
      atomicAdd((double*)at, value.re);
      atomicAdd((double*)at + 1, value.im);
      return;
    }
    uint32* lock = taken + ((unsigned long long)at >> 4 & 1023);
    for (bool done = false; !done;) {
      if (atomicCAS(lock, 0u, 1u)) continue;
      __threadfence();
      V now = Mix<V>::of(V(part[0], part[1]), value, mode);
      part[0] = now.re;
      part[1] = now.im;
      __threadfence();
      atomicExch(lock, 0u);
      done = true;
    }
  }
};
template <class V> __device__ void join(V* at, V value, int mode) {
  Join<V, sizeof(V)>::run(at, value, mode);
}
__device__ inline void join(float* at, float value, int mode) {
  if (mode == 1) atomicAdd(at, value);
  else Join<float, 4>::run(at, value, mode);
}
__device__ inline void join(double* at, double value, int mode) {
  if (mode == 1) atomicAdd(at, value);
  else Join<double, 8>::run(at, value, mode);
}

extern "C" __global__ void scatter_join(char* y, int64 along, const char* index, const char* src,
                                        Layout<3> layout, int64 size, int64 n, int mode) {
  RL_EACH(i, n) {
    int64 at[3];
    layout.find(i, at);
    int64 to = *(const int64*)(index + at[1]);
    if (to < 0) to += size;
    if (!size || uint64(to) < uint64(size))
      join((T*)(y + at[0] + to * along), *(const T*)(src + at[2]), mode);
  }
}
extern "C" __global__ void index_add(T* y, const int64* index, const T* src, int64 n, int64 inner,
                                     int64 count, int64 total, double alpha) {
  RL_EACH(i, total) {
    int64 at = i % inner, line = i / inner, to = index[line % count];
    if (to < 0) to += n;
    if (uint64(to) >= uint64(n)) continue;
    T value = alpha == 1 ? src[i] : Mix<T>::of(src[i], cast<T>(alpha), 2);
    join(y + (line / count * n + to) * inner + at, value, 1);
  }
}

// One after the other, for sums that come out the same every time: the thread at the first of equal
// targets, which were sorted with where they stood, joins all of them.
extern "C" __global__ void index_targets(const int64* index, int64* targets, int64 n, int64 count) {
  RL_EACH(c, count) {
    int64 to = index[c] < 0 ? index[c] + n : index[c];
    targets[c] = uint64(to) < uint64(n) ? to : -1;
  }
}
extern "C" __global__ void index_add_in_order(T* y, const int64* targets, const int64* order,
                                              const T* src, int64 n, int64 inner, int64 count,
                                              int64 total, double alpha) {
  RL_EACH(i, total) {
    int64 at = i % inner, first = i / inner % count, outer = i / inner / count, to = targets[first];
    if (to < 0 || (first && targets[first - 1] == to)) continue;
    T* place = y + (outer * n + to) * inner + at;
    T sum = *place;
    for (int64 c = first; c < count && targets[c] == to; c++) {
      T value = src[(outer * count + order[c]) * inner + at];
      sum = Mix<T>::of(sum, alpha == 1 ? value : Mix<T>::of(value, cast<T>(alpha), 2), 1);
    }
    *place = sum;
  }
}
extern "C" __global__ void scatter_targets(int64 along, const char* index, int64* targets,
                                           Layout<3> layout, int64 size, int64 n) {
  RL_EACH(i, n) {
    int64 at[3];
    layout.find(i, at);
    int64 to = *(const int64*)(index + at[1]);
    if (to < 0) to += size;
    targets[i] = !size || uint64(to) < uint64(size) ? at[0] + to * along : -1;
  }
}
extern "C" __global__ void scatter_in_order(char* y, const int64* targets, const int64* order,
                                            const char* src, Layout<3> layout, int64 n, int mode) {
  RL_EACH(i, n) {
    int64 to = targets[i];
    if (to < 0 || (i && targets[i - 1] == to)) continue;
    T sum = *(T*)(y + to);
    for (int64 c = i; c < n && targets[c] == to; c++) {
      int64 at[3];
      layout.find(order[c], at);
      sum = Mix<T>::of(sum, *(const T*)(src + at[2]), mode);
    }
    *(T*)(y + to) = sum;
  }
}
)";

constexpr char kNumbers[] = R"(
extern "C" __global__ void find_outside(const int64* index, int64 count, int64 low, int64 high,
                                        int64 size, Fault* fault) {
  RL_EACH(i, count) if (index[i] < low || index[i] >= high) complain(fault, 1, i, index[i], size);
}
extern "C" __global__ void linear_index(const int64* index, int64 count, int64 size, int64 stride,
                                        int add, int64* out) {
  RL_EACH(i, count) {
    int64 k = index[i] < 0 ? index[i] + size : index[i];
    int64 at = uint64(k) < uint64(size) ? k * stride : 0;  // a check has noted the others
    out[i] = add ? out[i] + at : at;
  }
}
extern "C" __global__ void unravel(const int64* flat, int64 n, Layout<1> sizes, int64* out) {
  // sizes.sizes: the tensor's, outermost first.
  RL_EACH(i, n) {
    int64 rest = flat[i];
    for (int d = sizes.ndim - 1; d >= 0; d--) {
      out[d * n + i] = rest % sizes.sizes[d];
      rest /= sizes.sizes[d];
    }
  }
}
extern "C" __global__ void count_none(uint32* counts, const int64* ids, int64 n, int64 rows) {
  RL_EACH(i, n) if (uint64(ids[i]) < uint64(rows)) counts[ids[i]] = 0;
}
extern "C" __global__ void count_ids(uint32* counts, const int64* ids, int64 n, int64 rows) {
  RL_EACH(i, n) if (uint64(ids[i]) < uint64(rows)) atomicAdd(counts + ids[i], uint32(1));
}
extern "C" __global__ void inverse_counts(const uint32* counts, const int64* ids, int64 n,
                                          int64 rows, double* out) {
  RL_EACH(i, n) out[i] = uint64(ids[i]) < uint64(rows) ? 1 / double(counts[ids[i]]) : 0.0;
}
)";

constexpr char kNonzero[] = R"(
extern "C" __global__ void nonzero_count(const T* x, int64 n, int64* counts, int64 chunks) {
  RL_EACH(c, chunks) {
    int64 found = 0;
    for (int64 i = c * 128; i < n && i < (c + 1) * 128; i++) found += bool(cast<Bool>(x[i]));
    counts[c] = found;
  }
}
extern "C" __global__ void nonzero_write(const T* x, int64 n, const int64* starts, int64 chunks,
                                         int64* flat) {
  RL_EACH(c, chunks) {
    int64 at = starts[c];
    for (int64 i = c * 128; i < n && i < (c + 1) * 128; i++)
      if (bool(cast<Bool>(x[i]))) flat[at++] = i;
  }
}
)";

DType bits_of(int64_t size) {
  switch (size) {
    case 1: return DType::U8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    case 8: return DType::I64;
    default: return DType::C128;
  }
}

// The largest element that lines of so many bytes at these places are made of.
int64_t unit_of(int64_t bytes, const void* a, const void* b) {
  uint64_t all = uint64_t(bytes) | uint64_t(a) | uint64_t(b);
  return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

// Sums of what is not exact depend on their order.
bool joins_in_order(DType d) {
  return deterministic_algorithms && (is_floating(d) || is_complex(d));
}

// Where elements go to, in order, and which elements these are.
class Sorted {
 public:
  explicit Sorted(int64_t count) : count_(count), targets_(count * 8), order_(count * 8) {}
  void sort() { sort_rows(DType::I64, targets(), targets(), order(), 1, count_, false); }
  int64_t* targets() const { return targets_.get<int64_t>(); }
  int64_t* order() const { return order_.get<int64_t>(); }

 private:
  int64_t count_;
  Scratch targets_, order_;
};

Layout<3> layout_of(const int64_t* a, const int64_t* b, const int64_t* c, const int64_t* sizes,
                    int ndim, const char* what) {
  const int64_t* strides[] = {a, b, c};
  Layout<3> layout;
  layout.set(strides, sizes, ndim, what);
  return layout;
}

}  // namespace

void index_select(int64_t itemsize, const void* x, const int64_t* index, void* y, int64_t outer,
                  int64_t n, int64_t inner, int64_t count) {
  int64_t bytes = inner * itemsize;
  if (outer * bytes * count == 0) return;
  static Kernel kernel(kMoves, "index_select");
  int64_t unit = unit_of(bytes, x, y), units = bytes / unit, total = outer * count * units;
  launch(kernel.of(bits_of(unit)), grid_for(total, 256), 256, x, index, y, n, units, count, total);
}

void index_write(int64_t itemsize, void* y, const int64_t* index, const void* src, int64_t outer,
                 int64_t n, int64_t inner, int64_t count) {
  int64_t bytes = inner * itemsize;
  if (outer * bytes * count == 0) return;
  static Kernel kernel(kMoves, "index_write");
  int64_t unit = unit_of(bytes, y, src), units = bytes / unit;
  if (count <= 16 || count > UINT32_MAX)
    return launch(kernel.of(bits_of(unit)), grid_for(outer * units, 128), 128, y, index, src, n,
                  units, count, outer);
  static Kernel forget(kMoves, "index_forget"), find(kMoves, "index_last"),
      write(kMoves, "index_write_last");
  Scratch last(n * 4);
  int64_t total = outer * count * units;
  launch(forget.of(DType::U8), grid_for(count, 256), 256, last.get(), index, n, count);
  launch(find.of(DType::U8), grid_for(count, 256), 256, last.get(), index, n, count);
  launch(write.of(bits_of(unit)), grid_for(total, 256), 256, y, index, src, last.get(), n, units,
         count, total);
}

void index_add(DType d, void* y, const int64_t* index, const void* src, int64_t outer, int64_t n,
               int64_t inner, int64_t count, double alpha) {
  int64_t total = outer * inner * count;
  if (total == 0) return;
  if (joins_in_order(d)) {
    static Kernel find(kJoins, "index_targets"), add(kJoins, "index_add_in_order");
    Sorted places(count);
    launch(find.of(d), grid_for(count, 256), 256, index, places.targets(), n, count);
    places.sort();
    return launch(add.of(d), grid_for(total, 256), 256, y, places.targets(), places.order(), src, n,
                  inner, count, total, alpha);
  }
  static Kernel kernel(kJoins, "index_add");
  launch(kernel.of(d), grid_for(total, 256), 256, y, index, src, n, inner, count, total, alpha);
}

void gather(int64_t itemsize, const void* x, const int64_t* x_strides, const int64_t* index,
            const int64_t* index_strides, void* y, const int64_t* y_strides, const int64_t* sizes,
            int ndim, int dim, int64_t dim_size) {
  int64_t n = product(sizes, ndim), still[64];
  if (n == 0) return;
  for (int i = 0; i < ndim; i++) still[i] = i == dim ? 0 : x_strides[i];
  static Kernel kernel(kMoves, "gather");
  Layout<3> layout = layout_of(still, index_strides, y_strides, sizes, ndim, "gather");
  launch(kernel.of(bits_of(itemsize)), grid_for(n, 256), 256, x, ndim ? x_strides[dim] : int64_t(0),
         index, y, layout, dim_size, n);
}

void scatter(DType d, Scatter mode, void* y, const int64_t* y_strides, const int64_t* index,
             const int64_t* index_strides, const void* src, const int64_t* src_strides,
             const int64_t* sizes, int ndim, int dim, int64_t dim_size) {
  int64_t n = product(sizes, ndim), still[64], along = ndim ? y_strides[dim] : 0;
  if (n == 0) return;
  for (int i = 0; i < ndim; i++) still[i] = i == dim ? 0 : y_strides[i];
  Layout<3> layout = layout_of(still, index_strides, src_strides, sizes, ndim, "scatter");
  if (mode == Scatter::Set) {
    static Kernel kernel(kMoves, "scatter_set");
    return launch(kernel.of(bits_of(itemsize(d))), grid_for(n, 256), 256, y, along, index, src,
                  layout, dim_size, n);
  }
  if (joins_in_order(d) && mode != Scatter::Amax && mode != Scatter::Amin) {
    static Kernel find(kJoins, "scatter_targets"), join(kJoins, "scatter_in_order");
    Sorted places(n);
    launch(find.of(d), grid_for(n, 256), 256, along, index, places.targets(), layout, dim_size, n);
    places.sort();
    return launch(join.of(d), grid_for(n, 256), 256, y, places.targets(), places.order(), src,
                  layout, n, int(mode));
  }
  static Kernel kernel(kJoins, "scatter_join");
  launch(kernel.of(d), grid_for(n, 256), 256, y, along, index, src, layout, dim_size, n, int(mode));
}

namespace {
Outside check_range(const int64_t* index, int64_t count, int64_t low, int64_t high, int64_t size) {
  static Kernel kernel(kNumbers, "find_outside");
  if (count)
    launch(kernel.of(DType::I64), grid_for(count, 256), 256, index, count, low, high, size,
           fault_address("a check of indices"));
  return {};
}
}  // namespace

Outside find_out_of_range(const int64_t* index, int64_t count, int64_t size) {
  return check_range(index, count, -size, size, size);
}
Outside find_outside(const int64_t* index, int64_t count, int64_t size) {
  return check_range(index, count, 0, size, size);
}

Range range(const int64_t* x, int64_t n) {
  Scratch both(16);
  amin(DType::I64, x, both.get<int64_t>(), 1, n, 1);
  amax(DType::I64, x, both.get<int64_t>() + 1, 1, n, 1);
  int64_t found[2];
  read(found, both.get<void>(), sizeof found);
  return {found[0], found[1]};
}

// The first false one, of what each is worth as a truth.
Outside find_zero(const int64_t* x, int64_t n) {
  if (n == 0) return {};
  Scratch truths(n), both(16);
  const int64_t bytes[] = {8}, one[] = {1};
  copy_strided(DType::Bool, truths.get(), one, DType::I64, x, bytes, &n, 1);
  min_with_index(DType::Bool, truths.get(), both.get(), both.get<int64_t>() + 1, 1, n, 1);
  int64_t found[2];
  read(found, both.get<void>(), sizeof found);
  bool smallest = found[0] & 1;
  return smallest ? Outside{} : Outside{found[1], 0};
}

int64_t nonzero(DType d, const void* x, int64_t n, int64_t* flat) {
  if (n == 0) return 0;
  static Kernel count(kNonzero, "nonzero_count"), place(kNonzero, "nonzero_write");
  int64_t chunks = (n + 127) / 128, total = 0;
  Scratch room(chunks * 8);
  launch(count.of(d), grid_for(chunks, 128), 128, x, n, room.get<void>(), chunks);
  std::vector<int64_t> starts(static_cast<size_t>(chunks));
  read(starts.data(), room.get<void>(), starts.size() * 8);
  for (int64_t& s : starts) {
    int64_t found = s;
    s = total;
    total += found;
  }
  if (!flat || total == 0) return total;
  write(room.get<void>(), starts.data(), starts.size() * 8);
  launch(place.of(d), grid_for(chunks, 128), 128, x, n, room.get<void>(), chunks, flat);
  return total;
}

void linear_index(const int64_t* index, int64_t count, int64_t size, int64_t stride, bool add,
                  int64_t* out) {
  if (count == 0) return;
  static Kernel kernel(kNumbers, "linear_index");
  launch(kernel.of(DType::I64), grid_for(count, 256), 256, index, count, size, stride, int(add),
         out);
}

void unravel(const int64_t* flat, int64_t n, const int64_t* sizes, int ndim, int64_t* out) {
  if (n == 0 || ndim == 0) return;
  if (ndim > kLayoutDims) fail_dims("nonzero", ndim);
  static Kernel kernel(kNumbers, "unravel");
  Layout<1> shape;
  shape.ndim = ndim;
  for (int i = 0; i < ndim; i++) shape.sizes[i] = sizes[i];
  launch(kernel.of(DType::I64), grid_for(n, 256), 256, flat, n, shape, out);
}

void inverse_counts(const int64_t* ids, int64_t n, int64_t rows, double* out) {
  if (n == 0) return;
  static Kernel none(kNumbers, "count_none"), add(kNumbers, "count_ids"),
      kernel(kNumbers, "inverse_counts");
  Scratch counts(rows * 4);
  launch(none.of(DType::I64), grid_for(n, 256), 256, counts.get(), ids, n, rows);
  launch(add.of(DType::I64), grid_for(n, 256), 256, counts.get(), ids, n, rows);
  launch(kernel.of(DType::I64), grid_for(n, 256), 256, counts.get(), ids, n, rows, out);
}

void triangle(int64_t itemsize, const void* x, void* y, int64_t matrices, int64_t rows,
              int64_t cols, int64_t k, bool upper) {
  int64_t n = matrices * rows * cols;
  if (n == 0) return;
  static Kernel kernel(kMoves, "triangle");
  launch(kernel.of(bits_of(itemsize)), grid_for(n, 256), 256, x, y, rows, cols, k, int(upper), n);
}

}  // namespace rl::cuda
