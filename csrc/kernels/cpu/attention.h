// Scaled dot product attention. The scores of a block of queries and keys exist at a time, never
// all of them.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// A tensor [batch, heads, rows, columns] with unit column stride; strides in elements.
struct Heads {
  void* data;
  int64_t batch, head, row;
};

// What is added to the scores; data is null for nothing. Any strides.
struct ScoreMask {
  const void* data;
  int64_t batch, head, row, col;
};

struct AttentionShape {
  int64_t batch, heads, key_heads;  // consecutive heads share a key head
  int64_t queries, keys, width, value_width;
  double scale;
  bool causal;  // query i sees keys up to i
};

// out = softmax(scale * q k^T + mask) v, zero where nothing is seen; lse, [batch, heads, queries],
// takes log(sum(exp(scores))), infinity where nothing is seen. For float and double.
void attention(DType d, const AttentionShape& s, Heads q, Heads k, Heads v, ScoreMask mask,
               Heads out, void* lse);

// The gradients of q, k and v from that of out.
void attention_backward(DType d, const AttentionShape& s, Heads g, Heads q, Heads k, Heads v,
                        ScoreMask mask, Heads out, const void* lse, Heads gq, Heads gk, Heads gv);

}  // namespace rl::cpu
