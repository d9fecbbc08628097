// Common subexpressions of higher derivatives. A backward pass over what a backward pass recorded
// evaluates the same derivatives of the same values again, and the next pass differentiates every
// copy. So in such passes ops look for the node that they recorded for the same arguments, and take
// it if it is still alive, with its result or with one that is computed again: gradients meet there
// and go on as one sum.
//
// The results are equal but not the same to users: one whom a gradient was shown may ask for
// derivatives with respect to it. What was shown is not shared (for_user in autograd/engine.cpp).
#pragma once

#include <optional>
#include <type_traits>

#include "autograd/node.h"

namespace rl {

// Lets ops share their results for a C++ scope. Code of users runs outside.
class Sharing {
 public:
  explicit Sharing(bool on) : before_(modes.shares) { modes.shares = on; }
  ~Sharing() { modes.shares = before_; }
  Sharing(const Sharing&) = delete;

 private:
  bool before_;
};

// An op and its arguments. Tensors that have a history are known by it, others by their memory; those
// that repeat one value, as the first gradient does, by that.
class CallKey {
 public:
  explicit CallKey(const void* op) { put(reinterpret_cast<uint64_t>(op)); }

  void add(const Var& v);
  void add(double value);
  void add(const Ints& values) {
    put(uint64_t(values.size()));
    for (int64_t value : values) put(uint64_t(value));
  }
  template <class T>
  void add(const std::optional<T>& value) {
    put(value.has_value());
    if (value) add(*value);
  }
  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void add(T value) {
    put(uint64_t(value));
  }
  // Anything else is not compared: the call is not shared.
  template <class T>
    requires(!std::is_arithmetic_v<T> && !std::is_enum_v<T>)
  void add(const T&) {
    complete_ = false;
  }

  bool complete() const { return complete_; }
  size_t hash() const;
  friend bool operator==(const CallKey& a, const CallKey& b);

 private:
  static constexpr int kWords = 24;

  void add_bytes(const char* data, int64_t bytes);
  void put(uint64_t word) {
    if (count_ < kWords) words_[count_++] = word;
    else complete_ = false;
  }

  uint64_t words_[kWords];
  int count_ = 0;
  bool complete_ = true;
};

// What an earlier call with the key left: its node, or the number of its memory if it was not
// recorded, and the result if that is alive as well.
struct Found {
  NodeRef node;
  Var result;
  uint64_t number = 0;

  explicit operator bool() const { return number != 0; }
};
Found find_shared(const CallKey& key);
void keep_shared(const CallKey& key, const Var& result);
// Makes a result that was computed again known as the one that was found.
void adopt(const Var& result, const Found& found);

template <class F>
Var shared(const CallKey& key, const F& compute) {
  if (!key.complete()) return compute();
  Found found = find_shared(key);
  if (found.result) return found.result;
  Var result;
  if (found) {
    GradMode off(false);
    result = compute();
    adopt(result, found);
  } else {
    result = compute();
  }
  keep_shared(key, result);
  return result;
}

}  // namespace rl
