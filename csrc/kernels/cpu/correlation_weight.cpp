// The gradient of a convolution's weights. The input is laid out with its channels last, so that
// the weights of a row of the kernel meet neighbouring memory, whatever the stride.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/correlation.h"
#include "kernels/cpu/correlation_kernels.h"
#include "kernels/cpu/move2d.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kChunks = 8;              // of images, each with sums of its own
constexpr int64_t kPartialBytes = 1 << 20;  // of those sums together
constexpr int64_t kRowsOfTask = 32;         // output channels that share a copy of the input
constexpr int64_t kPixels = 1024;           // summed in registers, so that errors do not pile up

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

struct Walk {
  int64_t planes, rows, pixels;              // of g
  int64_t plane_step, row_step, pixel_step;  // in the padded input
  int64_t g_row, g_plane;                    // of one channel of g
};

// sums[Rows][Vectors] += over all pixels g of Rows channels times Vectors of the input.
template <class T, int Bytes, int Rows, int Vectors>
RL_INLINE void weight_block(const Walk& walk, const T* g, const T* x, const int64_t* offsets,
                            T* sums, int64_t pitch) {
  using V = typename Register<T, Bytes>::type;
  using Loose = typename Register<T, Bytes>::loose;
  constexpr int64_t L = Register<T, Bytes>::lanes;
  V acc[Rows][Vectors] = {};
  for (int64_t d = 0; d < walk.planes; ++d) {
    for (int64_t h = 0; h < walk.rows; ++h) {
      const T* row = x + d * walk.plane_step + h * walk.row_step;
      const T* in[Vectors];
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) in[v] = row + offsets[v];
      int64_t at = 0;
      for (int64_t i = 0; i < walk.pixels; ++i, at += walk.pixel_step) {
        V b[Vectors];
#pragma GCC unroll 3
        for (int v = 0; v < Vectors; ++v) b[v] = *reinterpret_cast<const Loose*>(in[v] + at);
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          V f = g[r * walk.g_plane + i] - V{};
#pragma GCC unroll 3
          for (int v = 0; v < Vectors; ++v) acc[r][v] += f * b[v];
        }
      }
      g += walk.g_row;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v)
      *reinterpret_cast<Loose*>(sums + r * pitch + v * L) += acc[r][v];
  }
}

template <class T, int Rows, int Vectors>
RL_WIDE void wide_weights(const Walk& walk, const T* g, const T* x, const int64_t* offsets, T* sums,
                          int64_t pitch) {
  weight_block<T, 64, Rows, Vectors>(walk, g, x, offsets, sums, pitch);
}
template <class T, int Rows, int Vectors>
RL_NARROW void narrow_weights(const Walk& walk, const T* g, const T* x, const int64_t* offsets,
                              T* sums, int64_t pitch) {
  weight_block<T, 32, Rows, Vectors>(walk, g, x, offsets, sums, pitch);
}

template <class T>
using WeightKernel = void (*)(const Walk&, const T*, const T*, const int64_t*, T*, int64_t);
template <class T, int Bytes, int Rows, int Vectors>
constexpr WeightKernel<T> weight_kernel_at() {
  if constexpr (Bytes == 64) return wide_weights<T, Rows, Vectors>;
  else return narrow_weights<T, Rows, Vectors>;
}
template <class T, int Bytes>
WeightKernel<T> weight_kernel(int rows, int vectors) {
  constexpr int most = kBlocks<Bytes>.weight_vectors;
  static constexpr auto table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<WeightKernel<T>, sizeof...(I)>{
        weight_kernel_at<T, Bytes, int(I) / most + 1, int(I) % most + 1>()...};
  }(std::make_index_sequence<kBlocks<Bytes>.weight_rows * most>());
  return table[size_t((rows - 1) * most + vectors - 1)];
}

template <class T>
WeightKernel<T> weight_kernel(bool wide, int rows, int vectors) {
  return wide ? weight_kernel<T, 64>(rows, vectors) : weight_kernel<T, 32>(rows, vectors);
}

template <class T>
class WeightRunner {
 public:
  explicit WeightRunner(const Convolution& c) : c_(c) {
    double padded = double(c.in);
    for (size_t i = 0; i < 3; ++i) {
      length_[i] = (c.output[i] - 1) * c.stride[i] + (c.kernel[i] - 1) * c.dilation[i] + 1;
      padded *= double(length_[i]);
    }
    if (padded > kMostElements) throw std::bad_alloc();
    row_ = length_[2] * c.in, plane_ = length_[1] * row_;
    walk_ = {c.output[0],        c.output[1],        c.output[2], plane_ * c.stride[0],
             row_ * c.stride[1], c.in * c.stride[2], c.output[2], volume(c.output)};
    // Neighbouring columns of the kernel are neighbours in memory, unless it is dilated.
    runs_of_row_ = c.dilation[2] == 1 ? 1 : c.kernel[2];
    run_ = c.kernel[2] / runs_of_row_ * c.in;
    for (int64_t d = 0; d < c.kernel[0]; ++d)
      for (int64_t h = 0; h < c.kernel[1]; ++h)
        for (int64_t r = 0; r < runs_of_row_; ++r)
          for (int64_t v = 0; v < run_; v += lanes_)
            offsets_.push_back(d * c.dilation[0] * plane_ + h * c.dilation[1] * row_ +
                               r * c.dilation[2] * c.in + v);
    pitch_ = int64_t(offsets_.size()) * lanes_;
  }

  void run(const T* x, const T* g, T* gw) {
    int64_t bytes = c_.out * pitch_ * int64_t(sizeof(T));
    int64_t chunks = std::clamp<int64_t>(kPartialBytes / bytes, 1, std::min(c_.batch, kChunks));
    int64_t slices = std::clamp<int64_t>(c_.out / kRowsOfTask, 1, kChunks / chunks);
    int64_t tasks = c_.groups * slices;
    AlignedVector<T> partial;
    partial.resize(size_t(chunks * c_.groups * c_.out * pitch_));
    parallel_chunks(chunks * tasks, [&](int64_t i) {
      int64_t chunk = i / tasks, group = i % tasks / slices, slice = i % slices;
      int64_t begin = slice * c_.out / slices, end = (slice + 1) * c_.out / slices;
      T* sums = partial.data() + ((chunk * c_.groups + group) * c_.out + begin) * pitch_;
      std::memset(static_cast<void*>(sums), 0, size_t((end - begin) * pitch_) * sizeof(T));
      for (int64_t n = chunk * c_.batch / chunks; n < (chunk + 1) * c_.batch / chunks; ++n) {
        int64_t image = n * c_.groups + group;
        const T* padded = channels_last(x + image * c_.in * volume(c_.input));
        add(padded, g + (image * c_.out + begin) * walk_.g_plane, end - begin, sums);
      }
      workspace<T>(0).trim();
    });
    int64_t rows = c_.groups * c_.out;
    parallel_for(rows, std::max<int64_t>(1, 8192 / (pitch_ * chunks)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     T* sum = partial.data() + r * pitch_;
                     for (int64_t k = 1; k < chunks; ++k) {
                       const T* other = sum + k * rows * pitch_;
                       for (int64_t i = 0; i < pitch_; ++i) sum[i] += other[i];
                     }
                     unravel(sum, gw + r * c_.in * volume(c_.kernel));
                   }
                 });
  }

 private:
  // One image, some of its pixels at a time.
  void add(const T* padded, const T* g, int64_t out, T* sums) const {
    const Walk& w = walk_;
    if (w.g_plane <= kPixels) return add(w, padded, g, out, sums);
    int64_t rows = std::max<int64_t>(1, kPixels / w.pixels);
    for (int64_t d = 0; d < w.planes; ++d) {
      for (int64_t h = 0; h < w.rows; h += rows) {
        for (int64_t i = 0; i < w.pixels; i += kPixels) {
          Walk part = w;
          part.planes = 1;
          part.rows = std::min(rows, w.rows - h);
          part.pixels = std::min(kPixels, w.pixels - i);
          add(part, padded + d * w.plane_step + h * w.row_step + i * w.pixel_step,
              g + (d * w.rows + h) * w.g_row + i, out, sums);
        }
      }
    }
  }

  void add(const Walk& walk, const T* padded, const T* g, int64_t out, T* sums) const {
    int64_t count = int64_t(offsets_.size()), across = blocks_of(count, fit_.weight_vectors),
            down = blocks_of(out, fit_.weight_rows);
    for (int64_t j = 0; j < across; ++j) {
      int64_t v = j * count / across, vectors = (j + 1) * count / across - v;
      for (int64_t i = 0; i < down; ++i) {
        int64_t r = i * out / down, rows = (i + 1) * out / down - r;
        weight_kernel<T>(fit_.wide, int(rows), int(vectors))(
            walk, g + r * walk.g_plane, padded, offsets_.data() + v, sums + r * pitch_ + v * lanes_,
            pitch_);
      }
    }
  }

  // One image with its zeros, channels last.
  const T* channels_last(const T* x) const {
    const Convolution& c = c_;
    int64_t total = length_[0] * plane_;
    T* padded = workspace<T>(0).reserve(total + lanes_);
    bool inside = true;
    for (int i = 0; i < 3; ++i) inside &= c.padding[i] == 0;
    if (!inside) std::memset(static_cast<void*>(padded), 0, size_t(total) * sizeof(T));
    std::memset(static_cast<void*>(padded + total), 0, size_t(lanes_) * sizeof(T));
    int64_t head = c.padding[2], stop = std::min(length_[2], c.input[2] + head);
    int64_t plane = volume(c.input), item = sizeof(T);
    for (int64_t d = 0; d < length_[0]; ++d) {
      int64_t y = d - c.padding[0];
      if (y < 0 || y >= c.input[0]) continue;
      for (int64_t h = 0; h < length_[1]; ++h) {
        int64_t z = h - c.padding[1];
        if (z < 0 || z >= c.input[1] || stop <= head) continue;
        move2d(item, reinterpret_cast<char*>(padded + d * plane_ + h * row_ + head * c.in),
               c.in * item, item,
               reinterpret_cast<const char*>(x + (y * c.input[1] + z) * c.input[2]), item,
               plane * item, stop - head, c.in);
      }
    }
    return padded;
  }

  // From runs of (column, channel), padded to whole vectors, to [channel][tap].
  void unravel(const T* sum, T* gw) const {
    int64_t taps = volume(c_.kernel), columns = run_ / c_.in,
            step = blocks_of(run_, lanes_) * lanes_;
    for (int64_t t = 0; t < taps; ++t) {
      const T* from = sum + t / columns * step + t % columns * c_.in;
      for (int64_t i = 0; i < c_.in; ++i) gw[i * taps + t] = from[i];
    }
  }

  Blocks fit_{register_bytes() == 64 ? 64 : 32};
  int64_t lanes_ = fit_.bytes / int64_t(sizeof(T));
  Convolution c_;
  Extent length_;
  Walk walk_;
  int64_t row_, plane_, runs_of_row_, run_, pitch_;
  std::vector<int64_t> offsets_;
};

}  // namespace

template <class T>
void correlate_weight(const Convolution& c, const T* x, const T* g, T* gw) {
  WeightRunner<T>(c).run(x, g, gw);
}
template void correlate_weight(const Convolution&, const float*, const float*, float*);
template void correlate_weight(const Convolution&, const double*, const double*, double*);

}  // namespace rl::cpu
