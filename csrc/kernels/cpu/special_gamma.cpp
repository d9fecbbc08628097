// The gamma function's relatives: digamma and its derivatives, Hurwitz's zeta, the incomplete gamma
// function. Derivatives in the parameter are taken through truncated power series in it.
#include <cmath>

#include "kernels/cpu/special_lanes.h"

namespace rl::special {

#define RL_DEVICE

// Terms of the sum up to where the formula of Euler and Maclaurin takes over, whose coefficients are
// B(2j) / (2j)!. Below zero by reflection, for integers s.
RL_SHARED(
    kZeta,
    RL_DEVICE double zeta_above(double s, double q) {
      if (q == INFINITY) return 0;
      double sum = 0;
      for (; q < 10 + s; q += 1) {
        double term = pow(q, -s);
        sum += term;
        if (term <= sum * 1e-18) return sum;
      }
      const double terms[] = {1. / 12,         -1. / 720,     1. / 30240,
                              -1. / 1209600,   1. / 47900160, -691. / 1307674368000,
                              1. / 74724249600};
      double power = pow(q, -s), rise = s * power / q;
      sum += power * (q / (s - 1) + 0.5);
      for (int j = 0; j < 7; j++) {
        sum += terms[j] * rise;
        rise *= (s + 2 * j + 1) * (s + 2 * j + 2) / (q * q);
      }
      return sum;
    } RL_DEVICE double zeta(double s, double q) {
      if (s == 1) return INFINITY;
      if (!(s > 1) || q != q) return NAN;
      if (q > 0) return zeta_above(s, q);
      if (q == floor(q)) return INFINITY;
      // near = the distance of the last element that is negative, exact however small.
      double steps = -floor(q), near = -(q + (steps - 1)), sign = fmod(s, 2.0);
      if (sign != 0 && sign != 1) return NAN;
      double turned = sign == 0 ? 1 : -1;
      if (steps > 64)
        return zeta_above(s, 1 - near) + turned * (zeta_above(s, near) - zeta_above(s, 1 - q));
      // Elements in pairs about 0: those that cancel do so before the small ones are added.
      double sum = zeta_above(s, steps + (1 - near));
      for (double k = steps - 1; k >= 0; k--)
        sum += pow(k + (1 - near), -s) + turned * pow(k + near, -s);
      return sum;
    })

RL_SHARED(
    kPolygamma, RL_DEVICE double polygamma(double x, double n) {
      if (n == 0) return digamma(x);
      double sum = zeta(n + 1, x);
      double magnitude =
          n <= 170 ? tgamma(n + 1) * sum : copysign(exp(lgamma(n + 1) + log(fabs(sum))), sum);
      return fmod(n, 2.0) == 1 ? magnitude : -magnitude;
    })

// The n-th derivative of zeta in s, n up to 15: each term with s + e for s, as a series in e.
RL_SHARED(
    kZetaSlope,
    RL_DEVICE void times_power(double* c, int count, double x, double s) {
      // c *= x^-(s + e).
      double powers[16], power = pow(x, -s), l = -log(x);
      for (int k = 0; k < count; k++) {
        powers[k] = power;
        power *= l / (k + 1);
      }
      for (int i = count - 1; i >= 0; i--) {
        double sum = 0;
        for (int k = 0; k <= i; k++) sum += c[k] * powers[i - k];
        c[i] = sum;
      }
    } RL_DEVICE void times_linear(double* c, int count, double x, double e) {
      for (int i = count - 1; i >= 0; i--) c[i] = c[i] * x + (i > 0 ? c[i - 1] * e : 0);
    } RL_DEVICE double zeta_slope(double s, double q, double n) {
      if (n < 0) return 0;
      if (n == 0) return zeta(s, q);
      if (!(s > 1 && q > 0 && n < 16)) return NAN;
      if (q == INFINITY) return 0;
      int count = int(n) + 1;
      double sum = 0, rest[16], rise[16], scale = tgamma(n + 1);
      for (; q < 12 + s + n; q += 1) {
        double l = -log(q), term = pow(q, -s);
        for (int k = 0; k < count - 1; k++) term *= l;
        sum += term;
        if (q > 3 && fabs(term) <= fabs(sum) * 1e-18) return sum;
      }
      const double terms[] = {1. / 12,         -1. / 720,     1. / 30240,
                              -1. / 1209600,   1. / 47900160, -691. / 1307674368000,
                              1. / 74724249600};
      double power = q / (s - 1);
      for (int k = 0; k < count; k++) {
        rest[k] = power;
        rise[k] = 0;
        power /= 1 - s;
      }
      rest[0] += 0.5;
      rise[0] = s / q;
      rise[1] = 1 / q;
      for (int j = 0; j < 7; j++) {
        for (int k = 0; k < count; k++) rest[k] += terms[j] * rise[k];
        times_linear(rise, count, (s + 2 * j + 1) / q, 1 / q);
        times_linear(rise, count, (s + 2 * j + 2) / q, 1 / q);
      }
      times_power(rest, count, q, s);
      return sum + scale * rest[count - 1];
    })

// x^a exp(-x) / gamma(a + 1).
RL_SHARED(
    kGammaFactor, RL_DEVICE double gamma_factor(double a, double x) {
      if (a < 10)
        return x > 700 ? exp(a * log(x) - x - lgamma(a + 1)) : pow(x, a) * exp(-x) / tgamma(a + 1);
      double z = 1 / (a * a), root = sqrt(2 * M_PI * a);
      const double terms[] = {-1. / 156,  691. / 360360, -1. / 1188, 1. / 1680,
                              -1. / 1260, 1. / 360,      -1. / 12};
      double stirling = -horner(terms, 7, z) / a;
      double m = (x - a) / a, r = m / (2 + m), square = r * r, near = 0, ratio = x / a;
      if (fabs(m) < 0.4) {
        for (int k = 23; k > 1; k -= 2) near = (near + 1.0 / k) * square;
        return exp(-a * r * (m - 2 * near) - stirling) / root;
      }
      if (a > 200 || x - a > 700) return exp(-a * (m - log(ratio)) - stirling) / root;
      double rest = a * fma(-ratio, a, x) / x;
      return pow(ratio, a) * (1 + rest) * exp(a - x - stirling) / root;
    })

// The sum of x^k / ((a + 1) ... (a + k)), and the continued fraction of gamma(a, x) x^-a exp(x).
RL_SHARED(
    kGammaSums,
    RL_DEVICE double gamma_series(double a, double x) {
      double sum = 1, term = 1;
      for (double k = 1; term > sum * 1e-17 && k < 1e6; k += 1) {
        term *= x / (a + k);
        sum += term;
      }
      return sum;
    } RL_DEVICE double gamma_fraction(double a, double x) {
      double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
      for (double k = 1; k < 1e6; k += 1) {
        double f = k * (a - k);
        b += 2;
        d = 1 / (b + f * d);
        c = b + f / c;
        h *= c * d;
        if (fabs(c * d - 1) < 1e-16) return h;
      }
      return h;
    })

// Temme's uniform expansion for large a near x = a: the tail is that of the normal distribution, less
// a series in 1 / a whose coefficients are series in eta, eta^2 / 2 = m - log(1 + m).
RL_SHARED(
    kGammaUniform, RL_DEVICE double gamma_uniform(double a, double x, bool above) {
      const double c0[] = {9.1476995822367902e-10, -4.3820360184533529e-9, 1.0261809784240309e-8,
                           6.7078535434014984e-9,  -1.7665952736826078e-7, 8.2967113409530865e-7,
                           -1.85406221071516e-6,   -2.185448510679992e-6,  3.9192631785224377e-5,
                           -0.0001787551440329218, 0.00035273368606701942, 0.0011574074074074073,
                           -0.014814814814814815,  0.083333333333333329,   -0.33333333333333331};
      const double c1[] = {1.1951628599778148e-8,   -5.7525456035177047e-8, 1.3786334469157209e-7,
                           4.647127802807434e-9,    -1.6120900894563446e-6, 7.6491609160811098e-6,
                           -1.8098550334489977e-5,  -4.018775720164609e-7,  0.00020576131687242798,
                           -0.00099022633744855963, 0.0026455026455026454,  -0.003472222222222222,
                           -0.0018518518518518519};
      const double c2[] = {1.4280614206064242e-7,  -6.2989921383800548e-7, 1.3721957309062934e-6,
                           3.4235787340961378e-8,  -1.2760635188618728e-5, 5.2923448829120125e-5,
                           -0.0001073665322636516, 2.0093878600823047e-6,  0.0007716049382716049,
                           -0.0026813271604938273, 0.0041335978835978834};
      const double c3[] = {1.4230900732435883e-6,  -5.6749528269915965e-6, 1.1082654115347302e-5,
                           -2.3965051138672968e-7, -7.5618016718839766e-5, 0.00026772063206283885,
                           -0.0004691894943952557, 0.00022947209362139917, 0.00064943415637860077};
      const double c4[] = {1.1375726970678419e-5,  -3.9683650471794347e-5,  6.6414982154651219e-5,
                           -1.4638452578843418e-6, -0.00029907248030319018, 0.00078403922172006662,
                           -0.00086188829091671173};
      const double c5[] = {6.797780477937208e-5, -0.00019932570516188847, 0.00027727532449593918,
                           -6.9728137583658571e-5, -0.00033679855336635813};
      double m = (x - a) / a, r = m / (2 + m), square = r * r, near = 0;
      for (int k = 23; k > 1; k -= 2) near = (near + 1.0 / k) * square;
      double phi = r * (m - 2 * near), eta = copysign(sqrt(2 * phi), m), z = 1 / a;
      double series = horner(c5, 5, eta);
      series = series * z + horner(c4, 7, eta);
      series = series * z + horner(c3, 9, eta);
      series = series * z + horner(c2, 11, eta);
      series = series * z + horner(c1, 13, eta);
      series = series * z + horner(c0, 15, eta);
      double rest = exp(-a * phi) / sqrt(2 * M_PI * a) * series;
      double y = eta * sqrt(a / 2);
      return above ? 0.5 * erfc(y) + rest : 0.5 * erfc(-y) - rest;
    })

// For small a and x the upper integral is a difference of nearly equal parts, which are
// subtracted before they are computed: 1 - x^a / gamma(a + 1), and an alternating series.
RL_SHARED(
    kGammaIntegrals,
    RL_DEVICE double gamma_above_small(double a, double x) {
      double y = 1 + a, log_gamma = lgamma(y) + (a - (y - 1)) * digamma(y);
      double sum = 0, term = 1;
      for (double k = 1; fabs(term) > 1e-17 * fabs(sum) && k < 100; k += 1) {
        term *= -x / k;
        sum += term / (a + k);
      }
      double l = a * log(x) - log_gamma;
      return -expm1(l) - a * exp(l) * sum;
    } RL_DEVICE double gamma_integral(double a, double x, bool above) {
      if (!(a >= 0 && x >= 0)) return NAN;
      if (a == 0) return x == 0 ? NAN : above ? 0.0 : 1.0;
      if (x == 0) return above ? 1 : 0;
      if (a == INFINITY) return x == INFINITY ? NAN : above ? 1.0 : 0.0;
      if (x == INFINITY) return above ? 0 : 1;
      if (a > 1000 && fabs(x - a) < 0.3 * a) return gamma_uniform(a, x, above);
      if (above && x < 1.5 && (a < 0.5 || x > a * 0.7)) return gamma_above_small(a, x);
      if (x < 1.5 || x < a + 1) {
        double below = gamma_factor(a, x) * gamma_series(a, x);
        return above ? 1 - below : below;
      }
      double beyond = gamma_factor(a, x) * a * gamma_fraction(a, x);
      return above ? beyond : 1 - beyond;
    } RL_DEVICE double gamma_above(double a, double x) { return gamma_integral(a, x, true); })

// The n-th derivatives in a, n up to 15. The factor is exp of a series; the sum of the series and the
// convergents of the fraction have terms that are series.
RL_SHARED(
    kGammaSlopes,
    RL_DEVICE void gamma_factor_series(double a, double x, double first, double* e, int count) {
      double l[16], factorial = 1;
      l[1] = log(x) - digamma(a);
      for (int k = 2; k < count; k++) {
        factorial *= k;
        l[k] = -polygamma(a, k - 1) / factorial;
      }
      e[0] = first;
      for (int i = 1; i < count; i++) {
        e[i] = 0;
        for (int k = 1; k <= i; k++) e[i] += k * l[k] * e[i - k];
        e[i] /= i;
      }
    } RL_DEVICE double gamma_density(double a, double x, double n) {
      if (n < 0) return 0;
      if (!(a >= 0 && x >= 0 && n < 16)) return NAN;
      if (x == INFINITY || a == INFINITY || a == 0) return 0;
      if (x == 0)
        return a > 1   ? 0
               : a < 1 ? (n == 0 || fmod(n, 2.0) == 0 ? INFINITY : -INFINITY)
                       : (n == 0 ? 1 : -INFINITY);
      double e[16], first = gamma_factor(a, x) * a / x;
      gamma_factor_series(a, x, first, e, int(n) + 1);
      return e[int(n)] * tgamma(n + 1);
    } RL_DEVICE double gamma_below(double a, double x, double n) {
      if (n == 0) return gamma_integral(a, x, false);
      if (!(a >= 0 && x >= 0 && n < 16)) return NAN;
      if (x == INFINITY || a == INFINITY || x == 0) return 0;
      int count = int(n) + 1;
      double e[16], sum[16], result = 0;
      if (a == 0) a = 1e-300;
      if (x < a + 1 || x < 1.5) {
        double term[16];
        for (int i = 0; i < count; i++) sum[i] = term[i] = i == 0;
        bool growing = true;
        for (double k = 1; growing && k < 1e6; k += 1) {
          double before = 0;
          growing = k < x;
          for (int i = 0; i < count; i++) {
            before = term[i] = (x * term[i] - before) / (a + k);
            sum[i] += before;
            growing |= fabs(before) > 1e-17 * fabs(sum[i]);
          }
        }
        gamma_factor_series(a + 1, x, gamma_factor(a, x), e, count);
      } else {
        // Numerators and denominators p, r of two successive convergents.
        double p[16], r[16], p1[16], r1[16], last = 0, end = 1e6;
        for (int i = 0; i < count; i++) p[i] = 0, p1[i] = r[i] = r1[i] = i == 0;
        times_linear(r1, count, x + 1 - a, -1);
        for (double k = 1; k < end; k += 1) {
          double y[16], z[16];
          for (int i = 0; i < count; i++) y[i] = p1[i], z[i] = r1[i];
          times_linear(y, count, x + 1 - a + 2 * k, -1);
          times_linear(z, count, x + 1 - a + 2 * k, -1);
          times_linear(p, count, k * (a - k), k);
          times_linear(r, count, k * (a - k), k);
          double scale = 1 / (z[0] + r[0]);
          for (int i = 0; i < count; i++) {
            double above = (y[i] + p[i]) * scale, below = (z[i] + r[i]) * scale;
            p[i] = p1[i] * scale;
            r[i] = r1[i] * scale;
            p1[i] = above;
            r1[i] = below;
          }
          // The derivatives take longer than the value.
          if (end == 1e6 && fabs(p1[0] - last) <= 1e-16 * p1[0]) end = 2 * k + 8;
          last = p1[0];
        }
        for (int i = 0; i < count; i++) {
          sum[i] = p1[i];
          for (int j = 0; j < i; j++) sum[i] -= sum[j] * r1[i - j];
        }
        gamma_factor_series(a, x, -gamma_factor(a, x) * a, e, count);
      }
      for (int i = 0; i < count; i++) result += e[i] * sum[count - 1 - i];
      return result * tgamma(n + 1);
    })

std::string gamma_text() {
  return lines({kDigamma, kZeta, kPolygamma, kZetaSlope, kGammaFactor, kGammaSums, kGammaUniform,
                kGammaIntegrals, kGammaSlopes});
}

}  // namespace rl::special
