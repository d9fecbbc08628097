// In-place and out= forms of ops that have a kernel writing into existing memory.
#pragma once

#include "autograd/inplace.h"
#include "call/layout.h"
#include "call/op.h"
#include "call/pointwise.h"
#include "call/values.h"

namespace rl {

// Whether an expanded tensor has several elements in one place; the same with each place once.
inline bool repeats(const Tensor* t) {
  return !t->contiguous && overlaps_itself(t->sizes, t->strides);
}
inline Var without_repeats(const Tensor* t) {
  Ints sizes = t->sizes;
  for (int i = 0; i < sizes.size(); i++)
    if (t->strides[i] == 0 && sizes[i] > 1) sizes[i] = 1;
  return alias(t, std::move(sizes), Ints(t->strides), t->offset);
}
// What torch still allows on expanded tensors, where no gradient can go wrong.
inline bool may_repeat(const Tensor* self, const Var& value, const char* op) {
  if (!repeats(self) || is_tracked(self) || is_tracked(value.get())) return false;
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "Use of %s on expanded tensors is deprecated. Please clone() the tensor "
                       "before performing this operation.",
                       op) < 0)
    throw PythonError{};
  return true;
}

// Raise unless a result of this type may be written, and unless what is written to has no gradients.
void check_cast(DType result, DType into);
void check_out(bool requires_grad, const Tensor* into, const char* name);

// Runs write() on self's memory and makes Op, applied to args, part of self's history. Whatever
// may fail on the user's arguments is checked before, so that a refused call changes nothing.
template <class Op, class Write, class... A>
void write_inplace(Tensor* self, const char* name, const Write& write, const A&... args) {
  check_inplace(self, name);
  check_writable(self);
  static_assert(Op::form == Form::Linear, "the tangent must not depend on what is written");
  Var history;
  detail::Runner<Op, decltype(&Op::forward)>::with(
      [&](const OpRecord& op, Values values) {
        admit(op, self, values);
        bool recorded = modes.records() && requires_any(op, values);
        if (recorded || dual_levels) history = alias(self);
        if (recorded) record(op, values, &history, 1);
        if (dual_levels) push_forward(op, values, &history, 1);
      },
      args...);
  prepare_write(self, name);
  {
    Plain plain;
    write();
  }
  take_over(self, history);
}

// In place without a kernel for it, for ops whose rule reads the input: they get a copy to keep.
template <class Result>
void replace_inplace(Tensor* self, const char* name, const Result& result) {
  check_inplace(self, name);
  check_writable(self);
  Var now = result(modes.records() ? ops::clone(Var(self)) : Var(self));
  prepare_write(self, name);
  ops::copy_data(self, now.get());
  take_over(self, now);
}

// out=: the result's elements go into a tensor that is resized to hold them.
void write_out(Tensor* into, const Var& result, const char* name);
// Its checks alone, for ops of several results: all are checked before one is written.
void check_out(const Tensor* into, const Tensor* result, const char* name);

// The tensor, or a copy of it when it shares memory with what is about to be written.
inline Var apart_from(const Tensor* written, const Var& v) {
  if (!v || v->storage != written->storage) return v;
  Plain plain;
  return ops::clone(v);
}

}  // namespace rl
