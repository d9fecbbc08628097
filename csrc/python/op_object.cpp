#include "python/op_object.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/batch.h"
#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "autograd/profile.h"
#include "call/arguments.h"
#include "call/layout.h"
#include "call/write.h"
#include "ops/functions.h"
#include "python/overrides.h"

namespace rl {

const char* package_name = "rushlight";

namespace {

struct OpObject {
  PyObject_HEAD;
  vectorcallfunc call;
  std::vector<const OpInfo*>* overloads;
  PyObject* name;
  const char* module;
  bool inplace;
};

PyTypeObject OpType = {PyVarObject_HEAD_INIT(nullptr, 0)};

OpObject* as_op(PyObject* o) { return reinterpret_cast<OpObject*>(o); }

Var result_of(PyObject* object) {
  if (!is_tensor(object)) fail_as(PyExc_TypeError, "out= needs an op with one result");
  return Var(reinterpret_cast<Tensor*>(object));
}

Levels levels_in(PyObject* o) {
  if (!o) return 0;
  if (is_tensor(o)) return levels_of(reinterpret_cast<Tensor*>(o));
  Levels all = 0;
  if (PyTuple_Check(o) || PyList_Check(o))
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
      all |= levels_in(PySequence_Fast_GET_ITEM(o, i));
  return all;
}

PyObject* run_out(const OpInfo& op, PyObject* const* slots, PyObject* out) {
  if (dual_levels) {
    Levels all = levels_in(out);
    for (size_t i = 0; i < op.signature.params().size(); i++) all |= levels_in(slots[i]);
    if (all) refuse_out(op.name.c_str());
  }
  if (PyTuple_Check(out) || PyList_Check(out)) {
    Var results = Var::steal(reinterpret_cast<Tensor*>(op.call(op, slots)));
    if (!results) return nullptr;
    Var outs = Var::steal(reinterpret_cast<Tensor*>(PySequence_Tuple(out)));
    if (!outs) return nullptr;
    bool several = PyTuple_Check(results.object());
    Py_ssize_t n = several ? PyTuple_GET_SIZE(results.object()) : 0;
    auto into = [&](Py_ssize_t i) {
      return reinterpret_cast<Tensor*>(PyTuple_GET_ITEM(outs.object(), i));
    };
    auto result = [&](Py_ssize_t i) { return result_of(PyTuple_GET_ITEM(results.object(), i)); };
    const char* name = op.name.c_str();
    bool fits = n == PyTuple_GET_SIZE(outs.object());
    for (Py_ssize_t i = 0; fits && i < n; i++) fits = is_tensor(PyTuple_GET_ITEM(outs.object(), i));
    if (!fits) fail_as(PyExc_TypeError, op.name, "(): out= needs a tuple of ", n, " tensors");
    for (Py_ssize_t i = 0; i < n; i++) check_out(into(i), result(i).get(), name);
    for (Py_ssize_t i = 0; i < n; i++) write_out(into(i), result(i), name);
    Py_INCREF(out);
    return out;
  }
  if (!is_tensor(out))
    fail_as(PyExc_TypeError, op.name, "(): argument 'out' must be Tensor, not ",
            Py_TYPE(out)->tp_name);
  auto* into = reinterpret_cast<Tensor*>(out);
  if (op.into) {
    op.into(op, slots, into, false);
  } else {
    Var result = Var::steal(reinterpret_cast<Tensor*>(op.call(op, slots)));
    if (!result) return nullptr;
    write_out(into, result_of(result.object()), op.name.c_str());
  }
  Py_INCREF(out);
  return out;
}

bool any_batched(const OpInfo& op, PyObject* const* slots) {
  if (batched_tensors)
    for (size_t i = 0; i < op.signature.params().size(); i++)
      if (slots[i] && is_tensor(slots[i]) && batch_of(reinterpret_cast<Tensor*>(slots[i])))
        return true;
  return false;
}

// In place without a kernel of its own: compute, then take over the result and its history.
PyObject* run_inplace(const OpInfo& op, PyObject* const* slots) {
  if (!is_tensor(slots[0])) fail_type(op.signature, op.signature.params()[0], slots[0]);
  auto* self = reinterpret_cast<Tensor*>(slots[0]);
  Var keep(self);
  Profiled event;
  if (modes.profiled && op.family != Family::Pointwise) [[unlikely]] {
    event.op((op.name + "_").c_str());
    event.shape(keep);
  }
  // Of the kernels that write in place, those of pointwise and random ops see hidden dimensions.
  bool sees = op.pointwise || op.family == Family::Random;
  if (op.into && (sees || !any_batched(op, slots))) {
    op.into(op, slots, self, true);
  } else {
    check_inplace(self, op.name.c_str());
    check_writable(self);
    // The op sees a stand-in with the same history, so that what it saves survives the write.
    Var before = stand_in(self);
    std::vector<PyObject*> given(slots, slots + op.signature.params().size());
    given[0] = before.object();
    PyObject* object = op.call(op, given.data());
    if (!object) return nullptr;
    Var result = Var::steal(reinterpret_cast<Tensor*>(object));
    if (!is_tensor(object) || !(result.sizes() == self->sizes))
      fail(op.name, "_: output with shape ", self->sizes, " doesn't match the result's shape ",
           is_tensor(object) ? result.sizes() : Ints());
    check_cast(result->dtype, self->dtype);
    SameDevice same(op.name.c_str());
    same.need(self);
    same.add(result.get());
    bool changed = result.get() != before.get();
    before = {};
    if (batched_tensors) check_batched_write(self, result.get());
    prepare_write(self, op.name.c_str());
    if (changed) {
      ops::copy_data(self, result.get());
      take_over(self, result);
    }
  }
  return reinterpret_cast<PyObject*>(keep.release());
}

PyObject* run_overload(const OpInfo& op, PyObject* const* slots, PyObject* out, bool inplace) {
  bool plain = !inplace && (!out || out == Py_None);
  if (plain) return op.call(op, slots);
  WithoutAutocast off;  // what is written to has its dtype
  return inplace ? run_inplace(op, slots) : run_out(op, slots, out);
}

[[noreturn]] void fail_overloads(OpObject* self, PyObject* const* args, Py_ssize_t count,
                                 PyObject* keywords) {
  std::string got;
  for (Py_ssize_t i = 0; i < count; i++) got += concat(i ? ", " : "", Py_TYPE(args[i])->tp_name);
  Py_ssize_t kw = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < kw; i++)
    got += concat(got.empty() ? "" : ", ", PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, i)), "=",
                  Py_TYPE(args[count + i])->tp_name);
  std::string expected;
  for (const OpInfo* op : *self->overloads) expected += "\n * " + op->signature.text();
  fail_as(PyExc_TypeError, PyUnicode_AsUTF8(self->name),
          "() received an invalid combination of arguments - got (", got,
          "), but expected one of:", expected);
}

// An argument whose class may answer for the op, also one in a list or tuple (borrowed).
PyObject* find_override(PyObject* const* args, Py_ssize_t count) {
  auto may_answer = [](PyObject* o) { return is_subclass(o) || is_foreign_override(o); };
  for (Py_ssize_t i = 0; i < count; i++) {
    if (may_answer(args[i])) return args[i];
    if (PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i]))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[i]); k++)
        if (may_answer(PySequence_Fast_GET_ITEM(args[i], k)))
          return PySequence_Fast_GET_ITEM(args[i], k);
  }
  return nullptr;
}

struct Spread {
  PyObject* tuple = nullptr;
  ~Spread() { Py_XDECREF(tuple); }
};

void warn_of_order(const OpInfo& op, const Signature& former) {
  if (std::exchange(op.warned, true)) return;
  std::string text =
      concat("This overload of ", op.name, " is deprecated:\n\t", former.text(),
             "\nConsider using one of the following signatures instead:\n\t", op.signature.text());
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError{};
}

// Binds by a deprecated order of the arguments. A method's tensor comes first in any of them.
bool bind_former(const OpInfo& op, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                 PyObject** slots) {
  const std::vector<Param>& params = op.signature.params();
  const std::string former = op.former;  // streams of temporaries need the C++ library of GCC 11
  std::istringstream orders(former);
  for (std::string order; std::getline(orders, order, ';');)
    for (bool method : {false, true}) {
      std::vector<size_t> places;
      std::istringstream words(order);
      for (std::string word; words >> word;) {
        size_t at = 0;
        while (params[at].name != word) at++;
        places.insert(method && at == 0 ? places.begin() : places.end(), at);
      }
      std::string text;
      for (size_t at : places)
        text += concat(text.empty() ? "" : ", ", params[at].type, " ", params[at].name);
      Signature former((op.name + "(" + text + ")").c_str());
      PyObject* given[kMaxParams];
      Spread spread;
      if (!former.bind(args, count, keywords, given, &spread.tuple, true)) continue;
      for (size_t i = 0; i < params.size(); i++) slots[i] = params[i].default_value;
      bool plain = true;  // factors are numbers, or tensors without dimensions
      for (size_t i = 0; i < places.size(); i++) {
        slots[places[i]] = given[i];
        bool number = params[places[i]].type.find("Tensor") == std::string::npos;
        bool tensor = number && is_tensor(given[i]);
        if (tensor && reinterpret_cast<Tensor*>(given[i])->dim() > 0) plain = false;
      }
      if (!plain || !op.signature.accepts(slots)) continue;
      warn_of_order(op, former);
      return true;
    }
  return false;
}

PyObject* call_op(PyObject* o, PyObject* const* args, size_t flagged, PyObject* keywords) {
  OpObject* self = as_op(o);
  Py_ssize_t count = PyVectorcall_NARGS(flagged);
  return guarded([&]() -> PyObject* {
    const OpInfo* first = (*self->overloads)[0];
    if (modes.intercepted) [[unlikely]]
      return call_override(o, args, count, keywords);
    if (!keywords && first->fast && !self->inplace) {
      PyObject* result = first->fast(*first, args, count);
      if (result || PyErr_Occurred()) return result;
    }
    Py_ssize_t kw = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    PyObject* subclass = find_override(args, count + kw);
    if (subclass) [[unlikely]] {
      PyObject* result = call_override(o, args, count, keywords);
      if (result || PyErr_Occurred()) return result;
    }
    // out= is taken aside, so that signatures need not list it.
    PyObject* out = nullptr;
    PyObject* names = keywords;
    std::vector<PyObject*> without;
    Spread shorter;
    for (Py_ssize_t i = 0; i < kw && first->out; i++)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), "out") == 0) {
        out = args[count + i];
        without.assign(args, args + count + kw);
        without.erase(without.begin() + count + i);
        shorter.tuple = PyTuple_New(kw - 1);
        for (Py_ssize_t k = 0, j = 0; k < kw; k++)
          if (k != i) {
            Py_INCREF(PyTuple_GET_ITEM(keywords, k));
            PyTuple_SET_ITEM(shorter.tuple, j++, PyTuple_GET_ITEM(keywords, k));
          }
        names = shorter.tuple;
        args = without.data();
        break;
      }

    PyObject* slots[kMaxParams];
    PyObject* result = nullptr;
    bool found = false;
    for (const OpInfo* op : *self->overloads) {
      Spread spread;
      bool only = self->overloads->size() == 1, quiet = !only || *op->former;
      if (!op->signature.bind(args, count, names, slots, &spread.tuple, quiet)) continue;
      if (!only && !op->signature.accepts(slots)) continue;
      result = run_overload(*op, slots, out, self->inplace);
      found = true;
      break;
    }
    for (const OpInfo* op : *self->overloads) {
      if (found || !bind_former(*op, args, count, names, slots)) continue;
      result = run_overload(*op, slots, out, self->inplace);
      found = true;
    }
    if (!found) fail_overloads(self, args, count, names);
    return subclass && !self->inplace ? as_class_of(subclass, result) : result;
  });
}

PyObject* op_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyObject* op_repr(PyObject* o) { return PyUnicode_FromFormat("<op %U>", as_op(o)->name); }
PyObject* op_name(PyObject* o, void*) {
  Py_INCREF(as_op(o)->name);
  return as_op(o)->name;
}
PyObject* op_module(PyObject* o, void*) {
  const char* module = as_op(o)->module;
  return PyUnicode_FromFormat("%s%s%s", package_name, *module ? "." : "", module);
}
PyObject* op_doc(PyObject* o, void*) {
  std::string text;
  for (const OpInfo* op : *as_op(o)->overloads) text += op->signature.text() + "\n";
  text += concat("\n", (*as_op(o)->overloads)[0]->doc, "\n");
  PyObject* examples = PyImport_ImportModule("rushlight._examples");
  PyObject* example =
      examples ? PyObject_CallMethod(examples, "of", "Os", as_op(o)->name, as_op(o)->module)
               : nullptr;
  Py_XDECREF(examples);
  if (!example) return nullptr;
  PyObject* doc = PyUnicode_FromFormat("%s\n%U\n", text.c_str(), example);
  Py_DECREF(example);
  return doc;
}
PyObject* op_reduce(PyObject* o, PyObject*) {
  Py_INCREF(as_op(o)->name);
  return as_op(o)->name;
}

PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
PyGetSetDef op_getset[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                           {"__qualname__", op_name, nullptr, nullptr, nullptr},
                           {"__module__", op_module, nullptr, nullptr, nullptr},
                           {"__doc__", op_doc, nullptr, nullptr, nullptr},
                           {}};

int ready_type() {
  OpType.tp_name = "rushlight._C.Op";
  OpType.tp_basicsize = sizeof(OpObject);
  OpType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  OpType.tp_vectorcall_offset = offsetof(OpObject, call);
  OpType.tp_call = PyVectorcall_Call;
  OpType.tp_descr_get = op_get;
  OpType.tp_repr = op_repr;
  OpType.tp_methods = op_methods;
  OpType.tp_getset = op_getset;
  return PyType_Ready(&OpType);
}

PyObject* new_op(const std::string& name, const char* module,
                 const std::vector<const OpInfo*>& overloads, bool inplace) {
  auto* o = PyObject_New(OpObject, &OpType);
  if (!o) return nullptr;
  o->call = call_op;
  o->overloads = new std::vector<const OpInfo*>(overloads);
  o->name = PyUnicode_FromString(name.c_str());
  o->module = module;
  o->inplace = inplace;
  return reinterpret_cast<PyObject*>(o);
}

int put(PyObject* dict, const std::string& name, PyObject* value) {
  int done = value ? PyDict_SetItemString(dict, name.c_str(), value) : -1;
  Py_XDECREF(value);
  return done;
}

}  // namespace

int add_ops(PyObject* tensor_dict, PyObject* namespaces) {
  if (ready_type() < 0) return -1;
  struct Group {
    std::vector<const OpInfo*> function, method, inplace;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  std::map<std::string, const char*> modules;
  for (auto& op : registry()) {
    Group& g = groups[{op->module, op->name}];
    modules[op->module] = op->module;
    if (op->function) g.function.push_back(op.get());
    if (op->method && !*op->module) g.method.push_back(op.get());
    if (op->inplace) g.inplace.push_back(op.get());
  }
  for (auto& [key, group] : groups) {
    const auto& [module, name] = key;
    for (auto* overloads : {&group.function, &group.method, &group.inplace})
      std::stable_partition(overloads->begin(), overloads->end(),
                            [](const OpInfo* op) { return !op->tried_last; });
    PyObject* dict = PyDict_GetItemString(namespaces, module.c_str());
    if (!dict) {
      dict = PyDict_New();
      if (!dict || PyDict_SetItemString(namespaces, module.c_str(), dict) < 0) return -1;
      Py_DECREF(dict);
    }
    if (!group.function.empty() &&
        put(dict, name, new_op(name, modules[module], group.function, false)) < 0)
      return -1;
    if (!group.method.empty() &&
        put(tensor_dict, name, new_op(name, modules[module], group.method, false)) < 0)
      return -1;
    if (!group.inplace.empty()) {
      PyObject* o = new_op(name + "_", modules[module], group.inplace, true);
      if (!o) return -1;
      Py_INCREF(o);
      if (put(dict, name + "_", o) < 0) return -1;
      if (module.empty() && put(tensor_dict, name + "_", o) < 0) return -1;
      if (!module.empty()) Py_DECREF(o);
    }
  }
  return 0;
}

PyObject* describe_registry(PyObject*, PyObject*) {
  static const char* const forms[] = {"composite", "partial", "linear", "general",
                                      "nondifferentiable"};
  PyObject* list = PyList_New(0);
  for (auto& op : registry()) {
    if (!list) return nullptr;
    PyObject* results = PyTuple_New(0);
    auto add_form = [&](bool has, const char* word) {
      if (!has || !results) return;
      PyObject* one = Py_BuildValue("(s)", word);
      PyObject* longer = one ? PySequence_Concat(results, one) : nullptr;
      Py_XDECREF(one);
      Py_XSETREF(results, longer);
    };
    add_form(op->function, "function");
    add_form(op->method && !*op->module, "method");
    add_form(op->inplace, "inplace");
    add_form(op->out && op->function, "out");
    PyObject* entry = Py_BuildValue(
        "{s:s,s:s,s:s,s:s,s:N,s:s,s:s,s:s,s:s,s:s}", "name", op->name.c_str(), "namespace",
        op->module, "signature", op->signature.text().c_str(), "doc", op->doc, "forms", results,
        "family", name(op->family), "derivative", forms[int(op->form)], "domain", op->domain,
        "result", op->result, "former", op->former);
    if (entry && op->pointwise) {
      if (!add_formulas(entry, *op->pointwise)) Py_CLEAR(entry);
    }
    if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
    Py_XDECREF(entry);
  }
  return list;
}

}  // namespace rl
