#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

template <class T>
RL_CLONES void scale_run(const T* x, const Bool* mask, T* y, int64_t n, T scale) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (mask[i] ? scale : T(0));
}

template <class H>
void scale_halves(const H* x, const Bool* mask, H* y, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = H(float(x[i]) * (mask[i] ? scale : 0.0f));
}

// The first i of [begin, end) where index[i] + shift is not below limit, or end.
RL_CLONES int64_t first_beyond(const int64_t* index, int64_t begin, int64_t end, uint64_t shift,
                               uint64_t limit) {
  constexpr int64_t step = 64;
  int64_t i = begin;
  for (; i + step <= end; i += step) {
    int bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t l = 0; l < step; ++l) bad |= uint64_t(index[i + l]) + shift >= limit;
    if (bad) break;
  }
  while (i < end && uint64_t(index[i]) + shift < limit) ++i;
  return i;
}

Outside find_beyond(const int64_t* index, int64_t count, uint64_t shift, uint64_t limit) {
  std::atomic<int64_t> first = count;
  parallel_for(count, 2 * kGrain, [&](int64_t begin, int64_t end) {
    int64_t known = first.load(std::memory_order_relaxed);
    if (begin > known) return;
    int64_t found = first_beyond(index, begin, end, shift, limit);
    if (found == end) return;
    while (found < known && !first.compare_exchange_weak(known, found)) {}
  });
  int64_t at = first;
  return at < count ? Outside{at, index[at]} : Outside{};
}

}  // namespace

Outside find_outside(const int64_t* index, int64_t count, int64_t size) {
  return find_beyond(index, count, 0, uint64_t(size));
}

Outside find_out_of_range(const int64_t* index, int64_t count, int64_t size) {
  return find_beyond(index, count, uint64_t(size), 2 * uint64_t(size));
}

Outside find_zero(const int64_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] == 0) return {i, 0};
  return {};
}

Range range(const int64_t* x, int64_t n) {
  Range all{x[0], x[0]};
  for (int64_t i = 1; i < n; ++i) all = {std::min(all.low, x[i]), std::max(all.high, x[i])};
  return all;
}

void linear_index(const int64_t* index, int64_t count, int64_t size, int64_t stride, bool add,
                  int64_t* out) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = (index[i] + (index[i] < 0 ? size : 0)) * stride;
      out[i] = add ? out[i] + at : at;
    }
  });
}

void unravel(const int64_t* flat, int64_t n, const int64_t* sizes, int ndim, int64_t* out) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = flat[i];
      for (int d = ndim - 1; d > 0; --d) {
        int64_t quotient = rest / sizes[d];
        out[d * n + i] = rest - quotient * sizes[d];
        rest = quotient;
      }
      if (ndim > 0) out[i] = rest;
    }
  });
}

void index_write(int64_t itemsize, void* y, const int64_t* index, const void* src, int64_t outer,
                 int64_t n, int64_t inner, int64_t count) {
  if (outer == 0 || inner == 0 || count == 0) return;
  // As in index_add, threads share outer and pieces of inner, so that each place is written in
  // order.
  int64_t row = inner * itemsize, threads = thread_count();
  int64_t width = ((row + threads - 1) / threads + 63) / 64 * 64;
  int64_t pieces = (row + width - 1) / width;
  char* to = static_cast<char*>(y);
  const char* from = static_cast<const char*>(src);
  int64_t work = count * std::min(width, row);
  parallel_for(outer * pieces, grain(work / 4), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t o = p / pieces, j = p % pieces * width, w = std::min(width, row - j);
      for (int64_t c = 0; c < count; ++c) {
        std::memcpy(to + (o * n + index[c]) * row + j, from + (o * count + c) * row + j, size_t(w));
      }
    }
  });
}

void triangle(int64_t itemsize, const void* x, void* y, int64_t matrices, int64_t rows,
              int64_t cols, int64_t k, bool upper) {
  int64_t bytes = cols * itemsize;
  if (bytes == 0) return;
  const char* from = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  // Far-away diagonals are brought near, so that nothing below overflows.
  k = std::clamp(k, -rows - 1, cols + 1);
  parallel_for(matrices * rows, grain(bytes / 4), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t cut = std::clamp<int64_t>(p % rows + k + (upper ? 0 : 1), 0, cols) * itemsize;
      int64_t kept = upper ? cut : 0, zeros = upper ? 0 : cut;
      char* line = to + p * bytes;
      std::memset(line + zeros, 0, size_t(upper ? cut : bytes - cut));
      std::memcpy(line + kept, from + p * bytes + kept, size_t(upper ? bytes - cut : cut));
    }
  });
}

void masked_scale(DType d, const void* x, const Bool* mask, void* y, int64_t n, double scale) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    auto run = [&](auto zero, auto f) {
      using T = decltype(zero);
      f(static_cast<const T*>(x) + begin, mask + begin, static_cast<T*>(y) + begin, end - begin);
    };
    switch (d) {
      case DType::F64: return run(double{}, [=](auto... v) { scale_run<double>(v..., scale); });
      case DType::F16: return run(F16{}, [=](auto... v) { scale_halves(v..., float(scale)); });
      case DType::BF16: return run(BF16{}, [=](auto... v) { scale_halves(v..., float(scale)); });
      case DType::C64:
        return run(c64{}, [=](auto... v) { scale_run<c64>(v..., c64(float(scale))); });
      case DType::C128: return run(c128{}, [=](auto... v) { scale_run<c128>(v..., c128(scale)); });
      default: return run(float{}, [=](auto... v) { scale_run<float>(v..., float(scale)); });
    }
  });
}

}  // namespace rl::cpu
