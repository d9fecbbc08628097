// Many gradients in one launch: their norm, their factor, whether all are finite. The host reads
// nothing: what is found stays on the device.
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr int kMost = 120;            // tensors of a launch
constexpr int64_t kChunk = 64 * 256;  // elements of a block

constexpr char kPieces[] = R"(
struct Pieces {
  T* data[120];
  int64 n[120];
  int starts[121];
};
// The elements of this block.
struct Own {
  T* x;
  int64 begin, end;
  __device__ explicit Own(const Pieces& s) {
    int block = blockIdx.x, k = 0;
    while (s.starts[k + 1] <= block) k++;
    x = s.data[k];
    begin = int64(block - s.starts[k]) * 16384;
    end = begin + 16384 < s.n[k] ? begin + 16384 : s.n[k];
  }
};
extern "C" __global__ void scale_all(const Pieces s, const double* factor, float* found) {
  Own own(s);
  A by = factor ? A(*factor) : A(1);
  int bad = 0;
  for (int64 i = own.begin + threadIdx.x; i < own.end; i += blockDim.x) {
    A v = A(own.x[i]);
    if (!(v - v == 0)) bad = 1;
    if (factor) own.x[i] = T(v * by);
  }
  if (bad && found) *found = 1.0f;
}
// kind: 0: how many are not 0; 1, 2: sums of sizes and squares; 3, 4: extremes; 5: sums of powers.
__device__ double joined(double a, double b, int kind) {
  return kind == 3 ? Larger()(a, b) : kind == 4 ? Smaller()(a, b) : a + b;
}
struct Join {
  int kind;
  __device__ double operator()(double a, double b) const { return joined(a, b, kind); }
};
extern "C" __global__ void norm_parts(const Pieces s, double* parts, int kind, double p) {
  Own own(s);
  double none = kind == 4 ? double(INFINITY) : 0, all = none;
  for (int64 i = own.begin + threadIdx.x; i < own.end; i += blockDim.x) {
    double v = fabs(double(A(own.x[i])));
    if (kind == 0) v = v != 0 ? 1 : 0;
    if (kind == 2) v = v * v;
    if (kind == 5) v = pow(v, p);
    all = joined(all, v, kind);
  }
  Join join;
  join.kind = kind;
  all = block_all(all, none, join);
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}
)";

constexpr char kWhole[] = R"(
__device__ double joined(double a, double b, int kind) {
  return kind == 3 ? Larger()(a, b) : kind == 4 ? Smaller()(a, b) : a + b;
}
struct Join {
  int kind;
  __device__ double operator()(double a, double b) const { return joined(a, b, kind); }
};
extern "C" __global__ void norm_whole(const double* parts, int64 n, double* out, int kind,
                                      double p) {
  double none = kind == 4 ? double(INFINITY) : 0, all = none;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) all = joined(all, parts[i], kind);
  Join join;
  join.kind = kind;
  all = block_all(all, none, join);
  if (threadIdx.x != 0) return;
  *out = kind == 2 ? sqrt(all) : kind == 5 ? pow(all, 1 / p) : all;
}
extern "C" __global__ void update_scale(float* scale, int* tracker, const float* found,
                                        float growth, float backoff, int64 interval) {
  if (threadIdx.x != 0) return;
  if (*found != 0) {
    *scale = *scale * backoff;
    *tracker = 0;
    return;
  }
  int good = *tracker + 1;
  if (good == interval) {
    float grown = *scale * growth;
    if (grown - grown == 0) *scale = grown;
    good = 0;
  }
  *tracker = good;
}
)";

struct Pieces {
  void* data[kMost];
  int64_t n[kMost];
  int starts[kMost + 1];
};
static_assert(sizeof(Pieces) < 4000, "what a launch takes along is bounded");

// send(dtype, pieces, blocks) for packs of pieces of one dtype.
template <class Send>
void for_packs(const Piece* pieces, size_t count, const Send& send) {
  Pieces pack{};
  int held = 0;
  DType d = DType::F32;
  auto flush = [&] {
    if (held) send(d, pack, pack.starts[held]);
    held = 0;
  };
  for (size_t i = 0; i < count; i++) {
    const Piece& piece = pieces[i];
    if (piece.n == 0) continue;
    int64_t blocks = (piece.n + kChunk - 1) / kChunk;
    if (held && (held == kMost || piece.dtype != d || pack.starts[held] + blocks > INT32_MAX))
      flush();
    d = piece.dtype;
    pack.starts[0] = 0;
    pack.data[held] = piece.data;
    pack.n[held] = piece.n;
    pack.starts[held + 1] = pack.starts[held] + int(blocks);
    held++;
  }
  flush();
}

}  // namespace

void scale_all(const Piece* pieces, size_t count, const double* factor, float* found) {
  static Kernel kernel(kPieces, "scale_all");
  for_packs(pieces, count, [&](DType d, const Pieces& pack, int blocks) {
    launch(kernel.of(d), {unsigned(blocks)}, 256, pack, factor, found);
  });
}

void norm_all(const Piece* pieces, size_t count, double p, double* out) {
  int kind = p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : std::isinf(p) ? (p > 0 ? 3 : 4) : 5;
  int64_t blocks = 0, at = 0;
  for (size_t i = 0; i < count; i++) blocks += (pieces[i].n + kChunk - 1) / kChunk;
  Scratch parts(blocks * 8);
  static Kernel some(kPieces, "norm_parts"), whole(kWhole, "norm_whole");
  for_packs(pieces, count, [&](DType d, const Pieces& pack, int here) {
    launch(some.of(d), {unsigned(here)}, 256, pack, parts.get<double>() + at, kind, p);
    at += here;
  });
  launch(whole.of(DType::F64), {1}, 256, parts.get<double>(), blocks, out, kind, p);
}

void update_scale(float* scale, int32_t* tracker, const float* found, double growth, double backoff,
                  int64_t interval) {
  static Kernel kernel(kWhole, "update_scale");
  launch(kernel.of(DType::F64), {1}, 32, scale, tracker, found, float(growth), float(backoff),
         interval);
}

}  // namespace rl::cuda
