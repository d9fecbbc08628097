// Special functions that take a vector of doubles: a form for each instruction set, under the
// names that compilers call (vector_math.cpp), and one for a single number. Their code exists once,
// not in every loop, and what no lane needs is left out. Templates are of a vector type or double.
//
// The coefficients are those of polynomials that agree with the function at Chebyshev's points of
// an interval, the highest power first; they were computed with 50 digits.
#define RL_DEFINES_FORMS
#include <cstdint>
#include <cstring>

#include "kernels/cpu/special_parts.h"

namespace rl::special {
namespace {

typedef double double2 __attribute__((vector_size(16)));
typedef double double4 __attribute__((vector_size(32)));
typedef double double8 __attribute__((vector_size(64)));
typedef int64_t int64x2 __attribute__((vector_size(16)));
typedef int64_t int64x4 __attribute__((vector_size(32)));
typedef int64_t int64x8 __attribute__((vector_size(64)));

template <class V>
inline constexpr int kWidth = int(sizeof(V) / sizeof(double));

template <class V>
RL_INLINE V all(double x) {
  return x - V{};
}
template <class V, class F>
RL_INLINE V each(V x, F f) {
  double a[kWidth<V>];
  std::memcpy(a, &x, sizeof(V));
#pragma omp simd
  for (int i = 0; i < kWidth<V>; i++) a[i] = f(a[i]);
  std::memcpy(&x, a, sizeof(V));
  return x;
}
#define RL_EACH(name)                                       \
  template <class V>                                        \
  RL_INLINE V name##_of(V x) {                              \
    return each(x, [](double lane) { return name(lane); }); \
  }
RL_EACH(exp)
RL_EACH(log)
RL_EACH(sin)
RL_EACH(cos)
RL_EACH(sqrt)
RL_EACH(fabs)
RL_EACH(rint)
#undef RL_EACH

RL_INLINE bool any(bool mask) { return mask; }
[[maybe_unused]] RL_INLINE bool any(int64x2 mask) { return (mask[0] | mask[1]) != 0; }
[[maybe_unused]] RL_INLINE bool any(int64x4 mask) {
  int64x2 half[2];
  std::memcpy(half, &mask, sizeof(mask));
  return any(half[0] | half[1]);
}
[[maybe_unused]] RL_INLINE bool any(int64x8 mask) {
  int64x4 half[2];
  std::memcpy(half, &mask, sizeof(mask));
  return any(half[0] | half[1]);
}

template <class V>
RL_INLINE V fma_of(V x, V y, V z) {
  double of[3][kWidth<V>];
  std::memcpy(of[0], &x, sizeof(V));
  std::memcpy(of[1], &y, sizeof(V));
  std::memcpy(of[2], &z, sizeof(V));
  for (int i = 0; i < kWidth<V>; i++) of[0][i] = fma(of[0][i], of[1][i], of[2][i]);
  std::memcpy(&x, of[0], sizeof(V));
  return x;
}

template <bool First, class A, class B>
constexpr auto& choose(const A& a, const B& b) {
  if constexpr (First) return a;
  else return b;
}

template <class V, size_t Count>
RL_INLINE V polynomial(V x, const double (&c)[Count]) {
  constexpr size_t lone = Count % 2;
  V square = x * x, odd = lone ? V{} : all<V>(c[0]), even = all<V>(c[1 - lone]);
  for (size_t i = 2 - lone; i < Count; i += 2) {
    odd = odd * square + c[i];
    even = even * square + c[i + 1];
  }
  return odd * x + even;
}

// Up to 6 polynomials in x^2, for the second kind with the logarithm taken out; then waves whose
// amplitudes P and Q are polynomials in 1 / x^2, of x less a quarter or three quarters of pi.
constexpr double kFirst0[] = {
    -5.7915849622930412e-12, 2.1212881881388979e-10, -6.5724583136925859e-9,  1.7051730444944972e-7,
    -3.6286275520028266e-6,  6.1904937053579996e-5,  -0.00082236772439835186, 0.008184298232208484,
    -0.05779895376450247,    0.26654331047593991,    -0.69082530940546301,    0.67086845754182072,
    0.3247728947256642,      -0.37033551329095751};
constexpr double kFirst1[] = {
    -2.1141589838965738e-13, 8.3677774299904015e-12, -2.822041870187615e-10, 8.0329986802189497e-9,
    -1.8946439832857868e-7,  3.6286275580628535e-6,  -5.5026610317910184e-5, 0.00063961934119589013,
    -0.0054561988215763705,  0.032110529869168628,   -0.11846369354485062,   0.23027510313515429,
    -0.1490818794537383,     -0.036085877191740466};
constexpr double kSecond0[] = {
    -2.8957551854752695e-13, 1.2067675159369315e-11, -4.3003087702561519e-10, 1.2984096599215381e-8,
    -3.262866251909976e-7,   6.6921904885051366e-6,  -0.00010931358375186901, 0.0013775449763471477,
    -0.012825198728186036,   0.08279745527591624,    -0.33360014135756947,    0.66731248658615973,
    -0.15182922873915473,    -0.94460761200401586,   0.23144649403798056};
constexpr double kSecond1[] = {
    4.4558777686584252e-13, -1.7223855856650369e-11, 5.6567929347314057e-10, -1.5629296239470425e-8,
    3.5626970693416978e-7,  -6.5575830607184361e-6,  9.4843583308664547e-5,  -0.0010400145152677131,
    0.0082292627925873514,  -0.043633496749937363,   0.13647459877549867,    -0.18621241752199488,
    -0.026212367438516444,  0.15342210591925188};
constexpr double kP0[] = {5.8046452846704762e-13,  -1.2998221973454929e-12, 8.832913038591512e-13,
                          -2.7607380446372348e-12, 1.2188120560020806e-11,  -3.7807871174198667e-11,
                          1.2744847480782703e-10,  -5.0007377141554103e-10, 2.2841144326853793e-9,
                          -1.268337142039722e-8,   9.1699525955780537e-8,   -9.6400700788040451e-7,
                          1.8014620576118141e-5,   -0.00093719226992106129, 0.99904372175244054};
constexpr double kQ0[] = {4.0625885370046786e-13,  -8.3505887541555984e-13, 1.6082205622560464e-13,
                          -6.5636287919843895e-13, 4.9236789356830084e-12,  -1.3085453489468911e-11,
                          3.5467194348415797e-11,  -1.1481914181114693e-10, 4.1472032604456757e-10,
                          -1.7049101675839765e-9,  8.3144243707546359e-9,   -5.0808215679530861e-8,
                          4.240191077281869e-7,    -5.6017092795192404e-6,  0.00015680723679626235,
                          -0.020670438955525295};
constexpr double kP1[] = {-6.1672437336662696e-13, 1.3844812090369348e-12,  -9.5610013826600966e-13,
                          2.9921125815675845e-12,  -1.3165025576435874e-11, 4.1054434548474706e-11,
                          -1.3936841622420635e-10, 5.5126491242212092e-10,  -2.5450845934365766e-9,
                          1.4348101792092496e-8,   -1.0614576239933043e-7,  1.1602937183624921e-6,
                          -2.3498146531042244e-5,  0.0015766098524147308,   1.0016013920824152};
constexpr double kQ1[] = {-4.2976289674201413e-13, 8.851340872652925e-13,   -1.7820447592273557e-13,
                          7.1650820478868296e-13,  -5.2759693992105933e-12, 1.4079372321286657e-11,
                          -3.8398358573238746e-11, 1.2499281915680628e-10,  -4.545773800376855e-10,
                          1.8859356791551647e-9,   -9.313152644581586e-9,   5.7960628829248548e-8,
                          -4.9805578774115618e-7,  6.945249137044835e-6,    -0.00022167979528673789,
                          0.0622708071005378};

template <int Order, bool Second, class V>
RL_INLINE V bessel(V x) {
  V a = fabs_of(x), y = V{};
  const auto far = a > 6;
  if (any(!far)) {
    V s = a * a * (1. / 18) - 1, first;
    if constexpr (Order == 0) first = polynomial(s, kFirst0);
    else first = x * polynomial(s, kFirst1);
    y = first;
    if constexpr (Second) {
      V l = log_of(x) * first;
      if constexpr (Order == 0) y = l * M_2_PI + polynomial(s, kSecond0);
      else y = (l - 1 / x) * M_2_PI + x * polynomial(s, kSecond1);
    }
  }
  if (any(far)) {
    V u = 6 / a, w = 2 * (u * u) - 1, sine = sin_of(a), cosine = cos_of(a);
    V sum = sine + cosine, difference = sine - cosine, wave;
    V p = polynomial(w, Order ? kP1 : kP0), q = u * polynomial(w, Order ? kQ1 : kQ0);
    if constexpr (Order == 0) wave = Second ? p * difference + q * sum : p * sum - q * difference;
    else wave = Second ? q * difference - p * sum : p * difference + q * sum;
    wave *= sqrt_of(u * (M_1_PI / 6));
    wave = a == HUGE_VAL ? V{} : wave;
    if constexpr (Order == 1 && !Second) wave = x < 0 ? -wave : wave;
    y = far ? wave : y;
  }
  if constexpr (Second) {
    y = x < 0 ? all<V>(NAN) : y;
    y = x == 0 ? all<V>(-HUGE_VAL) : y;
  }
  return y;
}
#define RL_BESSEL(name, order, second) \
  template <class V>                   \
  RL_INLINE V name(V x) {              \
    return bessel<order, second>(x);   \
  }
RL_BESSEL(bessel_j0_of, 0, false)
RL_BESSEL(bessel_j1_of, 1, false)
RL_BESSEL(bessel_y0_of, 0, true)
RL_BESSEL(bessel_y1_of, 1, true)
#undef RL_BESSEL

// Modified Bessel functions of the second kind.
template <bool One, bool Scaled, class V>
RL_INLINE V bessel_k(V x) {
  V y = V{};
  const auto far = x > 1;
  if (any(!far)) {
    y = bessel_k_near<One>(x, log_of(x));
    if constexpr (Scaled) y *= exp_of(x);
  }
  if (any(far)) {
    V u = 1 / x, z = bessel_k_far<One>(u);
    if (any(x < 6)) z = x < 6 ? bessel_k_to_6<One>(u) : z;
    if (any(x < 2)) z = x < 2 ? bessel_k_to_2<One>(u) : z;
    z *= sqrt_of(u);
    if constexpr (!Scaled) z *= exp_of(-x);
    y = far ? z : y;
  }
  y = x == 0 ? all<V>(HUGE_VAL) : y;
  return x < 0 ? all<V>(NAN) : y;
}
#define RL_SECOND(name, one, scaled) \
  template <class V>                 \
  RL_INLINE V name(V x) {            \
    return bessel_k<one, scaled>(x); \
  }
RL_SECOND(modified_k0_of, false, false)
RL_SECOND(modified_k1_of, true, false)
RL_SECOND(scaled_k0_of, false, true)
RL_SECOND(scaled_k1_of, true, true)
#undef RL_SECOND

// Airy's function, as special_bessel.cpp has it.
template <class V>
RL_INLINE V airy_ai_of(V x) {
  V y = V{}, inner = x < -5 ? all<V>(-5) : x;
  inner = inner > 2 ? all<V>(2) : inner;
  const auto middle = inner == x, waving = x < -5;
  if (any(middle)) {
    V c = rint_of(inner), value, slope;
    double at[3][kWidth<V>];
    std::memcpy(at[0], &c, sizeof(V));
    for (int i = 0; i < kWidth<V>; i++) {
      int k = at[0][i] == at[0][i] ? int(at[0][i]) : 0;
      at[1][i] = airy_at(k, 0);
      at[2][i] = airy_at(k, 1);
    }
    std::memcpy(&value, at[1], sizeof(V));
    std::memcpy(&slope, at[2], sizeof(V));
    y = airy_taylor<false>(c, inner - c, value, slope);
  }
  if (any(!middle)) {
    V z = fabs_of(x), s = sqrt_of(z), inverse = 1 / s, hi = z * s, q = hi * (2. / 3), outer = V{};
    V lo = fma_of(z, s, -hi) + z * fma_of(-s, s, z) * (0.5 * inverse);
    lo = (lo + fma_of(-q, all<V>(1.5), hi)) * (2. / 3);
    V v = 1 / q;
    if (any(x > 2)) {
      outer = airy_decay<false>(v);
      if (any(v >= 1. / 6)) outer = v < 1. / 6 ? outer : airy_decay_to_6<false>(v);
      outer *= exp_of(-q) * (1 - lo) * 0.28209479177387814;
    }
    if (any(waving)) {
      V sine = sin_of(q), cosine = cos_of(q), cos_lo = 1 - lo * lo / 2;
      V s1 = sine * cos_lo + lo * cosine, c1 = cosine * cos_lo - lo * sine;
      V even = airy_even<false>(v * v), odd = v * airy_odd<false>(v * v);
      V wave = ((c1 + s1) * even + (s1 - c1) * odd) * 0.39894228040143268;
      outer = waving ? wave : outer;
    }
    outer = hi < 1e300 ? outer * sqrt_of(inverse) : V{};
    y = middle ? y : outer;
  }
  return x == x ? y : x;
}

// The logarithm of |gamma(x)|. Beside its zeros at 1 and 2 it is x - 1 or x - 2, which are exact, times
// polynomials in them; the latter also serve below, by the recurrence. Then Stirling's formula, from
// 4.5 on, where no digits cancel, with the factors up to there. The rough ones err by 1e-9, enough for
// floats, and need no factors.
constexpr double kGamma1[] = {
    1.8822643178228807e-10, -4.903769912181532e-10, 1.975519835466859e-10, -5.272401143907654e-10,
    4.117872055896516e-9,   -1.0846086681345669e-8, 2.479588169525947e-8,  -6.589207575612515e-8,
    1.7924402308700888e-7,  -4.801097555751921e-7,  1.2906036030940501e-6, -3.4958281811312385e-6,
    9.53724730136839e-6,    -2.6240543230229496e-5, 7.296402033653239e-5,  -0.000205635031787714,
    0.0005900283775128201,  -0.0017362654933562559, 0.005309070106320629,  -0.01731717173934335,
    0.06410970150184518,    -0.3289868133696457,    0.5772156649015329};
constexpr double kGamma2[] = {
    4.43723393242235e-12,  -1.554000550437831e-11, 3.2381525243921226e-11, -1.1447788796002374e-10,
    4.533882222852439e-10, -1.6129922743260012e-9, 5.7107577140503976e-9,  -2.0536825569089016e-8,
    7.440095741718422e-8,  -2.716566314046073e-7,  1.0023022020298086e-6,  -3.7481417143561495e-6,
    1.4267484866164745e-5, -5.564912670775142e-5,  0.00022476608331388668, -0.000957167413300201,
    0.004445454620401601,  -0.0242468283791518,    0.19348022005446794,    0.42278433509846713};
constexpr double kGammaFar[] = {
    -6.347588450442466e-14, 7.508776377188033e-13, -1.1373946255047578e-11, 2.4217673126938894e-10,
    -7.860512729297252e-9,  4.5869867702652596e-7, -6.764509620184186e-5,   0.08326522142357665};
constexpr double kGamma1Rough[] = {
    2.0833335670280066e-6, -5.613580513937801e-6,   8.45032860302902e-6,   -2.333895186594319e-5,
    7.364531564724718e-5,  -0.00020745318233498844, 0.0005898248947235118, -0.0017357225634078643,
    0.005309095867889547,  -0.01731724046935657,    0.06410970057709496,   -0.3289868109025736,
    0.5772156649015329};
constexpr double kGamma2Rough[] = {
    -3.3681868038027014e-7, 1.2378349327266773e-6,  -3.6800341035565947e-6, 1.4021449520931803e-5,
    -5.567953462680355e-5,  0.00022487590254791038, -0.0009571619282990744, 0.004445434813570816,
    -0.02424682865447746,   0.19348022104864654,    0.42278433509846713};
constexpr double kGammaFarRough[] = {1.7306287601194653e-8, -2.1120162957808656e-7,
                                     4.326078459347427e-6, -0.00021286343447560435,
                                     0.0831159151616548};
constexpr double kLogRough[] = {
    2.005715075232551e-6,  -6.589302510223349e-6,  1.633290830576584e-5,  -5.5153147066363724e-5,
    0.0001947215145649777, -0.0006807434087095464, 0.0024445552233681857, -0.009149008141533676,
    0.03648859963378866,   -0.16339530047554643,   0.9708432419537277};

// log(x) of a positive normal number with an error of 3e-10: x = 2^k m with m next to 1.
template <class V>
RL_INLINE V log_rough(V x) {
  constexpr int64_t half_root = 0x3fe6a09e667f3bcd, exponent = int64_t(0xfff) << 52;
  int64_t bits[kWidth<V>], integer[kWidth<V>];
  std::memcpy(bits, &x, sizeof(V));
  for (int i = 0; i < kWidth<V>; i++) {
    int64_t k = (bits[i] - half_root) & exponent;
    bits[i] -= k;
    // k + 2048 in the low bits of 2^52.
    integer[i] = int64_t((uint64_t(k) >> 52 ^ 2048) | 0x4330000000000000);
  }
  V m, k;
  std::memcpy(&m, bits, sizeof(V));
  std::memcpy(&k, integer, sizeof(V));
  V r = m - 1;
  return r * polynomial(r * (2 * M_SQRT2) - 0.1715728752538099, kLogRough) +
         (k - (0x1p52 + 2048)) * M_LN2;
}

template <bool Rough, class V>
RL_INLINE V log_gamma_above(V x) {
  constexpr auto& one = choose<Rough>(kGamma1Rough, kGamma1);
  constexpr auto& two = choose<Rough>(kGamma2Rough, kGamma2);
  constexpr auto& stirling = choose<Rough>(kGammaFarRough, kGammaFar);
  constexpr double from = Rough ? 2.5 : 4.5;
  const auto low = x < 0.6, far = x >= from;
  V t = x - 2, of = all<V>(1), l;
  if constexpr (!Rough) {
    of = x > 2.5 ? x - 1 : of;
    of *= x > 3.5 ? t : all<V>(1);
    t -= x > 2.5 ? all<V>(1) : V{};
    t -= x > 3.5 ? all<V>(1) : V{};
  }
  t = low ? x : t;
  of = low ? x * (x + 1) : of;
  of = far ? x : of;
  if constexpr (Rough) l = log_rough(of);
  else l = log_of(of);
  V y = t * polynomial(t * (1 / 0.6), two) + (low ? -l : l), beside = 1 - x;
  if (any(fabs_of(beside) <= 0.4)) {
    V product = beside * polynomial(beside * -2.5, one);
    y = fabs_of(beside) <= 0.4 ? product : y;
  }
  if (any(far)) {
    V u = 1 / x, w = from * u;
    V sum = (x - 0.5) * (l - 1) + (u * polynomial(2 * (w * w) - 1, stirling) + 0.41893853320467274);
    y = far ? sum : y;
  }
  return y;
}

// Below 0 one by one: the zeros there have no simple form.
template <class V>
RL_INLINE V log_gamma_of(V x) {
  V y = log_gamma_above<false>(x);
  if (any(x < 0)) {
    double of[2][kWidth<V>];
    std::memcpy(of[0], &x, sizeof(V));
    std::memcpy(of[1], &y, sizeof(V));
    for (int i = 0; i < kWidth<V>; i++)
      if (of[0][i] < 0) of[1][i] = lgamma(of[0][i]);
    std::memcpy(&y, of[1], sizeof(V));
  }
  return y;
}

// Of floats: below 0 by reflection, where an error of 1e-14 is enough beside the zeros, too.
template <class V>
RL_INLINE V log_gamma_rough_of(V x) {
  V y = log_gamma_above<true>(x);
  y = x == 0 ? all<V>(HUGE_VAL) : y;
  if (any(x < 0)) {
    V sine = fabs_of(sin_of(M_PI * (x - rint_of(x))));
    V mirrored = log_of(M_PI / sine) - log_gamma_above<false>(1 - x);
    y = x < 0 ? mirrored : y;
    y = x == -HUGE_VAL ? all<V>(HUGE_VAL) : y;
  }
  return y;
}

// exp(x) for x of -300 to 300 with an error of 3e-10: 2^k times Taylor's series of the rest.
template <class V>
RL_INLINE V exp_rough(V x) {
  constexpr double terms[] = {1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24,
                              1. / 6,     0.5,       1,        1};
  constexpr double round = 0x1.8p52;  // leaves k in the low bits
  V shifted = x * M_LOG2E + round, k = shifted - round, scale;
  int64_t bits[kWidth<V>];
  std::memcpy(bits, &shifted, sizeof(V));
  for (int i = 0; i < kWidth<V>; i++) bits[i] = int64_t(uint64_t(bits[i] + 1023) << 52);
  std::memcpy(&scale, bits, sizeof(V));
  return polynomial(x - k * M_LN2, terms) * scale;
}

// The normal distribution function with an error of 5e-9, enough for floats, whose squares are
// exact: exp(-x^2 / 2) times a polynomial in 1 / (1 + 0.3 |x|).
template <class V>
RL_INLINE V normal_cdf_rough_of(V x) {
  constexpr double c[] = {4.90502299247e-7,   -6.20408678025e-6, 4.95514927463e-7,
                          8.07996194046e-5,   -4.21308226866e-5, -0.00100682007304,
                          -0.000297015403658, 0.015159371643,    0.0676423855679,
                          0.16251354442,      0.255955082705};
  V a = fabs_of(x), u = 1 / (1 + 0.3 * a);
  a = a > 20 ? all<V>(20) : a;
  V y = u * polynomial(2.46 * u - 1.46, c) * exp_rough(-0.5 * (a * a));
  return x < 0 ? y : 1 - y;
}

template <class V>
RL_INLINE V erf_inverse_of(V x) {
  V a = fabs_of(x), w = -log_of((1 - a) * (1 + a));
  V y = erf_inverse_near(x, w);
  if (any(w > 6.25)) {
    V tail = erf_inverse_tail(sqrt_of(w));
    tail = a == 1 ? all<V>(HUGE_VAL) : tail;
    tail = x < 0 ? -tail : tail;
    y = w > 6.25 ? tail : y;
  }
  return y;
}

// The incomplete gamma function where its parameters are of moderate size, by the sums of
// special_gamma.cpp without their divisions; elsewhere a lane at a time. A lane that is done stays
// as it is, whatever the others still need.
constexpr double kReciprocal[] = {
    5.1363253597942927e-13, -5.4945445767845667e-12, 7.0866788641303218e-12, 5.2650336497242496e-10,
    -6.7855612080375315e-9, 2.476086966716361e-8,    2.9757348347964187e-7,  -4.3387900231176527e-6,
    1.6568214393720639e-5,  0.00010332652853552368,  -0.0013173490427665649, 0.0031854287654827034,
    0.021887753255491812,   -0.13166360888138617,    -0.020587263222641551,  1.1283791670955126};
constexpr double kStirling[] = {
    -1.4836939180201942e-14, 3.8871580377654618e-13, 4.1391007847457233e-12,
    -2.2907191021933206e-10, -2.6270707686131654e-9, 3.2701670322169253e-7,
    9.6750238576503374e-6,   -0.0041483070099892798, 0.9958423473771196};

// x^a exp(-x) / gamma(a + 1): below 10 with the reciprocal of gamma between 1 and 2.
template <class V>
RL_INLINE V gamma_factor_of(V a, V x) {
  const auto small = a < 10;
  V whole = each(a, [](double lane) { return floor(lane); });
  V f = a - whole, divisor = all<V>(1), b = small ? all<V>(10) : a;
  for (int k = 1; k < 10; k++) divisor *= whole >= k ? f + k : all<V>(1);
  V scale = small ? polynomial(2 * f - 1, kReciprocal) / divisor
                  : polynomial(20 / b - 1, kStirling) / sqrt_of(2 * M_PI * b);
  V ratio = small ? x : x / a, rest = small ? V{} : a * (x - ratio * a) / x;
  double p[kWidth<V>], q[kWidth<V>];
  std::memcpy(p, &ratio, sizeof(V));
  std::memcpy(q, &a, sizeof(V));
#pragma omp simd
  for (int i = 0; i < kWidth<V>; i++) p[i] = pow(p[i], q[i]);
  std::memcpy(&ratio, p, sizeof(V));
  return ratio * exp_of(small ? -x : a - x) * scale * (1 + rest);
}

template <bool Above, class V>
RL_INLINE V gamma_integral_of(V a, V x) {
  const V given_a = a, given_x = x;
  const V zero = V{}, one = all<V>(1);
  V plain = a >= 0.01 ? one : zero;
  plain = a <= 64 ? plain : zero;
  plain = x >= 0.01 ? plain : zero;
  plain = x <= 128 ? plain : zero;
  if constexpr (Above) {
    V lost = a < 0.5 ? zero : 0.7 * a;  // beyond it digits are, where x is small
    lost = x < 1.5 ? lost : x;
    plain = x > lost ? zero : plain;
  }
  a = plain > 0 ? a : one;
  x = plain > 0 ? x : one;
  V bound = a < 0.5 ? all<V>(1.5) : a + 1;
  const auto low = x < bound;
  V below = zero, beyond = zero, factor = gamma_factor_of(a, x);
  if (any(low)) {
    V z = low ? x : zero, t = a, power = one, sum = one, scale = one, on = one;
    V numerator = one, denominator = one;
    do {
      for (int i = 0; i < 4; i++) {
        t += 1;
        power *= z;
        sum = sum * t + power;
        scale *= t;
      }
      numerator = on > 0 ? sum : numerator;
      denominator = on > 0 ? scale : denominator;
      on = power > sum * 1e-17 ? on : zero;
    } while (any(on > 0));
    below = factor * (numerator / denominator);
  }
  if (any(x >= bound)) {
    // Numerators p and denominators r of two successive convergents.
    V z = low ? all<V>(128) : x, b = z + 1 - a, k = zero;
    V p = zero, p1 = one, r = one, r1 = b, value = 1 / b, on = one;
    do {
      for (int i = 0; i < 4; i++) {
        k += 1;
        b += 2;
        V f = k * (a - k), above_p = p1 * b + f * p, above_r = r1 * b + f * r;
        p = p1, p1 = above_p, r = r1, r1 = above_r;
      }
      V last = value;
      value = on > 0 ? p1 / r1 : value;
      on = fabs_of(value - last) > value * 3e-16 ? on : zero;
    } while (any(on > 0));
    beyond = factor * a * value;
  }
  V y = Above ? (low ? 1 - below : beyond) : (low ? below : 1 - beyond);
  if (any(plain == 0)) {
    double of[3][kWidth<V>];
    y = plain == 0 ? all<V>(NAN) : y;
    std::memcpy(of[0], &y, sizeof(V));
    std::memcpy(of[1], &given_a, sizeof(V));
    std::memcpy(of[2], &given_x, sizeof(V));
    for (int i = 0; i < kWidth<V>; i++)
      if (std::isnan(of[0][i]))
        of[0][i] = Above ? gamma_above(of[1][i], of[2][i]) : gamma_below(of[1][i], of[2][i], 0);
    std::memcpy(&y, of[0], sizeof(V));
  }
  return y;
}

#define RL_BY_LANES(name)                                   \
  template <class V>                                        \
  RL_INLINE V name##_of(V x) {                              \
    return each(x, [](double lane) { return name(lane); }); \
  }
RL_BY_LANES(digamma)
RL_BY_LANES(normal_cdf)
#undef RL_BY_LANES

template <class V>
RL_INLINE V gamma_below_of(V a, V x) {
  return gamma_integral_of<false>(a, x);
}
template <class V>
RL_INLINE V gamma_above_of(V a, V x) {
  return gamma_integral_of<true>(a, x);
}

}  // namespace
}  // namespace rl::special

using namespace rl::special;

extern "C" {
#define RL_WHOLE __attribute__((flatten, visibility("hidden")))
#define RL_ONE_AS(name, value) \
  RL_WHOLE double rl_##name(double x) noexcept { return value; }
#define RL_ONE(name) RL_ONE_AS(name, name##_of(x))
RL_EACH_FORM(RL_ONE)
RL_EACH_WIDE_FORM(RL_ONE_AS)
RL_WHOLE double rl_gamma_below(double a, double x) noexcept { return gamma_below(a, x, 0); }
RL_WHOLE double rl_gamma_above(double a, double x) noexcept { return gamma_above(a, x); }
#if RL_LEVELS && !defined(__clang__)
#define RL_WIDE(name)                                                           \
  RL_WHOLE RL_V3 double4 _ZGVdN4v_rl_##name(double4 x) { return name##_of(x); } \
  RL_WHOLE RL_V4 double8 _ZGVeN8v_rl_##name(double8 x) { return name##_of(x); }
#define RL_VECTORS(name)                                                  \
  RL_WHOLE double2 _ZGVbN2v_rl_##name(double2 x) { return name##_of(x); } \
  RL_WIDE(name)
RL_EACH_FORM(RL_VECTORS)
#define RL_WIDE_VECTORS(name, one)                    \
  RL_WHOLE double2 _ZGVbN2v_rl_##name(double2 x) {    \
    return double2{rl_##name(x[0]), rl_##name(x[1])}; \
  }                                                   \
  RL_WIDE(name)
RL_EACH_WIDE_FORM(RL_WIDE_VECTORS)
#define RL_VECTORS2(name)                                                                      \
  RL_WHOLE double2 _ZGVbN2vv_rl_##name(double2 a, double2 x) { return name##_of(a, x); }       \
  RL_WHOLE RL_V3 double4 _ZGVdN4vv_rl_##name(double4 a, double4 x) { return name##_of(a, x); } \
  RL_WHOLE RL_V4 double8 _ZGVeN8vv_rl_##name(double8 a, double8 x) { return name##_of(a, x); }
RL_EACH_FORM2(RL_VECTORS2)
#endif
}
