// Gradients that keep their arguments in their history where the derivative is 0.
//
// A slope that is constant by pieces, as that of relu, has no history of its own, so that its
// gradient could not be differentiated again. PyTorch answers zeros there: its backward functions
// are functions of all their arguments. Ops that are to behave alike state `whole_history`.
#pragma once

#include <vector>

#include "autograd/node.h"

namespace rl {

// Makes `grad`, a gradient that node computed, depend on what node's gradients flow to. Nothing is
// computed along these edges: zeros are made where somebody asks for them.
void bind_history(Var& grad, Node* node);
// The same for a tangent, which an op computed from these arguments.
void bind_history(Var& tangent, const std::vector<Var>& arguments);

}  // namespace rl
