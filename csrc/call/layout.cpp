#include "call/layout.h"

#include "call/broadcast.h"
#include "call/pointwise.h"
#include "kernels/kernels.h"
#include "ops/functions.h"
#include "tensor/strides.h"

namespace rl {

namespace {

// Whether all operands are row-major: so is what they make.
bool all_in_rows(const Tensor* const* in, int count, const Ints& sizes) {
  bool rows = true, one_shape = true, usual = true;
  for (int i = 0; i < count; i++) {
    if (!in[i]) continue;
    rows &= in[i]->contiguous;
    one_shape &= in[i]->sizes == sizes;
    usual &= in[i]->strides == contiguous_strides(in[i]->sizes);
  }
  return rows && (one_shape || usual);
}

Ints strides_by_operands(const Tensor* const* in, int count, const Ints& sizes) {
  bool one_shape = true, channels = sizes.size() == 4, alike = true;
  for (int i = 0; i < count; i++) {
    if (!in[i]) continue;
    one_shape &= in[i]->sizes == sizes;
    channels = channels && is_contiguous_in(MemoryFormat::ChannelsLast, in[i]);
    alike &= in[i]->strides == in[0]->strides;
  }
  if (one_shape && channels) return format_strides(MemoryFormat::ChannelsLast, sizes, "empty");
  if (one_shape && alike && is_dense(sizes, in[0]->strides)) return in[0]->strides;
  Ints strides[kernel::kMaxOperands];
  int used = 0;
  for (int i = 0; i < count; i++)
    if (in[i]) strides[used++] = broadcast_strides(in[i], sizes);
  return ordered_strides(sizes, strides, used);
}

}  // namespace

Ints pointwise_strides(const Tensor* const* in, int count, const Ints& sizes) {
  if (all_in_rows(in, count, sizes)) return contiguous_strides(sizes);
  return strides_by_operands(in, count, sizes);
}

// A number beside tensors may be the host's.
Device device_of(const Tensor* const* in, int count) {
  for (int i = 0; i < count; i++)
    if (in[i] && (in[i]->dim() > 0 || in[i]->device() != kHost)) return in[i]->device();
  return kHost;
}

Var empty_pointwise(const Tensor* const* in, int count, const Ints& sizes, DType dtype) {
  if (all_in_rows(in, count, sizes)) return empty(sizes, dtype, device_of(in, count));
  return empty_strided(sizes, strides_by_operands(in, count, sizes), dtype, device_of(in, count));
}

MemoryFormat suggested_format(const Tensor* like) {
  if (like->dim() < 4 || batch_of(like)) return MemoryFormat::Contiguous;
  return format_of(like->sizes, like->strides);
}

Var empty_in(MemoryFormat format, const Ints& sizes, DType dtype, Device device) {
  if (format == MemoryFormat::Contiguous) return empty(sizes, dtype, device);
  return empty_strided(sizes, format_strides(format, sizes, "empty"), dtype, device);
}

namespace {

Var moved(const Var& rows, Var place) {
  if (rows->strides == place->strides) return rows;
  ops::copy_data(place.get(), rows.get());
  return place;
}

}  // namespace

Var in_format(MemoryFormat format, const Var& rows) {
  if (format == MemoryFormat::Contiguous || batch_of(rows.get())) return rows;
  if (!is_contiguous_in(format, rows.get()))
    return moved(rows, empty_in(format, rows.sizes(), rows.dtype(), rows.device()));
  rows->strides = format_strides(format, rows.sizes(), "empty");
  return rows;
}

Var kept_strides(const Tensor* like, const Var& rows) {
  if (like->strides == rows->strides) return rows;
  return moved(rows, empty_like(like, rows.dtype()));
}

Var dense_in(MemoryFormat format, const Var& x, DType dtype) {
  if (format == MemoryFormat::Contiguous) return ops::contiguous(ops::to(x, dtype));
  if (x.dtype() == dtype && is_contiguous_in(format, x.get())) return x;
  Var dense = empty_in(format, x.sizes(), dtype, x.device());
  ops::copy_data(dense.get(), x.get());
  return dense;
}

}  // namespace rl
