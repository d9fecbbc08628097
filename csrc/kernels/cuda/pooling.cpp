// Pools and resampling: a thread for each result.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr char kPool[] = R"(
struct Shape {
  int64 planes;
  int input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
};
__device__ inline U no_tap() { return sizeof(U) == 1 ? U(255) : U(2147483647); }
__device__ inline int outputs(const Shape& s) { return s.output[0] * s.output[1] * s.output[2]; }
__device__ inline int inputs(const Shape& s) { return s.input[0] * s.input[1] * s.input[2]; }
// A plane, and a place in it. 32 bits are divided ten times as fast as 64.
struct Place {
  int64 plane;
  int at;
  __device__ Place(int64 i, int n) {
    plane = (i >> 32) == 0 ? int64(uint32(i) / uint32(n)) : i / n;
    at = int(i - plane * n);
  }
};
__device__ inline void split(int at, const int* sizes, int* to) {
  int row = at / sizes[2];
  to[2] = at - row * sizes[2];
  to[0] = row / sizes[1];
  to[1] = row - to[0] * sizes[1];
}
// Where a tap of an output lies in its plane; -1: in the padding.
__device__ inline int place_of(const Shape& s, const int* o, const int* k) {
  int at = 0;
  for (int d = 0; d < 3; d++) {
    int p = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padding[d];
    if (p < 0 || p >= s.input[d]) return -1;
    at = at * s.input[d] + p;
  }
  return at;
}
__device__ inline int place_of(const Shape& s, int out, U tap) {
  if (tap == no_tap()) return -1;
  int o[3], k[3];
  split(out, s.output, o);
  split(int(tap), s.kernel, k);
  return place_of(s, o, k);
}

extern "C" __global__ void max_pool(const T* x, T* y, U* taps, Shape s) {
  RL_EACH(i, s.planes * outputs(s)) {
    Place to(i, outputs(s));
    const T* plane = x + to.plane * inputs(s);
    int o[3], k[3], best = -1, found = -1, tap = 0;
    split(to.at, s.output, o);
    A most = A(0);
    for (k[0] = 0; k[0] < s.kernel[0]; k[0]++)
      for (k[1] = 0; k[1] < s.kernel[1]; k[1]++)
        for (k[2] = 0; k[2] < s.kernel[2]; k[2]++, tap++) {
          int at = place_of(s, o, k);
          if (at < 0) continue;
          A v = A(plane[at]);
          if (best < 0 || v > most || v != v) {
            most = v;
            best = at;
            found = tap;
          }
        }
    if (best >= 0) y[i] = plane[best];
    else y[i] = T(-INFINITY);
    taps[i] = best >= 0 ? U(found) : no_tap();
  }
}
extern "C" __global__ void positions(const U* taps, int64* out, Shape s) {
  RL_EACH(i, s.planes * outputs(s)) out[i] = place_of(s, Place(i, outputs(s)).at, taps[i]);
}
extern "C" __global__ void gather(const T* x, const U* taps, T* y, Shape s) {
  RL_EACH(i, s.planes * outputs(s)) {
    Place from(i, outputs(s));
    int at = place_of(s, from.at, taps[i]);
    y[i] = at >= 0 ? x[from.plane * inputs(s) + at] : T(0);
  }
}
// Each element of x collects from the windows that it lies in.
extern "C" __global__ void scatter(const T* y, const U* taps, T* x, Shape s) {
  RL_EACH(i, s.planes * inputs(s)) {
    Place to(i, inputs(s));
    int64 start = to.plane * outputs(s);
    int p[3], low[3], high[3], o[3], k[3];
    split(to.at, s.input, p);
    for (int d = 0; d < 3; d++) {
      p[d] += s.padding[d];
      int reach = (s.kernel[d] - 1) * s.dilation[d];
      low[d] = p[d] > reach ? (p[d] - reach + s.stride[d] - 1) / s.stride[d] : 0;
      high[d] = p[d] / s.stride[d];
      if (high[d] >= s.output[d]) high[d] = s.output[d] - 1;
    }
    A sum = A(0);
    for (o[0] = high[0]; o[0] >= low[0]; o[0]--)
      for (o[1] = high[1]; o[1] >= low[1]; o[1]--)
        for (o[2] = high[2]; o[2] >= low[2]; o[2]--) {
          bool inside = true;
          for (int d = 0; d < 3; d++) {
            int t = p[d] - o[d] * s.stride[d];
            k[d] = s.dilation[d] == 1 ? t : t / s.dilation[d];
            inside = inside && k[d] * s.dilation[d] == t;
          }
          int64 from = start + (o[0] * s.output[1] + o[1]) * s.output[2] + o[2];
          int tap = (k[0] * s.kernel[1] + k[1]) * s.kernel[2] + k[2];
          if (inside && int64(taps[from]) == tap) sum = A(sum + A(y[from]));
        }
    x[i] = T(sum);
  }
}
)";

constexpr char kAdaptive[] = R"(
struct Shape {
  int64 planes;
  int64 input[3], output[3];
};
extern "C" __global__ void adaptive(const T* x, T* y, int64* positions, Shape s) {
  int64 large = s.input[0] * s.input[1] * s.input[2],
        small = s.output[0] * s.output[1] * s.output[2];
  RL_EACH(i, s.planes * small) {
    const T* plane = x + i / small * large;
    int64 o[3] = {i / s.output[2] / s.output[1] % s.output[0], i / s.output[2] % s.output[1],
                  i % s.output[2]};
    int64 from[3], until[3];
    for (int d = 0; d < 3; d++) {
      from[d] = o[d] * s.input[d] / s.output[d];
      until[d] = ((o[d] + 1) * s.input[d] + s.output[d] - 1) / s.output[d];
    }
    int64 best = (from[0] * s.input[1] + from[1]) * s.input[2] + from[2];
    for (int64 a = from[0]; a < until[0]; a++)
      for (int64 b = from[1]; b < until[1]; b++)
        for (int64 c = from[2]; c < until[2]; c++) {
          int64 at = (a * s.input[1] + b) * s.input[2] + c;
          A v = A(plane[at]);
          if (v > A(plane[best]) || v != v) best = at;
        }
    y[i] = plane[best];
    positions[i] = best;
  }
}
)";

// A sum over three lists of (place, weight): for each axis `first`, then places, then weights.
constexpr char kMap[] = R"(
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
typedef Wide<T>::type W;
struct Axis {
  const int* first;
  const int* index;
  const double* weight;
  const int64* divisor;
  int64 from, to;
};
struct Axes {
  Axis axis[3];
};
__device__ inline W factor(const Axis& a, int e) { return a.weight ? W(a.weight[e]) : W(1); }
extern "C" __global__ void map_axes(const T* x, T* y, Axes axes, int64 total) {
  const Axis &a = axes.axis[0], &b = axes.axis[1], &c = axes.axis[2];
  RL_EACH(i, total) {
    int64 k = i % c.to, j = i / c.to % b.to, h = i / c.to / b.to % a.to, p = i / c.to / b.to / a.to;
    const T* plane = x + p * a.from * b.from * c.from;
    W sum = 0;
    for (int e = a.first[h]; e < a.first[h + 1]; e++)
      for (int f = b.first[j]; f < b.first[j + 1]; f++) {
        W row = 0;
        for (int g = c.first[k]; g < c.first[k + 1]; g++)
          row += factor(c, g) *
                 cast<W>(plane[(a.index[e] * b.from + b.index[f]) * c.from + c.index[g]]);
        sum += factor(a, e) * factor(b, f) * row;
      }
    W divisor = W(1);
    if (a.divisor) divisor = divisor * W(a.divisor[h]);
    if (b.divisor) divisor = divisor * W(b.divisor[j]);
    if (c.divisor) divisor = divisor * W(c.divisor[k]);
    y[i] = cast<T>(W(sum / divisor));
  }
}
)";

struct PoolShape {
  int64_t planes;
  int input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
  explicit PoolShape(const Pooling& p) : planes(p.planes) {
    constexpr int64_t kMost = int64_t(1) << 30;
    check(volume(p.input) < kMost && volume(p.output) < kMost && volume(p.kernel) < kMost,
          "max_pool: on CUDA a plane has fewer than 2^30 elements");
    for (size_t i = 0; i < 3; i++) {
      // Steps and gaps beyond the padded plane are never taken.
      int64_t padded = p.input[i] + 2 * p.padding[i];
      check(padded < kMost, "max_pool: on CUDA a padded plane is shorter than 2^30");
      input[i] = int(p.input[i]), output[i] = int(p.output[i]), kernel[i] = int(p.kernel[i]);
      stride[i] = int(std::min(p.stride[i], padded + 1)), padding[i] = int(p.padding[i]);
      dilation[i] = int(std::min(p.dilation[i], padded + 1));
    }
  }
};

DType bits_of(int64_t size) {
  switch (size) {
    case 1: return DType::U8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    default: return DType::I64;
  }
}

struct Axis {
  const int* first;
  const int* index;
  const double* weight;
  const int64_t* divisor;
  int64_t from, to;
};
struct Axes {
  Axis axis[3];
};

// The lists of all axes in one piece of device memory.
class Lists {
 public:
  explicit Lists(const AxisMaps& maps) {
    size_t at[3][4];
    for (size_t i = 0; i < 3; i++) {
      const AxisMap& m = maps[i];
      at[i][0] = add(m.weight);
      at[i][1] = add(m.divisor);
      at[i][2] = add(m.first);
      at[i][3] = add(m.index);
    }
    room_.emplace_back();
    room_.front().reset(new Scratch(int64_t(bytes_.size()) + 1));
    char* base = room_.front()->get<char>();
    write_constants(base, bytes_.data(), bytes_.size());
    for (size_t i = 0; i < 3; i++) {
      const AxisMap& m = maps[i];
      axes.axis[i] = {reinterpret_cast<int*>(base + at[i][2]),
                      reinterpret_cast<int*>(base + at[i][3]),
                      m.weight.empty() ? nullptr : reinterpret_cast<double*>(base + at[i][0]),
                      m.divisor.empty() ? nullptr : reinterpret_cast<int64_t*>(base + at[i][1]),
                      m.input,
                      m.output};
    }
  }
  Axes axes;

 private:
  template <class V>
  size_t add(const std::vector<V>& list) {
    size_t start = (bytes_.size() + 7) / 8 * 8;
    bytes_.resize(start + list.size() * sizeof(V));
    if (!list.empty()) std::memcpy(bytes_.data() + start, list.data(), list.size() * sizeof(V));
    return start;
  }
  std::vector<char> bytes_;
  std::vector<std::unique_ptr<Scratch>> room_;
};

void map_lists(DType d, int64_t planes, const AxisMaps& maps, const void* x, void* y) {
  int64_t total = planes * maps[0].output * maps[1].output * maps[2].output;
  if (total == 0) return;
  static Kernel kernel(kMap, "map_axes");
  Lists lists(maps);
  launch(kernel.of(d), grid_for(total, 256), 256, x, y, lists.axes, total);
}

// For every input the outputs that it takes part in.
AxisMap turned(const AxisMap& m) {
  std::vector<std::vector<std::pair<int32_t, double>>> lists(static_cast<size_t>(m.input));
  for (int64_t j = 0; j < m.output; j++)
    for (int32_t e = m.first[size_t(j)]; e < m.first[size_t(j) + 1]; e++) {
      double w = m.weight.empty() ? 1 : m.weight[size_t(e)];
      if (!m.divisor.empty()) w /= double(m.divisor[size_t(j)]);
      lists[size_t(m.index[size_t(e)])].push_back({int32_t(j), w});
    }
  AxisMap back(m.output, m.input);
  for (auto& list : lists) {
    for (auto [at, w] : list) back.add(at, w);
    back.close();
  }
  return back;
}

}  // namespace

void max_pool(DType d, const Pooling& p, const void* x, void* y, void* taps) {
  int64_t n = p.planes * volume(p.output);
  if (n == 0) return;
  static Kernel2 kernel(kPool, "max_pool");
  launch(kernel.of(d, tap_type(p)), grid_for(n, 256), 256, x, y, taps, PoolShape(p));
}
bool max_pool_gather(DType d, const Pooling& p, const void* x, const void* taps, void* y) {
  int64_t n = p.planes * volume(p.output);
  if (n == 0) return false;
  static Kernel2 kernel(kPool, "gather");
  launch(kernel.of(bits_of(itemsize(d)), tap_type(p)), grid_for(n, 256), 256, x, taps, y,
         PoolShape(p));
  return false;
}
bool max_pool_scatter(DType d, const Pooling& p, const void* y, const void* taps, void* x) {
  int64_t n = p.planes * volume(p.input);
  if (n == 0) return false;
  static Kernel2 kernel(kPool, "scatter");
  launch(kernel.of(d, tap_type(p)), grid_for(n, 256), 256, y, taps, x, PoolShape(p));
  return false;
}
bool max_pool_positions(const Pooling& p, const void* taps, int64_t* positions) {
  int64_t n = p.planes * volume(p.output);
  if (n == 0) return false;
  static Kernel2 kernel(kPool, "positions");
  launch(kernel.of(DType::F32, tap_type(p)), grid_for(n, 256), 256, taps, positions, PoolShape(p));
  return false;
}
void adaptive_max_pool(DType d, int64_t planes, const Extent& input, const Extent& output,
                       const void* x, void* y, int64_t* positions) {
  int64_t n = planes * volume(output);
  if (n == 0) return;
  static Kernel kernel(kAdaptive, "adaptive");
  struct {
    int64_t planes, input[3], output[3];
  } s{planes, {input[0], input[1], input[2]}, {output[0], output[1], output[2]}};
  launch(kernel.of(d), grid_for(n, 256), 256, x, y, positions, s);
}

void map_axes(DType d, int64_t planes, const AxisMaps& axes, const void* x, void* y) {
  map_lists(d, planes, axes, x, y);
}
void map_axes_transposed(DType d, int64_t planes, const AxisMaps& axes, const void* y, void* x) {
  map_lists(d, planes, {turned(axes[0]), turned(axes[1]), turned(axes[2])}, y, x);
}

}  // namespace rl::cuda
