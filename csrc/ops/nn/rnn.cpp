// Recurrent networks: all layers and directions, over padded and packed sequences.
#include "ops/nn/rnn.h"

#include "call/broadcast.h"
#include "ops/random/random.h"

namespace rl {

using kernel::RnnCell;

namespace {

// Steps of one batch: the number of sequences that reach each, and the rows where they end.
struct Batch {
  Ints sizes;
  int64_t rows = 0;
  bool even = true;  // all of one length

  static Batch padded(int64_t steps, int64_t batch) {
    return {Ints(int(steps), batch), steps * batch};
  }
  static Batch packed(const Var& data, const Var& batch_sizes) {
    check(batch_sizes.dim() == 1 && batch_sizes.dtype() == DType::I64 && batch_sizes.numel() > 0,
          "batch_sizes should always be a non-empty 1-dimensional int64 tensor, got ",
          info(batch_sizes.dtype()).tensor_name, " of shape ", batch_sizes.sizes());
    Plain plain;
    Var list = ops::on_host(ops::contiguous(batch_sizes));
    require_plain(batch_of(batch_sizes.get()) ? batch_sizes.get() : list.get(),
                  "stepping by sizes");
    Batch b{Ints(list->host<int64_t>(), int(list.numel())), 0};
    for (int t = 0; t < b.sizes.size(); t++) {
      check(b.sizes[t] > 0 && (t == 0 || b.sizes[t] <= b.sizes[t - 1]),
            "batch_sizes must be positive and must not grow, got ", b.sizes[t], " at step ", t);
      check(data.dim() >= 1 && b.sizes[t] <= data.size(0) - b.rows,
            "batch_sizes add up to more rows than the data of shape ", data.sizes(), " has");
      b.even = b.even && b.sizes[t] == b.sizes[0];
      b.rows += b.sizes[t];
    }
    check(data.dim() >= 1 && data.size(0) == b.rows, "batch_sizes add up to ", b.rows,
          " rows, but the data of shape ", data.sizes(), " has another number");
    return b;
  }

  // The states of every sequence at the end of a direction.
  Var last(const Var& states, bool reverse) const {
    int64_t batch = sizes.empty() ? 0 : sizes[0];
    if (reverse) return ops::narrow(states, 0, 0, batch);
    if (even) return ops::narrow(states, 0, rows - batch, batch);
    std::vector<int64_t> at(static_cast<size_t>(batch));
    int64_t row = 0;
    for (int64_t size : sizes) {
      for (int64_t i = 0; i < size; i++) at[size_t(i)] = row + i;
      row += size;
    }
    return ops::index_select(states, 0, ops::integers(at, states.device()));
  }
};

struct Options {
  RnnCell cell;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;
  int64_t directions() const { return bidirectional ? 2 : 1; }
};

struct Result {
  Var out, h, c;
};

Var dropped(const Var& x, double p) {
  Var kept = empty(x.sizes(), DType::Bool, x.device());
  fill_bernoulli(kept.get(), 1 - p, generator_value(Py_None));
  return x * ops::to(kept, x.dtype()) * Var(p == 1 ? 0 : 1 / (1 - p));
}

// An LSTM whose output is the projection w_hr of its state, step by step.
RnnLayer projected_layer(const Var& input, const Var& hx, const Var& cx, const RnnWeights& w,
                         const Var& w_hr, const Batch& batch, bool reverse) {
  auto turned = [](const Var& m) { return ops::transpose(m, 0, 1); };
  Var products = ops::mm(input, turned(w.w_ih)), h, c;
  if (w.b_ih) products = products + w.b_ih + w.b_hh;
  int count = batch.sizes.size();
  Vars hs(static_cast<size_t>(count)), cs(static_cast<size_t>(count));
  int64_t row = reverse ? batch.rows : 0, n = cx.size(1);
  for (int k = 0; k < count; k++) {
    int t = reverse ? count - 1 - k : k;
    int64_t rows = batch.sizes[t];
    auto begin = [&](const Var& last, const Var& initial) {
      if (!last) return ops::narrow(initial, 0, 0, rows);
      int64_t have = last.size(0);
      if (have >= rows) return ops::narrow(last, 0, 0, rows);
      return ops::cat({last, ops::narrow(initial, 0, have, rows - have)}, 0);
    };
    if (reverse) row -= rows;
    Var all = ops::narrow(products, 0, row, rows) + ops::mm(begin(h, hx), turned(w.w_hh));
    auto gate = [&](int i) { return ops::narrow(all, 1, i * n, n); };
    c = math::sigmoid(gate(1)) * begin(c, cx) + math::sigmoid(gate(0)) * math::tanh(gate(2));
    h = ops::mm(math::sigmoid(gate(3)) * math::tanh(c), turned(w_hr));
    hs[size_t(t)] = h;
    cs[size_t(t)] = c;
    if (!reverse) row += rows;
  }
  return {ops::cat(hs, 0), ops::cat(cs, 0)};
}

void check_states(const Var& states, int64_t layers, const Batch& batch, const char* what) {
  check(states.dim() == 3 && states.size(0) == layers && states.size(1) == batch.sizes[0],
        "Expected hidden size (", layers, ", ", batch.sizes[0], ", ...), got ", states.sizes(),
        " (", what, ")");
}

// All layers over rows of steps.
Result run(const Options& o, Var x, const Batch& batch, const Var& hx, const Var& cx,
           const Vars& params) {
  int64_t directions = o.directions(), total = o.layers * directions;
  check(o.layers > 0, "a recurrent network needs at least one layer, got num_layers=", o.layers);
  check(batch.sizes.size() > 0, "Expected sequence length to be larger than 0 in RNN");
  check(o.dropout >= 0 && o.dropout <= 1, "dropout probability has to be between 0 and 1, but got ",
        o.dropout);
  check(hx.dtype() == x.dtype() || modes.autocast,
        "Input and hidden tensors are not the same dtype, found input "
        "tensor with ",
        name(x.dtype()), " and hidden tensor with ", name(hx.dtype()));
  int64_t each = o.has_biases ? 4 : 2;
  bool projects = o.cell == RnnCell::Lstm && int64_t(params.size()) == total * (each + 1);
  if (projects) each++;
  check(int64_t(params.size()) == total * each,
        "got an incorrect number of RNN parameters: ", params.size(), " for ", o.layers,
        " layers of ", directions, " directions with ", each, " each");
  check_states(hx, total, batch, "hx");
  if (cx) check_states(cx, total, batch, "cx");
  Vars last_h, last_c;
  for (int64_t layer = 0; layer < o.layers; layer++) {
    Vars outs;
    for (int64_t k = 0; k < directions; k++) {
      int64_t at = layer * directions + k;
      const Var* p = &params[size_t(at * each)];
      RnnWeights w{p[0], p[1], o.has_biases ? p[2] : Var(), o.has_biases ? p[3] : Var()};
      Var h = ops::select(hx, 0, at), c = cx ? ops::select(cx, 0, at) : Var();
      check(projects || h.size(1) == w.w_hh.size(-1), "hidden0 has inconsistent hidden_size: got ",
            h.size(1), ", expected ", w.w_hh.size(-1));
      RnnLayer made = projects ? projected_layer(x, h, c, w, p[each - 1], batch, k == 1)
                               : rnn_layer(o.cell, x, h, c, w, batch.sizes, k == 1);
      outs.push_back(made.out);
      last_h.push_back(batch.last(made.out, k == 1));
      if (cx) last_c.push_back(batch.last(made.cells, k == 1));
    }
    x = directions == 2 ? ops::cat(outs, 1) : outs[0];
    if (o.train && o.dropout > 0 && layer + 1 < o.layers) x = dropped(x, o.dropout);
  }
  return {x, ops::stack(last_h, 0), cx ? ops::stack(last_c, 0) : Var()};
}

Result run_padded(const Options& o, const Var& input, const Var& hx, const Var& cx,
                  const Vars& params, bool batch_first) {
  check(input.dim() == 3, "input must have 3 dimensions, got ", input.dim());
  Var x = batch_first ? ops::transpose(input, 0, 1) : input;
  int64_t steps = x.size(0), batch = x.size(1);
  Result r = run(o, ops::reshape(x, {steps * batch, x.size(2)}), Batch::padded(steps, batch), hx,
                 cx, params);
  r.out = ops::reshape(r.out, {steps, batch, r.out.size(1)});
  if (batch_first) r.out = ops::transpose(r.out, 0, 1);
  return r;
}

Result run_packed(const Options& o, const Var& data, const Var& batch_sizes, const Var& hx,
                  const Var& cx, const Vars& params) {
  check(data.dim() == 2, "input must have 2 dimensions, got ", data.dim());
  return run(o, data, Batch::packed(data, batch_sizes), hx, cx, params);
}

struct Network : Composite {
  static constexpr Family family = Family::Recurrent;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

void check_pair(const Vars& hx) {
  check(hx.size() == 2, "lstm expects two hidden states, got ", hx.size());
}

struct Lstm : Network {
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto signature =
      "lstm(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, "
      "float dropout, bool train, bool bidirectional, bool batch_first)";
  static constexpr auto doc =
      "lstm(input, (h, c), params, ...): layers of long short-term memory over a batch of "
      "sequences; the outputs, and the last h and c of every layer.";
  static std::array<Var, 3> forward(const Var& input, const Vars& hx, const Vars& params,
                                    bool has_biases, int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first) {
    check_pair(hx);
    Options o{RnnCell::Lstm, has_biases, num_layers, dropout, train, bidirectional};
    Result r = run_padded(o, input, hx[0], hx[1], params, batch_first);
    return {r.out, r.h, r.c};
  }
};
RL_OP(Lstm)

struct LstmPacked : Network {
  static constexpr auto signature =
      "lstm(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, "
      "int num_layers, float dropout, bool train, bool bidirectional)";
  static constexpr auto doc =
      "lstm(data, batch_sizes, (h, c), params, ...): over packed sequences.";
  static std::array<Var, 3> forward(const Var& data, const Var& batch_sizes, const Vars& hx,
                                    const Vars& params, bool has_biases, int64_t num_layers,
                                    double dropout, bool train, bool bidirectional) {
    check_pair(hx);
    Options o{RnnCell::Lstm, has_biases, num_layers, dropout, train, bidirectional};
    Result r = run_packed(o, data, batch_sizes, hx[0], hx[1], params);
    return {r.out, r.h, r.c};
  }
};
RL_OP(LstmPacked)

#define RL_NETWORK(Type, word, kind, text)                                                      \
  struct Type : Network {                                                                       \
    static constexpr auto signature = word                                                      \
        "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "          \
        "float dropout, bool train, bool bidirectional, bool batch_first)";                     \
    static constexpr auto doc = word "(input, h, params, ...): layers of " text                 \
                                     " over a batch of sequences; the outputs, and the last h " \
                                     "of every layer.";                                         \
    static std::array<Var, 2> forward(const Var& input, const Var& hx, const Vars& params,      \
                                      bool has_biases, int64_t num_layers, double dropout,      \
                                      bool train, bool bidirectional, bool batch_first) {       \
      Options o{kind, has_biases, num_layers, dropout, train, bidirectional};                   \
      Result r = run_padded(o, input, hx, {}, params, batch_first);                             \
      return {r.out, r.h};                                                                      \
    }                                                                                           \
  };                                                                                            \
  RL_OP(Type)                                                                                   \
  struct Type##Packed : Network {                                                               \
    static constexpr auto signature = word                                                      \
        "(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, "       \
        "int num_layers, float dropout, bool train, bool bidirectional)";                       \
    static constexpr auto doc = word                                                            \
        "(data, batch_sizes, h, params, ...): over packed "                                     \
        "sequences.";                                                                           \
    static std::array<Var, 2> forward(const Var& data, const Var& batch_sizes, const Var& hx,   \
                                      const Vars& params, bool has_biases, int64_t num_layers,  \
                                      double dropout, bool train, bool bidirectional) {         \
      Options o{kind, has_biases, num_layers, dropout, train, bidirectional};                   \
      Result r = run_packed(o, data, batch_sizes, hx, {}, params);                              \
      return {r.out, r.h};                                                                      \
    }                                                                                           \
  };                                                                                            \
  RL_OP(Type##Packed)
RL_NETWORK(Gru, "gru", RnnCell::Gru, "gated recurrent units")
RL_NETWORK(RnnTanh, "rnn_tanh", RnnCell::Tanh, "tanh(W x + V h)")
RL_NETWORK(RnnRelu, "rnn_relu", RnnCell::Relu, "relu(W x + V h)")

// One step of a cell, for a batch or a single input.
RnnLayer cell_step(RnnCell cell, const Var& input, const Var& hx, const Var& cx, const Var& w_ih,
                   const Var& w_hh, const Var& b_ih, const Var& b_hh) {
  check(input.dim() == 2 && hx.dim() == 2 && (!cx || cx.dim() == 2),
        "a recurrent cell expects a 2-D input and hidden state, got input of shape ", input.sizes(),
        " and hidden state of shape ", hx.sizes());
  check(w_ih.dim() == 2 && input.size(1) == w_ih.size(1), "input has inconsistent input_size: got ",
        input.size(1), " expected ", w_ih.size(-1));
  for (const Var& state : {hx, cx}) {
    if (!state) continue;
    check(state.size(0) == input.size(0), "Input batch size ", input.size(0),
          " doesn't match hidden0 batch size ", state.size(0));
    check(state.size(1) == w_hh.size(-1), "hidden0 has inconsistent hidden_size: got ",
          state.size(1), ", expected ", w_hh.size(-1));
  }
  return rnn_layer(cell, input, hx, cx, {w_ih, w_hh, b_ih, b_hh}, {input.size(0)}, false);
}

struct LstmCell : Network {
  static constexpr auto signature =
      "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
      "Tensor? b_hh=None)";
  static constexpr auto doc =
      "lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh): one step of long short-term memory, the next "
      "h and c.";
  static std::array<Var, 2> forward(const Var& input, const Vars& hx, const Var& w_ih,
                                    const Var& w_hh, const Var& b_ih, const Var& b_hh) {
    check_pair(hx);
    RnnLayer next = cell_step(RnnCell::Lstm, input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh);
    return {next.out, next.cells};
  }
};
RL_OP(LstmCell)

#define RL_CELL(Type, word, kind, text)                                                       \
  struct Type : Network {                                                                     \
    static constexpr auto signature = word                                                    \
        "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "             \
        "Tensor? b_hh=None)";                                                                 \
    static constexpr auto doc = word "(x, h, w_ih, w_hh, b_ih, b_hh): one step of " text "."; \
    static Var forward(const Var& input, const Var& hx, const Var& w_ih, const Var& w_hh,     \
                       const Var& b_ih, const Var& b_hh) {                                    \
      return cell_step(kind, input, hx, {}, w_ih, w_hh, b_ih, b_hh).out;                      \
    }                                                                                         \
  };                                                                                          \
  RL_OP(Type)
RL_CELL(GruCell, "gru_cell", RnnCell::Gru, "a gated recurrent unit")
RL_CELL(RnnTanhCell, "rnn_tanh_cell", RnnCell::Tanh, "tanh(W x + V h)")
RL_CELL(RnnReluCell, "rnn_relu_cell", RnnCell::Relu, "relu(W x + V h)")

}  // namespace
}  // namespace rl
