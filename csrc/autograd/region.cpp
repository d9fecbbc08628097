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
  if (base->contiguous && view->dtype == base->dtype) {
    region_ = region_in(base, view->sizes, view->strides, view->offset);
    return;
  }
  order_ = memory_order(base);
  Plain plain;
  Var part = alias(view), whole = ops::permute(alias(base), order_);
  if (pairs_of_base_) whole = ops::view_as_real(whole);
  if (pairs_of_view_) part = ops::view_as_real(part);
  region_ = region_in(whole.get(), part.sizes(), part->strides, part->offset);
}

Var Part::rows(const Var& base) const {
  Var rows = ops::contiguous(order_.empty() ? base : ops::permute(base, order_));
  return pairs_of_base_ ? ops::view_as_real(rows) : rows;
}

Var Part::from_rows(Var rows) const {
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
