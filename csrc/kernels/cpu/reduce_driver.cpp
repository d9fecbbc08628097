#include "kernels/cpu/reduce_driver.h"

#include <cstring>
#include <memory>

namespace rl::cpu {
namespace {

// Recursive functions keep what only a leaf needs out of their frames, which have the size that
// the elements ask for: threads may have small stacks.
#define RL_NOINLINE __attribute__((noinline))
#define RL_ON_STACK(bytes) static_cast<char*>(__builtin_alloca_with_align(size_t(bytes), 512))

constexpr int64_t kBuffer = 4096;  // converted elements of a tile
constexpr int64_t kSplits = 64;    // pieces that few, long reductions are cut into
constexpr int64_t kWide = 128;     // narrow rows are joined up to this width

// Partial results of N outputs.
template <int64_t N>
struct Memory {
  alignas(kPartBytes) char bytes[N * kPartBytes];
  operator Parts() { return {bytes, bytes + N * (kPartBytes / 2)}; }
};

struct Walk {
  const Policy& policy;
  const BlockReader& source;
  const int64_t outer, n, inner;

  Parts at(Parts parts, int64_t i) const {
    return {parts.a + i * policy.a, parts.b + i * policy.b};
  }
  const char* element(int64_t offset) const { return source.x + offset * source.size; }

  // Half of n elements, in whole units.
  static int64_t half(int64_t n, int64_t unit) { return (n / unit + 1) / 2 * unit; }

  RL_NOINLINE void converted_row(int64_t offset, int64_t count, Parts out) const {
    char* buffer = RL_ON_STACK(kBlock * policy.element);
    policy.rows(source.fetch(offset, count, buffer), 1, count, out);
  }

  // Rows that need neither a conversion nor a map first. False: they do.
  bool plain_rows(int64_t offset, int64_t count, int64_t length, Parts out) const {
    if (source.direct()) {
      policy.rows(element(offset), count, length, out);
      return true;
    }
    if (policy.bfloats && source.dtype == DType::BF16 && !source.map) {
      policy.bfloats(element(offset), count, length, out);
      return true;
    }
    return false;
  }

  RL_NOINLINE void row(int64_t offset, int64_t count, Parts out) const {
    if (count > kBlock) {
      int64_t first = half(count, kBlock);
      row(offset, first, out);
      Memory<1> rest;
      row(offset + first, count - first, rest);
      policy.merge(out, first, rest, count - first, 1);
    } else if (!plain_rows(offset, 1, count, out)) {
      converted_row(offset, count, out);
    }
  }

  RL_NOINLINE void converted_tile(int64_t offset, int64_t stride, int64_t rows, int64_t width,
                                  Parts out) const {
    char* buffer = RL_ON_STACK(kBuffer * policy.element);
    if (stride == width)
      return policy.tile(source.fetch(offset, rows * width, buffer), width, rows, width, out);
    int64_t bytes = width * policy.element;
    for (int64_t r = 0; r < rows; ++r) {
      char* to = buffer + r * bytes;
      const void* from = source.fetch(offset + r * stride, width, to);
      if (from != to) std::memcpy(to, from, size_t(bytes));
    }
    policy.tile(buffer, width, rows, width, out);
  }

  RL_NOINLINE void tile(int64_t offset, int64_t stride, int64_t rows, int64_t width,
                        Parts out) const {
    int64_t unit = policy.rows_at_once;
    if (!source.direct()) unit = std::min(unit, kBuffer / width);
    if (rows > unit) {
      int64_t first = half(rows, unit);
      tile(offset, stride, first, width, out);
      char* memory = RL_ON_STACK((width + 1) * (policy.a + policy.b));
      Parts rest{memory, memory + (width * policy.a + 7) / 8 * 8};
      tile(offset + first * stride, stride, rows - first, width, rest);
      policy.merge(out, first, rest, rows - first, width);
    } else if (source.direct()) {
      policy.tile(element(offset), stride, rows, width, out);
    } else {
      converted_tile(offset, stride, rows, width, out);
    }
  }

  // Columns [0, width) from `offset` on. Narrow rows are reduced several side by side first.
  void columns(int64_t offset, int64_t rows, int64_t width, Parts out) const {
    int64_t side = kWide / width;
    if (!policy.commutes || width != inner || side < 4 || rows < 2 * side)
      return tile(offset, inner, rows, width, out);
    int64_t each = rows / side, wide = side * inner;
    Memory<kWide> memory;
    Parts lanes = memory;
    tile(offset, wide, each, wide, lanes);
    std::memcpy(out.a, lanes.a, size_t(inner * policy.a));
    std::memcpy(out.b, lanes.b, size_t(inner * policy.b));
    for (int64_t r = 1; r < side; ++r)
      policy.merge(out, r * each, at(lanes, r * inner), each, inner);
    if (int64_t left = rows - side * each; left > 0) {
      Memory<kWide> rest;
      tile(offset + side * each * inner, inner, left, inner, rest);
      policy.merge(out, side * each, rest, left, inner);
    }
  }

  // Merges, pairwise, what get(p) holds for consecutive pieces of `size` elements; get(0) results.
  template <class Get>
  Parts merge_pieces(int64_t size, int64_t width, const Get& get) const {
    int64_t pieces = (n + size - 1) / size;
    for (int64_t step = 1; step < pieces; step *= 2) {
      for (int64_t p = 0; p + step < pieces; p += 2 * step) {
        int64_t middle = (p + step) * size, end = std::min(middle + step * size, n);
        policy.merge(get(p), step * size, get(p + step), end - middle, width);
      }
    }
    return get(0);
  }

  // Few, long rows: cut, for there to be work for every thread.
  RL_NOINLINE void run_split_rows(const Finish& finish) const {
    int64_t size = std::max(kPiece, (n + kSplits - 1) / kSplits);
    size = (size + kBlock - 1) / kBlock * kBlock;
    int64_t pieces = (n + size - 1) / size;
    Memory<16 * kSplits> memory;
    Parts parts = memory;
    parallel_chunks(outer * pieces, [&](int64_t c) {
      int64_t begin = c % pieces * size;
      row(c / pieces * n + begin, std::min(size, n - begin), at(parts, c));
    });
    for (int64_t o = 0; o < outer; ++o) {
      auto get = [&](int64_t p) { return at(parts, o * pieces + p); };
      finish.put(finish.self, o, merge_pieces(size, 1, get), 1);
    }
  }

  void run_rows(const Finish& finish) const {
    if (outer < 16 && n > 2 * kPiece) return run_split_rows(finish);
    parallel_for(outer, grain(n / 2), [&](int64_t begin, int64_t end) {
      constexpr int64_t batch = 64;
      Memory<batch> memory;
      Parts results = memory;
      for (int64_t o = begin; o < end; o += batch) {
        int64_t count = std::min(batch, end - o);
        if (n > kBlock || !plain_rows(o * n, count, n, results)) {
          for (int64_t r = 0; r < count; ++r) row((o + r) * n, n, at(results, r));
        }
        finish.put(finish.self, o, results, count);
      }
    });
  }

  void run_columns(const Finish& finish) const {
    int64_t tiles = (inner + kTile - 1) / kTile, tasks = outer * tiles;
    int64_t width = std::min(inner, kTile);
    if (tasks < 16 && n * width > 2 * kPiece) return run_split_columns(tiles, finish);
    parallel_for(tasks, grain(n * width / 2), [&](int64_t begin, int64_t end) {
      Memory<kTile> result;
      for (int64_t t = begin; t < end; ++t) {
        int64_t o = t / tiles, j = t % tiles * kTile, w = std::min(kTile, inner - j);
        columns(o * n * inner + j, n, w, result);
        finish.put(finish.self, o * inner + j, result, w);
      }
    });
  }

  // Few tiles with many rows: the rows are cut as well, for there to be work for every thread.
  void run_split_columns(int64_t tiles, const Finish& finish) const {
    int64_t tasks = outer * tiles, width = std::min(inner, kTile);
    int64_t pieces = std::clamp<int64_t>(n * width / kPiece, 1, kSplits / tasks);
    int64_t size = (n + pieces - 1) / pieces;
    pieces = (n + size - 1) / size;
    using Tile = Memory<kTile>;
    std::unique_ptr<Tile[]> parts(new Tile[size_t(tasks * pieces)]);
    parallel_chunks(tasks * pieces, [&](int64_t c) {
      int64_t t = c % tasks, p = c / tasks, j = t % tiles * kTile;
      columns((t / tiles * n + p * size) * inner + j, std::min(size, n - p * size),
              std::min(kTile, inner - j), parts[size_t(t * pieces + p)]);
    });
    for (int64_t t = 0; t < tasks; ++t) {
      int64_t j = t % tiles * kTile, w = std::min(kTile, inner - j);
      auto get = [&](int64_t p) -> Parts { return parts[size_t(t * pieces + p)]; };
      finish.put(finish.self, t / tiles * inner + j, merge_pieces(size, w, get), w);
    }
  }
};

}  // namespace

void reduce(const Policy& policy, const BlockReader& source, int64_t outer, int64_t n,
            int64_t inner, const Finish& finish) {
  Walk walk{policy, source, outer, n, inner};
  if (inner == 1) {
    walk.run_rows(finish);
  } else if (inner > 0) {
    walk.run_columns(finish);
  }
}

void reduce_row(const Policy& policy, const BlockReader& source, int64_t offset, int64_t count,
                Parts out) {
  Walk{policy, source, 1, count, 1}.row(offset, count, out);
}

}  // namespace rl::cpu
