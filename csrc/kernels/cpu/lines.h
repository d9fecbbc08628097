// The lines along n of [outer, n, inner] as contiguous rows of the compute type C, for kernels
// that go over a line several times: read in place when they are that already, else copied into
// a buffer, kLines neighbouring ones at a time.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

constexpr int64_t kLines = 16;

struct Lines {
  int64_t outer, n, inner;

  int64_t across() const { return (inner + kLines - 1) / kLines; }
  int64_t groups() const { return outer * across(); }
  int64_t count(int64_t group) const { return std::min(kLines, inner - group % across() * kLines); }
  // The number of a group's first line: its position in [outer, inner].
  int64_t first(int64_t group) const {
    return group / across() * inner + group % across() * kLines;
  }
  int64_t offset(int64_t group) const {
    return group / across() * n * inner + group % across() * kLines;
  }
  // Padded, or the lines of a power-of-two length would share cache sets.
  int64_t pitch() const { return inner == 1 ? n : n + 16; }
  int64_t room() const { return pitch() * std::min(inner, kLines); }

  // Calls body(first group, end) on chunks of groups.
  template <class Body>
  void split(const Body& body) const {
    int64_t work = std::max<int64_t>(n * std::min(inner, kLines), 1);
    parallel_for(groups(), grain(work), body);
  }
};

// A square of kLines rows of kLines, turned over its diagonal.
template <class C>
inline void turn(const C* __restrict from, int64_t from_pitch, C* __restrict to, int64_t to_pitch) {
  for (int64_t k = 0; k < kLines; ++k) {
    for (int64_t r = 0; r < kLines; ++r) to[k * to_pitch + r] = from[r * from_pitch + k];
  }
}

// Memory for a few short lines without the heap, in whole cache lines: a vector that lies in two of
// them takes twice as long.
template <class C>
class Scratch {
 public:
  C* get(int64_t n) {
    if (n <= 1024) return near_;
    if (!far_) far_.reset(new Line[size_t(n) / Line::kCount + 1]);
    return reinterpret_cast<C*>(far_.get());
  }

 private:
  struct alignas(64) Line {
    static constexpr size_t kCount = 64 / sizeof(C);
    C values[kCount];
  };
  alignas(64) C near_[1024];
  std::unique_ptr<Line[]> far_;
};

template <class C>
class LineReader {
 public:
  LineReader(const Lines& lines, DType d, const void* x) : lines_(lines), source_(d, x) {}

  // Makes a group's lines readable.
  void load(int64_t group) {
    int64_t offset = lines_.offset(group), count = lines_.count(group);
    if (lines_.inner == 1) {
      C* buffer = source_.direct() ? nullptr : scratch_.get(lines_.room());
      at_ = source_.fetch(offset, lines_.n, buffer);
      return;
    }
    C* buffer = scratch_.get(lines_.room());
    at_ = buffer;
    int64_t pitch = lines_.pitch(), r = 0;
    C square[kLines * kLines];
    for (; count == kLines && r + kLines <= lines_.n; r += kLines) {
      const C* from = source_.fetch(offset + r * lines_.inner, kLines, square);
      if (from == square) {
        for (int64_t k = 1; k < kLines; ++k) {
          source_.fetch(offset + (r + k) * lines_.inner, kLines, square + k * kLines);
        }
      }
      turn(from, from == square ? kLines : lines_.inner, buffer + r, pitch);
    }
    for (; r < lines_.n; ++r) {
      const C* from = source_.fetch(offset + r * lines_.inner, count, square);
      for (int64_t k = 0; k < count; ++k) buffer[k * pitch + r] = from[k];
    }
  }
  const C* line(int64_t k) const { return at_ + k * lines_.pitch(); }

 private:
  const Lines lines_;
  const Source<C> source_;
  const C* at_ = nullptr;
  Scratch<C> scratch_;
};

template <class C>
class LineWriter {
 public:
  LineWriter(const Lines& lines, DType d, void* y)
      : lines_(lines), y_(static_cast<char*>(y)), size_(itemsize(d)), store_(storer<C>(d)) {}

  void open(int64_t group) {
    bool direct = lines_.inner == 1 && !store_;
    at_ = direct ? reinterpret_cast<C*>(y_) + lines_.offset(group) : scratch_.get(lines_.room());
  }
  C* line(int64_t k) const { return at_ + k * lines_.pitch(); }
  void store(int64_t group) const {
    char* to = y_ + lines_.offset(group) * size_;
    int64_t count = lines_.count(group);
    if (lines_.inner == 1) {
      if (store_) store_(at_, to, lines_.n);
      return;
    }
    int64_t pitch = lines_.pitch(), r = 0, step = lines_.inner * size_;
    C square[kLines * kLines];
    for (; count == kLines && r + kLines <= lines_.n; r += kLines) {
      if (!store_) {
        turn(at_ + r, pitch, reinterpret_cast<C*>(to + r * step), lines_.inner);
        continue;
      }
      turn(at_ + r, pitch, square, kLines);
      for (int64_t k = 0; k < kLines; ++k) store_(square + k * kLines, to + (r + k) * step, kLines);
    }
    for (; r < lines_.n; ++r) {
      for (int64_t k = 0; k < count; ++k) square[k] = at_[k * pitch + r];
      store_ ? store_(square, to + r * step, count)
             : void(std::memcpy(to + r * step, square, size_t(count * size_)));
    }
  }

 private:
  const Lines lines_;
  char* y_;
  const int64_t size_;
  const Convert store_;
  C* at_ = nullptr;
  Scratch<C> scratch_;
};

// A vector of n values (null stays null), converted to C as a whole.
template <class C>
class Vector {
 public:
  Vector(DType d, const void* x, int64_t n) {
    if (!x) return;
    Source<C> source(d, x);
    at_ = source.fetch(0, n, source.direct() ? nullptr : scratch_.get(n));
  }
  const C* get() const { return at_; }

 private:
  const C* at_ = nullptr;
  Scratch<C> scratch_;
};

}  // namespace rl::cpu
