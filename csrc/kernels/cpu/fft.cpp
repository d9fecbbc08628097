// Discrete Fourier transforms: complex to complex along any dimension, real to complex and back along
// the last. See docs/design/fft.md.
#include <cmath>
#include <cstring>

#include "kernels/cpu/fft_plan.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace fft {
namespace {

template <class T>
std::shared_ptr<const Plan<T>> plan_of(int64_t n) {
  static Kept<Plan<T>> kept;
  return kept.get(n, make_plan<T>);
}

thread_local Room lane_room, line_room, half_room;

// What a chunk of lines is, for the code that is compiled for several instruction sets.
template <class T>
struct Chunk {
  enum Kind { Rows, Columns, First, Second, RealRows, RowsToReal } kind;
  const Plan<T>* plan;
  int64_t lanes;
  const T* x;
  T* y;
  int lines;       // of this chunk, at most the lanes (twice as many where two share a lane)
  int64_t x_step;  // between elements (Columns) or lines (Rows), in numbers
  int64_t y_step;
  bool inverse;
  T scale;
  // First, the columns of a matrix whose rows Second takes: exp(-2 pi i k j) for this chunk's first
  // column j, and for lane l, as [k, l].
  const std::complex<T>* base;
  const std::complex<T>* lane;
};

template <class T, int Bytes>
RL_INLINE void run_chunk(const Chunk<T>& c) {
  using V = Vector<T, Bytes>;
  using P = Point<T, Bytes>;
  using W = typename V::type;
  using K = Chunk<T>;
  constexpr int n = V::lanes;
  constexpr auto all = std::make_index_sequence<size_t(n)>{};
  const int64_t size = c.plan->n, bins = size / 2 + 1;
  P* a = static_cast<P*>(lane_room.get(size_t(size) * 2 * sizeof(P)));
  P* b = a + size;
  W r[2 * n];
  // An inverse transform is the transform with real and imaginary parts exchanged.
  if (c.kind == K::Columns || c.kind == K::First || c.kind == K::Second) {
    for (int64_t i = 0; i < size; i++) {
      const T* from = c.x + i * c.x_step;
      if (c.lines == n) {
        split_pairs(from, a[i].re, a[i].im, all);
      } else {
        for (int l = 0; l < n; l++) {
          a[i].re[l] = l < c.lines ? from[2 * l] : T(0);
          a[i].im[l] = l < c.lines ? from[2 * l + 1] : T(0);
        }
      }
      if (c.inverse && c.kind != K::Second) std::swap(a[i].re, a[i].im);
    }
  } else if (c.kind == K::Rows) {
    for (int64_t i = 0; i < size; i += n / 2) {
      int64_t count = std::min<int64_t>(n / 2, size - i);
      load_block<T, Bytes>(c.x + 2 * i, c.x_step, c.lines, 2 * count, r);
      for (int64_t k = 0; k < count; k++)
        a[i + k] = c.inverse ? P{r[2 * k + 1], r[2 * k]} : P{r[2 * k], r[2 * k + 1]};
    }
  } else if (c.kind == K::RealRows) {
    for (int64_t i = 0; i < size; i += n) {
      int64_t count = std::min<int64_t>(n, size - i);
      load_block<T, Bytes>(c.x + i, 2 * c.x_step, (c.lines + 1) / 2, count, r);
      load_block<T, Bytes>(c.x + c.x_step + i, 2 * c.x_step, c.lines / 2, count, r + n);
      for (int64_t k = 0; k < count; k++) a[i + k] = {r[k], r[n + k]};
    }
  } else {
    // Spectra of two real lines, p + iq; the parts of an inverse transform are exchanged.
    for (int64_t i = 0; i < bins; i += n / 2) {
      int64_t count = std::min<int64_t>(n / 2, bins - i);
      load_block<T, Bytes>(c.x + 2 * i, 2 * c.x_step, (c.lines + 1) / 2, 2 * count, r);
      load_block<T, Bytes>(c.x + c.x_step + 2 * i, 2 * c.x_step, c.lines / 2, 2 * count, r + n);
      for (int64_t k = 0; k < count; k++) {
        P p{r[2 * k], r[2 * k + 1]}, q{r[n + 2 * k], r[n + 2 * k + 1]};
        int64_t at = i + k;
        if (at == 0 || 2 * at == size) {
          a[at] = {q.re, p.re};
        } else {
          a[at] = {p.im + q.re, p.re - q.im};
          a[size - at] = {q.re - p.im, p.re + q.im};
        }
      }
    }
  }
  P* z = transform<T, Bytes>(*c.plan, a, b);
  const T scale = c.scale;
  if (c.kind == K::First) {
    for (int64_t k = 0; k < size; k++) {
      P w, v = z[k].times(c.base[k]);
      const T* lane = reinterpret_cast<const T*>(c.lane + k * n);
      split_pairs(lane, w.re, w.im, all);
      z[k] = {v.re * w.re - v.im * w.im, v.re * w.im + v.im * w.re};
    }
  }
  if (c.kind == K::Columns || c.kind == K::Second) {
    for (int64_t i = 0; i < size; i++) {
      T* to = c.y + i * c.y_step;
      P v = z[i].times(scale);
      if (c.inverse) std::swap(v.re, v.im);
      if (c.lines == n) {
        W first, second;
        join_pairs<W>(v.re, v.im, first, second, all);
        store(to, first);
        store(to + n, second);
      } else {
        for (int l = 0; l < c.lines; l++) to[2 * l] = v.re[l], to[2 * l + 1] = v.im[l];
      }
    }
  } else if (c.kind == K::Rows || c.kind == K::First) {
    bool swap = c.inverse && c.kind == K::Rows;
    for (int64_t i = 0; i < size; i += n / 2) {
      int64_t count = std::min<int64_t>(n / 2, size - i);
      for (int64_t k = 0; k < count; k++) {
        P v = z[i + k].times(scale);
        r[2 * k] = swap ? v.im : v.re;
        r[2 * k + 1] = swap ? v.re : v.im;
      }
      store_block<T, Bytes>(r, c.y + 2 * i, c.y_step, c.lines, 2 * count);
    }
  } else if (c.kind == K::RealRows) {
    for (int64_t i = 0; i < bins; i += n / 2) {
      int64_t count = std::min<int64_t>(n / 2, bins - i);
      for (int64_t k = 0; k < count; k++) {
        P f = z[i + k].times(scale / 2), g = z[i + k ? size - i - k : 0].times(scale / 2);
        r[2 * k] = f.re + g.re, r[2 * k + 1] = f.im - g.im;
        r[n + 2 * k] = f.im + g.im, r[n + 2 * k + 1] = g.re - f.re;
      }
      store_block<T, Bytes>(r, c.y + 2 * i, 2 * c.y_step, (c.lines + 1) / 2, 2 * count);
      store_block<T, Bytes>(r + n, c.y + c.y_step + 2 * i, 2 * c.y_step, c.lines / 2, 2 * count);
    }
  } else {
    for (int64_t i = 0; i < size; i += n) {
      int64_t count = std::min<int64_t>(n, size - i);
      for (int64_t k = 0; k < count; k++)
        r[k] = z[i + k].im * scale, r[n + k] = z[i + k].re * scale;
      store_block<T, Bytes>(r, c.y + i, 2 * c.y_step, (c.lines + 1) / 2, count);
      store_block<T, Bytes>(r + n, c.y + c.y_step + i, 2 * c.y_step, c.lines / 2, count);
    }
  }
  lane_room.trim();
}

#if defined(__x86_64__) && !defined(RL_NO_CLONES)
#define RL_FFT_WIDTH(name, set, bytes)                                 \
  template <class T>                                                   \
  __attribute__((target(set), flatten)) void name(const Chunk<T>& c) { \
    run_chunk<T, bytes>(c);                                            \
  }
RL_FFT_WIDTH(run512, "arch=x86-64-v4", 64)
RL_FFT_WIDTH(run256, "arch=x86-64-v3", 32)
#undef RL_FFT_WIDTH
template <class T>
void run128(const Chunk<T>& c) {
  run_chunk<T, 16>(c);
}
int width() {
  static const int bytes =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
          ? 64
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32
                                                                        : 16;
  return bytes;
}
template <class T>
void run(const Chunk<T>& c) {
  switch (int(c.lanes) * int(sizeof(T))) {
    case 64: return run512(c);
    case 32: return run256(c);
    default: return run128(c);
  }
}
#else
int width() { return 16; }
template <class T>
void run(const Chunk<T>& c) {
  run_chunk<T, 16>(c);
}
#endif

// How many lanes lines go in: of many rows as many as there are, or half of them where their
// buffers stay in the first-level cache for that.
template <class T>
int64_t lane_count(int64_t n, bool rows) {
  const bool fewer = rows && n > 128 && n <= 512 && width() > 32;
  return (fewer ? 32 : width()) / int64_t(sizeof(T));
}
// Of a single line: those that its cut into rows fills, at least 16 bytes.
template <class T>
int64_t single_lanes(const Plan<T>& plan) {
  int64_t lanes = width() / int64_t(sizeof(T));
  while (lanes > 16 / int64_t(sizeof(T)) && plan.rows < lanes) lanes /= 2;
  return lanes;
}

// ---- one long line as a matrix [rows, columns]: transforms of the columns, factors, transforms of the
// rows, whose results are columns again

template <class T>
struct Split {
  int64_t rows, columns, lanes;
  std::shared_ptr<const Plan<T>> first, second;
  std::vector<std::complex<T>> base;  // [columns / lanes, rows]
  std::vector<std::complex<T>> lane;  // [rows, lanes]
};

// Lines beyond which several threads share one. On a single thread the last chunk of a pass reaches
// back into the one before, so that it is whole.
constexpr int64_t kSharedLine = int64_t(1) << 16;

inline int64_t chunk_start(int64_t n, int64_t count, int64_t lanes, int64_t chunk) {
  return n > kSharedLine ? chunk * lanes : std::min(chunk * lanes, count - lanes);
}

template <class T>
std::shared_ptr<const Split<T>> make_split(int64_t n) {
  auto split = std::make_shared<Split<T>>();
  const int64_t lanes = split->lanes = single_lanes(*plan_of<T>(n));
  split->rows = divisor(n);
  split->columns = n / split->rows;
  split->first = plan_of<T>(split->rows);
  split->second = plan_of<T>(split->columns);
  for (int64_t c = 0; c * lanes < split->columns; c++) {
    const int64_t j = chunk_start(n, split->columns, lanes, c);
    for (int64_t k = 0; k < split->rows; k++) split->base.push_back(root<T>(k * j, n));
  }
  for (int64_t k = 0; k < split->rows; k++)
    for (int64_t l = 0; l < lanes; l++) split->lane.push_back(root<T>(k * l, n));
  return split;
}

template <class T>
std::shared_ptr<const Split<T>> split_of(int64_t n) {
  static Kept<Split<T>> kept;
  return kept.get(n, make_split<T>);
}

template <class T>
bool is_splittable(const Plan<T>& plan) {
  return plan.rows >= single_lanes(plan);
}

template <class T>
void split_line(int64_t n, const T* x, T* y, bool inverse, T scale) {
  const auto split = split_of<T>(n);
  const int64_t lanes = split->lanes, rows = split->rows, columns = split->columns;
  T* middle = static_cast<T*>(line_room.get(size_t(n) * 2 * sizeof(T)));
  const auto passes = [&](int64_t count, const auto& body) {
    const int64_t chunks = (count + lanes - 1) / lanes;
    const int64_t grain = n > kSharedLine ? kSharedLine / (lanes * (n / count)) : chunks;
    parallel_for(chunks, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; c++) {
        const int64_t first = chunk_start(n, count, lanes, c);
        body(c, first, int(std::min(lanes, count - first)));
      }
    });
  };
  passes(columns, [&](int64_t c, int64_t j, int lines) {
    run<T>({Chunk<T>::First, split->first.get(), lanes, x + 2 * j, middle + 2 * j * rows, lines,
            2 * columns, 2 * rows, inverse, T(1), split->base.data() + c * rows,
            split->lane.data()});
  });
  passes(rows, [&](int64_t, int64_t k, int lines) {
    run<T>({Chunk<T>::Second, split->second.get(), lanes, middle + 2 * k, y + 2 * k, lines,
            2 * rows, 2 * rows, inverse, scale, nullptr, nullptr});
  });
  line_room.trim();
}

// ---- sizes with large primes: the transform as a convolution with a chirp (Bluestein)

template <class T>
struct Chirp {
  int64_t n, m;
  std::vector<std::complex<T>> factors;   // exp(-pi i k^2 / n)
  std::vector<std::complex<T>> spectrum;  // of their conjugates, over m
};

template <class T>
void one_line(int64_t n, const T* x, T* y, bool inverse, T scale);

template <class T>
std::shared_ptr<const Chirp<T>> make_chirp(int64_t n) {
  auto chirp = std::make_shared<Chirp<T>>();
  chirp->n = n;
  chirp->m = 1;
  while (chirp->m < 2 * n - 1) chirp->m *= 2;
  std::vector<std::complex<T>> wave(size_t(chirp->m), T(0));
  for (int64_t k = 0, square = 0; k < n; k++) {
    chirp->factors.push_back(root<T>(square, 2 * n));
    square = (square + 2 * k + 1) % (2 * n);
    wave[size_t(k)] = wave[size_t(k ? chirp->m - k : 0)] = std::conj(chirp->factors.back());
  }
  chirp->spectrum.resize(wave.size());
  one_line<T>(chirp->m, reinterpret_cast<T*>(wave.data()),
              reinterpret_cast<T*>(chirp->spectrum.data()), false, T(1));
  return chirp;
}

template <class T>
std::shared_ptr<const Chirp<T>> chirp_of(int64_t n) {
  static Kept<Chirp<T>> kept;
  return kept.get(n, make_chirp<T>);
}

template <class T>
std::complex<T> product(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
void chirp_line(int64_t n, const T* x, int64_t x_step, T* y, int64_t y_step, bool inverse,
                T scale) {
  const auto chirp = chirp_of<T>(n);
  const int64_t m = chirp->m;
  std::vector<std::complex<T>> a(size_t(m), T(0)), b(a.size());
  for (int64_t k = 0; k < n; k++) {
    std::complex<T> v(x[k * x_step], x[k * x_step + 1]);
    if (inverse) v = {v.imag(), v.real()};
    a[size_t(k)] = product(v, chirp->factors[size_t(k)]);
  }
  T *p = reinterpret_cast<T*>(a.data()), *q = reinterpret_cast<T*>(b.data());
  one_line<T>(m, p, q, false, T(1));
  for (int64_t k = 0; k < m; k++) b[size_t(k)] = product(b[size_t(k)], chirp->spectrum[size_t(k)]);
  one_line<T>(m, q, p, true, T(1) / T(m));
  for (int64_t k = 0; k < n; k++) {
    std::complex<T> v = product(a[size_t(k)], chirp->factors[size_t(k)]) * scale;
    y[k * y_step] = inverse ? v.imag() : v.real();
    y[k * y_step + 1] = inverse ? v.real() : v.imag();
  }
}

template <class T>
void one_line(int64_t n, const T* x, T* y, bool inverse, T scale) {
  const auto plan = plan_of<T>(n);
  if (!plan->direct) return chirp_line<T>(n, x, 2, y, 2, inverse, scale);
  if (is_splittable(*plan)) return split_line<T>(n, x, y, inverse, scale);
  run<T>({Chunk<T>::Rows, plan.get(), single_lanes(*plan), x, y, 1, 2 * n, 2 * n, inverse, scale,
          nullptr, nullptr});
}

// Elements of a line beyond which its lanes leave the second-level cache.
constexpr int64_t kLongLine = 4096;

template <class T>
void complex_lines(int64_t outer, int64_t n, int64_t inner, const T* x, T* y, bool inverse,
                   T scale) {
  const auto plan = plan_of<T>(n);
  const int64_t lanes = lane_count<T>(n, inner == 1), lines = outer * inner;
  const int64_t grain = std::max<int64_t>(1, (int64_t(1) << 15) / n);
  if (!plan->direct) {
    parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; l++) {
        int64_t at = 2 * (l / inner * n * inner + l % inner);
        chirp_line<T>(n, x + at, 2 * inner, y + at, 2 * inner, inverse, scale);
      }
    });
  } else if (inner == 1 && (outer < lanes || n > kLongLine) && is_splittable(*plan)) {
    for (int64_t l = 0; l < outer; l++)
      split_line<T>(n, x + 2 * l * n, y + 2 * l * n, inverse, scale);
  } else {
    const bool rows = inner == 1;
    const int64_t across = rows ? outer : inner, each = (across + lanes - 1) / lanes;
    const int64_t chunks = rows ? each : outer * each;
    parallel_for(chunks, std::max<int64_t>(1, grain / lanes), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; c++) {
        int64_t first = c % each * lanes,
                at = 2 * (rows ? first * n : c / each * n * inner + first);
        run<T>({rows ? Chunk<T>::Rows : Chunk<T>::Columns, plan.get(), lanes, x + at, y + at,
                int(std::min(lanes, across - first)), rows ? 2 * n : 2 * inner,
                rows ? 2 * n : 2 * inner, inverse, scale, nullptr, nullptr});
      }
    });
  }
}

// ---- real lines

// exp(-2 pi i k / n) for the first quarter of the circle.
template <class T>
std::shared_ptr<const std::vector<std::complex<T>>> quarter_roots(int64_t n) {
  static Kept<std::vector<std::complex<T>>> kept;
  return kept.get(n, [](int64_t size) {
    auto roots = std::make_shared<std::vector<std::complex<T>>>();
    for (int64_t k = 0; 4 * k <= size; k++) roots->push_back(root<T>(k, size));
    return roots;
  });
}

// One line of even length as half as many complex numbers: with w = exp(-2 pi i k / n),
//   X[k] = (Z[k] + conj Z[h - k]) / 2 - i w (Z[k] - conj Z[h - k]) / 2.
template <class T>
void real_line(int64_t n, const T* x, T* y, T scale) {
  const int64_t h = n / 2;
  one_line<T>(h, x, y, false, scale);
  auto* z = reinterpret_cast<std::complex<T>*>(y);
  const auto roots = quarter_roots<T>(n);
  z[h] = z[0].real() - z[0].imag();
  z[0] = z[0].real() + z[0].imag();
  for (int64_t k = 1; 2 * k <= h; k++) {
    std::complex<T> a = z[k], b = std::conj(z[h - k]);
    std::complex<T> s = (a + b) * T(0.5), d = product((a - b) * T(0.5), (*roots)[size_t(k)]);
    d = {d.imag(), -d.real()};
    z[k] = s + d;
    z[h - k] = std::conj(s - d);
  }
}
template <class T>
void line_to_real(int64_t n, const T* x, T* y, T scale) {
  const int64_t h = n / 2;
  const auto roots = quarter_roots<T>(n);
  auto* z = reinterpret_cast<const std::complex<T>*>(x);
  auto* t = reinterpret_cast<std::complex<T>*>(half_room.get(size_t(h) * 2 * sizeof(T)));
  t[0] = {z[0].real() + z[h].real(), z[0].real() - z[h].real()};
  for (int64_t k = 1; 2 * k <= h; k++) {
    std::complex<T> a = z[k], b = std::conj(z[h - k]);
    std::complex<T> s = a + b, d = product(a - b, std::conj((*roots)[size_t(k)]));
    d = {-d.imag(), d.real()};
    t[k] = s + d;
    t[h - k] = std::conj(s - d);
  }
  one_line<T>(h, reinterpret_cast<T*>(t), y, true, scale);
  half_room.trim();
}

// A chirp has no lanes: its real lines go as complex ones.
template <class T>
void real_by_chirp(int64_t rows, int64_t n, const T* x, T* y, bool to_real, T scale) {
  const int64_t bins = n / 2 + 1;
  parallel_for(rows, std::max<int64_t>(1, (int64_t(1) << 15) / n), [&](int64_t begin, int64_t end) {
    std::vector<T> line(size_t(2 * n)), result(size_t(2 * n));
    for (int64_t l = begin; l < end; l++) {
      if (to_real) {
        const T* from = x + 2 * l * bins;
        for (int64_t k = 0; k < bins; k++) {
          line[size_t(2 * k)] = line[size_t(2 * ((n - k) % n))] = from[2 * k];
          line[size_t(2 * ((n - k) % n) + 1)] = -from[2 * k + 1];
          line[size_t(2 * k + 1)] = k == 0 || 2 * k == n ? T(0) : from[2 * k + 1];
        }
      } else {
        for (int64_t i = 0; i < n; i++)
          line[size_t(2 * i)] = x[l * n + i], line[size_t(2 * i + 1)] = 0;
      }
      chirp_line<T>(n, line.data(), 2, result.data(), 2, to_real, scale);
      if (to_real)
        for (int64_t i = 0; i < n; i++) y[l * n + i] = result[size_t(2 * i)];
      else std::memcpy(y + 2 * l * bins, result.data(), size_t(2 * bins) * sizeof(T));
    }
  });
}

template <class T>
void real_lines(int64_t rows, int64_t n, const T* x, T* y, bool to_real, T scale) {
  const int64_t bins = n / 2 + 1, lanes = lane_count<T>(n, true);
  const auto plan = plan_of<T>(n);
  if (!plan->direct) return real_by_chirp<T>(rows, n, x, y, to_real, scale);
  if (n % 2 == 0 && n >= 16 &&
      (rows == 1 || (is_splittable(*plan) && (rows < lanes || n > kLongLine)))) {
    for (int64_t l = 0; l < rows; l++) {
      if (to_real) line_to_real<T>(n, x + 2 * l * bins, y + l * n, scale);
      else real_line<T>(n, x + l * n, y + 2 * l * bins, scale);
    }
    return;
  }
  const int64_t pair = 2 * lanes, grain = (int64_t(1) << 15) / (n * pair);
  parallel_for(
      (rows + pair - 1) / pair, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; c++) {
          int64_t first = c * pair;
          int count = int(std::min(pair, rows - first));
          if (to_real)
            run<T>({Chunk<T>::RowsToReal, plan.get(), lanes, x + 2 * first * bins, y + first * n,
                    count, 2 * bins, n, true, scale, nullptr, nullptr});
          else
            run<T>({Chunk<T>::RealRows, plan.get(), lanes, x + first * n, y + 2 * first * bins,
                    count, n, 2 * bins, false, scale, nullptr, nullptr});
        }
      });
}

}  // namespace
}  // namespace fft

void fft_complex(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner,
                 bool inverse, double scale) {
  if (outer * n * inner == 0) return;
  if (d == DType::C64)
    fft::complex_lines<float>(outer, n, inner, static_cast<const float*>(x), static_cast<float*>(y),
                              inverse, float(scale));
  else
    fft::complex_lines<double>(outer, n, inner, static_cast<const double*>(x),
                               static_cast<double*>(y), inverse, scale);
}

void fft_real(DType d, const void* x, void* y, int64_t rows, int64_t n, double scale) {
  if (d == DType::F32)
    fft::real_lines<float>(rows, n, static_cast<const float*>(x), static_cast<float*>(y), false,
                           float(scale));
  else
    fft::real_lines<double>(rows, n, static_cast<const double*>(x), static_cast<double*>(y), false,
                            scale);
}

void fft_to_real(DType d, const void* x, void* y, int64_t rows, int64_t n, double scale) {
  if (d == DType::F32)
    fft::real_lines<float>(rows, n, static_cast<const float*>(x), static_cast<float*>(y), true,
                           float(scale));
  else
    fft::real_lines<double>(rows, n, static_cast<const double*>(x), static_cast<double*>(y), true,
                            scale);
}

}  // namespace rl::cpu
