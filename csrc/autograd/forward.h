// Forward mode: tensors that carry tangents. See docs/design/forward-mode.md.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rl {

// A set of dual levels, one bit for each.
using Levels = uint64_t;
inline constexpr int kMaxLevels = 64;

// How many levels are entered. At 0 no tensor has a tangent: the one check on the path of an op.
extern int dual_levels;

// The tangents of a tensor and of its views, which see their part of them. A tangent of one level
// may itself have tangents, of lower levels only.
struct Tangents {
  struct One {
    int level;
    Var value;
  };
  Var whole;              // what `value` has the shape of
  std::vector<One> list;  // by level
  int holders = 0;

  explicit Tangents(Var of) : whole(std::move(of)) {}
  ~Tangents();
  Tangents(const Tangents&) = delete;
};
void release(Tangents* tangents);

Levels levels_slow(const Tensor* t);
// The levels at which t has a tangent that this thread may see.
inline Levels levels_of(const Tensor* t) {
  return dual_levels && t && t->extra ? levels_slow(t) : 0;
}
inline int lowest(Levels levels) { return __builtin_ctzll(levels); }

// The tangent of t at a level, with the sizes and the dtype of t; none when it has none.
Var tangent_of(const Var& t, int level);
// t without its tangents of this level and higher ones; its history stays.
Var below(const Var& t, int level);
// Makes value, cast and expanded, the tangent of t (and of what t is a view of).
void set_tangent(Tensor* t, int level, const Var& value);
// After a write: the tangents of t are those of `now`, zero at levels where it has none.
void replace_tangents(Tensor* t, const Var& now);
// Lets `to`, which is on the same memory, have the tangents of `from`, also those to come.
void share_tangents(Tensor* to, Tensor* from);
// Gives t tangents of its own, none yet, whatever it is a view of.
void separate_tangents(Tensor* t);
// A tensor in the place of t that is there for t's tangents alone, also those to come; none outside
// forward mode.
Var tangents_alone(Tensor* t);
// Another tensor with the memory and the history of t, and the tangents of `from`.
Var with_tangents(const Var& t, const Var& from);
// Another tensor with the memory, the history and the tangents of t.
Var stand_in(Tensor* t);

// Whether a derivative of t is wanted, in either mode.
inline bool is_tracked(const Tensor* t) { return records(t) || levels_of(t); }
// After a write: t has the history and the tangents of `written`, where there is one.
void take_over(Tensor* t, const Var& written);

int enter_dual_level();
void exit_dual_level();
// A view of primal that has a tangent; what dual is without its tangent; the tangent.
Var make_dual(const Var& primal, const Var& tangent, int level);
Var primal_of(const Var& dual, int level);
Var full_tangent_of(const Var& dual, int level);

[[noreturn]] void refuse_out(const char* op);

// The levels that operations of this thread see, for a C++ scope.
class VisibleLevels {
 public:
  explicit VisibleLevels(Levels seen) : before_(modes.levels) { modes.levels &= seen; }
  ~VisibleLevels() { modes.levels = before_; }
  VisibleLevels(const VisibleLevels&) = delete;

 private:
  Levels before_;
};

// Nothing is recorded and no tangent is seen: how an op computes its values.
class Plain {
 public:
  Plain() : grad_(modes.grad), levels_(modes.levels) {
    modes.grad = false;
    modes.levels = 0;
  }
  ~Plain() {
    modes.grad = grad_;
    modes.levels = levels_;
  }
  Plain(const Plain&) = delete;

 private:
  bool grad_;
  Levels levels_;
};

}  // namespace rl
