// An op as a Python callable: one object serves as function and as method.
#pragma once

#include <Python.h>

#include "autograd/context.h"
#include "call/registry.h"

namespace rl {

// What the package calls itself: rushlight, or torch where programs know it by that name.
extern const char* package_name;

// Adds every registered op to its module's namespace dict and the methods to Tensor's dict.
// `namespaces` maps "" and "nn.functional" ... to dicts.
int add_ops(PyObject* tensor_dict, PyObject* namespaces);
// The registry for Python: a list of dicts.
PyObject* describe_registry(PyObject*, PyObject*);
// Adds an op's formulas to its entry in the registry. False with an exception set.
bool add_formulas(PyObject* entry, const Pointwise& op);
PyObject* formula_prelude_text(PyObject*, PyObject*);
// (number in the registry, partial or -1, tensors, numbers): what the formula's kernel computes.
PyObject* run_formula(PyObject*, PyObject* args);

}  // namespace rl
