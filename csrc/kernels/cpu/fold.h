// Reductions by one associative operation: the policies that reduce_driver.h walks with.
#pragma once

#include <limits>

#include "kernels/cpu/elementary.h"
#include "kernels/cpu/reduce_driver.h"
#include "kernels/cpu/simd.h"

namespace rl::cpu {

RL_INLINE float log_of(float x) { return ::logf(x); }
RL_INLINE double log_of(double x) { return ::log(x); }

template <class T>
struct SumOf {
  using C = T;
  static C identity() { return C(0); }
  static RL_INLINE C apply(C a, C b) { return wrapping_add(a, b); }
};

template <class T>
struct ProductOf {
  using C = T;
  static C identity() { return C(1); }
  static RL_INLINE C apply(C a, C b) { return wrapping_multiply(a, b); }
};

// The extremes keep a NaN, on either side.
template <class T>
struct MaxOf {
  using C = T;
  static C identity() {
    using L = std::numeric_limits<C>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  }
  static RL_INLINE C apply(C a, C b) {
    C larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};

template <class T>
struct MinOf {
  using C = T;
  static C identity() {
    using L = std::numeric_limits<C>;
    return L::has_infinity ? L::infinity() : L::max();
  }
  static RL_INLINE C apply(C a, C b) {
    C smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};

// What is reduced in place of an element.
template <class A>
struct Itself {
  template <class T>
  RL_INLINE A operator()(T x) const {
    return A(x);
  }
};

template <class A>
struct Square {
  RL_INLINE A operator()(A x) const { return x * x; }
};

// Op over at(0) ... at(n - 1), with enough independent partial results to hide its latency.
template <class Op, class At>
RL_INLINE typename Op::C fold_each(int64_t n, const At& at) {
  using A = typename Op::C;
  constexpr int64_t lanes = 256 / sizeof(A);
  A total = Op::identity();
  int64_t i = 0;
  if (n >= 2 * lanes) {
    A part[lanes];
#pragma omp simd
    for (int64_t l = 0; l < lanes; ++l) part[l] = at(l);
    for (i = lanes; i + lanes <= n; i += lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) part[l] = Op::apply(part[l], at(i + l));
    }
#pragma GCC unroll 8
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
#pragma omp simd
      for (int64_t l = 0; l < half; ++l) part[l] = Op::apply(part[l], part[l + half]);
    }
    total = part[0];
  }
  if (n - i >= 8) {
    A part[8];
#pragma omp simd
    for (int l = 0; l < 8; ++l) part[l] = at(i + l);
    for (i += 8; i + 8 <= n; i += 8) {
#pragma omp simd
      for (int l = 0; l < 8; ++l) part[l] = Op::apply(part[l], at(i + l));
    }
    for (int l = 0; l < 4; ++l) part[l] = Op::apply(part[l], part[l + 4]);
    part[0] = Op::apply(Op::apply(part[0], part[2]), Op::apply(part[1], part[3]));
    total = Op::apply(total, part[0]);
  }
  for (; i < n; ++i) total = Op::apply(total, at(i));
  return total;
}

#define RL_EACH(i) [&](int64_t i) __attribute__((always_inline))

template <class Op, class T, class Lift>
RL_INLINE typename Op::C fold_row(const T* x, int64_t n, const Lift& lift) {
  return fold_each<Op>(n, RL_EACH(i) { return lift(x[i]); });
}

template <class Op, class T>
RL_INLINE typename Op::C fold_row(const T* x, int64_t n) {
  return fold_row<Op>(x, n, Itself<typename Op::C>());
}

// The sum of at(0) ... at(n - 1): blocks in C, their sums in double, so that the rounding error does
// not grow with n.
template <class C, class At>
RL_INLINE double sum_each(int64_t n, const At& at) {
  double total = 0;
  for (int64_t from = 0; from < n; from += kBlock) {
    total += double(
        fold_each<SumOf<C>>(std::min(kBlock, n - from), RL_EACH(i) { return at(from + i); }));
  }
  return total;
}

template <class C>
RL_INLINE double sum_row(const C* x, int64_t n) {
  return sum_each<C>(n, RL_EACH(i) { return x[i]; });
}

// Takes rows into the results of a tile's columns, four at a time.
template <class Op, class T, class Lift>
RL_INLINE void fold_tile(const T* x, int64_t stride, int64_t rows, int64_t width,
                         typename Op::C* out, const Lift& lift) {
  using A = typename Op::C;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    const T *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      A first = Op::apply(lift(x[j]), lift(x1[j])), second = Op::apply(lift(x2[j]), lift(x3[j]));
      out[j] = Op::apply(out[j], Op::apply(first, second));
    }
  }
  for (; r < rows; ++r, x += stride) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) out[j] = Op::apply(out[j], lift(x[j]));
  }
}

constexpr int64_t kExactRows = 128;  // rows summed in C before the sum goes on in double

template <class Op, class Lift = Itself<typename Op::C>>
struct Fold {
  using C = typename Op::C;
  using A = C;
  using B = Nothing;
  static constexpr int64_t kRows = 256;
  static constexpr bool kCommutes = true;

  RL_CLONES static void rows(const void* x, int64_t count, int64_t n, Parts parts) {
    C* out = typed<Fold>(parts).a;
    for (int64_t r = 0; r < count; ++r)
      out[r] = fold_row<Op>(static_cast<const C*>(x) + r * n, n, Lift());
  }
  // bfloat16 read as it lies: widening it is one shift.
  RL_CLONES static void bfloats(const void* x, int64_t count, int64_t n, Parts parts)
    requires std::is_same_v<C, float>
  {
    C* out = typed<Fold>(parts).a;
    for (int64_t r = 0; r < count; ++r) {
      const BF16* row = static_cast<const BF16*>(x) + r * n;
      out[r] = fold_each<Op>(
          n, RL_EACH(i) { return Lift()(std::bit_cast<float>(uint32_t(row[i].bits) << 16)); });
    }
  }
  RL_CLONES static void tile(const void* x, int64_t stride, int64_t rows, int64_t width,
                             Parts parts) {
    C* out = typed<Fold>(parts).a;
    std::fill(out, out + width, Op::identity());
    fold_tile<Op>(static_cast<const C*>(x), stride, rows, width, out, Lift());
  }
  static void merge(Parts to, int64_t, Parts from, int64_t, int64_t width) {
    C *a = typed<Fold>(to).a, *b = typed<Fold>(from).a;
    if (width == 1) *a = Op::apply(*a, *b);
    else
      for (int64_t j = 0; j < width; ++j) a[j] = Op::apply(a[j], b[j]);
  }
};

}  // namespace rl::cpu
