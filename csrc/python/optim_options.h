// The options of parameter groups as numbers.
#pragma once

#include "python/optim_rules.h"
#include "tensor/tensor.h"

namespace rl {

// A rule with its names as Python objects, made once.
struct Names {
  PyObject* keys[kHyper] = {};
  PyObject* slots[kSlots] = {};
  int slot_count = 0;
};
const Names& names_of(const Rule& rule);

// What a rule reads of a group, in the order of its keys.
struct Hyper {
  double values[kHyper];
};

Hyper read_group(const Rule& rule, PyObject* group);

PyObject* interned(const char* text);
// dict[key], borrowed; raises KeyError.
PyObject* item(PyObject* dict, PyObject* key);
// The one element of a tensor.
double value_of(const Tensor* t);

// Gives a reference back at the end of a scope.
class Owned {
 public:
  explicit Owned(PyObject* o) : o_(o) {}
  ~Owned() { Py_XDECREF(o_); }
  Owned(const Owned&) = delete;
  PyObject* get() const { return o_; }

 private:
  PyObject* o_;
};

}  // namespace rl
