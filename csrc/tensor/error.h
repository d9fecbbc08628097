// Errors thrown in C++ and raised in Python by the binding layer.
#pragma once

#include <Python.h>

#include <sstream>
#include <string>

namespace rl {

// A Python exception to be raised: its class (borrowed, one of CPython's static ones) and text.
struct Error {
  PyObject* type;
  std::string text;
};

// Thrown when a Python exception is already set.
struct PythonError {};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail_as(PyObject* type, const Parts&... parts) {
  throw Error{type, concat(parts...)};
}

// torch raises RuntimeError for most wrong values.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error{PyExc_RuntimeError, concat(parts...)};
}

template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

}  // namespace rl
