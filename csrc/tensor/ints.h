// A short list of integers (sizes, strides, dims) that stays off the heap up to five entries.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace rl {

class Ints {
 public:
  static constexpr int kInline = 5;

  Ints() : size_(0) {}
  explicit Ints(int n, int64_t value = 0) {
    reserve(n);
    for (int i = 0; i < n; i++) data()[i] = value;
  }
  Ints(std::initializer_list<int64_t> values) : Ints(values.begin(), int(values.size())) {}
  Ints(const int64_t* values, int n) {
    reserve(n);
    std::memcpy(data(), values, size_t(n) * sizeof(int64_t));
  }
  Ints(const Ints& other) {
    reserve(other.size_);
    if (size_ <= kInline) std::memcpy(inline_, other.inline_, sizeof inline_);
    else copy_long(other);
  }
  Ints(Ints&& other) noexcept { take(other); }
  Ints& operator=(const Ints& other) {
    if (this != &other) {
      if (other.size_ <= kInline && size_ <= kInline) {
        size_ = other.size_;
        std::memcpy(inline_, other.inline_, sizeof inline_);
      } else {
        assign_long(other);
      }
    }
    return *this;
  }
  Ints& operator=(Ints&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~Ints() { drop(); }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return size_ > kInline ? heap_ : inline_; }
  const int64_t* data() const { return size_ > kInline ? heap_ : inline_; }
  int64_t& operator[](int i) { return data()[i]; }
  int64_t operator[](int i) const { return data()[i]; }
  int64_t back() const { return data()[size_ - 1]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }

  void push_back(int64_t value) { insert(size_, value); }
  void insert(int at, int64_t value);
  void erase(int at);
  bool contains(int64_t value) const;

  friend bool operator==(const Ints& a, const Ints& b) {
    if (a.size_ != b.size_) return false;
    const int64_t *x = a.data(), *y = b.data();
    for (int i = 0; i < a.size_; i++)
      if (x[i] != y[i]) return false;
    return true;
  }

 private:
  void reserve(int n) {
    size_ = n;
    if (n > kInline) [[unlikely]]
      reserve_long();
  }
  void drop() {
    if (size_ > kInline) [[unlikely]]
      std::free(heap_);
    size_ = 0;
  }
  void take(Ints& other) {
    size_ = other.size_;
    std::memcpy(inline_, other.inline_, sizeof inline_);
    other.size_ = 0;
  }
  // What only lists on the heap need, or is rare.
  void reserve_long();
  void copy_long(const Ints& other);
  void assign_long(const Ints& other);

  int size_;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

// The number of elements, or -1 when it does not fit 63 bits.
inline int64_t element_count(const Ints& sizes) {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t s : sizes) {
    if (s == 0) return 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  return overflow ? -1 : n;
}

// Steps of dimensions beside one of size 0 may leave 63 bits; nothing lies there.
inline int64_t wrapping_product(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

inline Ints contiguous_strides(const Ints& sizes) {
  Ints strides(sizes.size());
  int64_t step = 1;
  for (int i = sizes.size() - 1; i >= 0; i--) {
    strides[i] = step;
    step = wrapping_product(step, sizes[i] > 1 ? sizes[i] : 1);
  }
  return strides;
}

inline bool is_contiguous(const Ints& sizes, const Ints& strides) {
  int64_t step = 1;
  bool in_order = true;
  for (int i = sizes.size() - 1; i >= 0; i--) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    in_order = in_order && strides[i] == step;
    step = wrapping_product(step, sizes[i]);
  }
  return in_order;
}

// Every element has its own place and there are no gaps, in some order of the dimensions.
bool is_dense(const Ints& sizes, const Ints& strides);

// No two elements share a place, as far as nested strides tell (an exact test is hard).
bool has_distinct_elements(const Ints& sizes, const Ints& strides);

// Two elements may share a place (a true overlap test is hard; this one is exact for the layouts
// that views make and errs on the side of "no overlap", as torch does).
bool overlaps_itself(const Ints& sizes, const Ints& strides);

}  // namespace rl
