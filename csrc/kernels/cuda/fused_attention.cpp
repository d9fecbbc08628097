// Attention of halves by one kernel, cuDNN's or ours: scores are made in tiles by the tensor cores and
// never stored.
// A block of four warps takes 64 rows; those of the other side come in tiles, one ahead.
#include "kernels/cuda/fused_attention.h"

#include <algorithm>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

// WIDTH: of the heads, a multiple of 16. TILE: rows of the other side.
constexpr char kText[] = R"(
const int kPitch = WIDTH + 8;  // of a row in shared memory: eight rows touch all banks
const float kLog2e = 1.4426950408889634f;

struct Heads {
  T* data;
  int64 batch, head, row;
  __device__ T* at(int64 b, int64 h) const { return data + b * batch + h * head; }
};
struct Mask {
  const T* data;
  int64 batch, head, row, col;
};
struct Shape {
  int heads, group, queries, keys, width, causal;
  float scale;
};

__device__ inline uint32 shared_address(const void* p) {
  return uint32(__cvta_generic_to_shared(p));
}
__device__ inline void load_matrices(uint32* r, const T* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ inline void load_matrices_turned(uint32* r, const T* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ inline uint32 pack(float low, float high) {
  uint32 r;
  asm("cvt.rn." KIND "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ inline void multiply(float* c, const uint32* a, uint32 b0, uint32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 16 rows and 16 columns of a tile as a left factor; 16 x 16 as two right ones, by rows or turned.
__device__ inline void left(uint32* r, const T* tile, int row, int column) {
  int lane = threadIdx.x & 31;
  load_matrices(r, tile + (row + (lane & 15)) * kPitch + column + (lane >> 4) * 8);
}
__device__ inline void right(uint32* r, const T* tile, int row, int column) {
  int lane = threadIdx.x & 31;
  load_matrices(
      r, tile + (row + (lane & 7) + (lane >> 4) * 8) * kPitch + column + (lane >> 3 & 1) * 8);
}
__device__ inline void right_turned(uint32* r, const T* tile, int row, int column) {
  int lane = threadIdx.x & 31;
  load_matrices_turned(
      r, tile + (row + (lane & 7) + (lane >> 3 & 1) * 8) * kPitch + column + (lane >> 4) * 8);
}

// Rows from `first` on, zeros where there are none.
__device__ inline void fetch(T* tile, const T* from, int64 stride, int first, int rows, int count,
                             int width) {
  for (int i = threadIdx.x; i < count * (WIDTH / 8); i += 128) {
    int row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
    bool there = first + row < rows && column < width;
    const T* at = there ? from + int64(first + row) * stride + column : from;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     shared_address(tile + row * kPitch + column)),
                 "l"(__cvta_generic_to_global(at)), "r"(there ? 16 : 0));
  }
}
__device__ inline void close_fetch() { asm volatile("cp.async.commit_group;"); }
__device__ inline void await_all() { asm volatile("cp.async.wait_group 0;"); }
__device__ inline void await_all_but_one() { asm volatile("cp.async.wait_group 1;"); }

// The sum of products of 16 rows of one tile with all rows of another.
__device__ inline void scores(float (*out)[4], const T* own, int row, const T* other) {
  for (int t = 0; t < TILE / 8; t++)
    for (int e = 0; e < 4; e++) out[t][e] = 0;
#pragma unroll
  for (int k = 0; k < WIDTH; k += 16) {
    uint32 a[4], b[4];
    left(a, own, row, k);
#pragma unroll
    for (int t = 0; t < TILE / 16; t++) {
      right(b, other, t * 16, k);
      multiply(out[2 * t], a, b[0], b[1]);
      multiply(out[2 * t + 1], a, b[2], b[3]);
    }
  }
}
// out += p * tile
__device__ inline void gather(float (*out)[4], const float (*p)[4], const T* tile) {
#pragma unroll
  for (int t = 0; t < TILE / 16; t++) {
    uint32 a[4] = {pack(p[2 * t][0], p[2 * t][1]), pack(p[2 * t][2], p[2 * t][3]),
                   pack(p[2 * t + 1][0], p[2 * t + 1][1]), pack(p[2 * t + 1][2], p[2 * t + 1][3])};
    uint32 b[4];
#pragma unroll
    for (int n = 0; n < WIDTH / 16; n++) {
      right_turned(b, tile, t * 16, n * 16);
      multiply(out[2 * n], a, b[0], b[1]);
      multiply(out[2 * n + 1], a, b[2], b[3]);
    }
  }
}
__device__ inline void put(const float (*x)[4], T* to, int64 stride, int row, int rows, int width,
                           float first, float second) {
  int lane = threadIdx.x & 31;
  for (int n = 0; n < WIDTH / 8; n++) {
    int column = n * 8 + (lane & 3) * 2;
    if (column >= width) continue;
    if (row < rows)
      *(uint32*)(to + int64(row) * stride + column) = pack(x[n][0] * first, x[n][1] * first);
    if (row + 8 < rows)
      *(uint32*)(to + int64(row + 8) * stride + column) = pack(x[n][2] * second, x[n][3] * second);
  }
}
__device__ inline float score_of(float x, const Mask& mask, const T* m, const Shape& s, int query,
                                 int key) {
  if (query >= s.queries || key >= s.keys || (s.causal && key > query)) return -INFINITY;
  x *= s.scale * kLog2e;
  return m ? x + float(m[query * mask.row + key * mask.col]) * kLog2e : x;
}

extern __shared__ __align__(16) char shared_room[];

extern "C" __global__ void __launch_bounds__(128)
    forward(Heads q, Heads k, Heads v, Mask mask, Heads out, float* lse, Shape s) {
  T* tiles = (T*)shared_room;
  T* own = tiles + 4 * TILE * kPitch;
  int h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, lane = threadIdx.x & 31,
      warp = threadIdx.x >> 5;
  int first = int(gridDim.x - 1 - blockIdx.x) * 64;  // those that see most come first
  const T* keys = k.at(b, h / s.group);
  const T* values = v.at(b, h / s.group);
  const T* m = mask.data ? mask.data + b * mask.batch + h * mask.head : 0;
  int end = s.causal && first + 64 < s.keys ? first + 64 : s.keys, count = (end + TILE - 1) / TILE;
  fetch(own, q.at(b, h), q.row, first, s.queries, 64, s.width);
  fetch(tiles, keys, k.row, 0, s.keys, TILE, s.width);
  fetch(tiles + TILE * kPitch, values, v.row, 0, s.keys, TILE, s.width);
  close_fetch();
  float o[WIDTH / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  for (int n = 0; n < WIDTH / 8; n++)
    for (int e = 0; e < 4; e++) o[n][e] = 0;
  int row = first + warp * 16 + (lane >> 2);
  for (int j = 0; j < count; j++) {
    if (j + 1 < count) {
      T* next = tiles + (j + 1 & 1) * 2 * TILE * kPitch;
      fetch(next, keys, k.row, (j + 1) * TILE, s.keys, TILE, s.width);
      fetch(next + TILE * kPitch, values, v.row, (j + 1) * TILE, s.keys, TILE, s.width);
      close_fetch();
      await_all_but_one();
    } else {
      await_all();
    }
    __syncthreads();
    const T* tile = tiles + (j & 1) * 2 * TILE * kPitch;
    float p[TILE / 8][4];
    scores(p, own, warp * 16, tile);
    bool edge = m || (j + 1) * TILE > s.keys || (s.causal && (j + 1) * TILE > first) ||
                first + 64 > s.queries;
    float now[2] = {most[0], most[1]};
#pragma unroll
    for (int t = 0; t < TILE / 8; t++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = j * TILE + t * 8 + (lane & 3) * 2 + (e & 1);
        p[t][e] = edge ? score_of(p[t][e], mask, m, s, row + (e >> 1) * 8, key)
                       : p[t][e] * (s.scale * kLog2e);
        now[e >> 1] = p[t][e] > now[e >> 1] || p[t][e] != p[t][e] ? p[t][e] : now[e >> 1];
      }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      for (int step = 1; step < 4; step *= 2) {
        float other = __shfl_xor_sync(0xffffffffu, now[i], step);
        now[i] = other > now[i] || other != other ? other : now[i];
      }
      float shift = now[i] == -INFINITY ? 0 : now[i], factor = power(most[i] - shift);
      most[i] = now[i];
      sum[i] *= factor;
      for (int n = 0; n < WIDTH / 8; n++) {
        o[n][2 * i] *= factor;
        o[n][2 * i + 1] *= factor;
      }
      for (int t = 0; t < TILE / 8; t++)
        for (int e = 2 * i; e < 2 * i + 2; e++) sum[i] += p[t][e] = power(p[t][e] - shift);
    }
    gather(o, p, tile + TILE * kPitch);
    __syncthreads();
  }
  float factor[2];
  for (int i = 0; i < 2; i++) {
    for (int step = 1; step < 4; step *= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
    factor[i] = sum[i] == 0 ? 0 : 1 / sum[i];
    if ((lane & 3) == 0 && row + i * 8 < s.queries)
      lse[int64(blockIdx.y) * s.queries + row + i * 8] =
          sum[i] == 0 ? INFINITY : most[i] / kLog2e + log(sum[i]);
  }
  put(o, out.at(b, h), out.row, row, s.queries, s.width, factor[0], factor[1]);
}

// sums[row] = the sum of g * out.
extern "C" __global__ void row_sums(Heads g, Heads out, float* sums, Shape s, int64 rows) {
  int64 line = int64(blockIdx.x) * 4 + (threadIdx.x >> 5);
  if (line >= rows) return;
  int64 q = line % s.queries, h = line / s.queries % s.heads, b = line / s.queries / s.heads;
  const T* x = g.at(b, h) + q * g.row;
  const T* y = out.at(b, h) + q * out.row;
  float sum = 0;
  for (int i = threadIdx.x & 31; i < s.width; i += 32) sum += float(x[i]) * float(y[i]);
  sum = warp_all(sum, Plus());
  if ((threadIdx.x & 31) == 0) sums[line] = sum;
}

extern "C" __global__ void __launch_bounds__(128)
    backward_queries(Heads g, Heads q, Heads k, Heads v, Mask mask, const float* lse,
                     const float* sums, Heads gq, Shape s) {
  T* tiles = (T*)shared_room;
  T* own = tiles + 4 * TILE * kPitch;
  T* own_g = own + 64 * kPitch;
  int h = blockIdx.y % s.heads, b = blockIdx.y / s.heads, lane = threadIdx.x & 31,
      warp = threadIdx.x >> 5;
  int first = int(gridDim.x - 1 - blockIdx.x) * 64;
  const T* keys = k.at(b, h / s.group);
  const T* values = v.at(b, h / s.group);
  const T* m = mask.data ? mask.data + b * mask.batch + h * mask.head : 0;
  int end = s.causal && first + 64 < s.keys ? first + 64 : s.keys, count = (end + TILE - 1) / TILE;
  fetch(own, q.at(b, h), q.row, first, s.queries, 64, s.width);
  fetch(own_g, g.at(b, h), g.row, first, s.queries, 64, s.width);
  fetch(tiles, keys, k.row, 0, s.keys, TILE, s.width);
  fetch(tiles + TILE * kPitch, values, v.row, 0, s.keys, TILE, s.width);
  close_fetch();
  float o[WIDTH / 8][4], shift[2], total[2];
  for (int n = 0; n < WIDTH / 8; n++)
    for (int e = 0; e < 4; e++) o[n][e] = 0;
  int row = first + warp * 16 + (lane >> 2);
  for (int i = 0; i < 2; i++) {
    bool there = row + i * 8 < s.queries;
    int64 at = int64(blockIdx.y) * s.queries + row + i * 8;
    shift[i] = there ? lse[at] * kLog2e : 0;
    total[i] = there ? sums[at] : 0;
  }
  for (int j = 0; j < count; j++) {
    if (j + 1 < count) {
      T* next = tiles + (j + 1 & 1) * 2 * TILE * kPitch;
      fetch(next, keys, k.row, (j + 1) * TILE, s.keys, TILE, s.width);
      fetch(next + TILE * kPitch, values, v.row, (j + 1) * TILE, s.keys, TILE, s.width);
      close_fetch();
      await_all_but_one();
    } else {
      await_all();
    }
    __syncthreads();
    const T* tile = tiles + (j & 1) * 2 * TILE * kPitch;
    float p[TILE / 8][4], d[TILE / 8][4];
    scores(p, own, warp * 16, tile);
    scores(d, own_g, warp * 16, tile + TILE * kPitch);
#pragma unroll
    for (int t = 0; t < TILE / 8; t++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = j * TILE + t * 8 + (lane & 3) * 2 + (e & 1);
        float x = score_of(p[t][e], mask, m, s, row + (e >> 1) * 8, key);
        d[t][e] = power(x - shift[e >> 1]) * (d[t][e] - total[e >> 1]);
      }
    gather(o, d, tile);
    __syncthreads();
  }
  put(o, gq.at(b, h), gq.row, row, s.queries, s.width, s.scale, s.scale);
}

extern "C" __global__ void __launch_bounds__(128)
    backward_keys(Heads g, Heads q, Heads k, Heads v, Mask mask, const float* lse,
                  const float* sums, Heads gk, Heads gv, Shape s) {
  T* tiles = (T*)shared_room;
  T* own = tiles + 4 * TILE * kPitch;
  T* own_v = own + 64 * kPitch;
  int key_heads = s.heads / s.group, kh = blockIdx.y % key_heads, b = blockIdx.y / key_heads,
      lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int first = int(blockIdx.x) * 64;
  fetch(own, k.at(b, kh), k.row, first, s.keys, 64, s.width);
  fetch(own_v, v.at(b, kh), v.row, first, s.keys, 64, s.width);
  float ok[WIDTH / 8][4], ov[WIDTH / 8][4];
  for (int n = 0; n < WIDTH / 8; n++)
    for (int e = 0; e < 4; e++) ok[n][e] = ov[n][e] = 0;
  int start = s.causal ? first / TILE : 0, tiles_of_one = (s.queries + TILE - 1) / TILE - start;
  if (tiles_of_one < 0) tiles_of_one = 0;
  int count = tiles_of_one * s.group, key = first + warp * 16 + (lane >> 2);
  auto bring = [&](int j) {
    int h = kh * s.group + j / tiles_of_one, query = (start + j % tiles_of_one) * TILE;
    T* to = tiles + (j & 1) * 2 * TILE * kPitch;
    fetch(to, q.at(b, h), q.row, query, s.queries, TILE, s.width);
    fetch(to + TILE * kPitch, g.at(b, h), g.row, query, s.queries, TILE, s.width);
    close_fetch();
  };
  if (count) bring(0);
  for (int j = 0; j < count; j++) {
    if (j + 1 < count) {
      bring(j + 1);
      await_all_but_one();
    } else {
      await_all();
    }
    __syncthreads();
    const T* tile = tiles + (j & 1) * 2 * TILE * kPitch;
    int h = kh * s.group + j / tiles_of_one, begin = (start + j % tiles_of_one) * TILE;
    const T* m = mask.data ? mask.data + b * mask.batch + h * mask.head : 0;
    int64 line = (int64(b) * s.heads + h) * s.queries;
    float p[TILE / 8][4], d[TILE / 8][4];
    scores(p, own, warp * 16, tile);
    scores(d, own_v, warp * 16, tile + TILE * kPitch);
#pragma unroll
    for (int t = 0; t < TILE / 8; t++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        int query = begin + t * 8 + (lane & 3) * 2 + e;
        bool there = query < s.queries;
        float shift = there ? lse[line + query] * kLog2e : 0, total = there ? sums[line + query] : 0;
#pragma unroll
        for (int i = e; i < 4; i += 2) {
          float x = score_of(p[t][i], mask, m, s, query, key + (i >> 1) * 8);
          p[t][i] = power(x - shift);
          d[t][i] = p[t][i] * (d[t][i] - total);
        }
      }
    gather(ov, p, tile + TILE * kPitch);
    gather(ok, d, tile);
    __syncthreads();
  }
  put(ok, gk.at(b, kh), gk.row, key, s.keys, s.width, s.scale, s.scale);
  put(ov, gv.at(b, kh), gv.row, key, s.keys, s.width, 1, 1);
}
)";

struct Shape {
  int heads, group, queries, keys, width, causal;
  float scale;
};

enum Part { kForward, kSums, kQueries, kKeys, kParts };
const char* const kNames[] = {"forward", "row_sums", "backward_queries", "backward_keys"};

int64_t padded(int64_t width) { return (width + 15) / 16 * 16; }
int64_t tile_for(int64_t width, Part part) { return width <= 64 || part == kForward ? 64 : 32; }
unsigned room_for(int64_t width, Part part) {
  int64_t own = part == kForward ? 1 : 2;
  return unsigned((4 * tile_for(width, part) + own * 64) * (width + 8) * 2);
}

Function function_of(DType d, int64_t width, Part part) {
  static Slots<2 * 8 * kParts> slots;
  int at = (int(d == DType::BF16) * 8 + int(width / 16 - 1)) * kParts + part;
  return slots.get(at, [&] {
    return compiled(
        concat("using T = ", type_name(d), ";\n#define KIND \"", d == DType::BF16 ? "bf16" : "f16",
               "\"\n#define WIDTH ", width, "\n#define TILE ", tile_for(width, part), "\n", kText),
        kNames[part], room_for(width, part));
  });
}

bool aligned(const Heads& h) {
  return uint64_t(h.data) % 16 == 0 && h.batch % 8 == 0 && h.head % 8 == 0 && h.row % 8 == 0;
}

Shape shape_of(const AttentionShape& s) {
  return {int(s.heads),   int(s.heads / s.key_heads),
          int(s.queries), int(s.keys),
          int(s.width),   int(s.causal),
          float(s.scale)};
}

bool suits(DType d, const AttentionShape& s, std::initializer_list<Heads> all) {
  bool good = devices.here().major >= 8 && (d == DType::F16 || d == DType::BF16) &&
              s.width == s.value_width && s.width % 8 == 0 && s.width <= 128 &&
              s.batch * s.heads < 65536 && s.queries < (1 << 30) && s.keys < (1 << 30);
  for (const Heads& h : all) good = good && aligned(h);
  return good;
}

unsigned blocks(int64_t rows) { return unsigned((rows + 63) / 64); }

}  // namespace

bool fused_attention(DType d, const AttentionShape& s, Heads q, Heads k, Heads v, ScoreMask mask,
                     Heads out, void* lse) {
  if (!suits(d, s, {q, k, v, out})) return false;
  if (!mask.data && attend_by_library(d, s, q, k, v, out, lse)) return true;
  int64_t width = padded(s.width);
  Grid grid{blocks(s.queries), unsigned(s.batch * s.heads)};
  launch_shared(function_of(d, width, kForward), grid, 128, room_for(width, kForward), q, k, v,
                mask, out, lse, shape_of(s));
  return true;
}

bool fused_attention_backward(DType d, const AttentionShape& s, Heads g, Heads q, Heads k, Heads v,
                              ScoreMask mask, Heads out, const void* lse, Heads gq, Heads gk,
                              Heads gv) {
  if (!suits(d, s, {g, q, k, v, out, gq, gk, gv})) return false;
  if (!mask.data && attend_backward_by_library(d, s, g, q, k, v, out, lse, gq, gk, gv)) return true;
  int64_t width = padded(s.width), rows = s.batch * s.heads * s.queries;
  Shape shape = shape_of(s);
  Scratch sums(rows * 4);
  float* sum = sums.get<float>();
  launch(function_of(d, width, kSums), {unsigned((rows + 3) / 4)}, 128, g, out, sum, shape, rows);
  Grid queries{blocks(s.queries), unsigned(s.batch * s.heads)};
  launch_shared(function_of(d, width, kQueries), queries, 128, room_for(width, kQueries), g, q, k,
                v, mask, lse, sum, gq, shape);
  Grid keys{blocks(s.keys), unsigned(s.batch * s.key_heads)};
  launch_shared(function_of(d, width, kKeys), keys, 128, room_for(width, kKeys), g, q, k, v, mask,
                lse, sum, gk, gv, shape);
  return true;
}

}  // namespace rl::cuda
