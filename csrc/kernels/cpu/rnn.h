// A layer of a recurrent network in one direction, from the products of its inputs on.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

enum class RnnCell : int64_t { Tanh, Relu, Lstm, Gru };

// Widths in units of the hidden size: of a cell's products, and of what its backward keeps of a
// step.
inline int64_t rnn_gates(RnnCell cell) {
  return cell == RnnCell::Lstm ? 4 : cell == RnnCell::Gru ? 3 : 1;
}
inline int64_t rnn_kept(RnnCell cell) {
  return cell == RnnCell::Lstm || cell == RnnCell::Gru ? 4 : 0;
}

// Steps follow each other in memory: step t has sizes[t] rows, one for each sequence that is that
// long; sizes do not grow. In reverse, sequences are run from their last step to their first.
struct RnnSteps {
  const int64_t* sizes;
  int64_t steps, batch, hidden;
  bool reverse;
};

// For float and double, row-major. x [rows, gates] holds the products with the inputs; biases may
// be null. Leaves the hidden states in out, those of an LSTM's cells in cells, and what the
// backward needs in kept.
void rnn_forward(DType d, RnnCell cell, RnnSteps s, const void* x, const void* w_hh,
                 const void* b_ih, const void* b_hh, const void* hx, const void* cx, void* out,
                 void* cells, void* kept);

// gx and gh: gradients of the products with inputs and with states (the same but for a GRU, where
// gh must be a tensor of its own; otherwise it is null). previous: the state that every row came
// from. g_cells may be null.
void rnn_backward(DType d, RnnCell cell, RnnSteps s, const void* g_out, const void* g_cells,
                  const void* w_hh, const void* hx, const void* cx, const void* out,
                  const void* cells, const void* kept, void* gx, void* gh, void* previous,
                  void* g_hx, void* g_cx);

}  // namespace rl::cpu
