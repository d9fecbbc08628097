// einsum: sums of products, named by letters.
#include <algorithm>

#include "call/op.h"

namespace rl {

namespace {

// Letters are 0 to 51 (A-Z, a-z); kEllipsis stands for all dimensions that have none.
constexpr int kLetters = 52, kEllipsis = kLetters;
constexpr int kMaxLabels = kLetters + 64;  // and one label for each dimension of an ellipsis

// One label for each dimension of a tensor.
class Labels {
 public:
  void push_back(int label) {
    check(size_ < kMax, "einsum(): more than ", kMax, " subscripts for one tensor");
    labels_[size_++] = uint8_t(label);
  }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](int i) const { return labels_[i]; }
  uint8_t* begin() { return labels_; }
  uint8_t* end() { return labels_ + size_; }
  const uint8_t* begin() const { return labels_; }
  const uint8_t* end() const { return labels_ + size_; }
  int find(int label) const {
    for (int i = 0; i < size_; i++)
      if (labels_[i] == label) return i;
    return -1;
  }
  bool has(int label) const { return find(label) >= 0; }
  Labels operator+(const Labels& more) const {
    Labels sum = *this;
    for (int label : more) sum.push_back(label);
    return sum;
  }

 private:
  static constexpr int kMax = 120;
  int size_ = 0;
  uint8_t labels_[kMax];
};

std::string label_text(int label) {
  if (label >= kLetters) return "...";
  return std::string(1, char(label < 26 ? 'A' + label : 'a' + label - 26));
}

// What an equation says, before the operands are seen.
struct Equation {
  std::vector<Labels> inputs;
  Labels output;
  bool has_output = false;
};

Equation parse(const std::string& text) {
  Equation e;
  e.inputs.emplace_back();
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    Labels& now = e.has_output ? e.output : e.inputs.back();
    auto where = [&] {
      return e.has_output ? std::string("the output") : concat("operand ", e.inputs.size() - 1);
    };
    if (c == ' ') continue;
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
      now.push_back(c <= 'Z' ? c - 'A' : c - 'a' + 26);
    } else if (c == '.') {
      check(!now.has(kEllipsis), "einsum(): found '.' for ", where(),
            " for which an ellipsis was already found");
      check(text.compare(i, 3, "...") == 0, "einsum(): found '.' for ", where(),
            " that is not part of any ellipsis");
      i += 2;
      now.push_back(kEllipsis);
    } else if (c == ',' && !e.has_output) {
      e.inputs.emplace_back();
    } else if (text.compare(i, 2, "->") == 0 && !e.has_output) {
      e.has_output = true;
      i++;
    } else {
      fail("einsum(): invalid subscript given at index ", i,
           " in the equation string, subscripts "
           "must be in [a-zA-Z] (equation '",
           text, "')");
    }
  }
  return e;
}

// An operand, or the product of some, with one label for each dimension.
struct Term {
  Var value;
  Labels labels;
};

// The dimensions named, in this order; others keep theirs behind them.
Var ordered(const Term& term, const Labels& front) {
  Ints order;
  for (int label : front) order.push_back(term.labels.find(label));
  for (int i = 0; i < term.labels.size(); i++)
    if (!front.has(term.labels[i])) order.push_back(i);
  for (int i = 0; i < order.size(); i++)
    if (order[i] != i) return ops::permute(term.value, order);
  return term.value;
}

void sum_over(Term& term, const Labels& gone) {
  Ints dims;
  Labels left;
  for (int i = 0; i < term.labels.size(); i++)
    if (gone.has(term.labels[i])) dims.push_back(i);
    else left.push_back(term.labels[i]);
  if (dims.empty()) return;
  term.value = ops::sum(term.value, dims, false);
  term.labels = left;
}

class Contraction {
 public:
  Contraction(const Equation& equation, const Vars& operands) {
    check(equation.inputs.size() >= operands.size(),
          "einsum(): more operands were provided than specified in the equation");
    check(equation.inputs.size() <= operands.size(),
          "einsum(): fewer operands were provided than specified in the equation");
    std::fill(sizes_, sizes_ + kMaxLabels, int64_t(-1));
    for (size_t i = 0; i < operands.size(); i++)
      ellipsis_ = std::max(ellipsis_, hidden_dims(equation.inputs[i], operands[i], i));
    for (size_t i = 0; i < operands.size(); i++)
      terms_.push_back(bind(equation.inputs[i], operands[i], i));
    if (equation.has_output) choose_output(equation.output);
    else infer_output(equation.inputs);
    for (Term& term : terms_) drop_broadcast(term);
  }

  Var run() {
    Term result = std::move(terms_[0]);
    for (size_t i = 1; i < terms_.size(); i++) result = multiply(result, i);
    Labels gone;
    for (int label : result.labels)
      if (!output_.has(label)) gone.push_back(label);
    sum_over(result, gone);
    return finish(result);
  }

 private:
  static int hidden_dims(const Labels& labels, const Var& operand, size_t i) {
    int named = labels.size(), dims = operand.dim();
    if (labels.has(kEllipsis)) {
      named--;
      check(named <= dims, "einsum(): the number of subscripts in the equation (", named,
            ") is more than the number of dimensions (", dims, ") for operand ", i);
      return dims - named;
    }
    check(named == dims, "einsum(): the number of subscripts in the equation (", named,
          ") does not match the number of dimensions (", dims, ") for operand ", i,
          " and no ellipsis was given");
    return 0;
  }

  // One label for each dimension; repeated ones become diagonals.
  Term bind(const Labels& labels, Var value, size_t operand) {
    Labels all;
    int hidden = hidden_dims(labels, value, operand);
    for (int label : labels) {
      if (label != kEllipsis) all.push_back(label);
      else
        for (int d = ellipsis_ - hidden; d < ellipsis_; d++) all.push_back(kEllipsis + d);
    }
    check(ellipsis_ <= kMaxLabels - kLetters, "einsum(): an ellipsis covers ", ellipsis_,
          " dimensions; at most ", kMaxLabels - kLetters, " are supported");
    Term term{value, {}};
    for (int i = 0; i < all.size(); i++) {
      int dim = term.labels.size(), earlier = term.labels.find(all[i]);
      if (earlier >= 0) {
        int64_t a = term.value.size(earlier), b = term.value.size(dim);
        check(a == b, "einsum(): subscript ", label_text(all[i]), " is repeated for operand ",
              operand, " but the sizes don't match, ", b, " != ", a);
        term.value = ops::diagonal(term.value, 0, earlier, dim);  // as the last dimension
        Ints order;
        for (int d = 0; d < term.value.dim() - 1; d++) order.push_back(d);
        order.insert(earlier, term.value.dim() - 1);
        term.value = ops::permute(term.value, order);
        continue;
      }
      term.labels.push_back(all[i]);
    }
    for (int i = 0; i < term.labels.size(); i++) {
      int64_t& size = sizes_[term.labels[i]];
      int64_t mine = term.value.size(i);
      check(size < 0 || size == mine || size == 1 || mine == 1, "einsum(): subscript ",
            label_text(term.labels[i]), " has size ", mine, " for operand ", operand,
            " which does not broadcast with previously seen size ", size);
      if (size < 0 || size == 1) size = mine;
    }
    return term;
  }

  void choose_output(const Labels& output) {
    for (int label : output) {
      if (label == kEllipsis) {
        for (int d = 0; d < ellipsis_; d++) output_.push_back(kEllipsis + d);
        continue;
      }
      check(!output_.has(label), "einsum(): output subscript ", label_text(label),
            " appears more than once in the output");
      check(sizes_[label] >= 0, "einsum(): output subscript ", label_text(label),
            " does not appear in the equation for any input operand");
      output_.push_back(label);
    }
  }

  // The ellipsis and the letters that appear once, in alphabetical order.
  void infer_output(const std::vector<Labels>& inputs) {
    for (int d = 0; d < ellipsis_; d++) output_.push_back(kEllipsis + d);
    int count[kLetters] = {};
    for (const Labels& labels : inputs)
      for (int label : labels)
        if (label < kLetters) count[label]++;
    for (int label = 0; label < kLetters; label++)
      if (count[label] == 1) output_.push_back(label);
  }

  // A dimension of size 1 where others have more: multiplying broadcasts without it.
  void drop_broadcast(Term& term) {
    Ints sizes;
    Labels left;
    for (int i = 0; i < term.labels.size(); i++) {
      if (term.value.size(i) == 1 && sizes_[term.labels[i]] != 1) continue;
      sizes.push_back(term.value.size(i));
      left.push_back(term.labels[i]);
    }
    if (left.size() == term.labels.size()) return;
    term.value = ops::reshape(term.value, sizes);
    term.labels = left;
  }

  bool needed_later(int label, size_t next) const {
    if (output_.has(label)) return true;
    for (size_t i = next; i < terms_.size(); i++)
      if (terms_[i].labels.has(label)) return true;
    return false;
  }

  Ints extents(const Labels& labels) const {
    Ints sizes;
    for (int label : labels) sizes.push_back(sizes_[label]);
    return sizes;
  }
  int64_t extent(const Labels& labels) const { return element_count(extents(labels)); }

  // The product of a and terms_[at] with the sums that are due.
  Term multiply(Term a, size_t at) {
    Term b = terms_[at];
    Labels batch, summed, left, right, a_gone, b_gone, ones;
    for (int label : a.labels) {
      bool both = b.labels.find(label) >= 0, keep = needed_later(label, at + 1);
      if (both && !keep && sizes_[label] == 1) ones.push_back(label);
      else (both ? keep ? batch : summed : keep ? left : a_gone).push_back(label);
    }
    for (int label : b.labels)
      if (a.labels.find(label) < 0) (needed_later(label, at + 1) ? right : b_gone).push_back(label);
    sum_over(a, a_gone);
    sum_over(b, b_gone);
    if (summed.empty()) {
      Term product = broadcast_product(a, b, batch + left + right + ones);
      squeeze(product, ones);
      return product;
    }
    squeeze(a, ones);
    squeeze(b, ones);

    // The result lies as torch's does: each group in the order of the output, and the second
    // operand's in front where the output has all of it there.
    for (Labels* labels : {&batch, &left, &right}) sort(*labels);
    if (!left.empty() && !right.empty() && place(right[right.size() - 1]) < place(left[0])) {
      std::swap(a, b);
      std::swap(left, right);
    }
    // [batch, left, summed] @ [batch, summed, right]: only the groups of letters are joined, the
    // batch keeps its dimensions.
    Var x = ordered(a, batch + left + summed), y = ordered(b, batch + summed + right);
    auto grouped = [&](const Var& v, const Labels& rows, const Labels& cols) {
      Ints sizes = extents(batch);
      sizes.push_back(extent(rows));
      sizes.push_back(extent(cols));
      return v.sizes() == sizes ? v : ops::reshape(v, sizes);
    };
    Var z;
    if (batch.empty() && left.empty() && right.empty() && !modes.autocast) {
      z = ops::dot(ops::reshape(x, {extent(summed)}), ops::reshape(y, {extent(summed)}));
    } else {
      z = ops::matmul(grouped(x, left, summed), grouped(y, summed, right));
    }
    Labels labels = batch + left + right;
    Ints sizes = extents(labels);
    return {z.sizes() == sizes ? z : ops::reshape(z, sizes), labels};
  }

  // Nothing to sum: both with ones where a letter is missing, in the order of the output.
  Term broadcast_product(const Term& a, const Term& b, Labels all) {
    sort(all);
    auto raised = [&](const Term& term) {
      Labels mine;
      for (int label : all)
        if (term.labels.has(label)) mine.push_back(label);
      Var v = ordered(term, mine);
      for (int i = 0; i < all.size(); i++)
        if (!mine.has(all[i])) v = ops::unsqueeze(v, i);
      return v;
    };
    Var x = raised(a), y = raised(b);
    return {x * y, all};
  }

  // Without these dimensions, which have one element.
  static void squeeze(Term& term, const Labels& ones) {
    if (ones.empty()) return;
    Term left{{}, {}};
    Ints sizes;
    for (int i = 0; i < term.labels.size(); i++) {
      if (ones.has(term.labels[i])) continue;
      sizes.push_back(term.value.size(i));
      left.labels.push_back(term.labels[i]);
    }
    left.value = ops::reshape(term.value, sizes);
    term = std::move(left);
  }

  // Where a label stands: in the output, or behind it.
  int place(int label) const {
    int at = output_.find(label);
    return at >= 0 ? at : output_.size() + label;
  }
  void sort(Labels& labels) const {
    std::sort(labels.begin(), labels.end(), [&](int a, int b) { return place(a) < place(b); });
  }

  // The dimensions in the order of the output; those that broadcasting dropped come back.
  Var finish(const Term& term) const {
    Labels present;
    for (int label : output_)
      if (term.labels.find(label) >= 0) present.push_back(label);
    Var v = ordered(term, present);
    if (terms_.size() == 1 && v.get() == term.value.get()) v = ops::alias_view(v);
    if (present.size() == output_.size()) return v;
    Ints sizes;
    for (int label : output_) sizes.push_back(present.has(label) ? sizes_[label] : 1);
    return ops::expand(ops::reshape(v, sizes), extents(output_));
  }

  std::vector<Term> terms_;
  Labels output_;
  int64_t sizes_[kMaxLabels];
  int ellipsis_ = 0;
};

struct Einsum : Composite {
  static constexpr auto signature = "einsum(str equation, tensors operands)";
  static constexpr auto doc =
      "einsum(equation, *operands): sums of products; 'ij,jk->ik' is a matrix product. Operands "
      "may "
      "also be given with lists of numbers: einsum(a, [0, 1], b, [1, 2], [0, 2]).";
  static constexpr Family family = Family::Contraction;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const std::string& equation, const Vars& operands) {
    check(!operands.empty(), "einsum(): must provide at least one operand");
    return evaluate(parse(equation), operands);
  }
  static Var evaluate(const Equation& equation, const Vars& operands) {
    return Contraction(equation, operands).run();
  }

  // The form without an equation: einsum(a, labels, b, labels, ..., output).
  static PyObject* sublists(const OpInfo&, PyObject* const* args, Py_ssize_t count) {
    if (count < 2)
      fail_as(PyExc_ValueError,
              "einsum(): must specify the equation string and at least one "
              "operand, or at least one operand and its subscripts list");
    if (!is_tensor(args[0])) return nullptr;
    Vars operands;
    Equation equation;
    for (Py_ssize_t i = 0; i + 1 < count; i += 2) {
      if (!is_tensor(args[i]))
        fail_as(PyExc_TypeError, "einsum(): expected Tensor at argument ", i, ", but got ",
                Py_TYPE(args[i])->tp_name);
      operands.emplace_back(reinterpret_cast<Tensor*>(args[i]));
      equation.inputs.push_back(sublist(args[i + 1]));
    }
    equation.has_output = count % 2;
    if (equation.has_output) equation.output = sublist(args[count - 1]);
    return reinterpret_cast<PyObject*>(evaluate(equation, operands).release());
  }
  static Labels sublist(PyObject* list) {
    if (!PyTuple_Check(list) && !PyList_Check(list))
      fail_as(PyExc_TypeError, "einsum(): expected a list of subscripts, but got ",
              Py_TYPE(list)->tp_name);
    Labels labels;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
      PyObject* item = PySequence_Fast_GET_ITEM(list, i);
      if (item == Py_Ellipsis) {
        check(!labels.has(kEllipsis), "einsum(): a subscripts list has more than one ellipsis");
        labels.push_back(kEllipsis);
        continue;
      }
      Py_ssize_t label = PyNumber_AsSsize_t(item, PyExc_ValueError);
      if (label == -1 && PyErr_Occurred()) throw PythonError{};
      if (label < 0 || label >= kLetters)
        fail_as(PyExc_ValueError,
                "einsum(): subscript in subscript list is not within the valid "
                "range [0, 52), got ",
                label);
      labels.push_back(int(label));
    }
    return labels;
  }
};
[[maybe_unused]] const bool registered_einsum = [] {
  OpInfo info = describe(detail::record_of<Einsum>());
  info.fast = Einsum::sublists;
  register_op(std::move(info));
  return true;
}();

}  // namespace
}  // namespace rl
