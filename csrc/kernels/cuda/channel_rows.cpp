#include "kernels/cuda/channel_rows.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/kernels.h"

namespace rl::cuda::rows {

namespace {

constexpr unsigned kThreads = 256;

constexpr char kText[] = R"(
template <class V, int N> struct alignas(sizeof(V) * N) Vector { V x[N]; };
typedef Vector<T, LANES> Lanes;
__device__ inline Lanes load(const T* x, int64 at) { return *(const Lanes*)(x + at); }

// A thread has LANES channels, and every row of a block's that is its own; `width` threads side by
// side share a row.
struct Mine {
  int64 channel, row, step;
  bool inside;
  __device__ Mine(int64 channels, int width) {
    int height = int(blockDim.x) / width;
    channel = (int64(blockIdx.x) * width + int(threadIdx.x) % width) * LANES;
    row = int64(blockIdx.y) * height + int(threadIdx.x) / width;
    step = int64(gridDim.y) * height;
    inside = channel < channels;
  }
};
__device__ inline A number(const A* of, int64 at, A otherwise) { return of ? of[at] : otherwise; }

// The numbers of threads that have the same channels, joined in the first of them.
#define RL_JOIN(mine, size, join)                                       \
  for (int half = int(blockDim.x) / 2; half >= width; half /= 2) {      \
    __syncthreads();                                                    \
    if (int(threadIdx.x) < half) join((mine), (mine) + half * (size)); \
  }

const int kMoments = 2 * LANES + 1;
__device__ inline void join_moments(A* a, const A* b) {
  A n = a[0], more = b[0], all = n + more;
  if (more == 0) return;
  a[0] = all;
  for (int e = 0; e < LANES; e++) {
    A apart = b[1 + e] - a[1 + e];
    a[1 + e] += apart * (more / all);
    a[1 + LANES + e] += b[1 + LANES + e] + apart * apart * (n * (more / all));
  }
}
extern "C" __global__ void moments(const T* x, A* parts, int64 rows, int64 channels, int width) {
  __shared__ A room[256 * (2 * LANES + 1)];
  Mine m(channels, width);
  A n = 0, mean[LANES], squares[LANES];
  for (int e = 0; e < LANES; e++) mean[e] = squares[e] = 0;
  if (m.inside)
    for (int64 r = m.row; r < rows; r += m.step) {
      Lanes v = load(x, r * channels + m.channel);
      n += 1;
      A share = A(1) / n;
      for (int e = 0; e < LANES; e++) {
        A value = A(v.x[e]), apart = value - mean[e];
        mean[e] += apart * share;
        squares[e] += apart * (value - mean[e]);
      }
    }
  A* mine = room + int(threadIdx.x) * kMoments;
  mine[0] = n;
  for (int e = 0; e < LANES; e++) mine[1 + e] = mean[e], mine[1 + LANES + e] = squares[e];
  RL_JOIN(mine, kMoments, join_moments)
  if (int(threadIdx.x) >= width || !m.inside) return;
  for (int e = 0; e < LANES; e++) {
    A* to = parts + 3 * ((m.channel + e) * gridDim.y + blockIdx.y);
    to[0] = mine[0];
    to[1] = mine[1 + e];
    to[2] = mine[1 + LANES + e];
  }
}

const int kSums = 2 * LANES + 1;  // odd: threads meet at no bank
__device__ inline void join_sums(A* a, const A* b) {
  for (int e = 0; e < 2 * LANES; e++) a[e] += b[e];
}
extern "C" __global__ void sums(const T* g, const T* x, const A* mean, A* parts, int64 rows,
                                int64 channels, int width) {
  __shared__ A room[256 * (2 * LANES + 1)];
  Mine m(channels, width);
  A middle[LANES], sum[LANES], dot[LANES];
  for (int e = 0; e < LANES; e++) sum[e] = dot[e] = 0;
  if (m.inside) {
    for (int e = 0; e < LANES; e++) middle[e] = mean[m.channel + e];
    for (int64 r = m.row; r < rows; r += m.step) {
      Lanes from = load(g, r * channels + m.channel), of = load(x, r * channels + m.channel);
      for (int e = 0; e < LANES; e++) {
        sum[e] += A(from.x[e]);
        dot[e] += A(from.x[e]) * (A(of.x[e]) - middle[e]);
      }
    }
  }
  A* mine = room + int(threadIdx.x) * kSums;
  for (int e = 0; e < LANES; e++) mine[e] = sum[e], mine[LANES + e] = dot[e];
  RL_JOIN(mine, kSums, join_sums)
  if (int(threadIdx.x) >= width || !m.inside) return;
  for (int e = 0; e < LANES; e++) {
    A* to = parts + 2 * ((m.channel + e) * gridDim.y + blockIdx.y);
    to[0] = mine[e];
    to[1] = mine[LANES + e];
  }
}

extern "C" __global__ void normalize(const T* x, const A* w, const A* b, const A* mean,
                                     const A* rstd, T* y, int64 rows, int64 channels, int width) {
  Mine m(channels, width);
  if (!m.inside) return;
  A middle[LANES], factor[LANES], scale[LANES], shift[LANES];
  for (int e = 0; e < LANES; e++) {
    int64 c = m.channel + e;
    middle[e] = mean[c], factor[e] = rstd[c], scale[e] = number(w, c, 1), shift[e] = number(b, c, 0);
  }
  for (int64 r = m.row; r < rows; r += m.step) {
    Lanes v = load(x, r * channels + m.channel);
    for (int e = 0; e < LANES; e++)
      v.x[e] = T((A(v.x[e]) - middle[e]) * factor[e] * scale[e] + shift[e]);
    *(Lanes*)(y + r * channels + m.channel) = v;
  }
}
extern "C" __global__ void input_gradient(const T* g, const T* x, const A* w, const A* mean,
                                          const A* rstd, const A* sums, T* gx, int64 rows,
                                          int64 channels, int width, int given) {
  Mine m(channels, width);
  if (!m.inside) return;
  A middle[LANES], factor[LANES], scale[LANES], shift[LANES], slope[LANES];
  for (int e = 0; e < LANES; e++) {
    int64 c = m.channel + e;
    A r = rstd[c];
    middle[e] = mean[c], factor[e] = r, scale[e] = number(w, c, 1);
    shift[e] = given ? A(0) : sums[2 * c] / A(rows);
    slope[e] = given ? A(0) : sums[2 * c + 1] * r * r / A(rows);
  }
  for (int64 r = m.row; r < rows; r += m.step) {
    Lanes v = load(g, r * channels + m.channel), of = load(x, r * channels + m.channel);
    for (int e = 0; e < LANES; e++)
      v.x[e] = T(factor[e] *
                 (A(v.x[e]) * scale[e] - shift[e] - (A(of.x[e]) - middle[e]) * slope[e]));
    *(Lanes*)(gx + r * channels + m.channel) = v;
  }
}
)";

// By the logarithm of the lanes.
const char* text_of(int at) {
  static const std::string texts[] = {
      std::string("#define LANES 1\n") + kText, std::string("#define LANES 2\n") + kText,
      std::string("#define LANES 4\n") + kText, std::string("#define LANES 8\n") + kText};
  return texts[at].c_str();
}

class Rows {
 public:
  explicit Rows(const char* name)
      : kernels_{{text_of(0), name}, {text_of(1), name}, {text_of(2), name}, {text_of(3), name}} {}

  // What lies at multiples of 16 bytes is read so.
  Function of(DType d, int64_t channels, uint64_t addresses) {
    return kernels_[wide(d, channels) && addresses % 16 == 0 ? log_lanes(d) : 0].of(d);
  }
  static int lanes(DType d, int64_t channels, uint64_t addresses) {
    return wide(d, channels) && addresses % 16 == 0 ? 1 << log_lanes(d) : 1;
  }

 private:
  static int log_lanes(DType d) { return itemsize(d) == 8 ? 1 : itemsize(d) == 4 ? 2 : 3; }
  static bool wide(DType d, int64_t channels) { return channels % (1 << log_lanes(d)) == 0; }
  Kernel kernels_[4];
};

// Blocks side by side, and threads of one that share a row.
struct Cut {
  int width = 1;
  unsigned across;
  int64_t height;
  Cut(int lanes, int64_t channels) {
    int64_t vectors = (channels + lanes - 1) / lanes;
    while (width < 32 && width * 2 <= vectors) width *= 2;
    across = unsigned((vectors + width - 1) / width);
    height = kThreads / width;
  }
  // So many blocks below each other that a thread has about `each` rows and the device is full.
  int down(int64_t rows, int64_t each, int64_t per_processor) const {
    int64_t most = std::max<int64_t>(multiprocessors() * per_processor / across, 1);
    return int(std::clamp<int64_t>(rows / (height * each), 1, most));
  }
};

}  // namespace

int parts(DType d, int64_t rows, int64_t channels) {
  return Cut(Rows::lanes(d, channels, 0), channels).down(rows, 16, 8);
}

void moments(DType d, const void* x, void* parts, int count, int64_t rows, int64_t channels) {
  static Rows kernel("moments");
  Cut cut(Rows::lanes(d, channels, uint64_t(x)), channels);
  launch(kernel.of(d, channels, uint64_t(x)), {cut.across, unsigned(count)}, kThreads, x, parts,
         rows, channels, cut.width);
}

void sums(DType d, const void* g, const void* x, const void* mean, void* parts, int count,
          int64_t rows, int64_t channels) {
  static Rows kernel("sums");
  uint64_t addresses = uint64_t(g) | uint64_t(x);
  Cut cut(Rows::lanes(d, channels, addresses), channels);
  launch(kernel.of(d, channels, addresses), {cut.across, unsigned(count)}, kThreads, g, x, mean,
         parts, rows, channels, cut.width);
}

void normalize(DType d, const void* x, const void* w, const void* b, const void* mean,
               const void* rstd, void* y, int64_t rows, int64_t channels) {
  static Rows kernel("normalize");
  uint64_t addresses = uint64_t(x) | uint64_t(y);
  Cut cut(Rows::lanes(d, channels, addresses), channels);
  launch(kernel.of(d, channels, addresses), {cut.across, unsigned(cut.down(rows, 4, 32))}, kThreads,
         x, w, b, mean, rstd, y, rows, channels, cut.width);
}

void input_gradient(DType d, const void* g, const void* x, const void* w, const void* mean,
                    const void* rstd, const void* sums, void* gx, int64_t rows, int64_t channels,
                    bool given) {
  static Rows kernel("input_gradient");
  uint64_t addresses = uint64_t(g) | uint64_t(x) | uint64_t(gx);
  Cut cut(Rows::lanes(d, channels, addresses), channels);
  launch(kernel.of(d, channels, addresses), {cut.across, unsigned(cut.down(rows, 4, 32))}, kThreads,
         g, x, w, mean, rstd, sums, gx, rows, channels, cut.width, int(given));
}

}  // namespace rl::cuda::rows
