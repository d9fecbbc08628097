#include "python/optim_options.h"

#include "python/tensor_type.h"

namespace rl {

PyObject* interned(const char* text) {
  PyObject* name = PyUnicode_InternFromString(text);
  if (!name) throw PythonError{};
  return name;
}

const Names& names_of(const Rule& rule) {
  static Names* all = new Names[size_t(optimizer_rule_count)];
  Names& names = all[&rule - optimizer_rules];
  if (!names.keys[0]) {
    for (; names.slot_count < kSlots && rule.slots[names.slot_count].name; names.slot_count++)
      names.slots[names.slot_count] = interned(rule.slots[names.slot_count].name);
    for (int i = kHyper - 1; i >= 0; i--)
      if (rule.keys[i].name) names.keys[i] = interned(rule.keys[i].name);
  }
  return names;
}

double value_of(const Tensor* t) {
  double value;
  switch (t->dtype) {
    case DType::F32:
    case DType::F64:
      if (t->device() == kHost)
        return t->dtype == DType::F32 ? double(*t->host<float>()) : *t->host<double>();
      [[fallthrough]];
    default: {
      PyObject* item = tensor_item(t);
      value = item ? PyFloat_AsDouble(item) : -1;
      Py_XDECREF(item);
      if (value == -1 && PyErr_Occurred()) throw PythonError{};
      return value;
    }
  }
}

PyObject* item(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (!value) {
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
    throw PythonError{};
  }
  return value;
}

namespace {

double number(const Rule& rule, PyObject* name, PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (o == Py_False) return 0;
  if (o == Py_True) return 1;
  if (is_tensor(o)) {
    check(as_tensor(o)->numel == 1, rule.writer, ": '", PyUnicode_AsUTF8(name),
          "' must be a number or a tensor of one element, got shape ", as_tensor(o)->sizes);
    return value_of(as_tensor(o));
  }
  if (o == Py_None) return 0;
  if (PyLong_CheckExact(o)) {
    double value = PyLong_AsDouble(o);
    if (value == -1 && PyErr_Occurred()) throw PythonError{};
    return value;
  }
  Py_INCREF(o);  // a user's __float__ may drop it
  double value = PyFloat_AsDouble(o);
  std::string kind = Py_TYPE(o)->tp_name;
  Py_DECREF(o);
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail_as(PyExc_TypeError, rule.writer, ": '", PyUnicode_AsUTF8(name),
            "' of the parameter group must be a number, got ", kind);
  }
  return value;
}

}  // namespace

Hyper read_group(const Rule& rule, PyObject* group) {
  const Names& names = names_of(rule);
  Hyper hyper{};
  int at = 0;
  for (int i = 0; i < kHyper && rule.keys[i].name; i++) {
    PyObject* value = item(group, names.keys[i]);
    if (!rule.keys[i].pair) {
      hyper.values[at++] = number(rule, names.keys[i], value);
      continue;
    }
    Owned pair(PySequence_Tuple(value));
    if (!pair.get()) throw PythonError{};
    bool two = PyTuple_GET_SIZE(pair.get()) == 2;
    for (int k = 0; two && k < 2; k++)
      hyper.values[at++] = number(rule, names.keys[i], PyTuple_GET_ITEM(pair.get(), k));
    if (!two)
      fail_as(PyExc_ValueError, rule.writer, ": '", rule.keys[i].name, "' must have two numbers");
  }
  return hyper;
}

}  // namespace rl
