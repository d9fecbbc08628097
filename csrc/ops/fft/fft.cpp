// Discrete Fourier transforms: three linear ops, complex to complex, real to complex and back, and the
// functions of torch.fft on them. See docs/design/fft.md.
#include <cmath>

#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/functions.h"

namespace rl {
namespace {

double transform_cost(int64_t elements, int64_t n) {
  return double(elements) * 5 * std::log2(double(n) + 1);
}

int64_t product_of(const Ints& sizes, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; i++) product *= sizes[i];
  return product;
}

// A tensor along whose last dimension lies `dim`, without gaps.
Var with_last(const Var& x, int64_t dim) { return ops::contiguous(ops::transpose(x, dim, -1)); }

// Of the n / 2 + 1 bins of a real line those stand for two that have a conjugate: `inner` for these,
// 1 for the others, shaped to multiply along `dim`.
Var bin_weights(const Var& like, int64_t dim, int64_t n, double inner) {
  int64_t bins = n / 2 + 1;
  Ints sizes;
  for (int i = 0; i < like.dim(); i++) sizes.push_back(1);
  int d = int(wrap_dim(dim, like.dim()));
  const auto part = [&](int64_t count, double value) {
    sizes[d] = count;
    return ops::full(sizes, value, real_of(like.dtype()), like->device());
  };
  int64_t ends = n % 2 == 0 && n > 0 ? 1 : 0;
  Vars parts{part(1, 1)};
  if (bins - 1 - ends > 0) parts.push_back(part(bins - 1 - ends, inner));
  if (ends) parts.push_back(part(1, 1));
  return parts.size() == 1 ? parts[0] : ops::cat(parts, dim);
}

struct FftC2C : Linear {
  static constexpr auto signature = "_fft_c2c(Tensor input, int[] dim, float scale, bool forward)";
  static constexpr auto doc = "_fft_c2c(x, dim, scale, forward): of complex lines along dims.";
  static constexpr Family family = Family::Fourier;
  static constexpr Batching batching = Batching::Shift;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& dim, double scale, bool forward) {
    Var x = ops::contiguous(input);
    Var y = empty(input.sizes(), input.dtype(), input->device());
    if (y.numel() == 0) return y;
    const Ints& sizes = y.sizes();
    Launch launch(transform_cost(y.numel(), y.numel()), {x.get(), y.get()});
    const void* from = x->data();
    for (int i = int(dim.size()); i-- > 0;) {
      int d = int(wrap_dim(dim[i], input.dim()));
      on(y).fft_complex(y.dtype(), from, y->data(), product_of(sizes, 0, d), sizes[d],
                        product_of(sizes, d + 1, sizes.size()), !forward, i == 0 ? scale : 1);
      from = y->data();
    }
    return y;
  }
  static void vjp(Back& b, const In&, const Ints& dim, double scale, bool forward) {
    b[0] = call<FftC2C>(b.g(), dim, scale, !forward);
  }
};
RL_OP(FftC2C)

struct FftC2R;

struct FftR2C : Linear {
  static constexpr auto signature = "_fft_r2c(Tensor input, int dim, float scale)";
  static constexpr auto doc = "_fft_r2c(x, dim, scale): of real lines, the first n // 2 + 1 bins.";
  static constexpr Family family = Family::Fourier;
  static constexpr Batching batching = Batching::Shift;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, double scale) {
    Var x = with_last(input, dim);
    int64_t n = x.sizes().back();
    Ints sizes = x.sizes();
    sizes[sizes.size() - 1] = n / 2 + 1;
    Var y = empty(sizes, complex_of(input.dtype()), input->device());
    if (y.numel() > 0) {
      Launch launch(transform_cost(x.numel(), n), {x.get(), y.get()});
      on(y).fft_real(x.dtype(), x->data(), y->data(), x.numel() / n, n, scale);
    }
    return wrap_dim(dim, input.dim()) == input.dim() - 1 ? y : with_last(y, dim);
  }
  static void vjp(Back& b, const In& input, int64_t dim, double scale);
};

struct FftC2R : Linear {
  static constexpr auto signature = "_fft_c2r(Tensor input, int dim, int n, float scale)";
  static constexpr auto doc =
      "_fft_c2r(x, dim, n, scale): the real lines of n that have the bins x.";
  static constexpr Family family = Family::Fourier;
  static constexpr Batching batching = Batching::Shift;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, int64_t n, double scale) {
    Var x = with_last(input, dim);
    Ints sizes = x.sizes();
    sizes[sizes.size() - 1] = n;
    Var y = empty(sizes, real_of(input.dtype()), input->device());
    if (y.numel() > 0) {
      Launch launch(transform_cost(y.numel(), n), {x.get(), y.get()});
      on(y).fft_to_real(y.dtype(), x->data(), y->data(), y.numel() / n, n, scale);
    }
    return wrap_dim(dim, input.dim()) == input.dim() - 1 ? y : with_last(y, dim);
  }
  static void vjp(Back& b, const In&, int64_t dim, int64_t n, double scale) {
    Var bins = call<FftR2C>(b.g(), dim, scale);
    b[0] = bins * bin_weights(bins, dim, n, 2);
  }
};
RL_OP(FftC2R)

void FftR2C::vjp(Back& b, const In& input, int64_t dim, double scale) {
  int64_t n = input.sizes()[int(wrap_dim(dim, input.sizes().size()))];
  b[0] = call<FftC2R>(b.g() * bin_weights(b.g(), dim, n, 0.5), dim, n, scale);
}
RL_OP(FftR2C)

// ---- arguments

Var promoted(const char* op, const Var& x, bool complex) {
  DType d = x.dtype();
  check(d != DType::F16 && d != DType::BF16, op, ": Unsupported dtype ", name(d),
        ": convert the input to float32 first");
  if (!is_floating(d) && !is_complex(d)) d = default_dtype();
  if (complex) d = complex_of(d);
  return d == x.dtype() ? x : ops::to(x, d);
}

// The factor of a transform of n numbers. `forward`: the one that is not divided by default.
double factor(const char* op, const std::optional<std::string>& norm, int64_t n, bool forward) {
  const std::string mode = norm ? *norm : "backward";
  if (mode == "ortho") return 1 / std::sqrt(double(n));
  check(mode == "backward" || mode == "forward", op, ": Invalid normalization mode: \"", mode,
        "\": one of \"backward\", \"ortho\" and \"forward\" is meant");
  return (mode == "forward") == forward ? 1 / double(n) : 1;
}

// x cut or filled up with zeros to n along dim.
Var resized(const Var& x, int64_t dim, int64_t n) {
  int64_t size = x.sizes()[int(dim)];
  if (n == size) return x;
  if (n < size) return ops::narrow(x, dim, 0, n);
  Ints sizes = x.sizes();
  sizes[int(dim)] = n - size;
  return ops::cat({x, ops::zeros(sizes, x.dtype(), x->device())}, dim);
}

void check_points(const char* op, int64_t n) {
  check(n >= 1, op, ": Invalid number of data points (", n, ") specified");
}

// Dims and sizes of an n-dimensional transform.
struct Extents {
  Ints dim, sizes;
  int64_t total = 1;
};
Extents extents(const char* op, const Var& x, const std::optional<Ints>& s,
                const std::optional<Ints>& dim, bool last_is_half) {
  Extents e;
  int ndim = x.dim();
  if (dim) {
    if (ndim == 0 && dim->size() > 0)
      fail_as(PyExc_IndexError, op, ": Dimension specified as ", (*dim)[0],
              " but tensor has no dimensions");
    for (int64_t d : *dim) {
      int64_t w = wrap_dim(d, ndim);
      check(!e.dim.contains(w), op, ": FFT dims must be unique, but dim ", w, " appears twice");
      e.dim.push_back(w);
    }
    check(!s || s->size() == dim->size(), op,
          ": When given, dim and shape arguments must have the same length, got ", dim->size(),
          " and ", s ? int(s->size()) : 0);
  } else {
    int count = s ? int(s->size()) : ndim;
    check(count <= ndim, op, ": Got shape with ", count, " values but input tensor only has ", ndim,
          " dimensions.");
    for (int i = ndim - count; i < ndim; i++) e.dim.push_back(i);
  }
  for (int i = 0; i < int(e.dim.size()); i++) {
    int64_t have = x.sizes()[int(e.dim[i])], n = s ? (*s)[i] : -1;
    bool half = last_is_half && i + 1 == int(e.dim.size());
    check(n == -1 || n >= 1, op, ": Invalid number of data points (", n, ") specified");
    if (n == -1) n = half ? 2 * (have - 1) : have;
    check_points(op, n);
    e.sizes.push_back(n);
    e.total *= n;
  }
  return e;
}

Var resized(Var x, const Extents& e, bool last_is_half) {
  for (int i = 0; i < int(e.dim.size()); i++) {
    bool half = last_is_half && i + 1 == int(e.dim.size());
    x = resized(x, e.dim[i], half ? e.sizes[i] / 2 + 1 : e.sizes[i]);
  }
  return x;
}

Var complex_transform(const char* op, const Var& input, const std::optional<Ints>& s,
                      const std::optional<Ints>& dim, const std::optional<std::string>& norm,
                      bool forward) {
  Var x = promoted(op, input, true);
  Extents e = extents(op, x, s, dim, false);
  double scale = factor(op, norm, e.total, forward);
  if (e.dim.size() == 0) return ops::clone(x);
  return call<FftC2C>(resized(x, e, false), e.dim, scale, forward);
}

Ints without_last(const Ints& dims) {
  Ints rest;
  for (int i = 0; i + 1 < int(dims.size()); i++) rest.push_back(dims[i]);
  return rest;
}

void check_real(const char* op, const Var& x) {
  check(!is_complex(x.dtype()), op, ": expects a real input tensor, but got ", name(x.dtype()),
        ": use fft, or take x.real");
}

// Real to half of a spectrum; the others of an inverse are the conjugates.
Var real_transform(const char* op, const Var& input, const std::optional<Ints>& s,
                   const std::optional<Ints>& dim, const std::optional<std::string>& norm,
                   bool forward) {
  check_real(op, input);
  Var x = promoted(op, input, false);
  Extents e = extents(op, x, s, dim, false);
  check(e.dim.size() > 0, op, ": must transform at least one axis");
  double scale = factor(op, norm, e.total, forward);
  Var y = call<FftR2C>(resized(x, e, false), e.dim[int(e.dim.size()) - 1], scale);
  if (!forward) y = ops::conj(y);
  Ints rest = without_last(e.dim);
  return rest.size() == 0 ? y : call<FftC2C>(y, rest, 1.0, forward);
}

// Half of a spectrum to a real tensor.
Var transform_to_real(const char* op, const Var& input, const std::optional<Ints>& s,
                      const std::optional<Ints>& dim, const std::optional<std::string>& norm,
                      bool forward) {
  Var x = promoted(op, input, true);
  Extents e = extents(op, x, s, dim, true);
  check(e.dim.size() > 0, op, ": must transform at least one axis");
  double scale = factor(op, norm, e.total, forward);
  x = resized(x, e, true);
  Ints rest = without_last(e.dim);
  if (rest.size() > 0) x = call<FftC2C>(x, rest, 1.0, forward);
  if (forward) x = ops::conj(x);
  int last = int(e.dim.size()) - 1;
  return call<FftC2R>(x, e.dim[last], e.sizes[last], scale);
}

const Ints& last_two() {
  static const Ints dims{-2, -1};
  return dims;
}

#define RL_FFT(Type, label, transform, direction, text)                                          \
  struct Type : Composite {                                                                      \
    static constexpr auto signature =                                                            \
        label "(Tensor input, int? n=None, int dim=-1, str? norm=None)";                         \
    static constexpr auto doc = label "(x, n, dim): " text;                                      \
    static constexpr auto module = "fft";                                                        \
    static constexpr Family family = Family::Fourier;                                            \
    static constexpr Autocast autocast = Autocast::Full;                                         \
    static constexpr bool method = false;                                                        \
    static Var forward(const Var& input, std::optional<int64_t> n, int64_t dim,                  \
                       const std::optional<std::string>& norm) {                                 \
      std::optional<Ints> s;                                                                     \
      if (n) check_points("fft." label, *n), s = Ints{*n};                                       \
      return transform("fft." label, input, s, Ints{dim}, norm, direction);                      \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type)                                                                                    \
  struct Type##2 : Composite {                                                                   \
    static constexpr auto signature =                                                            \
        label "2(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None)";                 \
    static constexpr auto doc = label "2(x, s, dim): over two dimensions, the last ones, " text; \
    static constexpr auto module = "fft";                                                        \
    static constexpr Family family = Family::Fourier;                                            \
    static constexpr Autocast autocast = Autocast::Full;                                         \
    static constexpr bool method = false;                                                        \
    static Var forward(const Var& input, const std::optional<Ints>& s,                           \
                       const std::optional<Ints>& dim, const std::optional<std::string>& norm) { \
      return transform("fft." label "2", input, s, dim ? *dim : last_two(), norm, direction);    \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type##2)                                                                                 \
  struct Type##N : Composite {                                                                   \
    static constexpr auto signature =                                                            \
        label "n(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None)";                 \
    static constexpr auto doc = label "n(x, s, dim): over several dimensions, " text;            \
    static constexpr auto module = "fft";                                                        \
    static constexpr Family family = Family::Fourier;                                            \
    static constexpr Autocast autocast = Autocast::Full;                                         \
    static constexpr bool method = false;                                                        \
    static Var forward(const Var& input, const std::optional<Ints>& s,                           \
                       const std::optional<Ints>& dim, const std::optional<std::string>& norm) { \
      return transform("fft." label "n", input, s, dim, norm, direction);                        \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type##N)

RL_FFT(Fft, "fft", complex_transform, true, "the discrete Fourier transform.")
RL_FFT(Ifft, "ifft", complex_transform, false, "the inverse of fft.")
RL_FFT(Rfft, "rfft", real_transform, true, "that of real numbers, without the conjugate half.")
RL_FFT(Irfft, "irfft", transform_to_real, false, "the inverse of rfft.")
RL_FFT(Hfft, "hfft", transform_to_real, true, "that of a Hermitian signal given by its half.")
RL_FFT(Ihfft, "ihfft", real_transform, false, "the inverse of hfft.")
#undef RL_FFT

Var shifted(const Var& x, const std::optional<Ints>& dim, bool back) {
  Ints dims;
  if (dim)
    for (int64_t d : *dim) dims.push_back(wrap_dim(d, x.dim()));
  else
    for (int d = 0; d < x.dim(); d++) dims.push_back(d);
  Var y = x;
  for (int64_t d : dims) {
    int64_t n = x.sizes()[int(d)], first = back ? n / 2 : n - n / 2;
    if (n < 2) continue;
    y = ops::cat({ops::narrow(y, d, first, n - first), ops::narrow(y, d, 0, first)}, d);
  }
  return y.get() == x.get() ? ops::clone(x) : y;
}

struct FftShift : Composite {
  static constexpr auto signature = "fftshift(Tensor input, int[]? dim=None)";
  static constexpr auto doc = "fftshift(x, dim): frequency 0 moved to the middle.";
  static constexpr auto module = "fft";
  static constexpr Family family = Family::Fourier;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const std::optional<Ints>& dim) {
    return shifted(input, dim, false);
  }
};
RL_OP(FftShift)

struct IfftShift : Composite {
  static constexpr auto signature = "ifftshift(Tensor input, int[]? dim=None)";
  static constexpr auto doc = "ifftshift(x, dim): the inverse of fftshift.";
  static constexpr auto module = "fft";
  static constexpr Family family = Family::Fourier;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const std::optional<Ints>& dim) {
    return shifted(input, dim, true);
  }
};
RL_OP(IfftShift)

}  // namespace
}  // namespace rl
