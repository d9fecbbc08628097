#include "call/symbol.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace rl {

namespace {

using Code = Expression::Code;

bool same(const Expression& a, const Expression& b) {
  return a.code == b.code && a.count == b.count && std::strcmp(a.name, b.name) == 0 &&
         std::memcmp(&a.literal, &b.literal, sizeof(double)) == 0 &&
         std::memcmp(a.arguments, b.arguments, sizeof(a.arguments)) == 0;
}

thread_local std::vector<Expression> graph;
thread_local Elements elements_of_graph = Elements::Real;

Symbol add(const Expression& e) {
  for (uint32_t i = 0; i < graph.size(); i++)
    if (same(graph[i], e)) return Symbol::of_node(i);
  graph.push_back(e);
  return Symbol::of_node(uint32_t(graph.size() - 1));
}

Expression expression(Code code, const char* name, bool condition,
                      std::initializer_list<Symbol> arguments) {
  Expression e{code, condition};
  e.name = name;
  for (const Symbol& s : arguments) e.arguments[e.count++] = s.node();
  return e;
}

bool is_condition(const Symbol& s) { return graph[s.node()].condition; }

// Makes the text of a graph.
class Writer {
 public:
  Writer(const std::vector<Expression>& nodes, const char* element)
      : nodes_(nodes), element_(element) {}

  std::string write() {
    for (uint32_t i = 0; i < nodes_.size(); i++) {
      const Expression& e = nodes_[i];
      if (e.code == Code::Variable || e.code == Code::Literal) continue;
      text_ += "const " + std::string(e.condition ? "bool" : element_) + " t" + std::to_string(i) +
               " = " + value(e) + "; ";
    }
    uint32_t root = uint32_t(nodes_.size() - 1);
    return text_ + "return " + (nodes_[root].condition ? name(root) : number(root)) + ";";
  }

 private:
  std::string name(uint32_t node) const {
    const Expression& e = nodes_[node];
    if (e.code == Code::Variable) return e.name;
    if (e.code == Code::Literal) return literal(e.literal);
    return "t" + std::to_string(node);
  }
  std::string number(uint32_t node) const {
    return nodes_[node].condition ? std::string(element_) + "(" + name(node) + ")" : name(node);
  }
  std::string condition(uint32_t node) const {
    return nodes_[node].condition ? name(node) : "(" + name(node) + " != " + literal(0) + ")";
  }
  std::string literal(double value) const {
    if (std::isnan(value)) return std::string(element_) + "(NAN)";
    if (std::isinf(value))
      return std::string(element_) + (value < 0 ? "(-INFINITY)" : "(INFINITY)");
    char digits[40];
    std::snprintf(digits, sizeof(digits), "%.17g", value);
    return std::string(element_) + "(" + digits + ")";
  }

  std::string value(const Expression& e) const {
    if (!std::strcmp(e.name, "?:"))
      return condition(e.arguments[0]) + " ? " + arm(e, 1) + " : " + arm(e, 2);
    bool logical = e.name[0] == '!' || !std::strcmp(e.name, "&&") || !std::strcmp(e.name, "||");
    bool between_conditions = e.count == 2 && nodes_[e.arguments[0]].condition &&
                              nodes_[e.arguments[1]].condition && e.condition;
    auto operand = [&](int i) {
      uint32_t node = e.arguments[i];
      if (logical && e.count == 1) return condition(node);
      if (logical && std::strcmp(e.name, "!=")) return condition(node);
      return between_conditions ? name(node) : number(node);
    };
    if (e.code == Code::Operator)
      return e.count == 1 ? e.name + operand(0) : operand(0) + " " + e.name + " " + operand(1);
    std::string text = e.name;
    for (int i = 0; i < e.count; i++) text += (i ? ", " : "(") + number(e.arguments[i]);
    return text + ")";
  }
  std::string arm(const Expression& e, int i) const {
    return e.condition ? name(e.arguments[i]) : number(e.arguments[i]);
  }

  const std::vector<Expression>& nodes_;
  const char* element_;
  std::string text_;
};

}  // namespace

Symbol::Symbol(const char* variable) {
  node_ = add(expression(Code::Variable, variable, false, {})).node();
}

Symbol::Symbol(double literal) {
  Expression e{Code::Literal, false};
  e.literal = literal;
  node_ = add(e).node();
}

Elements Symbol::elements() { return elements_of_graph; }

namespace math {

Symbol call_symbol(const char* name, std::initializer_list<Symbol> arguments) {
  bool condition = std::strncmp(name, "is", 2) == 0;
  return add(expression(Code::Call, name, condition, arguments));
}

Symbol operator_symbol(const char* name, std::initializer_list<Symbol> arguments) {
  static const char* const conditions[] = {"<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"};
  bool condition = false;
  for (const char* c : conditions) condition |= std::strcmp(c, name) == 0;
  return add(expression(Code::Operator, name, condition, arguments));
}

Symbol where(Symbol condition, Symbol a, Symbol b) {
  bool both = is_condition(a) && is_condition(b);
  return add(expression(Code::Operator, "?:", both, {condition, a, b}));
}

}  // namespace math

std::vector<Expression> expressions(Formula formula, Elements elements) {
  graph.clear();
  elements_of_graph = elements;
  uint32_t root = formula().node();
  // What the formula made and does not use is left out.
  std::vector<bool> used(root + 1, false);
  used[root] = true;
  for (uint32_t i = root + 1; i-- > 0;)
    if (used[i])
      for (int k = 0; k < graph[i].count; k++) used[graph[i].arguments[k]] = true;
  std::vector<uint32_t> place(root + 1);
  std::vector<Expression> all;
  for (uint32_t i = 0; i <= root; i++) {
    if (!used[i]) continue;
    place[i] = uint32_t(all.size());
    all.push_back(graph[i]);
    for (int k = 0; k < all.back().count; k++)
      all.back().arguments[k] = place[all.back().arguments[k]];
  }
  return all;
}

std::string formula_text(Formula formula, Elements elements, const char* element) {
  return Writer(expressions(formula, elements), element).write();
}

}  // namespace rl
