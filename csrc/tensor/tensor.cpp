#include "tensor/tensor.h"

#include <new>

#include "autograd/batch.h"
#include "autograd/cuts.h"
#include "autograd/modes.h"
#include "autograd/node.h"
#include "autograd/writes.h"
#include "kernels/kernels.h"
#include "tensor/allocator.h"
#include "tensor/pool.h"
#include "tensor/strides.h"

namespace rl {

PyTypeObject* parameter_type = nullptr;

namespace {

Pool& pool() {
  static Pool* p = new Pool(sizeof(Tensor));
  return *p;
}

DType the_default_dtype = DType::F32;
thread_local Device the_default_device = kHost;

int64_t storage_bytes(const Ints& sizes, const Ints& strides, DType dtype) {
  for (int64_t s : sizes)
    if (s == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < sizes.size(); i++) {
    int64_t reach;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      fail("Storage size calculation overflowed with sizes=", sizes, " and strides=", strides);
  }
  int64_t bytes;
  if (__builtin_mul_overflow(last + 1, itemsize(dtype), &bytes) || bytes > (int64_t(1) << 60))
    fail("Storage size calculation overflowed with sizes=", sizes, " and strides=", strides);
  return bytes;
}

int64_t checked_count(const Ints& sizes) {
  int64_t n = element_count(sizes);
  if (n < 0) [[unlikely]]
    fail("numel: integer multiplication overflow: a tensor of shape ", sizes,
         " has more elements than 63 bits can count");
  return n;
}

void check_sizes(const Ints& sizes) {
  for (int64_t s : sizes)
    if (s < 0) [[unlikely]]
      fail("Trying to create tensor with negative dimension ", s, ": ", sizes);
  if (sizes.size() > 64) [[unlikely]]
    fail("a tensor has at most 64 dimensions, got ", sizes.size());
}

Var bare(DType dtype) {
  Tensor* t = new_tensor_object();
  t->dtype = dtype;
  return Var::steal(t);
}

}  // namespace

Tensor* new_tensor_object(PyTypeObject* type) {
  Tensor* t;
  bool pooled = type == &TensorType;
  if (pooled) {
    t = static_cast<Tensor*>(pool().take());
    PyObject_Init(reinterpret_cast<PyObject*>(t), type);
  } else {
    t = reinterpret_cast<Tensor*>(type->tp_alloc(type, 0));
    if (!t) throw PythonError{};
  }
  t->storage = nullptr;
  t->offset = 0;
  t->numel = 0;
  new (&t->sizes) Ints();
  new (&t->strides) Ints();
  t->grad_fn = nullptr;
  t->extra = nullptr;
  t->dict = nullptr;
  t->weakrefs = nullptr;
  t->output_nr = 0;
  t->dtype = DType::F32;
  t->requires_grad = false;
  t->contiguous = true;
  t->leads_to_python = false;
  t->cut = 0;
  t->wrapped_number = false;
  t->pooled = pooled;
  return t;
}

void free_tensor_slot(Tensor* t) { pool().give(t); }

void for_each_tensor(void (*visit)(Tensor*, void*), void* context) {
  pool().for_each([&](PyObject* o) { visit(reinterpret_cast<Tensor*>(o), context); });
}

// The line and the block are kept for the error when such a tensor is used in a graph.
static void mark_inference(Tensor* t) {
  t->storage->inference = true;
  t->cut = note_cut(CutReason::Inference, nullptr);
}

Var empty(const Ints& sizes, DType dtype, Device device) {
  int64_t n = element_count(sizes), bytes = 0;
  if (n < 0 || __builtin_mul_overflow(n, itemsize(dtype), &bytes) || bytes > (int64_t(1) << 60))
      [[unlikely]] {
    check_sizes(sizes);
    fail("Storage size calculation overflowed with sizes=", sizes, " and dtype ", name(dtype));
  }
  check_sizes(sizes);
  Var v = bare(dtype);
  v->storage = new_storage(bytes, device);
  if (modes.inference) [[unlikely]]
    mark_inference(v.get());
  v->numel = n;
  v->sizes = sizes;
  v->strides = contiguous_strides(sizes);
  return v;
}

Var empty_strided(const Ints& sizes, const Ints& strides, DType dtype, Device device) {
  check_sizes(sizes);
  int64_t n = checked_count(sizes);
  check(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", strides,
        " and ", sizes);
  for (int64_t s : strides)
    check(s >= 0, "as_strided: Negative strides are not supported: ", strides);
  Var v = bare(dtype);
  v->storage = new_storage(storage_bytes(sizes, strides, dtype), device);
  if (modes.inference) [[unlikely]]
    mark_inference(v.get());
  v->numel = n;
  v->sizes = sizes;
  v->strides = strides;
  v->contiguous = is_contiguous(sizes, strides);
  return v;
}

Var empty_like(const Tensor* like, DType dtype, Device device) {
  if (like->contiguous) {
    Var v = empty(like->sizes, dtype, device);
    v->strides = like->strides;  // dimensions of size 1 keep theirs
    return v;
  }
  if (is_dense(like->sizes, like->strides))
    return empty_strided(like->sizes, like->strides, dtype, device);
  Ints strides = ordered_strides(like->sizes, &like->strides, 1);
  return empty_strided(like->sizes, strides, dtype, device);
}

Var alias(const Tensor* of, Ints&& sizes, Ints&& strides, int64_t offset) {
  int64_t n = checked_count(sizes);
  Var v = bare(of->dtype);
  v->storage = retain(of->storage);
  v->offset = offset;
  v->numel = n;
  v->contiguous = is_contiguous(sizes, strides);
  v->sizes = std::move(sizes);
  v->strides = std::move(strides);
  if (const Batch* batch = batch_of(of)) [[unlikely]]
    set_batch(v.get(), *batch);
  return v;
}

Var alias(const Tensor* of, const Ints& sizes, const Ints& strides, int64_t offset) {
  return alias(of, Ints(sizes), Ints(strides), offset);
}

Var alias(const Tensor* of) {
  Var v = bare(of->dtype);
  v->storage = retain(of->storage);
  v->offset = of->offset;
  v->numel = of->numel;
  v->contiguous = of->contiguous;
  v->sizes = of->sizes;
  v->strides = of->strides;
  if (const Batch* batch = batch_of(of)) [[unlikely]]
    set_batch(v.get(), *batch);
  return v;
}

Var lazy_clone(const Tensor* of) {
  Var v = alias(of);
  Storage* shared = v->storage;
  v->storage = lazy_clone(shared);
  release(shared);
  return v;
}

Var wrap_storage(Storage* storage, const Ints& sizes, const Ints& strides, int64_t offset,
                 DType dtype) {
  Var v = bare(dtype);
  v->storage = storage;
  v->offset = offset;
  v->numel = checked_count(sizes);
  v->sizes = sizes;
  v->strides = strides;
  v->contiguous = is_contiguous(sizes, strides);
  return v;
}

Var::Var(double value) : Var(empty({}, DType::F64, kHost)) {
  *t_->data<double>() = value;
  t_->wrapped_number = true;
}

void Tensor::fail_host_access() const {
  if (device().type == Device::CUDA)
    fail_as(PyExc_TypeError, "can't convert ", device_text(device()),
            " device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first (shape ",
            sizes, ").");
  fail_as(PyExc_NotImplementedError, "the elements of a meta tensor of shape ", sizes,
          " were asked for, but it has none: it is a shape and a dtype alone. Give a tensor with "
          "data, for example from to_empty(device='cpu').");
}

Extra& extra(Tensor* t) {
  if (!t->extra) t->extra = new Extra;
  return *t->extra;
}

bool is_exclusive(const Tensor* t) { return Py_REFCNT(t) == 1 && is_exclusive(t->storage); }

void check_writable(const Tensor* t) {
  if (!t->contiguous && overlaps_itself(t->sizes, t->strides))
    fail(
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation. (sizes ",
        t->sizes, ", strides ", t->strides, ")");
  if (const Batch* batch = batch_of(t)) [[unlikely]]
    for (int i = 0; i < batch->sizes.size(); i++)
      check(batch->strides[i] || batch->sizes[i] < 2,
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location: all samples of vmap share it. Please clone() the tensor "
            "before performing the operation.");
  check_inference_write(t);
}

void check_inference_write(const Tensor* t) {
  if (t->storage->inference && !modes.inference)
    fail(
        "Inplace update to inference tensor outside InferenceMode is not allowed."
        "You can make a clone to get a normal tensor before doing inplace update.");
}

void prepare_write(Tensor* t, const char* op) {
  check_writable(t);
  Storage* s = t->storage;
  own_memory(s);
  s->version++;
  s->writer.note();
  s->writer_op = op;
  if (s->saved) [[unlikely]]
    log_write(t, op);
}

void SameDevice::fail_mixed(const Tensor* t) const {
  fail(op_, ": Expected all tensors to be on the same device, but found at least two devices, ",
       device_text(first_->device()), " (shape ", first_->sizes, ") and ", device_text(t->device()),
       " (shape ", t->sizes, ")! Move one of them with to(device).");
}

int64_t wrap_dim(int64_t dim, int ndim, const char* op) {
  int64_t n = ndim == 0 ? 1 : ndim;
  if (dim < -n || dim >= n) [[unlikely]]
    fail_as(PyExc_IndexError, op ? op : "", op ? ": " : "",
            "Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ",
            dim, ")");
  return dim < 0 ? dim + n : dim;
}

Ints wrap_dims(const Ints& dims, int ndim, const char* op) {
  Ints wrapped(dims.size());
  for (int i = 0; i < dims.size(); i++) {
    wrapped[i] = wrap_dim(dims[i], ndim, op);
    for (int j = 0; j < i; j++)
      check(wrapped[j] != wrapped[i], op, ": dim ", wrapped[i],
            " appears multiple times in the list of dims ", dims,
            ": duplicate dims are not allowed, none may be repeated");
  }
  return wrapped;
}

DType default_dtype() { return the_default_dtype; }
void set_default_dtype(DType dtype) { the_default_dtype = dtype; }
Device default_device() {
  Device d = the_default_device;
  if (d.type == Device::CUDA && d.index < 0) d.index = int8_t(cuda::chosen);
  return d;
}
void set_default_device(Device device) { the_default_device = device; }

}  // namespace rl
