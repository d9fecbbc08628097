#include "tensor/error.h"

#include <cstdio>

#include "tensor/ints.h"

namespace rl {

namespace {

// As torch writes a shape in its messages: [2, 3].
void append(std::string& text, const Ints& ints) {
  text += '[';
  for (int i = 0; i < ints.size(); i++) {
    if (i) text += ", ";
    text += std::to_string(ints[i]);
  }
  text += ']';
}

}  // namespace

void Word::append_to(std::string& text) const {
  char number[32];
  switch (kind_) {
    case Kind::Text: text += text_; break;
    case Kind::Character: text += char(integer_); break;
    case Kind::Integer: text += std::to_string(integer_); break;
    case Kind::Unsigned: text += std::to_string(unsigned_); break;
    case Kind::Real:
      std::snprintf(number, sizeof(number), "%g", real_);
      text += number;
      break;
    case Kind::Sizes: append(text, *sizes_); break;
  }
}

std::string concat_parts(std::initializer_list<Word> parts) {
  std::string text;
  for (const Word& part : parts) part.append_to(text);
  return text;
}

void fail_parts(PyObject* type, std::initializer_list<Word> parts) {
  throw Error{type, concat_parts(parts)};
}

}  // namespace rl
