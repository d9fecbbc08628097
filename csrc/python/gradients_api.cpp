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

// The tensors of a list, when all are plain ones in main memory.
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
            t->storage->device.type == Device::CPU && is_differentiable(t->dtype);
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
    scale_tensors(tensors, factor_of(args[1]), "clip_grad_norm_", false);
    Py_RETURN_TRUE;
  });
}

// _unscale_grads(tensors, inverse scale) -> whether something was infinite or NaN; None: they
// must be taken one by one.
PyObject* unscale_grads(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) fail_as(PyExc_TypeError, "_unscale_grads expects tensors and a factor");
    std::vector<Var> tensors;
    if (!plain_tensors(args[0], "_unscale_grads", tensors)) Py_RETURN_NONE;
    bool finite = scale_tensors(tensors, factor_of(args[1]), "GradScaler.unscale_", true);
    return PyBool_FromLong(!finite);
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
    {},
};

}  // namespace rl
