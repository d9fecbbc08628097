// vmap: tensors with hidden dimensions. See docs/design/batching.md.
//
// A batched tensor looks like one sample. Beside its own dimensions it has hidden ones over the same
// storage, one for each level it is batched at; an op that meets them runs once over all samples.
#pragma once

#include <vector>

#include "autograd/modes.h"
#include "tensor/tensor.h"

namespace rl {

// The hidden dimensions of a tensor, by level.
struct Batch {
  Ints levels, sizes, strides;
};

// How many batched tensors live. At 0 there is nothing to look for: the one check of an op.
extern int64_t batched_tensors;

inline const Batch* batch_of(const Tensor* t) {
  return batched_tensors && t && t->extra ? t->extra->batch : nullptr;
}
void set_batch(Tensor* t, const Batch& batch);
void drop_batch(Extra* extra);

// The levels of a tensor as one number, for what must remember them: 0 for none.
uint32_t batch_key(const Tensor* t);

// How an op whose struct says nothing is run on batched tensors.
//   Loop:  sample by sample.
//   Shift: once, with the hidden dimensions in front: the op's dims move, its sizes are prefixed.
//   Broadcast: once, with the hidden dimensions in front of tensors of one rank.
enum class Batching : uint8_t { Loop, Shift, Broadcast };

// The hidden dimensions that the arguments of one call have together.
class HiddenDims {
 public:
  Ints levels, sizes;

  void add_tensor(const Tensor* t);
  void add(const Var& v) { add_tensor(v.get()); }
  void add(const std::vector<Var>& vars) {
    for (const Var& v : vars) add(v);
  }
  template <class T>
  void add(const T&) {}

  explicit operator bool() const { return !levels.empty(); }
  int count() const { return levels.size(); }
  int64_t samples() const { return element_count(sizes); }

  // v with all of these dimensions in front, then `ones` dimensions of size one, then its own.
  Var front(const Var& v, int ones = 0) const;
  // front(v), or v itself where it is not batched: for ops that broadcast leading dimensions.
  Var front_if(const Var& v) const;
  // front(v) with its own dimensions as one.
  Var flat(const Var& v) const;
  // The first dimensions of `physical` become hidden.
  Var hide(const Var& physical) const;
  // What the n-th sample sees of v.
  Var sample(const Var& v, int64_t n) const;
  std::vector<Var> sample(const std::vector<Var>& vars, int64_t n) const {
    std::vector<Var> all;
    for (const Var& v : vars) all.push_back(sample(v, n));
    return all;
  }
  template <class T>
  const T& sample(const T& value, int64_t) const {
    return value;
  }
  // The samples' results in one tensor, these dimensions in front.
  Var join(const char* op, const std::vector<Var>& results) const;

  Ints prefixed(const Ints& sizes) const;
};

// The levels that are entered now, innermost last, and what random ops do in them.
struct VmapLevel {
  int64_t id, size;
  enum Randomness : uint8_t { Error, Same, Different } randomness;
};
extern thread_local std::vector<VmapLevel> vmap_levels;
bool is_entered(int64_t level);
// Those in which samples draw numbers of their own; raises where drawing is an error.
HiddenDims random_levels();
// Makes a new tensor, whose content does not matter, batched.
void give_samples(Tensor* t, const HiddenDims& hidden);

// Sums over the hidden dimensions that a gradient has, that what it flows into (`key`) lacks and
// that nobody is inside of any more.
Var sum_left_levels(const Var& grad, uint32_t key);
// The same, for adding to a leaf: also over those that are entered.
Var sum_extra_levels(const Var& grad, const Tensor* leaf);

// Writes into a tensor where it or what is written is batched.
void copy_batched(Tensor* into, const Tensor* src);
// Raises unless `into` has all the levels of what is to be written.
void check_batched_write(const Tensor* into, const Tensor* src);
// t with its hidden dimensions in front.
Var all_samples(const Tensor* t);

// Raises for what one number cannot stand for all samples.
[[noreturn]] void refuse_batched(const char* what);
inline void require_plain(const Tensor* t, const char* what) {
  if (batch_of(t)) [[unlikely]]
    refuse_batched(what);
  t->check_host_access();
}

}  // namespace rl
