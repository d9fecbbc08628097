// Factors of one large matrix: blocks of columns go to LAPACK, on one thread, and what follows from
// each block for the rest of the matrix is shared by threads. The cut depends on sizes alone.
#pragma once

#include "kernels/cpu/lapack.h"
#include "kernels/cpu/linalg.h"

namespace rl::cpu::lapack {

inline constexpr int64_t kLarge = 192;  // rows from which a matrix is cut
inline constexpr int64_t kBlock = 64;
inline constexpr int64_t kStrip = 128;  // columns (or rows) of a task

// Reflections of height m that are applied together: few, since LAPACK computes them one by one, and
// to strips that stay beside them in the first-level cache.
inline int64_t reflections(int64_t m) { return m < 2048 ? 16 : 32; }
inline constexpr int64_t kReflected = 32;

// c [m, n] -= a [m, k] * b [k, n], all in columns; b's strides may be those of a transpose.
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t lead_a, const T* b,
                      int64_t b_row, int64_t b_column, T* c, int64_t lead_c) {
  if (m > 0 && n > 0)
    gemm(dtype_of<T>::value, n, m, k, -1, {b, b_column, b_row}, {a, lead_a, 1}, 1, c, lead_c);
}

template <class T>
void solve_strip(const char* side, const char* part, const char* form, const char* unit, int64_t m,
                 int64_t n, const T* a, int64_t lead_a, T* b, int64_t lead_b) {
  static auto* trsm =
      find<T, void(const char*, const char*, const char*, const char*, const int*, const int*,
                   const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t)>(
          "trsm");
  T one(1);
  int rows = int(m), columns = int(n), la = int(lead_a), lb = int(lead_b);
  trsm(side, part, form, unit, &rows, &columns, &one, a, &la, b, &lb, 1, 1, 1, 1);
}

// The first zero on the diagonal of u, counted from 1, or 0.
template <class T>
int blocked_lu(int64_t m, int64_t n, T* a, int32_t* pivots) {
  static auto* getrf = find<T, void(const int*, const int*, T*, const int*, int*, int*)>("getrf");
  static auto* laswp =
      find<T, void(const int*, T*, const int*, const int*, const int*, const int*, const int*)>(
          "laswp");
  int64_t k = std::min(m, n);
  int lead = int(m), info = 0;
  for (int64_t j = 0; j < k; j += kBlock) {
    int64_t width = std::min(kBlock, k - j), next = j + width;
    int rows = int(m - j), columns = int(width), bad = 0;
    T* corner = a + j + j * m;
    getrf(&rows, &columns, corner, &lead, pivots + j, &bad);
    if (bad > 0 && info == 0) info = bad + int(j);
    for (int64_t i = j; i < next; i++) pivots[i] += int32_t(j);
    parallel_for(n, kStrip, [&](int64_t begin, int64_t end) {
      int first = int(j) + 1, last = int(next), one = 1;
      auto exchange = [&](int64_t from, int64_t to) {
        int count = int(to - from);
        if (count > 0) laswp(&count, a + from * m, &lead, &first, &last, pivots, &one);
      };
      exchange(begin, std::min(end, j));
      exchange(std::max(begin, next), end);
      int64_t from = std::max(begin, next);
      if (from < end)
        solve_strip<T>("L", "L", "N", "U", width, end - from, corner, m, a + j + from * m, m);
    });
    subtract_product(m - next, n - next, width, corner + width, m, a + j + next * m, 1, m,
                     a + next + next * m, m);
  }
  return info;
}

// The lower factor of a real matrix. The order of the first minor that is not positive, or 0.
template <class T>
int blocked_cholesky(int64_t n, T* a) {
  static auto* potrf =
      find<T, void(const char*, const int*, T*, const int*, int*, size_t)>("potrf");
  int lead = int(n);
  for (int64_t j = 0; j < n; j += kBlock) {
    int64_t width = std::min(kBlock, n - j), next = j + width;
    T *corner = a + j + j * n, *panel = corner + width;
    int size = int(width), bad = 0;
    potrf("L", &size, corner, &lead, &bad, 1);
    if (bad > 0) return bad + int(j);
    parallel_for(n - next, kStrip, [&](int64_t begin, int64_t end) {
      solve_strip<T>("R", "L", "T", "N", end - begin, width, corner, n, panel + begin, n);
    });
    for (int64_t c = 0; c < n - next; c += 2 * kStrip)
      subtract_product(n - next - c, std::min(2 * kStrip, n - next - c), width, panel + c, n,
                       panel + c, n, 1, a + (next + c) * (n + 1), n);
  }
  return 0;
}

// Reflections in `width` columns of height m applied to columns of the same height.
template <class T>
void reflect_columns(const char* form, int64_t m, int64_t width, const T* v, int64_t lead,
                     const T* tau, T* c, int64_t lead_c, int64_t columns) {
  static auto* larft = find<T, void(const char*, const char*, const int*, const int*, const T*,
                                    const int*, const T*, T*, const int*, size_t, size_t)>("larft");
  static auto* larfb =
      find<T, void(const char*, const char*, const char*, const char*, const int*, const int*,
                   const int*, const T*, const int*, const T*, const int*, T*, const int*, T*,
                   const int*, size_t, size_t, size_t, size_t)>("larfb");
  if (columns <= 0) return;
  int rows = int(m), count = int(width), step = int(lead), step_c = int(lead_c);
  std::vector<T> triangle(size_t(width * width));
  larft("F", "C", &rows, &count, v, &step, tau, triangle.data(), &count, 1, 1);
  parallel_for(columns, kReflected, [&](int64_t begin, int64_t end) {
    int strip = int(end - begin);
    std::vector<T> work(size_t(width) * size_t(strip));
    larfb("L", form, "F", "C", &rows, &strip, &count, v, &step, triangle.data(), &count,
          c + begin * lead_c, &step_c, work.data(), &strip, 1, 1, 1, 1);
  });
}

template <class T>
void blocked_qr(int64_t m, int64_t n, T* a, T* tau) {
  static auto* geqrf =
      find<T, void(const int*, const int*, T*, const int*, T*, T*, const int*, int*)>("geqrf");
  int64_t k = std::min(m, n), block = reflections(m);
  int lead = int(m), room = int(block * 32), none = 0;
  std::vector<T> work(static_cast<size_t>(room));
  for (int64_t j = 0; j < k; j += block) {
    int64_t width = std::min(block, k - j), next = j + width;
    int rows = int(m - j), columns = int(width);
    T* corner = a + j + j * m;
    geqrf(&rows, &columns, corner, &lead, tau + j, work.data(), &room, &none);
    reflect_columns<T>(is_complex_v<T> ? "C" : "T", m - j, width, corner, m, tau + j,
                       a + j + next * m, m, n - next);
  }
}

// The first n columns of the product of the k reflections in a. Those of a block meet columns of the
// identity where they lay themselves.
template <class T>
void blocked_reflect(int64_t m, int64_t n, int64_t k, T* a, const T* tau) {
  int64_t block = reflections(m);
  std::vector<T> v(static_cast<size_t>(m * block));
  auto clear = [&](int64_t from, int64_t to) {
    for (int64_t c = from; c < to; c++) {
      std::fill(a + c * m, a + (c + 1) * m, T(0));
      a[c * m + c] = T(1);
    }
  };
  clear(k, n);
  for (int64_t j = (k - 1) / block * block; j >= 0; j -= block) {
    int64_t width = std::min(block, k - j), height = m - j;
    T* corner = a + j + j * m;
    for (int64_t c = 0; c < width; c++)
      std::copy(corner + c * m, corner + c * m + height, v.data() + c * height);
    clear(j, j + width);
    reflect_columns<T>("N", height, width, v.data(), height, tau + j, corner, m, n - j);
  }
}

}  // namespace rl::cpu::lapack
