#include "kernels/cpu/max_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kTaskItems = 1 << 15;

template <class Tap>
constexpr Tap kNoTap = std::numeric_limits<Tap>::max();

// The type in which values are compared, and one of its size to number taps in.
template <class T>
using Compared = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;
template <class C>
using Number = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

// What x[j * step] is worth against the best so far.
template <class T, class C, class I>
RL_INLINE void compare(const T* __restrict x, int64_t step, int64_t n, I tap, C* __restrict best,
                       I* __restrict at) {
  auto each = [&](int64_t j, C v) __attribute__((always_inline)) {
    bool better = (v > best[j]) | (v != v);
    best[j] = better ? v : best[j];
    at[j] = better ? tap : at[j];
  };
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) each(j, C(x[j]));
  } else if (step == 2) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) each(j, C(x[2 * j]));
  } else {
    for (int64_t j = 0; j < n; ++j) each(j, C(x[j * step]));
  }
}

template <class C>
constexpr C lowest() {
  if constexpr (std::numeric_limits<C>::has_infinity) return -std::numeric_limits<C>::infinity();
  else return std::numeric_limits<C>::lowest();
}

// Along one axis: the taps of output j that are inside are [first, end).
struct Reach {
  int64_t first, end, start;
  Reach(const Pooling& p, size_t axis, int64_t j) {
    int64_t d = p.dilation[axis];
    start = j * p.stride[axis] - p.padding[axis];
    first = start < 0 ? (-start + d - 1) / d : 0;
    end = start < p.input[axis] ? (p.input[axis] - 1 - start) / d + 1 : 0;
    end = std::min(end, p.kernel[axis]);
    first = std::min(first, end);
  }
};

template <class T, class Tap>
class Pooler {
 public:
  using C = Compared<T>;
  using I = Number<C>;

  explicit Pooler(const Pooling& p) : p_(p) {
    for (int64_t k = 0; k < p.kernel[2]; ++k) {
      int64_t shift = k * p.dilation[2] - p.padding[2], s = p.stride[2];
      int64_t begin = shift < 0 ? (-shift + s - 1) / s : 0;
      int64_t end = shift < p.input[2] ? (p.input[2] - 1 - shift) / s + 1 : 0;
      end = std::min(end, p.output[2]);
      columns_.push_back({std::min(begin, end), end, shift});
    }
    for (int64_t j = 0; j < p.output[2]; ++j) {
      Reach r(p, 2, j);
      firsts_.push_back(r.first < r.end ? I(r.first) : I(-1));
    }
    int64_t row = p.input[2], plane = p.input[1] * row;
    for (int64_t a = 0; a < p.kernel[0]; ++a)
      for (int64_t b = 0; b < p.kernel[1]; ++b)
        for (int64_t c = 0; c < p.kernel[2]; ++c)
          offsets_.push_back(a * p.dilation[0] * plane + b * p.dilation[1] * row +
                             c * p.dilation[2]);
  }

  RL_CLONES void pool(const T* x, T* y, Tap* taps, C* best, I* at) const {
    int64_t across = p_.output[2];
    for (int64_t d = 0; d < p_.output[0]; ++d) {
      Reach a(p_, 0, d);
      for (int64_t h = 0; h < p_.output[1]; ++h, y += across, taps += across) {
        Reach b(p_, 1, h);
        bool any = a.first < a.end && b.first < b.end;
        I lead = I((a.first * p_.kernel[1] + b.first) * p_.kernel[2]);
        for (int64_t j = 0; j < across; ++j) {
          best[j] = lowest<C>();
          at[j] = any && firsts_[size_t(j)] >= 0 ? lead + firsts_[size_t(j)] : I(-1);
        }
        for (int64_t k = a.first; k < a.end; ++k)
          for (int64_t l = b.first; l < b.end; ++l)
            row(x + ((a.start + k * p_.dilation[0]) * p_.input[1] + b.start + l * p_.dilation[1]) *
                        p_.input[2],
                I((k * p_.kernel[1] + l) * p_.kernel[2]), best, at);
        for (int64_t j = 0; j < across; ++j) y[j] = T(best[j]);
        for (int64_t j = 0; j < across; ++j) taps[j] = at[j] < 0 ? kNoTap<Tap> : Tap(at[j]);
      }
    }
  }

  // Calls use(output, position in the plane) for every output of a plane that has a tap.
  template <class F>
  void each(const Tap* taps, const F& use) const {
    int64_t out = 0;
    for (int64_t d = 0; d < p_.output[0]; ++d) {
      for (int64_t h = 0; h < p_.output[1]; ++h) {
        int64_t start =
            ((d * p_.stride[0] - p_.padding[0]) * p_.input[1] + h * p_.stride[1] - p_.padding[1]) *
                p_.input[2] -
            p_.padding[2];
        for (int64_t j = 0; j < p_.output[2]; ++j, ++out, start += p_.stride[2])
          if (taps[out] != kNoTap<Tap>) use(out, start + offsets_[size_t(taps[out])]);
      }
    }
  }

 private:
  struct Column {
    int64_t begin, end, shift;
  };

  RL_INLINE void row(const T* x, I tap, C* best, I* at) const {
    for (size_t k = 0; k < columns_.size(); ++k) {
      const Column& c = columns_[k];
      compare<T, C, I>(x + c.begin * p_.stride[2] + c.shift, p_.stride[2], c.end - c.begin,
                       tap + I(k), best + c.begin, at + c.begin);
    }
  }

  Pooling p_;
  std::vector<Column> columns_;
  std::vector<I> firsts_;
  std::vector<int64_t> offsets_;
};

int64_t grain_of(const Pooling& p) {
  return kTaskItems / (volume(p.input) + volume(p.output) * volume(p.kernel) + 1);
}

// Windows of 2 x 2 that tile the plane: every element is read and written once.
template <class T>
RL_INLINE void pool_pairs(const T* __restrict top, const T* __restrict low, int64_t n,
                          T* __restrict y, uint8_t* __restrict taps) {
  using C = Compared<T>;
  using I = Number<C>;
  auto take = [](C v, I tap, C& best, I& at) __attribute__((always_inline)) {
    bool better = (v > best) | (v != v);
    best = better ? v : best;
    at = better ? tap : at;
  };
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    C best = C(top[2 * j]);
    I at = 0;
    take(C(top[2 * j + 1]), 1, best, at);
    take(C(low[2 * j]), 2, best, at);
    take(C(low[2 * j + 1]), 3, best, at);
    y[j] = T(best);
    taps[j] = uint8_t(at);
  }
}

template <class T>
RL_CLONES void pool_tiles(const Pooling& p, const T* x, T* y, uint8_t* taps) {
  int64_t across = p.output[2], width = p.input[2];
  for (int64_t h = 0; h < p.output[1]; ++h, x += 2 * width, y += across, taps += across) {
    pool_pairs(x, x + width, across, y, taps);
  }
}

template <class T>
RL_INLINE void scatter_pairs(const T* __restrict y, const uint8_t* __restrict taps, int64_t n,
                             int tap, T* __restrict x) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    x[2 * j] = taps[j] == tap ? y[j] : T(0);
    x[2 * j + 1] = taps[j] == tap + 1 ? y[j] : T(0);
  }
}

bool tiles_by_two(const Pooling& p) {
  Extent two{1, 2, 2}, one{1, 1, 1}, none{0, 0, 0};
  return p.kernel == two && p.stride == two && p.dilation == one && p.padding == none &&
         p.input[0] == 1;
}

template <class T>
RL_CLONES void scatter_tiles(const Pooling& p, const T* y, const uint8_t* taps, T* x) {
  int64_t across = std::min(p.output[2], p.input[2] / 2);
  for (int64_t h = 0; h < p.input[1]; ++h) {
    T* row = x + h * p.input[2];
    int64_t from = h / 2 * p.output[2];
    bool inside = h / 2 < p.output[1];
    if (inside) scatter_pairs(y + from, taps + from, across, int(h % 2) * 2, row);
    std::fill(row + (inside ? 2 * across : 0), row + p.input[2], T(0));
    // A last window cut in half by the border (ceil_mode).
    if (inside && across < p.output[2] && taps[from + across] == h % 2 * 2)
      row[2 * across] = y[from + across];
  }
}

template <class F>
void with_types(DType d, const Pooling& p, const F& f) {
  visit(d, [&]<class T>(T zero) {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, c64> && !std::is_same_v<T, c128>) {
      if (tap_type(p) == DType::U8) f(zero, uint8_t());
      else f(zero, int32_t());
    }
  });
}

}  // namespace

DType tap_type(const Pooling& p) {
  return volume(p.kernel) <= kNoTap<uint8_t> ? DType::U8 : DType::I32;
}

void max_pool(DType d, const Pooling& p, const void* x, void* y, void* taps) {
  with_types(d, p, [&]<class T, class Tap>(T, Tap) {
    using P = Pooler<T, Tap>;
    P pooler(p);
    int64_t large = volume(p.input), small = volume(p.output);
    // Whole tiles alone: none is cut by the border.
    bool tiles = tiles_by_two(p) && 2 * p.output[1] <= p.input[1] && 2 * p.output[2] <= p.input[2];
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<Tap, uint8_t>) {
        for (int64_t i = begin; tiles && i < end; ++i)
          pool_tiles<T>(p, static_cast<const T*>(x) + i * large, static_cast<T*>(y) + i * small,
                        static_cast<uint8_t*>(taps) + i * small);
        if (tiles) return;
      }
      std::vector<typename P::C> best(size_t(p.output[2]));
      std::vector<typename P::I> at(size_t(p.output[2]));
      for (int64_t i = begin; i < end; ++i)
        pooler.pool(static_cast<const T*>(x) + i * large, static_cast<T*>(y) + i * small,
                    static_cast<Tap*>(taps) + i * small, best.data(), at.data());
    });
  });
}

void max_pool_gather(DType d, const Pooling& p, const void* x, const void* taps, void* y) {
  with_types(d, p, [&]<class T, class Tap>(T, Tap) {
    Pooler<T, Tap> pooler(p);
    int64_t large = volume(p.input), small = volume(p.output);
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      std::fill(static_cast<T*>(y) + begin * small, static_cast<T*>(y) + end * small, T(0));
      for (int64_t i = begin; i < end; ++i) {
        const T* from = static_cast<const T*>(x) + i * large;
        T* to = static_cast<T*>(y) + i * small;
        pooler.each(static_cast<const Tap*>(taps) + i * small,
                    [&](int64_t out, int64_t in) { to[out] = from[in]; });
      }
    });
  });
}

void max_pool_scatter(DType d, const Pooling& p, const void* y, const void* taps, void* x) {
  with_types(d, p, [&]<class T, class Tap>(T, Tap) {
    Pooler<T, Tap> pooler(p);
    int64_t large = volume(p.input), small = volume(p.output);
    bool tiles = tiles_by_two(p);
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* to = static_cast<T*>(x) + i * large;
        const T* from = static_cast<const T*>(y) + i * small;
        const Tap* at = static_cast<const Tap*>(taps) + i * small;
        if constexpr (std::is_same_v<Tap, uint8_t>) {
          if (tiles) {
            scatter_tiles<T>(p, from, at, to);
            continue;
          }
        }
        std::fill(to, to + large, T(0));
        pooler.each(at, [&](int64_t out, int64_t in) { to[in] = T(to[in] + from[out]); });
      }
    });
  });
}

void max_pool_positions(const Pooling& p, const void* taps, int64_t* positions) {
  with_types(DType::F32, p, [&]<class T, class Tap>(T, Tap) {
    Pooler<T, Tap> pooler(p);
    int64_t small = volume(p.output);
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      std::fill(positions + begin * small, positions + end * small, int64_t(-1));
      for (int64_t i = begin; i < end; ++i)
        pooler.each(static_cast<const Tap*>(taps) + i * small,
                    [&](int64_t out, int64_t in) { positions[i * small + out] = in; });
    });
  });
}

void adaptive_max_pool(DType d, int64_t planes, const Extent& input, const Extent& output,
                       const void* x, void* y, int64_t* positions) {
  auto from = [&](size_t axis, int64_t j) { return j * input[axis] / output[axis]; };
  auto until = [&](size_t axis, int64_t j) {
    return ((j + 1) * input[axis] + output[axis] - 1) / output[axis];
  };
  visit(d, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, c64> || std::is_same_v<T, c128>) return;
    else {
      int64_t large = volume(input), small = volume(output);
      parallel_for(planes, kTaskItems / (large + small + 1), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin * small; o < end * small; ++o) {
          const T* plane = static_cast<const T*>(x) + o / small * large;
          int64_t w = o % output[2], h = o / output[2] % output[1],
                  e = o / (output[2] * output[1]) % output[0];
          int64_t best = (from(0, e) * input[1] + from(1, h)) * input[2] + from(2, w);
          for (int64_t a = from(0, e); a < until(0, e); ++a)
            for (int64_t b = from(1, h); b < until(1, h); ++b)
              for (int64_t c = from(2, w); c < until(2, w); ++c) {
                int64_t i = (a * input[1] + b) * input[2] + c;
                if (plane[i] > plane[best] || plane[i] != plane[i]) best = i;
              }
          static_cast<T*>(y)[o] = plane[best];
          positions[o] = best;
        }
      });
    }
  });
}

}  // namespace rl::cpu
