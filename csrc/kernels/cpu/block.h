// Blocks of elements brought to the type a kernel computes in, and back: kernels are then written
// for five types instead of twelve, and a block in the first-level cache costs little to convert.
#pragma once

#include <type_traits>

#include "kernels/cpu/simd.h"
#include "tensor/dtype.h"

namespace rl::cpu {

// Integers wrap around: their arithmetic is done unsigned.
template <class T>
RL_INLINE T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(a) + uint64_t(b));
  else return T(a + b);
}
template <class T>
RL_INLINE T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(a) * uint64_t(b));
  else return T(a * b);
}

using Convert = void (*)(const void* from, void* to, int64_t n);

// Conversion from d to To and back; null when d is To itself. To is int64_t for bool and
// integers, float for halves, double for reals, c64 or c128 for complex.
template <class To>
Convert loader(DType d);
template <class From>
Convert storer(DType d);

// x != 0 as an int64_t 0 or 1.
Convert nonzero_loader(DType d);
// |x| of a complex dtype as float or double.
Convert abs_loader(DType d);

// A contiguous tensor read in blocks: converted by `load`, then mapped by `map`, when set.
struct BlockReader {
  const char* x;
  int64_t size;
  DType dtype;
  Convert load;
  void (*map)(const void* from, void* to, int64_t n, double parameter) = nullptr;
  double parameter = 0;

  BlockReader(DType d, const void* data, Convert convert)
      : x(static_cast<const char*>(data)), size(itemsize(d)), dtype(d), load(convert) {}

  bool direct() const { return !load && !map; }

  // n elements from `offset` on; `buffer` holds them unless they can be read in place.
  const void* fetch(int64_t offset, int64_t n, void* buffer) const {
    const void* block = x + offset * size;
    if (load) {
      load(block, buffer, n);
      block = buffer;
    }
    if (map) {
      map(block, buffer, n, parameter);
      block = buffer;
    }
    return block;
  }
};

// Blocks of C.
template <class C>
struct Source : BlockReader {
  Source(DType d, const void* data, Convert convert) : BlockReader(d, data, convert) {}
  Source(DType d, const void* data) : Source(d, data, loader<C>(d)) {}

  const C* fetch(int64_t offset, int64_t n, C* buffer) const {
    return static_cast<const C*>(BlockReader::fetch(offset, n, buffer));
  }
};

// Writes n values of C to y[at...], of dtype d.
template <class C>
void put(DType d, void* y, int64_t at, const C* values, int64_t n) {
  char* to = static_cast<char*>(y) + at * itemsize(d);
  if (Convert store = storer<C>(d)) return store(values, to, n);
  std::memcpy(to, values, size_t(n) * sizeof(C));
}

}  // namespace rl::cpu
