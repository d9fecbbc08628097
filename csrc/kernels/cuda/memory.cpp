// Copies, constants and conversions.
#include <algorithm>
#include <cstring>

#include "kernels/cuda/allocator.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/layout.h"
#include "tensor/error.h"

namespace rl::cuda {

void copy_bytes(void* out, const void* in, size_t bytes) {
  if (!bytes || out == in) return;
  // The copy engine is slower than a kernel that takes all of the memory's bandwidth.
  if (bytes >= (size_t(1) << 20) && (uint64_t(out) | uint64_t(in) | bytes) % 16 == 0)
    return copy_blocks(static_cast<char*>(out), 0, static_cast<const char*>(in), 0, int64_t(bytes),
                       1);
  enter();
  ok(driver.copy_on_device(Address(out), Address(in), bytes, stream), "copying on the device");
}

void clear(void* out, size_t bytes) {
  if (!bytes) return;
  enter();
  ok(driver.set_bytes(Address(out), 0, bytes, stream), "clearing device memory");
}

void read(void* host, const void* in, size_t bytes) {
  if (!bytes) return;
  enter();
  if (capture) fail_capturing("a read of elements by the host");
  Result result;
  {
    Others others;  // the driver waits for the stream
    result = driver.copy_to_host(host, Address(in), bytes, stream);
    if (result == 0) result = driver.stream_wait(stream);
  }
  ok(result, "copying to the host");
  raise_faults();
}

void write(void* out, const void* host, size_t bytes) {
  if (!bytes) return;
  enter();
  bool direct = is_pinned(host);
  if (capture && !direct) fail_capturing("a copy out of the host's memory");
  ok(driver.copy_to_device(Address(out), host, bytes, stream), "copying to the device");
  // Pageable memory was read when the call returned.
  if (direct && capture) copies_pinned(host);
  else if (direct) wait_for(stream);
}

bool start_read(void* host, const void* in, size_t bytes) {
  enter();
  if (!is_pinned(host)) return false;
  ok(driver.copy_to_host(host, Address(in), bytes, stream), "copying to the host");
  copies_pinned(host);
  after_launch(0);
  return true;
}

bool start_write(void* out, const void* host, size_t bytes) {
  enter();
  if (!is_pinned(host)) return false;
  ok(driver.copy_to_device(Address(out), host, bytes, stream), "copying to the device");
  copies_pinned(host);
  after_launch(0);
  return true;
}

namespace {

constexpr char kCopy[] = R"(
extern "C" __global__ void fill(T* out, int64 stride, int64 n, Bits bits) {
  T value = *(T*)&bits;
  RL_EACH(i, n) out[i * stride] = value;
}
extern "C" __global__ void copy_blocks(char* out, int64 out_step, const char* in, int64 in_step,
                                       int64 units, int64 count) {
  if (count == 1) {
    RL_EACH(i, units)((T*)out)[i] = ((const T*)in)[i];
    return;
  }
  RL_EACH(i, units * count) {
    int64 block = i / units, at = i % units;
    ((T*)(out + block * out_step))[at] = ((const T*)(in + block * in_step))[at];
  }
}
)";

// Numbers that travel as an argument, so that a recorded launch has them.
constexpr char kConstants[] = R"(
struct Words {
  uint32 word[512];
};
extern "C" __global__ void constants(char* out, const Words words, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x)
    out[i] = char(words.word[i / 4] >> (i % 4 * 8));
}
)";

struct Words {
  uint32_t word[512];
};

// Products and sums are rounded each, as the host rounds them.
constexpr char kRamp[] = R"(
extern "C" __global__ void ramp_whole(T* out, int64 n, int64 first, int64 by) {
  RL_EACH(i, n) out[i] = cast<T>(int64(uint64(first) + uint64(i) * uint64(by)));
}
extern "C" __global__ void ramp(T* out, int64 n, double start, double step, double stop,
                                int64 half) {
  RL_EACH(i, n) {
    double x = i < half ? __dadd_rn(start, __dmul_rn(double(i), step))
                        : __dadd_rn(stop, -__dmul_rn(step, double(n - 1 - i)));
    out[i] = cast<T>(x);
  }
}
)";

constexpr char kConvert[] = R"(
extern "C" __global__ void convert_flat(T* out, const U* in, int64 n) {
  RL_EACH(i, n) out[i] = cast<T>(in[i]);
}
extern "C" __global__ void convert_strided(char* out, const char* in, Layout<2> layout, int64 n) {
  RL_EACH(i, n) {
    int64 at[2];
    layout.find(i, at);
    *(T*)(out + at[0]) = cast<T>(*(const U*)(in + at[1]));
  }
}
)";

}  // namespace

void fail_dims(const char* what, int ndim) {
  fail(what, ": ", ndim, " dimensions that do not lie side by side are more than the device's ",
       "kernels take, ", kLayoutDims, "; call contiguous() first");
}

namespace {

// Turned copies: a tile of 32 x 32 is read along the one dimension and written along the other.
constexpr char kTurn[] = R"(
struct Turn {
  int64 size0, size1, out1, in0, tiles0, tiles1;
};
extern "C" __global__ void turn(char* out, const char* in, Turn t, Layout<2> rest) {
  __shared__ T tile[32][33];
  int lane = threadIdx.x & 31, row = threadIdx.x >> 5;
  int64 b = blockIdx.x, at[2];
  int64 first0 = b % t.tiles0 * 32, first1 = b / t.tiles0 % t.tiles1 * 32;
  rest.find(b / t.tiles0 / t.tiles1, at);
  for (int j = row; j < 32; j += 8)
    if (first0 + j < t.size0 && first1 + lane < t.size1)
      tile[j][lane] = ((const T*)(in + at[1] + (first0 + j) * t.in0))[first1 + lane];
  __syncthreads();
  for (int j = row; j < 32; j += 8)
    if (first1 + j < t.size1 && first0 + lane < t.size0)
      ((T*)(out + at[0] + (first1 + j) * t.out1))[first0 + lane] = tile[lane][j];
}
)";

struct Turn {
  int64_t size0, size1, out1, in0, tiles0, tiles1;
};

// A dtype of as many bytes, whose elements are moved unread.
DType bits_of(int64_t size) {
  switch (size) {
    case 1: return DType::U8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    case 8: return DType::I64;
    default: return DType::C128;
  }
}

}  // namespace

void fill(DType d, void* out, int64_t stride_bytes, int64_t n, const void* value) {
  if (n == 0) return;
  static Kernel kernel(kCopy, "fill");
  Bits bits;
  std::memcpy(&bits, value, size_t(itemsize(d)));
  if (stride_bytes == itemsize(d) && !bits.a && !bits.b) return clear(out, size_t(n * itemsize(d)));
  launch(kernel.of(bits_of(itemsize(d))), grid_for(n, 256), 256, out, stride_bytes / itemsize(d), n,
         bits);
}

void write_constants(void* out, const void* host, size_t bytes) {
  enter();
  if (!capture) return write(out, host, bytes);
  if (bytes > (size_t(1) << 20)) fail_capturing("a table of more than a megabyte");
  static Kernel kernel(kConstants, "constants");
  for (size_t at = 0; at < bytes; at += sizeof(Words)) {
    Words words{};
    size_t here = std::min(sizeof words, bytes - at);
    std::memcpy(&words, static_cast<const char*>(host) + at, here);
    launch(kernel.of(DType::U8), {1}, 256, static_cast<char*>(out) + at, words, int(here));
  }
}

void ramp(DType d, void* out, int64_t n, const Ramp& r) {
  if (n == 0) return;
  static Kernel whole(kRamp, "ramp_whole"), real(kRamp, "ramp");
  if (r.whole) launch(whole.of(d), grid_for(n, 256), 256, out, n, r.first, r.by);
  else launch(real.of(d), grid_for(n, 256), 256, out, n, r.start, r.step, r.stop, r.half);
}

void copy_blocks(char* out, int64_t out_step, const char* in, int64_t in_step, int64_t bytes,
                 int64_t count) {
  if (bytes == 0 || count == 0) return;
  static Kernel kernel(kCopy, "copy_blocks");
  uint64_t all =
      uint64_t(out) | uint64_t(out_step) | uint64_t(in) | uint64_t(in_step) | uint64_t(bytes);
  int64_t unit = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
  launch(kernel.of(bits_of(unit)), grid_for(bytes / unit * count, 256), 256, out, out_step, in,
         in_step, bytes / unit, count);
}

void copy_strided(DType to, void* out, const int64_t* out_strides, DType from, const void* in,
                  const int64_t* in_strides, const int64_t* sizes, int ndim) {
  int64_t n = product(sizes, ndim);
  if (n == 0) return;
  bool same = to == from;
  if (same) to = from = bits_of(itemsize(to));
  Layout<2> layout;
  const int64_t* strides[] = {out_strides, in_strides};
  layout.set(strides, sizes, ndim, "copy");
  // Elements that lie side by side are moved as larger ones.
  for (int64_t unit = itemsize(to); same && layout.ndim > 1 && unit < 16; unit *= 2) {
    uint64_t all = uint64_t(out) | uint64_t(in);
    for (int d = 1; d < layout.ndim; d++)
      all |= uint64_t(layout.strides[d][0]) | uint64_t(layout.strides[d][1]);
    if (layout.strides[0][0] != unit || layout.strides[0][1] != unit || layout.sizes[0] % 2 ||
        all % uint64_t(2 * unit))
      break;
    layout.sizes[0] /= 2;
    layout.strides[0][0] = layout.strides[0][1] = 2 * unit;
    to = from = bits_of(2 * unit);
    n /= 2;
  }
  if (layout.ndim == 1 && layout.strides[0][0] == itemsize(to) &&
      layout.strides[0][1] == itemsize(from)) {
    if (to == from) return copy_bytes(out, in, size_t(n * itemsize(to)));
    static Kernel2 flat(kConvert, "convert_flat");
    return launch(flat.of(to, from), grid_for(n, 256), 256, out, in, n);
  }
  int64_t unit = itemsize(to);
  for (int d = 1; same && unit <= 8 && d < layout.ndim; d++) {
    if (layout.strides[0][0] != unit || layout.strides[d][1] != unit || layout.sizes[0] < 16 ||
        layout.sizes[d] < 16)
      continue;
    Turn t{layout.sizes[0],
           layout.sizes[d],
           layout.strides[d][0],
           layout.strides[0][1],
           (layout.sizes[0] + 31) / 32,
           (layout.sizes[d] + 31) / 32};
    Layout<2> rest;
    rest.narrow = layout.narrow;
    int64_t others = 1;
    for (int k = 1; k < layout.ndim; k++) {
      if (k == d) continue;
      rest.sizes[rest.ndim] = layout.sizes[k];
      rest.strides[rest.ndim][0] = layout.strides[k][0];
      rest.strides[rest.ndim++][1] = layout.strides[k][1];
      others *= layout.sizes[k];
    }
    static Kernel turn(kTurn, "turn");
    return launch(turn.of(to), {unsigned(t.tiles0 * t.tiles1 * others)}, 256, out, in, t, rest);
  }
  static Kernel2 strided(kConvert, "convert_strided");
  launch(strided.of(to, from), grid_for(n, 256), 256, out, in, layout, n);
}

void convert(DType to, void* out, int64_t out_stride, DType from, const void* in, int64_t in_stride,
             int64_t n) {
  copy_strided(to, out, &out_stride, from, in, &in_stride, &n, 1);
}

}  // namespace rl::cuda
