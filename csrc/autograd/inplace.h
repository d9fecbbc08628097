// In-place writes and views: what may be written, and how histories are rebuilt afterwards.
#pragma once

#include "autograd/node.h"

namespace rl {

// Where a strided view lies in a row-major tensor of the shape `whole`.
struct Region {
  Ints whole, sizes, strides;
  int64_t offset;
  bool parts = false;  // of real and imaginary parts: `whole` ends in a dimension of 2
};
// The region of a view (sizes, strides, offset in the storage) in `base`, which shares it.
Region region_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset);

// Before an in-place operation: refuses writes that would make a gradient wrong.
void check_inplace(Tensor* t, const char* op);

// After one: `written` is the history of what t now holds. A view's base gets a CopySlices.
void rebase_history(Tensor* t, const Edge& written);

// Registers `view` as a view of `of` (sharing its storage already).
void set_view(Tensor* view, Tensor* of, Creation creation = Creation::Default);
inline bool is_view(const Tensor* t) { return t->extra && t->extra->base; }

void move_retained(Tensor* t, Node* from, uint32_t from_nr);

}  // namespace rl
