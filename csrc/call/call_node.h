// The nodes of ops that are not pointwise. A node keeps one block: what it saved of the outputs, then
// each argument of the call at the place that the op's table states.
#pragma once

#include "call/call.h"

namespace rl {

// The node of a call with its edges and saved arguments, as a Python object.
NodeRef prepare(const OpRecord& op, size_t outputs, Values args);
// Makes the results its outputs, and saves those that the op names.
void finish(const OpRecord& op, Node* node, Var* results, size_t count);

NodeClass node_class(const OpRecord& op);

}  // namespace rl
