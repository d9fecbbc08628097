// Where in the user's program something happened: a code object and an instruction offset, read
// off the interpreter's frame in a few nanoseconds and turned into file:line only for a message.
#pragma once

#include <Python.h>

#include <string>

namespace rl {

extern "C" {
// The innermost frame outside the package; borrowed code object, null when there is none.
PyCodeObject* rl_user_frame(int* lasti);
// The user's frames, innermost first: at most `most` borrowed code objects; how many there are.
int rl_user_stack(PyCodeObject** codes, int* lastis, int most);
// Code in files under this folder (a str) is the package's own.
int rl_set_package_folder(PyObject* folder);
}

// A place in the user's program. Owns a reference to the code object once `note` was called.
struct Where {
  PyCodeObject* code = nullptr;
  int lasti = 0;

  void note() {
    PyCodeObject* now = rl_user_frame(&lasti);
    Py_XINCREF(now);
    PyCodeObject* old = code;
    code = now;
    Py_XDECREF(old);
  }
  void drop() { Py_CLEAR(code); }
  explicit operator bool() const { return code != nullptr; }

  std::string file() const;
  int line() const;
  std::string function() const;
  // "train.py:12" with the file's whole path, or "" when unknown.
  std::string text() const;
  // text() followed by the source line itself when the file can be read.
  std::string text_with_source() const;
};

}  // namespace rl
