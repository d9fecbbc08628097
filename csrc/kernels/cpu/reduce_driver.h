// The walk shared by all reductions: which elements go together, and on which thread.
//
// A policy P reduces elements of type P::C to partial results, one or two values per output
// (P::A and P::B), and says how two partial results become one:
//   rows(x, count, n, out)              count contiguous rows of n <= kBlock elements; of
//                                       bfloat16 too, where the policy can read it
//   tile(x, stride, rows, width, out)   the columns of a tile of at most P::kRows rows
//   merge(to, n_to, from, n_from, width)  `from` describes the elements after those of `to`
// Blocks are merged pairwise, so rounding errors grow with the logarithm of n. Cuts depend on
// the shape alone.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

constexpr int64_t kBlock = 2048;   // elements of a row reduced in one go
constexpr int64_t kTile = 512;     // columns reduced in one go
constexpr int64_t kBuffer = 4096;  // converted elements of a tile
constexpr int64_t kPiece = 32768;  // elements of a row that are summed apart
constexpr int64_t kSplits = 64;    // pieces that few, long reductions are cut into
constexpr int64_t kWide = 128;     // narrow rows are joined up to this width

// Keeps the recursive walk out of line: the time is in the policies.
#define RL_NOINLINE __attribute__((noinline))

template <class P>
struct Partial {
  typename P::A* a;
  typename P::B* b;
  Partial at(int64_t i) const { return {a + i, b + i}; }
};

template <class P, int64_t N>
struct Partials {
  typename P::A a[N];
  typename P::B b[N];
  operator Partial<P>() { return {a, b}; }
};

template <class P>
struct Walk {
  using C = typename P::C;
  using View = Partial<P>;
  const Source<C> source;
  const int64_t outer, n, inner;

  // Half of n elements, in whole units.
  static int64_t half(int64_t n, int64_t unit) { return (n / unit + 1) / 2 * unit; }

  RL_NOINLINE void converted_row(int64_t offset, int64_t count, View out) const {
    alignas(64) C buffer[kBlock];
    P::rows(source.fetch(offset, count, buffer), 1, count, out);
  }

  // Rows that need neither a conversion nor a map first. False: they do.
  bool plain_rows(int64_t offset, int64_t count, int64_t length, View out) const {
    if (source.direct()) {
      P::rows(reinterpret_cast<const C*>(source.x) + offset, count, length, out);
      return true;
    }
    if constexpr (requires(const BF16* x) { P::rows(x, count, length, out); }) {
      if (source.dtype == DType::BF16 && !source.map) {
        P::rows(reinterpret_cast<const BF16*>(source.x) + offset, count, length, out);
        return true;
      }
    }
    return false;
  }

  RL_NOINLINE void row(int64_t offset, int64_t count, View out) const {
    if (count > kBlock) {
      int64_t first = half(count, kBlock);
      row(offset, first, out);
      Partials<P, 1> rest;
      row(offset + first, count - first, rest);
      P::merge(out, first, rest, count - first, 1);
    } else if (!plain_rows(offset, 1, count, out)) {
      converted_row(offset, count, out);
    }
  }

  RL_NOINLINE void converted_tile(int64_t offset, int64_t stride, int64_t rows, int64_t width,
                                  View out) const {
    alignas(64) C buffer[kBuffer];
    if (stride == width) {
      return P::tile(source.fetch(offset, rows * width, buffer), width, rows, width, out);
    }
    for (int64_t r = 0; r < rows; ++r) {
      C* to = buffer + r * width;
      const C* from = source.fetch(offset + r * stride, width, to);
      if (from != to) std::copy(from, from + width, to);
    }
    P::tile(buffer, width, rows, width, out);
  }

  RL_NOINLINE void tile(int64_t offset, int64_t stride, int64_t rows, int64_t width,
                        View out) const {
    int64_t unit = source.direct() ? P::kRows : std::min(P::kRows, kBuffer / width);
    if (rows > unit) {
      int64_t first = half(rows, unit);
      tile(offset, stride, first, width, out);
      Partials<P, kTile> rest;
      tile(offset + first * stride, stride, rows - first, width, rest);
      P::merge(out, first, rest, rows - first, width);
    } else if (source.direct()) {
      P::tile(reinterpret_cast<const C*>(source.x) + offset, stride, rows, width, out);
    } else {
      converted_tile(offset, stride, rows, width, out);
    }
  }

  // Columns [0, width) from `offset` on. Narrow rows are reduced several side by side first.
  RL_NOINLINE void columns(int64_t offset, int64_t rows, int64_t width, View out) const {
    int64_t side = kWide / width;
    if (!P::kCommutes || width != inner || side < 4 || rows < 2 * side) {
      return tile(offset, inner, rows, width, out);
    }
    int64_t each = rows / side, wide = side * inner;
    Partials<P, kWide> lanes;
    tile(offset, wide, each, wide, lanes);
    std::copy(lanes.a, lanes.a + inner, out.a);
    std::copy(lanes.b, lanes.b + inner, out.b);
    for (int64_t r = 1; r < side; ++r) {
      P::merge(out, r * each, View(lanes).at(r * inner), each, inner);
    }
    if (int64_t left = rows - side * each; left > 0) {
      Partials<P, kWide> rest;
      tile(offset + side * each * inner, inner, left, inner, rest);
      P::merge(out, side * each, rest, left, inner);
    }
  }

  // Merges, pairwise, what at(p) holds for consecutive pieces of `size` elements; at(0) results.
  template <class At>
  View merge_pieces(int64_t size, int64_t width, const At& at) const {
    int64_t pieces = (n + size - 1) / size;
    for (int64_t step = 1; step < pieces; step *= 2) {
      for (int64_t p = 0; p + step < pieces; p += 2 * step) {
        int64_t middle = (p + step) * size, end = std::min(middle + step * size, n);
        P::merge(at(p), step * size, at(p + step), end - middle, width);
      }
    }
    return at(0);
  }

  // Results are handed to finish(first output, view, count).
  template <class Finish>
  void run_rows(const Finish& finish) const {
    if (outer < 16 && n > 2 * kPiece) {
      int64_t size = std::max(kPiece, (n + kSplits - 1) / kSplits);
      size = (size + kBlock - 1) / kBlock * kBlock;
      int64_t pieces = (n + size - 1) / size;
      Partials<P, 16 * kSplits> parts;
      parallel_chunks(outer * pieces, [&](int64_t c) {
        int64_t begin = c % pieces * size;
        row(c / pieces * n + begin, std::min(size, n - begin), View(parts).at(c));
      });
      for (int64_t o = 0; o < outer; ++o) {
        auto at = [&](int64_t p) { return View(parts).at(o * pieces + p); };
        finish(o, merge_pieces(size, 1, at), 1);
      }
      return;
    }
    parallel_for(outer, grain(n / 2), [&](int64_t begin, int64_t end) {
      constexpr int64_t batch = 64;
      Partials<P, batch> results;
      for (int64_t o = begin; o < end; o += batch) {
        int64_t count = std::min(batch, end - o);
        if (n > kBlock || !plain_rows(o * n, count, n, results)) {
          for (int64_t r = 0; r < count; ++r) row((o + r) * n, n, View(results).at(r));
        }
        finish(o, View(results), count);
      }
    });
  }

  template <class Finish>
  void run_columns(const Finish& finish) const {
    int64_t tiles = (inner + kTile - 1) / kTile, tasks = outer * tiles;
    int64_t width = std::min(inner, kTile);
    if (tasks < 16 && n * width > 2 * kPiece) return run_split_columns(tiles, finish);
    parallel_for(tasks, grain(n * width / 2), [&](int64_t begin, int64_t end) {
      Partials<P, kTile> result;
      for (int64_t t = begin; t < end; ++t) {
        int64_t o = t / tiles, j = t % tiles * kTile, w = std::min(kTile, inner - j);
        columns(o * n * inner + j, n, w, result);
        finish(o * inner + j, View(result), w);
      }
    });
  }

  // Few tiles with many rows: the rows are cut as well, for there to be work for every thread.
  template <class Finish>
  void run_split_columns(int64_t tiles, const Finish& finish) const {
    int64_t tasks = outer * tiles, width = std::min(inner, kTile);
    int64_t pieces = std::clamp<int64_t>(n * width / kPiece, 1, kSplits / tasks);
    int64_t size = (n + pieces - 1) / pieces;
    pieces = (n + size - 1) / size;
    using Tile = Partials<P, kTile>;
    std::unique_ptr<Tile[]> parts(new Tile[size_t(tasks * pieces)]);
    parallel_chunks(tasks * pieces, [&](int64_t c) {
      int64_t t = c % tasks, p = c / tasks, j = t % tiles * kTile;
      columns((t / tiles * n + p * size) * inner + j, std::min(size, n - p * size),
              std::min(kTile, inner - j), parts[size_t(t * pieces + p)]);
    });
    for (int64_t t = 0; t < tasks; ++t) {
      int64_t j = t % tiles * kTile, w = std::min(kTile, inner - j);
      auto at = [&](int64_t p) { return View(parts[size_t(t * pieces + p)]); };
      finish(t / tiles * inner + j, merge_pieces(size, w, at), w);
    }
  }
};

// Reduces [outer, n, inner] to [outer, inner].
template <class P, class Finish>
void reduce(const Source<typename P::C>& source, int64_t outer, int64_t n, int64_t inner,
            const Finish& finish) {
  Walk<P> walk{source, outer, n, inner};
  if (inner == 1) {
    walk.run_rows(finish);
  } else if (inner > 0) {
    walk.run_columns(finish);
  }
}

}  // namespace rl::cpu
