// In-place writes and views: what may be written, and how histories are rebuilt afterwards.
#pragma once

#include "autograd/node.h"

namespace rl {

// Before an in-place operation: refuses writes that would make a gradient wrong.
void check_inplace(Tensor* t, const char* op);

// After one: `written` is the history of what t now holds. A view's base gets a CopySlices.
void rebase_history(Tensor* t, const Edge& written);

// Registers `view` as a view of `of` (sharing its storage already).
void set_view(Tensor* view, Tensor* of, Creation creation = Creation::Default);
inline bool is_view(const Tensor* t) { return t->extra && t->extra->base; }
// A view of something that no one else knows is a tensor of its own.
void leave_base(Tensor* view);
inline void own(Var* results, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_view(results[i].get()) && Py_REFCNT(results[i].get()) == 1) leave_base(results[i].get());
}

void move_retained(Tensor* t, Node* from, uint32_t from_nr);

}  // namespace rl
