// The profiler of this thread, for its block (python/scope_kinds.cpp).
#pragma once

#include <Python.h>

namespace rl {

// False with an exception set: one runs already.
bool start_profile(bool shapes, bool stacks, bool memory);
// The list of events; those of memory go to `blocks`, unless it is null.
PyObject* stop_profile(PyObject* blocks);
PyObject* begin_profile_range(PyObject* name);
PyObject* end_profile_range(PyObject* event);

}  // namespace rl
