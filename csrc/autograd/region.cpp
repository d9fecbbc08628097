#include "autograd/region.h"

#include <algorithm>

#include "autograd/batch.h"
#include "autograd/forward.h"
#include "call/batch.h"
#include "ops/functions.h"

namespace rl {

Ints memory_order(const Tensor* t) {
  Ints order(t->dim());
  for (int i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.data(), order.data() + order.size(),
                   [&](int64_t a, int64_t b) { return t->strides[int(a)] > t->strides[int(b)]; });
  return order;
}

// A base that is not row-major has each step translated dimension by dimension.
Region region_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset) {
  Region r{base->sizes, sizes, strides, offset - base->offset};
  if (base->contiguous) return r;
  Ints rows = contiguous_strides(base->sizes), order = memory_order(base);
  auto translate = [&](int64_t step) {
    int64_t result = 0;
    for (int64_t d : order) {
      int64_t stride = base->strides[int(d)];
      if (stride == 0 || base->sizes[int(d)] == 1) continue;
      result += step / stride * rows[int(d)];
      step %= stride;
    }
    return result;
  };
  r.offset = translate(r.offset);
  for (int i = 0; i < r.strides.size(); i++)
    if (r.sizes[i] > 1) r.strides[i] = translate(r.strides[i]);
  return r;
}

// One past the last element.
static int64_t end_of(const Ints& sizes, const Ints& strides, int64_t offset) {
  int64_t last = offset;
  for (int i = 0; i < sizes.size(); i++) last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

bool lies_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset) {
  if (element_count(sizes) == 0) return true;
  return is_dense(base->sizes, base->strides) && offset >= base->offset &&
         end_of(sizes, strides, offset) <= base->offset + element_count(base->sizes);
}

Part::Part(const Tensor* view, const Tensor* base)
    : pairs_of_base_(is_complex(base->dtype) && !is_complex(view->dtype)),
      pairs_of_view_(is_complex(view->dtype) && !is_complex(base->dtype)) {
  Var whole_view;
  if (const Batch* batch = batch_of(view)) [[unlikely]] {
    whole_view = alias(view);
    view = whole_view.get();
    const Batch* outer = batch_of(base);
    for (int i = batch->levels.size(); i-- > 0;) {
      if (outer && outer->levels.contains(batch->levels[i])) continue;
      levels_.insert(0, batch->levels[i]);
      level_sizes_.insert(0, batch->sizes[i]);
      whole_view->sizes.insert(0, batch->sizes[i]);
      whole_view->strides.insert(0, batch->strides[i]);
    }
  }
  bool same = view->dtype == base->dtype;
  if (base->contiguous && same && lies_in(base, view->sizes, view->strides, view->offset)) {
    region_ = region_in(base, view->sizes, view->strides, view->offset);
    return;
  }
  order_ = memory_order(base);
  Plain plain;
  Var part = alias(view), whole = ops::permute(alias(base), order_);
  if (pairs_of_base_) whole = ops::view_as_real(whole);
  if (pairs_of_view_) part = ops::view_as_real(part);
  // Where elements share a place, the view is one of theirs.
  if (lies_in(whole.get(), part.sizes(), part->strides, part->offset) ||
      !has_distinct_elements(whole.sizes(), whole->strides)) {
    region_ = region_in(whole.get(), part.sizes(), part->strides, part->offset);
    return;
  }
  int64_t low = std::min(part->offset, whole->offset);
  int64_t high = std::max(end_of(part.sizes(), part->strides, part->offset),
                          end_of(whole.sizes(), whole->strides, whole->offset));
  Ints piece{high - low};
  region_ = {piece, part.sizes(), part->strides, part->offset - low};
  within_ = {piece, whole.sizes(), whole->strides, whole->offset - low};
}

Var Part::rows(const Var& base) const {
  Var rows = ops::contiguous(order_.empty() ? base : ops::permute(base, order_));
  if (pairs_of_base_) rows = ops::view_as_real(rows);
  return within_ ? ops::embed(rows, within_->whole, within_->strides, within_->offset) : rows;
}

Var Part::from_rows(Var rows) const {
  if (within_) {
    Var base = ops::as_strided(rows, within_->sizes, within_->strides, within_->offset);
    rows = ops::contiguous(base);
  }
  if (pairs_of_base_) rows = ops::view_as_complex(rows);
  if (order_.empty()) return rows;
  Ints back(order_.size());
  for (int i = 0; i < order_.size(); i++) back[int(order_[i])] = i;
  return ops::permute(rows, back);
}

Var Part::as_part(const Var& values) const {
  Var all = shown(values);
  return pairs_of_view_ ? ops::view_as_real(ops::contiguous(all)) : all;
}

Var Part::shown(const Var& values) const {
  Var all = values;
  for (int i = levels_.size(); i-- > 0;)
    all = ops::remove_batch_dim(all, levels_[i], level_sizes_[i], 0);
  return all;
}

Var Part::hidden(Var part) const {
  for (int64_t level : levels_) part = ops::add_batch_dim(part, 0, level);
  return part;
}

Var Part::read(const Var& base) const {
  Var part = ops::as_strided(rows(base), region_.sizes, region_.strides, region_.offset);
  return hidden(pairs_of_view_ ? ops::view_as_complex(ops::contiguous(part)) : part);
}

Var Part::written(const Var& base, const Var& values) const {
  return from_rows(ops::as_strided_scatter(rows(base), as_part(values), region_.sizes,
                                           region_.strides, region_.offset));
}

Var Part::embedded(const Var& values) const {
  return from_rows(ops::embed(as_part(values), region_.whole, region_.strides, region_.offset));
}

}  // namespace rl
