// Numbers drawn by rejection, each from as many uniform ones as it takes, and how such a number
// moves with the parameters of its distribution.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/mersenne.h"

namespace rl::cpu {

// Elements of one substream of the counter: a fill takes a draw for each such block.
constexpr int64_t kVariates = 64;

// The highest order of the derivatives below.
constexpr int kSlopeOrder = 8;

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
