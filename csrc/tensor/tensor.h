// The tensor: one Python object (D1 of the design) that views a storage, and Var, the C++ handle
// that owns a reference to one.
#pragma once

#include <Python.h>

#include <utility>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/ints.h"
#include "tensor/recorder.h"
#include "tensor/storage.h"

namespace rl {

struct Node;
struct Tensor;
struct Tangents;
struct Batch;

// How a view came to be; decides whether it may be written in place while gradients are recorded.
enum class Creation : uint8_t { Default, CustomFunction, MultiOutput, NoGrad, Inference };

// What only some tensors have: leaves that take gradients, views, tensors with hooks.
struct Extra {
  Tensor* grad = nullptr;
  Tensor* base = nullptr;       // the root of the views this tensor belongs to
  Node* accumulator = nullptr;  // weak: AccumulateGrad clears it when it dies
  PyObject* hooks = nullptr;    // dict of a leaf's tensor hooks
  PyObject* post_accumulate_hooks = nullptr;
  Tangents* tangents = nullptr;  // of forward mode; null: those of the base
  Batch* batch = nullptr;        // of vmap: the hidden dimensions
  uint32_t view_version = 0;     // the version for which a view's grad_fn is right
  Creation creation = Creation::Default;
  bool retains_grad = false;
  bool was_stand_in = false;  // for an argument of a transform of func that has ended
  int8_t grad_dtype = -1;     // a DType, or -1: the tensor's own
  // Where .data was assigned: the version that it ended, and the one that it began.
  std::vector<std::pair<uint32_t, uint32_t>>* swaps = nullptr;
};

struct Tensor {
  PyObject_HEAD;
  Storage* storage;
  int64_t offset;  // in elements
  int64_t numel;
  Ints sizes;
  Ints strides;
  Node* grad_fn;
  Extra* extra;
  PyObject* dict;
  PyObject* weakrefs;
  uint32_t output_nr;
  uint32_t cut;  // where its history was cut (autograd/cuts.h); 0: nowhere
  DType dtype;
  bool requires_grad;    // set by the user; a tensor with a grad_fn requires grad as well
  bool contiguous;       // row-major without gaps
  bool leads_to_python;  // a cycle may pass through it: the collector tracks it
  bool wrapped_number;   // a Python scalar that became a tensor: weak in type promotion
  bool pooled;           // its memory came from the pool; its class may have changed since

  int dim() const { return sizes.size(); }
  Device device() const { return storage->device; }
  char* data() const { return storage->data + offset * itemsize(dtype); }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data());
  }
  // The elements for the host to read or write; raises where it can't.
  template <class T>
  T* host() const {
    check_host_access();
    return data<T>();
  }
  void check_host_access() const {
    if (device().type != Device::CPU) [[unlikely]]
      fail_host_access();
    if (recording) [[unlikely]]
      recording->check_host(storage);
  }
  [[noreturn]] void fail_host_access() const;
};

// Whether it has elements at all: meta tensors have a shape alone.
inline bool has_data(const Tensor* t) { return t->device().type != Device::Meta; }

extern PyTypeObject TensorType;
extern PyTypeObject* parameter_type;  // rushlight.nn.Parameter once it exists

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == &TensorType || PyType_IsSubtype(Py_TYPE(o), &TensorType);
}

// An owned reference to a tensor, possibly none.
class Var {
 public:
  Var() : t_(nullptr) {}
  Var(std::nullptr_t) : t_(nullptr) {}
  Var(double value);  // a wrapped number, for formulas
  Var(int value) : Var(double(value)) {}
  explicit Var(Tensor* borrowed) : t_(borrowed) { Py_XINCREF(borrowed); }
  static Var steal(Tensor* owned) {
    Var v;
    v.t_ = owned;
    return v;
  }
  Var(const Var& other) : Var(other.t_) {}
  Var(Var&& other) noexcept : t_(std::exchange(other.t_, nullptr)) {}
  Var& operator=(Var other) noexcept {
    std::swap(t_, other.t_);
    return *this;
  }
  ~Var() { Py_XDECREF(t_); }

  Tensor* get() const { return t_; }
  Tensor* release() { return std::exchange(t_, nullptr); }
  Tensor* operator->() const { return t_; }
  Tensor& operator*() const { return *t_; }
  explicit operator bool() const { return t_ != nullptr; }
  PyObject* object() const { return reinterpret_cast<PyObject*>(t_); }

  const Ints& sizes() const { return t_->sizes; }
  int64_t size(int d) const { return t_->sizes[d < 0 ? d + t_->dim() : d]; }
  int dim() const { return t_->dim(); }
  int64_t numel() const { return t_->numel; }
  DType dtype() const { return t_->dtype; }
  Device device() const { return t_->device(); }

 private:
  Tensor* t_;
};

// Making tensors. None of these records anything.
Var empty(const Ints& sizes, DType dtype, Device device);
Var empty_strided(const Ints& sizes, const Ints& strides, DType dtype, Device device);
// Same sizes and dtype, and the same strides where they leave no gaps.
Var empty_like(const Tensor* like, DType dtype, Device device);
inline Var empty_like(const Tensor* like, DType dtype) {
  return empty_like(like, dtype, like->device());
}
// Another tensor on the same memory, outside any graph (what detach() gives).
Var alias(const Tensor* of);
Var alias(const Tensor* of, const Ints& sizes, const Ints& strides, int64_t offset);
Var alias(const Tensor* of, Ints&& sizes, Ints&& strides, int64_t offset);
// Same content in memory that is copied when either is written.
Var lazy_clone(const Tensor* of);
// A tensor on existing memory (stolen reference to storage).
Var wrap_storage(Storage* storage, const Ints& sizes, const Ints& strides, int64_t offset,
                 DType dtype);
// An uninitialised object of the given class; storage must be set before anything else.
Tensor* new_tensor_object(PyTypeObject* type = &TensorType);

Extra& extra(Tensor* t);

// Whether the memory of t is reached by nobody but the one holder of `t`.
bool is_exclusive(const Tensor* t);

// Called before the memory of t is written: refuses overlapping layouts and inference tensors,
// makes the memory t's own, counts the version and notes the line.
void prepare_write(Tensor* t, const char* op);
// The checks of prepare_write without its effects.
void check_writable(const Tensor* t);
// The one of them for changes of the shape alone.
void check_inference_write(const Tensor* t);

// Whether there ever was a tensor elsewhere than in main memory.
extern bool devices_mix;

// Refuses tensors of different devices. Numbers of the host go with any.
class SameDevice {
 public:
  explicit SameDevice(const char* op) : op_(op) {}
  void add(const Tensor* t) {
    if (t && (t->dim() > 0 || t->device() != kHost)) need(t);
  }
  // One that is written, or is written as it is: its device matters also where it is a number.
  void need(const Tensor* t) {
    if (!first_) first_ = t;
    if (t->device() != first_->device()) fail_mixed(t);
  }

 private:
  [[noreturn]] void fail_mixed(const Tensor* t) const;

  const char* op_;
  const Tensor* first_ = nullptr;
};

int64_t wrap_dim(int64_t dim, int ndim, const char* op = nullptr);
Ints wrap_dims(const Ints& dims, int ndim, const char* op);

DType default_dtype();
void set_default_dtype(DType dtype);
// Where tensors that are made out of nothing lie; the thread's own. "cuda" without a number is the
// device that is chosen when one is made.
Device default_device();
void set_default_device(Device device);

// Every live object of the pools, for the garbage collector's help (autograd/collect.cpp).
void for_each_tensor(void (*visit)(Tensor*, void*), void* context);

}  // namespace rl
