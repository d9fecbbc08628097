// Vector forms of the elementary functions, under the names that compilers call: _ZGV, the
// instruction set's letter, N and the number of lanes, v for each argument, the function's name.
// Each passes its call on to glibc's libmvec. There it is looked up when the extension is loaded:
// which forms exist depends on the system. Without one, every lane calls the plain function.
#define RL_PLAIN_FUNCTIONS  // or those calls would become calls of these forms
#include "kernels/cpu/simd.h"
#include "system/symbol_versions.h"

#if RL_LEVELS
#include <dlfcn.h>

#include <cstddef>
#include <utility>

namespace {

typedef float float4 __attribute__((vector_size(16)));
typedef float float8 __attribute__((vector_size(32)));
typedef float float16 __attribute__((vector_size(64)));
typedef double double2 __attribute__((vector_size(16)));
typedef double double4 __attribute__((vector_size(32)));
typedef double double8 __attribute__((vector_size(64)));

#define RL_V1
#define RL_LANES(target, V, T)                                               \
  target __attribute__((noinline)) V by_lanes(T (*f)(T), V x) {              \
    for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) x[i] = f(x[i]);       \
    return x;                                                                \
  }                                                                          \
  target __attribute__((noinline)) V by_lanes(T (*f)(T, T), V x, V y) {      \
    for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) x[i] = f(x[i], y[i]); \
    return x;                                                                \
  }
RL_LANES(RL_V1, float4, float)
RL_LANES(RL_V3, float8, float)
RL_LANES(RL_V4, float16, float)
RL_LANES(RL_V1, double2, double)
RL_LANES(RL_V3, double4, double)
RL_LANES(RL_V4, double8, double)
#undef RL_LANES

}  // namespace

#define RL_UNARY(target, V, symbol, function)                                      \
  static V (*in_libmvec_##symbol)(V);                                              \
  extern "C" __attribute__((visibility("hidden"))) target V symbol(V x) {          \
    return in_libmvec_##symbol ? in_libmvec_##symbol(x) : by_lanes(::function, x); \
  }
#define RL_BINARY(target, V, symbol, function)                                           \
  static V (*in_libmvec_##symbol)(V, V);                                                 \
  extern "C" __attribute__((visibility("hidden"))) target V symbol(V x, V y) {           \
    return in_libmvec_##symbol ? in_libmvec_##symbol(x, y) : by_lanes(::function, x, y); \
  }
#define RL_UNARY_FORMS(name)                             \
  RL_UNARY(RL_V1, float4, _ZGVbN4v_##name##f, name##f)   \
  RL_UNARY(RL_V1, double2, _ZGVbN2v_##name, name)        \
  RL_UNARY(RL_V3, float8, _ZGVdN8v_##name##f, name##f)   \
  RL_UNARY(RL_V3, double4, _ZGVdN4v_##name, name)        \
  RL_UNARY(RL_V4, float16, _ZGVeN16v_##name##f, name##f) \
  RL_UNARY(RL_V4, double8, _ZGVeN8v_##name, name)
#define RL_BINARY_FORMS(name)                              \
  RL_BINARY(RL_V1, float4, _ZGVbN4vv_##name##f, name##f)   \
  RL_BINARY(RL_V1, double2, _ZGVbN2vv_##name, name)        \
  RL_BINARY(RL_V3, float8, _ZGVdN8vv_##name##f, name##f)   \
  RL_BINARY(RL_V3, double4, _ZGVdN4vv_##name, name)        \
  RL_BINARY(RL_V4, float16, _ZGVeN16vv_##name##f, name##f) \
  RL_BINARY(RL_V4, double8, _ZGVeN8vv_##name, name)
RL_EACH_UNARY(RL_UNARY_FORMS)
RL_EACH_BINARY(RL_BINARY_FORMS)

// With -fveclib=MASSV, Clang vectorises calls of all these functions but erf, erfc and hypot, under
// names of its own and in vectors of 16 bytes.
#ifdef __clang__
#define RL_UNARY_NAMES(name)                                                         \
  extern "C" __attribute__((visibility("hidden"))) float4 __##name##f4(float4 x) {   \
    return _ZGVbN4v_##name##f(x);                                                    \
  }                                                                                  \
  extern "C" __attribute__((visibility("hidden"))) double2 __##name##d2(double2 x) { \
    return _ZGVbN2v_##name(x);                                                       \
  }
#define RL_BINARY_NAMES(name)                                                                   \
  extern "C" __attribute__((visibility("hidden"))) float4 __##name##f4(float4 x, float4 y) {    \
    return _ZGVbN4vv_##name##f(x, y);                                                           \
  }                                                                                             \
  extern "C" __attribute__((visibility("hidden"))) double2 __##name##d2(double2 x, double2 y) { \
    return _ZGVbN2vv_##name(x, y);                                                              \
  }
RL_EACH_UNARY(RL_UNARY_NAMES)
RL_EACH_BINARY(RL_BINARY_NAMES)
#endif

namespace {

struct Form {
  const char* symbol;
  void* place;
};
#define RL_FORM(symbol) {#symbol, &in_libmvec_##symbol},
#define RL_UNARY_B(name) RL_FORM(_ZGVbN4v_##name##f) RL_FORM(_ZGVbN2v_##name)
#define RL_UNARY_D(name) RL_FORM(_ZGVdN8v_##name##f) RL_FORM(_ZGVdN4v_##name)
#define RL_UNARY_E(name) RL_FORM(_ZGVeN16v_##name##f) RL_FORM(_ZGVeN8v_##name)
#define RL_BINARY_B(name) RL_FORM(_ZGVbN4vv_##name##f) RL_FORM(_ZGVbN2vv_##name)
#define RL_BINARY_D(name) RL_FORM(_ZGVdN8vv_##name##f) RL_FORM(_ZGVdN4vv_##name)
#define RL_BINARY_E(name) RL_FORM(_ZGVeN16vv_##name##f) RL_FORM(_ZGVeN8vv_##name)
const Form kForms1[] = {RL_EACH_UNARY(RL_UNARY_B) RL_EACH_BINARY(RL_BINARY_B)};
const Form kForms3[] = {RL_EACH_UNARY(RL_UNARY_D) RL_EACH_BINARY(RL_BINARY_D)};
const Form kForms4[] = {RL_EACH_UNARY(RL_UNARY_E) RL_EACH_BINARY(RL_BINARY_E)};

// Loops of AVX-512 end with shorter vectors.
[[maybe_unused]] const bool looked_up = [] {
  void* library = dlopen("libmvec.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return false;
  auto look_up = [&](const auto& forms) {
    for (const Form& form : forms) *static_cast<void**>(form.place) = dlsym(library, form.symbol);
  };
  look_up(kForms1);
  if (rl::cpu::level() >= 3) look_up(kForms3);
  if (rl::cpu::level() >= 4) look_up(kForms4);
  return true;
}();

}  // namespace
#endif

namespace rl::cpu {

int level() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const int found = [] {
    auto has = [](auto... features) { return (features && ...); };
    __builtin_cpu_init();
    if (!has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"),
             __builtin_cpu_supports("bmi2")))
      return 1;
    return has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
               __builtin_cpu_supports("avx512cd"), __builtin_cpu_supports("avx512dq"),
               __builtin_cpu_supports("avx512vl"))
               ? 4
               : 3;
  }();
  return found;
#else
  return 1;
#endif
}

}  // namespace rl::cpu
