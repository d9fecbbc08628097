#include "tensor/dtype.h"

#include "tensor/error.h"

namespace rl {

DType moved_as(DType d) {
  if (!is_stored(d)) return d;
  switch (itemsize(d)) {
    case 1: return DType::U8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    default: return DType::I64;
  }
}

DType complex_of(DType d) {
  if (is_float8(d)) fail("Unknown Complex ScalarType for ", info(d).tensor_name);
  if (d == DType::F16 || d == DType::C32) return DType::C32;
  return d == DType::F64 || d == DType::C128 ? DType::C128 : DType::C64;
}

DType promote_stored(DType a, DType b) {
  DType other = is_stored(a) ? b : a;
  if (is_float8(a) || is_float8(b))
    fail("Promotion for Float8 Types is not supported, attempted to promote ", info(a).tensor_name,
         " and ", info(b).tensor_name, "; convert the float8 with .to(torch.float32)");
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) {
    if (is_floating(other)) return other;
    fail("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ",
         info(a).tensor_name, " and ", info(b).tensor_name,
         "; convert one of them, as in .to(torch.", name(is_stored(other) ? DType::I64 : other),
         ")");
  }
  // With a complex32.
  if (is_complex(other)) return other;
  if (other == DType::F64) return DType::C128;
  return other == DType::BF16 || other == DType::F32 ? DType::C64 : DType::C32;
}

void refuse_stored(const char* op, DType d) {
  const char* wide = is_complex(d)    ? "complex64"
                     : is_integral(d) ? "float32) or .to(torch.int64"
                                      : "float32";
  fail_as(PyExc_NotImplementedError, "\"", op, "\" not implemented for '", info(d).tensor_name,
          "': ", name(d), " is a type to store elements in; convert them with .to(torch.", wide,
          ")");
}

}  // namespace rl
