// The profiler of this thread, for its block (python/scope_kinds.cpp).
#pragma once

#include <Python.h>

namespace rl {

bool start_profile(bool shapes, bool stacks);  // false with an exception set: one runs already
PyObject* stop_profile();                      // the list of events
PyObject* begin_profile_range(PyObject* name);
PyObject* end_profile_range(PyObject* event);

}  // namespace rl
