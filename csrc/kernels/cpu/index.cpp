#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

struct Item16 {
  uint64_t low, high;
};

// Calls f with a value of an unsigned type of that size.
template <class F>
void visit_size(int64_t itemsize, const F& f) {
  switch (itemsize) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Item16{});
  }
}

template <class T>
struct IsComplex : std::false_type {};
template <class R>
struct IsComplex<std::complex<R>> : std::true_type {};

template <Scatter mode, class T>
RL_INLINE T combine(T a, T b) {
  if constexpr (mode == Scatter::Set) {
    return b;
  } else if constexpr (std::is_same_v<T, Bool>) {
    return mode == Scatter::Add || mode == Scatter::Amax ? a | b : a & b;
  } else if constexpr (mode == Scatter::Add) {
    return wrapping_add(a, b);
  } else if constexpr (mode == Scatter::Multiply) {
    return wrapping_multiply(a, b);
  } else if constexpr (IsComplex<T>::value) {
    return a;  // no order: the caller has refused
  } else if constexpr (mode == Scatter::Amax) {
    return a > b || a != a ? a : b;
  } else {
    return a < b || a != a ? a : b;
  }
}

template <class T>
RL_CLONES void add_scaled(T* __restrict y, const T* __restrict src, T alpha, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = wrapping_add(y[i], wrapping_multiply(alpha, src[i]));
}
RL_CLONES void add_scaled(Bool* y, const Bool* src, Bool alpha, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] || (alpha && src[i]);
}

// Positions of an N-d range and, for three operands, their byte offsets. Dimensions of size 1
// are dropped and those that continue each other for all operands are joined.
struct Range {
  static constexpr int kMaxDims = 64;
  int ndim = 0;
  int64_t sizes[kMaxDims], strides[3][kMaxDims];
  int64_t total = 1;

  void add(int64_t size, int64_t a, int64_t b, int64_t c) {
    total *= size;
    if (size == 1) return;
    int last = ndim - 1;
    if (ndim > 0 && strides[0][last] == a * size && strides[1][last] == b * size &&
        strides[2][last] == c * size) {
      sizes[last] *= size;
    } else {
      sizes[last = ndim++] = size;
    }
    strides[0][last] = a;
    strides[1][last] = b;
    strides[2][last] = c;
  }

  // The stride of an operand along the innermost dimension.
  int64_t step(int operand) const { return ndim ? strides[operand][ndim - 1] : 0; }

  // Calls body(offsets, count) for runs along the innermost dimension that cover [begin, end).
  template <class Body>
  void runs(int64_t begin, int64_t end, const Body& body) const {
    int64_t length = ndim ? sizes[ndim - 1] : 1;
    while (begin < end) {
      int64_t count = std::min(length - begin % length, end - begin), rest = begin;
      int64_t offsets[3] = {0, 0, 0};
      for (int k = ndim - 1; k >= 0; --k) {
        int64_t at = rest % sizes[k];
        rest /= sizes[k];
        for (int o = 0; o < 3; ++o) offsets[o] += at * strides[o][k];
      }
      body(offsets, count);
      begin += count;
    }
  }
};

RL_INLINE int64_t index_at(const char* p) { return *reinterpret_cast<const int64_t*>(p); }

// Operand, its stride; `along` is y's stride along dim.
using ScatterRun = void (*)(char* y, int64_t y_step, int64_t along, const char* index,
                            int64_t index_step, const char* src, int64_t src_step, int64_t count);

template <class T, Scatter mode>
void scatter_run(char* y, int64_t y_step, int64_t along, const char* index, int64_t index_step,
                 const char* src, int64_t src_step, int64_t count) {
  if (y_step == 0 && along == sizeof(T) && index_step == 8 && src_step == sizeof(T)) {
    T* row = reinterpret_cast<T*>(y);
    const int64_t* at = reinterpret_cast<const int64_t*>(index);
    const T* from = reinterpret_cast<const T*>(src);
    for (int64_t k = 0; k < count; ++k) row[at[k]] = combine<mode, T>(row[at[k]], from[k]);
    return;
  }
  for (int64_t k = 0; k < count; ++k) {
    T* to = reinterpret_cast<T*>(y + k * y_step + index_at(index + k * index_step) * along);
    *to = combine<mode, T>(*to, *reinterpret_cast<const T*>(src + k * src_step));
  }
}

ScatterRun choose_run(DType d, Scatter mode) {
  ScatterRun run = nullptr;
  if (mode == Scatter::Set) {
    visit_size(itemsize(d), [&](auto zero) { run = scatter_run<decltype(zero), Scatter::Set>; });
    return run;
  }
  return visit(d, [&](auto zero) -> ScatterRun {
    using T = decltype(zero);
    switch (mode) {
      case Scatter::Add: return scatter_run<T, Scatter::Add>;
      case Scatter::Multiply: return scatter_run<T, Scatter::Multiply>;
      case Scatter::Amax: return scatter_run<T, Scatter::Amax>;
      default: return scatter_run<T, Scatter::Amin>;
    }
  });
}

}  // namespace

void index_select(int64_t itemsize, const void* x, const int64_t* index, void* y, int64_t outer,
                  int64_t n, int64_t inner, int64_t count) {
  int64_t bytes = inner * itemsize;
  const char* from = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  if (bytes == 0) return;
  parallel_for(outer * count, grain(bytes / 4), [&](int64_t begin, int64_t end) {
    auto each = [&](auto copy) {
      int64_t o = begin / count, c = begin % count;
      for (int64_t p = begin; p < end; ++p) {
        copy(to + p * bytes, from + (o * n + index[c]) * bytes);
        if (++c == count) c = 0, ++o;
      }
    };
    if (inner > 1) return each([=](char* a, const char* b) { std::memcpy(a, b, size_t(bytes)); });
    visit_size(itemsize, [&](auto zero) {
      each([](char* a, const char* b) { std::memcpy(a, b, sizeof(zero)); });
    });
  });
}

void index_add(DType d, void* y, const int64_t* index, const void* src, int64_t outer, int64_t n,
               int64_t inner, int64_t count, double alpha) {
  if (outer == 0 || inner == 0 || count == 0) return;
  // Threads share outer and pieces of inner; the order in which an element is added to is the same
  // for any pieces.
  constexpr int64_t width = 256;
  int64_t pieces = (inner + width - 1) / width;
  visit(d, [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(y);
    const T* from = static_cast<const T*>(src);
    int64_t work = count * std::min(width, inner);
    parallel_for(outer * pieces, grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        int64_t o = p / pieces, j = p % pieces * width, w = std::min(width, inner - j);
        if (inner == 1) {  // a call for each number would cost more than adding it
          T* row = to + o * n;
          for (int64_t c = 0; c < count; ++c) {
            T& y = row[index[c]];
            y = wrapping_add(y, wrapping_multiply(T(alpha), from[o * count + c]));
          }
          continue;
        }
        for (int64_t c = 0; c < count; ++c) {
          add_scaled(to + (o * n + index[c]) * inner + j, from + (o * count + c) * inner + j,
                     T(alpha), w);
        }
      }
    });
  });
}

void gather(int64_t itemsize, const void* x, const int64_t* x_strides, const int64_t* index,
            const int64_t* index_strides, void* y, const int64_t* y_strides, const int64_t* sizes,
            int ndim, int dim, int64_t) {
  Range range;
  for (int k = 0; k < ndim; ++k) {
    range.add(sizes[k], k == dim ? 0 : x_strides[k], index_strides[k], y_strides[k]);
  }
  int64_t along = ndim ? x_strides[dim] : 0;
  visit_size(itemsize, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(range.total, kGrain, [&](int64_t begin, int64_t end) {
      range.runs(begin, end, [&](const int64_t* at, int64_t count) {
        const char* from = static_cast<const char*>(x) + at[0];
        const char* i = reinterpret_cast<const char*>(index) + at[1];
        char* to = static_cast<char*>(y) + at[2];
        int64_t a = range.step(0), b = range.step(1), c = range.step(2);
        for (int64_t k = 0; k < count; ++k) {
          std::memcpy(to + k * c, from + k * a + index_at(i + k * b) * along, sizeof(T));
        }
      });
    });
  });
}

// Positions that differ outside dim write to different places, so threads share those; along dim
// one thread goes in order.
void scatter(DType d, Scatter mode, void* y, const int64_t* y_strides, const int64_t* index,
             const int64_t* index_strides, const void* src, const int64_t* src_strides,
             const int64_t* sizes, int ndim, int dim, int64_t) {
  Range range;
  for (int k = 0; k < ndim; ++k) {
    if (k != dim) range.add(sizes[k], y_strides[k], index_strides[k], src_strides[k]);
  }
  int64_t length = ndim ? sizes[dim] : 1, along = ndim ? y_strides[dim] : 0;
  int64_t index_along = ndim ? index_strides[dim] : 0, src_along = ndim ? src_strides[dim] : 0;
  bool along_first = std::abs(index_along) <= std::abs(range.step(1)) || range.total == 1;
  ScatterRun run = choose_run(d, mode);
  // Across dim a thread reads as many neighbours at a time as leave work for the others.
  int64_t share = along_first ? 1 : std::min<int64_t>(128, range.total / 8);
  parallel_for(range.total, std::max(grain(length), share), [&](int64_t b, int64_t e) {
    range.runs(b, e, [&](const int64_t* at, int64_t count) {
      char* to = static_cast<char*>(y) + at[0];
      const char* i = reinterpret_cast<const char*>(index) + at[1];
      const char* from = static_cast<const char*>(src) + at[2];
      if (along_first) {
        for (int64_t k = 0; k < count; ++k) {
          run(to + k * range.step(0), 0, along, i + k * range.step(1), index_along,
              from + k * range.step(2), src_along, length);
        }
      } else {
        for (int64_t l = 0; l < length; ++l) {
          run(to, range.step(0), along, i + l * index_along, range.step(1), from + l * src_along,
              range.step(2), count);
        }
      }
    });
  });
}

int64_t nonzero(DType d, const void* x, int64_t n, int64_t* flat) {
  if (!flat) {
    int64_t total = 0;
    count_nonzero(d, x, &total, 1, n, 1);
    return total;
  }
  constexpr int64_t chunk = 32768, block = 1024;
  int64_t chunks = (n + chunk - 1) / chunk, size = itemsize(d), total = 0;
  std::vector<int64_t> start(size_t(chunks), 0);
  const char* from = static_cast<const char*>(x);
  parallel_chunks(chunks, [&](int64_t c) {
    count_nonzero(d, from + c * chunk * size, &start[size_t(c)], 1, std::min(chunk, n - c * chunk),
                  1);
  });
  for (int64_t& s : start) {
    int64_t found = s;
    s = total;
    total += found;
  }
  Convert mark = nonzero_loader(d);
  parallel_chunks(chunks, [&](int64_t c) {
    int64_t* to = flat + start[size_t(c)];
    int64_t marks[block], positions[block];
    for (int64_t i = c * chunk, end = std::min(i + chunk, n); i < end; i += block) {
      int64_t count = std::min(block, end - i), found = 0;
      mark(from + i * size, marks, count);
      for (int64_t k = 0; k < count; ++k) {
        positions[found] = i + k;
        found += marks[k];
      }
      to = std::copy(positions, positions + found, to);
    }
  });
  return total;
}

}  // namespace rl::cpu
