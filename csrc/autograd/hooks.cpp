#include "autograd/hooks.h"

#include "autograd/engine.h"

namespace rl {

namespace {

struct Object {
  PyObject* p;
  explicit Object(PyObject* owned) : p(owned) {
    if (!p) throw PythonError{};
  }
  ~Object() { Py_DECREF(p); }
  Object(const Object&) = delete;
};

std::string hook_name(PyObject* hook) {
  PyObject* name = PyObject_GetAttrString(hook, "__name__");
  if (!name) {
    PyErr_Clear();
    return Py_TYPE(hook)->tp_name;
  }
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  std::string result = text ? text : "?";
  Py_DECREF(name);
  return result;
}

Var as_grad(PyObject* result, PyObject* hook) {
  if (!is_tensor(result))
    fail_as(PyExc_TypeError, "expected Variable, but hook returned '", Py_TYPE(result)->tp_name,
            "' (hook '", hook_name(hook), "')");
  return Var(reinterpret_cast<Tensor*>(result));
}

void check_same(const Var& before, const Var& after, PyObject* hook) {
  if (before->sizes != after->sizes)
    fail("hook '", hook_name(hook), "' has changed the size of value: from ", before->sizes, " to ",
         after->sizes);
  if (before->dtype != after->dtype)
    fail("hook '", hook_name(hook), "' has changed the type of value (was torch.",
         name(before->dtype), " got torch.", name(after->dtype), ")");
  if (before->device() != after->device())
    fail("hook '", hook_name(hook), "' has changed the device of value (was ",
         device_text(before->device()), " got ", device_text(after->device()), ")");
}

// Calls every hook of the dict on the gradient; each may replace it.
void run_hooks(PyObject* hooks, Var& grad, bool create_graph) {
  if (!hooks || !grad || PyDict_GET_SIZE(hooks) == 0) return;
  GradMode mode(create_graph);
  Object list(PyDict_Values(hooks));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.p); i++) {
    PyObject* hook = PyList_GET_ITEM(list.p, i);
    grad = for_user(std::move(grad));
    Object result(PyObject_CallOneArg(hook, grad.object()));
    if (result.p != Py_None) {
      Var replaced = as_grad(result.p, hook);
      check_same(grad, replaced, hook);
      grad = std::move(replaced);
    }
  }
  // A reference that a hook kept must not see what the engine does next, nor the reverse.
  grad = for_user(std::move(grad));
}

void write_retained(Tensor* tensor, Var& grad, bool create_graph) {
  if (grad) accumulate_grad(tensor, grad, create_graph, true);
}

}  // namespace

void run_tensor_hooks(Node* node, Var* grads, bool create_graph) {
  try {
    if (node->cls == &accumulate_class) {
      Tensor* variable = accumulated_variable(node);
      if (variable->extra && variable->extra->hooks) {
        Var keep(variable);
        run_hooks(variable->extra->hooks, grads[0], create_graph);
      }
    }
    if (!node->hooks) return;
    for (size_t i = 0; i < node->hooks->outputs.size(); i++) {
      uint32_t nr = node->hooks->outputs[i].nr;
      run_hooks(node->hooks->outputs[i].hooks, grads[nr], create_graph);
    }
    for (auto& on : node->hooks->outputs)
      if (on.retains) write_retained(on.retains, grads[on.nr], create_graph);
  } catch (...) {
    raise_current_exception();
    annotate_error(node);
    throw PythonError{};
  }
}

void run_pre_hooks(Node* node, Var* grads, bool create_graph) {
  if (!node->hooks->pre || PyDict_GET_SIZE(node->hooks->pre) == 0) return;
  GradMode mode(create_graph);
  Object list(PyDict_Values(node->hooks->pre));
  uint32_t count = node->output_count;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.p); i++) {
    Object arguments(tuple_for_user(grads, count));
    PyObject* hook = PyList_GET_ITEM(list.p, i);
    Object result(PyObject_CallOneArg(hook, arguments.p));
    if (result.p == Py_None) continue;
    Object sequence(PyTuple_Check(result.p) ? (Py_INCREF(result.p), result.p)
                                            : PyTuple_Pack(1, result.p));
    if (PyTuple_GET_SIZE(sequence.p) != Py_ssize_t(count))
      fail("hook '", hook_name(hook), "' has returned an incorrect number of values (got ",
           PyTuple_GET_SIZE(sequence.p), ", but expected ", count, ")");
    for (uint32_t k = 0; k < count; k++) {
      PyObject* item = PyTuple_GET_ITEM(sequence.p, k);
      grads[k] = item == Py_None ? Var() : as_grad(item, hook);
    }
  }
}

void run_post_hooks(Node* node, Var* results, uint32_t inputs, Var* grads, uint32_t outputs,
                    bool create_graph) {
  if (PyDict_GET_SIZE(node->hooks->post) == 0) return;
  GradMode mode(create_graph);
  Object list(PyDict_Values(node->hooks->post));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.p); i++) {
    Object in(tuple_for_user(results, inputs)), out(tuple_for_user(grads, outputs));
    PyObject* hook = PyList_GET_ITEM(list.p, i);
    Object result(PyObject_CallFunctionObjArgs(hook, in.p, out.p, nullptr));
    if (result.p == Py_None) continue;
    if (!PyTuple_Check(result.p))
      fail_as(PyExc_TypeError, "expected tuple, but hook returned '", Py_TYPE(result.p)->tp_name,
              "'");
    if (PyTuple_GET_SIZE(result.p) != Py_ssize_t(inputs))
      fail("hook '", hook_name(hook), "' has returned an incorrect number of values (got ",
           PyTuple_GET_SIZE(result.p), ", but expected ", inputs, ")");
    for (uint32_t k = 0; k < inputs; k++) {
      PyObject* item = PyTuple_GET_ITEM(result.p, k);
      results[k] = item == Py_None ? Var() : as_grad(item, hook);
    }
  }
}

void run_post_accumulate_hooks(Tensor* variable, bool create_graph) {
  GradMode mode(create_graph);
  Var keep(variable);
  Object list(PyDict_Values(variable->extra->post_accumulate_hooks));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.p); i++) {
    Object result(PyObject_CallOneArg(PyList_GET_ITEM(list.p, i), keep.object()));
  }
}

PyObject* tuple_for_user(Var* vars, uint32_t count) {
  PyObject* tuple = PyTuple_New(count);
  if (!tuple) throw PythonError{};
  for (uint32_t i = 0; i < count; i++) {
    PyObject* item = Py_None;
    if (vars[i]) {
      vars[i] = for_user(std::move(vars[i]));
      item = vars[i].object();
    }
    Py_INCREF(item);
    PyTuple_SET_ITEM(tuple, i, item);
  }
  return tuple;
}

}  // namespace rl
