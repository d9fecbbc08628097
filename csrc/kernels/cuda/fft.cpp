// Fourier transforms by cuFFT, opened by name; by the host when there is none.
#include <dlfcn.h>

#include <cstring>
#include <unordered_map>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/host.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

using Plan = int;
enum Type { kRealToComplex = 0x2a, kComplexToReal = 0x2c, kComplex = 0x29, kDouble = 0x40 };

#define RL_CUFFT(X)                                                                             \
  X(create, "cufftCreate", (Plan * plan))                                                       \
  X(destroy, "cufftDestroy", (Plan plan))                                                       \
  X(set_stream, "cufftSetStream", (Plan plan, Stream stream))                                   \
  X(make, "cufftMakePlanMany64",                                                                \
    (Plan plan, int rank, long long* n, long long* in_embed, long long in_stride,               \
     long long in_distance, long long* out_embed, long long out_stride, long long out_distance, \
     int type, long long batch, size_t* bytes))                                                 \
  X(c2c, "cufftExecC2C", (Plan plan, const void* in, void* out, int direction))                 \
  X(z2z, "cufftExecZ2Z", (Plan plan, const void* in, void* out, int direction))                 \
  X(r2c, "cufftExecR2C", (Plan plan, const void* in, void* out))                                \
  X(d2z, "cufftExecD2Z", (Plan plan, const void* in, void* out))                                \
  X(c2r, "cufftExecC2R", (Plan plan, void* in, void* out))                                      \
  X(z2d, "cufftExecZ2D", (Plan plan, void* in, void* out))

struct Cufft {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_CUFFT(X)
#undef X
} fft;

bool open_cufft() {
  static const bool there = [] {
    static const char* const names[] = {"libcufft.so.12", "libcufft.so.11", nullptr};
    std::string missing;
    void* library = open_library(library_folders(), names, missing);
    if (!library) return false;
#define X(name, symbol, parameters)                                        \
  fft.name = reinterpret_cast<decltype(fft.name)>(dlsym(library, symbol)); \
  if (!fft.name) return false;
    RL_CUFFT(X)
#undef X
    return true;
  }();
  return there;
}

void done(int status, const char* what) {
  if (status != 0) fail("cuFFT: ", what, " failed (status ", status, ")");
}

struct Key {
  int64_t n, batch, stride, distance;
  int64_t type;
  bool operator==(const Key&) const = default;
};
struct Hash {
  size_t operator()(const Key& k) const {
    uint64_t h = uint64_t(k.n);
    for (int64_t part : {k.batch, k.stride, k.distance, k.type})
      h = (h ^ uint64_t(part)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return size_t(h);
  }
};
constexpr size_t kPlans = 128;  // kept: each has memory of the device

// Lines of n numbers `stride` apart, begun `distance` apart; of real ones half as many come or go.
Plan plan_of(int64_t n, int64_t batch, int64_t stride, int64_t distance, int type) {
  static auto* all = new PerDevice<std::unordered_map<Key, Plan, Hash>>;
  enter();
  auto& plans = all->here();
  Key key{n, batch, stride, distance, type};
  auto found = plans.find(key);
  if (found == plans.end()) {
    if (plans.size() >= kPlans) {
      wait_for_device();
      for (auto& [old, plan] : plans) fft.destroy(plan);
      plans.clear();
    }
    Plan made;
    done(fft.create(&made), "making a plan");
    long long size = n, whole = n, half = n / 2 + 1;
    int kind = type & ~kDouble;
    long long in = kind == kComplexToReal ? half : whole,
              out = kind == kRealToComplex ? half : whole;
    long long apart_in = distance, apart_out = distance;
    if (kind != kComplex) apart_in = in, apart_out = out;
    size_t bytes = 0;
    int status = fft.make(made, 1, &size, &in, stride, apart_in, &out, stride, apart_out, type,
                          batch, &bytes);
    if (status != 0) {
      fft.destroy(made);
      done(status, "planning a transform");
    }
    found = plans.emplace(key, made).first;
  }
  done(fft.set_stream(found->second, stream), "choosing a stream");
  return found->second;
}

constexpr char kText[] = R"(
extern "C" __global__ void times(T* x, int64 n, double scale) {
  RL_EACH(i, n) x[i] = T(x[i] * T(scale));
}
// The first number of a line, and the middle one of an even line, have no imaginary part.
extern "C" __global__ void tidy(T* x, int64 rows, int64 half, int even) {
  RL_EACH(i, rows) {
    x[2 * i * half + 1] = T(0);
    if (even) x[2 * (i * half + half - 1) + 1] = T(0);
  }
}
)";

void multiply(DType real, void* x, int64_t n, double scale) {
  static Kernel kernel(kText, "times");
  if (scale != 1) launch(kernel.of(real), grid_for(n, 256), 256, x, n, scale);
}

}  // namespace

void fft_complex(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
                 bool inverse, double scale) {
  int64_t total = outer * n * inner, size = itemsize(d);
  if (total == 0) return;
  if (!open_cufft()) {
    In in(x, total * size);
    Out out(y, total * size);
    return cpu::fft_complex(d, in.get(), out.get(), outer, n, inner, inverse, scale);
  }
  bool wide = d == DType::C128;
  auto run = [&](Plan plan, const void* from, void* to) {
    done((wide ? fft.z2z : fft.c2c)(plan, from, to, inverse ? 1 : -1), "a transform");
  };
  int type = kComplex | (wide ? kDouble : 0);
  if (inner == 1) {
    run(plan_of(n, outer, 1, n, type), x, y);
  } else if (outer == 1) {
    run(plan_of(n, inner, inner, 1, type), x, y);
  } else {
    Scratch lines(total * size);
    int64_t sizes[] = {outer, inner, n}, dense[] = {n * inner * size, n * size, size},
            given[] = {n * inner * size, size, inner * size};
    copy_strided(d, lines.get<void>(), dense, d, x, given, sizes, 3);
    run(plan_of(n, outer * inner, 1, n, type), lines.get<void>(), lines.get<void>());
    copy_strided(d, y, given, d, lines.get<void>(), dense, sizes, 3);
  }
  multiply(real_of(d), y, 2 * total, scale);
}

void fft_real(DType d, const void* x, void* y, int64_t rows, int64_t n, double scale) {
  int64_t half = n / 2 + 1, size = itemsize(d);
  if (rows * n == 0) return;
  if (!open_cufft()) {
    In in(x, rows * n * size);
    Out out(y, rows * half * 2 * size);
    return cpu::fft_real(d, in.get(), out.get(), rows, n, scale);
  }
  bool wide = d == DType::F64;
  Plan plan = plan_of(n, rows, 1, n, kRealToComplex | (wide ? kDouble : 0));
  done((wide ? fft.d2z : fft.r2c)(plan, x, y), "a transform");
  multiply(d, y, 2 * rows * half, scale);
}

void fft_to_real(DType d, const void* x, void* y, int64_t rows, int64_t n, double scale) {
  int64_t half = n / 2 + 1, size = itemsize(d);
  if (rows * n == 0) return;
  if (!open_cufft()) {
    In in(x, rows * half * 2 * size);
    Out out(y, rows * n * size);
    return cpu::fft_to_real(d, in.get(), out.get(), rows, n, scale);
  }
  // The library uses its input's place.
  Scratch lines(rows * half * 2 * size);
  copy_bytes(lines.get<void>(), x, size_t(rows * half * 2 * size));
  static Kernel tidy(kText, "tidy");
  launch(tidy.of(d), grid_for(rows, 256), 256, lines.get<void>(), rows, half, int(n % 2 == 0));
  bool wide = d == DType::F64;
  Plan plan = plan_of(n, rows, 1, n, kComplexToReal | (wide ? kDouble : 0));
  done((wide ? fft.z2d : fft.c2r)(plan, lines.get<void>(), y), "a transform");
  multiply(d, y, rows * n, scale);
}

}  // namespace rl::cuda
