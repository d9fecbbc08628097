// x[...] and x[...] = value: ints, slices, None, Ellipsis, masks, index tensors, mixed.
#include "autograd/batch.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "call/arguments.h"
#include "call/formula.h"
#include "call/write.h"
#include "ops/functions.h"
#include "ops/index/index.h"
#include "python/interop.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

// A key taken apart: the view that ints, slices and None make, and the index tensors on it.
struct Selection {
  Var view;
  Vars indices;  // per dimension of the view; empty Vars where there is none
  bool advanced = false;
  bool moved = false;  // something other than the whole tensor was taken
  bool masks = true;   // the index tensors come from masks alone
};

bool is_mask(const Tensor* t) { return t->dtype == DType::Bool || t->dtype == DType::U8; }

bool is_index_list(PyObject* o) {
  if (PyUnicode_Check(o) || PyBytes_Check(o)) return false;
  return PySequence_Check(o) || PyObject_CheckBuffer(o) || PyObject_HasAttrString(o, "__array__");
}

// A list that holds more than numbers stands for a tuple, which torch means to give up.
bool reads_as_tuple(PyObject* key) {
  if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
  bool found = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); i++) {
    PyObject* item = PyList_GET_ITEM(key, i);
    found = found || is_tensor(item) || PySlice_Check(item) || PySequence_Check(item) ||
            item == Py_None || item == Py_Ellipsis;
  }
  if (found &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
                   "x[tuple(seq)] instead of x[seq], or x[torch.tensor(seq)] for one index tensor",
                   1) < 0)
    throw PythonError{};
  return found;
}

// Dimensions of the tensor that one part of the key consumes.
int consumed(PyObject* part) {
  if (part == Py_None || part == Py_Ellipsis || PyBool_Check(part)) return 0;
  if (is_tensor(part) && is_mask(as_tensor(part))) return as_tensor(part)->dim();
  return 1;
}

int64_t slice_bound(PyObject* o, int64_t otherwise) {
  if (o == Py_None) return otherwise;
  PyObject* index = PyNumber_Index(o);
  if (!index) throw PythonError{};
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  return overflow ? (overflow > 0 ? INT64_MAX : INT64_MIN / 2) : v;
}

class Reader {
 public:
  Reader(Tensor* t, PyObject* key) : whole_(t) {
    result_.view = Var(t);
    Var tuple;
    if (reads_as_tuple(key)) {
      tuple = Var::steal(reinterpret_cast<Tensor*>(PySequence_Tuple(key)));
      if (!tuple) throw PythonError{};
      key = tuple.object();
    }
    PyObject* parts = PyTuple_Check(key) ? key : nullptr;
    std::vector<PyObject*> items;
    if (parts)
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++)
        items.push_back(PyTuple_GET_ITEM(parts, i));
    else items.push_back(key);
    // Lists and arrays become tensors first, so that their dtype is known.
    for (PyObject*& item : items)
      if (!is_tensor(item) && !PyLong_Check(item) && !PySlice_Check(item) && item != Py_None &&
          item != Py_Ellipsis && is_index_list(item)) {
        made_.push_back(tensor_from_python(item, std::nullopt));
        Var& v = made_.back();
        bool whole = is_integral(v.dtype()) && !is_mask(v.get());
        if (whole || (v.numel() == 0 && is_floating(v.dtype()))) v = ops::to(v, DType::I64);
        item = v.object();
      }
    int used = 0, ellipses = 0;
    for (PyObject* item : items) {
      used += consumed(item);
      ellipses += item == Py_Ellipsis;
    }
    if (ellipses > 1) fail_as(PyExc_IndexError, "an index can only have a single ellipsis ('...')");
    if (used > 0 && t->dim() == 0)
      fail_as(PyExc_IndexError,
              "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to "
              "convert a 0-dim tensor to a number");
    if (used > t->dim())
      fail_as(PyExc_IndexError, "too many indices for tensor of dimension ", t->dim());
    for (PyObject* item : items) take(item, t->dim() - used);
  }

  Selection finish() {
    if (result_.advanced) result_.indices.resize(size_t(result_.view.dim()));
    return std::move(result_);
  }

 private:
  void take(PyObject* item, int skipped) {
    Var& x = result_.view;
    if (item == Py_Ellipsis) {
      dim_ += skipped;
    } else if (item == Py_None) {
      x = ops::unsqueeze(x, dim_++);
      result_.moved = true;
    } else if (PyBool_Check(item)) {
      x = ops::unsqueeze(x, dim_);
      put(one_truth(item == Py_True));
    } else if (PySlice_Check(item)) {
      take_slice(item);
    } else if (is_tensor(item)) {
      take_tensor(as_tensor(item));
    } else if (PyIndex_Check(item)) {
      select(item);
    } else if (PyUnicode_Check(item) || PyBytes_Check(item)) {
      fail_as(PyExc_TypeError, "new(): invalid data type '", Py_TYPE(item)->tp_name, "'");
    } else {
      fail_as(PyExc_IndexError,
              "only integers, slices (`:`), ellipsis (`...`), None and long or "
              "byte Variables are valid indices (got ",
              Py_TYPE(item)->tp_name, ")");
    }
  }

  void select(PyObject* item) {
    PyObject* index = PyNumber_Index(item);
    if (!index) throw PythonError{};
    int overflow;
    int64_t i = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    select_at(overflow ? INT64_MAX : i);
  }
  void select_at(int64_t i) {
    Var& x = result_.view;
    int64_t n = x.sizes()[dim_];
    if (i < -n || i >= n)
      fail_as(PyExc_IndexError, "index ", i, " is out of bounds for dimension ", dim_,
              " with size ", n);
    x = ops::select(x, dim_, i);
    result_.moved = true;
  }

  void take_slice(PyObject* item) {
    auto* s = reinterpret_cast<PySliceObject*>(item);
    int64_t step = slice_bound(s->step, 1);
    if (step <= 0) fail_as(PyExc_ValueError, "step must be greater than zero");
    int64_t start = slice_bound(s->start, 0), end = slice_bound(s->stop, INT64_MAX);
    int64_t n = result_.view.sizes()[dim_];
    if (start != 0 || end < n || step != 1) {
      result_.view = ops::slice(result_.view, dim_, start, end, step);
      result_.moved = true;
    }
    dim_++;
  }

  void put(const Var& index) {
    result_.advanced = true;
    if (result_.indices.size() <= size_t(dim_)) result_.indices.resize(size_t(dim_) + 1);
    // Indices may lie in main memory, whatever they index.
    result_.indices[size_t(dim_)] = ops::index_on(result_.view.device(), index);
    dim_++;
  }

  // The index that chooses the one element of a new dimension, or none.
  Var one_truth(bool yes) { return ops::zeros({yes ? 1 : 0}, DType::I64, result_.view.device()); }

  void take_tensor(Tensor* t) {
    if (is_mask(t)) {
      if (t->dim() == 0) {
        Var here = batch_of(t) ? Var(t) : ops::on_host(Var(t));
        require_plain(here.get(), "indexing with one truth");
        bool yes = *here->host<uint8_t>() != 0;
        result_.view = ops::unsqueeze(result_.view, dim_);
        put(one_truth(yes));
        return;
      }
      for (int i = 0; i < t->dim(); i++)
        if (t->sizes[i] != result_.view.sizes()[dim_ + i])
          fail_as(PyExc_IndexError, "The shape of the mask ", t->sizes, " at index ", i,
                  " does not match the shape of the indexed tensor ", whole_->sizes, " at index ",
                  dim_ + i);
      GradMode off(false);
      Var places = ops::nonzero(Var(t));
      for (int i = 0; i < t->dim(); i++) put(ops::contiguous(ops::select(places, 1, i)));
      return;
    }
    bool one = t->dim() == 0 && is_integral(t->dtype);
    if (t->dtype != DType::I64 && t->dtype != DType::I32 && !one)
      fail_as(PyExc_IndexError,
              "tensors used as indices must be long, int, byte or bool tensors, "
              "got ",
              name(t->dtype));
    GradMode off(false);
    Var index = ops::to(Var(t), DType::I64);
    if (t->dim() == 0 && !batch_of(t)) {
      GradMode on(records_);
      select_at(ops::whole_number(index));
      return;
    }
    result_.masks = false;
    put(index);
  }

  Tensor* whole_;
  bool records_ = modes.grad;
  Selection result_;
  Vars made_;
  int dim_ = 0;
};

// Leading dimensions of 1 that a target of `wanted` dimensions lacks are dropped, as in NumPy.
Var fit_value(Var value, int wanted) {
  if (value.dim() <= wanted) return value;
  int extra = value.dim() - wanted;
  for (int i = 0; i < extra; i++)
    if (value.sizes()[i] != 1) return value;
  Ints sizes(value.sizes().data() + extra, wanted);
  return ops::reshape(value, sizes);
}

Var as_value(PyObject* o, DType dtype) {
  if (is_tensor(o)) return Var(as_tensor(o));
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) {
    Var v = wrap_number(o);
    check_number(v, dtype);
    return v;
  }
  if (!PySequence_Check(o) || PyUnicode_Check(o))
    fail_as(PyExc_TypeError, "can't assign a ", Py_TYPE(o)->tp_name, " to a torch.",
            info(dtype).tensor_name, "Tensor");
  return tensor_from_python(o, std::nullopt);
}

// x[mask] = value where the mask differs between samples: a choice, since none of them may know how
// many elements are chosen. False when the value is one for each chosen element.
bool put_masked(Tensor* x, PyObject* key, const Var& value) {
  if (!batched_tensors || !is_tensor(key) || !batch_of(as_tensor(key))) return false;
  Var mask(as_tensor(key));
  int rest = x->dim() - mask.dim();
  if (mask.dtype() != DType::Bool || mask.dim() == 0 || rest < 0) return false;
  for (int i = 0; i < mask.dim(); i++)
    if (mask.size(i) != x->sizes[i]) return false;
  Var each = fit_value(value, rest);
  if (each.dim() > rest) return false;
  Ints sizes = mask.sizes();
  for (int i = 0; i < rest; i++) sizes.push_back(1);
  ops::copy_(ops::alias_view(Var(x)),
             math::where(ops::reshape(mask, sizes), ops::to(each, x->dtype), Var(x)));
  return true;
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    bool subclass = is_subclass(self);
    if (modes.intercepted || subclass) [[unlikely]] {
      PyObject* args[] = {self, key};
      PyObject* result = call_override("__getitem__", args, 2);
      if (result || PyErr_Occurred()) return result;
    }
    Tensor* t = as_tensor(self);
    auto done = [&](Var v) {
      PyObject* result = reinterpret_cast<PyObject*>(v.release());
      return subclass ? as_class_of(self, result) : result;
    };
    if (PyLong_CheckExact(key) && t->dim() > 0) {
      int overflow;
      int64_t i = PyLong_AsLongLongAndOverflow(key, &overflow), n = t->sizes[0];
      if (!overflow && i >= -n && i < n) return done(ops::select(Var(t), 0, i));
    }
    Selection s = Reader(t, key).finish();
    if (s.advanced) return done(ops::index(s.view, s.indices));
    return done(s.moved ? s.view : ops::alias_view(s.view));
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    if (!value) fail_as(PyExc_TypeError, "Tensor does not support deleting items");
    if (modes.intercepted || is_subclass(self)) [[unlikely]] {
      PyObject* args[] = {self, key, value};
      PyObject* result = call_override("__setitem__", args, 3);
      if (!result && PyErr_Occurred()) throw PythonError{};
      Py_XDECREF(result);
      if (result) return 0;
    }
    if (key == Py_False) return 0;
    if (key == Py_True) key = Py_None;
    Tensor* t = as_tensor(self);
    Var source = as_value(value, t->dtype);
    if (put_masked(t, key, source)) return 0;
    Selection s = Reader(t, key).finish();
    if (!s.advanced) {
      if (!s.moved) s.view = ops::alias_view(s.view);
      ops::copy_(s.view, fit_value(source, s.view.dim()));
      return 0;
    }
    if (s.masks && source.numel() == 1 && is_tensor(value)) check_fill(source, t->dtype);
    else if (is_tensor(value) && source.dtype() != t->dtype)
      fail("Index put requires the source and destination dtypes match, got ",
           info(t->dtype).tensor_name, " for the destination and ",
           info(source.dtype()).tensor_name, " for the source.");
    int lead = 0;
    while (lead < source.dim() && source.sizes()[lead] == 1) lead++;
    ops::index_put_(s.view, s.indices, fit_value(source, source.dim() - lead));
    return 0;
  });
}

namespace {

// On batched tensors: the plain form, copied.
bool put_batched(const Var& x, const Vars& indices, const Var& values) {
  bool any = batch_of(x.get()) || batch_of(values.get());
  for (const Var& v : indices) any = any || batch_of(v.get());
  if (any) ops::copy_(x, ops::index_put(x, indices, ops::to(values, x.dtype()), false));
  return any;
}

}  // namespace

namespace ops {

void index_put_(const Var& x, const Vars& indices, const Var& values) {
  admit_put(x, indices, values);
  check_inplace(x.get(), "index_put_");
  Var places = may_repeat(x.get(), values, "index_put_") ? without_repeats(x.get()) : x;
  check_writable(places.get());
  if (batched_tensors && put_batched(x, indices, values)) return;
  Var source = values.dtype() == x.dtype() ? values : ops::to(values, x.dtype());
  Var history;
  if (is_tracked(x.get()) || is_tracked(source.get()))
    history = index_put(x, indices, source, false);
  {
    Plain plain;
    if (source->storage == x->storage) source = clone(source);
    own_memory(x->storage);
    index_put_into(x.get(), indices, source.get(), false);  // checks before it writes
    prepare_write(places.get(), "index_put_");
  }
  take_over(x.get(), history);
}

}  // namespace ops
}  // namespace rl
