// One source, several instruction sets. A function marked RL_CLONES is compiled for AVX-512, AVX2
// and the baseline, and the loader picks one; RL_V4 and RL_V3 mark versions that are written out,
// from which `for_level` picks. Elementary functions carry declarations of vector forms
// (vector_math.cpp), so that a plain loop over them vectorises.
#pragma once

#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(RL_NO_CLONES)
#define RL_LEVELS 1
#define RL_V4 __attribute__((target("arch=x86-64-v4")))
#define RL_V3 __attribute__((target("arch=x86-64-v3")))
#else
#define RL_LEVELS 0
#endif

// Clang clones no templates, and calls no vector forms by itself.
#if RL_LEVELS && !defined(__clang__)
#define RL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RL_CLONES
#endif
#if RL_LEVELS && !defined(__clang__) && !defined(RL_PLAIN_FUNCTIONS)
#define RL_VECTOR __attribute__((simd("notinbranch")))
#else
#define RL_VECTOR
#endif

#define RL_INLINE inline __attribute__((always_inline))
// Runs once, or where what it calls takes longer than it: compiled for size.
#define RL_COLD __attribute__((cold))

// X(name) for every function that has vector forms.
#define RL_EACH_UNARY(X) \
  X(exp)                 \
  X(exp2)                \
  X(expm1)               \
  X(log)                 \
  X(log2)                \
  X(log10)               \
  X(log1p)               \
  X(sin)                 \
  X(cos)                 \
  X(tan)                 \
  X(asin)                \
  X(acos)                \
  X(atan)                \
  X(sinh)                \
  X(cosh)                \
  X(tanh)                \
  X(asinh)               \
  X(acosh)               \
  X(atanh)               \
  X(erf)                 \
  X(erfc)
#define RL_EACH_BINARY(X) X(pow) X(atan2) X(hypot)

extern "C" {
#define RL_DECLARE(name)                   \
  RL_VECTOR float name##f(float) noexcept; \
  RL_VECTOR double name(double) noexcept;
RL_EACH_UNARY(RL_DECLARE)
#undef RL_DECLARE
#define RL_DECLARE(name)                          \
  RL_VECTOR float name##f(float, float) noexcept; \
  RL_VECTOR double name(double, double) noexcept;
RL_EACH_BINARY(RL_DECLARE)
#undef RL_DECLARE
}

namespace rl::cpu {

// Versions of x86-64: 4 has AVX-512, 3 has AVX2, 1 is the baseline.
int level();
template <class F>
F for_level(F v4, F v3, F v1) {
  return level() == 4 ? v4 : level() == 3 ? v3 : v1;
}

}  // namespace rl::cpu
