#include "kernels/cuda/prelude.h"

#include "call/symbol.h"

namespace rl::cuda {

namespace {

// RL_EMULATED: compiled for the host, by a test without a device.
constexpr char kTypes[] = R"(
typedef unsigned char uint8;
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned uint32;
typedef unsigned long long uint64;
#define RL_DEVICE static __device__
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#define HUGE_VAL double(INFINITY)
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.44269504088896340736
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

struct Bool {
  uint8 byte;
  Bool() = default;
  __device__ Bool(bool value) : byte(value) {}
  __device__ operator bool() const { return byte != 0; }
};
struct F16 {
  unsigned short bits;
  F16() = default;
  __device__ F16(float value) {
#ifdef RL_EMULATED
    bits = emulated_half(value);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#endif
  }
  __device__ operator float() const {
#ifdef RL_EMULATED
    return emulated_float(bits);
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
  }
};
struct BF16 {
  unsigned short bits;
  BF16() = default;
  __device__ BF16(float value) {
    uint32 u = __float_as_uint(value);
    bits = (u & 0x7fffffff) > 0x7f800000 ? (unsigned short)((u >> 16) | 0x40)
                                         : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  __device__ operator float() const { return __uint_as_float(uint32(bits) << 16); }
};
)";

constexpr char kTools[] = R"(
// A float becomes an integer by truncation; what does not fit is the smallest one.
template <class To, class From> struct Cast {
  static __device__ To of(From x) { return To(x); }
};
#define RL_TRUNCATES(Int, Wide, least, limit)                                                      \
  template <> struct Cast<Int, float> {                                                            \
    static __device__ Int of(float x) { return Int(x >= -limit && x < limit ? Wide(x) : least); }  \
  };                                                                                               \
  template <> struct Cast<Int, double> {                                                           \
    static __device__ Int of(double x) { return Int(x >= -limit && x < limit ? Wide(x) : least); } \
  };                                                                                               \
  template <> struct Cast<Int, F16> {                                                              \
    static __device__ Int of(F16 x) { return Cast<Int, float>::of(float(x)); }                     \
  };                                                                                               \
  template <> struct Cast<Int, BF16> {                                                             \
    static __device__ Int of(BF16 x) { return Cast<Int, float>::of(float(x)); }                    \
  };
RL_TRUNCATES(uint8, int32, int32(0x80000000), 2147483648.0f)
RL_TRUNCATES(int8, int32, int32(0x80000000), 2147483648.0f)
RL_TRUNCATES(int16, int32, int32(0x80000000), 2147483648.0f)
RL_TRUNCATES(int32, int32, int32(0x80000000), 2147483648.0f)
RL_TRUNCATES(int64, int64, int64(0x8000000000000000ull), 9223372036854775808.0f)
template <class From> struct Cast<Bool, From> {
  static __device__ Bool of(From x) { return Bool(x != From(0)); }
};
template <> struct Cast<Bool, Bool> {
  static __device__ Bool of(Bool x) { return x; }
};
template <> struct Cast<Bool, F16> {
  static __device__ Bool of(F16 x) { return Bool(float(x) != 0); }
};
template <> struct Cast<Bool, BF16> {
  static __device__ Bool of(BF16 x) { return Bool(float(x) != 0); }
};
template <class R> struct Cast<Bool, Complex<R>> {
  static __device__ Bool of(Complex<R> x) { return Bool(x.re != 0 || x.im != 0); }
};
template <class To, class R> struct Cast<To, Complex<R>> {
  static __device__ To of(Complex<R> x) { return Cast<To, R>::of(x.re); }
};
template <class R, class From> struct Cast<Complex<R>, From> {
  static __device__ Complex<R> of(From x) { return Complex<R>(Cast<R, From>::of(x)); }
};
template <class R, class Q> struct Cast<Complex<R>, Complex<Q>> {
  static __device__ Complex<R> of(Complex<Q> x) { return Complex<R>(R(x.re), R(x.im)); }
};
template <class To, class From> __device__ To cast(From x) { return Cast<To, From>::of(x); }

__device__ inline int64 thread_number() { return int64(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64 thread_count() { return int64(gridDim.x) * blockDim.x; }
#define RL_EACH(i, n) for (int64 i = thread_number(); i < (n); i += thread_count())

// Where element i of each operand lies, in bytes (kernels/cuda/layout.h).
template <int Operands> struct Layout {
  int ndim, narrow;
  int64 sizes[8];
  int64 strides[8][Operands];
  __device__ void find(int64 i, int64* at) const {
    for (int o = 0; o < Operands; o++) at[o] = 0;
    for (int d = 0; d < ndim; d++) {
      int64 index = i;
      if (d + 1 < ndim && narrow) {
        uint32 size = uint32(sizes[d]), rest = uint32(i) / size;
        index = uint32(i) - rest * size;
        i = rest;
      } else if (d + 1 < ndim) {
        int64 rest = i / sizes[d];
        index = i - rest * sizes[d];
        i = rest;
      }
      for (int o = 0; o < Operands; o++) at[o] += index * strides[d][o];
    }
  }
};
struct Bits {
  uint64 a, b;
};

// ---- within a block of whole warps

template <class V> __device__ V other_lane(V x, int mask) {
  union {
    V value;
    unsigned words[(sizeof(V) + 3) / 4];
  } from, to;
  from.value = x;
  for (int i = 0; i < int(sizeof(V) + 3) / 4; i++)
    to.words[i] = __shfl_xor_sync(0xffffffffu, from.words[i], mask);
  return to.value;
}
template <class V, class Op> __device__ V warp_all(V x, Op op) {
  for (int mask = 16; mask > 0; mask >>= 1) x = op(x, other_lane(x, mask));
  return x;
}
// The same number for every thread; `none` changes nothing.
template <class V, class Op> __device__ V block_all(V x, V none, Op op) {
  __shared__ __align__(16) char room[32 * sizeof(V)];
  V* parts = (V*)room;
  x = warp_all(x, op);
  if (blockDim.x <= 32) return x;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (threadIdx.x & 31) < (blockDim.x >> 5) ? parts[threadIdx.x & 31] : none;
  return warp_all(x, op);
}
struct Plus {
  template <class V> __device__ V operator()(V a, V b) const { return a + b; }
};
// A NaN wins.
struct Larger {
  template <class V> __device__ V operator()(V a, V b) const { return a > b || a != a ? a : b; }
};
struct Smaller {
  template <class V> __device__ V operator()(V a, V b) const { return a < b || a != a ? a : b; }
};

// ---- what is wrong

struct Fault {
  int state, reason;
  int64 at, value, size;
  Fault* head;
};
__device__ inline void complain(Fault* fault, int reason, int64 at, int64 value, int64 size) {
  if (atomicCAS(&fault->state, 0, 1) != 0) return;
  fault->reason = reason;
  fault->at = at;
  fault->value = value;
  fault->size = size;
  __threadfence_system();
  *(volatile int*)&fault->state = 2;
  __threadfence_system();
  *(volatile int*)&fault->head->state = 2;
}
// ---- end of the prelude
)";

}  // namespace

const std::string& prelude() {
  static const std::string text = kTypes + complex_type() + kTools;
  return text;
}

}  // namespace rl::cuda
