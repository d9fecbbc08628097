#include "call/signature.h"

#include <cstring>

#include "tensor/error.h"
#include "tensor/objects.h"
#include "tensor/tensor.h"

namespace rl {

namespace {

std::string strip(const std::string& s) {
  size_t a = s.find_first_not_of(" \n"), b = s.find_last_not_of(" \n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

// clang-format off
const std::pair<const char*, Kind> kKinds[] = {
    {"Tensor", Kind::Tensor},    {"Tensor|Number", Kind::TensorOrNumber},
    {"Tensor[]", Kind::Tensors}, {"int", Kind::Int},
    {"float", Kind::Float},      {"Number", Kind::Number},
    {"bool", Kind::Bool},        {"int[]", Kind::Ints},
    {"size", Kind::Size},        {"dtype", Kind::DType},
    {"device", Kind::Device},    {"str", Kind::String},
    {"Generator", Kind::Generator}, {"object", Kind::Object},
    {"tensors", Kind::TensorsSpread},
};
// clang-format on

PyObject* literal(const std::string& text) {
  if (text == "None") Py_RETURN_NONE;
  if (text == "True") Py_RETURN_TRUE;
  if (text == "False") Py_RETURN_FALSE;
  if (text[0] == '\'') return PyUnicode_FromString(text.substr(1, text.size() - 2).c_str());
  if (text == "()") return PyTuple_New(0);
  if (text == "inf") return PyFloat_FromDouble(HUGE_VAL);
  if (text.find_first_of(".e") != std::string::npos) return PyFloat_FromDouble(std::stod(text));
  return PyLong_FromLong(std::stol(text));
}

// Other spellings that torch or NumPy users type.
const char* canonical(const char* keyword) {
  // clang-format off
  static const std::pair<const char*, const char*> aliases[] = {
      {"axis", "dim"}, {"keepdims", "keepdim"}, {"self", "input"}, {"x1", "input"},
      {"x2", "other"}, {"axis0", "dim0"}, {"axis1", "dim1"}, {"unbiased", "unbiased"}};
  // clang-format on
  for (auto& [from, to] : aliases)
    if (std::strcmp(keyword, from) == 0) return to;
  return keyword;
}

bool is_int(PyObject* o) {
  if (PyLong_CheckExact(o)) return true;
  if (PyBool_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o)) return false;
  if (is_tensor(o)) {
    auto* t = reinterpret_cast<Tensor*>(o);
    return t->numel == 1 && is_integral(t->dtype) && t->dtype != DType::Bool;
  }
  return PyIndex_Check(o);
}

bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) ||
         (!is_tensor(o) && !PyUnicode_Check(o) && !PySequence_Check(o) && PyNumber_Check(o));
}

bool is_int_list(PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_int(PySequence_Fast_GET_ITEM(o, i))) return false;
  return true;
}

}  // namespace

Signature::~Signature() = default;

Signature::Signature(const char* text) : text_(text) {
  std::string s = text;
  size_t open = s.find('('), close = s.rfind(')');
  size_t arrow = s.find("->");
  if (arrow != std::string::npos) {
    close = s.rfind(')', arrow);
    std::string names = s.substr(s.find('(', arrow) + 1);
    names = names.substr(0, names.find(')')) + ",";
    for (size_t at = 0, comma; (comma = names.find(',', at)) != std::string::npos; at = comma + 1)
      results_.push_back(strip(names.substr(at, comma - at)));
  }
  name_ = s.substr(0, open);
  std::string inside = s.substr(open + 1, close - open - 1) + ",";
  bool keyword_only = false;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < inside.size(); i++) {
    if (inside[i] == '(') depth++;
    if (inside[i] == ')') depth--;
    if (inside[i] != ',' || depth) continue;
    std::string part = strip(inside.substr(start, i - start));
    start = i + 1;
    if (part == "*") keyword_only = true;
    else if (!part.empty()) parse_param(part, keyword_only);
  }
}

void Signature::parse_param(std::string text, bool keyword_only) {
  Param p;
  p.keyword_only = keyword_only;
  p.default_value = nullptr;
  size_t equals = text.find('=');
  p.has_default = equals != std::string::npos;
  if (p.has_default) {
    p.default_text = strip(text.substr(equals + 1));
    p.default_value = literal(p.default_text);
    text = strip(text.substr(0, equals));
  }
  size_t space = text.rfind(' ');
  p.name = text.substr(space + 1);
  p.type = strip(text.substr(0, space));
  p.nullable = p.type.back() == '?';
  std::string type = p.nullable ? p.type.substr(0, p.type.size() - 1) : p.type;
  bool known = false;
  for (auto& [name, kind] : kKinds)
    if (type == name) {
      p.kind = kind;
      known = true;
    }
  if (!known || params_.size() >= kMaxParams)
    Py_FatalError(("bad signature: " + text_ + ": " + type).c_str());
  params_.push_back(p);
  defaults_.push_back(p.default_value);
  Py_ssize_t n = Py_ssize_t(params_.size());
  if (!p.has_default) least_ = keyword_only ? kMaxParams : n;
  if (!keyword_only && most_ == n - 1 && spread_at_ == kMaxParams) most_ = n;
  if (p.kind == Kind::Size || p.kind == Kind::TensorsSpread) spread_at_ = n - 1;
}

bool accepts(const Param& param, PyObject* o) {
  if (o == Py_None) return param.nullable;
  switch (param.kind) {
    case Kind::Tensor: return is_tensor(o);
    case Kind::TensorOrNumber: return is_tensor(o) || is_number(o);
    case Kind::TensorsSpread:
    case Kind::Tensors: {
      if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (!is_tensor(PySequence_Fast_GET_ITEM(o, i))) return false;
      return true;
    }
    case Kind::Int: return is_int(o);
    case Kind::Float:
      return PyFloat_Check(o) || PyLong_Check(o) ||
             (is_tensor(o) && reinterpret_cast<Tensor*>(o)->numel == 1) ||
             (is_number(o) && !PyComplex_Check(o));
    case Kind::Number: return is_number(o);
    case Kind::Bool:
      return PyBool_Check(o) ||
             (is_tensor(o) && reinterpret_cast<Tensor*>(o)->dtype == DType::Bool &&
              reinterpret_cast<Tensor*>(o)->numel == 1);
    case Kind::Ints:
    case Kind::Size: return is_int(o) || is_int_list(o);
    case Kind::DType:
      return is_dtype(o) || o == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
             o == reinterpret_cast<PyObject*>(&PyLong_Type) ||
             o == reinterpret_cast<PyObject*>(&PyBool_Type);
    case Kind::Device: return is_device(o) || PyUnicode_Check(o) || is_int(o);
    case Kind::String: return PyUnicode_Check(o);
    case Kind::Generator: return is_generator(o);
    default: return true;
  }
}

bool Signature::accepts(PyObject* const* slots) const {
  for (size_t i = 0; i < params_.size(); i++)
    if (slots[i] != params_[i].default_value && !rl::accepts(params_[i], slots[i])) return false;
  return true;
}

namespace {

[[noreturn]] void fail_item(const Signature& signature, const Param& param, Py_ssize_t at,
                            PyObject* got) {
  fail_as(PyExc_TypeError, signature.name(), "(): argument '", param.name,
          "' failed to unpack the object at pos ", at + 1,
          " with error \"type must be tuple of ints,but got ", Py_TYPE(got)->tp_name, "\"",
          PyFloat_Check(got) ? ": n // 2 is a whole number, n / 2 is not" : "");
}

}  // namespace

bool Signature::bind_any(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                         PyObject** slots, PyObject** spread, bool quiet) const {
  Py_ssize_t n = Py_ssize_t(params_.size());
  for (Py_ssize_t i = 0; i < n; i++) slots[i] = nullptr;
  Py_ssize_t used = 0;
  for (Py_ssize_t i = 0; i < n && used < count; i++) {
    const Param& p = params_[i];
    if (p.keyword_only) break;
    PyObject* value = args[used];
    bool tensors = p.kind == Kind::TensorsSpread;
    if ((p.kind == Kind::Size && is_int(value)) || (tensors && is_tensor(value))) {
      Py_ssize_t first = used, stop = used;
      while (stop < count && (tensors ? is_tensor(args[stop]) : is_int(args[stop]))) stop++;
      PyObject* items = PyTuple_New(stop - used);
      if (!items) throw PythonError{};
      for (Py_ssize_t k = used; k < stop; k++) {
        Py_INCREF(args[k]);
        PyTuple_SET_ITEM(items, k - used, args[k]);
      }
      Py_XSETREF(*spread, items);
      slots[i] = items;
      used = stop;
      bool last = i + 1 == n || params_[i + 1].keyword_only;
      if (!tensors && last && used < count && !quiet) fail_item(*this, p, stop - first, args[used]);
      continue;
    }
    slots[i] = value;
    used++;
  }
  if (used < count) {
    if (quiet) return false;
    Py_ssize_t positional = 0;
    for (const Param& p : params_) positional += !p.keyword_only;
    fail_as(PyExc_TypeError, name_, "() takes ", positional, " positional argument",
            positional == 1 ? "" : "s", " but ", count, " were given. Expected ", text_);
  }
  Py_ssize_t kw = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < kw; k++) {
    const char* key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(keywords, k));
    if (!key) throw PythonError{};
    Py_ssize_t at = 0;
    while (at < n && params_[at].name != key) at++;
    if (at == n) {
      const char* other = canonical(key);
      at = 0;
      while (at < n && params_[at].name != other) at++;
    }
    if (at == n) {
      if (quiet) return false;
      fail_as(PyExc_TypeError, name_, "() got an unexpected keyword argument '", key,
              "'. Expected ", text_);
    }
    if (slots[at]) {
      if (quiet) return false;
      fail_as(PyExc_TypeError, name_, "() got multiple values for argument '", key, "'");
    }
    slots[at] = args[count + k];
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    if (slots[i]) continue;
    if (!params_[i].has_default) {
      if (quiet) return false;
      Py_ssize_t missing = 0;
      std::string names;
      for (Py_ssize_t j = i; j < n; j++)
        if (!slots[j] && !params_[j].has_default) {
          names += concat(missing++ ? ", " : "", '"', params_[j].name, '"');
        }
      fail_as(PyExc_TypeError, name_, "() missing ", missing, " required positional argument",
              missing == 1 ? "" : "s", ": ", names, ". Expected ", text_);
    }
    slots[i] = params_[i].default_value;
  }
  return true;
}

void fail_type(const Signature& signature, const Param& param, PyObject* got) {
  // clang-format off
  static const char* const words[] = {"Tensor", "Tensor or Number", "tuple of Tensors", "int",
                                      "float", "Number", "bool", "tuple of ints", "tuple of ints",
                                      "torch.dtype", "torch.device", "str", "torch.Generator",
                                      "object", "tuple of Tensors"};
  // clang-format on
  bool ints = param.kind == Kind::Ints || param.kind == Kind::Size;
  if (ints && (PyTuple_Check(got) || PyList_Check(got)))
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(got); k++)
      if (PyObject* item = PySequence_Fast_GET_ITEM(got, k); !is_int(item))
        fail_item(signature, param, k, item);
  size_t at = 0;
  while (&signature.params()[at] != &param) at++;
  fail_as(PyExc_TypeError, signature.name(), "(): argument '", param.name, "' (position ", at + 1,
          ") must be ", words[int(param.kind)], ", not ", Py_TYPE(got)->tp_name, ". Expected ",
          signature.text());
}

}  // namespace rl
