// Anomaly mode: stop at the first gradient that is not a number.
#pragma once

#include "autograd/node.h"

namespace rl {

// Raises when a result of the node's formula holds a NaN and the mode asks for that check.
void check_anomaly(Node* node, const Pass& pass);

// The node whose formula this thread runs in anomaly mode, for those that are made meanwhile.
extern constinit thread_local Node* evaluated;

}  // namespace rl
