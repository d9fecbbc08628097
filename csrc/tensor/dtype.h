// Element types: their names, sizes, categories and the promotion lattice.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace rl {

// Kernels compute with the types up to C128. Elements of the others are stored, moved by their size
// and converted; what is computed of them is computed in another type (docs/design/dtypes.md).
// clang-format off
enum class DType : uint8_t {
  Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128,
  U16, U32, U64, E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E8M0FNU, C32,
};
// clang-format on
inline constexpr int kDTypes = 21;
inline bool is_stored(DType d) { return d > DType::C128; }

using c64 = std::complex<float>;
using c128 = std::complex<double>;

// An element of a bool tensor: any byte but 0 is true. Memory that is shared (a view as another
// dtype, a buffer, a file) may hold other bytes than 0 and 1, which a C++ bool must not.
struct Bool {
  uint8_t byte;
  Bool() = default;
  Bool(bool value) : byte(value) {}
  operator bool() const { return byte != 0; }
};

struct BF16 {
  uint16_t bits;
  BF16() = default;
  BF16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, 4);
    // Round to nearest even; a NaN keeps its quiet bit.
    bits = (u & 0x7fffffff) > 0x7f800000 ? uint16_t((u >> 16) | 0x40)
                                         : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const {
    uint32_t u = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &u, 4);
    return value;
  }
};

struct F16 {
  uint16_t bits;
  F16() = default;
  F16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, 4);
    uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      bits = uint16_t(sign | 0x7e00);
    } else if (magnitude >= 0x477ff000) {  // rounds past the largest finite value
      bits = uint16_t(sign | 0x7c00);
    } else if (magnitude < 0x38800000) {  // subnormal: let the float adder do the rounding
      float scaled;
      std::memcpy(&scaled, &magnitude, 4);
      scaled += 0.5f;
      uint32_t s;
      std::memcpy(&s, &scaled, 4);
      bits = uint16_t(sign | (s - 0x3f000000));
    } else {
      bits = uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
    }
  }
  operator float() const {
    uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = uint32_t(bits & 0x7fff) << 13;
    uint32_t exponent = rest & 0x0f800000, u;
    if (exponent == 0x0f800000) {
      u = rest + 0x70000000;
    } else if (exponent == 0) {
      u = rest + 0x38800000;
      float value;
      std::memcpy(&value, &u, 4);
      value -= 6.103515625e-05f;
      std::memcpy(&u, &value, 4);
    } else {
      u = rest + 0x38000000;
    }
    u |= sign;
    float value;
    std::memcpy(&value, &u, 4);
    return value;
  }
};

struct DTypeInfo {
  const char* name;         // torch's name: "float32"
  const char* tensor_name;  // the legacy class name: "Float"
  uint8_t size;
  uint8_t category;  // 0 bool, 1 integer, 2 real, 3 complex
  DType compute;     // the type arithmetic is done in
};

inline constexpr DTypeInfo kDTypeInfo[kDTypes] = {
    // clang-format off
    {"bool", "Bool", 1, 0, DType::Bool},
    {"uint8", "Byte", 1, 1, DType::U8},
    {"int8", "Char", 1, 1, DType::I8},
    {"int16", "Short", 2, 1, DType::I16},
    {"int32", "Int", 4, 1, DType::I32},
    {"int64", "Long", 8, 1, DType::I64},
    {"float16", "Half", 2, 2, DType::F32},
    {"bfloat16", "BFloat16", 2, 2, DType::F32},
    {"float32", "Float", 4, 2, DType::F32},
    {"float64", "Double", 8, 2, DType::F64},
    {"complex64", "ComplexFloat", 8, 3, DType::C64},
    {"complex128", "ComplexDouble", 16, 3, DType::C128},
    {"uint16", "UInt16", 2, 1, DType::I64},
    {"uint32", "UInt32", 4, 1, DType::I64},
    {"uint64", "UInt64", 8, 1, DType::I64},
    {"float8_e4m3fn", "Float8_e4m3fn", 1, 2, DType::F32},
    {"float8_e5m2", "Float8_e5m2", 1, 2, DType::F32},
    {"float8_e4m3fnuz", "Float8_e4m3fnuz", 1, 2, DType::F32},
    {"float8_e5m2fnuz", "Float8_e5m2fnuz", 1, 2, DType::F32},
    {"float8_e8m0fnu", "Float8_e8m0fnu", 1, 2, DType::F32},
    {"complex32", "ComplexHalf", 4, 3, DType::C64},
    // clang-format on
};

inline const DTypeInfo& info(DType d) { return kDTypeInfo[int(d)]; }
inline const char* name(DType d) { return info(d).name; }
inline int64_t itemsize(DType d) { return info(d).size; }
inline int category(DType d) { return info(d).category; }
inline bool is_floating(DType d) { return category(d) == 2; }
inline bool is_complex(DType d) { return category(d) == 3; }
inline bool is_integral(DType d) { return category(d) <= 1; }
inline bool is_differentiable(DType d) { return category(d) >= 2; }

inline bool is_wide_unsigned(DType d) { return d >= DType::U16 && d <= DType::U64; }
inline bool is_float8(DType d) { return d >= DType::E4M3FN && d <= DType::E8M0FNU; }
inline bool is_unsigned(DType d) { return d <= DType::U8 || is_wide_unsigned(d); }

// The type arithmetic is done in: halves compute as float, large unsigned integers as int64.
inline DType compute_type(DType d) { return info(d).compute; }

// A type of the same size that kernels know: what moves elements may take one for the other.
DType moved_as(DType d);

inline DType real_of(DType d) {
  return d == DType::C64    ? DType::F32
         : d == DType::C128 ? DType::F64
         : d == DType::C32  ? DType::F16
                            : d;
}
// Raises for a float8.
DType complex_of(DType d);

// The smallest type both convert to without leaving their categories; raises where a stored type
// has none with the other.
DType promote_stored(DType a, DType b);
inline DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_stored(a) || is_stored(b)) [[unlikely]]
    return promote_stored(a, b);
  if (a > b) {
    DType t = a;
    a = b;
    b = t;
  }
  if (a == DType::U8 && category(b) == 1) return b == DType::I8 ? DType::I16 : b;
  if (a == DType::F16 && b == DType::BF16) return DType::F32;
  if (is_complex(b) && a == DType::F64) return DType::C128;
  return b;
}

// "op" not implemented for 'UInt16', and what to do.
[[noreturn]] void refuse_stored(const char* op, DType d);

template <class T>
struct dtype_of;
template <> struct dtype_of<Bool> {
  static constexpr DType value = DType::Bool;
};
template <> struct dtype_of<uint8_t> {
  static constexpr DType value = DType::U8;
};
template <> struct dtype_of<int8_t> {
  static constexpr DType value = DType::I8;
};
template <> struct dtype_of<int16_t> {
  static constexpr DType value = DType::I16;
};
template <> struct dtype_of<int32_t> {
  static constexpr DType value = DType::I32;
};
template <> struct dtype_of<int64_t> {
  static constexpr DType value = DType::I64;
};
template <> struct dtype_of<F16> {
  static constexpr DType value = DType::F16;
};
template <> struct dtype_of<BF16> {
  static constexpr DType value = DType::BF16;
};
template <> struct dtype_of<float> {
  static constexpr DType value = DType::F32;
};
template <> struct dtype_of<double> {
  static constexpr DType value = DType::F64;
};
template <> struct dtype_of<c64> {
  static constexpr DType value = DType::C64;
};
template <> struct dtype_of<c128> {
  static constexpr DType value = DType::C128;
};

// Calls f with a value of the C++ type that d names: visit(d, [&](auto zero) { using T = ...; }).
// Raises for a stored type.
template <class F>
decltype(auto) visit(DType d, F&& f) {
  switch (d) {
    case DType::Bool: return f(Bool{});
    case DType::U8: return f(uint8_t{});
    case DType::I8: return f(int8_t{});
    case DType::I16: return f(int16_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::F16: return f(F16{});
    case DType::BF16: return f(BF16{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    case DType::C64: return f(c64{});
    case DType::C128: return f(c128{});
    default: refuse_stored("kernel", d);
  }
}

}  // namespace rl
