// The inner loops of convolutions for machines with AVX-512: blocks of sums in registers.
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
#else
#define RL_WIDE
#endif

namespace rl::cpu {

template <class T>
inline constexpr int64_t kLanes = 64 / int64_t(sizeof(T));

template <class T>
struct Register;
template <>
struct Register<float> {
  typedef float type __attribute__((vector_size(64)));
  typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));
};
template <>
struct Register<double> {
  typedef double type __attribute__((vector_size(64)));
  typedef double loose __attribute__((vector_size(64), aligned(8), may_alias));
};

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

inline constexpr int kPixelRows = 6, kPixelVectors = 4;
inline constexpr int kChannelVectors = 4;
constexpr int channel_pixels(int vectors) {
  return vectors == 1 ? 16 : vectors == 2 ? 12 : vectors == 3 ? 8 : 6;
}

template <class T>
struct PixelTile {
  const T* in[kPixelVectors];
  T* out[kPixelVectors];
  int64_t lanes[kPixelVectors];
  int64_t plane;  // between channels of the result
};

template <class T>
RL_WIDE inline void copy_row(const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// The first `count` lanes.
template <class T>
RL_WIDE inline __attribute__((always_inline)) void put_lanes(T* out, typename Register<T>::type v,
                                                             int64_t count) {
#if defined(__x86_64__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(out, __mmask16((1u << count) - 1), __m512(v));
  else _mm512_mask_storeu_pd(out, __mmask8((1u << count) - 1), __m512d(v));
#else
  for (int64_t i = 0; i < count; ++i) out[i] = v[i];
#endif
}

// Rows channels by Vectors of pixels; w has Rows weights for each step.
template <class T, int Rows, int Vectors>
RL_WIDE void pixel_block(int64_t depth, const T* w, const int64_t* offsets, const T* start,
                         const PixelTile<T>& tile, int64_t at) {
  using V = typename Register<T>::type;
  using Loose = typename Register<T>::loose;
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
    for (int r = 0; r < Rows; ++r) put_lanes<T>(out + r * tile.plane, acc[r][v], tile.lanes[v]);
  }
}

template <class T>
using PixelKernel = void (*)(int64_t, const T*, const int64_t*, const T*, const PixelTile<T>&,
                             int64_t);
template <class T>
PixelKernel<T> pixel_kernel(int rows, int vectors) {
  static constexpr auto table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<PixelKernel<T>, sizeof...(I)>{
        pixel_block<T, int(I) / kPixelVectors + 1, int(I) % kPixelVectors + 1>...};
  }(std::make_index_sequence<kPixelRows * kPixelVectors>());
  return table[size_t((rows - 1) * kPixelVectors + vectors - 1)];
}

// Pixels of a row, `step` apart, by Vectors of channels.
template <class T, int Pixels, int Vectors, bool Unit>
RL_WIDE void channel_block(int64_t depth, const T* in, int64_t step, const int64_t* offsets,
                           const T* w, const T* start, T* sums) {
  using V = typename Register<T>::type;
  using Loose = typename Register<T>::loose;
  constexpr int64_t L = kLanes<T>, kWidth = Vectors * L;
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

template <class T>
using ChannelKernel = void (*)(int64_t, const T*, int64_t, const int64_t*, const T*, const T*, T*);
template <class T, int Vectors, bool Unit>
ChannelKernel<T> channel_kernel_of(int pixels) {
  static constexpr auto table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<ChannelKernel<T>, sizeof...(I)>{
        channel_block<T, int(I) + 1, Vectors, Unit>...};
  }(std::make_index_sequence<size_t(channel_pixels(Vectors))>());
  return table[size_t(pixels - 1)];
}
template <class T>
ChannelKernel<T> channel_kernel(int pixels, int vectors, bool unit) {
  switch (vectors * 2 + unit) {
    case 2: return channel_kernel_of<T, 1, false>(pixels);
    case 3: return channel_kernel_of<T, 1, true>(pixels);
    case 4: return channel_kernel_of<T, 2, false>(pixels);
    case 5: return channel_kernel_of<T, 2, true>(pixels);
    case 6: return channel_kernel_of<T, 3, false>(pixels);
    case 7: return channel_kernel_of<T, 3, true>(pixels);
    case 8: return channel_kernel_of<T, 4, false>(pixels);
    default: return channel_kernel_of<T, 4, true>(pixels);
  }
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
RL_WIDE inline void zip_rows(const T* __restrict even, const T* __restrict odd, int64_t pairs,
                             T* __restrict to) {
  for (int64_t i = 0; i < pairs; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

}  // namespace rl::cpu
