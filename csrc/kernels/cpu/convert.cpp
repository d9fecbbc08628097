// Conversions of contiguous elements. Pairs that matter have a loop of their own; the others go
// through one of those types block by block, which keeps 441 pairs at the size of about 60.
#include "kernels/cpu/convert.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/float8.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 512;

template <class Int, class Float>
RL_INLINE Int truncate(Float x) {
  constexpr Float limit = -Float(std::numeric_limits<Int>::min());
  return x >= -limit && x < limit ? Int(x) : std::numeric_limits<Int>::min();
}

template <class To, class From>
RL_INLINE To cast(From x) {
  if constexpr (std::is_same_v<From, Bool>) {
    return To(bool(x));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool(x != From(0));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
    if constexpr (std::is_same_v<To, uint64_t>)
      if (x >= From(0x1p63)) return x < From(0x1p64) ? To(x) : 0;
    return To(truncate<Wide>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
RL_INLINE void loop(void* out, const void* in, int64_t n) {
  To* o = static_cast<To*>(out);
  const From* x = static_cast<const From*>(in);
  for (int64_t i = 0; i < n; ++i) o[i] = cast<To>(x[i]);
}

// Complex numbers are pairs of their real type.
template <class T>
RL_INLINE void real_part(void* out, const void* in, int64_t n) {
  T* o = static_cast<T*>(out);
  const T* x = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) o[i] = x[2 * i];
}

template <class T>
RL_INLINE void with_zero(void* out, const void* in, int64_t n) {
  T* o = static_cast<T*>(out);
  const T* x = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) {
    o[2 * i] = x[i];
    o[2 * i + 1] = 0;
  }
}

template <class T>
RL_INLINE void any_part(void* out, const void* in, int64_t n) {
  uint8_t* o = static_cast<uint8_t*>(out);
  const T* x = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) o[i] = uint8_t((x[2 * i] != 0) | (x[2 * i + 1] != 0));
}

RL_INLINE void any_half(void* out, const void* in, int64_t n) {
  uint8_t* o = static_cast<uint8_t*>(out);
  const uint16_t* x = static_cast<const uint16_t*>(in);
  for (int64_t i = 0; i < n; ++i) o[i] = ((x[2 * i] | x[2 * i + 1]) & 0x7fff) != 0;
}

// clang-format off
#define RL_PAIRS(X)                                                                       \
  X(F32, Bool, loop<float, Bool>)     X(Bool, F32, loop<Bool, float>)                     \
  X(F32, U8, loop<float, uint8_t>)    X(U8, F32, loop<uint8_t, float>)                    \
  X(F32, I8, loop<float, int8_t>)     X(I8, F32, loop<int8_t, float>)                     \
  X(F32, I32, loop<float, int32_t>)   X(I32, F32, loop<int32_t, float>)                   \
  X(F32, I64, loop<float, int64_t>)   X(I64, F32, loop<int64_t, float>)                   \
  X(F32, F64, loop<float, double>)    X(F64, F32, loop<double, float>)                    \
  X(F64, I64, loop<double, int64_t>)  X(I64, F64, loop<int64_t, double>)                  \
  X(F64, I32, loop<double, int32_t>)  X(I32, F64, loop<int32_t, double>)                  \
  X(I64, Bool, loop<int64_t, Bool>)   X(Bool, I64, loop<Bool, int64_t>)                   \
  X(I64, U8, loop<int64_t, uint8_t>)  X(U8, I64, loop<uint8_t, int64_t>)                  \
  X(I64, I8, loop<int64_t, int8_t>)   X(I8, I64, loop<int8_t, int64_t>)                   \
  X(I64, I16, loop<int64_t, int16_t>) X(I16, I64, loop<int16_t, int64_t>)                 \
  X(I64, I32, loop<int64_t, int32_t>) X(I32, I64, loop<int32_t, int64_t>)                 \
  X(Bool, F64, loop<Bool, double>)    X(Bool, C64, any_part<float>)                       \
  X(Bool, C128, any_part<double>)     X(F32, C64, real_part<float>)                       \
  X(F64, C128, real_part<double>)     X(C64, F32, with_zero<float>)                       \
  X(C128, F64, with_zero<double>)     X(Bool, C32, any_half)                              \
  X(F16, C32, real_part<uint16_t>)    X(C32, F16, with_zero<uint16_t>)                    \
  X(I64, U16, loop<int64_t, uint16_t>) X(U16, I64, loop<uint16_t, int64_t>)               \
  X(I64, U32, loop<int64_t, uint32_t>) X(U32, I64, loop<uint32_t, int64_t>)               \
  X(I64, U64, loop<int64_t, uint64_t>) X(U64, I64, loop<uint64_t, int64_t>)               \
  X(F32, U64, loop<float, uint64_t>)  X(U64, F32, loop<uint64_t, float>)                  \
  X(F64, U64, loop<double, uint64_t>) X(U64, F64, loop<uint64_t, double>)
// clang-format on

#define RL_DEFINE(to, from, ...) \
  RL_CLONES void from##_to_##to(void* out, const void* in, int64_t n) { __VA_ARGS__(out, in, n); }
RL_PAIRS(RL_DEFINE)

void C64_to_C128(void* out, const void* in, int64_t n) { F32_to_F64(out, in, 2 * n); }
void C128_to_C64(void* out, const void* in, int64_t n) { F64_to_F32(out, in, 2 * n); }
void F16_to_F32(void* out, const void* in, int64_t n) {
  floats_from_halves(static_cast<float*>(out), static_cast<const F16*>(in), n);
}
void F32_to_F16(void* out, const void* in, int64_t n) {
  halves_from_floats(static_cast<F16*>(out), static_cast<const float*>(in), n);
}
void BF16_to_F32(void* out, const void* in, int64_t n) {
  floats_from_halves(static_cast<float*>(out), static_cast<const BF16*>(in), n);
}
void F32_to_BF16(void* out, const void* in, int64_t n) {
  halves_from_floats(static_cast<BF16*>(out), static_cast<const float*>(in), n);
}

void C32_to_C64(void* out, const void* in, int64_t n) { F16_to_F32(out, in, 2 * n); }
void C64_to_C32(void* out, const void* in, int64_t n) { F32_to_F16(out, in, 2 * n); }

#define RL_FLOAT8(type)                                                                            \
  void type##_to_F32(void* out, const void* in, int64_t n) {                                       \
    floats_from_float8(DType::type, static_cast<float*>(out), static_cast<const uint8_t*>(in), n); \
  }                                                                                                \
  void F32_to_##type(void* out, const void* in, int64_t n) {                                       \
    float8_from_floats(DType::type, static_cast<uint8_t*>(out), static_cast<const float*>(in), n); \
  }
RL_FLOAT8(E4M3FN)
RL_FLOAT8(E5M2)
RL_FLOAT8(E4M3FNUZ)
RL_FLOAT8(E5M2FNUZ)
RL_FLOAT8(E8M0FNU)

constexpr int pair(DType to, DType from) { return int(to) * kDTypes + int(from); }

bool is_small(DType d) { return d == DType::F16 || d == DType::BF16 || is_float8(d); }

// Where a pair without a loop meets. A step must lose nothing that the whole would keep.
DType between(DType to, DType from) {
  if (is_complex(from) && is_complex(to)) return DType::C64;
  if (is_complex(from)) return real_of(from);
  if (is_complex(to)) return real_of(to);
  if (is_small(from) || is_small(to)) return DType::F32;
  return DType::I64;
}

}  // namespace

Conversion unit_conversion(DType to, DType from) {
  switch (pair(to, from)) {
    // clang-format off
#define RL_CASE(to, from, ...) case pair(DType::to, DType::from): return from##_to_##to;
    // clang-format on
    RL_PAIRS(RL_CASE)
    RL_CASE(C128, C64)
    RL_CASE(C64, C128)
    RL_CASE(F32, F16)
    RL_CASE(F16, F32)
    RL_CASE(F32, BF16)
    RL_CASE(BF16, F32)
    RL_CASE(C64, C32)
    RL_CASE(C32, C64)
    RL_CASE(F32, E4M3FN)
    RL_CASE(E4M3FN, F32)
    RL_CASE(F32, E5M2)
    RL_CASE(E5M2, F32)
    RL_CASE(F32, E4M3FNUZ)
    RL_CASE(E4M3FNUZ, F32)
    RL_CASE(F32, E5M2FNUZ)
    RL_CASE(E5M2FNUZ, F32)
    RL_CASE(F32, E8M0FNU)
    RL_CASE(E8M0FNU, F32)
    default: return nullptr;
  }
}

void convert_unit(DType to, void* out, DType from, const void* in, int64_t n) {
  if (to == from) {
    std::memcpy(out, in, size_t(n * itemsize(to)));
    return;
  }
  if (Conversion step = unit_conversion(to, from)) return step(out, in, n);
  DType middle = between(to, from);
  alignas(64) char block[kBlock * 8];
  for (int64_t i = 0; i < n; i += kBlock) {
    int64_t count = std::min(kBlock, n - i);
    convert_unit(middle, block, from, static_cast<const char*>(in) + i * itemsize(from), count);
    convert_unit(to, static_cast<char*>(out) + i * itemsize(to), middle, block, count);
  }
}

void convert(DType to, void* out, int64_t out_stride, DType from, const void* in, int64_t in_stride,
             int64_t n) {
  if (n == 1) return convert_unit(to, out, from, in, 1);  // a number among the operands
  copy_strided(to, out, &out_stride, from, in, &in_stride, &n, 1);
}

}  // namespace rl::cpu
