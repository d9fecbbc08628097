// Attention of halves without a matrix of scores. False, and nothing done, where the shape, the layout
// or the device does not suit.
#pragma once

#include "kernels/arguments.h"

namespace rl::cuda {

bool fused_attention(DType d, const kernel::AttentionShape& s, kernel::Heads q, kernel::Heads k,
                     kernel::Heads v, kernel::ScoreMask mask, kernel::Heads out, void* lse);
bool fused_attention_backward(DType d, const kernel::AttentionShape& s, kernel::Heads g,
                              kernel::Heads q, kernel::Heads k, kernel::Heads v,
                              kernel::ScoreMask mask, kernel::Heads out, const void* lse,
                              kernel::Heads gq, kernel::Heads gk, kernel::Heads gv);

}  // namespace rl::cuda
