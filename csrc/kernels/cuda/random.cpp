// Random numbers: the CPU's counter (Philox4x32-10) and the same share of it for every element, so
// that a seed gives the CPU's numbers.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Stream {
  uint64 seed, offset;
  int64 n;
};
// The four words of a counter.
__device__ inline void draw(const Stream& s, int64 counter, uint32* c) {
  uint64 at = s.offset + uint64(counter);
  c[0] = uint32(at);
  c[1] = uint32(at >> 32);
  c[2] = c[3] = 0;
  uint32 k0 = uint32(s.seed), k1 = uint32(s.seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint32 h0 = __umulhi(c[0], 0xD2511F53u), l0 = c[0] * 0xD2511F53u;
    uint32 h1 = __umulhi(c[2], 0xCD9E8D57u), l1 = c[2] * 0xCD9E8D57u;
    uint32 n0 = h1 ^ c[1] ^ k0, n2 = h0 ^ c[3] ^ k1;
    c[0] = n0;
    c[1] = l1;
    c[2] = n2;
    c[3] = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
// Groups of 16 counters: word w of counter l is element w * 16 + l of the group.
template <class F> __device__ void words(const Stream& s, F f) {
  RL_EACH(counter, (s.n + 63) / 64 * 16) {
    uint32 c[4];
    draw(s, counter, c);
    f(counter / 16 * 64 + counter % 16, c);
  }
}
// The same with 64-bit draws, two of a counter.
template <class F> __device__ void draws(const Stream& s, F f) {
  RL_EACH(counter, (s.n + 31) / 32 * 16) {
    uint32 c[4];
    draw(s, counter, c);
    uint64 pair[2] = {uint64(c[0]) << 32 | c[1], uint64(c[2]) << 32 | c[3]};
    f(counter / 16 * 32 + counter % 16, pair);
  }
}
template <class V> __device__ void put(T* out, int64 at, int64 n, V value) {
  if (at < n) out[at] = cast<T>(value);
}

extern "C" __global__ void uniform32(T* out, Stream s, int bits, float from, float width,
                                     float last) {
  float unit = 1.0f / float(uint32(1) << bits);
  words(s, [&](int64 at, const uint32* c) {
    for (int w = 0; w < 4; w++) {
      float x = from + width * (float(int(c[w] >> (32 - bits))) * unit);
      put(out, at + 16 * w, s.n, x < last ? x : last);
    }
  });
}
extern "C" __global__ void uniform64(T* out, Stream s, double from, double width, double last) {
  draws(s, [&](int64 at, const uint64* d) {
    for (int w = 0; w < 2; w++) {
      double x = from + width * (double(int64(d[w] >> 11)) * (1.0 / 9007199254740992.0));
      put(out, at + 16 * w, s.n, x < last ? x : last);
    }
  });
}
extern "C" __global__ void normal32(T* out, Stream s, float mean, float std) {
  words(s, [&](int64 at, const uint32* c) {
    for (int w = 0; w < 4; w += 2) {
      float u = float(int(c[w] >> 8) + 1) * (1.0f / 16777216.0f);
      float radius = std * sqrt(-2.0f * log(u));
      uint32 angle = c[w + 1], quadrant = (angle + (1u << 29)) >> 30;
      float x = float(int(angle - (quadrant << 30))) * float(M_PI / 2147483648.0), y = x * x;
      float sine = x * (1 + y * (-1.f / 6 + y * (1.f / 120 + y * (-1.f / 5040 + y / 362880))));
      float cosine =
          1 + y * (-.5f + y * (1.f / 24 + y * (-1.f / 720 + y * (1.f / 40320 - y / 3628800))));
      float a = quadrant & 1 ? sine : cosine, b = quadrant & 1 ? cosine : sine;
      put(out, at + 16 * w, s.n, mean + ((quadrant + 1) & 2 ? -radius : radius) * a);
      put(out, at + 16 * w + 16, s.n, mean + (quadrant & 2 ? -radius : radius) * b);
    }
  });
}
extern "C" __global__ void normal64(T* out, Stream s, double mean, double std) {
  draws(s, [&](int64 at, const uint64* d) {
    double u = double(int64(d[0] >> 11) + 1) * (1.0 / 9007199254740992.0);
    double angle = double(int64(d[1]) >> 11) * (M_PI / 4503599627370496.0);
    double radius = std * sqrt(-2.0 * log(u));
    put(out, at, s.n, mean + radius * cos(angle));
    put(out, at + 16, s.n, mean + radius * cos(angle - M_PI / 2));
  });
}
extern "C" __global__ void exponential32(T* out, Stream s, float scale) {
  words(s, [&](int64 at, const uint32* c) {
    for (int w = 0; w < 4; w++)
      put(out, at + 16 * w, s.n,
          -scale * log((float(int(c[w] >> 9)) + 0.5f) * (1.0f / 8388608.0f)));
  });
}
extern "C" __global__ void exponential64(T* out, Stream s, double scale) {
  draws(s, [&](int64 at, const uint64* d) {
    for (int w = 0; w < 2; w++)
      put(out, at + 16 * w, s.n,
          -scale * log((double(int64(d[w] >> 12)) + 0.5) * (1.0 / 4503599627370496.0)));
  });
}
extern "C" __global__ void integers(T* out, Stream s, uint64 low, uint64 range) {
  draws(s, [&](int64 at, const uint64* d) {
    for (int w = 0; w < 2; w++) {
      uint64 x = d[w];
      if (range) x = __umul64hi(x, range);
      put(out, at + 16 * w, s.n, int64(low + x));
    }
  });
}
extern "C" __global__ void bernoulli(T* out, Stream s, uint32 limit, int always) {
  words(s, [&](int64 at, const uint32* c) {
    for (int w = 0; w < 4; w++) put(out, at + 16 * w, s.n, always || c[w] < limit ? 1.0f : 0.0f);
  });
}
extern "C" __global__ void bernoulli_each(T* out, const double* p, Stream s) {
  draws(s, [&](int64 at, const uint64* d) {
    for (int w = 0; w < 2; w++)
      if (at + 16 * w < s.n)
        put(out, at + 16 * w, s.n,
            double(int64(d[w] >> 11)) * (1.0 / 9007199254740992.0) < p[at + 16 * w] ? 1.0f : 0.0f);
  });
}
)";

Grid grid(int64_t n, int64_t per_counter) { return grid_for(n / per_counter + 16, 128); }

// The greatest value of dtype d below x.
double before(DType d, double x) {
  if (d == DType::F64) return std::nextafter(x, -INFINITY);
  float f = float(x);
  if (d == DType::F32) return f < x ? f : std::nextafterf(f, -INFINITY);
  auto step = [&](auto half) {
    using H = decltype(half);
    H h(f);
    if (float(h) < x) return double(float(h));
    if ((h.bits & 0x7fff) == 0) h.bits = 0x8001;
    else h.bits = uint16_t(h.bits & 0x8000 ? h.bits + 1 : h.bits - 1);
    return double(float(h));
  };
  return d == DType::F16 ? step(F16{}) : step(BF16{});
}

}  // namespace

void fill_uniform(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double from,
                  double to) {
  static Kernel narrow(kText, "uniform32"), wide(kText, "uniform64");
  Share s{seed, offset, n};
  double last = std::max(from, before(d, to));
  if (d == DType::F64)
    return launch_random(wide.of(d), grid(n, 2), 128, out, s, from, to - from, last);
  int bits = d == DType::F32 ? 24 : d == DType::F16 ? 11 : 8;
  launch_random(narrow.of(d), grid(n, 4), 128, out, s, bits, float(from), float(to - from),
                float(last));
}
void fill_normal(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double mean,
                 double std) {
  static Kernel narrow(kText, "normal32"), wide(kText, "normal64");
  Share s{seed, offset, n};
  if (d == DType::F64) return launch_random(wide.of(d), grid(n, 2), 128, out, s, mean, std);
  launch_random(narrow.of(d), grid(n, 4), 128, out, s, float(mean), float(std));
}
void fill_exponential(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset,
                      double lambda) {
  static Kernel narrow(kText, "exponential32"), wide(kText, "exponential64");
  Share s{seed, offset, n};
  if (d == DType::F64) return launch_random(wide.of(d), grid(n, 2), 128, out, s, 1 / lambda);
  launch_random(narrow.of(d), grid(n, 4), 128, out, s, float(1 / lambda));
}
void fill_integers(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, int64_t low,
                   uint64_t range) {
  static Kernel kernel(kText, "integers");
  launch_random(kernel.of(d), grid(n, 2), 128, out, Share{seed, offset, n}, uint64_t(low), range);
}
void fill_bernoulli(DType d, void* out, int64_t n, uint64_t seed, uint64_t offset, double p) {
  static Kernel kernel(kText, "bernoulli");
  double limit = std::nearbyint(p * 0x1p32);
  bool always = limit >= 0x1p32;
  launch_random(kernel.of(d), grid(n, 4), 128, out, Share{seed, offset, n},
                always ? 0u : uint32_t(limit), int(always));
}
void fill_bernoulli_each(DType d, void* out, const double* p, int64_t n, uint64_t seed,
                         uint64_t offset) {
  static Kernel kernel(kText, "bernoulli_each");
  launch_random(kernel.of(d), grid(n, 2), 128, out, p, Share{seed, offset, n});
}

}  // namespace rl::cuda
