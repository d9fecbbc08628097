// Help for Python's garbage collector. Tensors and nodes are made untracked, since tracking every
// one would cost more than the operation. A cycle must pass through a Python object (a hook, a
// ctx, an attribute, a .grad with history); `track` marks the object that holds it. Before a
// collection, everything that leads to such an object is tracked as well, so that the collector
// sees the whole cycle. See docs/design/garbage-collection.md.
#include <algorithm>
#include <unordered_set>

#include "autograd/node.h"

namespace rl {

// python/node_type.cpp: the references that the collector would be told of.
int traverse_ours(PyObject* o, visitproc visit, void* arg);

namespace {

int tracked_since_collection = 0;
// Tracked objects after which a collection is due: few, or a share of what the last look went
// through, so that looking costs each of them little.
constexpr size_t kFew = 500;
size_t due = kFew;

template <class T>
void start_tracking(T* o) {
  o->leads_to_python = true;
  PyObject* object = reinterpret_cast<PyObject*>(o);
  if (PyObject_GC_IsTracked(object)) return;
  PyObject_GC_Track(object);
  tracked_since_collection++;
}

bool is_tensor_object(PyObject* o) { return PyObject_TypeCheck(o, &TensorType); }
bool is_ours(PyObject* o) { return is_tensor_object(o) || PyObject_TypeCheck(o, &NodeType); }

bool leads(PyObject* o) {
  return is_tensor_object(o) ? reinterpret_cast<Tensor*>(o)->leads_to_python
                             : reinterpret_cast<Node*>(o)->leads_to_python;
}

template <class F>
void for_each_reference(PyObject* o, const F& f) {
  auto visit = [](PyObject* next, void* context) {
    if (next) (*static_cast<const F*>(context))(next);
    return 0;
  };
  traverse_ours(o, visit, const_cast<F*>(&f));
}

// Tracks whatever leads to a marked object. Depth first with a stack of its own: graphs are deep.
class Reach {
 public:
  void settle(PyObject* root) {
    stack_.push_back({root, false});
    while (!stack_.empty()) {
      auto [o, expanded] = stack_.back();
      if (!expanded) {
        if (!seen_.insert(o).second || leads(o)) {
          stack_.pop_back();
          continue;
        }
        stack_.back().second = true;
        for_each_reference(o, [&](PyObject* next) {
          if (is_ours(next)) stack_.push_back({next, false});
        });
      } else {
        stack_.pop_back();
        bool found = false;
        for_each_reference(o, [&](PyObject* next) {
          found |= is_ours(next) ? leads(next) : PyObject_GC_IsTracked(next) != 0;
        });
        if (!found) continue;
        if (is_tensor_object(o)) mark(reinterpret_cast<Tensor*>(o));
        else mark(reinterpret_cast<Node*>(o));
      }
    }
  }

  size_t visited() const { return seen_.size(); }

 private:
  std::vector<std::pair<PyObject*, bool>> stack_;
  std::unordered_set<PyObject*> seen_;
};

}  // namespace

bool collector_has_work = false;

void mark(Tensor* t) { start_tracking(t); }
void mark(Node* node) { start_tracking(node); }
void track(Tensor* t) {
  mark(t);
  collector_has_work = true;
}
void track(Node* node) {
  mark(node);
  collector_has_work = true;
}

// Our objects do not come from CPython's allocator, so they do not move its thresholds.
void collect_if_due() {
  static int rounds = 0;
  if (size_t(tracked_since_collection) < due) return;
  PyObject* gc = PyImport_ImportModule("gc");
  int generation = ++rounds % 10 == 0 ? 2 : 1;
  PyObject* done = gc ? PyObject_CallMethod(gc, "collect", "i", generation) : nullptr;
  Py_XDECREF(gc);
  if (!done) throw PythonError{};
  Py_DECREF(done);
  tracked_since_collection = 0;
}

// Installed in gc.callbacks: called as callback(phase, info).
PyObject* collector_callback(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || !PyUnicode_Check(args[0]) ||
      PyUnicode_CompareWithASCIIString(args[0], "start") != 0)
    Py_RETURN_NONE;
  tracked_since_collection = 0;
  if (!collector_has_work) Py_RETURN_NONE;
  try {
    Reach reach;
    for_each_node(
        [](Node* n, void* r) { static_cast<Reach*>(r)->settle(reinterpret_cast<PyObject*>(n)); },
        &reach);
    for_each_tensor(
        [](Tensor* t, void* r) { static_cast<Reach*>(r)->settle(reinterpret_cast<PyObject*>(t)); },
        &reach);
    due = std::max(kFew, reach.visited() / 16);
    collector_has_work = false;
  } catch (...) {
    raise_current_exception();
    return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace rl
