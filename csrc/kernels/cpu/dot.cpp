#include <algorithm>
#include <vector>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 1 << 15;

float dot_block(const float* a, const float* b, int64_t n) {
  return n < 8 ? [&] {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }()
               : blas().sdot(int(n), a, 1, b, 1);
}
double dot_block(const double* a, const double* b, int64_t n) {
  return blas().ddot(int(n), a, 1, b, 1);
}
c64 dot_block(const c64* a, const c64* b, int64_t n) {
  c64 sum;
  blas().cdotu(int(n), a, 1, b, 1, &sum);
  return sum;
}
c128 dot_block(const c128* a, const c128* b, int64_t n) {
  c128 sum;
  blas().zdotu(int(n), a, 1, b, 1, &sum);
  return sum;
}
RL_CLONES uint64_t dot_block(const int64_t* a, const int64_t* b, int64_t n) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += uint64_t(a[i]) * uint64_t(b[i]);
  return sum;
}

// Elements [begin, begin + n) as contiguous T, in place or in the buffer.
template <class T>
const T* elements(DType dtype, const void* x, int64_t stride, int64_t begin, int64_t n,
                  std::vector<char>& buffer) {
  int64_t item = itemsize(dtype);
  const char* at = static_cast<const char*>(x) + begin * stride * item;
  if (dtype == dtype_of<T>::value && stride == 1) return reinterpret_cast<const T*>(at);
  buffer.resize(size_t(n) * sizeof(T));
  convert(dtype_of<T>::value, buffer.data(), sizeof(T), dtype, at, stride * item, n);
  return reinterpret_cast<const T*>(buffer.data());
}

// T: what the products are taken in; Sum: what the blocks are added in.
template <class T, class Sum>
Sum dot_as(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b,
           int64_t b_stride) {
  auto block = [&](int64_t begin, int64_t end) {
    std::vector<char> a_buffer, b_buffer;
    const T* x = elements<T>(dtype, a, a_stride, begin, end - begin, a_buffer);
    const T* y = elements<T>(dtype, b, b_stride, begin, end - begin, b_buffer);
    return Sum(dot_block(x, y, end - begin));
  };
  if (n <= kBlock) return n > 0 ? block(0, n) : Sum(0);
  std::vector<Sum> sums(size_t((n + kBlock - 1) / kBlock));
  parallel_for(n, kBlock, [&](int64_t begin, int64_t end) {
    sums[size_t(begin / kBlock)] = block(begin, end);
  });
  Sum total(0);
  for (const Sum& sum : sums) total += sum;
  return total;
}

}  // namespace

void dot(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
         void* out) {
  switch (dtype) {
    case DType::F16: {
      *static_cast<F16*>(out) = float(dot_as<float, double>(dtype, n, a, a_stride, b, b_stride));
      return;
    }
    case DType::BF16: {
      *static_cast<BF16*>(out) = float(dot_as<float, double>(dtype, n, a, a_stride, b, b_stride));
      return;
    }
    case DType::F32: {
      *static_cast<float*>(out) = float(dot_as<float, double>(dtype, n, a, a_stride, b, b_stride));
      return;
    }
    case DType::F64: {
      *static_cast<double*>(out) = dot_as<double, double>(dtype, n, a, a_stride, b, b_stride);
      return;
    }
    case DType::C64: {
      *static_cast<c64*>(out) = c64(dot_as<c64, c128>(dtype, n, a, a_stride, b, b_stride));
      return;
    }
    case DType::C128: {
      *static_cast<c128*>(out) = dot_as<c128, c128>(dtype, n, a, a_stride, b, b_stride);
      return;
    }
    default: {
      int64_t sum = int64_t(dot_as<int64_t, uint64_t>(dtype, n, a, a_stride, b, b_stride));
      convert(dtype, out, itemsize(dtype), DType::I64, &sum, 8, 1);
    }
  }
}

}  // namespace rl::cpu
