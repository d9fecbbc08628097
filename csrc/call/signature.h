// Parsing of Python arguments by a signature written as text, in torch's spelling:
//   "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace rl {

enum class Kind : uint8_t {
  Tensor,          // Tensor
  TensorOrNumber,  // Tensor|Number: a Python scalar becomes a wrapped number
  Tensors,         // Tensor[]: a tuple or list
  Int,
  Float,   // any real number
  Number,  // int, float, bool or complex
  Bool,
  Ints,  // int[]: one int or a sequence
  Size,  // size: int[] that may also be spread over the positional arguments
  DType,
  Device,
  String,
  Generator,
  Object,
  TensorsSpread,  // tensors: Tensor[] that may also be spread over the positional arguments
};

struct Param {
  std::string name;
  std::string type;  // as written
  Kind kind;
  bool nullable;  // None is allowed
  bool has_default;
  bool keyword_only;
  PyObject* default_value;  // immortal; null without a default
  std::string default_text;
};

inline constexpr int kMaxParams = 16;

class Signature {
 public:
  Signature() = default;
  explicit Signature(const char* text);
  Signature(const Signature&) = default;
  Signature& operator=(const Signature&) = default;
  ~Signature();

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  const std::vector<Param>& params() const { return params_; }
  // Names of several results: "-> (values, indices)".
  const std::vector<std::string>& results() const { return results_; }

  // Fills slots (borrowed references; a default where nothing was given). A tuple made for spread
  // sizes is stored in *spread (owned by the caller). Raises TypeError, or returns false without
  // an error when quiet.
  bool bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords, PyObject** slots,
            PyObject** spread, bool quiet) const {
    if (keywords || count < least_ || count > most_ ||
        (count > spread_at_ && !PyTuple_Check(args[spread_at_]) && !PyList_Check(args[spread_at_])))
      return bind_any(args, count, keywords, slots, spread, quiet);
    for (Py_ssize_t i = 0; i < count; i++) slots[i] = args[i];
    for (size_t i = size_t(count); i < defaults_.size(); i++) slots[i] = defaults_[i];
    return true;
  }

  // Whether every bound argument has an acceptable type; for choosing among overloads.
  bool accepts(PyObject* const* slots) const;

 private:
  void parse_param(std::string text, bool keyword_only);
  bool bind_any(PyObject* const* args, Py_ssize_t count, PyObject* keywords, PyObject** slots,
                PyObject** spread, bool quiet) const;

  std::string name_, text_;
  std::vector<Param> params_;
  std::vector<std::string> results_;
  // Numbers of positional arguments that each fill one slot, in order; the other slots get these.
  Py_ssize_t least_ = 0, most_ = 0;
  Py_ssize_t spread_at_ = kMaxParams;  // the parameter that several arguments may stand for
  std::vector<PyObject*> defaults_;
};

bool accepts(const Param& param, PyObject* value);
// TypeError: "name(): argument 'dim' (position 2) must be int, not str".
[[noreturn]] void fail_type(const Signature& signature, const Param& param, PyObject* got);

}  // namespace rl
