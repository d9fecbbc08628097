// LAPACK from the BLAS wheel, for numbers of any of its four types.
#pragma once

#include <algorithm>
#include <complex>
#include <vector>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace rl::cpu::lapack {

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;

template <class T>
struct real_of {
  using type = T;
};
template <class T>
struct real_of<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename real_of<T>::type;

template <class T>
inline constexpr char letter = 's';
template <>
inline constexpr char letter<double> = 'd';
template <>
inline constexpr char letter<c64> = 'c';
template <>
inline constexpr char letter<c128> = 'z';

template <class T>
T conjugate(T x) {
  if constexpr (is_complex_v<T>) return std::conj(x);
  else return x;
}

// The function of a name for numbers of type T: of "getrf", dgetrf_ for doubles.
template <class T, class F>
F* find(const char* name) {
  char full[16] = {letter<T>};
  char* end = full + 1;
  while (*name) *end++ = *name++;
  *end = '_';
  return reinterpret_cast<F*>(blas_symbol(full));
}

// Calls f(T()) for the type of the numbers.
template <class F>
void with_type(DType d, const F& f) {
  switch (d) {
    case DType::F32: return f(float());
    case DType::F64: return f(double());
    case DType::C64: return f(c64());
    default: return f(c128());
  }
}

// body(begin, end) for ranges of a batch of matrices, each of some work in additions.
template <class F>
void each_range(int64_t batch, double work, const F& body) {
  parallel_for(batch, int64_t(std::max(1.0, 50000 / std::max(work, 1.0))), body);
}

// How much memory LAPACK wants for its work: what it wrote in answer to a query.
template <class T>
int wanted(T answer) {
  return std::max(1, int(std::real(answer)));
}

}  // namespace rl::cpu::lapack
