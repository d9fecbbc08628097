// Modified Bessel functions, Airy's function and the orthogonal polynomials.
//
// The coefficients are those of polynomials that agree with the function at Chebyshev's points of an
// interval, the highest power first; they were computed with 40 digits.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/special.h"

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

// Of order 0 and 1, times exp(x) when scaled. Up to 1 with the logarithm taken out; then
// sqrt(x) exp(x) K(x) in 1 / x.
RL_SHARED(
    kModifiedSecond,
    RL_DEVICE double bessel_k(bool one, double x, bool scaled) {
      const double first0[] = {6.1511874135576796e-10,
                               3.9367598856559689e-8,
                               1.929012345779623e-6,
                               6.9444444444242661e-5,
                               0.0017361111111113779,
                               0.027777777777777565,
                               0.25000000000000011,
                               1.0,
                               1.0};
      const double first1[] = {
          6.8346512889145596e-11, 4.9209499218426872e-9,  2.755731920391342e-7,
          1.1574074074534407e-5,  0.00034722222222152976, 0.0069444444444450738,
          0.083333333333333037,   0.50000000000000011,    1.0};
      const double near0[] = {8.0677983650281468e-8, 3.6120836078777185e-6, 0.000118480508124312,
                              0.0026147876053788147, 0.034892157457293752,  0.23069608377459005,
                              0.42278433509846747,   -0.57721566490153287};
      const double near1[] = {
          -7.6040614558869804e-11, -5.1127502643143669e-9,  -2.6788659612207464e-7,
          -1.0355619205842157e-5,  -0.00027883987299313288, -0.0047955474598325677,
          -0.045393791740213914,   -0.16819608377461678,    0.038607832450766433};
      const double past0[] = {
          5.1370500005206702e-13,  -2.4839011720905358e-12, 1.0473548369982288e-11,
          -5.4049869076221429e-11, 2.8904893928948058e-10,  -1.5781829902729867e-9,
          8.9459054529896524e-9,   -5.3073931067405734e-8,  3.3295090330105438e-7,
          -2.2425461112600597e-6,  1.6601827841703428e-5,   -0.0001405204629343948,
          0.0014668157923298241,   -0.022704234086460336,   1.1658263717940323};
      const double past1[] = {
          -6.2396957193843055e-13, 3.0440507590203567e-12,  -1.3008423623799707e-11,
          6.7920803197910343e-11,  -3.6808168566073553e-10, 2.0427449256999125e-9,
          -1.1810780703823398e-8,  7.1817184795283528e-8,   -4.6505272717048067e-7,
          3.2692969746427235e-6,   -2.5745568033843166e-5,  0.00024061860103289848,
          -0.0030452818158118386,  0.087054294541164784,    1.5519267345222589};
      const double middle0[] = {
          -4.8766559502085867e-13, 1.8709685951272846e-12,  -5.5432312985427949e-12,
          2.33764838663061e-11,    -1.0440318679580009e-10, 4.6709574313014606e-10,
          -2.1794284437729299e-9,  1.0707675225155532e-8,   -5.5848985389177114e-8,
          3.1335190949802644e-7,   -1.9273180571415789e-6,  1.3371292376174628e-5,
          -0.00010966524916305731, 0.0011606521448253374,   -0.019464053250262472,
          1.2085585393824039};
      const double middle1[] = {
          5.5990784737392618e-13,  -2.162054073678745e-12, 6.4819640964338761e-12,
          -2.7562260281837982e-11, 1.241737653868521e-10,  -5.6200106634451789e-10,
          2.658912024217345e-9,    -1.3286163173375929e-8, 7.0788295272032423e-8,
          -4.0835230200469199e-7,  2.6089453081297351e-6,  -1.9139168061722312e-5,
          0.00017198855102662532,  -0.0021837134488293395, 0.066576650182818886,
          1.3970089271126296};
      const double far0[] = {
          4.6011852176099288e-13,  -1.6048840232429634e-12, 4.2759609918473394e-12,
          -1.7613330331290916e-11, 7.880594891523493e-11,   -3.6139126978316593e-10,
          1.789881081726838e-9,    -9.7209144053265525e-9,  5.8830436345134114e-8,
          -4.0658122092799994e-7,  3.3261178733322505e-6,   -3.4090731813838722e-5,
          0.00048452039186166373,  -0.011968265579259542,   1.2408234571080876};
      const double far1[] = {
          -5.0691848342212485e-13, 1.7788234637362966e-12,  -4.7958923480300987e-12,
          1.9909523478574767e-11,  -8.9834607599245197e-11, 4.1684806742694551e-10,
          -2.0950210344660568e-9,  1.1592021325040541e-8,   -7.1908313729710501e-8,
          5.1436976381374361e-7,   -4.4304208923711545e-6,  4.9493909371714217e-5,
          -0.00083834034155263961, 0.037320076536542235,    1.291527079022653};
      if (!(x >= 0)) return NAN;
      if (x == 0) return INFINITY;
      if (x <= 1) {
        double t = x * x / 4;
        double y = one ? 1 / x + x * (log(x / 2) / 2 * horner(first1, 9, t) + horner(near1, 9, t))
                       : horner(near0, 8, t) - log(x / 2) * horner(first0, 9, t);
        return scaled ? y * exp(x) : y;
      }
      double u = 1 / x, y;
      if (x < 2) y = horner(one ? past1 : past0, 15, u * 4 - 3);
      else if (x < 6) y = horner(one ? middle1 : middle0, 16, u * 6 - 2);
      else y = horner(one ? far1 : far0, 15, u * 12 - 1);
      y *= sqrt(u);
      return scaled ? y : y * exp(-x);
    } RL_DEVICE double modified_bessel_k(double x, double n) {
      return bessel_k(n == 1, x, false);
    } RL_DEVICE double scaled_bessel_k(double x, double n) { return bessel_k(n == 1, x, true); })

// Ai and its derivative. From -5 to 2 Taylor's series about the nearest integer, whose terms follow
// from Ai'' = x Ai; outside with zeta = 2/3 |x|^1.5, which is kept to twice the digits.
RL_SHARED(
    kAiry, RL_DEVICE double airy(double x, double order) {
      const double at[][2] = {{0.35076100902411431979, 0.32719281855444313679},
                              {-0.070265532949289515099, -0.7906285753685813803},
                              {-0.37881429367765807435, 0.31458376921659881365},
                              {0.22740742820168557599, 0.61825902074169104141},
                              {0.5355608832923521188, -0.010160567116645209395},
                              {0.35502805388781723926, -0.25881940379280679841},
                              {0.13529241631288141552, -0.15914744129679321279},
                              {0.034924130423274379135, -0.053090384433653631704}};
      const double tail[] = {
          1.8554583534666961e-13, -6.4761316022273473e-13, 1.7277381521331108e-12,
          -7.122956879908537e-12, 3.1899408920563392e-11,  -1.4647620095291395e-10,
          7.2663557730690211e-10, -3.954498427433973e-9,   2.399749030324436e-8,
          -1.6647472910330732e-7, 1.3695281976464285e-6,   -1.4166874483786482e-5,
          0.00020501826765362876, -0.005328010164944063,   0.99445123982330796};
      const double near_tail[] = {
          -6.9835355423049809e-13, 2.4818865118039449e-12,  -6.4365879175453875e-12,
          2.5338619255374599e-11,  -1.0665566151830307e-10, 4.4294644138900946e-10,
          -1.9164066701589108e-9,  8.7330420243815039e-9,   -4.2219845817289793e-8,
          2.1941580813345139e-7,   -1.24938888817115e-6,    8.0239230948966289e-6,
          -6.0991907723220041e-5,  0.00060166390297508013,  -0.0096744333633660192,
          0.97896866939848814};
      const double tail_slope[] = {
          -1.9163275899352591e-13, 6.7020363309005336e-13, -1.7950851023293212e-12,
          7.4198196285537347e-12,  -3.33222058119819e-11,  1.5360996871703558e-10,
          -7.657451268396177e-10,  4.1931906462813701e-9,  -2.5655209269554254e-8,
          1.8001360179251218e-7,   -1.506277004579715e-6,  1.6026622738941731e-5,
          -0.000245337540735535,   0.0075559804863182404,  1.007819061751553};
      const double near_tail_slope[] = {
          7.3180481381680057e-13,  -2.6064406218527126e-12, 6.7891293052249338e-12,
          -2.6800336095744244e-11, 1.1312069482305845e-10,  -4.7162816903013515e-10,
          2.050082242015e-9,       -9.3953925264629373e-9,  4.5747187357020505e-8,
          -2.3996595106290652e-7,  1.3838413999404382e-6,   -9.0536112752462981e-6,
          7.0919029989633122e-5,   -0.00074180563417215956, 0.014180850573293291,
          1.0301486934255193};
      const double even[] = {186693590548.09091,
                             -24999930694.930248,
                             1568700716.6747169,
                             -62990204.331815928,
                             1915243.5854533105,
                             -51706.881190143919,
                             1492.0743305324966,
                             -55.475991701807317,
                             3.0791035026349061,
                             -0.29159089143979711,
                             0.057649190022749021,
                             -0.037133487654201901,
                             1.0};
      const double odd[] = {-65552441014851.383,   9159889261642.1992,   -594294587774.61194,
                            24140217272.308098,    -708565247.23368442,  16886290.127826694,
                            -373513.35693255789,   9013.6429977409516,   -277.88164075833998,
                            12.34039327604931,     -0.87766550537261778, 0.11609906306158024,
                            -0.037993059127547621, 0.069444444444444434};
      const double even_slope[] = {-190550156286.58142,
                                   25522322980.112953,
                                   -1602066403.6644464,
                                   64369322.735428527,
                                   -1959289.1776959437,
                                   52998.872498281729,
                                   -1534.4912775457456,
                                   57.358727500505132,
                                   -3.2101373842600807,
                                   0.30825324736505544,
                                   -0.062662163094599113,
                                   0.043885030864076142,
                                   1.0};
      const double odd_slope[] = {-66791844981179.734,   9334514655166.125,    -605762439026.45483,
                                  24614819737.680233,    -722922955.9094249,   17246116.317286119,
                                  -382154.41454064893,   9249.4371063516483,   -286.43959236247514,
                                  12.806092247445138,    -0.92047850237082773, 0.12410589504622184,
                                  -0.042462830789637307, 0.09722222222222221};
      bool slope = order == 1;
      if (x != x) return x;
      if (x >= -5 && x <= 2) {
        double c = rint(x), h = x - c, a[24];
        a[0] = at[int(c) + 5][0];
        a[1] = at[int(c) + 5][1];
        a[2] = c * a[0] / 2;
        for (int n = 1; n < 22; n++) a[n + 2] = (c * a[n] + a[n - 1]) / ((n + 1) * (n + 2));
        double y = 0;
        if (slope)
          for (int n = 23; n > 0; n--) y = y * h + n * a[n];
        else
          for (int n = 23; n >= 0; n--) y = y * h + a[n];
        return y;
      }
      double z = fabs(x), s = sqrt(z), hi = z * s;
      if (!(hi < 1e300)) return slope && x < 0 ? NAN : 0.0;
      double lo = fma(z, s, -hi) + z * fma(-s, s, z) / (2 * s);
      double q = hi / 1.5, fourth = sqrt(s);
      lo = (lo + fma(-q, 1.5, hi)) / 1.5;
      if (x > 0) {
        double v = 1 / q, e = exp(-q) * (1 - lo) / 3.5449077018110318;
        double far_t = v * 12 - 1, near_t = (v - 0.35333333333333333) / 0.18666666666666668;
        if (slope)
          return -(v < 1.0 / 6 ? horner(tail_slope, 15, far_t)
                               : horner(near_tail_slope, 16, near_t)) *
                 e * fourth;
        return (v < 1.0 / 6 ? horner(tail, 15, far_t) : horner(near_tail, 16, near_t)) * e / fourth;
      }
      double sine = sin(q), cosine = cos(q), w = 1 / q / q;
      double cos_lo = 1 - lo * lo / 2;
      double s1 = sine * cos_lo + lo * cosine, c1 = cosine * cos_lo - lo * sine;
      // Sine and cosine of zeta - pi / 4, times the root of 2.
      s = s1 - c1;
      double c = c1 + s1;
      if (slope)
        return (s * horner(even_slope, 13, w) + c * horner(odd_slope, 14, w) / q) * fourth *
               0.39894228040143268;
      return (c * horner(even, 13, w) + s * horner(odd, 14, w) / q) / fourth * 0.39894228040143268;
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

std::string bessel_text() {
  return std::string(kPolynomial) + "\n" + kModifiedFirst + "\n" + kModifiedSecond + "\n" + kAiry +
         "\n" + kChebyshev + "\n" + kRecurrences + "\n";
}

}  // namespace rl::special
