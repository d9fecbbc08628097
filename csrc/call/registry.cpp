#include "call/registry.h"

#include <cctype>
#include <cstring>

#include "call/op.h"

namespace rl {

std::vector<std::unique_ptr<OpInfo>>& registry() {
  static auto* ops = new std::vector<std::unique_ptr<OpInfo>>;
  return *ops;
}

OpInfo& register_op(OpInfo info) {
  registry().push_back(std::make_unique<OpInfo>(std::move(info)));
  return *registry().back();
}

const char* backward_name(const char* op) {
  std::string name;
  bool upper = true;
  for (const char* c = op; *c; c++) {
    if (*c == '_') {
      upper = true;
    } else {
      name += upper ? char(std::toupper(*c)) : *c;
      upper = std::isdigit(*c);
    }
  }
  return strdup((name + "Backward0").c_str());
}

SavePlan::SavePlan(const char* text, const Signature& signature) {
  groups.emplace_back();
  std::string word;
  auto finish = [&] {
    if (word.empty()) return;
    if (word.rfind("out", 0) == 0 && (word.size() == 3 || std::isdigit(word[3]))) {
      groups.back().outputs |= 1u << (word.size() == 3 ? 0 : word[3] - '0');
    } else {
      bool found = false;
      for (size_t i = 0; i < signature.params().size(); i++)
        if (signature.params()[i].name == word) {
          groups.back().arguments |= 1u << i;
          found = true;
        }
      if (!found)
        Py_FatalError(concat("saves of ", signature.name(), " names no argument: ", word).c_str());
    }
    word.clear();
  };
  for (const char* c = text; *c; c++) {
    if (*c == '|') {
      finish();
      groups.emplace_back();
    } else if (*c == ' ') {
      finish();
    } else {
      word += *c;
    }
  }
  finish();
}

}  // namespace rl
