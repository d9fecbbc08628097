// Errors thrown in C++ and raised in Python by the binding layer.
#pragma once

#include <Python.h>

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace rl {

// A Python exception to be raised: its class (borrowed, one of CPython's static ones) and text.
struct Error {
  PyObject* type;
  std::string text;
};

// Thrown when a Python exception is already set.
struct PythonError {};

class Ints;

// A part of a message: text, a number, a character or sizes. Messages are put together in one place:
// as templates they were a tenth of the extension.
class Word {
 public:
  Word(const char* text) : Word(std::string_view(text)) {}
  Word(const std::string& text) : Word(std::string_view(text)) {}
  Word(std::string_view text) : kind_(Kind::Text), text_(text) {}
  Word(char c) : kind_(Kind::Character), integer_(c) {}
  template <std::signed_integral T>
  Word(T value) : kind_(Kind::Integer), integer_(value) {}
  template <std::unsigned_integral T>
  Word(T value) : kind_(Kind::Unsigned), unsigned_(value) {}
  Word(double value) : kind_(Kind::Real), real_(value) {}
  Word(const Ints& ints) : kind_(Kind::Sizes), sizes_(&ints) {}
  void append_to(std::string& text) const;

 private:
  enum class Kind : uint8_t { Text, Character, Integer, Unsigned, Real, Sizes } kind_;
  union {
    std::string_view text_;
    long long integer_;
    unsigned long long unsigned_;
    double real_;
    const Ints* sizes_;
  };
};
std::string concat_parts(std::initializer_list<Word> parts);
[[noreturn, gnu::cold]] void fail_parts(PyObject* type, std::initializer_list<Word> parts);

template <class... Parts>
std::string concat(const Parts&... parts) {
  return concat_parts({Word(parts)...});
}

template <class... Parts>
[[noreturn]] void fail_as(PyObject* type, const Parts&... parts) {
  fail_parts(type, {Word(parts)...});
}

// torch raises RuntimeError for most wrong values.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  fail_parts(PyExc_RuntimeError, {Word(parts)...});
}

template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

// Sets the Python error for the C++ exception in flight. Called inside a catch block.
void raise_current_exception();

}  // namespace rl
