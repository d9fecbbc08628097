// The compiler of the emulated device: the host's, with what a device compiler has besides.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "shared.h"

namespace {

// What a kernel's text needs that a device compiler has.
const char* const kShim = R"shim(
#define RL_EMULATED 1
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __restrict__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define __ldg(p) (*(p))
struct Dim3 { unsigned x, y, z; };
struct Machine {
  Dim3 thread, block, block_size, grid_size;
  void (*barrier)();
  unsigned (*lane)(unsigned value, int mask);
};
extern "C" { Machine rl_machine; }
#define threadIdx rl_machine.thread
#define blockIdx rl_machine.block
#define blockDim rl_machine.block_size
#define gridDim rl_machine.grid_size
static inline void __syncthreads() { rl_machine.barrier(); }
static inline void __syncwarp() {}
static inline void __threadfence_system() {}
static inline void __threadfence() {}
static inline unsigned __shfl_xor_sync(unsigned, unsigned v, int m) { return rl_machine.lane(v, m); }
template <class T> static inline T atomicAdd(T* p, T v) { T o = *p; *p = T(o + v); return o; }
template <class T> static inline T atomicMax(T* p, T v) { T o = *p; if (v > o) *p = v; return o; }
template <class T> static inline T atomicMin(T* p, T v) { T o = *p; if (v < o) *p = v; return o; }
template <class T> static inline T atomicExch(T* p, T v) { T o = *p; *p = v; return o; }
template <class T> static inline T atomicCAS(T* p, T a, T b) { T o = *p; if (o == a) *p = b; return o; }
template <class A, class B> static inline A emulated_bits(B b) { A a; __builtin_memcpy(&a, &b, sizeof a); return a; }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)(a) * b >> 64);
}
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { volatile double c = a * b; return c; }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
#define EMULATED_MATH(name) \
  static inline float name(float x) { return __builtin_##name##f(x); } \
  static inline double name(double x) { return __builtin_##name(x); }
EMULATED_MATH(exp) EMULATED_MATH(log) EMULATED_MATH(log10) EMULATED_MATH(sqrt) EMULATED_MATH(sin)
EMULATED_MATH(cos) EMULATED_MATH(tan) EMULATED_MATH(asin) EMULATED_MATH(acos) EMULATED_MATH(atan)
EMULATED_MATH(sinh) EMULATED_MATH(cosh) EMULATED_MATH(tanh) EMULATED_MATH(asinh) EMULATED_MATH(acosh)
EMULATED_MATH(atanh) EMULATED_MATH(exp2) EMULATED_MATH(expm1) EMULATED_MATH(log2) EMULATED_MATH(log1p)
EMULATED_MATH(erf) EMULATED_MATH(erfc) EMULATED_MATH(floor) EMULATED_MATH(ceil) EMULATED_MATH(trunc)
EMULATED_MATH(j0) EMULATED_MATH(j1) EMULATED_MATH(y0) EMULATED_MATH(y1)
EMULATED_MATH(rint) EMULATED_MATH(lgamma) EMULATED_MATH(tgamma) EMULATED_MATH(fabs)
#define EMULATED_MATH2(name) \
  static inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  static inline double name(double x, double y) { return __builtin_##name(x, y); }
EMULATED_MATH2(pow) EMULATED_MATH2(atan2) EMULATED_MATH2(fmod) EMULATED_MATH2(copysign)
EMULATED_MATH2(hypot) EMULATED_MATH2(nextafter) EMULATED_MATH2(fmax) EMULATED_MATH2(fmin)
static inline float erfinv_start(float) { return 0; }
static inline double erfinv(double x) {
  if (!(fabs(x) <= 1)) return NAN;
  if (x == 0) return x;
  if (fabs(x) == 1) return copysign(double(INFINITY), x);
  double low = 0, high = 30, a = fabs(x);
  for (int i = 0; i < 200; i++) {
    double middle = (low + high) / 2;
    bool below = a < 0.5 ? erf(middle) < a : erfc(middle) > 1 - a;
    (below ? low : high) = middle;
  }
  return copysign((low + high) / 2, x);
}
static inline float erfinv(float x) { return float(erfinv(double(x))); }
static inline double modf(double x, double* w) { return __builtin_modf(x, w); }
static inline double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
static inline double frexp(double x, int* e) { return __builtin_frexp(x, e); }
template <class T> static inline bool isnan(T x) { return x != x; }
template <class T> static inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> static inline bool isfinite(T x) { return __builtin_isfinite(x); }
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline double jn(int n, double x) { return __builtin_jn(n, x); }
static inline double yn(int n, double x) { return __builtin_yn(n, x); }
static inline float emulated_float(unsigned short h) {
  unsigned sign = unsigned(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  if (e == 31) return __uint_as_float(sign | 0x7f800000 | m << 13);
  if (e == 0) { float f = float(m) * 5.9604644775390625e-08f; return sign ? -f : f; }
  return __uint_as_float(sign | (e + 112) << 23 | m << 13);
}
static inline unsigned short emulated_half(float value) {
  unsigned u = __float_as_uint(value), sign = (u >> 16) & 0x8000, m = u & 0x7fffffff;
  if (m > 0x7f800000) return (unsigned short)(sign | 0x7fff);
  if (m >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
  if (m < 0x38800000) {
    float scaled = __uint_as_float(m) + 0.5f;
    return (unsigned short)(sign | (__float_as_uint(scaled) - 0x3f000000));
  }
  return (unsigned short)(sign | ((m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13));
}
)shim";

// Every __global__ function gets a way to be called with an array of pointers to its arguments.
std::string with_callers(const std::string& text) {
  std::string callers = R"(
typedef decltype(sizeof 0) EmulatedCount;
template <EmulatedCount... I> struct EmulatedSequence {};
template <EmulatedCount N, EmulatedCount... I> struct EmulatedCounted : EmulatedCounted<N - 1, N - 1, I...> {};
template <EmulatedCount... I> struct EmulatedCounted<0, I...> { typedef EmulatedSequence<I...> type; };
template <class A> struct EmulatedPointer { static const unsigned long size = 0; };
template <class A> struct EmulatedPointer<A*> { static const unsigned long size = 8; };
template <class... A, EmulatedCount... I>
static void emulated_words(void (*f)(A...), void** a, void (*see)(const void*, unsigned long, unsigned long),
                           EmulatedSequence<I...>) {
  (see(a[I], sizeof(A), EmulatedPointer<A>::size), ...);
}
template <class... A>
static void emulated_see(void (*f)(A...), void** a, void (*see)(const void*, unsigned long, unsigned long)) {
  emulated_words(f, a, see, typename EmulatedCounted<sizeof...(A)>::type());
}
template <class... A, EmulatedCount... I>
static void emulated_call(void (*f)(A...), void** a, EmulatedSequence<I...>) { f(*(A*)(a[I])...); }
template <class... A> static void emulated_run(void (*f)(A...), void** a) {
  emulated_call(f, a, typename EmulatedCounted<sizeof...(A)>::type());
}
)";
  const std::string mark = "__global__ void ";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    size_t name = at + mark.size();
    std::string function = text.substr(name, text.find('(', name) - name);
    callers += "extern \"C\" void emulated_" + function + "(void** a) { emulated_run(" + function +
               ", a); }\nextern \"C\" void emulated_see_" + function +
               "(void** a, void (*see)(const void*, unsigned long, unsigned long)) { emulated_see(" + function +
               ", a, see); }\n";
  }
  return text + callers;
}

struct Program {
  std::string text, log, binary;
};

}  // namespace

EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
EXPORT int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                              const char* const*) {
  *program = new Program{text, "", ""};
  return 0;
}
EXPORT int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return 0;
}
EXPORT int nvrtcCompileProgram(void* program, int, const char* const*) {
  auto* p = static_cast<Program*>(program);
  if (const char* kept = std::getenv("EMULATED_CUDA_TEXTS")) {
    size_t name = std::hash<std::string>()(p->text);
    std::ofstream(std::string(kept) + "/" + std::to_string(name) + ".cu") << p->text;
  }
  if (is_dry()) {
    p->binary = "dry";
    return 0;
  }
  char folder[] = "/tmp/emulated_cuda.XXXXXX";
  if (!mkdtemp(folder)) return 11;
  std::string base = folder, source = base + "/k.cpp", library = base + "/k.so";
  std::ofstream(source) << kShim << with_callers(p->text);
  std::string command = "g++ -std=c++17 -O1 -w -fPIC -shared -Wl,-Bsymbolic -fwrapv -ffp-contract=off -fno-exceptions -o " +
                        library + " " + source + " > " + base + "/log 2>&1";
  int failed = std::system(command.c_str());
  auto slurp = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  p->log = slurp(base + "/log");
  if (!failed) {
    std::string code = slurp(library);
    // What the prelude defines and nothing uses does not count.
    std::string own = p->text;
    size_t prelude = own.find("// ---- end of the prelude");
    if (prelude != std::string::npos) own = own.substr(prelude);
    bool together = own.find("__syncthreads") != std::string::npos ||
                    own.find("block_all") != std::string::npos ||
                    own.find("warp_all") != std::string::npos;
    size_t size = code.size();
    p->binary = std::string(1, together ? 1 : 0) + std::string(reinterpret_cast<char*>(&size), 8) + code;
  } else {
    p->log += "\n" + p->text.substr(p->text.size() > 4000 ? p->text.size() - 4000 : 0);
  }
  if (!std::getenv("EMULATED_CUDA_KEEP")) std::system(("rm -rf " + base).c_str());
  return failed ? 6 : 0;
}
EXPORT int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = static_cast<Program*>(program)->binary.size();
  return 0;
}
EXPORT int nvrtcGetCUBIN(void* program, char* data) {
  auto* p = static_cast<Program*>(program);
  std::memcpy(data, p->binary.data(), p->binary.size());
  return 0;
}
EXPORT int nvrtcGetProgramLogSize(void* program, size_t* size) {
  *size = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}
EXPORT int nvrtcGetProgramLog(void* program, char* data) {
  auto* p = static_cast<Program*>(program);
  std::memcpy(data, p->log.c_str(), p->log.size() + 1);
  return 0;
}
