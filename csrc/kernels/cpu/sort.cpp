// Values become unsigned keys of the same order; a key with its index below it is one integer, so
// that any sort of those is stable. Long rows are sorted by radix, short ones by comparison.
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kShort = 128;     // rows below this are sorted by comparison
constexpr int64_t kParts = 8;       // pieces of a long row that threads share
constexpr int64_t kLong = 1 << 17;  // rows from here on are worth sharing

template <int Bytes> struct Unsigned;
template <> struct Unsigned<1> {
  using type = uint8_t;
};
template <> struct Unsigned<2> {
  using type = uint16_t;
};
template <> struct Unsigned<4> {
  using type = uint32_t;
};
template <> struct Unsigned<8> {
  using type = uint64_t;
};

template <class T>
using Key = typename Unsigned<sizeof(T)>::type;

// Key and index in one integer.
template <class T>
using Packed = std::conditional_t<sizeof(T) == 8, unsigned __int128, uint64_t>;
template <class T>
constexpr int kIndexBits = sizeof(T) == 8 ? 64 : 32;

template <class T>
RL_INLINE Key<T> key_of(T x) {
  using K = Key<T>;
  constexpr K top = K(K(1) << (8 * sizeof(T) - 1));
  if constexpr (std::is_same_v<T, Bool>) {
    return K(bool(x));
  } else if constexpr (std::is_unsigned_v<T>) {
    return K(x);
  } else if constexpr (std::is_integral_v<T>) {
    return K(K(x) ^ top);
  } else {
    K bits;
    std::memcpy(&bits, &x, sizeof(T));
    K infinity;
    if constexpr (std::is_same_v<T, F16>) {
      infinity = 0x7c00;
    } else if constexpr (std::is_same_v<T, BF16>) {
      infinity = 0x7f80;
    } else {
      T inf = std::numeric_limits<T>::infinity();
      std::memcpy(&infinity, &inf, sizeof(T));
    }
    K magnitude = K(bits & ~top);
    // Both zeros are equal, and so are all NaNs.
    K key = magnitude == 0 ? top : K(bits & top ? ~bits : bits | top);
    return magnitude > infinity ? K(~K(0)) : key;
  }
}

template <class T>
RL_INLINE void make_keys_loop(const T* in, Key<T>* keys, int64_t n, Key<T> flip) {
  for (int64_t i = 0; i < n; ++i) keys[i] = Key<T>(key_of(in[i]) ^ flip);
}

#define RL_KEYS(T)                                                              \
  RL_CLONES void make_keys(const T* in, Key<T>* keys, int64_t n, Key<T> flip) { \
    make_keys_loop(in, keys, n, flip);                                          \
  }
RL_KEYS(Bool)
RL_KEYS(uint8_t)
RL_KEYS(int8_t)
RL_KEYS(int16_t)
RL_KEYS(int32_t)
RL_KEYS(int64_t)
RL_KEYS(F16)
RL_KEYS(BF16)
RL_KEYS(float)
RL_KEYS(double)

// Packs items [begin, end) of a row.
template <class T>
void pack(const T* in, int64_t begin, int64_t end, Key<T> flip, Packed<T>* out) {
  constexpr int64_t block = 1024;
  Key<T> keys[block];
  for (int64_t i = begin; i < end; i += block) {
    int64_t count = std::min(block, end - i);
    make_keys(in + i, keys, count, flip);
    for (int64_t j = 0; j < count; ++j) {
      out[i + j] = Packed<T>(keys[j]) << kIndexBits<T> | Packed<T>(i + j);
    }
  }
}

template <class T>
int64_t index_of(Packed<T> item) {
  return int64_t(item & ((Packed<T>(1) << kIndexBits<T>)-1));
}

template <class T>
void store(const T* in, const Packed<T>* items, int64_t begin, int64_t end, T* values,
           int64_t* indices) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = index_of<T>(items[i]);
    indices[i] = at;
    values[i] = in[at];
  }
}

// One stable pass over Bits bits; false (and nothing moved) when they are the same in all items.
// The row's parts are counted and moved each on its own.
template <class P, int Bits>
bool radix_pass(const P* from, P* to, int64_t n, int shift, int64_t parts,
                std::vector<uint32_t>& counts) {
  constexpr uint32_t size = 1u << Bits;
  auto digit = [=](P x) { return uint32_t(x >> shift) & (size - 1); };
  int64_t piece = (n + parts - 1) / parts;
  counts.assign(size_t(size * parts), 0);
  parallel_chunks(parts, [&](int64_t part) {
    uint32_t* count = counts.data() + part * size;
    int64_t end = std::min(n, (part + 1) * piece);
    for (int64_t i = part * piece; i < end; ++i) ++count[digit(from[i])];
  });
  uint32_t first = digit(from[0]), same = 0;
  for (int64_t part = 0; part < parts; ++part) same += counts[size_t(part * size + first)];
  if (same == n) return false;
  uint32_t sum = 0;
  for (uint32_t d = 0; d < size; ++d) {
    for (int64_t part = 0; part < parts; ++part) {
      uint32_t& count = counts[size_t(part * size + d)];
      uint32_t here = count;
      count = sum;
      sum += here;
    }
  }
  parallel_chunks(parts, [&](int64_t part) {
    uint32_t* place = counts.data() + part * size;
    int64_t end = std::min(n, (part + 1) * piece);
    for (int64_t i = part * piece; i < end; ++i) to[place[digit(from[i])]++] = from[i];
  });
  return true;
}

// Sorts items by their keys, and so by their indices among equals, which come in order. The
// result is in items or in other: the one returned. Only bits in which keys differ are looked at,
// and of those the upper 32 or so: what they leave undecided is rare and settled by comparison.
template <class T, int Bits>
Packed<T>* radix_sort(Packed<T>* items, Packed<T>* other, int64_t n, int64_t parts,
                      std::vector<uint32_t>& counts) {
  constexpr int window = (32 + Bits - 1) / Bits * Bits;
  Key<T> differ = 0, first = Key<T>(items[0] >> kIndexBits<T>);
  for (int64_t i = 1; i < n; ++i) differ |= Key<T>(items[i] >> kIndexBits<T>) ^ first;
  int top = 64 - __builtin_clzll(uint64_t(differ) | 1), low = std::max(0, top - window);
  for (int bit = low; bit < top; bit += Bits) {
    if (radix_pass<Packed<T>, Bits>(items, other, n, kIndexBits<T> + bit, parts, counts)) {
      std::swap(items, other);
    }
  }
  int shift = kIndexBits<T> + low;
  for (int64_t i = 0, end; low > 0 && i < n; i = end) {
    for (end = i + 1; end < n && items[end] >> shift == items[i] >> shift;) ++end;
    if (end - i > 1) std::sort(items + i, items + end);
  }
  return items;
}

template <class T>
struct Scratch {
  std::unique_ptr<Packed<T>[]> items, other;
  std::vector<uint32_t> counts;
  explicit Scratch(int64_t n) : items(new Packed<T>[size_t(n)]), other(new Packed<T>[size_t(n)]) {}
};

template <class T>
Packed<T>* sort_items(Scratch<T>& scratch, int64_t n) {
  Packed<T>* items = scratch.items.get();
  if (n < kShort || n >= (int64_t(1) << 32)) {
    std::sort(items, items + n);
    return items;
  }
  int64_t parts = n >= kLong ? kParts : 1;
  constexpr int wide = sizeof(T) == 1 ? 8 : 11;
  return n < 8192 ? radix_sort<T, 8>(items, scratch.other.get(), n, parts, scratch.counts)
                  : radix_sort<T, wide>(items, scratch.other.get(), n, parts, scratch.counts);
}

template <class T>
void sort_typed(const T* in, T* values, int64_t* indices, int64_t rows, int64_t cols,
                bool descending) {
  Key<T> flip = descending ? Key<T>(~Key<T>(0)) : Key<T>(0);
  int64_t together = grain(2 * cols);
  // A single row is shared between the threads, several are dealt out to them.
  if (rows <= together || (rows == 1 && cols >= kLong)) together = rows;
  parallel_for(rows, together, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch(cols);
    for (int64_t r = begin; r < end; ++r) {
      const T* row = in + r * cols;
      auto over_row = [&](const auto& body) {
        parallel_for(cols, std::max<int64_t>(kLong / 4, (cols + kParts - 1) / kParts), body);
      };
      over_row([&](int64_t b, int64_t e) { pack(row, b, e, flip, scratch.items.get()); });
      Packed<T>* sorted = sort_items<T>(scratch, cols);
      over_row([&](int64_t b, int64_t e) {
        store(row, sorted, b, e, values + r * cols, indices + r * cols);
      });
    }
  });
}

constexpr int64_t kScan = 64;        // keys that are passed over together
constexpr int64_t kTopkBlock = 256;  // keys made at a time

// flags[b]: whether any of the b-th kScan keys is below the limit.
template <class K>
RL_INLINE void flag_loop(const K* keys, int64_t blocks, K limit, bool* flags) {
  for (int64_t b = 0; b < blocks; ++b) {
    K any = 0;
    for (int64_t i = 0; i < kScan; ++i) any |= K(keys[b * kScan + i] < limit);
    flags[b] = any != 0;
  }
}
#define RL_FLAG(K)                                                                 \
  RL_CLONES void flag_below(const K* keys, int64_t blocks, K limit, bool* flags) { \
    flag_loop(keys, blocks, limit, flags);                                         \
  }
RL_FLAG(uint8_t)
RL_FLAG(uint16_t)
RL_FLAG(uint32_t)
RL_FLAG(uint64_t)

// Keeps the k least items of a row seen so far in a buffer of more than k, cut back when full.
template <class T>
class Best {
 public:
  Best(int64_t k, int64_t room) : k_(k), room_(k + room), items_(size_t(room_)) {}
  void clear() { count_ = 0, full_ = false; }
  // Items with a key below the k-th best so far may still count; indices only grow.
  void add(const Key<T>* keys, int64_t n, int64_t first) {
    int64_t blocks = full_ ? n / kScan : 0;
    bool flags[kTopkBlock / kScan];
    flag_below(keys, blocks, limit_, flags);
    for (int64_t b = 0; b < blocks; ++b) {
      if (flags[b]) add_each(keys, b * kScan, (b + 1) * kScan, first);
    }
    add_each(keys, blocks * kScan, n, first);
  }
  const Packed<T>* finish() {
    if (count_ > k_) cut();
    std::sort(items_.begin(), items_.begin() + count_);
    return items_.data();
  }

 private:
  void add_each(const Key<T>* keys, int64_t begin, int64_t end, int64_t first) {
    for (int64_t j = begin; j < end; ++j) {
      if (full_ && keys[j] >= limit_) continue;
      items_[size_t(count_++)] = Packed<T>(keys[j]) << kIndexBits<T> | Packed<T>(first + j);
      if (count_ == room_) cut();
    }
  }
  void cut() {
    std::nth_element(items_.begin(), items_.begin() + (k_ - 1), items_.begin() + count_);
    count_ = k_;
    limit_ = Key<T>(items_[size_t(k_ - 1)] >> kIndexBits<T>);
    full_ = true;
  }
  int64_t k_, room_, count_ = 0;
  bool full_ = false;
  Key<T> limit_ = 0;
  std::vector<Packed<T>> items_;
};

template <class T>
void topk_typed(const T* in, T* values, int64_t* indices, int64_t rows, int64_t cols, int64_t k,
                bool largest) {
  Key<T> flip = largest ? Key<T>(~Key<T>(0)) : Key<T>(0);
  parallel_for(rows, grain(2 * cols), [&](int64_t begin, int64_t end) {
    Key<T> keys[kTopkBlock];
    Best<T> best(k, std::min<int64_t>(std::max<int64_t>(k, 32), cols - k + 1));
    for (int64_t r = begin; r < end; ++r) {
      const T* row = in + r * cols;
      best.clear();
      for (int64_t i = 0; i < cols; i += kTopkBlock) {
        int64_t count = std::min(kTopkBlock, cols - i);
        make_keys(row + i, keys, count, flip);
        best.add(keys, count, i);
      }
      store(row, best.finish(), 0, k, values + r * k, indices + r * k);
    }
  });
}

// Calls f with a null pointer of the type that d's values are ordered by.
template <class F>
void ordered(DType d, const F& f) {
  switch (d) {
    case DType::Bool: return f(static_cast<Bool*>(nullptr));
    case DType::U8: return f(static_cast<uint8_t*>(nullptr));
    case DType::I8: return f(static_cast<int8_t*>(nullptr));
    case DType::I16: return f(static_cast<int16_t*>(nullptr));
    case DType::I32: return f(static_cast<int32_t*>(nullptr));
    case DType::I64: return f(static_cast<int64_t*>(nullptr));
    case DType::F16: return f(static_cast<F16*>(nullptr));
    case DType::BF16: return f(static_cast<BF16*>(nullptr));
    case DType::F32: return f(static_cast<float*>(nullptr));
    default: return f(static_cast<double*>(nullptr));
  }
}

}  // namespace

void sort_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               bool descending) {
  if (rows == 0 || cols == 0) return;
  ordered(d, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    sort_typed(static_cast<const T*>(in), static_cast<T*>(values), indices, rows, cols, descending);
  });
}

void topk_rows(DType d, const void* in, void* values, int64_t* indices, int64_t rows, int64_t cols,
               int64_t k, bool largest) {
  if (rows == 0 || k == 0) return;
  ordered(d, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    topk_typed(static_cast<const T*>(in), static_cast<T*>(values), indices, rows, cols, k, largest);
  });
}

}  // namespace rl::cpu
