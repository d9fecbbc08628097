// Variance and logsumexp: two values per output, found block by block and merged.
#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernels.h"

namespace rl::cpu {
namespace {

template <class T>
struct SquaredDistance {
  double center;
  RL_INLINE double operator()(T x) const {
    double d = double(x) - center;
    return d * d;
  }
};

// a: the mean, b: the sum of squared distances to it; in double, as squares of small differences
// between large numbers are wanted.
template <class T>
struct Moments {
  using C = T;
  using A = double;
  using B = double;
  using View = Partial<Moments>;
  static constexpr int64_t kRows = 32;
  static constexpr bool kCommutes = true;

  RL_CLONES static void rows(const void* from, int64_t count, int64_t n, Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<Moments>(parts);
    for (int64_t r = 0; r < count; ++r, x += n) {
      out.a[r] = fold_row<SumOf<double>>(x, n) / double(n);
      out.b[r] = fold_row<SumOf<double>>(x, n, SquaredDistance<T>{out.a[r]});
    }
  }
  RL_CLONES static void tile(const void* from, int64_t stride, int64_t rows, int64_t width,
                             Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<Moments>(parts);
    double* __restrict mean = out.a, * __restrict squares = out.b;
    std::fill(mean, mean + width, 0.0);
    fold_tile<SumOf<double>>(x, stride, rows, width, mean, Itself<double>());
    for (int64_t j = 0; j < width; ++j) {
      mean[j] /= double(rows);
      squares[j] = 0;
    }
    for (int64_t r = 0; r < rows; ++r, x += stride) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        double d = double(x[j]) - mean[j];
        squares[j] += d * d;
      }
    }
  }
  static void merge(Parts former, int64_t n_to, Parts latter, int64_t n_from, int64_t width) {
    View to = typed<Moments>(former), from = typed<Moments>(latter);
    double share = double(n_from) / double(n_to + n_from), weight = share * double(n_to);
    for (int64_t j = 0; j < width; ++j) {
      double apart = from.a[j] - to.a[j];
      to.a[j] += apart * share;
      to.b[j] += from.b[j] + apart * apart * weight;
    }
  }
};

template <class T>
RL_INLINE T finite_or_zero(T x) {
  return x - x == 0 ? x : x != x ? x : T(0);
}

template <class T>
struct ShiftedExp {
  T shift;
  RL_INLINE T operator()(T x) const { return exp_of(x - shift); }
};

// a: the maximum m, b: the sum of exp(x - m), unshifted where m is infinite.
template <class T>
struct ExpSum {
  using C = T;
  using A = T;
  using B = T;
  using View = Partial<ExpSum>;
  static constexpr int64_t kRows = 32;
  static constexpr bool kCommutes = true;

  RL_CLONES static void rows(const void* from, int64_t count, int64_t n, Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<ExpSum>(parts);
    for (int64_t r = 0; r < count; ++r, x += n) {
      out.a[r] = fold_row<MaxOf<T>>(x, n);
      out.b[r] = fold_row<SumOf<T>>(x, n, ShiftedExp<T>{finite_or_zero(out.a[r])});
    }
  }
  RL_CLONES static void tile(const void* from, int64_t stride, int64_t rows, int64_t width,
                             Parts parts) {
    auto* x = static_cast<const C*>(from);
    View out = typed<ExpSum>(parts);
    T* __restrict sum = out.b;
    T shift[kTile];
    std::fill(out.a, out.a + width, MaxOf<T>::identity());
    fold_tile<MaxOf<T>>(x, stride, rows, width, out.a, Itself<T>());
    for (int64_t j = 0; j < width; ++j) {
      shift[j] = finite_or_zero(out.a[j]);
      sum[j] = 0;
    }
    for (int64_t r = 0; r < rows; ++r, x += stride) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += exp_of(x[j] - shift[j]);
    }
  }
  // A sum relative to m, relative to the larger m' instead.
  static T moved(T sum, T m, T larger) {
    if (m == larger || sum == 0) return sum;
    return sum * exp_of(m - finite_or_zero(larger));
  }
  static void merge(Parts former, int64_t, Parts latter, int64_t, int64_t width) {
    View to = typed<ExpSum>(former), from = typed<ExpSum>(latter);
    for (int64_t j = 0; j < width; ++j) {
      T larger = MaxOf<T>::apply(to.a[j], from.a[j]);
      to.b[j] = moved(to.b[j], to.a[j], larger) + moved(from.b[j], from.a[j], larger);
      to.a[j] = larger;
    }
  }
};

template <class T>
void var_as(DType d, const void* x, void* y, void* mean, int64_t outer, int64_t n, int64_t inner,
            double divisor, bool complex) {
  auto finish = [=](int64_t at, Partial<Moments<T>> view, int64_t count) {
    if (mean) put(d, mean, at, view.a, count);
    if (complex) {  // the squares of both parts
      at /= 2;
      count /= 2;
      for (int64_t i = 0; i < count; ++i) view.b[i] = view.b[2 * i] + view.b[2 * i + 1];
    }
    for (int64_t i = 0; i < count; ++i) view.b[i] /= divisor;
    put(d, y, at, view.b, count);
  };
  reduce<Moments<T>>(Source<T>(d, x), outer, n, inner, finish);
}

template <class T>
void logsumexp_as(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  auto finish = [=](int64_t at, Partial<ExpSum<T>> view, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      view.b[i] = log_of(view.b[i]) + finite_or_zero(view.a[i]);
    }
    put(d, y, at, view.b, count);
  };
  reduce<ExpSum<T>>(Source<T>(d, x), outer, n, inner, finish);
}

}  // namespace

void var(DType d, const void* x, void* y, void* mean, int64_t outer, int64_t n, int64_t inner,
         double correction) {
  bool complex = is_complex(d);
  double divisor = std::max(0.0, double(n) - correction);
  if (complex) {
    d = real_of(d);
    inner *= 2;
  }
  if (d == DType::F64) return var_as<double>(d, x, y, mean, outer, n, inner, divisor, complex);
  var_as<float>(d, x, y, mean, outer, n, inner, divisor, complex);
}

void logsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  if (d == DType::F64) return logsumexp_as<double>(d, x, y, outer, n, inner);
  logsumexp_as<float>(d, x, y, outer, n, inner);
}

}  // namespace rl::cpu
