#include "kernels/cpu/kernels.h"

#include "kernels/cpu/fold.h"

namespace rl::cpu {
namespace {

// Where results go: through `post` when set, then converted to the output's dtype.
template <class C>
struct Sink {
  char* y;
  int64_t size;
  Convert store;
  void (*post)(C* values, int64_t n, double parameter) = nullptr;
  double parameter = 0;

  Sink(DType d, void* data) : y(static_cast<char*>(data)), size(itemsize(d)), store(storer<C>(d)) {}

  template <class View>
  void operator()(int64_t at, View view, int64_t n) const {
    if (post) post(view.a, n, parameter);
    if (store) {
      store(view.a, y + at * size, n);
    } else {
      std::copy(view.a, view.a + n, reinterpret_cast<C*>(y) + at);
    }
  }
};

template <class C>
void divide(C* values, int64_t n, double divisor) {
  for (int64_t i = 0; i < n; ++i) values[i] = C(double(values[i]) / divisor);
}

template <class C>
RL_CLONES void nan_to_zero(const void* x, void* y, int64_t n, double) {
  auto* from = static_cast<const C*>(x);
  auto* to = static_cast<C*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] == from[i] ? from[i] : C(0);
}

template <class C>
void sum_as(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
            double divisor, bool skip_nan) {
  Source<C> source(in, x);
  if constexpr (!std::is_same_v<C, int64_t>) {
    if (skip_nan) source.map = nan_to_zero<C>;
  }
  Sink<C> sink(out, y);
  if (divisor != 1) {
    sink.post = divide<C>;
    sink.parameter = divisor;
  }
  reduce<Fold<SumOf<C>>>(source, outer, n, inner, sink);
}

void sum_any(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
             double divisor, bool skip_nan) {
  if (is_complex(in)) {  // the parts are two columns of reals
    in = real_of(in);
    out = real_of(out);
    inner *= 2;
  }
  if (is_integral(in)) return sum_as<int64_t>(in, out, x, y, outer, n, inner, divisor, false);
  if (out == DType::F64) return sum_as<double>(in, out, x, y, outer, n, inner, divisor, skip_nan);
  sum_as<float>(in, out, x, y, outer, n, inner, divisor, skip_nan);
}

template <template <class> class Op, class C>
void fold(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  reduce<Fold<Op<C>>>(Source<C>(in, x), outer, n, inner, Sink<C>(out, y));
}

template <template <class> class Op>
void fold_real(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n,
               int64_t inner) {
  if (is_integral(in)) return fold<Op, int64_t>(in, out, x, y, outer, n, inner);
  if (out == DType::F64) return fold<Op, double>(in, out, x, y, outer, n, inner);
  fold<Op, float>(in, out, x, y, outer, n, inner);
}

// The number of nonzero elements, compared with n when `all` is asked for.
void count(DType d, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
           bool all) {
  Source<int64_t> source(d, x, nonzero_loader(d));
  Sink<int64_t> sink(out, y);
  if (all) {
    sink.parameter = double(n);
    sink.post = [](int64_t* values, int64_t m, double full) {
      for (int64_t i = 0; i < m; ++i) values[i] = values[i] == int64_t(full);
    };
  }
  reduce<Fold<SumOf<int64_t>>>(source, outer, n, inner, sink);
}

enum class Norm { Zero, One, Other };

template <class C, Norm kind>
RL_CLONES void powers(const void* values, void* results, int64_t n, double p) {
  auto* from = static_cast<const C*>(values);
  auto* to = static_cast<C*>(results);
  [[maybe_unused]] C power = C(p);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    C x = from[i], a = std::fabs(x);
    if constexpr (kind == Norm::Zero) to[i] = x != 0;
    if constexpr (kind == Norm::One) to[i] = a;
    if constexpr (kind == Norm::Other) {
      if constexpr (sizeof(C) == 4) to[i] = ::powf(a, power);
      else to[i] = ::pow(a, power);
    }
  }
}

template <class C>
void root(C* values, int64_t n, double p) {
  for (int64_t i = 0; i < n; ++i) {
    values[i] = p == 2 ? std::sqrt(values[i]) : std::pow(values[i], C(1 / p));
  }
}

template <class C>
void norm_as(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner, double p) {
  Source<C> source(d, x, is_complex(d) ? abs_loader(d) : loader<C>(d));
  Sink<C> sink(real_of(d), y);
  source.parameter = sink.parameter = p;
  if (p == 2) {
    sink.post = root<C>;
    return reduce<Fold<SumOf<C>, Square<C>>>(source, outer, n, inner, sink);
  }
  source.map = powers<C, Norm::One>;
  if (std::isinf(p)) {
    // The largest and the smallest magnitude; of nothing, 0 and inf.
    if (p < 0) return reduce<Fold<MinOf<C>>>(source, outer, n, inner, sink);
    if (n > 0) return reduce<Fold<MaxOf<C>>>(source, outer, n, inner, sink);
  } else if (p == 0) {
    source.map = powers<C, Norm::Zero>;
  } else if (p != 1) {
    source.map = powers<C, Norm::Other>;
    sink.post = root<C>;
  }
  reduce<Fold<SumOf<C>>>(source, outer, n, inner, sink);
}

}  // namespace

void sum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
         double divisor) {
  sum_any(in, out, x, y, outer, n, inner, divisor, false);
}

void nansum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
            double divisor) {
  sum_any(in, out, x, y, outer, n, inner, divisor, true);
}

void prod(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  if (in == DType::C64) return fold<ProductOf, c64>(in, out, x, y, outer, n, inner);
  if (in == DType::C128) return fold<ProductOf, c128>(in, out, x, y, outer, n, inner);
  fold_real<ProductOf>(in, out, x, y, outer, n, inner);
}

void amax(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  fold_real<MaxOf>(d, d, x, y, outer, n, inner);
}

void amin(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  fold_real<MinOf>(d, d, x, y, outer, n, inner);
}

void any(DType d, const void* x, bool* y, int64_t outer, int64_t n, int64_t inner) {
  count(d, DType::Bool, x, y, outer, n, inner, false);
}

void all(DType d, const void* x, bool* y, int64_t outer, int64_t n, int64_t inner) {
  count(d, DType::Bool, x, y, outer, n, inner, true);
}

void count_nonzero(DType d, const void* x, int64_t* y, int64_t outer, int64_t n, int64_t inner) {
  count(d, DType::I64, x, y, outer, n, inner, false);
}

void norm(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner, double p) {
  if (real_of(d) == DType::F64) return norm_as<double>(d, x, y, outer, n, inner, p);
  norm_as<float>(d, x, y, outer, n, inner, p);
}

}  // namespace rl::cpu
