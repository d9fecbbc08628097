#include "kernels/cpu/move2d.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

template <int Size>
struct Lane;
// clang-format off
template <> struct Lane<1> { using type = uint8_t; };
template <> struct Lane<2> { using type = uint16_t; };
template <> struct Lane<4> { using type = uint32_t; };
template <> struct Lane<8> { using type = uint64_t; };
// clang-format on

// A 16-byte vector: every x86-64 has it, and the shuffles below need no more.
template <int Size>
using Vector __attribute__((vector_size(16))) = typename Lane<Size>::type;

#ifdef __clang__
template <int Size, int... I>
RL_INLINE void interleave(Vector<Size> a, Vector<Size> b, Vector<Size>& low, Vector<Size>& high,
                          std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * n)...);
  high = __builtin_shufflevector(a, b, (n / 2 + I / 2 + I % 2 * n)...);
}
template <int Size>
RL_INLINE void interleave(Vector<Size> a, Vector<Size> b, Vector<Size>& low, Vector<Size>& high) {
  interleave<Size>(a, b, low, high, std::make_integer_sequence<int, 16 / Size>());
}
#else
template <int Size>
RL_INLINE void interleave(Vector<Size> a, Vector<Size> b, Vector<Size>& low, Vector<Size>& high) {
  constexpr int n = 16 / Size;
  Vector<Size> low_mask, high_mask;
  for (int i = 0; i < n / 2; ++i) {
    using T = typename Lane<Size>::type;
    low_mask[2 * i] = T(i);
    low_mask[2 * i + 1] = T(n + i);
    high_mask[2 * i] = T(n / 2 + i);
    high_mask[2 * i + 1] = T(n + n / 2 + i);
  }
  low = __builtin_shuffle(a, b, low_mask);
  high = __builtin_shuffle(a, b, high_mask);
}
#endif

// A square of 16 / Size items a side: each of the log2 rounds is a perfect shuffle of the rows.
template <int Size>
RL_INLINE void transpose_square(char* out, int64_t out_row, const char* in, int64_t in_row) {
  constexpr int n = 16 / Size;
  Vector<Size> a[n], b[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(&a[i], in + i * in_row, 16);
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) interleave<Size>(a[i], a[i + n / 2], b[2 * i], b[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) std::memcpy(out + i * out_row, &a[i], 16);
}

template <int Size>
RL_INLINE void move_one(char* out, const char* in) {
  std::memcpy(out, in, Size);
}

// out's unit stride is j's, in's is i's.
template <int Size>
void transpose(char* out, int64_t out_row, const char* in, int64_t in_row, int64_t outer,
               int64_t inner) {
  constexpr int64_t n = 16 / Size;
  // A tile's rows are one cache line of out and a few of in; both stay in the first-level cache.
  constexpr int64_t kTileInner = std::max<int64_t>(64 / Size, n), kTileOuter = 4 * n;
  for (int64_t i0 = 0; i0 < outer; i0 += kTileOuter) {
    int64_t i1 = std::min(outer, i0 + kTileOuter);
    for (int64_t j0 = 0; j0 < inner; j0 += kTileInner) {
      int64_t j1 = std::min(inner, j0 + kTileInner);
      int64_t i = i0;
      for (; i + n <= i1; i += n) {
        int64_t j = j0;
        for (; j + n <= j1; j += n) {
          transpose_square<Size>(out + i * out_row + j * Size, out_row, in + i * Size + j * in_row,
                                 in_row);
        }
        for (; j < j1; ++j) {
          for (int64_t r = i; r < i + n; ++r) {
            move_one<Size>(out + r * out_row + j * Size, in + r * Size + j * in_row);
          }
        }
      }
      for (; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          move_one<Size>(out + i * out_row + j * Size, in + i * Size + j * in_row);
        }
      }
    }
  }
}

template <int Size>
RL_INLINE void broadcast(char* out, const char* in, int64_t n) {
  if constexpr (Size == 16) {
    for (int64_t i = 0; i < n; ++i) move_one<Size>(out + i * Size, in);
  } else {
    typename Lane<Size>::type value;
    std::memcpy(&value, in, Size);
    for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * Size, &value, Size);
  }
}

template <int Size>
RL_INLINE void move_row(char* out, int64_t out_stride, const char* in, int64_t in_stride,
                        int64_t n) {
  if (in_stride == Size && out_stride == Size) {
    if (n * Size > 64) {
      std::memcpy(out, in, size_t(n * Size));
    } else {
      for (int64_t i = 0; i < n; ++i) move_one<Size>(out + i * Size, in + i * Size);
    }
  } else if (in_stride == 0 && out_stride == Size) {
    broadcast<Size>(out, in, n);
  } else {
    for (int64_t i = 0; i < n; ++i) move_one<Size>(out + i * out_stride, in + i * in_stride);
  }
}

template <int Size>
void move(char* out, int64_t out_outer, int64_t out_inner, const char* in, int64_t in_outer,
          int64_t in_inner, int64_t outer, int64_t inner) {
  if constexpr (Size < 16) {
    if (out_inner == Size && in_outer == Size && in_inner != Size && outer > 1) {
      return transpose<Size>(out, out_outer, in, in_inner, outer, inner);
    }
  }
  for (int64_t i = 0; i < outer; ++i) {
    move_row<Size>(out + i * out_outer, out_inner, in + i * in_outer, in_inner, inner);
  }
}

}  // namespace

void move2d(int64_t size, char* out, int64_t out_outer, int64_t out_inner, const char* in,
            int64_t in_outer, int64_t in_inner, int64_t outer, int64_t inner) {
  switch (size) {
    case 1: return move<1>(out, out_outer, out_inner, in, in_outer, in_inner, outer, inner);
    case 2: return move<2>(out, out_outer, out_inner, in, in_outer, in_inner, outer, inner);
    case 4: return move<4>(out, out_outer, out_inner, in, in_outer, in_inner, outer, inner);
    case 8: return move<8>(out, out_outer, out_inner, in, in_outer, in_inner, outer, inner);
    default: return move<16>(out, out_outer, out_inner, in, in_outer, in_inner, outer, inner);
  }
}

}  // namespace rl::cpu
