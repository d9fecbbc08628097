#include "python/overrides.h"

#include "autograd/context.h"
#include "ops/functions.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

// Modes of this thread, innermost last. Threads that end leave them to the interpreter.
thread_local PyObject* mode_stack = nullptr;

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// What a class says for __torch_function__, unless it is what Tensor itself says (borrowed).
PyObject* class_override(PyTypeObject* type) {
  static PyObject* name = interned("__torch_function__");
  PyObject* found = _PyType_Lookup(type, name);
  return found && found != _PyType_Lookup(&TensorType, name) ? found : nullptr;
}

struct Owned {
  PyObject* object;
  ~Owned() { Py_XDECREF(object); }
  explicit operator bool() const { return object; }
};

PyObject* call(PyObject* handler, PyObject* func, PyObject* types, PyObject* const* args,
               Py_ssize_t count, PyObject* keywords) {
  static PyObject* name = interned("__torch_function__");
  Owned positional{PyTuple_New(count)}, named{PyDict_New()};
  if (!positional || !named) return nullptr;
  for (Py_ssize_t i = 0; i < count; i++)
    PyTuple_SET_ITEM(positional.object, i, new_reference(args[i]));
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); i++)
    if (PyDict_SetItem(named.object, PyTuple_GET_ITEM(keywords, i), args[count + i]) < 0)
      return nullptr;
  Owned method{PyObject_GetAttr(handler, name)};
  if (!method) return nullptr;
  return PyObject_CallFunctionObjArgs(method.object, func, types, positional.object, named.object,
                                      nullptr);
}

// While a mode answers, it and those within it are out of force.
class WithoutInnermost {
 public:
  WithoutInnermost() : size_(PyList_GET_SIZE(mode_stack)) {
    mode_ = new_reference(PyList_GET_ITEM(mode_stack, size_ - 1));
    PyList_SetSlice(mode_stack, size_ - 1, size_, nullptr);
    modes.intercepted = size_ > 1;
  }
  ~WithoutInnermost() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyList_Append(mode_stack, mode_);
    modes.intercepted = true;
    Py_DECREF(mode_);
    PyErr_Restore(type, value, trace);
  }
  WithoutInnermost(const WithoutInnermost&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  Py_ssize_t size_;
  PyObject* mode_;
};

// What a class writes as its __torch_function__ to have none: plain results.
PyObject* disabled(PyObject*, PyObject* args) {
  PyObject *func, *types, *positional, *named = nullptr;
  if (!PyArg_ParseTuple(args, "OOO|O", &func, &types, &positional, &named)) return nullptr;
  bool before = std::exchange(modes.subclasses, false);
  PyObject* result = PyObject_Call(func, positional, named == Py_None ? nullptr : named);
  modes.subclasses = before;
  return result;
}

}  // namespace

bool is_foreign_override(PyObject* o) {
  static PyObject* name = interned("__torch_function__");
  return PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && !is_tensor(o) &&
         _PyType_Lookup(Py_TYPE(o), name);
}

Py_ssize_t function_modes() { return mode_stack ? PyList_GET_SIZE(mode_stack) : 0; }

bool push_function_mode(PyObject* mode) {
  if (!mode_stack && !(mode_stack = PyList_New(0))) return false;
  if (PyList_Append(mode_stack, mode) < 0) return false;
  return modes.intercepted = true;
}

void cut_function_modes(Py_ssize_t count) {
  Py_ssize_t size = function_modes();
  if (size <= count) return;
  modes.intercepted = count > 0;
  if (PyList_SetSlice(mode_stack, count, size, nullptr) < 0) PyErr_Clear();
}

PyObject* call_override(PyObject* func, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  Py_ssize_t all = count + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  // Classes in the order of the arguments; a subclass answers before the class it comes from.
  PyObject* handler = nullptr;
  Owned types{PyList_New(0)};
  if (!types) return nullptr;
  auto consider = [&](PyObject* o) {
    if (!(is_subclass(o) && class_override(Py_TYPE(o))) && !is_foreign_override(o)) return 0;
    bool nearer = !handler || (Py_TYPE(o) != Py_TYPE(handler) &&
                               PyType_IsSubtype(Py_TYPE(o), Py_TYPE(handler)));
    if (nearer) handler = o;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    int known = PySequence_Contains(types.object, type);
    return known ? known : PyList_Append(types.object, type);
  };
  for (Py_ssize_t i = 0; i < all && modes.subclasses; i++) {
    bool list = PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i]);
    Py_ssize_t items = list ? PySequence_Fast_GET_SIZE(args[i]) : 1;
    for (Py_ssize_t k = 0; k < items; k++)
      if (consider(list ? PySequence_Fast_GET_ITEM(args[i], k) : args[i]) < 0) return nullptr;
  }
  Owned listed{PyList_AsTuple(types.object)};
  if (!listed) return nullptr;
  PyObject* result;
  if (modes.intercepted) {
    WithoutInnermost scope;
    result = call(scope.mode(), func, listed.object, args, count, keywords);
    handler = scope.mode();
  } else if (handler) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(handler));
    result = call(type, func, listed.object, args, count, keywords);
  } else {
    return nullptr;
  }
  if (result == Py_NotImplemented) {
    PyErr_Format(PyExc_TypeError,
                 "Multiple dispatch failed for '%S'; the __torch_function__ of %s returned "
                 "NotImplemented",
                 func, Py_TYPE(handler)->tp_name);
    Py_CLEAR(result);
  }
  return result;
}

PyObject* call_override(const char* method, PyObject* const* args, Py_ssize_t count) {
  PyObject* func = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&TensorType), method);
  if (!func) throw PythonError{};
  PyObject* result = call_override(func, args, count);
  Py_DECREF(func);
  return result;
}

PyObject* as_class_of(PyObject* subclass, PyObject* result) {
  if (!result || !modes.subclasses || Py_TYPE(result) != &TensorType) return result;
  Var plain = Var::steal(as_tensor(result));
  bool fresh = Py_REFCNT(result) == 1;
  return guarded([&] {
    Var from = fresh ? std::move(plain) : ops::alias_view(plain);
    return reinterpret_cast<PyObject*>(moved_to(Py_TYPE(subclass), std::move(from)));
  });
}

PyMethodDef override_functions[] = {
    {"_disabled_torch_function_impl", disabled, METH_VARARGS, nullptr},
    {},
};

}  // namespace rl
