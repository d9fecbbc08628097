// A layer of a recurrent network in one direction.
#pragma once

#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

struct RnnWeights {
  Var w_ih, w_hh, b_ih, b_hh;
};
struct RnnLayer {
  Var out, cells;  // the states after every row; `cells` of an LSTM only
};

// input [rows, features] holds one step after the other, step t with sizes[t] rows. cx is of an
// LSTM only. Recorded.
RnnLayer rnn_layer(kernel::RnnCell cell, const Var& input, const Var& hx, const Var& cx,
                   const RnnWeights& weights, const Ints& sizes, bool reverse);

// One step of a cell by differentiable ops, and its derivatives.
class RnnStep {
 public:
  // x: products with the input, with its bias; w, b: those of the state. h, c: the states before.
  RnnStep(kernel::RnnCell cell, const Var& x, const Var& h, const Var& c, const Var& w,
          const Var& b);
  const Var& h() const { return h_; }
  const Var& c() const { return c_; }

  // Gradients of the two products and of the states before, the latter without what comes through
  // the product; from those of the states after (dc may be none).
  struct Pulled {
    Var x, p, h, c;
  };
  Pulled pull(const Var& dh, const Var& dc) const;
  // Tangents of the states after, from those of the products and of the states before.
  struct Pushed {
    Var h, c;
  };
  Pushed push(const Var& tx, const Var& tp, const Var& th, const Var& tc) const;
  const Var& before() const { return before_; }

 private:
  Var part(const Var& gates, int k) const;
  Var joined(const Vars& parts) const { return ops::cat(parts, 1); }
  kernel::RnnCell cell_;
  Var before_, cell_before_, h_, c_;
  Var gate_[4];  // in, forget, fresh, show of an LSTM; reset, update, fresh, inner of a GRU
  Var bent_;     // tanh(c) of an LSTM
};

}  // namespace rl
