#include "kernels/cpu/small_gemm.h"

#include "kernels/cpu/simd.h"

namespace rl::cpu {
namespace {

// A register: wider vectors are taken apart by way of the stack.
template <class C, int Bytes>
struct Wide {
  typedef C type __attribute__((vector_size(Bytes), aligned(sizeof(C)), may_alias));
};

template <class C>
struct Product {
  int64_t k;
  const C* a;
  int64_t a_row, a_col;
  const C* b;
  int64_t b_row;
  C* c;
  int64_t c_row;
};

// Rows x (Vectors registers) elements of c.
template <class C, int Bytes, int Rows, int Vectors, bool Add>
RL_INLINE void tile(const Product<C>& p, int64_t i, int64_t j) {
  using W = typename Wide<C, Bytes>::type;
  constexpr int64_t lanes = Bytes / int64_t(sizeof(C));
  W sum[Rows][Vectors] = {};
  const C *a = p.a + i * p.a_row, *b = p.b + j;
  int64_t a_row = p.a_row, a_col = p.a_col, b_row = p.b_row;
  for (int64_t q = p.k; q > 0; --q, a += a_col, b += b_row) {
    W x[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) x[v] = *reinterpret_cast<const W*>(b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[r][v] += a[r * a_row] * x[v];
    }
  }
  C* c = p.c + i * p.c_row + j;
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      W* to = reinterpret_cast<W*>(c + r * p.c_row + v * lanes);
      *to = Add ? *to + sum[r][v] : sum[r][v];
    }
  }
}

// A column of tiles.
template <class C, int Bytes, int Rows, int Vectors, bool Add>
RL_INLINE void column(const Product<C>& p, int64_t m, int64_t j) {
  int64_t i = 0;
  for (; i + Rows <= m; i += Rows) tile<C, Bytes, Rows, Vectors, Add>(p, i, j);
  if (Rows > 4 && i + 4 <= m) tile<C, Bytes, 4, Vectors, Add>(p, i, j), i += 4;
  if (Rows > 2 && i + 2 <= m) tile<C, Bytes, 2, Vectors, Add>(p, i, j), i += 2;
  if (i < m) tile<C, Bytes, 1, Vectors, Add>(p, i, j);
}

// Columns as wide as Vectors registers, and a last one of kLanes where they leave one over.
template <class C, int Bytes, int Rows, int Vectors, bool Add>
RL_INLINE void sweep(const Product<C>& p, int64_t m, int64_t n) {
  constexpr int64_t step = Vectors * Bytes / int64_t(sizeof(C));
  static_assert(step % kLanes<C> == 0);
  int64_t j = 0;
  for (; j + step <= n; j += step) column<C, Bytes, Rows, Vectors, Add>(p, m, j);
  if constexpr (step > kLanes<C>)
    if (j < n) column<C, Bytes, Rows, 64 / Bytes, Add>(p, m, j);
}

// Tiles that fill the registers: 32 of 64 bytes, 16 of 32 or 16 of 16.
#if RL_LEVELS
template <class C, bool Add>
RL_V4 void run_v4(const Product<C>& p, int64_t m, int64_t n) {
  sweep<C, 64, 8, 2, Add>(p, m, n);
}
template <class C, bool Add>
RL_V3 void run_v3(const Product<C>& p, int64_t m, int64_t n) {
  sweep<C, 32, 6, 2, Add>(p, m, n);
}
#endif
template <class C, bool Add>
void run_v1(const Product<C>& p, int64_t m, int64_t n) {
  sweep<C, 16, 2, 4, Add>(p, m, n);
}
template <class C, bool Add>
void run(const Product<C>& p, int64_t m, int64_t n) {
#if RL_LEVELS
  static const auto chosen = for_level(run_v4<C, Add>, run_v3<C, Add>, run_v1<C, Add>);
  chosen(p, m, n);
#else
  run_v1<C, Add>(p, m, n);
#endif
}

}  // namespace

template <class C>
void small_gemm(int64_t m, int64_t n, int64_t k, const C* a, int64_t a_row, int64_t a_col,
                const C* b, int64_t b_row, C* c, int64_t c_row, bool add) {
  Product<C> p{k, a, a_row, a_col, b, b_row, c, c_row};
  add ? run<C, true>(p, m, n) : run<C, false>(p, m, n);
}

template void small_gemm(int64_t, int64_t, int64_t, const float*, int64_t, int64_t, const float*,
                         int64_t, float*, int64_t, bool);
template void small_gemm(int64_t, int64_t, int64_t, const double*, int64_t, int64_t, const double*,
                         int64_t, double*, int64_t, bool);

}  // namespace rl::cpu
