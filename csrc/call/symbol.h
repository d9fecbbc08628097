// The symbol reading of a pointwise formula: an expression graph, from which device code is written.
//
// Symbols are handles of nodes in the graph that the thread builds at the moment; equal nodes are one,
// so what a formula uses twice is computed once. A node is a number or a condition; literals keep
// their value and get the precision of the element type when text is made. A formula that means
// something else for integers, truths or complex numbers asks the graph which of them it is for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace rl {

// The kinds of numbers that a formula is read for.
enum class Elements : uint8_t { Real, Integer, Bool, Complex };

class Symbol {
 public:
  Symbol(const char* variable);  // an input, a parameter or the output
  Symbol(double literal);
  Symbol(int literal) : Symbol(double(literal)) {}
  static Symbol of_node(uint32_t node) {
    Symbol s;
    s.node_ = node;
    return s;
  }
  uint32_t node() const { return node_; }
  static Elements elements();  // of the graph

 private:
  Symbol() = default;
  uint32_t node_;
};

namespace math {

// A function of C and CUDA, or one of formula_prelude(). Names in is... are of conditions.
Symbol call_symbol(const char* name, std::initializer_list<Symbol> arguments);
// A prefix or infix operator.
Symbol operator_symbol(const char* name, std::initializer_list<Symbol> arguments);
Symbol where(Symbol condition, Symbol a, Symbol b);

}  // namespace math

// A node: a variable, a literal, or a function or operator ("?:" chooses) of others.
struct Expression {
  enum class Code : uint8_t { Variable, Literal, Call, Operator } code;
  bool condition;  // a truth, not a number
  uint8_t count = 0;
  const char* name = "";
  double literal = 0;
  uint32_t arguments[3] = {};
};

using Formula = Symbol (*)();

// The nodes of a formula, each after those it uses; the last is its value.
std::vector<Expression> expressions(Formula formula, Elements elements);
// Statements that end in a return, for elements of a type that is written so.
std::string formula_text(Formula formula, Elements elements, const char* element);
// The functions that formulas of such elements call and C lacks. RL_DEVICE stands before each.
std::string formula_prelude(Elements elements);
std::string special_functions();  // those of kernels/cpu/special.h
std::string complex_type();       // struct Complex and its operators
std::string complex_functions();  // of it

}  // namespace rl
