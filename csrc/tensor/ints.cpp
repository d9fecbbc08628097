#include "tensor/ints.h"

#include <algorithm>
#include <new>

namespace rl {

namespace {

// Dimensions of more than one element, by growing stride.
Ints by_stride(const Ints& sizes, const Ints& strides) {
  Ints order;
  for (int i = 0; i < sizes.size(); i++)
    if (sizes[i] != 1) order.push_back(i);
  std::sort(order.data(), order.data() + order.size(), [&](int64_t a, int64_t b) {
    return strides[int(a)] != strides[int(b)] ? strides[int(a)] < strides[int(b)] : a > b;
  });
  return order;
}

}  // namespace

void Ints::reserve_long() {
  heap_ = static_cast<int64_t*>(std::malloc(size_t(size_) * sizeof(int64_t)));
  if (!heap_) {
    size_ = 0;
    throw std::bad_alloc();
  }
}

void Ints::copy_long(const Ints& other) {
  std::memcpy(heap_, other.heap_, size_t(size_) * sizeof(int64_t));
}

void Ints::assign_long(const Ints& other) {
  Ints copy(other);
  drop();
  take(copy);
}

void Ints::insert(int at, int64_t value) {
  Ints grown(size_ + 1);
  std::copy(begin(), begin() + at, grown.data());
  grown[at] = value;
  std::copy(begin() + at, end(), grown.data() + at + 1);
  *this = std::move(grown);
}

void Ints::erase(int at) {
  Ints shrunk(size_ - 1);
  std::copy(begin(), begin() + at, shrunk.data());
  std::copy(begin() + at + 1, end(), shrunk.data() + at);
  *this = std::move(shrunk);
}

bool Ints::contains(int64_t value) const { return std::find(begin(), end(), value) != end(); }

bool is_dense(const Ints& sizes, const Ints& strides) {
  for (int64_t s : sizes)
    if (s == 0) return true;
  int64_t step = 1;
  for (int64_t d : by_stride(sizes, strides)) {
    if (strides[int(d)] != step) return false;
    step = wrapping_product(step, sizes[int(d)]);
  }
  return true;
}

bool has_distinct_elements(const Ints& sizes, const Ints& strides) {
  int64_t reach = 0;  // the last place that the dimensions so far can address
  for (int64_t d : by_stride(sizes, strides)) {
    if (strides[int(d)] <= reach) return false;
    reach += (sizes[int(d)] - 1) * strides[int(d)];
  }
  return true;
}

bool overlaps_itself(const Ints& sizes, const Ints& strides) {
  for (int64_t s : sizes)
    if (s == 0) return false;
  for (int i = 0; i < sizes.size(); i++)
    if (sizes[i] > 1 && strides[i] == 0) return true;
  return false;
}

}  // namespace rl
