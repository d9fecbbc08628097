// Norms and scaling of many gradients in one call: clip_grad_norm_, GradScaler.
#include <vector>

#include "autograd/forward.h"
#include "kernels/kernels.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {
namespace {

// In main memory or on a CUDA device, like those before it.
bool is_one_device(const Tensor* t, const std::vector<Var>& before) {
  Device d = t->device();
  return (d.type == Device::CPU || (d.type == Device::CUDA && !is_stored(t->dtype))) &&
         (before.empty() || before.front().device() == d);
}

bool on_cuda(const std::vector<Var>& tensors) {
  return !tensors.empty() && tensors[0].device().type == Device::CUDA;
}

// The tensors of a list, when all are plain ones of one device.
bool plain_tensors(PyObject* sequence, const char* op, std::vector<Var>& into) {
  PyObject* list = PySequence_Fast(sequence, "expected a list of tensors");
  if (!list) throw PythonError{};
  bool plain = !modes.intercepted && (!recording || PySequence_Fast_GET_SIZE(list) == 0);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
    PyObject* o = PySequence_Fast_GET_ITEM(list, i);
    if (!is_tensor(o)) {
      Py_DECREF(list);
      fail_as(PyExc_TypeError, op, ": expected tensors, got ", Py_TYPE(o)->tp_name);
    }
    Tensor* t = as_tensor(o);
    plain = plain && !is_subclass(o) && !levels_of(t) && !(modes.records() && requires_grad(t)) &&
            is_one_device(t, into) && is_differentiable(t->dtype);
    into.emplace_back(t);
  }
  Py_DECREF(list);
  return plain;
}

Var in_one_piece(const Var& t) {
  if (t->contiguous || is_dense(t->sizes, t->strides)) return t;
  Plain plain;
  return ops::contiguous(t);
}

// Rounded to the dtype of t, as the norm that an operation gives is.
double norm_of(const Var& t, double p) {
  alignas(8) char room[8];
  on(t).norm(t->dtype, t->data(), room, 1, t->numel, 1, p);
  switch (real_of(t->dtype)) {
    case DType::F64: return *reinterpret_cast<double*>(room);
    case DType::F32: return *reinterpret_cast<float*>(room);
    case DType::F16: return float(*reinterpret_cast<F16*>(room));
    default: return float(*reinterpret_cast<BF16*>(room));
  }
}

// The elements of tensors without gaps, complex numbers as pairs.
std::vector<kernel::Piece> pieces_of(const std::vector<Var>& tensors) {
  std::vector<kernel::Piece> pieces;
  for (const Var& t : tensors)
    pieces.push_back({real_of(t->dtype), t->data(), t->numel * (is_complex(t->dtype) ? 2 : 1)});
  return pieces;
}

// On the device, without a word to the host; null where its kernel has no such norm.
Var norm_there(const std::vector<Var>& tensors, double p, DType d) {
  std::vector<Var> flat;
  for (const Var& t : tensors) {
    if (is_complex(t.dtype()) && p != 2) return Var();
    flat.push_back(in_one_piece(t));
  }
  Plain plain;
  Var total = empty({}, DType::F64, tensors[0].device());
  std::vector<kernel::Piece> pieces = pieces_of(flat);
  on(total).norm_all(pieces.data(), pieces.size(), p, total->data<double>());
  return ops::to(total, d);
}

// _grads_norm(tensors, p): the p-norm of all elements, as the norm of the tensors' norms. None:
// the tensors must be taken one by one.
PyObject* grads_norm(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) fail_as(PyExc_TypeError, "_grads_norm expects tensors and p");
    double p = PyFloat_AsDouble(args[1]);
    if (p == -1 && PyErr_Occurred()) throw PythonError{};
    std::vector<Var> tensors;
    if (!plain_tensors(args[0], "_grads_norm", tensors)) Py_RETURN_NONE;
    DType d = tensors.empty() ? DType::F32 : real_of(tensors[0].dtype());
    for (const Var& t : tensors) d = promote(d, real_of(t.dtype()));
    if (on_cuda(tensors)) {
      Var total = norm_there(tensors, p, d);
      if (!total) Py_RETURN_NONE;
      return reinterpret_cast<PyObject*>(total.release());
    }
    std::vector<double> norms;
    for (const Var& t : tensors) norms.push_back(t->numel ? norm_of(in_one_piece(t), p) : 0);
    double total = 0;
    if (!norms.empty())
      on_host().norm(DType::F64, norms.data(), &total, 1, int64_t(norms.size()), 1, p);
    return reinterpret_cast<PyObject*>(
        ops::full({}, total, d, tensors.empty() ? kHost : tensors[0].device()).release());
  });
}

// Multiplies every tensor in place under the name `op`; whether all elements were finite before.
bool scale_tensors(const std::vector<Var>& tensors, double factor, const char* op, bool probes) {
  bool finite = true;
  for (const Var& t : tensors) check_writable(t.get());
  for (const Var& t : tensors) {
    prepare_write(t.get(), op);
    if (t->numel == 0) continue;
    Var flat = in_one_piece(t);
    int64_t n = flat->numel * (is_complex(flat->dtype) ? 2 : 1);
    DType d = real_of(flat->dtype);
    if (probes) finite &= !on(flat).scale_checked(d, flat->data(), n, factor);
    else on(flat).scale(d, flat->data(), n, factor);
    if (flat.get() != t.get()) ops::copy_data(t.get(), flat.get());
  }
  return finite;
}

// The same on a device: the factor (of any dtype, or null) and the flag are there, and stay there.
void scale_there(const std::vector<Var>& tensors, const Var& factor, float* found, const char* op) {
  for (const Var& t : tensors) {
    check_writable(t.get());
    if (factor) prepare_write(t.get(), op);
  }
  Plain plain;
  std::vector<Var> flat;
  for (const Var& t : tensors) flat.push_back(in_one_piece(t));
  std::vector<kernel::Piece> pieces = pieces_of(flat);
  Var by = factor ? ops::contiguous(ops::to(factor, DType::F64, tensors[0].device())) : Var();
  on(tensors[0]).scale_all(pieces.data(), pieces.size(), by ? by->data<double>() : nullptr, found);
  for (size_t i = 0; factor && i < flat.size(); i++)
    if (flat[i].get() != tensors[i].get()) ops::copy_data(tensors[i].get(), flat[i].get());
}

// A tensor of one element.
Var single(PyObject* o, const char* op) {
  if (!is_tensor(o) || as_tensor(o)->numel != 1)
    fail_as(PyExc_TypeError, op, ": expected a tensor of one element, got ", Py_TYPE(o)->tp_name);
  return Var(as_tensor(o));
}

double factor_of(PyObject* o) {
  PyObject* number = PyNumber_Float(o);  // a tensor of one element too
  if (!number) throw PythonError{};
  double value = PyFloat_AS_DOUBLE(number);
  Py_DECREF(number);
  return value;
}

// _scale_grads(tensors, factor): tensors *= factor; False: they must be taken one by one.
PyObject* scale_grads(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) fail_as(PyExc_TypeError, "_scale_grads expects tensors and a factor");
    std::vector<Var> tensors;
    if (!plain_tensors(args[0], "_scale_grads", tensors)) Py_RETURN_FALSE;
    if (!on_cuda(tensors)) scale_tensors(tensors, factor_of(args[1]), "clip_grad_norm_", false);
    else if (is_tensor(args[1]))
      scale_there(tensors, single(args[1], "clip_grad_norm_"), nullptr, "clip_grad_norm_");
    else Py_RETURN_FALSE;
    Py_RETURN_TRUE;
  });
}

// _unscale_grads(tensors, inverse scale or None, found): found, a float32 number, becomes 1 where
// something is infinite or NaN. False: they must be taken one by one.
PyObject* unscale_grads(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    constexpr auto op = "GradScaler.unscale_";
    if (count != 3) fail_as(PyExc_TypeError, "_unscale_grads expects tensors, a factor and a flag");
    std::vector<Var> tensors;
    if (!plain_tensors(args[0], "_unscale_grads", tensors)) Py_RETURN_FALSE;
    Var found = single(args[2], op);
    bool scales = args[1] != Py_None;
    if (on_cuda(tensors)) {
      if (found.device() != tensors[0].device() || found.dtype() != DType::F32) Py_RETURN_FALSE;
      scale_there(tensors, scales ? single(args[1], op) : Var(), found->data<float>(), op);
      Py_RETURN_TRUE;
    }
    if (!scales) Py_RETURN_FALSE;
    if (!scale_tensors(tensors, factor_of(args[1]), op, true)) ops::fill_data(found.get(), 1);
    Py_RETURN_TRUE;
  });
}

// _update_scale(scale, tracker, found, growth, backoff, interval)
PyObject* update_scale(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    constexpr auto op = "GradScaler.update";
    if (count != 6) fail_as(PyExc_TypeError, "_update_scale expects six arguments");
    Var scale = single(args[0], op), tracker = single(args[1], op), found = single(args[2], op);
    check(scale.dtype() == DType::F32 && tracker.dtype() == DType::I32 &&
              found.dtype() == DType::F32 && tracker.device() == scale.device() &&
              found.device() == scale.device(),
          op, ": expected a float32 scale, an int32 count and a float32 flag of one device, got ",
          name(scale.dtype()), ", ", name(tracker.dtype()), " and ", name(found.dtype()));
    double growth = PyFloat_AsDouble(args[3]), backoff = PyFloat_AsDouble(args[4]);
    long long interval = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) throw PythonError{};
    for (const Var& v : {scale, tracker}) {
      check_writable(v.get());
      prepare_write(v.get(), op);
    }
    on(scale).update_scale(scale->data<float>(), tracker->data<int32_t>(), found->data<float>(),
                           growth, backoff, interval);
    Py_RETURN_NONE;
  });
}

PyCFunction fast(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

}  // namespace

PyMethodDef gradient_functions[] = {
    {"_grads_norm", fast(grads_norm), METH_FASTCALL, nullptr},
    {"_scale_grads", fast(scale_grads), METH_FASTCALL, nullptr},
    {"_unscale_grads", fast(unscale_grads), METH_FASTCALL, nullptr},
    {"_update_scale", fast(update_scale), METH_FASTCALL, nullptr},
    {},
};

}  // namespace rl
