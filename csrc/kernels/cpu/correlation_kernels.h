// The inner loops of convolutions: blocks of sums in registers of 64 bytes (AVX-512) or 32 (AVX2).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "kernels/cpu/move2d.h"
#include "kernels/cpu/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define RL_WIDE __attribute__((target("arch=x86-64-v4")))
#define RL_NARROW __attribute__((target("arch=x86-64-v3")))
#else
#define RL_WIDE
#define RL_NARROW
#endif

namespace rl::cpu {

template <class T, int Bytes>
struct Register {
  typedef T type __attribute__((vector_size(Bytes)));
  typedef T loose __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
  static constexpr int64_t lanes = Bytes / int64_t(sizeof(T));
};

// Blocks that fill the registers, of which there are 32 of 64 bytes or 16 of 32.
struct Blocks {
  int bytes;  // of a register
  bool wide = bytes == 64;
  int pixel_rows = 6, pixel_vectors = wide ? 4 : 2;
  int channel_vectors = wide ? 4 : 2;
  int weight_rows = wide ? 8 : 6, weight_vectors = wide ? 3 : 2;
  constexpr int channel_pixels(int vectors) const {
    if (!wide) return vectors == 1 ? 12 : 6;
    return vectors == 1 ? 16 : vectors == 2 ? 12 : vectors == 3 ? 8 : 6;
  }
};
template <int Bytes>
inline constexpr Blocks kBlocks{Bytes};
inline constexpr int kMostBytes = 64, kMostRows = 6, kMostVectors = 4;

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};

// Aligned memory that stays with its thread between calls, unless it is large.
template <class T>
class Workspace {
 public:
  static constexpr int64_t kKeepBytes = 4 << 20;

  T* reserve(int64_t count) {
    if (count > count_) {
      count_ = 0;
      size_t bytes = (size_t(count) * sizeof(T) + 4095) / 4096 * 4096;
      data_.reset(static_cast<T*>(std::aligned_alloc(4096, bytes)));
      if (!data_) throw std::bad_alloc();
      count_ = count;
    }
    return data_.get();
  }
  void trim() {
    if (count_ * int64_t(sizeof(T)) > kKeepBytes) data_.reset(), count_ = 0;
  }

 private:
  std::unique_ptr<T, FreeMemory> data_;
  int64_t count_ = 0;
};
template <class T>
Workspace<T>& workspace(int i) {
  thread_local Workspace<T> spaces[3];
  return spaces[i];
}

template <class T>
class AlignedVector {
 public:
  void resize(size_t count) {
    data_.reset(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)));
    if (!data_) throw std::bad_alloc();
  }
  T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T, FreeMemory> data_;
};

template <class T>
struct PixelTile {
  const T* in[kMostVectors];
  T* out[kMostVectors];
  int64_t lanes[kMostVectors];
  int64_t plane;  // between channels of the result
};

// The first `count` lanes of a register.
#if defined(__x86_64__)
RL_WIDE inline void put_some(float* out, const float (&v)[16], int64_t count) {
  _mm512_mask_storeu_ps(out, __mmask16((1u << count) - 1), _mm512_loadu_ps(v));
}
RL_WIDE inline void put_some(double* out, const double (&v)[8], int64_t count) {
  _mm512_mask_storeu_pd(out, __mmask8((1u << count) - 1), _mm512_loadu_pd(v));
}
#endif
template <class T, size_t Lanes>
inline void put_some(T* out, const T (&v)[Lanes], int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = v[i];
}

// Rows channels by Vectors of pixels; w has Rows weights for each step.
template <class T, int Bytes, int Rows, int Vectors>
RL_INLINE void pixel_block(int64_t depth, const T* w, const int64_t* offsets, const T* start,
                           const PixelTile<T>& tile, int64_t at) {
  using V = typename Register<T, Bytes>::type;
  using Loose = typename Register<T, Bytes>::loose;
  constexpr int64_t L = Register<T, Bytes>::lanes;
  V acc[Rows][Vectors];
  const T* in[Vectors];
#pragma GCC unroll 6
  for (int v = 0; v < Vectors; ++v) in[v] = tile.in[v];
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) acc[r][v] = start[r] - V{};
  }
  for (int64_t k = 0; k < depth; ++k, w += Rows) {
    int64_t offset = offsets[k];
    V x[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) x[v] = *reinterpret_cast<const Loose*>(in[v] + offset);
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      V f = w[r] - V{};
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) acc[r][v] += f * x[v];
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
    T* out = tile.out[v] + at;
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      T* to = out + r * tile.plane;
      if (tile.lanes[v] == L) {
        *reinterpret_cast<Loose*>(to) = acc[r][v];
      } else {
        alignas(Bytes) T lanes[L];
        *reinterpret_cast<V*>(lanes) = acc[r][v];
        put_some(to, lanes, tile.lanes[v]);
      }
    }
  }
}
template <class T, int Rows, int Vectors>
RL_WIDE void wide_pixels(int64_t depth, const T* w, const int64_t* offsets, const T* start,
                         const PixelTile<T>& tile, int64_t at) {
  pixel_block<T, 64, Rows, Vectors>(depth, w, offsets, start, tile, at);
}
template <class T, int Rows, int Vectors>
RL_NARROW void narrow_pixels(int64_t depth, const T* w, const int64_t* offsets, const T* start,
                             const PixelTile<T>& tile, int64_t at) {
  pixel_block<T, 32, Rows, Vectors>(depth, w, offsets, start, tile, at);
}

template <class T>
using PixelKernel = void (*)(int64_t, const T*, const int64_t*, const T*, const PixelTile<T>&,
                             int64_t);
template <class T, int Bytes, int Rows, int Vectors>
constexpr PixelKernel<T> pixel_kernel_at() {
  if constexpr (Bytes == 64) return wide_pixels<T, Rows, Vectors>;
  else return narrow_pixels<T, Rows, Vectors>;
}
template <class T, int Bytes>
PixelKernel<T> pixel_kernel(int rows, int vectors) {
  constexpr int most = kBlocks<Bytes>.pixel_vectors;
  static constexpr auto table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<PixelKernel<T>, sizeof...(I)>{
        pixel_kernel_at<T, Bytes, int(I) / most + 1, int(I) % most + 1>()...};
  }(std::make_index_sequence<kBlocks<Bytes>.pixel_rows * most>());
  return table[size_t((rows - 1) * most + vectors - 1)];
}
template <class T>
PixelKernel<T> pixel_kernel(bool wide, int rows, int vectors) {
  return wide ? pixel_kernel<T, 64>(rows, vectors) : pixel_kernel<T, 32>(rows, vectors);
}

// Pixels of a row, `step` apart, by Vectors of channels.
template <class T, int Bytes, int Pixels, int Vectors, bool Unit>
RL_INLINE void channel_block(int64_t depth, const T* in, int64_t step, const int64_t* offsets,
                             const T* w, const T* start, T* sums) {
  using V = typename Register<T, Bytes>::type;
  using Loose = typename Register<T, Bytes>::loose;
  constexpr int64_t L = Register<T, Bytes>::lanes, kWidth = Vectors * L;
  V acc[Pixels][Vectors];
#pragma GCC unroll 16
  for (int p = 0; p < Pixels; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      acc[p][v] =
          *reinterpret_cast<const Loose*>(start ? start + v * L : sums + p * kWidth + v * L);
  }
  for (int64_t k = 0; k < depth; ++k, w += kWidth) {
    const T* x = in + offsets[k];
    V f[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) f[v] = *reinterpret_cast<const Loose*>(w + v * L);
#pragma GCC unroll 16
    for (int p = 0; p < Pixels; ++p) {
      V b = x[Unit ? p : p * step] - V{};
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) acc[p][v] += f[v] * b;
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < Pixels; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      *reinterpret_cast<Loose*>(sums + p * kWidth + v * L) = acc[p][v];
  }
}

template <class T, int Pixels, int Vectors, bool Unit>
RL_WIDE void wide_channels(int64_t depth, const T* in, int64_t step, const int64_t* offsets,
                           const T* w, const T* start, T* sums) {
  channel_block<T, 64, Pixels, Vectors, Unit>(depth, in, step, offsets, w, start, sums);
}
template <class T, int Pixels, int Vectors, bool Unit>
RL_NARROW void narrow_channels(int64_t depth, const T* in, int64_t step, const int64_t* offsets,
                               const T* w, const T* start, T* sums) {
  channel_block<T, 32, Pixels, Vectors, Unit>(depth, in, step, offsets, w, start, sums);
}

template <class T>
using ChannelKernel = void (*)(int64_t, const T*, int64_t, const int64_t*, const T*, const T*, T*);
template <class T, int Bytes, int Pixels, int Vectors, bool Unit>
constexpr ChannelKernel<T> channel_kernel_at() {
  if constexpr (Bytes == 64) return wide_channels<T, Pixels, Vectors, Unit>;
  else return narrow_channels<T, Pixels, Vectors, Unit>;
}
template <class T, int Bytes, int Vectors, bool Unit>
ChannelKernel<T> channel_kernel_of(int pixels) {
  static constexpr auto table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<ChannelKernel<T>, sizeof...(I)>{
        channel_kernel_at<T, Bytes, int(I) + 1, Vectors, Unit>()...};
  }(std::make_index_sequence<size_t(kBlocks<Bytes>.channel_pixels(Vectors))>());
  return table[size_t(pixels - 1)];
}
template <class T, int Bytes, int Vectors = kBlocks<Bytes>.channel_vectors>
ChannelKernel<T> channel_kernel(int pixels, int vectors, bool unit) {
  if constexpr (Vectors > 1)
    if (vectors < Vectors) return channel_kernel<T, Bytes, Vectors - 1>(pixels, vectors, unit);
  return unit ? channel_kernel_of<T, Bytes, Vectors, true>(pixels)
              : channel_kernel_of<T, Bytes, Vectors, false>(pixels);
}
template <class T>
ChannelKernel<T> channel_kernel(bool wide, int pixels, int vectors, bool unit) {
  return wide ? channel_kernel<T, 64>(pixels, vectors, unit)
              : channel_kernel<T, 32>(pixels, vectors, unit);
}

// sums [pixels][width] as rows of pixels, one for each channel.
template <class T>
void turn_out(const T* sums, int64_t width, int64_t pixels, int64_t channels, T* out,
              int64_t plane) {
  constexpr int64_t item = sizeof(T);
  move2d(item, reinterpret_cast<char*>(out), plane * item, item,
         reinterpret_cast<const char*>(sums), item, width * item, channels, pixels);
}

// Two rows that take turns.
template <class T>
RL_CLONES void zip_rows(const T* __restrict even, const T* __restrict odd, int64_t pairs,
                        T* __restrict to) {
  for (int64_t i = 0; i < pairs; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

}  // namespace rl::cpu
