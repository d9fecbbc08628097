// Special functions without branches and loops: a loop over them becomes vectors. They are kept as
// text too (special.h).
#pragma once

#include <cmath>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/special.h"

namespace rl::special {

#define RL_DEVICE RL_INLINE

// A polynomial, the highest power first: even and odd powers apart, so that no step waits for the
// one before.
RL_SHARED(
    kSeries,
    template <class V> RL_DEVICE V pairs(V x, V, V odd, V even) {
      return odd * x + even;
    } template <class V, class T, class... Rest>
    RL_DEVICE V pairs(V x, V square, V odd, V even, T c, T d, Rest... rest) {
      return pairs(x, square, odd * square + c, even * square + d, rest...);
    } template <class V, class T, class... Rest>
    RL_DEVICE V series(V x, T first, T second, Rest... rest) {
      V zero = {};
      if constexpr (sizeof...(rest) % 2 == 0)
        return pairs(x, x * x, zero + first, zero + second, rest...);
      else return pairs(x, x * x, zero, zero + first, second, rest...);
    })

// exp(x^2) erfc(x): below 0 by reflection with the rounding of x^2 made good, else (1 + x) times it in
// 1 / (1 + x).
RL_SHARED(
    kScaledErfc, RL_DEVICE double scaled_erfc(double x) {
      double u = 1 / (1 + fabs(x));
      double near =
          series(u * 4 - 3, -1.3402782683614323e-12, 1.434165902148851e-11, -7.1141399879000013e-11,
                 2.3314742521967655e-10, -4.2092642077551733e-10, -1.1305739335947465e-9,
                 1.5650639593483521e-8, -8.9539362853033707e-8, 3.3304929847407918e-7,
                 -5.8459272585269871e-7, -2.6869048521183194e-6, 3.131147689848669e-5,
                 -0.00015807041562721638, 0.00034001970350120006, 0.0018483935040598885,
                 -0.022457598142829407, 0.07072843945408247, 0.9496705181334103);
      double middle = series(u * 8 - 3, -2.7792743617524955e-12, 1.8465447545495306e-11,
                             -4.1993721057133434e-11, -2.2824715999447175e-10,
                             2.8198001148090635e-9, -1.2417496654462844e-8, -6.9766554420095225e-9,
                             4.7425279860422988e-7, -2.8557264904488222e-6, -7.805717141125877e-7,
                             0.0001308947158818803, -0.0006914467109020413, -0.0046420959204063637,
                             0.070273039450123018, 0.79009993965123015);
      double far = series(u * 8 - 1, -9.8109265223422668e-13, -4.8043737082546615e-13,
                          1.5254678739417798e-11, -1.2774010716739468e-11, -1.4567658987734898e-10,
                          3.883407847651534e-10, 1.0141444388371833e-9, -6.5720871362784043e-9,
                          -2.8498208444144818e-9, 9.9268328354787358e-8, -9.0072636806539272e-8,
                          -1.6210301338542812e-6, 3.2562492938601279e-6, 3.4152266652621785e-5,
                          -8.9874742641801679e-5, -0.0011426942774974392, 0.0017833700364987338,
                          0.077017580558552873, 0.63840043463322349);
      double y = u * (u > 0.5 ? near : u > 0.25 ? middle : far);
      double square = x * x, rest = fma(x, x, -square), e = exp(square);
      double below = x < -27 ? HUGE_VAL : 2 * (e + e * rest) - y;
      return x < 0 ? below : y;
    })

// The normal distribution function: the rounding of x / sqrt(2) is made good. And its logarithm.
RL_SHARED(
    kNormal,
    RL_DEVICE double normal_cdf(double x) {
      double t = -x * M_SQRT1_2, plain = erfc(t);
      double rest = fma(-x, M_SQRT1_2, -t) + x * 4.833646656726457e-17;
      double made_good = plain - M_2_SQRTPI * exp(-(t * t)) * rest;
      return 0.5 * (fabs(x) < 40 ? made_good : plain);
    } RL_DEVICE double log_normal_cdf(double x) {
      double low = log(0.5 * scaled_erfc(-x * M_SQRT1_2)) - x * x / 2;
      double high = log1p(-normal_cdf(-x));
      return x < -1 ? low : high;
    })

// The inverse of erf at x >= 0 from w = -log(1 - x^2): x times a series in w, in the tail sqrt(w)
// times one in 1 / sqrt(w); of the normal distribution function from it.
RL_SHARED(
    kNormalInverse,
    template <class V> RL_DEVICE V erf_inverse_near(V x, V w) {
      return x * series(w * 0.32 - 1, -2.7032254091069343e-10, 7.689312733742569e-10,
                        1.5401738716654887e-9, -8.5627877967429322e-9, 4.7923699961003877e-9,
                        3.9154731140230453e-8, -9.8677131401742485e-8, -1.0185147576818286e-8,
                        5.3943206487070086e-7, -1.0593214025407311e-6, -6.8371872181211699e-7,
                        7.1300572630824492e-6, -1.1257319182677935e-5, -1.5027710420277575e-5,
                        9.3367391778047894e-5, -1.1688883993097131e-4, -2.6439366843661737e-4,
                        0.0012324855686812835, -0.0012716922684373015, -0.0041373143774144298,
                        0.017808361818295657, -0.022604447453449802, -0.058922567103777843,
                        0.75049432007996357, 1.6536545626831027);
    } template <class V>
    RL_DEVICE V erf_inverse_tail(V s) {
      return s * series((1 / s - 0.28) / 0.12, -2.3239103955972236e-10, -7.1849133790258142e-11,
                        2.1233704432150458e-9, -1.2616403747045551e-10, -8.9927031671939316e-9,
                        4.5045788651856898e-9, 2.2620370351368567e-8, -2.5738302398504206e-8,
                        -3.2945889489915866e-8, 8.5550220489580619e-8, 4.703327991796e-9,
                        -2.1004526033632972e-7, 1.3577290807098372e-7, 4.4546093737908655e-7,
                        -5.0024385550503793e-7, -1.0467986808942248e-6, 1.2912706597724669e-6,
                        2.6902567767391157e-6, -1.8931174786648876e-7, -1.2165887959272049e-5,
                        5.876081165132727e-6, -1.6328973510052172e-4, 7.8602857969654749e-4,
                        0.001807688569765729, -0.0230374604906081, 0.9540864778895918);
    } RL_DEVICE double erf_inverse(double x, double w) {
      return w < 6.25 ? erf_inverse_near(x, w) : erf_inverse_tail(sqrt(w));
    } RL_DEVICE double normal_quantile(double p) {
      double q = p < 0.5 ? p : 1 - p, w = -log(4 * q * (1 - q)), s = sqrt(w);
      double far =
          s * series((1 / s - 0.097857142857142857) / 0.062142857142857143, -1.4733026501732325e-10,
                     2.5878624373160886e-10, 4.6423079600210983e-10, -8.079410393656329e-10,
                     -1.1213310830369717e-9, 1.975145674644023e-9, 5.3125433080885671e-10,
                     -8.4732404155953433e-10, -2.7832585026090577e-9, 5.2420208498521466e-9,
                     -7.2323185220419258e-9, 1.4596289642821854e-8, -3.1367357919790085e-8,
                     6.5831497217712287e-8, -1.4209530959529895e-7, 3.1978127878233989e-7,
                     -7.5587063567447117e-7, 1.9056097421708839e-6, -5.2271072795888169e-6,
                     1.61363145239533e-5, -6.5375426652919823e-5, 4.0191945858447993e-4,
                     -0.0013919856240342558, -0.010412974858428363, 0.98942162012009889);
      double y = w < 39.0625 ? erf_inverse(1 - 2 * q, w) : far;
      y = q == 0 ? HUGE_VAL : y * M_SQRT2;
      return p < 0.5 ? -y : y;
    })

// The asymptotic series from 10 on, where the recurrence leads: the sum of 1 / (x + k) is that of
// 1 / x and the slope of (x + 1) ... (x + 9) over it. Below 0 by reflection.
RL_SHARED(
    kDigamma, RL_DEVICE double digamma(double x) {
      double a = x < 0 ? 1 - x : x, product = a + 1, slope = 1;
      for (int k = 2; k < 10; k++) {
        slope = slope * (a + k) + product;
        product *= a + k;
      }
      double y = a < 10 ? a + 10 : a, z = 1 / (y * y);
      double rest = a < 10 ? slope / product + 1 / a : 0;
      double far =
          z * series(z, 1. / 12, -691. / 32760, 1. / 132, -1. / 240, 1. / 252, -1. / 120, 1. / 12);
      double above = log(y) - 0.5 / y - far - rest;
      double fraction = x - rint(x), mirrored = above - M_PI / tan(M_PI * fraction);
      double below = fraction == 0 ? NAN : mirrored;
      return x == 0 ? copysign(HUGE_VAL, -x) : x < 0 ? below : above;
    })

#undef RL_DEVICE

// Of single precision, where that is what a program pays for.
RL_INLINE float erf_inverse(float x, float w) {
  float near = x * series(w * 0.32f - 1, 6.54345559e-7f, 5.93016843e-5f, -1.32525528e-4f,
                          -2.26487465e-4f, 0.00124011787f, -0.00129118271f, -0.00413904576f,
                          0.0178129056f, -0.0226043014f, -0.0589229555f, 0.750494318f, 1.65365457f);
  float s = std::sqrt(w);
  float tail =
      s * series((1 / s - 0.28f) / 0.12f, 1.41169591e-6f, -8.72593652e-6f, 5.03362118e-6f,
                 -1.6512863e-4f, 7.86185574e-4f, 0.00180803365f, -0.0230374653f, 0.954086467f);
  return w < 6.25f ? near : tail;
}

// The modified Bessel functions of order 0 and 1, times exp(-|x|) when scaled.
template <int Order, bool Scaled>
RL_INLINE float bessel_i01(float x) {
  float a = std::fabs(x), t = a * a / 4, u = 1 / a, near, far;
  if constexpr (Order == 0) {
    near = series(t, 1.55364143e-13f, 4.23787108e-12f, 6.90990968e-10f, 3.83250734e-8f,
                  1.93811598e-6f, 6.93937125e-5f, 0.00173628664f, 0.0277774245f, 0.250000364f,
                  0.999999854f, 1.00000001f);
    far = series(u * 16 - 1, 3.54762008e-7f, 1.63903983e-6f, 1.11221557e-5f, 1.36156154e-4f,
                 0.00336055314f, 0.402176513f);
  } else {
    near =
        a / 2 *
        series(t, 1.33355849e-14f, 4.89614755e-13f, 7.44242072e-11f, 4.83761039e-9f, 2.76299974e-7f,
               1.15700276e-5f, 3.47236214e-4f, 0.0069444163f, 0.0833333623f, 0.499999988f, 1.0f);
    far = series(u * 16 - 1, -4.1209136e-7f, -2.00963727e-6f, -1.50152753e-5f, -2.19168268e-4f,
                 -0.00974957848f, 0.389398455f);
  }
  float e = ::expf(Scaled ? -a : a / 2);
  far *= std::sqrt(u);
  if constexpr (Scaled) near *= e;
  else far = u == 0 ? a : far * e * e;
  float y = a <= 8 ? near : far;
  return Order == 1 && x < 0 ? -y : y;
}

}  // namespace rl::special
