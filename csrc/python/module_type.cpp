// The base of nn.Module: attribute access and calls without a Python frame of their own.
//
// An instance is what a plain Python class would give, with its parameters, buffers and submodules
// in dicts of its __dict__. Dicts of hooks appear there when one is first asked for, so a call
// learns from one lookup that there are none.
#include "python/module_type.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "python/op_object.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

struct ModuleObject {
  PyObject_HEAD;
  PyObject* dict;
  PyObject* weakrefs;
  vectorcallfunc vectorcall;
  ModuleObject *before, *after;  // all live modules, for names in messages
};

PyTypeObject* module_type = nullptr;
ModuleObject* newest = nullptr;
PyObject* global_hooks = nullptr;  // a tuple of dicts that belong to all modules

// What returned last within the outermost call that runs, to tell who made a tensor. The pointers
// are only compared.
struct Calls {
  static constexpr unsigned kKept = 8;
  struct Returned {
    const PyObject *module, *result;
  };
  Returned returned[kKept];
  unsigned count, depth;
};
thread_local Calls calls __attribute__((tls_model("initial-exec")));

// Interned attribute names.
struct Names {
  PyObject *parameters, *buffers, *modules, *forward, *set, *make_hooks, *call, *name, *obj;
  PyObject* hooks[4];  // the dicts that concern a call; the first is there if any is
} names;

ModuleObject* as_module(PyObject* o) { return reinterpret_cast<ModuleObject*>(o); }
bool is_module(PyObject* o) { return PyObject_TypeCheck(o, module_type); }

int module_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_module(self)->dict);
  return 0;
}

int module_clear(PyObject* self) {
  Py_CLEAR(as_module(self)->dict);
  return 0;
}

void module_dealloc(PyObject* self) {
  ModuleObject* m = as_module(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (m->weakrefs) PyObject_ClearWeakRefs(self);
  (m->after ? m->after->before : newest) = m->before;
  if (m->before) m->before->after = m->after;
  Py_CLEAR(m->dict);
  type->tp_free(self);
  Py_DECREF(type);
}

// Borrowed: what a dict of the instance's dict holds under a name; null without an error: nothing.
PyObject* held(PyObject* dict, PyObject* kind, PyObject* name) {
  PyObject* members = PyDict_GetItemWithError(dict, kind);
  return members && PyDict_Check(members) ? PyDict_GetItemWithError(members, name) : nullptr;
}

PyObject* member(PyObject* dict, PyObject* name) {
  for (PyObject* kind : {names.parameters, names.buffers, names.modules})
    if (PyObject* found = held(dict, kind, name)) return found;
    else if (PyErr_Occurred()) return nullptr;
  return nullptr;
}

// "_forward_hooks", "_backward_pre_hooks", "_state_dict_hooks" ...
bool names_hooks(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) {
    PyErr_Clear();
    return false;
  }
  return text[0] == '_' && std::strstr(text, "_hooks");
}

PyObject* missing(PyObject* self, PyObject* name) {
  PyObject* text =
      PyUnicode_FromFormat("'%.100s' object has no attribute '%S'", Py_TYPE(self)->tp_name, name);
  PyObject* error = text ? PyObject_CallOneArg(PyExc_AttributeError, text) : nullptr;
  Py_XDECREF(text);
  if (error && PyObject_SetAttr(error, names.name, name) == 0 &&
      PyObject_SetAttr(error, names.obj, self) == 0)
    PyErr_SetObject(PyExc_AttributeError, error);
  Py_XDECREF(error);
  return nullptr;
}

// What __getattr__ means for modules: the ordinary lookup has failed.
PyObject* registered(PyObject* self, PyObject* name) {
  PyObject* dict = as_module(self)->dict;
  if (dict) {
    if (PyObject* found = member(dict, name)) return new_reference(found);
    if (PyErr_Occurred()) return nullptr;
    if (PyUnicode_Check(name) && name != names.make_hooks && names_hooks(name)) {
      PyObject* made = PyObject_CallMethodOneArg(self, names.make_hooks, name);
      if (made != Py_None) return made;
      Py_DECREF(made);
    }
  }
  return missing(self, name);
}

PyObject* module_getattro(PyObject* self, PyObject* name) {
  PyTypeObject* type = Py_TYPE(self);
  // A class with a __getattr__ or __getattribute__ of its own asks for the rest itself.
  if (type->tp_getattro != module_getattro) return PyObject_GenericGetAttr(self, name);
  if (!_PyType_Lookup(type, name)) {
    PyObject* dict = as_module(self)->dict;
    PyObject* found = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    if (found) return new_reference(found);
    if (PyErr_Occurred()) return nullptr;
    return registered(self, name);
  }
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  // A property failed: what was registered under the name comes first, then its own error.
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  found = as_module(self)->dict ? member(as_module(self)->dict, name) : nullptr;
  if (!found) {
    PyErr_Restore(kind, value, trace);
    return nullptr;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return new_reference(found);
}

PyObject* module_setattr(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_Format(PyExc_TypeError, "expected 2 arguments, got %zd", count);
    return nullptr;
  }
  PyObject *name = args[0], *value = args[1], *dict = as_module(self)->dict;
  bool plain = !is_module(value) &&
               (!is_tensor(value) || (Py_TYPE(value) == &TensorType && !as_tensor(value)->dict));
  if (plain && dict && member(dict, name)) plain = false;
  if (PyErr_Occurred()) return nullptr;
  if (!plain) return PyObject_CallMethodObjArgs(self, names.set, name, value, nullptr);
  if (PyObject_GenericSetAttr(self, name, value) < 0) return nullptr;
  Py_RETURN_NONE;
}

bool has_hooks(PyObject* dict) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(global_hooks); i++)
    if (PyDict_GET_SIZE(PyTuple_GET_ITEM(global_hooks, i)) > 0) return true;
  if (!dict || !PyDict_GetItemWithError(dict, names.hooks[0])) return false;
  for (PyObject* name : names.hooks) {
    PyObject* hooks = PyDict_GetItemWithError(dict, name);
    if (hooks && PyObject_IsTrue(hooks) != 0) {
      PyErr_Clear();
      return true;
    }
  }
  return false;
}

// Tells an error which module it came out of. The innermost one is asked first.
void annotate(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  bool wanted = kind == PyExc_RuntimeError || kind == PyExc_ValueError ||
                kind == PyExc_IndexError || kind == PyExc_TypeError || kind == PyExc_AssertionError;
  if (wanted) {
    PyErr_NormalizeException(&kind, &value, &trace);
    PyObject* inputs = PyTuple_New(count);
    for (Py_ssize_t i = 0; inputs && i < count; i++)
      PyTuple_SET_ITEM(inputs, i, new_reference(args[i]));
    PyObject* module = inputs ? PyImport_ImportModule("rushlight.nn._names") : nullptr;
    PyObject* done =
        module ? PyObject_CallMethod(module, "annotate", "OOO", value, self, inputs) : nullptr;
    Py_XDECREF(done);
    Py_XDECREF(module);
    Py_XDECREF(inputs);
    PyErr_Clear();
  }
  PyErr_Restore(kind, value, trace);
}

PyObject* call_forward(PyObject* self, PyObject* const* args, size_t flags, PyObject* keys) {
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  PyObject* dict = as_module(self)->dict;
  if (PyObject* own = dict ? PyDict_GetItemWithError(dict, names.forward) : nullptr) {
    PyObject* hold = new_reference(own);
    PyObject* result = PyObject_Vectorcall(hold, args, count, keys);
    Py_DECREF(hold);
    return result;
  }
  PyObject* forward = _PyType_Lookup(Py_TYPE(self), names.forward);
  bool method = forward && PyType_HasFeature(Py_TYPE(forward), Py_TPFLAGS_METHOD_DESCRIPTOR);
  if (method && flags & PY_VECTORCALL_ARGUMENTS_OFFSET) {
    auto** slot = const_cast<PyObject**>(args - 1);
    PyObject* kept = std::exchange(*slot, self);
    Py_INCREF(forward);
    PyObject* result = PyObject_Vectorcall(forward, slot, count + 1, keys);
    Py_DECREF(forward);
    *slot = kept;
    return result;
  }
  PyObject* bound = PyObject_GetAttr(self, names.forward);
  PyObject* result = bound ? PyObject_Vectorcall(bound, args, count, keys) : nullptr;
  Py_XDECREF(bound);
  return result;
}

PyObject* call_module(PyObject* self, PyObject* const* args, size_t flags, PyObject* keys) {
  Calls& running = calls;
  if (running.depth++ == 0) running.count = 0;
  PyObject* result;
  if (has_hooks(as_module(self)->dict)) {
    PyObject* slow = PyObject_GetAttr(self, names.call);
    result = slow ? PyObject_Vectorcall(slow, args, PyVectorcall_NARGS(flags), keys) : nullptr;
    Py_XDECREF(slow);
  } else {
    result = call_forward(self, args, flags, keys);
  }
  if (!result) annotate(self, args, PyVectorcall_NARGS(flags));
  else running.returned[running.count++ % Calls::kKept] = {self, result};
  running.depth--;
  return result;
}

// m(...) by way of the type, and super().__call__(...).
PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  Py_ssize_t count = PyTuple_GET_SIZE(args), named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  std::vector<PyObject*> all(size_t(count + named + 1));
  std::copy_n(&PyTuple_GET_ITEM(args, 0), count, all.begin() + 1);
  PyObject* keys = named ? PyTuple_New(named) : nullptr;
  if (named && !keys) return nullptr;
  PyObject *key, *value;
  for (Py_ssize_t at = 0, i = 0; named && PyDict_Next(kwargs, &at, &key, &value); i++) {
    PyTuple_SET_ITEM(keys, i, new_reference(key));
    all[size_t(1 + count + i)] = value;
  }
  PyObject* result =
      call_module(self, all.data() + 1, size_t(count) | PY_VECTORCALL_ARGUMENTS_OFFSET, keys);
  Py_XDECREF(keys);
  return result;
}

PyObject* module_vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keys) {
  if (Py_TYPE(self)->tp_call == module_call) return call_module(self, args, flags, keys);
  // The class was given another __call__ after it was made.
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  PyObject* tuple = PyTuple_New(count);
  PyObject* kwargs = keys ? PyDict_New() : nullptr;
  for (Py_ssize_t i = 0; tuple && i < count; i++)
    PyTuple_SET_ITEM(tuple, i, new_reference(args[i]));
  for (Py_ssize_t i = 0; kwargs && i < PyTuple_GET_SIZE(keys); i++)
    if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(keys, i), args[count + i]) < 0) Py_CLEAR(kwargs);
  bool ready = tuple && (kwargs || !keys);
  PyObject* result = ready ? Py_TYPE(self)->tp_call(self, tuple, kwargs) : nullptr;
  Py_XDECREF(kwargs);
  Py_XDECREF(tuple);
  return result;
}

PyObject* module_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* nothing = PyTuple_New(0);
  if (!nothing) return nullptr;
  PyObject* self = PyBaseObject_Type.tp_new(type, nothing, nullptr);  // refuses abstract classes
  Py_DECREF(nothing);
  if (!self) return nullptr;
  ModuleObject* m = as_module(self);
  m->vectorcall = module_vectorcall;
  m->before = newest;
  if (newest) newest->after = m;
  newest = m;
  return self;
}

bool inherits(PyObject* cls, const char* name) {
  PyObject* own = PyObject_GetAttrString(cls, name);
  PyObject* base = PyObject_GetAttrString(reinterpret_cast<PyObject*>(module_type), name);
  bool same = own && own == base;
  Py_XDECREF(own);
  Py_XDECREF(base);
  PyErr_Clear();
  return same;
}

// Classes made by class statements look special methods up in dicts; where they define none of
// their own, the functions above are as right and quicker.
PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
  PyObject* super =
      PyObject_CallFunction(reinterpret_cast<PyObject*>(&PySuper_Type), "OO", module_type, cls);
  PyObject* next = super ? PyObject_GetAttrString(super, "__init_subclass__") : nullptr;
  PyObject* done = next ? PyObject_Call(next, args, kwargs) : nullptr;
  Py_XDECREF(super);
  Py_XDECREF(next);
  if (!done) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (inherits(cls, "__getattr__") && inherits(cls, "__getattribute__"))
    type->tp_getattro = module_getattro;
  if (type->tp_call == module_call) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Modified(type);
  return done;
}

PyObject* live_modules(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (ModuleObject* m = newest; list && m; m = m->before)
    if (Py_REFCNT(m) > 0 && PyList_Append(list, reinterpret_cast<PyObject*>(m)) < 0) Py_CLEAR(list);
  return list;
}

// The id of the module whose call returned each object, the latest first.
PyObject* returned_modules(PyObject*, PyObject*) {
  unsigned count = std::min(calls.count, Calls::kKept);
  PyObject* list = PyList_New(count);
  for (unsigned i = 0; list && i < count; i++) {
    const Calls::Returned& r = calls.returned[(calls.count - 1 - i) % Calls::kKept];
    PyObject* pair = Py_BuildValue("(nn)", Py_ssize_t(r.module), Py_ssize_t(r.result));
    if (!pair) Py_CLEAR(list);
    else PyList_SET_ITEM(list, i, pair);
  }
  return list;
}

// Appends the values of one of the dicts of a module, and of all below it, each tensor once. False:
// an error, or a module whose class walks over its parts in its own way.
bool collect(PyObject* module, PyObject* kind, bool recurse, PyObject* named_modules,
             std::unordered_set<PyObject*>& seen, PyObject* list) {
  static PyObject* name = PyUnicode_InternFromString("named_modules");
  if (!seen.insert(module).second) return true;
  PyObject* dict = is_module(module) ? as_module(module)->dict : nullptr;
  if (!dict || _PyType_Lookup(Py_TYPE(module), name) != named_modules) return false;
  PyObject* own = PyDict_GetItemWithError(dict, kind);
  if (!own || !PyDict_Check(own)) return false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(own, &at, &key, &value);)
    if (value != Py_None && seen.insert(value).second && PyList_Append(list, value) < 0)
      return false;
  PyObject* below = recurse ? PyDict_GetItemWithError(dict, names.modules) : nullptr;
  if (recurse && (!below || !PyDict_Check(below))) return false;
  for (Py_ssize_t at = 0; below && PyDict_Next(below, &at, &key, &value);)
    if (value != Py_None) {
      if (Py_EnterRecursiveCall(" while walking over a module")) return false;
      bool done = collect(value, kind, true, named_modules, seen, list);
      Py_LeaveRecursiveCall();
      if (!done) return false;
    }
  return true;
}

// _module_members(module, "_parameters", recurse, Module.named_modules): a list; None: Python must
// walk over this one.
PyObject* module_members(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "_module_members takes 4 arguments");
    return nullptr;
  }
  int recurse = PyObject_IsTrue(args[2]);
  PyObject* list = recurse < 0 ? nullptr : PyList_New(0);
  if (!list) return nullptr;
  std::unordered_set<PyObject*> seen;
  if (collect(args[0], args[1], recurse, args[3], seen, list)) return list;
  Py_DECREF(list);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* set_global_hooks(PyObject*, PyObject* hooks) {
  if (!PyTuple_Check(hooks)) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple of dicts");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(hooks); i++)
    if (!PyDict_Check(PyTuple_GET_ITEM(hooks, i))) {
      PyErr_SetString(PyExc_TypeError, "expected a tuple of dicts");
      return nullptr;
    }
  Py_INCREF(hooks);
  Py_XSETREF(global_hooks, hooks);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__getattr__", registered, METH_O, "A parameter, buffer or submodule by its name."},
    {"__setattr__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(module_setattr)),
     METH_FASTCALL, "Sets an attribute; parameters, buffers and modules are registered."},
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(init_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {},
};
PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(ModuleObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ModuleObject, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ModuleObject, vectorcall), READONLY, nullptr},
    {},
};
PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};
template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}
PyType_Slot slots[] = {
    {Py_tp_new, slot(module_new)},
    {Py_tp_dealloc, slot(module_dealloc)},
    {Py_tp_traverse, slot(module_traverse)},
    {Py_tp_clear, slot(module_clear)},
    {Py_tp_getattro, slot(module_getattro)},
    {Py_tp_call, slot(module_call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_doc, const_cast<char*>("What nn.Module is made of.")},
    {0, nullptr},
};
PyType_Spec spec = {
    "rushlight._C.ModuleBase", sizeof(ModuleObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    slots};

PyMethodDef functions[] = {
    {"_module_members", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(module_members)),
     METH_FASTCALL, nullptr},
    {"_live_modules", live_modules, METH_NOARGS, nullptr},
    {"_returned_modules", returned_modules, METH_NOARGS, nullptr},
    {"_set_global_module_hooks", set_global_hooks, METH_O, nullptr},
    {},
};

bool intern_names() {
  struct Entry {
    PyObject** where;
    const char* text;
  };
  const Entry entries[] = {{&names.parameters, "_parameters"},
                           {&names.buffers, "_buffers"},
                           {&names.modules, "_modules"},
                           {&names.forward, "forward"},
                           {&names.set, "_set_member"},
                           {&names.make_hooks, "_make_hooks"},
                           {&names.call, "_call_impl"},
                           {&names.name, "name"},
                           {&names.obj, "obj"},
                           {&names.hooks[0], "_forward_hooks"},
                           {&names.hooks[1], "_forward_pre_hooks"},
                           {&names.hooks[2], "_backward_hooks"},
                           {&names.hooks[3], "_backward_pre_hooks"}};
  for (const Entry& e : entries)
    if (!(*e.where = PyUnicode_InternFromString(e.text))) return false;
  return true;
}

}  // namespace

std::string parameter_text(const Tensor* t) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  std::string text;
  if (newest) {
    PyObject* module = PyImport_ImportModule("rushlight.nn._names");
    PyObject* found = module ? PyObject_CallMethod(module, "parameter_text", "O", t) : nullptr;
    const char* utf8 = found && PyUnicode_Check(found) ? PyUnicode_AsUTF8(found) : nullptr;
    if (utf8) text = utf8;
    Py_XDECREF(found);
    Py_XDECREF(module);
    PyErr_Clear();
  }
  PyErr_Restore(kind, value, trace);
  return text;
}

int add_module_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type || !intern_names() || !(global_hooks = PyTuple_New(0))) return -1;
  module_type = reinterpret_cast<PyTypeObject*>(type);
  Py_INCREF(type);
  if (PyModule_AddObject(module, "ModuleBase", type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl
