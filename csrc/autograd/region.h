// Where a view lies in its base, whatever the strides of both.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace rl {

// A strided part of a row-major tensor of the shape `whole`.
struct Region {
  Ints whole, sizes, strides;
  int64_t offset;
};
// That of a view (sizes, strides, offset in the storage) in `base`, which shares the storage.
Region region_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset);
// Whether every element of the view is one of the base, as far as strides tell.
bool lies_in(const Tensor* base, const Ints& sizes, const Ints& strides, int64_t offset);

// The dimensions as they lie in memory, the outermost first.
Ints memory_order(const Tensor* t);

// The elements that a view shows of its base. Values of the base are read in the order that its
// memory has: so the view is a region of them, whatever its strides. Where one of the two is
// complex and the other is not, both are read as pairs of real numbers. Dimensions that vmap has
// hidden of the base are the first ones of the region. A view may also show what lies between or
// beyond the elements of its base: zeros, then, in a piece of the storage that has all of both.
class Part {
 public:
  Part(const Tensor* view, const Tensor* base);
  // The values of the view, from those of the base.
  Var read(const Var& base) const;
  // Those of the base, after `values` were written to the view.
  Var written(const Var& base, const Var& values) const;
  // Zeros of the base's shape, with `values` added where the view is.
  Var embedded(const Var& values) const;

 private:
  Var rows(const Var& base) const;
  Var from_rows(Var rows) const;
  Var as_part(const Var& values) const;

  Var shown(const Var& values) const;
  Var hidden(Var part) const;

  Ints levels_, level_sizes_;  // of vmap, that the view has and the base has not
  Ints order_;                 // empty: that of the dimensions
  bool pairs_of_base_, pairs_of_view_;
  Region region_;
  std::optional<Region> within_;  // the base in such a piece
};

}  // namespace rl
