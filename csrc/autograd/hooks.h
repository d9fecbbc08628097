// Calling what users hung on tensors and nodes.
#pragma once

#include "autograd/node.h"

namespace rl {

// Tensor hooks of each output in order of registration, then retain_grad.
void run_tensor_hooks(Node* node, Var* grads, bool create_graph);
void run_pre_hooks(Node* node, Var* grads, bool create_graph);
void run_post_hooks(Node* node, Var* results, uint32_t inputs, Var* grads, uint32_t outputs,
                    bool create_graph);
void run_post_accumulate_hooks(Tensor* variable, bool create_graph);

// The nodes of custom Functions are called even when no gradient arrived.
bool is_function(const Node* node);

// A tuple of the tensors, None where there is none. Each is safe to hand to user code.
PyObject* tuple_for_user(Var* vars, uint32_t count);

}  // namespace rl
