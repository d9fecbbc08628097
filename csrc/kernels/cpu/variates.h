// Numbers drawn by rejection, each from as many uniform ones as it takes, and how such a number
// moves with the parameters of its distribution.
#pragma once

#include "kernels/cpu/mersenne.h"

namespace rl::cpu {

// Where the uniform numbers come from: torch's engine, or, without one, the counter-based stream.
struct Source {
  Mersenne* engine;
  uint64_t seed, offset;
};
// Elements of one substream of the counter: a fill takes a draw for each such block.
constexpr int64_t kVariates = 64;

// Contiguous float32 or float64 tensors of n elements.
void fill_gamma(const Source& s, DType d, const void* shape, void* out, int64_t n);
void fill_poisson(const Source& s, DType d, const void* rate, void* out, int64_t n);
void fill_binomial(const Source& s, DType d, const void* count, const void* p, void* out,
                   int64_t n);
// Rows of `cols` shapes; each row of out sums to one.
void fill_dirichlet(const Source& s, DType d, const void* shape, void* out, int64_t rows,
                    int64_t cols);

// The highest order of the derivatives below.
constexpr int kSlopeOrder = 8;

// F is the distribution function of Gamma(a, 1) at x, f its density:
// out = (d/da)^order F / f. psi[m] holds polygamma(m, a) for m < order.
void gamma_slope(int order, const double* a, const double* x, const double* const* psi, double* out,
                 int64_t n);
// The same for Beta(a, b): out = (d/da)^j (d/db)^k F / f. The psi of a, b and a + b.
void beta_slope(int j, int k, const double* x, const double* a, const double* b,
                const double* const* psi_a, const double* const* psi_b,
                const double* const* psi_sum, double* out, int64_t n);

// (d/da)^j (d/db)^k f / f, where l(p, q) is (d/da)^p (d/db)^q log f.
template <class V, class L>
V density_ratio(int j, int k, const L& l) {
  auto choose = [](int n, int m) {
    double c = 1;
    for (int i = 0; i < m; i++) c = c * (n - i) / (i + 1);
    return c;
  };
  if (j == 0 && k == 0) return V(1.0);
  V sum = V(0.0);
  int rest = j > 0 ? j - 1 : k - 1;
  for (int p = 0; p <= rest; p++) {
    if (j == 0) {
      sum = sum + V(choose(rest, p)) * l(0, p + 1) * density_ratio<V>(0, rest - p, l);
    } else {
      for (int q = 0; q <= k; q++)
        sum = sum + V(choose(rest, p) * choose(k, q)) * l(p + 1, q) *
                        density_ratio<V>(rest - p, k - q, l);
    }
  }
  return sum;
}

}  // namespace rl::cpu
