// A step of a recurrent cell by differentiable ops.
#include "call/pointwise.h"
#include "ops/nn/rnn.h"

namespace rl {

using namespace math;
using kernel::RnnCell;

namespace {

Var flat(const Var& y) { return y * (Var(1) - y); }     // the slope of sigmoid
Var flat_tanh(const Var& y) { return Var(1) - y * y; }  // that of tanh
Var sum_of(const Var& a, const Var& b) { return a && b ? a + b : a ? a : b; }

}  // namespace

Var RnnStep::part(const Var& gates, int k) const {
  int64_t n = before_.size(1);
  return ops::narrow(gates, 1, k * n, n);
}

RnnStep::RnnStep(RnnCell cell, const Var& x, const Var& h, const Var& c, const Var& w, const Var& b)
    : cell_(cell), before_(h), cell_before_(c) {
  Var p = ops::mm(h, ops::transpose(w, 0, 1));
  if (b) p = p + b;
  if (cell == RnnCell::Tanh || cell == RnnCell::Relu) {
    h_ = cell == RnnCell::Tanh ? tanh(x + p) : call_pointwise("relu", {x + p});
    return;
  }
  if (cell == RnnCell::Lstm) {
    Var all = x + p;
    for (int k = 0; k < 4; k++) gate_[k] = k == 2 ? tanh(part(all, k)) : sigmoid(part(all, k));
    c_ = gate_[1] * c + gate_[0] * gate_[2];
    bent_ = tanh(c_);
    h_ = gate_[3] * bent_;
    return;
  }
  for (int k = 0; k < 2; k++) gate_[k] = sigmoid(part(x, k) + part(p, k));
  gate_[3] = part(p, 2);
  gate_[2] = tanh(part(x, 2) + gate_[0] * gate_[3]);
  h_ = gate_[2] + gate_[1] * (h - gate_[2]);
}

RnnStep::Pulled RnnStep::pull(const Var& dh, const Var& dc) const {
  if (cell_ == RnnCell::Tanh || cell_ == RnnCell::Relu) {
    Var g = cell_ == RnnCell::Tanh ? dh * flat_tanh(h_) : where(h_ <= Var(0), Var(0), dh);
    return {g, g, {}, {}};
  }
  if (cell_ == RnnCell::Lstm) {
    Var e = sum_of(dh * gate_[3] * flat_tanh(bent_), dc);
    Var g = joined({e * gate_[2] * flat(gate_[0]), e * cell_before_ * flat(gate_[1]),
                    e * gate_[0] * flat_tanh(gate_[2]), dh * bent_ * flat(gate_[3])});
    return {g, g, {}, e * gate_[1]};
  }
  Var e = dh * (Var(1) - gate_[1]) * flat_tanh(gate_[2]);
  Var reset = e * gate_[3] * flat(gate_[0]), update = dh * (before_ - gate_[2]) * flat(gate_[1]);
  return {joined({reset, update, e}), joined({reset, update, e * gate_[0]}), dh * gate_[1], {}};
}

RnnStep::Pushed RnnStep::push(const Var& tx, const Var& tp, const Var& th, const Var& tc) const {
  if (cell_ == RnnCell::Tanh || cell_ == RnnCell::Relu) {
    Var t = tx + tp;
    return {cell_ == RnnCell::Tanh ? t * flat_tanh(h_) : where(h_ <= Var(0), Var(0), t), {}};
  }
  if (cell_ == RnnCell::Lstm) {
    Var t = tx + tp, moved[4];
    for (int k = 0; k < 4; k++)
      moved[k] = part(t, k) * (k == 2 ? flat_tanh(gate_[k]) : flat(gate_[k]));
    Var c = moved[1] * cell_before_ + gate_[1] * tc + moved[0] * gate_[2] + gate_[0] * moved[2];
    return {moved[3] * bent_ + gate_[3] * flat_tanh(bent_) * c, c};
  }
  Var reset = (part(tx, 0) + part(tp, 0)) * flat(gate_[0]);
  Var update = (part(tx, 1) + part(tp, 1)) * flat(gate_[1]);
  Var fresh = (part(tx, 2) + reset * gate_[3] + gate_[0] * part(tp, 2)) * flat_tanh(gate_[2]);
  return {fresh + update * (before_ - gate_[2]) + gate_[1] * (th - fresh), {}};
}

}  // namespace rl
