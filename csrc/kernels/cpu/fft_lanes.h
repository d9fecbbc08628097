// Discrete Fourier transforms of several lines at once, a line in each lane of a vector. Stockham's
// form: every stage reads one buffer in order and writes the other, and nothing is reversed at the
// end. See docs/design/fft.md.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu/simd.h"

namespace rl::cpu::fft {

// A stage splits lines of radix * rest points into radix lines of rest points. Its factors are
// exp(-2 pi i p j / (radix * rest)), p of rest, j of radix.
template <class T>
struct Stage {
  int radix;
  int64_t rest;
  std::vector<std::complex<T>> factors;
  std::vector<std::complex<T>> roots;  // of unity, for radices without code of their own
};
template <class T>
struct Plan {
  int64_t n;
  int64_t rows = 1;    // of a long line as a matrix
  bool direct = true;  // small primes alone; else the line goes by a convolution
  std::vector<Stage<T>> stages;
};

template <class T, int Bytes>
struct Vector {
  typedef T type __attribute__((vector_size(Bytes)));
  static constexpr int lanes = Bytes / int(sizeof(T));
};

// A vector from and to memory of any alignment.
template <class V, class T>
RL_INLINE void load(V& v, const T* from) {
  std::memcpy(&v, from, sizeof(V));
}
template <class V, class T>
RL_INLINE void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof(V));
}

// A complex number in each lane.
template <class T, int Bytes>
struct Point {
  typename Vector<T, Bytes>::type re, im;
  RL_INLINE Point operator+(const Point& o) const { return {re + o.re, im + o.im}; }
  RL_INLINE Point operator-(const Point& o) const { return {re - o.re, im - o.im}; }
  RL_INLINE Point times(T c, T s) const { return {re * c - im * s, re * s + im * c}; }
  RL_INLINE Point times(const std::complex<T>& w) const { return times(w.real(), w.imag()); }
  RL_INLINE Point times(T c) const { return {re * c, im * c}; }
  RL_INLINE Point minus_i() const { return {im, -re}; }
};

template <class P>
RL_INLINE void butterfly4(P& a, P& b, P& c, P& d) {
  P s = a + c, t = a - c, u = b + d, v = (b - d).minus_i();
  a = s + u, b = t + v, c = s - u, d = t - v;
}

template <class T, int Bytes, int Radix>
RL_INLINE void butterfly(Point<T, Bytes>* a) {
  using P = Point<T, Bytes>;
  if constexpr (Radix == 2) {
    P s = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = s;
  } else if constexpr (Radix == 3) {
    P s = a[1] + a[2], d = (a[1] - a[2]).minus_i().times(T(0.86602540378443864676));
    P m = a[0] - s.times(T(0.5));
    a[0] = a[0] + s, a[1] = m + d, a[2] = m - d;
  } else if constexpr (Radix == 4) {
    butterfly4(a[0], a[1], a[2], a[3]);
  } else if constexpr (Radix == 5) {
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
    constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
    P s = a[1] + a[4], t = a[2] + a[3];
    P d = (a[1] - a[4]).minus_i(), e = (a[2] - a[3]).minus_i();
    P m = a[0] + s.times(c1) + t.times(c2), n = a[0] + s.times(c2) + t.times(c1);
    P x = d.times(s1) + e.times(s2), y = d.times(s2) - e.times(s1);
    a[0] = a[0] + s + t, a[1] = m + x, a[2] = n + y, a[3] = n - y, a[4] = m - x;
  } else {
    static_assert(Radix == 8);
    constexpr T h = T(0.70710678118654752440);
    butterfly4(a[0], a[2], a[4], a[6]);
    butterfly4(a[1], a[3], a[5], a[7]);
    P o1 = a[3].times(h, -h), o2 = a[5].minus_i(), o3 = a[7].times(-h, -h), o0 = a[1];
    P e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6];
    a[0] = e0 + o0, a[1] = e1 + o1, a[2] = e2 + o2, a[3] = e3 + o3;
    a[4] = e0 - o0, a[5] = e1 - o1, a[6] = e2 - o2, a[7] = e3 - o3;
  }
}

// x[q + s (p + rest k)] over k to y[q + s (radix p + j)] over j, for q of s and p of rest.
template <class T, int Bytes, int Radix>
RL_INLINE void run_stage(const Stage<T>& stage, const Point<T, Bytes>* x, Point<T, Bytes>* y,
                         int64_t s) {
  const int64_t rest = stage.rest;
  const std::complex<T>* w = stage.factors.data();
  for (int64_t p = 0; p < rest; p++, w += Radix - 1) {
    for (int64_t q = 0; q < s; q++) {
      Point<T, Bytes> a[Radix];
#pragma GCC unroll 8
      for (int k = 0; k < Radix; k++) a[k] = x[q + s * (p + rest * k)];
      butterfly<T, Bytes, Radix>(a);
      Point<T, Bytes>* to = y + q + s * Radix * p;
      to[0] = a[0];
#pragma GCC unroll 8
      for (int j = 1; j < Radix; j++) to[s * j] = p == 0 ? a[j] : a[j].times(w[j - 1]);
    }
  }
}

template <class T, int Bytes>
RL_INLINE void run_any_stage(const Stage<T>& stage, const Point<T, Bytes>* x, Point<T, Bytes>* y,
                             int64_t s) {
  const int64_t rest = stage.rest, radix = stage.radix;
  for (int64_t p = 0; p < rest; p++) {
    for (int64_t q = 0; q < s; q++) {
      const Point<T, Bytes>* from = x + q + s * p;
      for (int64_t j = 0; j < radix; j++) {
        Point<T, Bytes> sum = from[0];
        for (int64_t k = 1, at = j; k < radix; k++, at += j) {
          if (at >= radix) at -= radix;
          sum = sum + from[s * rest * k].times(stage.roots[size_t(at)]);
        }
        if (p && j) sum = sum.times(stage.factors[size_t(p * (radix - 1) + j - 1)]);
        y[q + s * (radix * p + j)] = sum;
      }
    }
  }
}

// The transform of what lies in `from`, which comes to lie there or in `other`.
template <class T, int Bytes>
RL_INLINE Point<T, Bytes>* transform(const Plan<T>& plan, Point<T, Bytes>* from,
                                     Point<T, Bytes>* other) {
  int64_t s = 1;
  for (const Stage<T>& stage : plan.stages) {
    switch (stage.radix) {
      case 2: run_stage<T, Bytes, 2>(stage, from, other, s); break;
      case 3: run_stage<T, Bytes, 3>(stage, from, other, s); break;
      case 4: run_stage<T, Bytes, 4>(stage, from, other, s); break;
      case 5: run_stage<T, Bytes, 5>(stage, from, other, s); break;
      case 8: run_stage<T, Bytes, 8>(stage, from, other, s); break;
      default: run_any_stage<T, Bytes>(stage, from, other, s);
    }
    s *= stage.radix;
    std::swap(from, other);
  }
  return from;
}

// ---- between memory and lanes

template <class V, class T, size_t... I>
RL_INLINE void split_pairs(const T* from, V& even, V& odd, std::index_sequence<I...>) {
  V a, b;
  load(a, from);
  load(b, from + sizeof...(I));
  even = __builtin_shufflevector(a, b, int(2 * I)...);
  odd = __builtin_shufflevector(a, b, int(2 * I + 1)...);
}
template <class V, size_t... I>
RL_INLINE void join_pairs(const V& re, const V& im, V& a, V& b, std::index_sequence<I...>) {
  constexpr size_t n = sizeof...(I);
  a = __builtin_shufflevector(re, im, int(I / 2 + (I % 2) * n)...);
  b = __builtin_shufflevector(re, im, int((n + I) / 2 + (I % 2) * n)...);
}

// Element j of the i-th vector changes places with element i of the j-th.
template <int D, class V, size_t... I>
RL_INLINE void transpose_step(V* r, std::index_sequence<I...>) {
  constexpr int n = int(sizeof...(I));
#pragma GCC unroll 16
  for (int i = 0; i < n; i++) {
    if (i & D) continue;
    V a = r[i], b = r[i + D];
    r[i] = __builtin_shufflevector(a, b, (int(I) & D ? n + int(I) - D : int(I))...);
    r[i + D] = __builtin_shufflevector(a, b, (int(I) & D ? n + int(I) : int(I) + D)...);
  }
}
template <int Lanes, class V>
RL_INLINE void transpose(V* r) {
  constexpr auto all = std::make_index_sequence<size_t(Lanes)>{};
  transpose_step<1>(r, all);
  if constexpr (Lanes > 2) transpose_step<2>(r, all);
  if constexpr (Lanes > 4) transpose_step<4>(r, all);
  if constexpr (Lanes > 8) transpose_step<8>(r, all);
}

// Vectors of a line's numbers to lanes and back: r[i], lane l is from[l * step + i], for i < count
// and l < lines; count is at most the number of lanes.
template <class T, int Bytes>
RL_INLINE void load_block(const T* from, int64_t step, int lines, int64_t count,
                          typename Vector<T, Bytes>::type* r) {
  using V = Vector<T, Bytes>;
  constexpr int n = V::lanes;
  if (lines == n && count == n) {
#pragma GCC unroll 16
    for (int l = 0; l < n; l++) load(r[l], from + l * step);
    return transpose<n>(r);
  }
  for (int64_t i = 0; i < count; i++)
    for (int l = 0; l < n; l++) r[i][l] = l < lines ? from[l * step + i] : T(0);
}
template <class T, int Bytes>
RL_INLINE void store_block(typename Vector<T, Bytes>::type* r, T* to, int64_t step, int lines,
                           int64_t count) {
  using V = Vector<T, Bytes>;
  constexpr int n = V::lanes;
  if (lines == n && count == n) {
    transpose<n>(r);
#pragma GCC unroll 16
    for (int l = 0; l < n; l++) store(to + l * step, r[l]);
    return;
  }
  for (int64_t i = 0; i < count; i++)
    for (int l = 0; l < lines; l++) to[l * step + i] = r[i][l];
}

}  // namespace rl::cpu::fft
