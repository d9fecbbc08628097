// Special functions of one number, of some size: compiled once and called. Each is kept as text too,
// which device compilers read: a function is marked RL_DEVICE, and calls C's functions and those above
// it.
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/cpu/simd.h"

// Those with vector forms (special_forms.cpp), which loops over them call. The rough ones are exact
// enough for results of single precision. The wide ones have forms from four lanes on; fewer are
// computed one by one, as is said beside them.
#define RL_EACH_FORM(X) \
  X(bessel_j0)          \
  X(bessel_j1)          \
  X(bessel_y0)          \
  X(bessel_y1)          \
  X(digamma)            \
  X(erf_inverse)        \
  X(normal_cdf)         \
  X(normal_cdf_rough)
#define RL_EACH_WIDE_FORM(X)              \
  X(airy_ai, airy(x, 0))                  \
  X(log_gamma, lgamma(x))                 \
  X(log_gamma_rough, lgamma(x))           \
  X(modified_k0, modified_bessel_k(x, 0)) \
  X(modified_k1, modified_bessel_k(x, 1)) \
  X(scaled_k0, scaled_bessel_k(x, 0))     \
  X(scaled_k1, scaled_bessel_k(x, 1))
#define RL_EACH_FORM2(X) X(gamma_above) X(gamma_below)

#ifdef RL_DEFINES_FORMS  // where they are, a compiler would make its own
#define RL_HAS_FORMS
#else
#define RL_HAS_FORMS RL_VECTOR
#endif
extern "C" {
#define RL_DECLARE(name, ...) RL_HAS_FORMS double rl_##name(double) noexcept;
RL_EACH_FORM(RL_DECLARE)
RL_EACH_WIDE_FORM(RL_DECLARE)
#undef RL_DECLARE
#define RL_DECLARE(name) RL_HAS_FORMS double rl_##name(double, double) noexcept;
RL_EACH_FORM2(RL_DECLARE)
#undef RL_DECLARE
}

namespace rl::special {

#define RL_SHARED(text_name, ...) \
  __VA_ARGS__                     \
  static constexpr const char* text_name = #__VA_ARGS__;

// c[0] x^(count - 1) + ... + c[count - 1].
double horner(const double* c, int count, double x);

// Bessel functions of integer order n; the modified ones of the second kind have orders 0 and 1.
// Scaled: times exp(-|x|) and exp(x).
double bessel_j(double x, double n);
double modified_bessel_i(double x, double n);
double scaled_bessel_i(double x, double n);
double modified_bessel_k(double x, double n);
double scaled_bessel_k(double x, double n);
// Ai (order 0) and its derivative (order 1).
double airy(double x, double order);

// Orthogonal polynomials of degree n, rounded towards 0; 0 below it, NaN where the recurrence would
// take more than ten million steps.
double chebyshev(double x, double n, double kind);
double gegenbauer(double x, double n, double a);
double laguerre(double x, double n, double a);
double hermite(double x, double n, double a);

// exp(x^2) times the n-th repeated integral of erfc.
double scaled_erfc_integral(double x, double n);

// The derivative of digamma of order n.
double polygamma(double x, double n);
// Hurwitz's zeta: the sum of (q + k)^-s over k = 0, 1, ...; its n-th derivative in s.
double zeta(double s, double q);
double zeta_slope(double s, double q, double n);
// The density of the gamma distribution with shape a, its integral from 0 to x and from x: each with
// its n-th derivative in a.
double gamma_density(double a, double x, double n);
double gamma_below(double a, double x, double n);
double gamma_above(double a, double x);

std::string lines(std::initializer_list<const char*> parts);
std::string bessel_text();
std::string normal_text();
std::string gamma_text();

}  // namespace rl::special
