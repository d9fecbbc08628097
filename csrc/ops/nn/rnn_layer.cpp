// A layer of a recurrent network: one node for all its steps.
#include "autograd/autocast_devices.h"
#include "call/broadcast.h"
#include "ops/matrix/contraction.h"
#include "ops/nn/rnn.h"

namespace rl {

using kernel::RnnCell;

namespace {

int64_t rows_of(const Ints& sizes) {
  int64_t rows = 0;
  for (int64_t size : sizes) rows += size;
  return rows;
}

char* data_or_null(const Var& x) { return x ? x->data() : nullptr; }
Var dense(const Var& x) { return x ? ops::contiguous(x) : x; }
Var rows_at(const Var& x, int64_t begin, int64_t count) { return ops::narrow(x, 0, begin, count); }

// Visits the steps in the order of the computation: f(step, first row, rows).
template <class F>
void in_order(const Ints& sizes, bool reverse, const F& f) {
  int64_t row = reverse ? rows_of(sizes) : 0;
  for (int k = 0; k < sizes.size(); k++) {
    int t = reverse ? sizes.size() - 1 - k : k;
    if (reverse) row -= sizes[t];
    f(t, row, sizes[t]);
    if (!reverse) row += sizes[t];
  }
}

// The states that a step of `rows` begins with, from those the last one left and the initial ones.
Var carried(const Var& last, const Var& initial, int64_t rows) {
  if (!last) return rows_at(initial, 0, rows);
  int64_t have = last.size(0);
  if (have >= rows) return rows_at(last, 0, rows);
  return ops::cat({last, rows_at(initial, have, rows - have)}, 0);
}

// Results of the steps, in the order of memory.
Var gathered(Vars steps, bool reverse) {
  if (reverse) steps = Vars(steps.rbegin(), steps.rend());
  return ops::cat(steps, 0);
}

struct Recurrence : General {
  static constexpr auto signature =
      "_recurrence(Tensor input, Tensor hx, Tensor? cx, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, "
      "int cell, int[] sizes, bool reverse)";
  static constexpr auto grad_name = "RecurrenceBackward0";
  static constexpr auto saves = "input hx cx w_hh b_ih b_hh out out1 out2";
  static constexpr bool spares = true;
  static constexpr bool whole_history = true;

  static kernel::RnnSteps steps(const Ints& sizes, int64_t hidden, bool reverse) {
    int64_t batch = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    return {sizes.data(), sizes.size(), batch, hidden, reverse};
  }

  // The states after every row, those of an LSTM's cells, and what the backward keeps.
  static std::array<Var, 3> forward(const Var& input, const Var& hx, const Var& cx, const Var& w_hh,
                                    const Var& b_ih, const Var& b_hh, int64_t kind,
                                    const Ints& sizes, bool reverse) {
    RnnCell cell = RnnCell(kind);
    DType d = input.dtype();
    int64_t rows = input.size(0), n = w_hh.size(1);
    Var x = dense(input), h = dense(hx), c = dense(cx), w = dense(w_hh), bi = dense(b_ih),
        bh = dense(b_hh);
    Var out = empty({rows, n}, d, input.device()),
        kept = empty({rows, rnn_kept(cell) * n}, d, input.device());
    Var cells =
        cell == RnnCell::Lstm ? empty({rows, n}, d, input.device()) : empty({0}, d, input.device());
    {
      Launch launch(double(rows) * double(w.numel()),
                    {x.get(), h.get(), c.get(), w.get(), bi.get(), bh.get(), out.get()});
      on(x).rnn_forward(d, cell, steps(sizes, n, reverse), x->data(), w->data(), data_or_null(bi),
                        data_or_null(bh), h->data(), data_or_null(c), out->data(),
                        cell == RnnCell::Lstm ? cells->data() : nullptr, kept->data());
    }
    return {out, cells, kept};
  }

  static void vjp(Back& b, const In& input, const In& hx, const In& cx, const In& w_hh,
                  const In& b_ih, const In& b_hh, int64_t kind, const Ints& sizes, bool reverse) {
    RnnCell cell = RnnCell(kind);
    Var c0, bi, bh;
    if (cx) c0 = *cx;
    if (b_ih) bi = *b_ih;
    if (b_hh) bh = *b_hh;
    if (b.create_graph()) return rule(b, cell, *input, *hx, c0, *w_hh, bi, bh, sizes, reverse);
    DType d = input.dtype();
    int64_t rows = input.size(0), gates = input.size(1), n = w_hh.size(1);
    Var g = dense(b.g_or_zeros(0)), g_cells = cell == RnnCell::Lstm ? dense(b.g(1)) : Var();
    Var h = dense(*hx), w = dense(*w_hh), out = b.out(0), cells = b.out(1), kept = b.out(2);
    c0 = dense(c0);
    Var gx = empty({rows, gates}, d, input.device()),
        gh = cell == RnnCell::Gru ? empty({rows, gates}, d, input.device()) : Var();
    Var previous = empty({rows, n}, d, input.device()), g_hx = empty(h.sizes(), d, input.device()),
        g_cx;
    if (c0) g_cx = empty(c0.sizes(), d, input.device());
    {
      Launch launch(
          double(rows) * double(w.numel()) * 2,
          {g.get(), g_cells.get(), w.get(), h.get(), c0.get(), out.get(), cells.get(), kept.get()});
      on(g).rnn_backward(d, cell, steps(sizes, n, reverse), g->data(), data_or_null(g_cells),
                         w->data(), h->data(), data_or_null(c0), out->data(),
                         cell == RnnCell::Lstm ? cells->data() : nullptr, kept->data(), gx->data(),
                         data_or_null(gh), previous->data(), g_hx->data(), data_or_null(g_cx));
    }
    const Var& own = gh ? gh : gx;
    b[0] = gx;
    b[1] = g_hx;
    b[2] = g_cx;
    if (b.wants(3)) b[3] = product({own.get(), true}, {previous.get()});
    if (b.wants(4)) b[4] = ops::sum(gx, {0}, false);
    if (b.wants(5)) b[5] = ops::sum(own, {0}, false);
  }

  // All steps again by differentiable ops.
  static std::vector<RnnStep> unrolled(RnnCell cell, const Var& x, const Var& hx, const Var& cx,
                                       const Var& w, const Var& bi, const Var& bh,
                                       const Ints& sizes, bool reverse) {
    std::vector<RnnStep> all;
    Var h, c;
    in_order(sizes, reverse, [&](int, int64_t row, int64_t rows) {
      Var own = rows_at(x, row, rows);
      all.emplace_back(cell, bi ? own + bi : own, carried(h, hx, rows),
                       cx ? carried(c, cx, rows) : Var(), w, bh);
      h = all.back().h();
      c = all.back().c();
    });
    return all;
  }

  // A gradient of states, for those that the step before left and for initial ones.
  struct Handed {
    Var gradient;  // of the states that a step began with
    Vars initial;  // pieces of the gradient of the initial states, last rows first
    Var over(int64_t rows, DType d) {
      if (!gradient) return {};
      int64_t have = gradient.size(0);
      if (have == rows) return gradient;
      if (have < rows)
        return ops::cat(
            {gradient, ops::zeros({rows - have, gradient.size(1)}, d, gradient.device())}, 0);
      initial.push_back(rows_at(gradient, rows, have - rows));
      return rows_at(gradient, 0, rows);
    }
    Var all(const Ints& sizes, DType d) {
      Vars pieces{gradient};
      pieces.insert(pieces.end(), initial.rbegin(), initial.rend());
      Var joined = pieces.size() == 1 ? gradient : ops::cat(pieces, 0);
      int64_t missing = sizes[0] - joined.size(0);
      return missing ? ops::cat({joined, ops::zeros({missing, sizes[1]}, d, joined.device())}, 0)
                     : joined;
    }
  };

  static void rule(Back& b, RnnCell cell, const Var& x, const Var& hx, const Var& cx, const Var& w,
                   const Var& bi, const Var& bh, const Ints& sizes, bool reverse) {
    DType d = x.dtype();
    std::vector<RnnStep> all = unrolled(cell, x, hx, cx, w, bi, bh, sizes, reverse);
    Var g = b.g_or_zeros(0), g_cells = cx ? b.g(1) : Var(), g_w;
    Handed dh, dc;
    Vars gx, gp;
    int k = int(all.size());
    // Backwards through the steps is the order of the other direction.
    in_order(sizes, !reverse, [&](int, int64_t row, int64_t rows) {
      const RnnStep& step = all[size_t(--k)];
      Var h = dh.over(rows, d), c = dc.over(rows, d), own = rows_at(g, row, rows);
      if (g_cells) c = c ? c + rows_at(g_cells, row, rows) : rows_at(g_cells, row, rows);
      RnnStep::Pulled pulled = step.pull(h ? own + h : own, c);
      gx.push_back(pulled.x);
      gp.push_back(pulled.p);
      Var through = ops::mm(pulled.p, w);
      dh.gradient = pulled.h ? through + pulled.h : through;
      dc.gradient = pulled.c;
      if (!b.wants(3)) return;
      Var term = ops::mm(ops::transpose(pulled.p, 0, 1), step.before());
      g_w = g_w ? g_w + term : term;
    });
    Var products = gathered(gx, !reverse), states = gathered(gp, !reverse);
    if (b.wants(0)) b[0] = products;
    if (b.wants(1)) b[1] = dh.all(hx.sizes(), d);
    if (cx && b.wants(2)) b[2] = dc.all(cx.sizes(), d);
    b[3] = g_w;
    if (bi && b.wants(4)) b[4] = ops::sum(products, {0}, false);
    if (bh && b.wants(5)) b[5] = ops::sum(states, {0}, false);
  }

  static void jvp(Push& p, const Var& x, const Var& hx, const Var& cx, const Var& w, const Var& bi,
                  const Var& bh, int64_t kind, const Ints& sizes, bool reverse) {
    auto tangent = [&](int i, const Var& of) { return p.t(i) || !of ? p.t(i) : no_tangent(of); };
    std::vector<RnnStep> all = unrolled(RnnCell(kind), x, hx, cx, w, bi, bh, sizes, reverse);
    Var tx = tangent(0, x), th0 = tangent(1, hx), tc0 = tangent(2, cx), tw = p.t(3), th, tc;
    Vars hs, cs;
    in_order(sizes, reverse, [&](int, int64_t row, int64_t rows) {
      const RnnStep& step = all[hs.size()];
      Var own = rows_at(tx, row, rows), before = carried(th, th0, rows);
      if (p.t(4)) own = own + p.t(4);
      Var product = ops::mm(before, ops::transpose(w, 0, 1));
      if (tw) product = product + ops::mm(step.before(), ops::transpose(tw, 0, 1));
      if (p.t(5)) product = product + p.t(5);
      auto moved = step.push(own, product, before, cx ? carried(tc, tc0, rows) : Var());
      hs.push_back(th = moved.h);
      cs.push_back(tc = moved.c);
    });
    p[0] = gathered(hs, reverse);
    if (cx) p[1] = gathered(cs, reverse);
  }
};

}  // namespace

RnnLayer rnn_layer(RnnCell cell, const Var& input, const Var& hx, const Var& cx,
                   const RnnWeights& weights, const Ints& sizes, bool reverse) {
  int64_t gates = rnn_gates(cell);
  check(weights.w_hh.dim() == 2 && weights.w_hh.size(0) == gates * weights.w_hh.size(1),
        "recurrent layer: expected hidden weights of shape [", gates, " * hidden, hidden], got ",
        weights.w_hh.sizes());
  check(weights.w_ih.dim() == 2 && weights.w_ih.size(1) == input.size(-1) &&
            weights.w_ih.size(0) == weights.w_hh.size(0),
        "input has inconsistent input_size: got ", input.size(-1), " expected ",
        weights.w_ih.size(-1), " (weights of shape ", weights.w_ih.sizes(), " and ",
        weights.w_hh.sizes(), ")");
  for (const Var& v : {weights.b_ih, weights.b_hh})
    check(!v || (v.dim() == 1 && v.numel() == weights.w_hh.size(0)),
          "recurrent layer: expected a bias of shape [", weights.w_hh.size(0), "], got ",
          v ? v.sizes() : Ints());
  check(is_floating(input.dtype()), "recurrent layers need floating point, got ",
        name(input.dtype()));
  // In a mixed precision region a gated state keeps its precision.
  bool mixed = autocasts_on(input.device()) && input.dtype() != DType::F64;
  DType given = mixed ? autocast_dtype_on(input.device()) : input.dtype();
  if (mixed && gates > 1) given = promote(given, (cx ? cx : hx).dtype());
  for (const Var& v : {hx, cx, weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh})
    check(!v || v.dtype() == input.dtype() || (mixed && is_castable(v)),
          "expected m1 and m2 to have the same dtype, but got: ", name(input.dtype()),
          " != ", v ? name(v.dtype()) : "", " (recurrent layer)");
  WithoutAutocast off;
  DType d = compute_type(given);
  auto wide = [&](const Var& v) { return v ? ops::to(v, d) : v; };
  Var products = ops::mm(wide(input), ops::transpose(wide(weights.w_ih), 0, 1));
  auto [out, cells, kept] =
      call<Recurrence>(products, wide(hx), wide(cx), wide(weights.w_hh), wide(weights.b_ih),
                       wide(weights.b_hh), int64_t(cell), sizes, reverse);
  return {ops::to(out, given), cell == RnnCell::Lstm ? ops::to(cells, given) : Var()};
}

}  // namespace rl
