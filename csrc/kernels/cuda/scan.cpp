// Scans of [outer, n, inner] along n: a block has a row, or a thread a column.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr char kOps[] = R"(
template <class V> struct Wide {
  typedef int64 type;
};
template <> struct Wide<F16> {
  typedef float type;
};
template <> struct Wide<BF16> {
  typedef float type;
};
template <> struct Wide<float> {
  typedef float type;
};
template <> struct Wide<double> {
  typedef double type;
};
template <> struct Wide<C64> {
  typedef C64 type;
};
template <> struct Wide<C128> {
  typedef C128 type;
};
typedef Wide<T>::type W;
struct Sum {
  typedef W Acc;
  static __device__ Acc none() { return Acc(0); }
  static __device__ Acc take(T x, int64) { return cast<W>(x); }
  static __device__ Acc join(Acc a, Acc b) { return a + b; }
  static __device__ void put(Acc a, U* y, int64*, int64 at) { y[at] = cast<U>(a); }
};
struct Prod : Sum {
  static __device__ Acc none() { return Acc(1); }
  static __device__ Acc join(Acc a, Acc b) { return a * b; }
};
// The last of equals; a NaN stays, the last one.
template <bool Max> struct Extreme {
  struct Acc {
    W value;
    int64 at;
  };
  static __device__ Acc none() {
    Acc a;
    a.value = W(0);
    a.at = -1;
    return a;
  }
  static __device__ Acc take(T x, int64 at) {
    Acc a;
    a.value = cast<W>(x);
    a.at = at;
    return a;
  }
  static __device__ Acc join(Acc a, Acc b) {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    if (b.value != b.value) return b;
    if (a.value != a.value) return a;
    return (Max ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
  static __device__ void put(Acc a, U* y, int64* index, int64 at) {
    y[at] = cast<U>(a.value);
    index[at] = a.at;
  }
};
typedef Extreme<true> Max;
typedef Extreme<false> Min;
)";

constexpr char kLog[] = R"(
struct LogSum {
  struct Acc {
    W most, sum;
  };
  static __device__ Acc none() {
    Acc a;
    a.most = -W(INFINITY);
    a.sum = W(0);
    return a;
  }
  static __device__ Acc take(T x, int64) {
    Acc a;
    a.most = cast<W>(x);
    a.sum = W(1);
    return a;
  }
  static __device__ Acc join(Acc a, Acc b) {
    if (b.sum == 0) return a;
    if (a.sum == 0) return b;
    Acc c;
    c.most = a.most > b.most || a.most != a.most ? a.most : b.most;
    bool flat = c.most == W(INFINITY) || c.most == -W(INFINITY);
    c.sum = a.sum * (flat ? W(a.most == c.most) : exp(a.most - c.most)) +
            b.sum * (flat ? W(b.most == c.most) : exp(b.most - c.most));
    return c;
  }
  static __device__ void put(Acc a, U* y, int64*, int64 at) {
    bool flat = a.most == W(INFINITY) || a.most == -W(INFINITY);
    y[at] = cast<U>(flat ? a.most : a.most + log(a.sum));
  }
};
)";

constexpr char kKernels[] = R"(
typedef Op::Acc Acc;
// Tiles of the block's width; each is scanned in shared memory and goes on from the last. A long row
// has several blocks, which first find what their parts come to (`totals`), then start from there.
extern "C" __global__ void scan_rows(const T* x, U* y, int64* index, int64 n, int reverse,
                                     int64 length, Acc* totals, const Acc* starts) {
  __shared__ __align__(16) char rooms[2][256 * sizeof(Acc)];
  int64 start = int64(blockIdx.x) * n, begin = int64(blockIdx.y) * length;
  int64 end = begin + length < n ? begin + length : n;
  int64 part = int64(blockIdx.x) * gridDim.y + blockIdx.y;
  Acc before = Op::none();
  if (starts && blockIdx.y > 0) before = starts[part - 1];
  for (int64 tile = begin; tile < end; tile += 256) {
    int64 k = tile + threadIdx.x, at = reverse ? n - 1 - k : k;
    Acc a = k < end ? Op::take(x[start + at], at) : Op::none();
    int side = 0;
    ((Acc*)rooms[0])[threadIdx.x] = a;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
      if (int(threadIdx.x) >= step) a = Op::join(((Acc*)rooms[side])[threadIdx.x - step], a);
      side = 1 - side;
      ((Acc*)rooms[side])[threadIdx.x] = a;
      __syncthreads();
    }
    a = Op::join(before, a);
    before = Op::join(before, ((Acc*)rooms[side])[255]);
    if (k < end && !totals) Op::put(a, y, index, start + at);
    __syncthreads();
  }
  if (totals && threadIdx.x == 0) totals[part] = before;
}
// The totals of each row's parts, added up.
extern "C" __global__ void scan_totals(Acc* totals, int64 outer, int64 parts) {
  RL_EACH(row, outer) {
    Acc all = Op::none();
    for (int64 i = row * parts; i < (row + 1) * parts; i++) totals[i] = all = Op::join(all, totals[i]);
  }
}
extern "C" __global__ void scan_columns(const T* x, U* y, int64* index, int64 columns, int64 n,
                                        int64 inner, int reverse) {
  RL_EACH(c, columns) {
    int64 start = c / inner * n * inner + c % inner;
    Acc a = Op::none();
    for (int64 k = 0; k < n; k++) {
      int64 at = reverse ? n - 1 - k : k;
      a = Op::join(a, Op::take(x[start + at * inner], at));
      Op::put(a, y, index, start + at * inner);
    }
  }
}
)";

constexpr int64_t kPart = 8192;   // elements of a row for which a block is worth it
constexpr int64_t kMostAcc = 32;  // bytes

class Scan {
 public:
  Scan(const char* name, const char* more = "") : name_(name), more_(more) {}
  void run(DType t, DType u, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
           int64_t inner, bool reverse = false) {
    if (outer * n * inner == 0) return;
    int at = int(t) * kDTypes + int(u);
    if (inner == 1) return scan_rows(at, t, u, x, y, index, outer, n, reverse);
    launch(columns_.get(at, [&] { return make(t, u, "scan_columns"); }),
           grid_for(outer * inner, 128), 128, x, y, index, outer * inner, n, inner, int(reverse));
  }

 private:
  void scan_rows(int at, DType t, DType u, const void* x, void* y, int64_t* index, int64_t outer,
                 int64_t n, bool reverse) {
    Function rows = rows_.get(at, [&] { return make(t, u, "scan_rows"); });
    void* none = nullptr;
    int64_t parts = std::min<int64_t>(n / kPart, 4 * int64_t(multiprocessors()) / outer);
    if (parts < 2)
      return launch(rows, {unsigned(outer)}, 256, x, y, index, n, int(reverse), n, none, none);
    int64_t length = ((n + parts - 1) / parts + 255) / 256 * 256;
    parts = (n + length - 1) / length;
    Scratch totals(outer * parts * kMostAcc);
    Grid grid{unsigned(outer), unsigned(parts)};
    launch(rows, grid, 256, x, y, index, n, int(reverse), length, totals.get<void>(), none);
    launch(totals_.get(at, [&] { return make(t, u, "scan_totals"); }), grid_for(outer, 64), 64,
           totals.get<void>(), outer, parts);
    launch(rows, grid, 256, x, y, index, n, int(reverse), length, none, totals.get<void>());
  }
  Function make(DType t, DType u, const char* function) const {
    return compiled(concat("typedef ", type_name(t), " T; typedef ", type_name(u), " U;\n", kOps,
                           more_, "typedef ", name_, " Op;\n", kKernels),
                    function);
  }
  const char *name_, *more_;
  Slots<kDTypes * kDTypes> rows_, columns_, totals_;
};

}  // namespace

void cumsum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  static Scan scan("Sum");
  scan.run(in, out, x, y, nullptr, outer, n, inner);
}
void cumprod(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  static Scan scan("Prod");
  scan.run(in, out, x, y, nullptr, outer, n, inner);
}
void suffix_sum(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  static Scan scan("Sum");
  scan.run(d, d, x, y, nullptr, outer, n, inner, true);
}
void cummax_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner) {
  static Scan scan("Max");
  scan.run(d, d, x, y, index, outer, n, inner);
}
void cummin_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner) {
  static Scan scan("Min");
  scan.run(d, d, x, y, index, outer, n, inner);
}
void logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  static Scan scan("LogSum", kLog);
  scan.run(d, d, x, y, nullptr, outer, n, inner);
}

}  // namespace rl::cuda
