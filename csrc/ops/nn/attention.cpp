// Attention.
#include "kernels/kernels.h"

#include <cmath>
#include <limits>

#include "call/broadcast.h"
#include "call/op.h"
#include "ops/random/random.h"

namespace rl {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Var turned(const Var& x) { return ops::transpose(x, -2, -1); }

// [batch, heads, ...] with every head repeated for the queries that share it, and back.
Var repeated(const Var& x, int64_t heads) {
  int64_t own = x.size(1), group = heads / own;
  if (group == 1) return x;
  Ints sizes{x.size(0), own, group, x.size(2), x.size(3)};
  return ops::reshape(ops::expand(ops::unsqueeze(x, 2), sizes),
                      {x.size(0), heads, x.size(2), x.size(3)});
}
Var summed(const Var& g, int64_t own) {
  int64_t group = g.size(1) / own;
  if (group == 1) return g;
  return ops::sum(ops::reshape(g, {g.size(0), own, group, g.size(2), g.size(3)}), {2}, false);
}

// softmax(scale * q k^T + mask) over the keys, recorded; zero where a query sees none.
Var probabilities(const Var& q, const Var& k, const Var& mask, bool causal, double scale) {
  Var scores = ops::matmul(q * Var(scale), turned(k));
  if (causal)
    scores = scores +
             ops::triu(ops::full({q.size(-2), k.size(-2)}, -kInfinity, q.dtype(), q.device()), 1);
  if (!mask) return ops::softmax(scores, -1);
  scores = scores + mask;
  Var blind;
  {
    GradMode off(false);
    blind = ops::sum(scores != Var(-kInfinity), {-1}, true) == Var(0);
  }
  return math::where(blind, Var(0), ops::softmax(math::where(blind, Var(0), scores), -1));
}

// Four dimensions [batch, heads, rows, columns] as the kernel reads them.
Var laid(const Var& x, DType dtype) {
  Var y = ops::to(x, dtype);
  return y->strides[3] == 1 || y.size(3) == 1 ? y : ops::contiguous(y);
}
kernel::Heads heads(const Var& x) {
  return {x->data(), x->strides[0], x->strides[1], x->strides[2]};
}

// Memory in the order of another tensor's: heads within rows, or rows within heads.
Var empty_as(const Var& like, int64_t columns, DType dtype) {
  Ints sizes = like.sizes();
  sizes[3] = columns;
  if (like->strides[1] >= like->strides[2]) return empty(sizes, dtype, like.device());
  Ints strides{sizes[1] * sizes[2] * columns, columns, sizes[1] * columns, 1};
  return empty_strided(sizes, strides, dtype, like.device());
}

struct Attention : General {
  static constexpr auto signature =
      "_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
      "float scale)";
  static constexpr auto grad_name = "ScaledDotProductFlashAttentionForCpuBackward0";
  static constexpr auto saves = "query key value attn_mask out out1";
  static constexpr bool spares = true;

  struct Call {
    DType dtype;  // that of the kernel: CUDA's take halves as they are
    kernel::AttentionShape s;
    Var q, k, v, mask;
    Call(const Var& query, const Var& key, const Var& value, const Var& attn_mask, bool causal,
         double scale)
        : dtype(query.device().type == Device::CUDA ? query.dtype() : compute_type(query.dtype())),
          s{query.size(0), query.size(1), key.size(1), query.size(2), key.size(2),
            query.size(3), value.size(3), scale,       causal},
          q(laid(query, dtype)),
          k(laid(key, dtype)),
          v(laid(value, dtype)) {
      if (attn_mask) mask = ops::to(attn_mask, dtype);
    }
    kernel::ScoreMask score_mask() const {
      if (!mask) return {};
      Ints at = broadcast_strides(mask.get(), {s.batch, s.heads, s.queries, s.keys});
      return {mask->data(), at[0], at[1], at[2], at[3]};
    }
    double work() const {
      return double(s.batch) * double(s.heads) * double(s.queries) * double(s.keys) *
             double(s.width + s.value_width);
    }
  };

  // The result, and the logarithm of each query's sum of exponentials.
  static std::array<Var, 2> forward(const Var& query, const Var& key, const Var& value,
                                    const Var& attn_mask, bool causal, double scale) {
    Call c(query, key, value, attn_mask, causal, scale);
    Var y = empty_as(c.q, c.s.value_width, c.dtype);
    Var lse = empty({c.s.batch, c.s.heads, c.s.queries}, compute_type(c.dtype), query.device());
    {
      Launch launch(c.work(), {c.q.get(), c.k.get(), c.v.get(), c.mask.get(), y.get(), lse.get()});
      on(lse).attention(c.dtype, c.s, heads(c.q), heads(c.k), heads(c.v), c.score_mask(), heads(y),
                        lse->data());
    }
    return {ops::to(y, query.dtype()), lse};
  }

  static void vjp(Back& b, const In& query, const In& key, const In& value, const In& attn_mask,
                  bool causal, double scale) {
    Var mask;
    if (attn_mask) mask = *attn_mask;
    if (b.create_graph()) return rule(b, *query, *key, *value, mask, causal, scale);
    Call c(*query, *key, *value, mask, causal, scale);
    Var g = laid(b.g(), c.dtype), y = laid(b.out(), c.dtype), lse = b.out(1);
    Var gq = empty_as(c.q, c.s.width, c.dtype), gk = empty_as(c.k, c.s.width, c.dtype),
        gv = empty_as(c.v, c.s.value_width, c.dtype);
    Launch launch(c.work() * 3, {c.q.get(), c.k.get(), c.v.get(), c.mask.get(), g.get(), y.get(),
                                 lse.get(), gq.get()});
    on(lse).attention_backward(c.dtype, c.s, heads(g), heads(c.q), heads(c.k), heads(c.v),
                               c.score_mask(), heads(y), lse->data(), heads(gq), heads(gk),
                               heads(gv));
    b[0] = gq;
    b[1] = gk;
    b[2] = gv;
  }

  static void rule(Back& b, const Var& q, const Var& key, const Var& value, const Var& mask,
                   bool causal, double scale) {
    const Var& g = b.g();
    Var k = repeated(key, q.size(1)), v = repeated(value, q.size(1));
    Var p = probabilities(q, k, mask, causal, scale);
    if (b.wants(2)) b[2] = summed(ops::matmul(turned(p), g), value.size(1));
    if (!b.wants(0) && !b.wants(1)) return;
    Var moved = ops::matmul(g, turned(v)) * p;
    Var scores = (moved - p * ops::sum(moved, {-1}, true)) * Var(scale);
    if (b.wants(0)) b[0] = ops::matmul(scores, k);
    if (b.wants(1)) b[1] = summed(ops::matmul(turned(scores), q), key.size(1));
  }

  static void jvp(Push& p, const Var& q, const Var& key, const Var& value, const Var& mask,
                  bool causal, double scale) {
    Var k = repeated(key, q.size(1)), v = repeated(value, q.size(1));
    Var weights = probabilities(q, k, mask, causal, scale), scores;
    if (p.t(0)) scores = ops::matmul(p.t(0), turned(k));
    if (p.t(1)) {
      Var term = ops::matmul(q, turned(repeated(p.t(1), q.size(1))));
      scores = scores ? scores + term : term;
    }
    if (scores) {
      Var moved = weights * scores * Var(scale);
      p.add(ops::matmul(moved - weights * ops::sum(moved, {-1}, true), v));
    }
    if (p.t(2)) p.add(ops::matmul(weights, repeated(p.t(2), q.size(1))));
  }
};

Ints leading(const Ints& sizes) {
  Ints lead;
  for (int i = 0; i + 2 < sizes.size(); i++) lead.push_back(sizes[i]);
  return lead;
}
Ints with_matrix(Ints lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

struct ScaledDotProductAttention : Composite {
  static constexpr auto signature =
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
      "Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, "
      "bool enable_gqa=False)";
  static constexpr Autocast autocast = Autocast::Lower;
  static constexpr auto doc =
      "scaled_dot_product_attention(q, k, v): softmax(scale * q @ k.T + mask) @ v over the last "
      "two dimensions; scale is 1 / sqrt(q.shape[-1]) unless given.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Attention;
  static constexpr bool out = false;

  static Var forward(const Var& query, const Var& key, const Var& value, const Var& attn_mask,
                     double dropout_p, bool is_causal, std::optional<double> given, bool gqa) {
    check_arguments(query, key, value, attn_mask, dropout_p);
    if (gqa) check_groups(query, key, value);
    double scale = given ? *given : 1 / std::sqrt(double(query.size(-1)));
    Var mask = attn_mask;
    if (mask && mask.dtype() == DType::Bool)
      mask = math::where(mask, Var(0), ops::full({}, -kInfinity, query.dtype(), query.device()));
    bool shared = gqa && key.size(-3) != query.size(-3);
    if (dropout_p > 0 || (mask && is_tracked(mask.get())) || key.numel() == 0 ||
        value.numel() == 0 || query.numel() == 0)
      return by_parts(query, key, value, mask, dropout_p, is_causal, scale, shared);
    Ints lead = leading(query.sizes()), own = leading(key.sizes());
    if (!shared) lead = own = broadcast(broadcast(lead, own), leading(value.sizes()));
    if (mask)
      check(can_expand(mask.sizes(), with_matrix(lead, query.size(-2), key.size(-2))),
            "scaled_dot_product_attention: the attn_mask of shape ", mask.sizes(),
            " can't be expanded to that of the scores, ",
            with_matrix(lead, query.size(-2), key.size(-2)),
            ": The size of tensor a must match the size of tensor b at non-singleton dimensions");
    bool plain = lead.size() == 2 && query.dim() == 4 && leading(query.sizes()) == lead &&
                 leading(key.sizes()) == own && leading(value.sizes()) == own;
    if (plain) return call<Attention>(query, key, value, mask, is_causal, scale)[0];
    Var y =
        call<Attention>(in_four(query, lead), in_four(key, own), in_four(value, own),
                        mask && mask.dim() > 2 ? in_four(mask, lead) : mask, is_causal, scale)[0];
    return ops::reshape(y, with_matrix(lead, query.size(-2), value.size(-1)));
  }

  // The matrices of every position of `lead`, which becomes two dimensions.
  static Var in_four(const Var& x, const Ints& lead) {
    int64_t rows = x.size(-2), columns = x.size(-1), batch = 1, n = lead.size();
    for (int i = 0; i + 1 < n; i++) batch *= lead[i];
    Var wide = ops::expand(x, with_matrix(lead, rows, columns));
    return ops::reshape(wide, {batch, n ? lead[int(n) - 1] : 1, rows, columns});
  }

  // Step by step, for dropout of the probabilities, a derivative by the mask, or no elements.
  static Var by_parts(const Var& query, Var key, Var value, const Var& mask, double dropout_p,
                      bool causal, double scale, bool shared) {
    if (shared) {
      Ints lead = leading(query.sizes());
      key = ops::reshape(repeated(in_four(key, leading(key.sizes())), query.size(-3)),
                         with_matrix(lead, key.size(-2), key.size(-1)));
      value = ops::reshape(repeated(in_four(value, leading(value.sizes())), query.size(-3)),
                           with_matrix(lead, value.size(-2), value.size(-1)));
    }
    Var p = probabilities(query, key, mask ? ops::to(mask, query.dtype()) : mask, causal, scale);
    if (dropout_p > 0) {
      Var kept = empty(p.sizes(), DType::Bool, query.device());
      fill_bernoulli(kept.get(), 1 - dropout_p, generator_value(Py_None));
      p = p * ops::to(kept, p.dtype()) * Var(dropout_p == 1 ? 0 : 1 / (1 - dropout_p));
    }
    return ops::matmul(p, value);
  }

  static void check_arguments(const Var& q, const Var& k, const Var& v, const Var& mask, double p) {
    check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
          "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: ",
          q.dim(), " key.dim: ", k.dim(), " and value.dim: ", v.dim(), " instead.");
    check(q.dtype() == k.dtype() && q.dtype() == v.dtype(),
          "Expected query, key, and value to have the same dtype, but got query.dtype: ",
          name(q.dtype()), " key.dtype: ", name(k.dtype()), " and value.dtype: ", name(v.dtype()),
          " instead.");
    check(is_floating(q.dtype()), "expected scalar type Float but found ",
          info(q.dtype()).tensor_name, " (scaled_dot_product_attention: query)");
    check(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
    check(q.size(-1) == k.size(-1),
          "scaled_dot_product_attention: query and key must have the same last dimension, got "
          "query of shape ",
          q.sizes(), " and key of shape ", k.sizes());
    check(k.size(-2) == v.size(-2),
          "scaled_dot_product_attention: key and value must have the same number of rows, got key "
          "of shape ",
          k.sizes(), " and value of shape ", v.sizes());
    if (!mask) return;
    DType m = mask.dtype();
    check(m == DType::Bool || m == q.dtype() ||
              (m == DType::F32 && compute_type(q.dtype()) == DType::F32),
          "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
          "attn_mask.dtype: ",
          name(m), " and  query.dtype: ", name(q.dtype()), " instead.");
  }

  static void check_groups(const Var& q, const Var& k, const Var& v) {
    check(
        q.dim() >= 3 && k.dim() == q.dim() && v.dim() == q.dim(),
        "scaled_dot_product_attention: enable_gqa needs a dimension of heads, got query of shape ",
        q.sizes(), ", key of shape ", k.sizes(), " and value of shape ", v.sizes());
    int64_t heads = q.size(-3), own = k.size(-3);
    check(own == v.size(-3) && own > 0 && heads % own == 0,
          "Number of heads in key and value must divide the number of heads in query, got ", own,
          " in key, ", v.size(-3), " in value and ", heads, " in query");
    for (int i = 0; i < q.dim() - 3; i++)
      check(q.size(i) == k.size(i) && q.size(i) == v.size(i),
            "scaled_dot_product_attention: with enable_gqa the batch dimensions must be the same, "
            "got query of shape ",
            q.sizes(), ", key of shape ", k.sizes(), " and value of shape ", v.sizes());
  }
};
RL_OP(ScaledDotProductAttention)

}  // namespace
}  // namespace rl
