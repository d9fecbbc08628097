#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

// The outputs j in [begin, end) whose input j * stride + shift is inside.
struct Inside {
  int64_t begin, end;
  Inside(int64_t shift, int64_t stride, int64_t input, int64_t output) {
    begin = shift < 0 ? (-shift + stride - 1) / stride : 0;
    end = shift < input ? (input - 1 - shift) / stride + 1 : 0;
    begin = std::min(begin, output);
    end = std::clamp(end, begin, output);
  }
};

// Calls row(offset in x of the first element, in columns of the first position, Inside) for each row
// of a tap, or blank(columns offset) for rows in the padding.
template <class Row, class Blank>
void walk_tap(const Convolution& c, int64_t line, const Row& row, const Blank& blank) {
  int64_t taps = volume(c.kernel), channel = line / taps, tap = line % taps;
  Extent k{tap / c.kernel[2] / c.kernel[1], tap / c.kernel[2] % c.kernel[1], tap % c.kernel[2]};
  Extent shift;
  for (int i = 0; i < 3; ++i) shift[i] = k[i] * c.dilation[i] - c.padding[i];
  Inside inside(shift[2], c.stride[2], c.input[2], c.output[2]);
  int64_t to = line * volume(c.output);
  for (int64_t d = 0; d < c.output[0]; ++d) {
    for (int64_t h = 0; h < c.output[1]; ++h, to += c.output[2]) {
      int64_t y = d * c.stride[0] + shift[0], z = h * c.stride[1] + shift[1];
      if (y < 0 || y >= c.input[0] || z < 0 || z >= c.input[1]) {
        blank(to);
      } else {
        row(((channel * c.input[0] + y) * c.input[1] + z) * c.input[2] + shift[2], to, inside);
      }
    }
  }
}

template <class T>
void unfold_as(const Convolution& c, const T* x, T* columns) {
  int64_t lines = c.in * volume(c.kernel);
  parallel_for(lines, grain(volume(c.output)), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      walk_tap(
          c, line,
          [&](int64_t from, int64_t to, const Inside& inside) {
            T* out = columns + to;
            const T* in = x + from;
            std::memset(static_cast<void*>(out), 0, size_t(inside.begin) * sizeof(T));
            if (c.stride[2] == 1) {
              std::memcpy(static_cast<void*>(out + inside.begin), in + inside.begin,
                          size_t(inside.end - inside.begin) * sizeof(T));
            } else {
              for (int64_t j = inside.begin; j < inside.end; ++j) out[j] = in[j * c.stride[2]];
            }
            std::memset(static_cast<void*>(out + inside.end), 0,
                        size_t(c.output[2] - inside.end) * sizeof(T));
          },
          [&](int64_t to) {
            std::memset(static_cast<void*>(columns + to), 0, size_t(c.output[2]) * sizeof(T));
          });
    }
  });
}

template <class T>
void fold_as(const Convolution& c, const T* columns, T* x) {
  int64_t taps = volume(c.kernel);
  parallel_for(c.in, grain(volume(c.output) * taps), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin * taps; line < end * taps; ++line) {
      walk_tap(
          c, line,
          [&](int64_t to, int64_t from, const Inside& inside) {
            for (int64_t j = inside.begin; j < inside.end; ++j) {
              x[to + j * c.stride[2]] = x[to + j * c.stride[2]] + columns[from + j];
            }
          },
          [](int64_t) {});
    }
  });
}

struct Wide {
  uint64_t low, high;
};

}  // namespace

void unfold(DType d, const Convolution& c, const void* x, void* columns) {
  auto run = [&]<class T>(T) {
    unfold_as<T>(c, static_cast<const T*>(x), static_cast<T*>(columns));
  };
  switch (itemsize(d)) {
    case 1: return run(uint8_t());
    case 2: return run(uint16_t());
    case 4: return run(uint32_t());
    case 8: return run(uint64_t());
    default: return run(Wide());
  }
}

void fold(DType d, const Convolution& c, const void* columns, void* x) {
  visit(d, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, Bool>)
      fold_as<T>(c, static_cast<const T*>(columns), static_cast<T*>(x));
  });
}

}  // namespace rl::cpu
