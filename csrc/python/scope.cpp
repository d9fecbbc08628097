#include "python/scope.h"

#include <cstring>
#include <vector>

#include "autograd/context.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

struct Part {
  const ScopeKind* kind;
  PyObject* value;  // owned
};

struct Scope {
  PyObject_HEAD;
  PyObject* weakrefs;
  std::vector<Part>* parts;
  std::vector<ScopeEntry>* entries;  // parts->size() for each time that it was entered
  int64_t number;
  bool pending;  // entered when it was made, and not yet by `with`
};

struct Guard {
  PyObject_HEAD;
  Scope* scope;
  size_t entered;  // entries of the scope when the guard was made
  bool called;
};

constexpr uint64_t kIdle = 1;  // in ScopeEntry::b of a part that acts outside of blocks only

PyTypeObject ScopeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject GuardType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject ExitType = {PyVarObject_HEAD_INIT(nullptr, 0)};

Scope* as_scope(PyObject* o) { return reinterpret_cast<Scope*>(o); }

const ScopeKind* find_kind(PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  for (const ScopeKind* k = scope_kinds; text && k->name; k++)
    if (std::strcmp(k->name, text) == 0) return k;
  PyErr_Format(PyExc_ValueError, "_Scope: unknown kind %R", name);
  return nullptr;
}

// Leaves the latest `count` entries, the last first. False when one of them said so.
bool leave(Scope* self, size_t count) {
  bool fine = true;
  for (size_t i = 0; i < count; i++) {
    ScopeEntry entry = self->entries->back();
    self->entries->pop_back();
    const ScopeKind* kind = (*self->parts)[self->entries->size() % self->parts->size()].kind;
    modes_borrowed = entry.inside;
    if (!kind->only_outside || entry.b != kIdle) fine &= kind->leave(entry);
    modes_borrowed = entry.borrowed;
    Py_XDECREF(entry.object);
  }
  return fine;
}

// The same while an exception is on its way, which stays.
void leave_quietly(Scope* self, size_t count) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  leave(self, count);
  PyErr_Restore(type, value, trace);
}

bool enter(Scope* self, bool at_once = false) {
  PyObject* o = reinterpret_cast<PyObject*>(self);
  for (size_t i = 0; i < self->parts->size(); i++) {
    const Part& part = (*self->parts)[i];
    ScopeEntry entry;
    entry.borrowed = modes_borrowed;
    entry.inside = !modes_are_contexts();
    if (part.kind->only_outside && !at_once) {
      entry.b = kIdle;
      self->entries->push_back(entry);
      continue;
    }
    if (guarded_int([&] { return part.kind->enter(entry, o, part.value) ? 0 : -1; }) < 0) {
      Py_XDECREF(entry.object);
      leave_quietly(self, i);
      return false;
    }
    if (!at_once) modes_borrowed = entry.inside;
    self->entries->push_back(entry);
  }
  return true;
}

void drop_parts(Scope* self) {
  for (Part& part : *self->parts) Py_DECREF(part.value);
  self->parts->clear();
}

// _set_parts((kind, value), ...): what entering does.
PyObject* set_parts(PyObject* o, PyObject* const* args, Py_ssize_t count) {
  Scope* self = as_scope(o);
  if (!self->entries->empty()) {
    PyErr_SetString(PyExc_RuntimeError, "the block was entered already");
    return nullptr;
  }
  drop_parts(self);
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!PyTuple_Check(args[i]) || PyTuple_GET_SIZE(args[i]) != 2) {
      PyErr_SetString(PyExc_TypeError, "_Scope: expected (kind, value)");
      return nullptr;
    }
    const ScopeKind* kind = find_kind(PyTuple_GET_ITEM(args[i], 0));
    if (!kind) return nullptr;
    self->parts->push_back({kind, new_reference(PyTuple_GET_ITEM(args[i], 1))});
  }
  Py_RETURN_NONE;
}

PyObject* parts_name() {
  static PyObject* const name = PyUnicode_InternFromString("_parts_of");
  return name;
}

// The function that a class with fixed parts was called with, to decorate it (borrowed); else null.
PyObject* decorated(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* function = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0)
                       : keywords                  ? PyDict_GetItemString(keywords, "function")
                                                   : nullptr;
  if (!function || function == Py_None) return nullptr;
  PyObject* parts = _PyType_Lookup(type, parts_name());
  return parts && PyTuple_Check(parts) ? function : nullptr;
}

PyObject* scope_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  if (PyTuple_GET_SIZE(args) || keywords)
    if (PyObject* function = decorated(type, args, keywords)) {
      PyObject* scope = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type));
      PyObject* wrapped = scope ? PyObject_CallOneArg(scope, function) : nullptr;
      Py_XDECREF(scope);
      return wrapped;
    }
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) return nullptr;
  as_scope(o)->parts = new std::vector<Part>;
  as_scope(o)->entries = new std::vector<ScopeEntry>;
  return o;
}

// Without an __init__ in Python: type(self)._parts_of, a tuple or what makes one of the arguments,
// says what to enter, and _at_once whether to do so now. No frame of Python code knows the object
// while its mode is set.
int scope_init(PyObject* o, PyObject* args, PyObject* keywords) {
  static PyObject* const at_once_name = PyUnicode_InternFromString("_at_once");
  PyObject* parts_of = PyObject_GetAttr(o, parts_name());
  if (!parts_of) return -1;
  if (PyTuple_Check(parts_of)) {
    if (PyTuple_GET_SIZE(args) > 1 || (keywords && PyDict_GET_SIZE(keywords) > 1)) {
      Py_DECREF(parts_of);
      PyErr_Format(PyExc_TypeError, "%s takes no arguments but a function to decorate",
                   Py_TYPE(o)->tp_name);
      return -1;
    }
    PyObject* done = set_parts(o, &PyTuple_GET_ITEM(parts_of, 0), PyTuple_GET_SIZE(parts_of));
    Py_DECREF(parts_of);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  if (parts_of == Py_None) {
    Py_DECREF(parts_of);
    PyObject* done = set_parts(o, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args));
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  PyObject* parts = PyObject_Call(parts_of, args, keywords);
  Py_DECREF(parts_of);
  if (!parts || !PyTuple_Check(parts)) {
    if (parts) PyErr_SetString(PyExc_TypeError, "_parts_of must return a tuple");
    Py_XDECREF(parts);
    return -1;
  }
  PyObject* done = set_parts(o, &PyTuple_GET_ITEM(parts, 0), PyTuple_GET_SIZE(parts));
  Py_DECREF(parts);
  if (!done) return -1;
  Py_DECREF(done);
  PyObject* at_once = PyObject_GetAttr(o, at_once_name);
  if (!at_once) return -1;
  Py_DECREF(at_once);
  if (at_once != Py_True) return 0;
  if (!enter(as_scope(o), true)) return -1;
  as_scope(o)->pending = true;
  return 0;
}

int scope_traverse(PyObject* o, visitproc visit, void* arg) {
  Scope* self = as_scope(o);
  if (self->parts)
    for (Part& part : *self->parts) Py_VISIT(part.value);
  if (self->entries)
    for (ScopeEntry& entry : *self->entries) Py_VISIT(entry.object);
  return 0;
}

int scope_clear(PyObject* o) {
  Scope* self = as_scope(o);
  if (self->entries->empty()) drop_parts(self);
  return 0;
}

void scope_dealloc(PyObject* o) {
  Scope* self = as_scope(o);
  PyObject_GC_UnTrack(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  // `with set_grad_enabled(False)` that was interrupted before the block: undone, unlike a call that
  // stands alone and like those, such as no_grad().__enter__(), which are meant to last.
  if (self->pending && PyErr_Occurred()) leave_quietly(self, self->entries->size());
  for (ScopeEntry& entry : *self->entries) Py_XDECREF(entry.object);
  drop_parts(self);
  delete self->parts;
  delete self->entries;
  Py_TYPE(o)->tp_free(o);
}

PyObject* scope_enter(PyObject* o, PyObject*) {
  Scope* self = as_scope(o);
  if (self->pending) {  // it may have been changed since
    std::vector<ScopeEntry> first(*self->entries);
    for (size_t i = first.size(); i-- > 0;) {
      const ScopeKind* kind = (*self->parts)[i].kind;
      if (!kind->only_outside) continue;
      if (!kind->leave(first[i])) return nullptr;
      first[i].b = (*self->entries)[i].b = kIdle;
    }
    self->entries->clear();
    if (!enter(self)) return nullptr;
    for (ScopeEntry& entry : *self->entries) Py_XDECREF(entry.object);
    *self->entries = first;
    self->pending = false;
  } else if (!enter(self)) {
    return nullptr;
  }
  size_t parts = self->parts->size(), base = self->entries->size() - parts;
  for (size_t i = 0; i < parts; i++)
    if (auto result = (*self->parts)[i].kind->result) return result((*self->entries)[base + i], o);
  Py_RETURN_NONE;
}

PyObject* leave_once(Scope* self) {
  self->pending = false;
  if (self->parts->empty()) Py_RETURN_NONE;
  if (self->entries->empty()) {
    PyErr_Format(PyExc_RuntimeError, "%s: the block is left without having been entered",
                 Py_TYPE(self)->tp_name);
    return nullptr;
  }
  if (!leave(self, self->parts->size())) return nullptr;
  Py_RETURN_NONE;
}

// ---- __exit__: a descriptor that gives a guard

PyObject* exit_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return new_reference(self);
  auto* guard = PyObject_New(Guard, &GuardType);
  if (!guard) return nullptr;
  Py_INCREF(instance);
  guard->scope = as_scope(instance);
  guard->entered = guard->scope->entries->size();
  guard->called = false;
  return reinterpret_cast<PyObject*>(guard);
}

// type(scope).__exit__(scope, *error)
PyObject* exit_call(PyObject*, PyObject* args, PyObject*) {
  PyObject* o = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : Py_None;
  if (!PyObject_TypeCheck(o, &ScopeType)) {
    PyErr_SetString(PyExc_TypeError, "__exit__ needs the scope that is left");
    return nullptr;
  }
  return leave_once(as_scope(o));
}

PyObject* guard_call(PyObject* o, PyObject*, PyObject*) {
  auto* guard = reinterpret_cast<Guard*>(o);
  guard->called = true;
  return leave_once(guard->scope);
}

void guard_dealloc(PyObject* o) {
  auto* guard = reinterpret_cast<Guard*>(o);
  Scope* scope = guard->scope;
  if (!guard->called && scope->entries->size() > guard->entered && PyErr_Occurred())
    leave_quietly(scope, scope->entries->size() - guard->entered);
  PyObject_Free(o);
  Py_DECREF(scope);
}

PyObject* get_number(PyObject* o, void*) { return PyLong_FromLongLong(as_scope(o)->number); }
PyObject* get_entered(PyObject* o, void*) {
  return PyBool_FromLong(!as_scope(o)->entries->empty());
}
PyObject* get_value(PyObject* o, void*) {
  Scope* self = as_scope(o);
  return new_reference(self->parts->empty() ? Py_None : (*self->parts)[0].value);
}

PyMethodDef scope_methods[] = {
    {"_set_parts", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(set_parts)), METH_FASTCALL,
     nullptr},
    {"__enter__", scope_enter, METH_NOARGS, nullptr},
    {},
};
PyGetSetDef scope_getset[] = {
    {"_number", get_number, nullptr, "The number of the region.", nullptr},
    {"entered", get_entered, nullptr, "Whether the block is entered.", nullptr},
    {"_value", get_value, nullptr, "What the first part is set to.", nullptr},
    {},
};

}  // namespace

void set_scope_number(PyObject* scope, int64_t number) { as_scope(scope)->number = number; }

int add_scope_type(PyObject* module) {
  GuardType.tp_name = "rushlight._C._ScopeExit";
  GuardType.tp_basicsize = sizeof(Guard);
  GuardType.tp_flags = Py_TPFLAGS_DEFAULT;
  GuardType.tp_call = guard_call;
  GuardType.tp_dealloc = guard_dealloc;
  ExitType.tp_name = "rushlight._C._ScopeExitMethod";
  ExitType.tp_basicsize = sizeof(PyObject);
  ExitType.tp_flags = Py_TPFLAGS_DEFAULT;
  ExitType.tp_descr_get = exit_get;
  ExitType.tp_call = exit_call;
  ScopeType.tp_name = "rushlight._C._Scope";
  ScopeType.tp_basicsize = sizeof(Scope);
  ScopeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  ScopeType.tp_doc = "A block in which modes are set; however it ends, they are set back.";
  ScopeType.tp_new = scope_new;
  ScopeType.tp_init = scope_init;
  ScopeType.tp_dealloc = scope_dealloc;
  ScopeType.tp_traverse = scope_traverse;
  ScopeType.tp_clear = scope_clear;
  ScopeType.tp_weaklistoffset = offsetof(Scope, weakrefs);
  ScopeType.tp_methods = scope_methods;
  ScopeType.tp_getset = scope_getset;
  if (PyType_Ready(&GuardType) < 0 || PyType_Ready(&ExitType) < 0 || PyType_Ready(&ScopeType) < 0)
    return -1;
  PyObject* exit = PyObject_New(PyObject, &ExitType);
  if (!exit || PyDict_SetItemString(ScopeType.tp_dict, "__exit__", exit) < 0) return -1;
  Py_DECREF(exit);
  // A missing attribute would cost more than all the rest.
  if (PyDict_SetItemString(ScopeType.tp_dict, "_parts_of", Py_None) < 0 ||
      PyDict_SetItemString(ScopeType.tp_dict, "_at_once", Py_False) < 0)
    return -1;
  PyType_Modified(&ScopeType);
  Py_INCREF(&ScopeType);
  return PyModule_AddObject(module, "_Scope", reinterpret_cast<PyObject*>(&ScopeType));
}

}  // namespace rl
