#include "kernels/cpu/kernels.h"

#include <cstring>
#include <vector>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kChunkBytes = 1 << 17;  // of one task

struct Pair64 {
  uint64_t low, high;
};

template <class T>
RL_INLINE void fill_loop(T* out, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

RL_CLONES void fill2(uint16_t* out, uint16_t v, int64_t n) { fill_loop(out, v, n); }
RL_CLONES void fill4(uint32_t* out, uint32_t v, int64_t n) { fill_loop(out, v, n); }
RL_CLONES void fill8(uint64_t* out, uint64_t v, int64_t n) { fill_loop(out, v, n); }
RL_CLONES void fill16(Pair64* out, Pair64 v, int64_t n) { fill_loop(out, v, n); }

void fill_unit(uint8_t* out, uint8_t v, int64_t n) { std::memset(out, v, size_t(n)); }
void fill_unit(uint16_t* out, uint16_t v, int64_t n) { fill2(out, v, n); }
void fill_unit(uint32_t* out, uint32_t v, int64_t n) { fill4(out, v, n); }
void fill_unit(uint64_t* out, uint64_t v, int64_t n) { fill8(out, v, n); }
void fill_unit(Pair64* out, Pair64 v, int64_t n) { fill16(out, v, n); }

template <class T>
void fill_items(void* out, int64_t stride, int64_t n, const void* value) {
  T v;
  std::memcpy(&v, value, sizeof(T));
  auto range = [=](int64_t begin, int64_t end) {
    char* to = static_cast<char*>(out) + begin * stride;
    if (stride == int64_t(sizeof(T))) {
      fill_unit(reinterpret_cast<T*>(to), v, end - begin);
    } else {
      for (int64_t i = begin; i < end; ++i, to += stride) std::memcpy(to, &v, sizeof(T));
    }
  };
  int64_t grain = kChunkBytes / int64_t(sizeof(T));
  n > 2 * grain ? parallel_for(n, grain, range) : range(0, n);
}

}  // namespace

void fill(DType d, void* out, int64_t stride_bytes, int64_t n, const void* value) {
  switch (itemsize(d)) {
    case 1: return fill_items<uint8_t>(out, stride_bytes, n, value);
    case 2: return fill_items<uint16_t>(out, stride_bytes, n, value);
    case 4: return fill_items<uint32_t>(out, stride_bytes, n, value);
    case 8: return fill_items<uint64_t>(out, stride_bytes, n, value);
    default: return fill_items<Pair64>(out, stride_bytes, n, value);
  }
}

void ramp(DType d, void* out, int64_t n, const Ramp& r) {
  std::vector<int64_t> whole(r.whole ? size_t(n) : 0);
  std::vector<double> real(r.whole ? 0 : size_t(n));
  for (int64_t i = 0; i < n; i++) {
    if (r.whole) whole[size_t(i)] = int64_t(uint64_t(r.first) + uint64_t(i) * uint64_t(r.by));
    else
      real[size_t(i)] =
          i < r.half ? r.start + double(i) * r.step : r.stop - r.step * double(n - 1 - i);
  }
  if (r.whole) convert(d, out, itemsize(d), DType::I64, whole.data(), 8, n);
  else convert(d, out, itemsize(d), DType::F64, real.data(), 8, n);
}

}  // namespace rl::cpu
