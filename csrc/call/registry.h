// Every op, as the bindings, the stubs, the docs and the tests see it.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "call/family.h"
#include "call/signature.h"
#include "kernels/kernels.h"

namespace rl {

struct Pointwise;
struct OpRecord;

// How the derivative of an op is stated (D3 of the design).
enum class Form : uint8_t { Composite, Partial, Linear, General, NonDifferentiable };

struct OpInfo {
  std::string name;
  Signature signature;
  const char* doc = "";
  const char* module = "";  // "" is rushlight itself; else "nn.functional", "linalg", ...
  Family family = Family::None;
  const char* domain = "";
  // Deprecated orders of the arguments, split by ';', each the names of parameters.
  const char* former = "";
  const char* result = "Tensor";  // or "tuple", "bool", "object": that depends on the arguments
  Form form = Form::Composite;
  bool function = true;
  bool method = true;
  bool inplace = false;     // has a form with a trailing underscore
  bool out = false;         // takes out=
  bool tried_last = false;  // of the overloads of its name
  PyObject* (*call)(const OpInfo&, PyObject* const* slots) = nullptr;
  // Writes the result into a tensor. Null: the result is computed and copied.
  void (*into)(const OpInfo&, PyObject* const* slots, Tensor* into, bool inplace) = nullptr;
  // Taken first when there are only positional arguments; null result without error: not handled.
  PyObject* (*fast)(const OpInfo&, PyObject* const* args, Py_ssize_t count) = nullptr;
  const Pointwise* pointwise = nullptr;
  const OpRecord* record = nullptr;  // of an op that is not pointwise (call/call.h)
  int layout_at = -1;                // the parameter of that name, of ops that make tensors
  mutable bool warned = false;       // that a deprecated order was used
};

std::vector<std::unique_ptr<OpInfo>>& registry();
OpInfo& register_op(OpInfo info);

// "sigmoid" -> "SigmoidBackward0", "log1p" -> "Log1PBackward0".
const char* backward_name(const char* op);

}  // namespace rl
