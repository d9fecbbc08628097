// Modes and regions as context managers that no interruption leaves half entered.
//
// A KeyboardInterrupt may be raised between any two instructions of Python code, so what sets a mode
// and what undoes it are each one call of C. What `with` keeps on the interpreter's stack is a guard:
// when an exception drops it without calling it, the scope is left all the same.
#pragma once

#include <Python.h>

#include <cstdint>

namespace rl {

// What a scope found where it was entered.
struct ScopeEntry {
  uint64_t a = 0, b = 0;
  PyObject* object = nullptr;             // owned
  bool borrowed = false, inside = false;  // modes_borrowed outside of the block and in it
};

struct ScopeKind {
  const char* name;
  // Sets the state; false with an exception set when it can't, and then nothing was changed.
  bool (*enter)(ScopeEntry& entry, PyObject* scope, PyObject* value);
  // Sets it back, also when scopes inside were not left. A false is reported where someone listens.
  bool (*leave)(ScopeEntry& entry);
  // What `with ... as` gives: null for the default, None.
  PyObject* (*result)(const ScopeEntry& entry, PyObject* scope) = nullptr;
  // Of a scope that acts when it is made: only until `with` enters it.
  bool only_outside = false;
};

extern const ScopeKind scope_kinds[];  // ended by one without a name
// The number that a region got when it was entered, for its object (vmap levels).
void set_scope_number(PyObject* scope, int64_t number);

int add_scope_type(PyObject* module);

}  // namespace rl
