// The node of a custom Function, which is also its ctx.
#pragma once

#include <vector>

#include "autograd/node.h"

namespace rl {

struct FunctionNode : Node {
  PyObject* to_save;  // tuple given to save_for_backward
  PyObject* saved_for_forward;
  PyObject* non_differentiable;  // tuple
  PyObject* dirty;               // tuple
  PyObject* needs_input_grad;    // tuple of bools
  std::vector<SavedTensor>* saved;
  std::vector<bool>* is_tensor_argument;
  struct Stashed {
    PyObject* name;  // of an attribute of ctx
    uint32_t version;
  };
  std::vector<Stashed>* stashed;  // tensors that forward put on ctx
  int pushing;                    // the dual level whose jvp runs, or -1
  bool materialize;
  bool passes;  // inputs go through as ordinary views of themselves
};

inline FunctionNode* as_function(Node* node) { return static_cast<FunctionNode*>(node); }
inline FunctionNode* as_function(PyObject* o) { return as_function(reinterpret_cast<Node*>(o)); }

struct Held {
  PyObject* p;
  explicit Held(PyObject* owned) : p(owned) {
    if (!p) throw PythonError{};
  }
  ~Held() { Py_XDECREF(p); }
  Held(const Held&) = delete;
};

extern PyTypeObject FunctionNodeType;

// Notes the versions of tensors on ctx, so that they are checked like saved ones.
void note_stashed(FunctionNode* self);

}  // namespace rl
