// How lines of a size are transformed, and memory to do it in.
#pragma once

#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "kernels/cpu/fft_lanes.h"

namespace rl::cpu::fft {

inline constexpr int kLargestRadix = 31;

template <class T>
std::complex<T> root(int64_t k, int64_t n) {
  // The angle within an eighth of the circle, where sine and cosine are exact to rounding.
  int64_t eighth = (8 * k) / n;
  double rest = double(8 * k - eighth * n) / double(n) * (M_PI / 4);
  if (eighth & 1) rest = double((eighth + 1) * n - 8 * k) / double(n) * (M_PI / 4);
  double c = std::cos(rest), s = std::sin(rest), x, y;
  switch (eighth) {
    case 0: x = c, y = s; break;
    case 1: x = s, y = c; break;
    case 2: x = -s, y = c; break;
    case 3: x = -c, y = s; break;
    case 4: x = -c, y = -s; break;
    case 5: x = -s, y = -c; break;
    case 6: x = s, y = -c; break;
    default: x = c, y = -s;
  }
  return {T(x), T(-y)};
}

inline std::vector<int> radices(int64_t n) {
  std::vector<int> found;
  for (int r : {8, 4, 2, 3, 5}) {
    while (n % r == 0) {
      // Two stages of 4 are quicker than one of 8 and one of 2.
      if (r == 8 && n == 16) break;
      found.push_back(r);
      n /= r;
    }
  }
  for (int r = 7; r <= kLargestRadix; r += 2)
    for (; n % r == 0; n /= r) found.push_back(r);
  if (n > 1) found.push_back(0);
  return found;
}

// The divisor of n nearest its root from below.
inline int64_t divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= n; d++)
    if (n % d == 0) best = d;
  return best;
}

template <class T>
std::shared_ptr<const Plan<T>> make_plan(int64_t n) {
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  plan->rows = divisor(n);
  int64_t left = n;
  for (int r : radices(n)) {
    if (r == 0) {
      plan->direct = false;
      plan->stages.clear();
      return plan;
    }
    Stage<T> stage{r, left / r, {}, {}};
    stage.factors.reserve(size_t(stage.rest * (r - 1)));
    for (int64_t p = 0; p < stage.rest; p++)
      for (int64_t j = 1; j < r; j++) stage.factors.push_back(root<T>(p * j, left));
    if (r > 5 && r != 8)
      for (int64_t k = 0; k < r; k++) stage.roots.push_back(root<T>(k, r));
    plan->stages.push_back(std::move(stage));
    left /= r;
  }
  return plan;
}

// Values that are kept by a size, until there are many.
template <class Value>
class Kept {
 public:
  template <class Make>
  std::shared_ptr<const Value> get(int64_t n, const Make& make) {
    std::lock_guard lock(mutex_);
    auto& place = values_[n];
    if (!place) {
      auto made = make(n);
      if (values_.size() > 64) values_.clear();
      values_[n] = made;
      return made;
    }
    return place;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const Value>> values_;
};

// Memory for one thread's lines, kept while it is of moderate size.
class Room {
 public:
  void* get(size_t bytes) {
    if (bytes > size_) {
      data_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      if (!data_) throw std::bad_alloc();
      size_ = bytes;
    }
    return data_.get();
  }
  void trim() {
    if (size_ > (size_t(8) << 20)) data_.reset(), size_ = 0;
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};
}  // namespace rl::cpu::fft
