#include "kernels/cpu/kernels.h"

#include <cstring>
#include <vector>

#include "kernels/cpu/correlation.h"

namespace rl::cpu {
namespace {

bool has_kernel(DType d) { return (d == DType::F32 || d == DType::F64) && register_bytes(); }

// Any dtype: windows as columns of a matrix, image by image.
struct Columns {
  DType d;
  const Convolution& c;
  int64_t item = itemsize(d), taps = volume(c.kernel), depth = c.in * taps;
  int64_t small = volume(c.output), large = volume(c.input);
  std::vector<char> columns = std::vector<char>(size_t(depth * small * item));

  const char* x_at(const void* x, int64_t image) const {
    return static_cast<const char*>(x) + image * c.in * large * item;
  }
  const char* y_at(const void* y, int64_t image) const {
    return static_cast<const char*>(y) + image * c.out * small * item;
  }
  const char* w_at(const void* w, int64_t image) const {
    return static_cast<const char*>(w) + image % c.groups * c.out * depth * item;
  }
  MatrixRef matrix() const { return {columns.data(), small, 1}; }
  MatrixRef turned() const { return {columns.data(), 1, small}; }

  // Every element of a channel starts as its bias.
  void fill(const void* bias, int64_t image, int64_t channels, int64_t plane, void* out) const {
    char* to = static_cast<char*>(out);
    if (!bias) return void(std::memset(to, 0, size_t(channels * plane * item)));
    const char* from = static_cast<const char*>(bias) + image % c.groups * channels * item;
    for (int64_t i = 0; i < channels; ++i, from += item)
      for (int64_t j = 0; j < plane; ++j, to += item) std::memcpy(to, from, size_t(item));
  }

  void forward(const void* x, const void* w, const void* bias, void* y) {
    for (int64_t i = 0; i < c.batch * c.groups; ++i) {
      char* out = const_cast<char*>(y_at(y, i));
      fill(bias, i, c.out, small, out);
      unfold(d, c, x_at(x, i), columns.data());
      gemm(d, c.out, small, depth, 1, {w_at(w, i), depth, 1}, matrix(), 1, out, small);
    }
  }

  void transposed(const void* y, const void* w, const void* bias, void* x) {
    for (int64_t i = 0; i < c.batch * c.groups; ++i) {
      char* out = const_cast<char*>(x_at(x, i));
      fill(bias, i, c.in, large, out);
      gemm(d, depth, small, c.out, 1, {w_at(w, i), 1, depth}, {y_at(y, i), small, 1}, 0,
           columns.data(), small);
      fold(d, c, columns.data(), out);
    }
  }

  void weight(const void* x, const void* g, void* gw) {
    for (int64_t i = 0; i < c.batch * c.groups; ++i) {
      unfold(d, c, x_at(x, i), columns.data());
      gemm(d, c.out, depth, small, 1, {y_at(g, i), small, 1}, turned(), i < c.groups ? 0 : 1,
           const_cast<char*>(w_at(gw, i)), depth);
    }
  }
};

template <class F>
void with_type(DType d, const F& f) {
  if (d == DType::F32) f(float());
  else f(double());
}

}  // namespace

void convolve(DType d, const Convolution& c, const void* x, const void* w, const void* bias,
              void* y) {
  if (!has_kernel(d)) return Columns{d, c}.forward(x, w, bias, y);
  with_type(d, [&]<class T>(T) {
    correlate<T>({correlation_of(c)}, c.batch, c.groups, static_cast<const T*>(x),
                 static_cast<const T*>(w), c.out * c.in * volume(c.kernel),
                 static_cast<const T*>(bias), static_cast<T*>(y));
  });
}

void convolve_transposed(DType d, const Convolution& c, const void* y, const void* w,
                         const void* bias, void* x) {
  if (!has_kernel(d)) return Columns{d, c}.transposed(y, w, bias, x);
  with_type(d, [&]<class T>(T) {
    correlate<T>(transposed_correlations(c), c.batch, c.groups, static_cast<const T*>(y),
                 static_cast<const T*>(w), c.out * c.in * volume(c.kernel),
                 static_cast<const T*>(bias), static_cast<T*>(x));
  });
}

void convolve_weight(DType d, const Convolution& c, const void* x, const void* g, void* gw) {
  if (!has_kernel(d)) return Columns{d, c}.weight(x, g, gw);
  with_type(d, [&]<class T>(T) {
    correlate_weight<T>(c, static_cast<const T*>(x), static_cast<const T*>(g), static_cast<T*>(gw));
  });
}

}  // namespace rl::cpu
