// Extremes with their indices.
#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernels.h"

namespace rl::cpu {
namespace {

// Whether x replaces the extreme found before it: on a tie the first stays, as does a NaN.
template <class C>
RL_INLINE bool beats(const MaxOf<C>&, C x, C extreme) {
  return (x > extreme) | ((x != x) & (extreme == extreme));
}
template <class C>
RL_INLINE bool beats(const MinOf<C>&, C x, C extreme) {
  return (x < extreme) | ((x != x) & (extreme == extreme));
}

// The first position of a value that is there (any NaN for a NaN).
template <class C>
RL_INLINE int64_t position(const C* x, int64_t n, C value) {
  constexpr int64_t step = 64;
  bool nan = value != value;
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t l = 0; l < step; ++l) {
      found |= int(x[i + l] == value) | int(nan & (x[i + l] != x[i + l]));
    }
    if (found) break;
  }
  while (i + 1 < n && !(x[i] == value || (nan && x[i] != x[i]))) ++i;
  return i;
}

template <class Op>
struct Arg {
  using C = typename Op::C;
  using A = C;
  using B = int64_t;
  using View = Partial<Arg>;
  static constexpr int64_t kRows = 256;
  static constexpr bool kCommutes = false;

  RL_CLONES static void rows(const void* from, int64_t count, int64_t n, Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<Arg>(parts);
    for (int64_t r = 0; r < count; ++r, x += n) {
      out.b[r] = position(x, n, fold_row<Op>(x, n));
      out.a[r] = x[out.b[r]];
    }
  }
  RL_CLONES static void tile(const void* from, int64_t stride, int64_t rows, int64_t width,
                             Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<Arg>(parts);
    // Rows are numbered in a type as wide as the elements, which vectorises best.
    std::conditional_t<sizeof(C) == 4, int32_t, int64_t> at[kTile];
    C best[kTile];
    for (int64_t j = 0; j < width; ++j) {
      best[j] = x[j];
      at[j] = 0;
    }
    for (int64_t r = 1; r < rows; ++r) {
      const C* row = x + r * stride;
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        bool better = beats(Op(), row[j], best[j]);
        best[j] = better ? row[j] : best[j];
        at[j] = better ? r : at[j];
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      out.a[j] = best[j];
      out.b[j] = at[j];
    }
  }
  static void merge(Parts former, int64_t n_to, Parts latter, int64_t, int64_t width) {
    View to = typed<Arg>(former), from = typed<Arg>(latter);
    for (int64_t j = 0; j < width; ++j) {
      if (!beats(Op(), from.a[j], to.a[j])) continue;
      to.a[j] = from.a[j];
      to.b[j] = from.b[j] + n_to;
    }
  }
};

template <class Op>
void extreme_as(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                int64_t inner) {
  using C = typename Op::C;
  auto finish = [=](int64_t at, Partial<Arg<Op>> view, int64_t count) {
    std::copy(view.b, view.b + count, index + at);
    if (y) put(d, y, at, view.a, count);
  };
  reduce<Arg<Op>>(Source<C>(d, x), outer, n, inner, finish);
}

template <template <class> class Op>
void extreme(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
             int64_t inner) {
  if (is_integral(d)) return extreme_as<Op<int64_t>>(d, x, y, index, outer, n, inner);
  if (d == DType::F64) return extreme_as<Op<double>>(d, x, y, index, outer, n, inner);
  extreme_as<Op<float>>(d, x, y, index, outer, n, inner);
}

}  // namespace

void argmax(DType d, const void* x, int64_t* index, int64_t outer, int64_t n, int64_t inner) {
  extreme<MaxOf>(d, x, nullptr, index, outer, n, inner);
}

void argmin(DType d, const void* x, int64_t* index, int64_t outer, int64_t n, int64_t inner) {
  extreme<MinOf>(d, x, nullptr, index, outer, n, inner);
}

void max_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                    int64_t inner) {
  extreme<MaxOf>(d, x, y, index, outer, n, inner);
}

void min_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                    int64_t inner) {
  extreme<MinOf>(d, x, y, index, outer, n, inner);
}

}  // namespace rl::cpu
