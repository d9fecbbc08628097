// Complex numbers as text for device compilers: what std::complex and C's functions of complex
// numbers give, special values included. Branch cuts follow the signs of zeros.
#include "call/symbol.h"

namespace rl {

// Products and quotients are the host's: quotients do not overflow on the way, neither looks for
// infinities behind a NaN.
std::string complex_type() {
  return R"(
template <class R> struct Complex {
  R re, im;
  Complex() = default;
  Complex(R re, R im = R(0)) : re(re), im(im) {}
};
typedef Complex<float> C64;
typedef Complex<double> C128;
template <class R> RL_DEVICE Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re + b.re, a.im + b.im);
}
template <class R> RL_DEVICE Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re - b.re, a.im - b.im);
}
template <class R> RL_DEVICE Complex<R> operator-(Complex<R> z) {
  return Complex<R>(-z.re, -z.im);
}
template <class R> RL_DEVICE Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <class R> RL_DEVICE Complex<R> operator/(Complex<R> a, Complex<R> b) {
  if (fabs(b.re) < fabs(b.im)) {
    const R part = b.re / b.im, whole = b.re * part + b.im;
    return Complex<R>((a.re * part + a.im) / whole, (a.im * part - a.re) / whole);
  }
  const R part = b.im / b.re, whole = b.im * part + b.re;
  return Complex<R>((a.im * part + a.re) / whole, (a.im - a.re * part) / whole);
}
template <class R> RL_DEVICE bool operator==(Complex<R> a, Complex<R> b) {
  return a.re == b.re && a.im == b.im;
}
template <class R> RL_DEVICE bool operator!=(Complex<R> a, Complex<R> b) { return !(a == b); }
// Formulas order complex numbers by their real parts.
template <class R> RL_DEVICE bool operator<(Complex<R> a, Complex<R> b) { return a.re < b.re; }
template <class R> RL_DEVICE bool operator>(Complex<R> a, Complex<R> b) { return a.re > b.re; }
template <class R> RL_DEVICE bool operator>=(Complex<R> a, Complex<R> b) { return a.re >= b.re; }
template <class R> RL_DEVICE Complex<R> conj(Complex<R> z) { return Complex<R>(z.re, -z.im); }
)";
}

std::string complex_functions() {
  return R"(
template <class R> RL_DEVICE bool isnan(Complex<R> z) { return z != z; }
template <class R> RL_DEVICE bool isinf(Complex<R> z) { return isinf(z.re) || isinf(z.im); }
template <class R> RL_DEVICE bool isreal(Complex<R> z) { return z.im == 0; }
template <class R> RL_DEVICE Complex<R> scaled(Complex<R> z, R factor) {
  return Complex<R>(z.re * factor, z.im * factor);
}
template <class R> RL_DEVICE Complex<R> fabs(Complex<R> z) {
  return Complex<R>(hypot(z.re, z.im));
}
template <class R> RL_DEVICE Complex<R> sgn(Complex<R> z) {
  const R size = hypot(z.re, z.im);
  return size == 0 ? Complex<R>(0) : Complex<R>(z.re / size, z.im / size);
}
template <class R> RL_DEVICE Complex<R> quotient(Complex<R> a, Complex<R> b) {
  return b == Complex<R>(0) ? Complex<R>(a.re / 0, a.im / 0) : a / b;
}
// i z and -i z: functions of angles are the hyperbolic ones of turned numbers.
template <class R> RL_DEVICE Complex<R> left(Complex<R> z) { return Complex<R>(-z.im, z.re); }
template <class R> RL_DEVICE Complex<R> right(Complex<R> z) { return Complex<R>(z.im, -z.re); }

// ---- exponentials. Taken in halves, they overflow only where the product does.

template <class R> RL_DEVICE Complex<R> exp(Complex<R> z) {
  if (z.im == 0) return Complex<R>(exp(z.re), z.im);
  if (isinf(z.re) && !isfinite(z.im))
    return z.re > 0 ? Complex<R>(z.re, R(NAN)) : Complex<R>(0);
  const R half = exp(z.re / 2);
  return Complex<R>(half * cos(z.im) * half, half * sin(z.im) * half);
}
template <class R> RL_DEVICE Complex<R> exp2(Complex<R> z) { return exp(scaled(z, R(M_LN2))); }
template <class R> RL_DEVICE Complex<R> expm1(Complex<R> z) {
  const R half = sin(z.im / 2);
  return Complex<R>(expm1(z.re) * cos(z.im) - 2 * half * half, exp(z.re) * sin(z.im));
}
template <class R> RL_DEVICE Complex<R> sigmoid(Complex<R> z) {
  const Complex<R> e = exp(z.re < 0 ? z : -z);
  return (z.re < 0 ? e : Complex<R>(1)) / (Complex<R>(1) + e);
}
template <class R> RL_DEVICE Complex<R> sinh(Complex<R> z) {
  if (z.im == 0) return Complex<R>(sinh(z.re), z.im);
  if (!isfinite(z.im) && (z.re == 0 || isinf(z.re))) return Complex<R>(z.re, R(NAN));
  if (fabs(z.re) > 40) {
    const R half = exp(fabs(z.re) / 2);
    return Complex<R>(copysign(half / 2, z.re) * cos(z.im) * half, half / 2 * sin(z.im) * half);
  }
  return Complex<R>(sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im));
}
template <class R> RL_DEVICE Complex<R> cosh(Complex<R> z) {
  if (z.im == 0) return Complex<R>(cosh(z.re), copysign(R(1), z.re) * z.im);
  if (!isfinite(z.im) && z.re == 0) return Complex<R>(R(NAN), R(0));
  if (!isfinite(z.im) && isinf(z.re)) return Complex<R>(R(INFINITY), R(NAN));
  if (fabs(z.re) > 40) {
    const R half = exp(fabs(z.re) / 2);
    return Complex<R>(half / 2 * cos(z.im) * half, copysign(half / 2, z.re) * sin(z.im) * half);
  }
  return Complex<R>(cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im));
}
template <class R> RL_DEVICE Complex<R> tanh(Complex<R> z) {
  if (z.im == 0) return Complex<R>(tanh(z.re), z.im);
  if (isinf(z.re)) return Complex<R>(copysign(R(1), z.re), copysign(R(0), sin(2 * z.im)));
  if (!isfinite(z.im)) return Complex<R>(z.re == 0 ? z.re : R(NAN), R(NAN));
  const R s = sin(z.im), c = cos(z.im);
  if (fabs(z.re) > 40)
    return Complex<R>(copysign(R(1), z.re), 4 * s * c * exp(-2 * fabs(z.re)));
  const R up = sinh(z.re), square = up * up + c * c;
  return Complex<R>(up * cosh(z.re) / square, s * c / square);
}
template <class R> RL_DEVICE Complex<R> sin(Complex<R> z) { return right(sinh(left(z))); }
template <class R> RL_DEVICE Complex<R> cos(Complex<R> z) { return cosh(left(z)); }
template <class R> RL_DEVICE Complex<R> tan(Complex<R> z) { return right(tanh(left(z))); }

// ---- roots and logarithms

template <class R> RL_DEVICE Complex<R> sqrt(Complex<R> z) {
  if (z.re == 0 && z.im == 0) return Complex<R>(R(0), z.im);
  if (isinf(z.im)) return Complex<R>(fabs(z.im), z.im);
  if (isinf(z.re))
    return z.re > 0 ? Complex<R>(z.re, z.im * 0) : Complex<R>(fabs(z.im * 0), copysign(z.re, z.im));
  // 1/16 and 2^64: neither the modulus overflows nor have small numbers few digits.
  const bool large = fabs(z.re) > 1 || fabs(z.im) > 1;
  const R in = large ? R(0.0625) : R(18446744073709551616.0);
  const R out = large ? R(4) : R(2.3283064365386963e-10);
  const R x = z.re * in, y = z.im * in, root = sqrt((fabs(x) + hypot(x, y)) / 2);
  return x >= 0 ? Complex<R>(root * out, y / (2 * root) * out)
                : Complex<R>(fabs(y) / (2 * root) * out, copysign(root, y) * out);
}
// The logarithm of the modulus.
template <class R> RL_DEVICE R log_size(Complex<R> z) {
  if (isinf(z)) return R(INFINITY);
  const R x = fabs(z.re), y = fabs(z.im), a = x > y ? x : y, b = x > y ? y : x;
  if (!(a >= R(0.5) && a <= 2)) return log(a) + (b == 0 ? R(0) : log1p(b / a * (b / a)) / 2);
  // |z|^2 - 1 = 2 d + d^2 + b^2, and what is lost in each step beside it.
  const R d = a - 1, first = 2 * d, second = b * b, third = d * d;
  const R two = first + second, in_two = two - first;
  const R all = two + third, in_all = all - two;
  const R lost = (first - (two - in_two)) + (second - in_two) + (two - (all - in_all)) +
                 (third - in_all) + fma(b, b, -second) + fma(d, d, -third);
  return log1p(all + lost) / 2;
}
template <class R> RL_DEVICE Complex<R> log(Complex<R> z) {
  return Complex<R>(log_size(z), atan2(z.im, z.re));
}
template <class R> RL_DEVICE Complex<R> log2(Complex<R> z) { return scaled(log(z), R(M_LOG2E)); }
template <class R> RL_DEVICE Complex<R> log10(Complex<R> z) {
  return scaled(log(z), R(0.43429448190325182765));
}
template <class R> RL_DEVICE Complex<R> log1p(Complex<R> z) {
  const R x = z.re, y = z.im;
  if (!(fabs(x) < 1 && fabs(y) < 1)) return log(Complex<R>(1 + x, y));
  return Complex<R>(log1p(x * (2 + x) + y * y) / 2, atan2(y, 1 + x));
}
// C's power takes a product that is infinite where a factor is, whatever NaN is beside it.
template <class R> RL_DEVICE R boxed(R x, bool infinite) {
  return infinite ? copysign(R(isinf(x)), x) : isnan(x) ? R(0) : x;
}
template <class R> RL_DEVICE Complex<R> infinite_product(Complex<R> a, Complex<R> b) {
  const Complex<R> plain = a * b;
  const bool overflows = isinf(a.re * b.re) || isinf(a.im * b.im) || isinf(a.re * b.im) ||
                         isinf(a.im * b.re);
  const bool lost = isnan(plain.re) && isnan(plain.im), in_a = isinf(a), in_b = isinf(b);
  if (!lost || !(overflows || in_a || in_b)) return plain;
  const Complex<R> turned = Complex<R>(boxed(a.re, in_a), boxed(a.im, in_a)) *
                            Complex<R>(boxed(b.re, in_b), boxed(b.im, in_b));
  return scaled(turned, R(INFINITY));
}
template <class R> RL_DEVICE Complex<R> pow(Complex<R> a, Complex<R> b) {
  return exp(infinite_product(b, log(a)));
}

// ---- inverse functions. Far from 0 they are logarithms; elsewhere Kahan's formulas, whose sums
// have terms of one sign.

template <class R> RL_DEVICE bool is_far(Complex<R> z) {
  return !(fabs(z.re) < R(1e10) && fabs(z.im) < R(1e10));
}
template <class R> RL_DEVICE Complex<R> asin(Complex<R> z) {
  if (z.re == 0 && isnan(z.im)) return z;
  if (is_far(z))
    return Complex<R>(atan2(z.re, fabs(z.im)), copysign(log_size(z) + R(M_LN2), z.im));
  const Complex<R> a = sqrt(Complex<R>(1 - z.re, -z.im)), b = sqrt(Complex<R>(1 + z.re, z.im));
  return Complex<R>(atan2(z.re, a.re * b.re - a.im * b.im), asinh(a.re * b.im - a.im * b.re));
}
template <class R> RL_DEVICE Complex<R> acos(Complex<R> z) {
  if (z.re == 0 && isnan(z.im)) return Complex<R>(R(M_PI_2), z.im);
  if (is_far(z))
    return Complex<R>(atan2(fabs(z.im), z.re), -copysign(log_size(z) + R(M_LN2), z.im));
  const Complex<R> a = sqrt(Complex<R>(1 - z.re, -z.im)), b = sqrt(Complex<R>(1 + z.re, z.im));
  return Complex<R>(2 * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re));
}
template <class R> RL_DEVICE Complex<R> asinh(Complex<R> z) { return left(asin(right(z))); }
template <class R> RL_DEVICE Complex<R> acosh(Complex<R> z) {
  const Complex<R> angle = acos(z);
  return Complex<R>(fabs(angle.im), copysign(angle.re, z.im));
}
template <class R> RL_DEVICE Complex<R> atanh(Complex<R> z) {
  const R x = fabs(z.re), y = fabs(z.im);
  if (isinf(z))
    return Complex<R>(copysign(R(0), z.re), isnan(z.im) ? z.im : copysign(R(M_PI_2), z.im));
  if (z.re == 0 && isnan(z.im)) return z;
  if (is_far(z)) {
    const R a = x > y ? x : y, part = (x > y ? y : x) / a, square = 1 + part * part;
    return Complex<R>(z.re / a / a / square, copysign(R(M_PI_2) - y / a / a / square, z.im));
  }
  const R size = x == 1 && y < 1 ? (log(hypot(R(2), y)) - log(y)) / 2
                                 : log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
  return Complex<R>(copysign(size, z.re), atan2(2 * z.im, (1 - x) * (1 + x) - y * y) / 2);
}
template <class R> RL_DEVICE Complex<R> atan(Complex<R> z) { return right(atanh(left(z))); }
)";
}

}  // namespace rl
