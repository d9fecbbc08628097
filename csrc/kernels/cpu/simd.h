// One source, several instruction sets: a function marked RL_CLONES is compiled for AVX-512,
// AVX2 and the baseline, and the loader picks one. Elementary functions carry declarations of
// their vector forms in glibc's libmvec, so that a plain loop over them vectorises.
#pragma once

#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(RL_NO_CLONES)
#define RL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RL_CLONES
#endif

#define RL_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(RL_NO_CLONES)
#define RL_VECTOR __attribute__((simd("notinbranch")))
#else
#define RL_VECTOR
#endif

// clang-format off
extern "C" {
RL_VECTOR float expf(float) noexcept;     RL_VECTOR double exp(double) noexcept;
RL_VECTOR float exp2f(float) noexcept;    RL_VECTOR double exp2(double) noexcept;
RL_VECTOR float expm1f(float) noexcept;   RL_VECTOR double expm1(double) noexcept;
RL_VECTOR float logf(float) noexcept;     RL_VECTOR double log(double) noexcept;
RL_VECTOR float log2f(float) noexcept;    RL_VECTOR double log2(double) noexcept;
RL_VECTOR float log10f(float) noexcept;   RL_VECTOR double log10(double) noexcept;
RL_VECTOR float log1pf(float) noexcept;   RL_VECTOR double log1p(double) noexcept;
RL_VECTOR float sinf(float) noexcept;     RL_VECTOR double sin(double) noexcept;
RL_VECTOR float cosf(float) noexcept;     RL_VECTOR double cos(double) noexcept;
RL_VECTOR float tanf(float) noexcept;     RL_VECTOR double tan(double) noexcept;
RL_VECTOR float asinf(float) noexcept;    RL_VECTOR double asin(double) noexcept;
RL_VECTOR float acosf(float) noexcept;    RL_VECTOR double acos(double) noexcept;
RL_VECTOR float atanf(float) noexcept;    RL_VECTOR double atan(double) noexcept;
RL_VECTOR float sinhf(float) noexcept;    RL_VECTOR double sinh(double) noexcept;
RL_VECTOR float coshf(float) noexcept;    RL_VECTOR double cosh(double) noexcept;
RL_VECTOR float tanhf(float) noexcept;    RL_VECTOR double tanh(double) noexcept;
RL_VECTOR float asinhf(float) noexcept;   RL_VECTOR double asinh(double) noexcept;
RL_VECTOR float acoshf(float) noexcept;   RL_VECTOR double acosh(double) noexcept;
RL_VECTOR float atanhf(float) noexcept;   RL_VECTOR double atanh(double) noexcept;
RL_VECTOR float erff(float) noexcept;     RL_VECTOR double erf(double) noexcept;
RL_VECTOR float erfcf(float) noexcept;    RL_VECTOR double erfc(double) noexcept;
RL_VECTOR float powf(float, float) noexcept;   RL_VECTOR double pow(double, double) noexcept;
RL_VECTOR float atan2f(float, float) noexcept; RL_VECTOR double atan2(double, double) noexcept;
RL_VECTOR float hypotf(float, float) noexcept; RL_VECTOR double hypot(double, double) noexcept;
}
// clang-format on
