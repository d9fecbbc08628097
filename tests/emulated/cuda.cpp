// A small libcuda, NVRTC and cuBLASLt for machines without a GPU. Device memory is the host's, a text is
// compiled by the host's C++ compiler, and a launch runs every thread of every block, those of a block
// taking turns at barriers. Errors can be asked for: EMULATED_CUDA_FAIL=launch:3 fails the third launch.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Address = unsigned long long;

// ---- errors on demand

std::map<std::string, int> counts;
int failure(const char* what, int error) {
  int now = ++counts[what];
  const char* wish = std::getenv("EMULATED_CUDA_FAIL");
  if (!wish) return 0;
  std::string text = wish;
  size_t colon = text.find(':');
  if (colon == std::string::npos || text.substr(0, colon) != what) return 0;
  return now == std::atoi(text.c_str() + colon + 1) ? error : 0;
}

std::map<Address, size_t> blocks;
size_t in_use = 0;
size_t capacity() {
  const char* wish = std::getenv("EMULATED_CUDA_MEMORY");
  return wish ? size_t(std::atoll(wish)) : size_t(1) << 32;
}

// ---- what a module is given to run its kernels with (see the shim below)

struct Dim3 {
  unsigned x, y, z;
};
struct Machine {
  Dim3 thread, block, block_size, grid_size;
  void (*barrier)();
  unsigned (*lane)(unsigned value, int mask);
};

struct Module {
  void* library;
  bool together;  // threads of a block wait for each other
};
struct Function {
  void (*run)(void**);
  void (*see)(void**, void (*)(const void*, unsigned long));
  Module* module;
  std::string name;
};

// ---- threads of a block take turns

constexpr size_t kStack = 128 << 10;
enum Wait { Ready, Block, Warp, Done };
struct Worker {
  ucontext_t context;
  char* stack = nullptr;
  Wait wait = Done;
};
std::vector<Worker> workers;
ucontext_t scheduler;
Machine* machine = nullptr;
Function* running = nullptr;
void** running_arguments = nullptr;
size_t current = 0;
unsigned lanes[1024];

void pause(Wait wait) {
  workers[current].wait = wait;
  swapcontext(&workers[current].context, &scheduler);
}
void work() {
  running->run(running_arguments);
  pause(Done);
}
void barrier() { pause(Block); }
// All lanes of a warp write, then all read.
unsigned lane(unsigned value, int mask) {
  lanes[current] = value;
  pause(Warp);
  unsigned other = lanes[current ^ size_t(mask)];
  pause(Warp);
  return other;
}

// Threads go on when all others of their group wait for the same.
bool release(size_t begin, size_t end, Wait wait) {
  for (size_t t = begin; t < end; t++)
    if (workers[t].wait != wait && workers[t].wait != Done) return false;
  bool any = false;
  for (size_t t = begin; t < end; t++)
    if (workers[t].wait == wait) workers[t].wait = Ready, any = true;
  return any;
}

void run_block_together(Function* f, void** arguments, unsigned threads) {
  if (workers.size() < threads) workers.resize(threads);
  running = f;
  running_arguments = arguments;
  for (size_t t = 0; t < threads; t++) {
    Worker& w = workers[t];
    if (!w.stack) w.stack = static_cast<char*>(std::malloc(kStack));
    getcontext(&w.context);
    w.context.uc_stack.ss_sp = w.stack;
    w.context.uc_stack.ss_size = kStack;
    w.context.uc_link = nullptr;
    makecontext(&w.context, work, 0);
    w.wait = Ready;
  }
  for (bool any = true; any;) {
    for (current = 0; current < threads; current++) {
      if (workers[current].wait != Ready) continue;
      machine->thread = {unsigned(current), 0, 0};
      swapcontext(&scheduler, &workers[current].context);
    }
    any = release(0, threads, Block);
    for (size_t warp = 0; warp < threads; warp += 32)
      any |= release(warp, std::min<size_t>(warp + 32, threads), Warp);
  }
  for (size_t t = 0; t < threads; t++)
    if (workers[t].wait != Done) {
      std::fprintf(stderr, "emulated device: threads of %s wait for each other for ever\n",
                   f->name.c_str());
      std::abort();
    }
}

// Addresses of the host's memory among the arguments of a kernel: a device could not follow them.
// Structs are not looked into.
const void* host_word = nullptr;
std::map<Address, size_t> pinned;
bool lies_in(const std::map<Address, size_t>& places, Address at) {
  auto next = places.upper_bound(at);
  return next != places.begin() && at <= (--next)->first + next->second;
}
void look(const void* argument, unsigned long size) {
  for (unsigned long i = 0; i + 8 <= size; i += 8) {
    Address word;
    std::memcpy(&word, static_cast<const char*>(argument) + i, 8);
    if (word < 0x10000 || word >> 47 || lies_in(blocks, word) || lies_in(pinned, word)) continue;
    if (msync(reinterpret_cast<void*>(word & ~Address(4095)), 1, MS_ASYNC) == 0)
      host_word = reinterpret_cast<void*>(word);
  }
}

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
static void emulated_words(void (*f)(A...), void** a, void (*see)(const void*, unsigned long),
                           EmulatedSequence<I...>) {
  (see(a[I], EmulatedPointer<A>::size), ...);
}
template <class... A>
static void emulated_see(void (*f)(A...), void** a, void (*see)(const void*, unsigned long)) {
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
               "(void** a, void (*see)(const void*, unsigned long)) { emulated_see(" + function +
               ", a, see); }\n";
  }
  return text + callers;
}

struct Program {
  std::string text, log, binary;
};

}  // namespace

// ---- the driver

EXPORT int cuInit(unsigned) { return failure("init", 999); }
EXPORT int cuDriverGetVersion(int* v) {
  *v = 13000;
  return 0;
}
EXPORT int cuGetErrorName(int error, const char** text) {
  *text = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  *text = error == 2 ? "out of memory" : error == 700 ? "an illegal memory access was encountered" : error == 719 ? "unspecified launch failure" : "unknown error";
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
EXPORT int cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}
EXPORT int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, size_t(length), "an emulated device");
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = capacity();
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 2 : attribute == 10 ? 32 : 1024;
  return 0;
}
EXPORT int cuDeviceGetUuid(char* uuid, int) {
  std::memset(uuid, 7, 16);
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &blocks;
  return failure("context", 999);
}
EXPORT int cuCtxSetCurrent(void*) { return 0; }
EXPORT int cuCtxSynchronize() { return failure("wait", 719); }
EXPORT int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = capacity();
  *free = capacity() - in_use;
  return 0;
}
EXPORT int cuMemAlloc_v2(Address* data, size_t bytes) {
  if (int error = failure("allocate", 2)) return error;
  if (in_use + bytes > capacity()) return 2;
  void* p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!p) return 2;
  std::memset(p, 0xee, bytes);
  *data = Address(p);
  blocks[*data] = bytes;
  in_use += bytes;
  return 0;
}
EXPORT int cuMemFree_v2(Address data) {
  in_use -= blocks[data];
  blocks.erase(data);
  std::free(reinterpret_cast<void*>(data));
  return 0;
}
EXPORT int cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  pinned[Address(*data)] = bytes;
  return 0;
}
EXPORT int cuMemFreeHost(void* data) {
  pinned.erase(Address(data));
  std::free(data);
  return 0;
}
EXPORT int cuMemHostGetDevicePointer_v2(Address* address, void* data, unsigned) {
  *address = Address(data);
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(Address out, const void* in, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(out), in, bytes);
  return failure("copy", 719);
}
EXPORT int cuMemcpyDtoHAsync_v2(void* out, Address in, size_t bytes, void*) {
  std::memcpy(out, reinterpret_cast<void*>(in), bytes);
  return failure("copy", 719);
}
EXPORT int cuMemcpyDtoDAsync_v2(Address out, Address in, size_t bytes, void*) {
  std::memmove(reinterpret_cast<void*>(out), reinterpret_cast<void*>(in), bytes);
  return 0;
}
EXPORT int cuMemsetD8Async(Address out, unsigned char value, size_t count, void*) {
  std::memset(reinterpret_cast<void*>(out), value, count);
  return 0;
}
EXPORT int cuStreamCreateWithPriority(void** stream, unsigned, int) {
  *stream = new int(0);
  return 0;
}
EXPORT int cuStreamDestroy_v2(void*) { return 0; }
EXPORT int cuStreamSynchronize(void*) { return failure("wait", 719); }
EXPORT int cuStreamQuery(void*) { return 0; }
EXPORT int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
EXPORT int cuEventCreate(void** event, unsigned) {
  *event = new int(0);
  return 0;
}
EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<int*>(event);
  return 0;
}
EXPORT int cuEventRecord(void*, void*) { return 0; }
EXPORT int cuEventSynchronize(void*) { return 0; }
EXPORT int cuEventQuery(void*) { return 0; }
EXPORT int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1;
  return 0;
}
// An image is a byte that says whether threads work together, 8 bytes of length, and a library.
EXPORT int cuModuleLoadData(void** module, const void* image) {
  const char* data = static_cast<const char*>(image);
  size_t size;
  std::memcpy(&size, data + 1, sizeof size);
  char path[] = "/tmp/emulated_kernel.XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || write(file, data + 9, size) != ssize_t(size)) return 999;
  close(file);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 999;
  }
  auto* m = static_cast<Machine*>(dlsym(library, "rl_machine"));
  m->barrier = barrier;
  m->lane = lane;
  *module = new Module{library, data[0] == 1};
  return 0;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* m = static_cast<Module*>(module);
  void* found = dlsym(m->library, (std::string("emulated_") + name).c_str());
  if (!found) return 500;
  void* see = dlsym(m->library, (std::string("emulated_see_") + name).c_str());
  *function = new Function{reinterpret_cast<void (*)(void**)>(found),
                           reinterpret_cast<decltype(Function::see)>(see), m, name};
  return 0;
}
EXPORT int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned, void*, void** arguments, void**) {
  if (int error = failure("launch", 719)) return error;
  auto* f = static_cast<Function*>(function);
  if (!gx || !gy || !bx || bx > 1024 || by != 1 || bz != 1 || gz != 1) return 1;
  machine = static_cast<Machine*>(dlsym(f->module->library, "rl_machine"));
  host_word = nullptr;
  f->see(arguments, look);
  if (host_word) {
    std::fprintf(stderr, "emulated device: %s was given an address of the host, %p\n",
                 f->name.c_str(), host_word);
    return 700;
  }
  machine->block_size = {bx, by, bz};
  machine->grid_size = {gx, gy, gz};
  for (unsigned y = 0; y < gy; y++)
    for (unsigned x = 0; x < gx; x++) {
      machine->block = {x, y, 0};
      if (f->module->together) {
        run_block_together(f, arguments, bx);
        continue;
      }
      for (unsigned t = 0; t < bx; t++) {
        machine->thread = {t, 0, 0};
        f->run(arguments);
      }
    }
  return 0;
}

// ---- the compiler

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
  static int number = 0;
  char folder[] = "/tmp/emulated_cuda.XXXXXX";
  if (!mkdtemp(folder)) return 11;
  std::string base = folder, source = base + "/k.cpp", library = base + "/k.so";
  // The texts are kept where a test compiles them with the real compiler.
  if (const char* kept = std::getenv("EMULATED_CUDA_TEXTS")) {
    std::string name = std::string(kept) + "/" + std::to_string(getpid()) + "_" + std::to_string(number++) + ".cu";
    std::ofstream(name) << p->text;
  }
  std::ofstream(source) << kShim << with_callers(p->text);
  std::string command = "g++ -std=c++17 -O1 -w -fPIC -shared -fwrapv -ffp-contract=off -fno-exceptions -o " +
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

// ---- cuBLASLt: column-major products, in double

namespace {

struct LtDesc {
  int turn_a = 0, turn_b = 0, epilogue = 1;
  const void* bias = nullptr;
};
struct LtLayout {
  int type;
  uint64_t rows, cols;
  int64_t ld, offset = 0;
  int batch = 1;
};

float half_value(unsigned short h) {
  unsigned e = (h >> 10) & 31, m = h & 1023;
  float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(float(m + 1024), int(e) - 25) : std::ldexp(float(m), -24);
  return h & 0x8000 ? -f : f;
}
unsigned short half_bits(float value) {
  unsigned u;
  std::memcpy(&u, &value, 4);
  unsigned sign = (u >> 16) & 0x8000, m = u & 0x7fffffff;
  if (m > 0x7f800000) return (unsigned short)(sign | 0x7fff);
  if (m >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
  if (m < 0x38800000) {
    float scaled;
    std::memcpy(&scaled, &m, 4);
    scaled += 0.5f;
    std::memcpy(&m, &scaled, 4);
    return (unsigned short)(sign | (m - 0x3f000000));
  }
  return (unsigned short)(sign | ((m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13));
}
double load(int type, const void* data, int64_t at) {
  switch (type) {
    case 0: return static_cast<const float*>(data)[at];
    case 1: return static_cast<const double*>(data)[at];
    case 2: return half_value(static_cast<const unsigned short*>(data)[at]);
    default: {
      unsigned u = unsigned(static_cast<const unsigned short*>(data)[at]) << 16;
      float f;
      std::memcpy(&f, &u, 4);
      return f;
    }
  }
}
void store(int type, void* data, int64_t at, double value) {
  float f = float(value);
  unsigned u;
  std::memcpy(&u, &f, 4);
  switch (type) {
    case 0: static_cast<float*>(data)[at] = f; break;
    case 1: static_cast<double*>(data)[at] = value; break;
    case 2: static_cast<unsigned short*>(data)[at] = half_bits(f); break;
    default:
      static_cast<unsigned short*>(data)[at] =
          f != f ? 0x7fc0 : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
}

}  // namespace

EXPORT int cublasLtCreate(void** handle) {
  *handle = &blocks;
  return std::getenv("EMULATED_CUDA_NO_BLAS") ? 1 : 0;
}
EXPORT int cublasLtMatmulDescCreate(void** desc, int, int) {
  *desc = new LtDesc;
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t size) {
  auto* d = static_cast<LtDesc*>(desc);
  if (attribute == 3) std::memcpy(&d->turn_a, value, size);
  else if (attribute == 4) std::memcpy(&d->turn_b, value, size);
  else if (attribute == 7) std::memcpy(&d->epilogue, value, size);
  else if (attribute == 8) std::memcpy(&d->bias, value, size);
  else return 7;
  return 0;
}
EXPORT int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new LtLayout{type, rows, cols, ld};
  return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t size) {
  auto* l = static_cast<LtLayout*>(layout);
  if (attribute == 5) std::memcpy(&l->batch, value, size);
  else if (attribute == 6) std::memcpy(&l->offset, value, size);
  else return 7;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = &blocks;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void* c, void*, void*, int,
                                          void* found, int* count) {
  std::memset(found, 0, 96);
  auto *d = static_cast<LtDesc*>(desc);
  auto *x = static_cast<LtLayout*>(a), *y = static_cast<LtLayout*>(b), *z = static_cast<LtLayout*>(c);
  uint64_t m = d->turn_a ? x->cols : x->rows, k = d->turn_a ? x->rows : x->cols;
  uint64_t n = d->turn_b ? y->rows : y->cols, l = d->turn_b ? y->cols : y->rows;
  bool fits = k == l && z->rows == m && z->cols == n && x->ld >= int64_t(x->rows) &&
              y->ld >= int64_t(y->rows) && z->ld >= int64_t(z->rows);
  if (!fits) {
    std::fprintf(stderr, "emulated cuBLASLt: layouts that do not fit\n");
    std::abort();
  }
  *count = x->type == 4 || x->type == 5 ? 0 : 1;
  return 0;
}
EXPORT int cublasLtMatmul(void*, void* desc, const void* alpha, const void* a, void* la, const void* b,
                          void* lb, const void* beta, const void* c, void* lc, void* out, void*,
                          const void*, void*, size_t, void*) {
  auto* d = static_cast<LtDesc*>(desc);
  auto *x = static_cast<LtLayout*>(la), *y = static_cast<LtLayout*>(lb), *z = static_cast<LtLayout*>(lc);
  double scale = x->type == 1 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  double keep = x->type == 1 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  int64_t m = int64_t(z->rows), n = int64_t(z->cols), k = int64_t(d->turn_a ? x->rows : x->cols);
  for (int64_t batch = 0; batch < z->batch; batch++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
          sum += load(x->type, a, batch * x->offset + (d->turn_a ? l + i * x->ld : i + l * x->ld)) *
                 load(y->type, b, batch * y->offset + (d->turn_b ? j + l * y->ld : l + j * y->ld));
        int64_t at = batch * z->offset + i + j * z->ld;
        double value = scale * sum + (keep != 0 ? keep * load(z->type, c, at) : 0);
        if (d->epilogue == 4) value += load(z->type, d->bias, i);
        store(z->type, out, at, value);
      }
  return failure("product", 13);
}
