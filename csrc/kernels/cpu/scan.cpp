// Scans along n, a tile of columns at a time; the running values are kept in the widest type.
#include <utility>
#include <vector>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/kernels.h"

namespace rl::cpu {
namespace {

constexpr int64_t kColumns = 256;  // columns scanned side by side

template <class T>
struct LogAddExp {
  using C = T;
  static C identity() { return -std::numeric_limits<C>::infinity(); }
  static C apply(C a, C b) {
    C larger = MaxOf<C>::apply(a, b), smaller = a == larger ? b : a;
    if (larger - larger != 0) return larger;  // infinite or NaN
    return larger + std::log1p(std::exp(smaller - larger));
  }
};

// Replaces rows of `width` values by their running results; `last` is carried along.
template <class Op, class C>
RL_CLONES void scan_rows(C* __restrict x, int64_t rows, int64_t width, C* __restrict last) {
  if (width == 1) {
    C running = last[0];
    for (int64_t r = 0; r < rows; ++r) x[r] = running = Op::apply(running, x[r]);
    last[0] = running;
    return;
  }
  for (int64_t r = 0; r < rows; ++r, x += width) {
    for (int64_t j = 0; j < width; ++j) x[j] = last[j] = Op::apply(last[j], x[j]);
  }
}

// Four rows at once: a scan waits for its last result, several scans wait together.
template <class Op, class C>
RL_CLONES void scan_four(C* __restrict x, int64_t pitch, int64_t n, C* __restrict last) {
  C a = last[0], b = last[1], c = last[2], d = last[3];
  C *x1 = x + pitch, *x2 = x1 + pitch, *x3 = x2 + pitch;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = a = Op::apply(a, x[i]);
    x1[i] = b = Op::apply(b, x1[i]);
    x2[i] = c = Op::apply(c, x2[i]);
    x3[i] = d = Op::apply(d, x3[i]);
  }
  last[0] = a, last[1] = b, last[2] = c, last[3] = d;
}

// The running maximum: a later equal value or a NaN takes over, nothing takes over from a NaN.
template <class C, bool largest>
void scan_extreme(C* x, int64_t rows, int64_t width, C* last, int64_t* at, int64_t row,
                  int64_t* index, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, x += width, index += stride) {
    for (int64_t j = 0; j < width; ++j) {
      C v = x[j];
      if (v != v || (largest ? v >= last[j] : v <= last[j])) {
        last[j] = v;
        at[j] = row + r;
      }
      x[j] = last[j];
      index[j] = at[j];
    }
  }
}

template <class C>
struct Scan {
  Source<C> source;
  char* y;
  int64_t size;
  Convert store;
  int64_t n, inner;

  Scan(DType in, DType out, const void* x, void* data, int64_t n_, int64_t inner_)
      : source(in, x),
        y(static_cast<char*>(data)),
        size(itemsize(out)),
        store(storer<C>(out)),
        n(n_),
        inner(inner_) {}

  // Calls step(block, rows, first row, offset) over rows [begin, end) of a tile: the block is
  // rewritten in place and stored.
  template <class Step>
  void tile(int64_t offset, int64_t begin, int64_t end, int64_t width, const Step& step) const {
    C buffer[1024];
    int64_t many = width == inner ? 1024 / width : 1;  // rows that lie next to each other
    for (int64_t r = begin; r < end; r += many) {
      int64_t rows = std::min(many, end - r), from = offset + r * inner, count = rows * width;
      const C* block = source.fetch(from, count, buffer);
      if (block != buffer) std::copy(block, block + count, buffer);
      step(buffer, rows, r, from);
      char* to = y + from * size;
      store ? store(buffer, to, count) : void(std::memcpy(to, buffer, size_t(count * size)));
    }
  }

  // Four neighbouring rows of n elements.
  template <class Op>
  void four(int64_t row) const {
    constexpr int64_t block = 256;
    C buffer[4 * block], last[4];
    std::fill(last, last + 4, Op::identity());
    for (int64_t i = 0; i < n; i += block) {
      int64_t count = std::min(block, n - i);
      for (int64_t k = 0; k < 4; ++k) {
        C* to = buffer + k * block;
        const C* from = source.fetch((row + k) * n + i, count, to);
        if (from != to) std::copy(from, from + count, to);
      }
      scan_four<Op>(buffer, block, count, last);
      for (int64_t k = 0; k < 4; ++k) {
        const C* from = buffer + k * block;
        char* to = y + ((row + k) * n + i) * size;
        store ? store(from, to, count) : void(std::memcpy(to, from, size_t(count * size)));
      }
    }
  }

  // Calls body(offset, width) for every tile of columns.
  template <class Body>
  void tiles(int64_t outer, const Body& body) const {
    int64_t across = (inner + kColumns - 1) / kColumns, width = std::min(inner, kColumns);
    parallel_for(outer * across, grain(n * width), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t j = t % across * kColumns;
        body(t / across * n * inner + j, std::min(kColumns, inner - j));
      }
    });
  }
};

template <class Op>
void scan_as(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  using C = typename Op::C;
  Scan<C> scan(in, out, x, y, n, inner);
  auto run = [&](int64_t offset, int64_t begin, int64_t end, int64_t width, C* last) {
    scan.tile(offset, begin, end, width, [&](C* block, int64_t rows, int64_t, int64_t) {
      scan_rows<Op>(block, rows, width, last);
    });
  };
  constexpr bool cheap = !std::is_same_v<Op, LogAddExp<C>>;
  if constexpr (cheap) {
    // Few long rows: the pieces' totals first, then every piece from where it starts.
    if (inner == 1 && outer < 4 && n > 4 * kPiece) {
      int64_t pieces = (n + kPiece - 1) / kPiece;
      std::vector<C> start(size_t(outer * pieces));
      parallel_chunks(outer * pieces, [&](int64_t c) {
        int64_t begin = c % pieces * kPiece;
        Parts total{reinterpret_cast<char*>(&start[size_t(c)]), nullptr};
        reduce_row(policy_of<Fold<Op>>, scan.source, c / pieces * n + begin,
                   std::min(kPiece, n - begin), total);
      });
      for (int64_t o = 0; o < outer; ++o) {
        C running = Op::identity();
        for (int64_t p = 0; p < pieces; ++p) {
          C total = std::exchange(start[size_t(o * pieces + p)], running);
          running = Op::apply(running, total);
        }
      }
      parallel_chunks(outer * pieces, [&](int64_t c) {
        int64_t begin = c % pieces * kPiece;
        run(c / pieces * n, begin, std::min(begin + kPiece, n), 1, &start[size_t(c)]);
      });
      return;
    }
  }
  auto columns = [&](int64_t offset, int64_t width) {
    C last[kColumns];
    std::fill(last, last + width, Op::identity());
    run(offset, 0, n, width, last);
  };
  if (inner != 1) return scan.tiles(outer, columns);
  int64_t together = std::max<int64_t>(grain(n), 4) / 4 * 4;
  parallel_for(outer, together, [&](int64_t begin, int64_t end) {
    for (; begin + 4 <= end; begin += 4) scan.template four<Op>(begin);
    for (; begin < end; ++begin) columns(begin * n, 1);
  });
}

template <template <class> class Op>
void scan(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  if (is_integral(in)) return scan_as<Op<int64_t>>(in, out, x, y, outer, n, inner);
  if (is_complex(in)) return scan_as<Op<c128>>(in, out, x, y, outer, n, inner);
  scan_as<Op<double>>(in, out, x, y, outer, n, inner);
}

template <class C, bool largest>
void extreme_as(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                int64_t inner) {
  Scan<C> scan(d, d, x, y, n, inner);
  scan.tiles(outer, [&](int64_t offset, int64_t width) {
    C last[kColumns];
    int64_t at[kColumns] = {};
    std::fill(last, last + width, largest ? MaxOf<C>::identity() : MinOf<C>::identity());
    scan.tile(offset, 0, n, width, [&](C* block, int64_t rows, int64_t row, int64_t from) {
      scan_extreme<C, largest>(block, rows, width, last, at, row, index + from, inner);
    });
  });
}

}  // namespace

void cumsum(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  scan<SumOf>(in, out, x, y, outer, n, inner);
}

void cumprod(DType in, DType out, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  scan<ProductOf>(in, out, x, y, outer, n, inner);
}

void cummax_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner) {
  if (is_integral(d)) return extreme_as<int64_t, true>(d, x, y, index, outer, n, inner);
  extreme_as<double, true>(d, x, y, index, outer, n, inner);
}

void cummin_with_index(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
                       int64_t inner) {
  if (is_integral(d)) return extreme_as<int64_t, false>(d, x, y, index, outer, n, inner);
  extreme_as<double, false>(d, x, y, index, outer, n, inner);
}

void logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  scan_as<LogAddExp<double>>(d, d, x, y, outer, n, inner);
}

}  // namespace rl::cpu
