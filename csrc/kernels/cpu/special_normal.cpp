// Functions of the normal distribution, relative to its tails.
#include <cmath>

#include "kernels/cpu/special.h"

namespace rl::special {

#define RL_DEVICE

// exp(x^2) erfc(x): below 0 by reflection with the rounding of x^2 made good, else (1 + x) times it in
// 1 / (1 + x).
RL_SHARED(
    kScaledErfc, RL_DEVICE double scaled_erfc(double x) {
      const double near[] = {
          -1.3402782683614323e-12, 1.434165902148851e-11,   -7.1141399879000013e-11,
          2.3314742521967655e-10,  -4.2092642077551733e-10, -1.1305739335947465e-9,
          1.5650639593483521e-8,   -8.9539362853033707e-8,  3.3304929847407918e-7,
          -5.8459272585269871e-7,  -2.6869048521183194e-6,  3.131147689848669e-5,
          -0.00015807041562721638, 0.00034001970350120006,  0.0018483935040598885,
          -0.022457598142829407,   0.07072843945408247,     0.9496705181334103};
      const double middle[] = {
          -2.7792743617524955e-12, 1.8465447545495306e-11, -4.1993721057133434e-11,
          -2.2824715999447175e-10, 2.8198001148090635e-9,  -1.2417496654462844e-8,
          -6.9766554420095225e-9,  4.7425279860422988e-7,  -2.8557264904488222e-6,
          -7.805717141125877e-7,   0.0001308947158818803,  -0.0006914467109020413,
          -0.0046420959204063637,  0.070273039450123018,   0.79009993965123015};
      const double far[] = {
          -9.8109265223422668e-13, -4.8043737082546615e-13, 1.5254678739417798e-11,
          -1.2774010716739468e-11, -1.4567658987734898e-10, 3.883407847651534e-10,
          1.0141444388371833e-9,   -6.5720871362784043e-9,  -2.8498208444144818e-9,
          9.9268328354787358e-8,   -9.0072636806539272e-8,  -1.6210301338542812e-6,
          3.2562492938601279e-6,   3.4152266652621785e-5,   -8.9874742641801679e-5,
          -0.0011426942774974392,  0.0017833700364987338,   0.077017580558552873,
          0.63840043463322349};
      if (x < 0) {
        if (x < -27) return INFINITY;
        double square = x * x, rest = fma(x, x, -square), e = exp(square);
        return 2 * (e + e * rest) - scaled_erfc(-x);
      }
      double u = 1 / (1 + x);
      if (u > 0.5) return u * horner(near, 18, u * 4 - 3);
      if (u > 0.25) return u * horner(middle, 15, u * 8 - 3);
      return u * horner(far, 19, u * 8 - 1);
    })

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

// The distribution function, and its logarithm.
RL_SHARED(
    kNormal,
    RL_DEVICE double normal_cdf(double x) {
      if (!(x < -1)) return 0.5 * erfc(-x * M_SQRT1_2);
      if (x < -39) return 0;
      double square = x * x, rest = fma(x, x, -square), e = exp(-square / 2);
      return 0.5 * scaled_erfc(-x * M_SQRT1_2) * (e - e * rest / 2);
    } RL_DEVICE double log_normal_cdf(double x) {
      if (!(x < -1)) return log1p(-normal_cdf(-x));
      if (x < -1e200) return -INFINITY;
      return log(0.5 * scaled_erfc(-x * M_SQRT1_2)) - x * x / 2;
    })

// Its inverse: a first guess, then Halley's steps; near 1/2 for erf, in the tail for the logarithm.
RL_SHARED(
    kNormalInverse, RL_DEVICE double normal_quantile(double p) {
      if (!(p >= 0 && p <= 1)) return NAN;
      double q = p < 0.5 ? p : 1 - p;
      if (q == 0) return p < 0.5 ? -INFINITY : INFINITY;
      double y;
      if (q > 0.25) {
        double w = 0.5 - q, z = 2.5066282746310002 * w;
        y = z * (1 + z * z / 6 * (1 + z * z * 0.35));
        for (int step = 0; step < 2; step++) {
          double u = (w - 0.5 * erf(y * M_SQRT1_2)) * 2.5066282746310002 * exp(y * y / 2);
          y += u / (1 - u * y / 2);
        }
        y = -y;
      } else {
        double l = log(q), t = sqrt(-2 * l);
        y = (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t) - t;
        for (int step = 0; step < 2; step++) {
          double tail = scaled_erfc(-y * M_SQRT1_2), rate = 0.79788456080286541 / tail;
          double u = (log(0.5 * tail) - y * y / 2 - l) / rate;
          y -= u / (1 + u * (y + rate) / 2);
        }
      }
      return p < 0.5 ? y : -y;
    })

std::string normal_text() {
  return std::string(kScaledErfc) + "\n" + kScaledIntegral + "\n" + kNormal + "\n" +
         kNormalInverse + "\n";
}

}  // namespace rl::special
