// Steps of optimizers and the gradients they drop, for Python.
#include "autograd/forward.h"
#include "call/recording.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/optim_step.h"
#include "python/tensor_type.h"

namespace rl {
namespace {

PyObject* find_rule(PyObject*, PyObject* name) {
  for (int i = 0; i < optimizer_rule_count; i++)
    if (PyUnicode_Check(name) &&
        PyUnicode_CompareWithASCIIString(name, optimizer_rules[i].name) == 0)
      return PyLong_FromLong(i);
  PyErr_SetObject(PyExc_KeyError, name);
  return nullptr;
}

const Rule& rule_argument(PyObject* o) {
  long index = PyLong_AsLong(o);
  if (index < 0 || index >= optimizer_rule_count)
    fail_as(PyExc_TypeError, "expected a number that _optimizer_rule gave");
  return optimizer_rules[index];
}

// _optimizer_init(rule, group, parameter, its state): puts in what a step finds at first.
PyObject* optimizer_init(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 4 || !PyDict_Check(args[1]) || !is_tensor(args[2]) || !PyDict_Check(args[3]))
      fail_as(PyExc_TypeError, "expected a rule, a group, a parameter and its state");
    const Rule& rule = rule_argument(args[0]);
    const Names& names = names_of(rule);
    Hyper hyper = read_group(rule, args[1]);
    for (int k = 0; k < names.slot_count; k++) {
      if (!(rule.used(hyper.values) >> k & 1)) continue;
      Var made = fresh_slot(rule, hyper, k, as_tensor(args[2]));
      if (PyDict_SetItem(args[3], names.slots[k], made.object()) < 0) throw PythonError{};
    }
    Py_RETURN_NONE;
  });
}

// _optimizer_step(rule, param_groups, state) -> whether it was done
PyObject* optimizer_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 3 || !PyList_Check(args[1]) || !PyDict_Check(args[2]))
      fail_as(PyExc_TypeError, "step: param_groups must be a list and state a dict");
    if (modes.intercepted) Py_RETURN_FALSE;
    const Rule& rule = rule_argument(args[0]);
    std::shared_ptr<PyObject> groups(new_reference(args[1]), Py_DecRef),
        state(new_reference(args[2]), Py_DecRef);
    auto done = std::make_shared<bool>(false);
    auto step = [&rule, groups, state, done] {
      *done = run_optimizer_step(rule, groups.get(), state.get());
    };
    if (recording) act("optimizer", step);
    else step();
    return PyBool_FromLong(*done);
  });
}

void zero_gradient(Tensor* t, bool drop) {
  if (!t->extra || !t->extra->grad) return;
  if (drop) {
    Py_CLEAR(t->extra->grad);
    return;
  }
  Var g(t->extra->grad);
  if (g->grad_fn || g->requires_grad) {
    PyObject* cut = g->grad_fn ? PyObject_CallMethod(g.object(), "detach_", nullptr)
                               : PyObject_CallMethod(g.object(), "requires_grad_", "O", Py_False);
    if (!cut) throw PythonError{};
    Py_DECREF(cut);
  }
  prepare_write(g.get(), "zero");
  Plain plain;
  ops::fill_data(g.get(), 0);
}

// _zero_grads(tensors, set_to_none)
PyObject* zero_grads(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    int drop = count == 2 ? PyObject_IsTrue(args[1]) : -1;
    if (drop < 0) fail_as(PyExc_TypeError, "_zero_grads expects tensors and set_to_none");
    Owned list(PySequence_Fast(args[0], "the parameters must be a list"));
    if (!list.get()) throw PythonError{};
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); i++)
      if (PyObject* o = PySequence_Fast_GET_ITEM(list.get(), i); is_tensor(o))
        zero_gradient(as_tensor(o), drop);
    Py_RETURN_NONE;
  });
}

PyCFunction fast(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

}  // namespace

PyMethodDef optim_functions[] = {
    {"_optimizer_rule", find_rule, METH_O, nullptr},
    {"_optimizer_init", fast(optimizer_init), METH_FASTCALL, nullptr},
    {"_optimizer_step", fast(optimizer_step), METH_FASTCALL, nullptr},
    {"_zero_grads", fast(zero_grads), METH_FASTCALL, nullptr},
    {},
};

}  // namespace rl
