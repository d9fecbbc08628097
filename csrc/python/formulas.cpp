// The formulas of pointwise ops as Python sees them.
#include <cstring>

#include "call/pointwise.h"
#include "call/registry.h"
#include "python/op_object.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

struct Element {
  const char* name;
  DType dtype;
};
constexpr Element kElements[] = {
    {"float", DType::F32}, {"double", DType::F64}, {"uint8", DType::U8}, {"int64", DType::I64},
    {"bool", DType::Bool}, {"C64", DType::C64},    {"C128", DType::C128}};

// A formula as nested tuples (what is done, to which), names and numbers; parts that are used twice
// are the same object. Null with an exception set.
PyObject* formula_tree(Formula formula) {
  std::vector<PyObject*> trees;
  bool failed = false;
  for (const Expression& e : expressions(formula, Elements::Real)) {
    PyObject* tree;
    if (e.code == Expression::Code::Literal) {
      tree = PyFloat_FromDouble(e.literal);
    } else if (e.code == Expression::Code::Variable) {
      tree = PyUnicode_FromString(e.name);
    } else {
      tree = PyTuple_New(e.count + 1);
      bool negates = e.count == 1 && !std::strcmp(e.name, "-");
      PyObject* head = PyUnicode_FromString(negates ? "neg" : e.name);
      if (tree && head) PyTuple_SET_ITEM(tree, 0, head);
      for (int i = 0; tree && head && i < e.count; i++) {
        PyObject* part = trees[e.arguments[i]];
        Py_XINCREF(part);
        PyTuple_SET_ITEM(tree, i + 1, part);
      }
    }
    failed |= !tree;
    trees.push_back(tree);
  }
  PyObject* root = failed ? nullptr : new_reference(trees.back());
  for (PyObject* tree : trees) Py_XDECREF(tree);
  return root;
}

}  // namespace

// "formula" and "partials" (None: a constant one), and the same as text: "texts" by element type.
bool add_formulas(PyObject* entry, const Pointwise& op) {
  auto put_new = [&](PyObject* into, const char* name, PyObject* value) {
    bool done = value && PyDict_SetItemString(into, name, value) == 0;
    Py_XDECREF(value);
    return done;
  };
  auto each = [&](const auto& of) -> PyObject* {
    PyObject* list = PyList_New(0);
    for (int i = 0; list && i < op.inputs; i++) {
      Formula partial = op.partial[i].symbol;
      PyObject* item = partial ? of(partial) : new_reference(Py_None);
      if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
      Py_XDECREF(item);
    }
    return list;
  };
  PyObject* texts = PyDict_New();
  bool done = texts && put_new(entry, "formula", formula_tree(op.symbol)) &&
              put_new(entry, "parameters", PyLong_FromLong(op.params)) &&
              put_new(entry, "partials", each(formula_tree));
  for (const Element& element : kElements) {
    if (!op.lanes[int(element.dtype)]) continue;
    Elements elements = elements_of(element.dtype);
    auto text = [&](Formula formula) {
      return PyUnicode_FromString(formula_text(formula, elements, element.name).c_str());
    };
    // Integers have no derivatives.
    bool whole = is_integral(element.dtype);
    PyObject* partials = !done ? nullptr : whole ? PyList_New(0) : each(text);
    PyObject* value = done ? text(op.symbol) : nullptr;
    done = done && partials && value && PyList_Insert(partials, 0, value) == 0 &&
           PyDict_SetItemString(texts, element.name, partials) == 0;
    Py_XDECREF(partials);
    Py_XDECREF(value);
  }
  done = done && PyDict_SetItemString(entry, "texts", texts) == 0;
  Py_XDECREF(texts);
  return done;
}

PyObject* run_formula(PyObject*, PyObject* args) {
  int number, part;
  PyObject *given, *numbers;
  if (!PyArg_ParseTuple(args, "iiO!O!:_run_formula", &number, &part, &PyTuple_Type, &given,
                        &PyTuple_Type, &numbers))
    return nullptr;
  return guarded([&]() -> PyObject* {
    check(
        number >= 0 && size_t(number) < registry().size() && registry()[size_t(number)]->pointwise,
        "_run_formula: there is no pointwise op ", number);
    const Pointwise& op = *registry()[size_t(number)]->pointwise;
    check(part >= -1 && part < op.inputs, "_run_formula: ", op.name, " has no partial ", part);
    // A partial reads the gradient, the inputs and the output.
    int count = part < 0 ? op.inputs : op.inputs + 2;
    check(PyTuple_GET_SIZE(given) == count && PyTuple_GET_SIZE(numbers) == op.params,
          "_run_formula: ", op.name, " takes ", count, " tensors and ", op.params, " numbers");
    const char* data[kernel::kMaxOperands] = {};
    const Tensor* first = nullptr;
    for (int i = 0; i < count; i++) {
      PyObject* o = PyTuple_GET_ITEM(given, i);
      check(is_tensor(o), "_run_formula: argument ", i, " is no tensor");
      const Tensor* t = as_tensor(o);
      if (!first) first = t;
      check(t->contiguous && t->dtype == first->dtype && t->sizes == first->sizes,
            "_run_formula: tensors of one shape and dtype, in rows");
      data[i] = t->data();
    }
    double params[8] = {};
    for (int i = 0; i < op.params; i++) params[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(numbers, i));
    if (PyErr_Occurred()) return nullptr;
    int d = int(first->dtype);
    kernel::Lanes kernel = part < 0 ? op.lanes[d] : op.partial[part].kernel[d];
    check(kernel, "_run_formula: ", op.name, " has no kernel for this dtype");
    Var out = empty(first->sizes, part < 0 ? op.produced[d] : first->dtype, first->device());
    kernel(out->data(), data, params, first->numel);
    return reinterpret_cast<PyObject*>(out.release());
  });
}

PyObject* formula_prelude_text(PyObject*, PyObject*) {
  std::string all = complex_type();
  for (Elements elements : {Elements::Real, Elements::Integer, Elements::Complex})
    all += formula_prelude(elements);
  return PyUnicode_FromString(all.c_str());
}

}  // namespace rl
