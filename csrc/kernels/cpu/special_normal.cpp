// What derivatives of functions of the normal distribution lead to.
#include <cmath>

#include "kernels/cpu/special_lanes.h"

namespace rl::special {

#define RL_DEVICE

// exp(x^2) times the n-th repeated integral of erfc, which the derivatives of the former are made of.
// The recurrence runs upward where that is stable, else down from far up.
RL_SHARED(
    kScaledIntegral, RL_DEVICE double scaled_erfc_integral(double x, double n) {
      double below = 1.1283791670955126, y = scaled_erfc(x);
      if (n == 0 || !(x < 1e300)) return y;
      if (n * x < 1) {
        for (double k = 1; k <= n; k += 1) {
          double next = (below - 2 * x * y) / (2 * k);
          below = y;
          y = next;
        }
        return y;
      }
      double above = 0, here = 1e-300, wanted = 0;
      for (double k = n + 20 + trunc(300 / (x * x)); k > 0; k -= 1) {
        if (k == n) wanted = here;
        double next = 2 * x * here + 2 * (k + 1) * above;
        above = here;
        here = next;
        if (here > 1e200) {
          above *= 1e-200;
          here *= 1e-200;
          wanted *= 1e-200;
        }
      }
      return y * (wanted / here);
    })

std::string normal_text() { return lines({kScaledErfc, kScaledIntegral, kNormal, kNormalInverse}); }

}  // namespace rl::special
