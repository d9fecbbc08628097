// What ops check and change about tensors that they write into.
#include "autograd/batch.h"
#include "autograd/forward.h"
#include "call/broadcast.h"
#include "call/write.h"

namespace rl {

namespace {

// The first and last byte that the tensor touches.
std::pair<const char*, const char*> extent(const Tensor* t) {
  const char* first = t->data();
  int64_t last = 0;
  for (int i = 0; i < t->dim(); i++) last += (t->sizes[i] - 1) * t->strides[i];
  return {first, first + (last + 1) * itemsize(t->dtype)};
}

}  // namespace

void check_cast(DType result, DType into) {
  if (!can_cast(result, into))
    fail("result type ", info(result).tensor_name, " can't be cast to the desired output type ",
         info(into).tensor_name);
}

void check_out(bool requires_grad, const Tensor* into, const char* name) {
  if (modes.records() && (requires_grad || rl::requires_grad(into)))
    fail(name,
         "(): functions with out=... arguments don't support automatic differentiation, "
         "but one of the arguments requires grad.");
}

void check_out(const Tensor* into, const Tensor* result, const char* name) {
  if (levels_of(result) | levels_of(into)) refuse_out(name);
  check_out(requires_grad(result), into, name);
  check_cast(result->dtype, into->dtype);
  check(!batch_of(result) && !batch_of(into), name, "(): out= is not supported under vmap");
  SameDevice same(name);
  same.need(result);
  same.need(into);
  check_writable(into);
}

void write_out(Tensor* into, const Var& result, const char* name) {
  check_out(into, result.get(), name);
  resize_output(into, result.sizes(), result->strides);
  prepare_write(into, "out=");
  ops::copy_data(into, result.get());
}

bool overlaps_partly(const Tensor* in, const Tensor* into) {
  if (in->storage != into->storage || in->numel == 0 || into->numel == 0) return false;
  if (in->offset == into->offset && in->sizes == into->sizes && in->strides == into->strides)
    return false;
  auto [a, b] = extent(in);
  auto [c, d] = extent(into);
  if (b <= c || d <= a) return false;
  if (is_dense(in->sizes, in->strides) && is_dense(into->sizes, into->strides))
    fail(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation.");
  return true;
}

void resize_output(Tensor* out, const Ints& sizes, const Ints& strides) {
  if (out->sizes == sizes) return;
  if (out->numel != 0 &&
      PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "An output with one or more elements was resized since it had shape %s, "
                       "which does not match the required output shape %s.",
                       concat(out->sizes).c_str(), concat(sizes).c_str()) < 0)
    throw PythonError{};
  int64_t n = element_count(sizes), bytes = (n + out->offset) * itemsize(out->dtype);
  if (n == 0) out->storage->version++;  // a write that touches nothing, of what may be saved
  if (bytes > out->storage->bytes) resize_storage(out->storage, bytes);
  out->sizes = sizes;
  out->strides = is_dense(sizes, strides) ? strides : contiguous_strides(sizes);
  out->numel = n;
  out->contiguous = is_contiguous(sizes, out->strides);
}

}  // namespace rl
