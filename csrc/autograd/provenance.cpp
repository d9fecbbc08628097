#include "autograd/provenance.h"

#include <fstream>

namespace rl {

namespace {

std::string utf8(PyObject* text) {
  const char* s = text ? PyUnicode_AsUTF8(text) : nullptr;
  if (!s) {
    PyErr_Clear();
    return "?";
  }
  return s;
}

std::string source_line(const std::string& file, int line) {
  std::ifstream in(file);
  std::string text;
  for (int i = 0; i < line; i++)
    if (!std::getline(in, text)) return "";
  size_t start = text.find_first_not_of(" \t");
  return start == std::string::npos ? "" : text.substr(start);
}

}  // namespace

std::string Where::file() const { return code ? utf8(code->co_filename) : ""; }

int Where::line() const { return code ? PyCode_Addr2Line(code, lasti) : 0; }

std::string Where::function() const { return code ? utf8(code->co_qualname) : ""; }

std::string Where::text() const {
  return code ? file() + ":" + std::to_string(line()) : std::string();
}

std::string Where::text_with_source() const {
  if (!code) return "an unknown line";
  std::string source = source_line(file(), line());
  return source.empty() ? text() : text() + ": " + source;
}

}  // namespace rl
