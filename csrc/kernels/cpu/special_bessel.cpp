// Modified Bessel functions, Airy's function and the orthogonal polynomials.
//
// The coefficients are those of polynomials that agree with the function at Chebyshev's points of an
// interval, the highest power first; they were computed with 40 digits.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/special_parts.h"

namespace rl::special {

#define RL_DEVICE

RL_SHARED(
    kPolynomial, RL_DEVICE double horner(const double* c, int count, double x) {
      double y = c[0];
      for (int i = 1; i < count; i++) y = y * x + c[i];
      return y;
    })

// Of order 0 and 1, times exp(-|x|) when scaled. Up to 8 a polynomial in x^2 / 4 of positive terms;
// then sqrt(x) exp(-x) I(x) in 1 / x. Higher orders are only met in derivatives: the power series, also
// of positive terms, and the asymptotic one.
RL_SHARED(
    kModifiedFirst,
    RL_DEVICE double bessel_i01(bool one, double x, bool scaled) {
      const double near0[] = {3.6460320832426147e-27,
                              4.9399109856178761e-25,
                              1.3510023029551199e-22,
                              2.5698590898135759e-20,
                              4.3600397762802818e-18,
                              6.2758622406800146e-16,
                              7.5940800189843691e-14,
                              7.5940568407347926e-12,
                              6.1511874135576796e-10,
                              3.9367598856559689e-8,
                              1.929012345779623e-6,
                              6.9444444444242661e-5,
                              0.0017361111111113779,
                              0.027777777777777565,
                              0.25000000000000011,
                              1.0,
                              1.0};
      const double near1[] = {5.8347195831561684e-26, 7.411929630086269e-24,
                              1.8910979718735319e-21, 3.3409822775005573e-19,
                              5.23199686931082e-17,   6.9034585778036801e-15,
                              7.594078640571914e-13,  6.8346512889145596e-11,
                              4.9209499218426872e-9,  2.755731920391342e-7,
                              1.1574074074534407e-5,  0.00034722222222152976,
                              0.0069444444444450738,  0.083333333333333037,
                              0.50000000000000011,    1.0};
      const double middle0[] = {
          2.5343520471703928e-13,  -3.1502069089455996e-13, -3.3225336888599343e-12,
          5.4707504132605495e-12,  3.6431762012662998e-11,  -4.3422139303204906e-11,
          -4.6404095329096529e-10, -5.5608282013304275e-10, 3.5093884017212767e-9,
          2.643905195270617e-8,    1.751654145696603e-7,    1.8993825716919996e-6,
          3.8911508853603155e-5,   0.0017529912275184867,   0.40389233614682268};
      const double middle1[] = {
          -2.605689199875969e-13,  3.6535043131925532e-13,  3.3963598762044697e-12,
          -6.2490311967668304e-12, -3.7494955139676376e-11, 5.2288930524421746e-11,
          4.9393861854585268e-10,  5.3123846545573909e-10,  -4.0525753213130838e-9,
          -3.0141647568418694e-8,  -2.0934441447489854e-7,  -2.4950764011405159e-6,
          -6.1278351778598078e-5,  -0.0049905715674554716,  0.38446685410720083};
      const double far0[] = {4.9318046145971551e-14, 1.4029126679502676e-13, 3.1256179835877715e-13,
                             1.4812959906401427e-12, 8.4737182846830968e-12, 5.5785019014211876e-11,
                             4.505636766814463e-10,  4.5697887348461722e-9,  6.026317088843643e-8,
                             1.0944942096532461e-6,  3.0355013467526116e-5,  0.0016160154003827005,
                             0.40052897918718267};
      const double far1[] = {
          -5.2259134263158931e-14, -1.4955321374641913e-13, -3.3922422963128581e-13,
          -1.6264772958063724e-12, -9.4235189983086649e-12, -6.319566221895175e-11,
          -5.2305631525145812e-10, -5.4886419976732166e-9,  -7.6168570984791131e-8,
          -1.5068432529366712e-6,  -4.9766991026188533e-5,  -0.0047703982909135427,
          0.39422021340612101};
      double a = fabs(x);
      if (a <= 8) {
        double t = a * a / 4;
        double y = one ? x / 2 * horner(near1, 16, t) : horner(near0, 17, t);
        return scaled ? y * exp(-a) : y;
      }
      double u = 1 / a;
      if (u == 0) return scaled ? u : one ? x : a;
      double y = a < 16 ? horner(one ? middle1 : middle0, 15, u * 32 - 3)
                        : horner(one ? far1 : far0, 13, u * 32 - 1);
      y *= sqrt(u);
      if (!scaled) {
        double half = exp(a / 2);
        y = y * half * half;
      }
      return one && x < 0 ? -y : y;
    } RL_DEVICE double bessel_i(double x, double n, bool scaled) {
      n = fabs(n);
      if (n < 2) return bessel_i01(n == 1, x, scaled);
      double a = fabs(x), sum = 1, term = 1;
      if (!(a < 1e308)) return bessel_i01(fmod(n, 2.0) == 1, x, scaled);
      if (a < 30 + n * n) {
        for (double k = 1; term > sum * 1e-18; k += 1) {
          term *= a * a / 4 / (k * (k + n));
          sum += term;
        }
        for (double k = 1; k <= n; k += 1) sum *= a / 2 / k;
        if (scaled) sum *= exp(-a);
      } else {
        for (double k = 1; k < 60 && fabs(term) > 1e-18; k += 1) {
          term *= ((2 * k - 1) * (2 * k - 1) - 4 * n * n) / (8 * a * k);
          sum += term;
        }
        sum /= sqrt(2 * M_PI * a);
        if (!scaled) {
          double half = exp(a / 2);
          sum = sum * half * half;
        }
      }
      return x < 0 && fmod(n, 2.0) == 1 ? -sum : sum;
    } RL_DEVICE double modified_bessel_i(double x, double n) {
      return bessel_i(x, n, false);
    } RL_DEVICE double scaled_bessel_i(double x, double n) { return bessel_i(x, n, true); })

// Of order 0 and 1, times exp(x) when scaled.
RL_SHARED(
    kModifiedSecond,
    template <bool One> RL_DEVICE double bessel_k(double x, bool scaled) {
      if (!(x >= 0)) return NAN;
      if (x == 0) return INFINITY;
      if (x <= 1) {
        double y = bessel_k_near<One>(x, log(x));
        return scaled ? y * exp(x) : y;
      }
      double u = 1 / x, y;
      if (x < 2) y = bessel_k_to_2<One>(u);
      else if (x < 6) y = bessel_k_to_6<One>(u);
      else y = bessel_k_far<One>(u);
      y *= sqrt(u);
      return scaled ? y : y * exp(-x);
    } RL_DEVICE double modified_bessel_k(double x, double n) {
      return n == 1 ? bessel_k<true>(x, false) : bessel_k<false>(x, false);
    } RL_DEVICE double scaled_bessel_k(double x, double n) {
      return n == 1 ? bessel_k<true>(x, true) : bessel_k<false>(x, true);
    })

// Ai and its derivative: zeta is kept to twice the digits.
RL_SHARED(
    kAiry,
    template <bool Slope> RL_DEVICE double airy_of_kind(double x) {
      if (x != x) return x;
      if (x >= -5 && x <= 2) {
        double c = rint(x);
        return airy_taylor<Slope>(c, x - c, airy_at(int(c), 0), airy_at(int(c), 1));
      }
      double z = fabs(x), s = sqrt(z), hi = z * s;
      if (!(hi < 1e300)) return Slope && x < 0 ? NAN : 0.0;
      double lo = fma(z, s, -hi) + z * fma(-s, s, z) / (2 * s);
      double q = hi / 1.5, fourth = sqrt(s), v = 1 / q, y;
      lo = (lo + fma(-q, 1.5, hi)) / 1.5;
      if (x > 0) {
        y = v < 1.0 / 6 ? airy_decay<Slope>(v) : airy_decay_to_6<Slope>(v);
        y *= exp(-q) * (1 - lo) * (Slope ? -0.28209479177387814 : 0.28209479177387814);
      } else {
        double sine = sin(q), cosine = cos(q), cos_lo = 1 - lo * lo / 2;
        double s1 = sine * cos_lo + lo * cosine, c1 = cosine * cos_lo - lo * sine;
        // Sine and cosine of zeta - pi / 4, times the root of 2.
        s = s1 - c1;
        double c = c1 + s1, even = airy_even<Slope>(v * v), odd = v * airy_odd<Slope>(v * v);
        y = (Slope ? s * even + c * odd : c * even + s * odd) * 0.39894228040143268;
      }
      return Slope ? y * fourth : y / fourth;
    } RL_DEVICE double airy(double x, double order) {
      return order == 1 ? airy_of_kind<true>(x) : airy_of_kind<false>(x);
    })

// Chebyshev's polynomials of kind 1 to 4 (T, U, V, W): three terms, or above the sixth their
// trigonometric form.
RL_SHARED(
    kChebyshev, RL_DEVICE double chebyshev(double x, double n, double kind) {
      if (n != n || x != x || n - n != 0) return NAN;
      n = trunc(n);
      if (n < 0) return 0;
      bool odd = fmod(n, 2.0) == 1;
      if (n > 6 && x < 0) {
        double other = kind == 3 ? 4 : kind == 4 ? 3 : kind;
        double y = chebyshev(-x, n, other);
        return odd ? -y : y;
      }
      if (n > 6 && x <= 1) {
        double t = acos(x);
        if (kind == 1) return cos(n * t);
        if (kind == 3) return cos((n + 0.5) * t) / cos(t / 2);
        if (kind == 2) return x == 1 ? n + 1 : sin((n + 1) * t) / sin(t);
        return x == 1 ? 2 * n + 1 : sin((n + 0.5) * t) / sin(t / 2);
      }
      if (n > 1000) {
        double t = acosh(x);
        if (kind == 1) return cosh(n * t);
        if (kind == 2) return sinh((n + 1) * t) / sinh(t);
        if (kind == 3) return cosh((n + 0.5) * t) / cosh(t / 2);
        return sinh((n + 0.5) * t) / sinh(t / 2);
      }
      double before = 1, y = kind == 1 ? x : kind == 2 ? 2 * x : kind == 3 ? 2 * x - 1 : 2 * x + 1;
      if (n == 0) return 1;
      for (double k = 1; k < n; k += 1) {
        double next = 2 * x * y - before;
        before = y;
        y = next;
      }
      return y;
    })

// Polynomials by their recurrences: Gegenbauer's, of which Legendre's and Chebyshev's derivatives are
// cases, Laguerre's associated ones, and Hermite's for the weights exp(-x^2) and exp(-x^2 / 2).
RL_SHARED(
    kRecurrences,
    RL_DEVICE double gegenbauer(double x, double n, double a) {
      if (!(n < 1e7)) return NAN;
      n = trunc(n);
      if (n < 0) return 0;
      double before = 0, y = 1;
      for (double k = 1; k <= n; k += 1) {
        double next = (2 * x * (k + a - 1) * y - (k + 2 * a - 2) * before) / k;
        before = y;
        y = next;
      }
      return y;
    } RL_DEVICE double laguerre(double x, double n, double a) {
      if (!(n < 1e7)) return NAN;
      n = trunc(n);
      if (n < 0) return 0;
      double before = 0, y = 1;
      for (double k = 1; k <= n; k += 1) {
        double next = ((2 * k - 1 + a - x) * y - (k - 1 + a) * before) / k;
        before = y;
        y = next;
      }
      return y;
    } RL_DEVICE double hermite(double x, double n, double a) {
      if (!(n < 1e7)) return NAN;
      n = trunc(n);
      if (n < 0) return 0;
      double before = 0, y = 1;
      for (double k = 1; k <= n && !(fabs(y) > 1e308); k += 1) {
        double next = a * (x * y - (k - 1) * before);
        before = y;
        y = next;
      }
      return y;
    } RL_DEVICE double bessel_j(double x, double n) { return jn(int(n), x); })

std::string lines(std::initializer_list<const char*> parts) {
  std::string text;
  for (const char* part : parts) (text += part) += "\n";
  return text;
}

std::string bessel_text() {
  return lines({kPolynomial, kSeries, kModifiedFirst, kModifiedSecondParts, kModifiedSecond,
                kAiryParts, kAiry, kChebyshev, kRecurrences});
}

}  // namespace rl::special
