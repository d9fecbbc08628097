// Convolutions: by the library where it is there, else patches laid out as columns and products of
// matrices.
#include <algorithm>
#include <utility>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Shape {
  int64 batch, groups, in, out;
  int64 input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
};
// columns[b, c, tap, position] = x[b, c, position * stride + tap * dilation - padding]
extern "C" __global__ void unfold(const T* x, T* columns, Shape s, int64 lines, int64 x_step,
                                  int64 total) {
  int64 positions = s.output[0] * s.output[1] * s.output[2],
        taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  RL_EACH(i, total) {
    int64 at = i % positions, line = i / positions % lines, b = i / positions / lines;
    int64 tap = line % taps, channel = line / taps;
    int64 o[3] = {at / s.output[2] / s.output[1], at / s.output[2] % s.output[1], at % s.output[2]};
    int64 k[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1],
                  tap % s.kernel[2]};
    bool inside = true;
    int64 from = channel;
    for (int d = 0; d < 3; d++) {
      int64 p = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.padding[d];
      inside = inside && p >= 0 && p < s.input[d];
      from = from * s.input[d] + p;
    }
    T zero;
    for (int n = 0; n < int(sizeof(T)); n++) ((char*)&zero)[n] = 0;
    columns[i] = inside ? x[b * x_step + from] : zero;
  }
}
)";
constexpr char kFold[] = R"(
// The sum of the columns' elements that came from each place, added to what is there or put there.
extern "C" __global__ void fold(const T* columns, T* x, Shape s, int64 lines, int64 x_step,
                                int64 total, const T* bias, int add) {
  int64 positions = s.output[0] * s.output[1] * s.output[2],
        plane = s.input[0] * s.input[1] * s.input[2];
  int64 channels = lines / (s.kernel[0] * s.kernel[1] * s.kernel[2]);
  RL_EACH(i, total) {
    int64 at = i % plane, channel = i / plane % channels, b = i / plane / channels;
    int64 p[3] = {at / s.input[2] / s.input[1], at / s.input[2] % s.input[1], at % s.input[2]};
    A sum = A(0);
    int64 tap = 0;
    for (int64 k0 = 0; k0 < s.kernel[0]; k0++)
      for (int64 k1 = 0; k1 < s.kernel[1]; k1++)
        for (int64 k2 = 0; k2 < s.kernel[2]; k2++, tap++) {
          int64 k[3] = {k0, k1, k2}, place = 0;
          bool inside = true;
          for (int d = 0; d < 3; d++) {
            int64 q = p[d] + s.padding[d] - k[d] * s.dilation[d];
            inside = inside && q >= 0 && q % s.stride[d] == 0 && q / s.stride[d] < s.output[d];
            place = place * s.output[d] + q / s.stride[d];
          }
          if (inside)
            sum =
                A(sum +
                  A(columns[(b * lines + channel * s.kernel[0] * s.kernel[1] * s.kernel[2] + tap) *
                                positions +
                            place]));
        }
    if (bias) sum = A(sum + A(bias[channel]));
    T* to = x + b * x_step + channel * plane + at;
    *to = add ? T(A(*to) + sum) : T(sum);
  }
}
extern "C" __global__ void add_bias(T* y, const T* bias, int64 channels, int64 inner, int64 total) {
  RL_EACH(i, total) y[i] = T(A(y[i]) + A(bias[i / inner % channels]));
}
)";

struct Shape {
  int64_t batch, groups, in, out;
  int64_t input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
  explicit Shape(const Convolution& c) : batch(c.batch), groups(c.groups), in(c.in), out(c.out) {
    for (size_t i = 0; i < 3; i++) {
      input[i] = c.input[i], output[i] = c.output[i], kernel[i] = c.kernel[i];
      stride[i] = c.stride[i], padding[i] = c.padding[i], dilation[i] = c.dilation[i];
    }
  }
};

DType bits_of(int64_t size) {
  switch (size) {
    case 1: return DType::U8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    case 8: return DType::I64;
    default: return DType::C128;
  }
}

Function fold_kernel(DType d, const char* name) {
  static const std::string text = std::string(kText) + kFold;
  static Kernel folds(text.c_str(), "fold"), biases(text.c_str(), "add_bias");
  return name[0] == 'f' ? folds.of(d) : biases.of(d);
}

// The sizes of one group, in elements.
struct Sizes {
  int64_t lines, positions, plane, x, y, w;  // of columns, of an image's part of a group
  explicit Sizes(const Convolution& c)
      : lines(c.in * volume(c.kernel)),
        positions(volume(c.output)),
        plane(volume(c.input)),
        x(c.in * plane),
        y(c.out * positions),
        w(c.out * lines) {}
};

void unfold_images(DType d, const Convolution& c, const void* x, void* columns, int64_t images,
                   int64_t x_step) {
  static Kernel kernel(kText, "unfold");
  Sizes z(c);
  int64_t total = images * z.lines * z.positions;
  if (total == 0) return;
  launch(kernel.of(bits_of(itemsize(d))), grid_for(total, 256), 256, x, columns, Shape(c), z.lines,
         x_step, total);
}

// How many images are laid out at a time.
int64_t images_at_once(const Convolution& c, DType d) {
  Sizes z(c);
  int64_t one = std::max<int64_t>(z.lines * z.positions * itemsize(d), 1);
  return std::clamp<int64_t>((int64_t(512) << 20) / one, 1, std::max<int64_t>(c.batch, 1));
}

template <class F>
void each_part(const Convolution& c, DType d, const F& f) {
  int64_t most = images_at_once(c, d);
  Sizes z(c);
  Scratch columns(most * z.lines * z.positions * itemsize(d) + 1);
  for (int64_t b = 0; b < c.batch; b += most)
    for (int64_t g = 0; g < c.groups; g++)
      f(columns.get<char>(), b, std::min(most, c.batch - b), g);
}

template <class P>
P* moved(P* data, DType d, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return static_cast<Byte*>(data) + elements * itemsize(d);
}

// A copy of [batch, channels, inner] with its channels moved: innermost, or back to their place.
void turn(DType d, const void* from, void* to, int64_t batch, int64_t channels, int64_t inner,
          bool innermost) {
  int64_t item = itemsize(d), sizes[] = {batch, channels, inner},
          rows[] = {channels * inner * item, inner * item, item},
          last[] = {channels * inner * item, item, channels * item};
  copy_strided(d, to, innermost ? last : rows, d, from, innermost ? rows : last, sizes, 3);
}

// Tensors whose channels lie innermost, as rows while the library has no way for them.
class Turned {
 public:
  Turned(DType d, int64_t batch, int64_t channels, int64_t inner)
      : d_(d),
        batch_(batch),
        channels_(channels),
        inner_(inner),
        room_(batch * channels * inner * itemsize(d) + 1) {}
  const void* from(const void* x) const {
    turn(d_, x, room_.get<void>(), batch_, channels_, inner_, false);
    return room_.get<void>();
  }
  void* room() const { return room_.get<void>(); }
  void to(void* y) const { turn(d_, room_.get<void>(), y, batch_, channels_, inner_, true); }

 private:
  DType d_;
  int64_t batch_, channels_, inner_;
  Scratch room_;
};
struct AllTurned {
  Convolution c;
  Turned x, y, w;
  AllTurned(DType d, const Convolution& from, const Sizes& z)
      : c(from),
        x(d, c.batch, c.groups * c.in, z.plane),
        y(d, c.batch, c.groups * c.out, z.positions),
        w(d, c.groups * c.out, c.in, volume(c.kernel)) {
    c.channels_last = 0;
  }
};

// y[..., channel, ...] += bias[channel]
void add_bias(DType d, void* y, const void* bias, int64_t channels, int64_t inner, int64_t total) {
  if (!bias) return;
  launch(fold_kernel(d, "add_bias"), grid_for(total, 256), 256, y, bias, channels, inner, total);
}

// A kernel of one tap over channels that lie innermost is one product of matrices, and without
// tensor cores the library's convolutions are slower than that.
bool convolve_by_product(Convolve what, DType d, const Convolution& c, const void* x, const void* w,
                         const void* y) {
  if (!c.channels_last || c.groups != 1 || (d != DType::F32 && d != DType::F64)) return false;
  for (size_t i = 0; i < 3; i++)
    if (c.kernel[i] != 1 || c.stride[i] != 1 || c.padding[i] != 0) return false;
  struct Scope {
    bool products = std::exchange(allow_tf32, cudnn_switches.tf32);
    ~Scope() { allow_tf32 = products; }
  } scope;
  int64_t n = c.batch * volume(c.output);
  switch (what) {
    case Convolve::Forward:
      gemm(d, n, c.out, c.in, 1, {x, c.in, 1}, {w, 1, c.in}, 0, const_cast<void*>(y), c.out);
      break;
    case Convolve::Data:
      gemm(d, n, c.in, c.out, 1, {y, c.out, 1}, {w, c.in, 1}, 0, const_cast<void*>(x), c.in);
      break;
    case Convolve::Weight:
      gemm(d, c.out, c.in, n, 1, {y, 1, c.out}, {x, c.in, 1}, 0, const_cast<void*>(w), c.in);
      break;
  }
  return true;
}

bool convolved(Convolve what, DType d, const Convolution& c, const void* x, const void* w,
               const void* y) {
  return convolve_by_product(what, d, c, x, w, y) || convolve_by_library(what, d, c, x, w, y);
}

}  // namespace

void unfold(DType d, const Convolution& c, const void* x, void* columns) {
  unfold_images(d, c, x, columns, 1, 0);
}

void fold(DType d, const Convolution& c, const void* columns, void* x) {
  int64_t total = Sizes(c).x;
  if (total == 0) return;
  const void* none = nullptr;
  launch(fold_kernel(d, "fold"), grid_for(total, 256), 256, columns, x, Shape(c), Sizes(c).lines,
         int64_t(0), total, none, 1);
}

void convolve(DType d, const Convolution& c, const void* x, const void* w, const void* bias,
              void* y) {
  Sizes z(c);
  if (c.batch * c.groups * z.y == 0) return;
  bool done = z.lines && convolved(Convolve::Forward, d, c, x, w, y);
  if (!done && c.channels_last) {
    AllTurned t(d, c, z);
    convolve(d, t.c, t.x.from(x), t.w.from(w), bias, t.y.room());
    return t.y.to(y);
  }
  if (!done)
    each_part(c, d, [&](char* columns, int64_t b, int64_t images, int64_t g) {
      unfold_images(d, c, moved(x, d, (b * c.groups + g) * z.x), columns, images, c.groups * z.x);
      gemm_batched(d, images, c.out, z.positions, z.lines, 1, {moved(w, d, g * z.w), z.lines, 1}, 0,
                   {columns, z.positions, 1}, z.lines * z.positions, 0,
                   moved(y, d, (b * c.groups + g) * z.y), c.groups * z.y, z.positions);
    });
  add_bias(d, y, bias, c.groups * c.out, c.channels_last ? 1 : z.positions,
           c.batch * c.groups * z.y);
}

void convolve_transposed(DType d, const Convolution& c, const void* y, const void* w,
                         const void* bias, void* x) {
  Sizes z(c);
  if (c.batch * c.groups * z.x == 0) return;
  if (z.y && z.w && convolved(Convolve::Data, d, c, x, w, y))
    return add_bias(d, x, bias, c.groups * c.in, c.channels_last ? 1 : z.plane,
                    c.batch * c.groups * z.x);
  if (c.channels_last) {
    AllTurned t(d, c, z);
    convolve_transposed(d, t.c, t.y.from(y), t.w.from(w), bias, t.x.room());
    return t.x.to(x);
  }
  each_part(c, d, [&](char* columns, int64_t b, int64_t images, int64_t g) {
    gemm_batched(d, images, z.lines, z.positions, c.out, 1, {moved(w, d, g * z.w), 1, z.lines}, 0,
                 {moved(y, d, (b * c.groups + g) * z.y), z.positions, 1}, c.groups * z.y, 0,
                 columns, z.lines * z.positions, z.positions);
    const void* own = bias ? moved(bias, d, g * c.in) : nullptr;
    int64_t total = images * z.x;
    launch(fold_kernel(d, "fold"), grid_for(total, 256), 256, columns,
           moved(x, d, (b * c.groups + g) * z.x), Shape(c), z.lines, c.groups * z.x, total, own, 0);
  });
}

void convolve_weight(DType d, const Convolution& c, const void* x, const void* g, void* gw) {
  Sizes z(c);
  if (c.groups * z.w == 0) return;
  if (c.batch * z.positions == 0) return clear(gw, size_t(c.groups * z.w * itemsize(d)));
  if (convolved(Convolve::Weight, d, c, x, gw, g)) return;
  if (c.channels_last) {
    AllTurned t(d, c, z);
    convolve_weight(d, t.c, t.x.from(x), t.y.from(g), t.w.room());
    return t.w.to(gw);
  }
  each_part(c, d, [&](char* columns, int64_t b, int64_t images, int64_t group) {
    unfold_images(d, c, moved(x, d, (b * c.groups + group) * z.x), columns, images, c.groups * z.x);
    BatchDim sum{images, c.groups * z.y, z.lines * z.positions, 0, true};
    gemm_nd(d, &sum, 1, c.out, z.lines, z.positions, 1,
            {moved(g, d, (b * c.groups + group) * z.y), z.positions, 1}, {columns, 1, z.positions},
            b ? 1 : 0, moved(gw, d, group * z.w), z.lines);
  });
}

}  // namespace rl::cuda
