// Factors of small matrices in columns, where a call of LAPACK costs more than the work.
#pragma once

#include "kernels/cpu/lapack.h"

namespace rl::cpu::lapack {

inline constexpr int64_t kSmall = 24;  // columns up to which these are quicker

// y += f * x
template <class T>
RL_INLINE void add_scaled(int64_t n, T f, const T* __restrict x, T* __restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

template <class T>
RL_INLINE T inner_product(int64_t n, const T* __restrict x, const T* __restrict y) {
  T sum(0);
  for (int64_t i = 0; i < n; i++) sum += conjugate(x[i]) * y[i];
  return sum;
}

// As LAPACK compares pivots.
template <class T>
RL_INLINE Real<T> size_of(T x) {
  if constexpr (is_complex_v<T>) return std::abs(x.real()) + std::abs(x.imag());
  else return std::abs(x);
}

// The order of the first minor that is not positive, or 0.
template <class T>
int small_cholesky(int64_t n, T* a, bool upper) {
  for (int64_t j = 0; j < n; j++) {
    T* column = a + j * n;
    if (upper) {
      for (int64_t i = 0; i < j; i++)
        column[i] = (column[i] - inner_product(i, a + i * n, column)) / std::real(a[i * n + i]);
      column[j] -= inner_product(j, column, column);
    } else {
      for (int64_t k = 0; k < j; k++)
        add_scaled(n - j, -conjugate(a[k * n + j]), a + k * n + j, column + j);
    }
    Real<T> pivot = std::real(column[j]);
    if (!(pivot > 0)) {
      column[j] = T(pivot);
      return int(j) + 1;
    }
    Real<T> root = std::sqrt(pivot);
    column[j] = T(root);
    if (!upper)
      for (int64_t i = j + 1; i < n; i++) column[i] /= root;
  }
  return 0;
}

template <class T>
int small_lu(int64_t m, int64_t n, T* a, int32_t* pivots) {
  int info = 0;
  for (int64_t j = 0; j < std::min(m, n); j++) {
    T* column = a + j * m;
    int64_t best = j;
    for (int64_t i = j + 1; i < m; i++)
      if (size_of(column[i]) > size_of(column[best])) best = i;
    pivots[j] = int32_t(best) + 1;
    if (column[best] == T(0)) {
      if (info == 0) info = int(j) + 1;
      continue;
    }
    if (best != j)
      for (int64_t c = 0; c < n; c++) std::swap(a[c * m + j], a[c * m + best]);
    // Quotients and not products by a reciprocal: of equal rows exactly nothing is left.
    for (int64_t i = j + 1; i < m; i++) column[i] /= column[j];
    for (int64_t c = j + 1; c < n; c++)
      add_scaled(m - j - 1, -a[c * m + j], column + j + 1, a + c * m + j + 1);
  }
  return info;
}

// b [n, columns] becomes a^-1 * b of the factors in lu.
template <class T>
void small_lu_solve(int64_t n, int64_t columns, const T* lu, const int32_t* pivots, T* b) {
  for (int64_t c = 0; c < columns; c++) {
    T* x = b + c * n;
    for (int64_t i = 0; i < n; i++)
      if (pivots[i] - 1 != i) std::swap(x[i], x[pivots[i] - 1]);
    for (int64_t j = 0; j < n; j++) add_scaled(n - j - 1, -x[j], lu + j * n + j + 1, x + j + 1);
    for (int64_t j = n - 1; j >= 0; j--) {
      x[j] /= lu[j * n + j];
      add_scaled(j, -x[j], lu + j * n, x);
    }
  }
}

// The length of a vector, without overflow.
template <class T>
Real<T> length(int64_t n, const T* x) {
  Real<T> most(0), sum(0);
  for (int64_t i = 0; i < n; i++) most = std::max(most, size_of(x[i]));
  if (!(most > 0)) {
    for (int64_t i = 0; i < n; i++)
      if (x[i] != x[i]) return std::numeric_limits<Real<T>>::quiet_NaN();
    return 0;
  }
  Real<T> factor = 1 / most;
  if (!std::isfinite(factor)) factor = 1;
  for (int64_t i = 0; i < n; i++) sum += std::norm(x[i] * factor);
  return std::sqrt(sum) / factor;
}

// column = beta * e0 after the reflection 1 - tau * v * v^H, v[0] being 1 and the rest left in place.
template <class T>
T make_reflection(int64_t n, T* column) {
  Real<T> rest = length(n - 1, column + 1), imaginary = 0;
  if constexpr (is_complex_v<T>) imaginary = column[0].imag();
  if (rest == 0 && imaginary == 0) return T(0);
  Real<T> alpha = std::real(column[0]);
  Real<T> beta = -std::copysign(std::hypot(alpha, std::hypot(rest, imaginary)), alpha);
  T tau, scale = T(1) / (column[0] - T(beta));
  if constexpr (is_complex_v<T>) tau = T((beta - alpha) / beta, -imaginary / beta);
  else tau = (beta - alpha) / beta;
  for (int64_t i = 1; i < n; i++) column[i] *= scale;
  column[0] = T(beta);
  return tau;
}

// c -= tau * v * (v^H * c), v[0] being 1.
template <class T>
RL_INLINE void apply_reflection(int64_t n, const T* v, T tau, T* c) {
  T along = tau * (c[0] + inner_product(n - 1, v + 1, c + 1));
  c[0] -= along;
  add_scaled(n - 1, -along, v + 1, c + 1);
}

template <class T>
void small_qr(int64_t m, int64_t n, T* a, T* tau) {
  for (int64_t j = 0; j < std::min(m, n); j++) {
    T* v = a + j * m + j;
    tau[j] = make_reflection(m - j, v);
    if (tau[j] == T(0)) continue;
    for (int64_t c = j + 1; c < n; c++)
      apply_reflection(m - j, v, conjugate(tau[j]), a + c * m + j);
  }
}

template <class T>
void small_reflect(int64_t m, int64_t n, int64_t k, T* a, const T* tau) {
  for (int64_t c = k; c < n; c++) {
    std::fill(a + c * m, a + (c + 1) * m, T(0));
    a[c * m + c] = T(1);
  }
  for (int64_t j = k - 1; j >= 0; j--) {
    T* v = a + j * m + j;
    for (int64_t c = j + 1; c < n; c++) apply_reflection(m - j, v, tau[j], a + c * m + j);
    for (int64_t i = 1; i < m - j; i++) v[i] *= -tau[j];
    v[0] = T(1) - tau[j];
    std::fill(a + j * m, v, T(0));
  }
}

}  // namespace rl::cpu::lapack
