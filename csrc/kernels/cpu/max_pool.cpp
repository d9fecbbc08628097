#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/planes.h"

namespace rl::cpu {
namespace {

constexpr int64_t kBlock = 16;  // elements of a row that a loop of known length handles

template <class Tap>
constexpr Tap kNoTap = std::numeric_limits<Tap>::max();

// How many of the type that is computed in fill a register, and one of its size to number taps in.
template <class C>
constexpr int64_t kLanes = 64 / int64_t(sizeof(C));
template <class C>
using Number = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

template <class C>
constexpr C lowest() {
  if constexpr (std::numeric_limits<C>::has_infinity) return -std::numeric_limits<C>::infinity();
  else return std::numeric_limits<C>::lowest();
}

// kLanes neighbouring windows; tap k of the first is in[offsets[k]]. `at` holds the taps to start
// with: values no greater than the lowest leave them.
template <class C, class I>
RL_INLINE void pool_block(const C* __restrict in, const int64_t* offsets, int64_t taps,
                          C* __restrict best, I* __restrict at) {
  for (int64_t k = 0; k < taps; ++k) {
    const C* from = in + offsets[k];
#pragma omp simd
    for (int64_t l = 0; l < kLanes<C>; ++l) {
      C v = from[l];
      bool better = (v > best[l]) | (v != v);
      best[l] = better ? v : best[l];
      at[l] = better ? I(k) : at[l];
    }
  }
}

// Every second element.
template <class C>
RL_INLINE void deal(const C* __restrict from, int64_t n, C* __restrict even, C* __restrict odd) {
  constexpr int64_t L = kLanes<C>;
  int64_t i = 0;
  for (; i + L <= n; i += L) {
#pragma omp simd
    for (int64_t l = 0; l < L; ++l) {
      even[i + l] = from[2 * (i + l)];
      odd[i + l] = from[2 * (i + l) + 1];
    }
  }
  for (; i < n; ++i) {
    even[i] = from[2 * i];
    odd[i] = from[2 * i + 1];
  }
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

template <class C, class Tap>
class Pooler {
 public:
  using I = Number<C>;
  static constexpr int64_t L = kLanes<C>;

  explicit Pooler(const Pooling& p) : p_(p) {
    int64_t row = p.input[2], plane = p.input[1] * row;
    for (int64_t a = 0; a < p.kernel[0]; ++a)
      for (int64_t b = 0; b < p.kernel[1]; ++b)
        for (int64_t c = 0; c < p.kernel[2]; ++c)
          offsets_.push_back(a * p.dilation[0] * plane + b * p.dilation[1] * row +
                             c * p.dilation[2]);
  }

  // A plane is copied with its padding, a row as `stride` lines of every stride-th element, so that
  // neighbouring windows lie side by side.
  void lay_out() {
    int64_t s = p_.stride[2];
    for (size_t i = 0; i < 2; ++i)
      rows_[i] = (p_.output[i] - 1) * p_.stride[i] + (p_.kernel[i] - 1) * p_.dilation[i] + 1;
    across_ = (p_.output[2] + L - 1) / L * L;
    line_ = across_ + (p_.kernel[2] - 1) * p_.dilation[2] / s;
    for (int64_t a = 0; a < p_.kernel[0]; ++a)
      for (int64_t b = 0; b < p_.kernel[1]; ++b)
        for (int64_t c = 0; c < p_.kernel[2]; ++c) {
          int64_t column = c * p_.dilation[2];
          taps_.push_back((a * p_.dilation[0] * rows_[1] + b * p_.dilation[1]) * s * line_ +
                          column % s * line_ + column / s);
        }
    firsts_.resize(size_t(across_), I(-1));
    for (int64_t j = 0; j < p_.output[2]; ++j) {
      Reach r(p_, 2, j);
      if (r.first < r.end) firsts_[size_t(j)] = I(r.first);
    }
  }
  std::vector<C> padding() const {
    return std::vector<C>(size_t(rows_[0] * rows_[1] * p_.stride[2] * line_), lowest<C>());
  }

  RL_CLONES void pool(const C* x, C* y, Tap* taps, C* padded) const {
    fill(x, padded);
    int64_t s = p_.stride[2], n = p_.output[2];
    for (int64_t d = 0; d < p_.output[0]; ++d) {
      Reach a(p_, 0, d);
      for (int64_t h = 0; h < p_.output[1]; ++h, y += n, taps += n) {
        Reach b(p_, 1, h);
        bool any = a.first < a.end && b.first < b.end;
        I lead = I((a.first * p_.kernel[1] + b.first) * p_.kernel[2]);
        const C* in = padded + (d * p_.stride[0] * rows_[1] + h * p_.stride[1]) * s * line_;
        for (int64_t j = 0; j < n; j += L) {
          C best[L];
          I at[L];
          for (int64_t l = 0; l < L; ++l) {
            best[l] = lowest<C>();
            I first = firsts_[size_t(j + l)];
            at[l] = any && first >= 0 ? first + lead : I(-1);
          }
          pool_block(in + j, taps_.data(), int64_t(taps_.size()), best, at);
          put(best, at, std::min(L, n - j), y + j, taps + j);
        }
      }
    }
  }

  // Calls use(output, position in the plane) for every output of a plane that has a tap; false
  // when a tap is none of its window's.
  template <class F>
  bool each(const Tap* taps, const F& use) const {
    int64_t out = 0, room = volume(p_.input);
    bool valid = true;
    for (int64_t d = 0; d < p_.output[0]; ++d) {
      for (int64_t h = 0; h < p_.output[1]; ++h) {
        int64_t start =
            ((d * p_.stride[0] - p_.padding[0]) * p_.input[1] + h * p_.stride[1] - p_.padding[1]) *
                p_.input[2] -
            p_.padding[2];
        for (int64_t j = 0; j < p_.output[2]; ++j, ++out, start += p_.stride[2]) {
          if (taps[out] == kNoTap<Tap>) continue;
          int64_t at =
              size_t(taps[out]) < offsets_.size() ? start + offsets_[size_t(taps[out])] : -1;
          if (uint64_t(at) < uint64_t(room)) use(out, at);
          else valid = false;
        }
      }
    }
    return valid;
  }

 private:
  RL_INLINE static void put(const C* best, const I* at, int64_t n, C* y, Tap* taps) {
    Tap numbers[L];
    for (int64_t l = 0; l < L; ++l) numbers[l] = at[l] < 0 ? kNoTap<Tap> : Tap(at[l]);
    if (n == L) {
      std::memcpy(y, best, sizeof(C) * L);
      std::memcpy(taps, numbers, sizeof numbers);
    } else {
      std::copy(best, best + n, y);
      std::copy(numbers, numbers + n, taps);
    }
  }

  // The elements of x; what is padding stays as it is.
  RL_INLINE void fill(const C* x, C* padded) const {
    int64_t s = p_.stride[2], width = p_.input[2], pad = p_.padding[2];
    for (int64_t d = 0; d < rows_[0]; ++d) {
      int64_t z = d - p_.padding[0];
      if (z < 0 || z >= p_.input[0]) continue;
      for (int64_t h = 0; h < rows_[1]; ++h) {
        int64_t y = h - p_.padding[1];
        if (y < 0 || y >= p_.input[1]) continue;
        const C* from = x + (z * p_.input[1] + y) * width - pad;
        C* to = padded + (d * rows_[1] + h) * s * line_;
        // Line f has the padded columns i * s + f.
        int64_t begin = (pad + s - 1) / s, end = std::min((width + pad) / s, line_);
        if (s == 1) {
          for (int64_t i = begin; i < end; ++i) to[i] = from[i];
        } else if (s == 2) {
          deal(from + 2 * begin, end - begin, to + begin, to + line_ + begin);
        } else {
          for (int64_t f = 0; f < s; ++f)
            for (int64_t i = begin; i < end; ++i) to[f * line_ + i] = from[i * s + f];
        }
        for (int64_t c = pad; c < std::min(begin * s, width + pad); ++c)
          to[c % s * line_ + c / s] = from[c];
        for (int64_t c = std::max(end, begin) * s; c < std::min(width + pad, line_ * s); ++c)
          to[c % s * line_ + c / s] = from[c];
      }
    }
  }

  Pooling p_;
  int64_t rows_[2] = {0, 0}, across_ = 0, line_ = 0;
  std::vector<I> firsts_;
  std::vector<int64_t> taps_, offsets_;
};

int64_t grain_of(const Pooling& p) {
  return grain(volume(p.input) + volume(p.output) * volume(p.kernel));
}

// Windows of 2 x 2 that tile the plane: every element is written once.
template <class T>
RL_INLINE void scatter_block(const T* __restrict y, const uint8_t* __restrict taps, int tap,
                             T* __restrict x) {
#pragma omp simd
  for (int64_t l = 0; l < kBlock; ++l) {
    int t = taps[l];
    T v = y[l];
    x[2 * l] = t == tap ? v : T(0);
    x[2 * l + 1] = t == tap + 1 ? v : T(0);
  }
}

template <class T>
RL_INLINE void scatter_pairs(const T* y, const uint8_t* taps, int64_t n, int tap, T* x) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) scatter_block(y + i, taps + i, tap, x + 2 * i);
  if (i == n) return;
  // The rest as a block of its own: rows are short, and a loop over single elements is slow.
  T from[kBlock] = {}, to[2 * kBlock];
  uint8_t at[kBlock] = {};
  std::copy(y + i, y + n, from);
  std::copy(taps + i, taps + n, at);
  scatter_block(from, at, tap, to);
  std::copy(to, to + 2 * (n - i), x + 2 * i);
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

template <class T, class F>
void with_taps(T zero, const Pooling& p, const F& f) {
  if (tap_type(p) == DType::U8) f(zero, uint8_t());
  else f(zero, int32_t());
}
// Gradients are floating.
template <class F>
void with_floats(DType d, const Pooling& p, const F& f) {
  visit(d, [&]<class T>(T zero) {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>)
      with_taps(zero, p, f);
  });
}
// For elements that are only moved: a type of their size.
template <class F>
void with_sizes(DType d, const Pooling& p, const F& f) {
  switch (itemsize(d)) {
    case 1: return with_taps(uint8_t(), p, f);
    case 2: return with_taps(int16_t(), p, f);
    case 4: return with_taps(int32_t(), p, f);
    default: return with_taps(int64_t(), p, f);
  }
}

}  // namespace

void max_pool(DType d, const Pooling& p, const void* x, void* y, void* taps) {
  auto run = [&]<class C, class Tap>(C, Tap) {
    Pooler<C, Tap> pooler(p);
    pooler.lay_out();
    int64_t large = volume(p.input), small = volume(p.output);
    each_plane<C>(d, p.planes, grain_of(p), x, large, y, small, [&] {
      return [&, padded = pooler.padding()](int64_t i, const C* from, C* to) mutable {
        pooler.pool(from, to, static_cast<Tap*>(taps) + i * small, padded.data());
      };
    });
  };
  if (!is_floating(d)) return with_taps(int64_t(), p, run);
  if (d == DType::F64) return with_taps(double(), p, run);
  with_taps(float(), p, run);
}

bool max_pool_gather(DType d, const Pooling& p, const void* x, const void* taps, void* y) {
  std::atomic<bool> outside{false};
  with_sizes(d, p, [&]<class T, class Tap>(T, Tap) {
    Pooler<float, Tap> pooler(p);
    int64_t large = volume(p.input), small = volume(p.output);
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      std::fill(static_cast<T*>(y) + begin * small, static_cast<T*>(y) + end * small, T(0));
      for (int64_t i = begin; i < end; ++i) {
        const T* from = static_cast<const T*>(x) + i * large;
        T* to = static_cast<T*>(y) + i * small;
        if (!pooler.each(static_cast<const Tap*>(taps) + i * small,
                         [&](int64_t out, int64_t in) { to[out] = from[in]; }))
          outside = true;
      }
    });
  });
  return outside;
}

bool max_pool_scatter(DType d, const Pooling& p, const void* y, const void* taps, void* x) {
  std::atomic<bool> outside{false};
  with_floats(d, p, [&]<class T, class Tap>(T, Tap) {
    Pooler<float, Tap> pooler(p);
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
        if (!pooler.each(at, [&](int64_t out, int64_t in) { to[in] = T(to[in] + from[out]); }))
          outside = true;
      }
    });
  });
  return outside;
}

bool max_pool_positions(const Pooling& p, const void* taps, int64_t* positions) {
  std::atomic<bool> outside{false};
  with_taps(float(), p, [&]<class T, class Tap>(T, Tap) {
    Pooler<float, Tap> pooler(p);
    int64_t small = volume(p.output);
    parallel_for(p.planes, grain_of(p), [&](int64_t begin, int64_t end) {
      std::fill(positions + begin * small, positions + end * small, int64_t(-1));
      for (int64_t i = begin; i < end; ++i)
        if (!pooler.each(static_cast<const Tap*>(taps) + i * small,
                         [&](int64_t out, int64_t in) { positions[i * small + out] = in; }))
          outside = true;
    });
  });
  return outside;
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
      parallel_for(planes, grain(large + small), [&](int64_t begin, int64_t end) {
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
