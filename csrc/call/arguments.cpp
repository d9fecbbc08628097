#include "call/arguments.h"

#include <map>
#include <unordered_map>

#include "autograd/context.h"
#include "autograd/modes.h"
#include "call/registry.h"
#include "tensor/objects.h"

namespace rl {

namespace {

const Param& param(const Signature& s, int i) { return s.params()[size_t(i)]; }

Tensor* as_tensor(PyObject* o) { return reinterpret_cast<Tensor*>(o); }

template <class T>
Var scalar(DType dtype, T value) {
  Var v = empty({}, dtype, kHost);
  *v->host<T>() = value;
  v->wrapped_number = true;
  return v;
}

// The value of a one-element tensor.
double tensor_to_double(const Tensor* t) {
  Var one = alias(t);
  GradMode off(false);
  return ops::number(one);
}

// A number that only uint64 has.
uint64_t large_number(PyObject* o) {
  unsigned long long v = PyLong_AsUnsignedLongLong(o);
  if (v == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail("Overflow when unpacking long long: the integer does not fit int64 or uint64");
  }
  return v;
}

}  // namespace

Var wrap_number(PyObject* o) {
  if (PyBool_Check(o)) return scalar(DType::Bool, o == Py_True);
  if (PyFloat_Check(o)) return scalar(DType::F64, PyFloat_AS_DOUBLE(o));
  if (PyLong_Check(o)) {
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow > 0) return scalar(DType::U64, large_number(o));
    if (overflow) fail("Overflow when unpacking long long: the integer does not fit int64");
    return scalar(DType::I64, int64_t(v));
  }
  if (PyComplex_Check(o)) {
    Py_complex z = PyComplex_AsCComplex(o);
    return scalar(DType::C128, c128(z.real, z.imag));
  }
  if (PyIndex_Check(o)) {
    PyObject* index = PyNumber_Index(o);
    if (!index) throw PythonError{};
    long long v = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return scalar(DType::I64, int64_t(v));
  }
  PyObject* number = PyNumber_Float(o);
  if (!number) throw PythonError{};
  double v = PyFloat_AS_DOUBLE(number);
  Py_DECREF(number);
  return scalar(DType::F64, v);
}

Var tensor_argument(const Signature& s, int i, PyObject* o) {
  if (is_tensor(o)) return Var(as_tensor(o));
  const Param& p = param(s, i);
  if (o == Py_None && p.nullable) return {};
  if (!accepts(p, o) || p.kind == Kind::Tensor) fail_type(s, p, o);
  return wrap_number(o);
}

Vars tensors_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) {
    if (PyTuple_Check(o) || PyList_Check(o))
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++)
        if (!is_tensor(PySequence_Fast_GET_ITEM(o, k)))
          fail_as(PyExc_TypeError, s.name(), "(): expected Tensor as element ", k, " in argument ",
                  i, ", but got ", Py_TYPE(PySequence_Fast_GET_ITEM(o, k))->tp_name);
    fail_type(s, param(s, i), o);
  }
  Vars vars;
  vars.reserve(size_t(PySequence_Fast_GET_SIZE(o)));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++)
    vars.emplace_back(as_tensor(PySequence_Fast_GET_ITEM(o, k)));
  return vars;
}

namespace {

// A whole number, or a tensor of one element.
int64_t to_int(const Signature& s, int i, PyObject* o) {
  bool plain = PyLong_CheckExact(o);
  if (!plain && is_tensor(o)) return ops::whole_number(alias(as_tensor(o)));
  PyObject* index = plain ? Py_NewRef(o) : PyNumber_Index(o);
  if (!index) throw PythonError{};
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (overflow)
    fail_as(PyExc_RuntimeError, s.name(), "(): argument '", param(s, i).name,
            "': Overflow when unpacking long long");
  return v;
}

}  // namespace

int64_t int_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  return to_int(s, i, o);
}

double float_argument(const Signature& s, int i, PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  if (is_tensor(o)) return tensor_to_double(as_tensor(o));
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw PythonError{};
  return v;
}

bool bool_argument(const Signature& s, int i, PyObject* o) {
  if (o == Py_True) return true;
  if (o == Py_False) return false;
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  return tensor_to_double(as_tensor(o)) != 0;
}

Ints ints_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  if (!PyTuple_Check(o) && !PyList_Check(o)) return {to_int(s, i, o)};
  Ints ints(int(PySequence_Fast_GET_SIZE(o)));
  int k = 0;  // an item's __index__ may shorten the list
  for (; k < ints.size() && k < PySequence_Fast_GET_SIZE(o); k++)
    ints[k] = to_int(s, i, PySequence_Fast_GET_ITEM(o, k));
  return k == ints.size() ? ints : Ints(ints.data(), k);
}

DType dtype_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  return dtype_value(o);
}

Device device_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  return ready_device(device_value(o), s.name().c_str());
}

std::string string_argument(const Signature& s, int i, PyObject* o) {
  if (!accepts(param(s, i), o)) fail_type(s, param(s, i), o);
  const char* text = PyUnicode_AsUTF8(o);
  if (!text) throw PythonError{};
  return text;
}

Generator* generator_argument(const Signature& s, int i, PyObject* o) {
  if (o != Py_None && !is_generator(o)) fail_type(s, param(s, i), o);
  return generator_value(o);
}

PyObject* attribute_value(const Ints& v) {
  PyObject* tuple = PyTuple_New(v.size());
  for (int i = 0; tuple && i < v.size(); i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(v[i]));
  return tuple;
}

namespace {

// "torch.return_types.max(\nvalues=...,\nindices=...)": a result to a line.
PyObject* named_repr(PyObject* o) {
  PyObject* names = PyObject_GetAttrString(o, "__match_args__");
  if (!names) return nullptr;
  PyObject* text = PyUnicode_FromFormat("%s(\n", Py_TYPE(o)->tp_name);
  for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(names); i++) {
    const char* comma = i + 1 < PyTuple_GET_SIZE(names) ? ",\n" : ")";
    PyObject* item = PyTuple_GET_ITEM(o, i);
    PyObject* part = PyUnicode_FromFormat("%U=%R%s", PyTuple_GET_ITEM(names, i), item, comma);
    PyUnicode_AppendAndDel(&text, part);
  }
  Py_DECREF(names);
  return text;
}

// As torch.return_types has it: "max", "linalg_eigh".
std::string return_name(const OpInfo& op) {
  std::string home = op.module;
  for (char& c : home)
    if (c == '.') c = '_';
  return home.empty() ? op.name : home + "_" + op.name;
}

// A named tuple type per op with several results: torch.return_types.max.
PyTypeObject* make_return_type(const Signature& s) {
  static auto* types = new std::map<std::string, PyTypeObject*>;
  std::string name = s.name();
  for (auto& op : registry())
    if (&op->signature == &s) name = return_name(*op);
  std::string key = name;
  for (const std::string& r : s.results()) key += "," + r;
  PyTypeObject*& type = (*types)[key];
  if (!type) {
    auto* fields = new PyStructSequence_Field[s.results().size() + 1]();
    for (size_t i = 0; i < s.results().size(); i++) fields[i].name = strdup(s.results()[i].c_str());
    PyStructSequence_Desc desc{strdup(("torch.return_types." + name).c_str()), nullptr, fields,
                               int(s.results().size())};
    type = PyStructSequence_NewType(&desc);
    // It prints as torch's does; pickle looks for it here.
    PyObject* home = type ? PyUnicode_FromString("rushlight.return_types") : nullptr;
    if (!home || PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), "__module__", home) < 0)
      throw PythonError{};
    Py_DECREF(home);
    type->tp_repr = type->tp_str = named_repr;
    PyType_Modified(type);
  }
  return type;
}

PyTypeObject* return_type(const Signature& s) {
  static auto* known = new std::unordered_map<const Signature*, PyTypeObject*>;
  PyTypeObject*& type = (*known)[&s];
  if (!type) type = make_return_type(s);
  return type;
}

}  // namespace

PyObject* return_type_of(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  for (auto& op : registry())
    if (!op->signature.results().empty() && return_name(*op) == text)
      return guarded([&]() -> PyObject* {
        return Py_NewRef(reinterpret_cast<PyObject*>(return_type(op->signature)));
      });
  Py_RETURN_NONE;
}

PyObject* tuple_of(const Signature& s, Var* vars, size_t count) {
  PyObject* tuple;
  if (!s.results().empty() && s.results().size() == count)
    tuple = PyStructSequence_New(return_type(s));
  else tuple = PyTuple_New(Py_ssize_t(count));
  if (!tuple) throw PythonError{};
  for (size_t i = 0; i < count; i++) {
    PyObject* item = vars[i] ? reinterpret_cast<PyObject*>(vars[i].release()) : nullptr;
    if (!item) {
      item = Py_None;
      Py_INCREF(item);
    }
    PyTuple_SET_ITEM(tuple, Py_ssize_t(i), item);
  }
  return tuple;
}

}  // namespace rl
