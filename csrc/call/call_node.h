// The nodes of ops that are not pointwise. A node keeps one block: what it saved of the outputs, then
// each argument of the call at the place that the op's table states.
#pragma once

#include "call/call.h"

namespace rl {

// See OpTable.
NodeRef prepare_call(const OpRecord& op, size_t outputs, Values args);
void finish_call(const OpRecord& op, Node* node, Var* results, size_t count);

NodeClass node_class(const OpRecord& op);

}  // namespace rl
