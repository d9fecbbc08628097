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

void move_retained(Tensor* t, Node* from, uint32_t from_nr);

}  // namespace rl
