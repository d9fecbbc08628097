// + - * / and their kin on tensors.
#include <string_view>

#include "autograd/batch.h"
#include "call/arguments.h"
#include "call/pointwise.h"
#include "python/interop.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {

using namespace std::string_view_literals;

namespace {

// An operand, or none when Python should try the other one's method.
bool operand(PyObject* o, Var& out) {
  if (is_tensor(o)) {
    out = Var(as_tensor(o));
    return true;
  }
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) {
    out = wrap_number(o);
    return true;
  }
  return false;
}

// NumPy's scalars; as in torch, its bool is a float. Other classes that pass for numbers may have a
// method for the operator.
bool foreign_number(PyObject* o, Var& out) {
  if (!is_numpy_scalar(o)) return false;
  PyObject* number = PyObject_CallMethod(o, "item", nullptr);
  if (!number) throw PythonError{};
  bool known = !PyBool_Check(number) && operand(number, out);
  Py_DECREF(number);
  if (known || !PyNumber_Check(o) || PyUnicode_Check(o)) return known;
  PyObject* real = PyNumber_Float(o);  // a long double stays what it is as an item
  if (!real) throw PythonError{};
  out = wrap_number(real);
  Py_DECREF(real);
  return true;
}

// Whether a mode or a subclass may want to answer instead.
bool may_override(PyObject* a, PyObject* b) {
  return modes.intercepted || is_subclass(a) || is_subclass(b);
}

// The answer of a mode or a class to Tensor's method with a, or with b where a is no tensor; null
// without an exception: none.
PyObject* overridden(const char* method, const char* reflected, PyObject* a, PyObject* b) {
  bool swap = !is_tensor(a);
  PyObject* args[] = {swap ? b : a, swap ? a : b};
  return call_override(swap && reflected ? reflected : method, args, 2);
}

// Results of arithmetic with a subclass are of that subclass.
PyObject* finish(PyObject* a, PyObject* b, Var result) {
  PyObject* o = reinterpret_cast<PyObject*>(result.release());
  if (is_subclass(a)) return as_class_of(a, o);
  return is_subclass(b) ? as_class_of(b, o) : o;
}

// With an operand that is neither tensor nor number. An array of NumPy stands for a tensor of its
// own: `compute` with tensors in the place of both. Another class may answer itself.
template <class F>
PyObject* with_stranger(const char* method, const char* reflected, PyObject* a, PyObject* b,
                        F&& compute) {
  if (is_foreign_override(a) || is_foreign_override(b)) {
    PyObject* result = overridden(method, reflected, a, b);
    if (result || PyErr_Occurred()) return result;
  }
  if (!is_numpy_array(a) && !is_numpy_array(b)) Py_RETURN_NOTIMPLEMENTED;
  static PyObject* const convert = [] {
    PyObject* module = PyImport_ImportModule("rushlight._arrays");
    PyObject* function = module ? PyObject_GetAttrString(module, "operands") : nullptr;
    Py_XDECREF(module);
    if (!function) throw PythonError{};
    return function;
  }();
  PyObject* pair = PyObject_CallFunction(convert, "OOs", a, b, method);
  if (!pair) throw PythonError{};
  if (pair == Py_NotImplemented) return pair;
  PyObject* result = compute(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
  Py_DECREF(pair);
  return result;
}

// `reflected` is the special method of b for the operator when a is no tensor; none: a and b may
// change places.
PyObject* binary(const Pointwise& op, PyObject* a, PyObject* b, const char* reflected = nullptr) {
  return guarded([&]() -> PyObject* {
    if (Py_IS_TYPE(a, &TensorType) && Py_IS_TYPE(b, &TensorType) && !modes.intercepted) [[likely]] {
      const Var in[] = {Var(as_tensor(a)), Var(as_tensor(b))};
      return reinterpret_cast<PyObject*>(run_pointwise(op, in, nullptr).release());
    }
    // Numbers minus tensors come here as rsub(tensor, number).
    auto method = [&] { return reflected && op.name == "rsub"sv ? reflected : op.name; };
    if (may_override(a, b)) [[unlikely]] {
      PyObject* result = overridden(method(), reflected, a, b);
      if (result || PyErr_Occurred()) return result;
    }
    Var in[2];
    if (!(operand(a, in[0]) || foreign_number(a, in[0])) ||
        !(operand(b, in[1]) || foreign_number(b, in[1])))
      return with_stranger(method(), reflected, a, b,
                           [&](PyObject* x, PyObject* y) { return binary(op, x, y, reflected); });
    return finish(a, b, run_pointwise(op, in, nullptr));
  });
}

PyObject* inplace(const Pointwise& op, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (may_override(a, b)) [[unlikely]] {
      PyObject* args[] = {a, b};
      PyObject* result = call_override(concat(op.name, "_").c_str(), args, 2);
      if (result || PyErr_Occurred()) return result;
    }
    Var in[2];
    if (!is_tensor(a) || !(operand(b, in[1]) || foreign_number(b, in[1]))) Py_RETURN_NOTIMPLEMENTED;
    in[0] = Var(as_tensor(a));
    run_pointwise(op, in, nullptr, as_tensor(a), true);
    return new_reference(a);
  });
}

#define RL_BINARY(slot, name, reflected)               \
  PyObject* slot(PyObject* a, PyObject* b) {           \
    static const Pointwise& op = find_pointwise(name); \
    return binary(op, a, b, reflected);                \
  }                                                    \
  PyObject* inplace_##slot(PyObject* a, PyObject* b) { \
    static const Pointwise& op = find_pointwise(name); \
    return inplace(op, a, b);                          \
  }
RL_BINARY(add, "add", nullptr)
RL_BINARY(multiply, "mul", nullptr)
RL_BINARY(floor_divide, "floor_divide", "__rfloordiv__")
RL_BINARY(remainder, "remainder", "__rmod__")
RL_BINARY(bit_and, "bitwise_and", nullptr)
RL_BINARY(bit_or, "bitwise_or", nullptr)
RL_BINARY(bit_xor, "bitwise_xor", nullptr)
RL_BINARY(shift_left, "bitwise_left_shift", "__rlshift__")
RL_BINARY(shift_right, "bitwise_right_shift", "__rrshift__")
#undef RL_BINARY

PyObject* subtract(PyObject* a, PyObject* b) {
  static const Pointwise& sub = find_pointwise("sub");
  static const Pointwise& rsub = find_pointwise("rsub");
  return is_tensor(a) ? binary(sub, a, b) : binary(rsub, b, a, "__rsub__");
}
PyObject* inplace_subtract(PyObject* a, PyObject* b) {
  static const Pointwise& op = find_pointwise("sub");
  return inplace(op, a, b);
}

PyObject* divide(PyObject* a, PyObject* b) {
  static const Pointwise& op = find_pointwise("div");
  if (is_tensor(a)) return binary(op, a, b);
  return guarded([&]() -> PyObject* {
    if (may_override(a, b)) [[unlikely]] {
      PyObject* result = overridden("div", "__rtruediv__", a, b);
      if (result || PyErr_Occurred()) return result;
    }
    Var in[2];
    if (!operand(a, in[0]) && !foreign_number(a, in[0]))
      return with_stranger("div", "__rtruediv__", a, b,
                           [](PyObject* x, PyObject* y) { return binary(op, x, y); });
    Var inverse = math::call_pointwise("reciprocal", {Var(as_tensor(b))});
    return finish(a, b, inverse * in[0]);
  });
}
PyObject* inplace_divide(PyObject* a, PyObject* b) {
  static const Pointwise& op = find_pointwise("div");
  return inplace(op, a, b);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  static const Pointwise& op = find_pointwise("pow");
  if (is_tensor(a) && !is_tensor(b) && (PyFloat_Check(b) || PyLong_Check(b)) && !may_override(a, b))
    return guarded([&]() -> PyObject* {
      return finish(a, b, ops::pow_number(Var(as_tensor(a)), wrap_number(b)));
    });
  return binary(op, a, b, "__rpow__");
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) {
  return guarded([&]() -> PyObject* {
    Var exponent;
    if (!operand(b, exponent) && !foreign_number(b, exponent)) Py_RETURN_NOTIMPLEMENTED;
    return PyObject_CallMethod(a, "pow_", "O", b);
  });
}

// `compute` unless a mode or a's class answers for the method.
template <class F>
PyObject* unary(const char* method, PyObject* a, F&& compute) {
  return guarded([&]() -> PyObject* {
    if (may_override(a, a)) [[unlikely]] {
      PyObject* result = call_override(method, &a, 1);
      if (result || PyErr_Occurred()) return result;
    }
    return finish(a, a, compute(Var(as_tensor(a))));
  });
}

PyObject* absolute(PyObject* a) {
  return unary("abs", a, [](Var x) { return math::call_pointwise("abs", {std::move(x)}); });
}
PyObject* positive(PyObject* a) {
  return guarded([&]() -> PyObject* {
    if (as_tensor(a)->dtype == DType::Bool)
      fail("The `+` operator, on a bool tensor is not supported.");
    return new_reference(a);
  });
}
PyObject* invert(PyObject* a) {
  return unary("bitwise_not", a, [](Var x) {
    if (!is_integral(x.dtype()))
      fail_as(PyExc_TypeError,
              "~ (operator.invert) is only implemented on integer and Boolean-type "
              "tensors, got ",
              name(x.dtype()));
    return math::call_pointwise("bitwise_not", {std::move(x)});
  });
}
PyObject* negative(PyObject* a) {
  return unary("neg", a, [](Var x) { return ops::neg(x); });
}

PyObject* matrix_multiply(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (may_override(a, b)) [[unlikely]] {
      PyObject* result = overridden("matmul", "__rmatmul__", a, b);
      if (result || PyErr_Occurred()) return result;
    }
    if (!is_tensor(a) || !is_tensor(b))
      return with_stranger("matmul", "__rmatmul__", a, b, matrix_multiply);
    return finish(a, b, ops::matmul(Var(as_tensor(a)), Var(as_tensor(b))));
  });
}

// The element as a real number, for `type(...)`; new reference.
PyObject* real_item(PyObject* a, const char* type) {
  const Tensor* t = as_tensor(a);
  if (t->numel != 1)
    fail_as(PyExc_ValueError, "only one element tensors can be converted to Python scalars, got ",
            t->numel, " elements of shape ", t->sizes);
  PyObject* item = tensor_item(t);
  if (!item) throw PythonError{};
  if (!PyComplex_Check(item)) return item;
  Py_complex z = PyComplex_AsCComplex(item);
  Py_DECREF(item);
  if (z.imag != 0)
    fail("value cannot be converted to type ", type, " without overflow: the imaginary part is ",
         z.imag);
  return PyFloat_FromDouble(z.real);
}

void warn_of_history(PyObject* a) {
  if (records(as_tensor(a)) &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                   "behavior.\nConsider using tensor.detach() first.",
                   1) < 0)
    throw PythonError{};
}

PyObject* to_float(PyObject* a) {
  return guarded([&]() -> PyObject* {
    warn_of_history(a);
    PyObject* item = real_item(a, "double");
    PyObject* number = item ? PyNumber_Float(item) : nullptr;
    Py_XDECREF(item);
    return number;
  });
}
PyObject* to_int(PyObject* a) {
  return guarded([&]() -> PyObject* {
    PyObject* item = real_item(a, "int64_t");
    PyObject* number = item ? PyNumber_Long(item) : nullptr;
    Py_XDECREF(item);
    return number;
  });
}
PyObject* to_index(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const Tensor* t = as_tensor(a);
    if (t->numel != 1 || !is_integral(t->dtype))
      fail_as(PyExc_TypeError,
              "only integer tensors of a single element can be converted to an "
              "index, got ",
              name(t->dtype), " of shape ", t->sizes);
    PyObject* item = tensor_item(t);
    PyObject* number = item ? PyNumber_Long(item) : nullptr;
    Py_XDECREF(item);
    return number;
  });
}
int to_bool(PyObject* a) {
  return guarded_int([&] {
    const Tensor* t = as_tensor(a);
    if (t->numel == 0) fail("Boolean value of Tensor with no values is ambiguous");
    if (t->numel != 1)
      fail("Boolean value of Tensor with more than one value is ambiguous (shape ", t->sizes,
           "); use .any() or .all()");
    if (t->device().type != Device::CUDA || batch_of(t))
      require_plain(t, "data-dependent control flow (the truth of a tensor)");
    PyObject* item = tensor_item(t);
    int truth = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return truth;
  });
}

}  // namespace

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op) {
  static const Pointwise* ops[] = {&find_pointwise("lt"), &find_pointwise("le"),
                                   &find_pointwise("eq"), &find_pointwise("ne"),
                                   &find_pointwise("gt"), &find_pointwise("ge")};
  return binary(*ops[op], a, b);
}

PyNumberMethods tensor_number = [] {
  PyNumberMethods n{};
  n.nb_add = add;
  n.nb_subtract = subtract;
  n.nb_multiply = multiply;
  n.nb_true_divide = divide;
  n.nb_floor_divide = floor_divide;
  n.nb_remainder = remainder;
  n.nb_power = power;
  n.nb_negative = negative;
  n.nb_positive = positive;
  n.nb_absolute = absolute;
  n.nb_invert = invert;
  n.nb_and = bit_and;
  n.nb_or = bit_or;
  n.nb_xor = bit_xor;
  n.nb_lshift = shift_left;
  n.nb_rshift = shift_right;
  n.nb_matrix_multiply = matrix_multiply;
  n.nb_inplace_add = inplace_add;
  n.nb_inplace_subtract = inplace_subtract;
  n.nb_inplace_multiply = inplace_multiply;
  n.nb_inplace_true_divide = inplace_divide;
  n.nb_inplace_floor_divide = inplace_floor_divide;
  n.nb_inplace_remainder = inplace_remainder;
  n.nb_inplace_power = inplace_power;
  n.nb_inplace_and = inplace_bit_and;
  n.nb_inplace_or = inplace_bit_or;
  n.nb_inplace_xor = inplace_bit_xor;
  n.nb_inplace_lshift = inplace_shift_left;
  n.nb_inplace_rshift = inplace_shift_right;
  n.nb_float = to_float;
  n.nb_int = to_int;
  n.nb_index = to_index;
  n.nb_bool = to_bool;
  return n;
}();

}  // namespace rl
