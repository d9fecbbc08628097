// Running a recorded program backwards.
#pragma once

#include <vector>

#include "autograd/node.h"

namespace rl {

struct Request {
  std::vector<Edge> roots;  // borrowed
  std::vector<Var> grads;   // one per root
  bool keep_graph = false;
  bool create_graph = false;
  // Empty: accumulate into every leaf. Otherwise only these are wanted.
  std::vector<Edge> inputs;  // borrowed
  bool accumulate = true;    // backward(): into .grad; grad(): collect
};

// The gradients of `inputs`, null where nothing flowed, when request.accumulate is false.
std::vector<Var> run_backward(Request& request);

// The number of the backward run this thread is in, -1 outside; whether a node takes part in it.
int64_t current_run();
bool will_execute(Node* node);
// Calls a Python function when that run has ended without an error.
void queue_callback(PyObject* function);

// One node's formula, with its result count checked and its errors annotated; also used by nodes
// that wrap another (CopySlices).
void apply_node(Node* node, Pass& pass);
// The same as a function of its own, for grad_fn(grad): recorded where that is on, without hooks.
std::vector<Var> call_node(Node* node, std::vector<Var>& grads);

// Adds a gradient to .grad by torch's rules of ownership and layout; `anew`: never in place.
void accumulate_grad(Tensor* variable, Var grad, bool create_graph, bool anew = false);

// `grad` as it may be given to user code: nothing the user does to it reaches another holder.
Var for_user(Var grad);
// What a user asked for may be written to: one number for many elements becomes many.
Var writable(Var v);

}  // namespace rl
