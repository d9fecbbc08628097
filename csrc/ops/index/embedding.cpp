// Rows of a table by number, and numbers as rows.
#include "kernels/kernels.h"

#include <cmath>

#include "autograd/structured.h"
#include "call/broadcast.h"
#include "call/op.h"

namespace rl {

namespace {

// Row-major int64 ids.
Var dense_ids(const Var& ids) { return ops::contiguous(ops::to(ids, DType::I64)); }

void check_ids(const Var& ids, int64_t rows) {
  kernel::Outside bad = on(ids).find_outside(ids->data<int64_t>(), ids.numel(), rows);
  if (!bad) return;
  int64_t at = bad.at;
  Ints position(ids.dim());
  for (int i = ids.dim() - 1; i >= 0; i--) {
    position[i] = at % ids.size(i);
    at /= ids.size(i);
  }
  fail_as(PyExc_IndexError, "index out of range in self: embedding: id ", bad.value,
          " at position ", position, " is outside the table's ", rows, " rows (0 to ", rows - 1,
          ")");
}

// 1 / (how often the id occurs), for each id; of the table's dtype.
Var inverse_counts(const Var& ids, int64_t rows, DType dtype) {
  Var scale = empty(ids.sizes(), DType::F64, ids.device());
  on(ids).inverse_counts(ids->data<int64_t>(), ids.numel(), rows, scale->data<double>());
  return ops::to(scale, dtype);
}

Var rows_by_id(const Var& table, const Var& ids) {
  Var dense = ops::contiguous(table);
  Ints sizes = ids.sizes();
  sizes.push_back(table.size(1));
  Var out = empty(sizes, table.dtype(), table.device());
  if (out.numel() == 0) return out;
  Launch launch(double(out.numel()), {dense.get(), ids.get(), out.get()});
  on(dense).index_select(itemsize(table.dtype()), dense->data(), ids->data<int64_t>(), out->data(),
                         1, table.size(0), table.size(1), ids.numel());
  return out;
}

// Ids of all samples in a table that has a part for each of them.
Var ids_in_parts(const HiddenDims& hidden, const Var& ids, int64_t rows) {
  Var id = dense_ids(hidden.front(ids));
  check_ids(id, rows);
  int64_t samples = hidden.samples();
  if (id.numel() == 0) return id;
  Var first = ops::counting(samples, id.device()) * ops::to(Var(double(rows)), DType::I64);
  Var each = ops::reshape(id, {samples, id.numel() / samples});
  return ops::reshape(each + ops::unsqueeze(first, 1), id.sizes());
}

// The gradient of the table: a sum over the places of each id, the padding's left out.
struct EmbeddingBackward : Linear {
  static constexpr auto signature =
      "_embedding_backward(Tensor g, Tensor ids, int rows, int padding_idx, "
      "bool scale_grad_by_freq)";
  static constexpr auto grad_name = "EmbeddingDenseBackwardBackward0";
  static constexpr auto doc =
      "_embedding_backward(g, ids, rows, padding, scale): the rows of g added up by id.";
  static constexpr auto saves = "ids";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& g, const Var& ids, int64_t rows, int64_t padding, bool by_freq) {
    Var id = dense_ids(ids), src = ops::contiguous(g);
    check(rows >= 0 && g.dim() > 0 && g.numel() == id.numel() * g.size(-1),
          "_embedding_backward: a gradient of shape ", g.sizes(), " for ids of shape ",
          ids.sizes());
    check_ids(id, rows);
    Var table = ops::zeros({rows, g.size(-1)}, g.dtype(), g.device());
    if (g.numel() == 0) return table;
    if (by_freq) src = src * ops::unsqueeze(inverse_counts(id, rows, g.dtype()), -1);
    {
      Launch launch(double(src.numel()), {src.get(), id.get(), table.get()});
      on(table).index_add(g.dtype(), table->data(), id->data<int64_t>(), src->data(), 1, rows,
                          g.size(-1), id.numel(), 1);
    }
    if (padding >= 0 && padding < rows) {
      int64_t bytes = g.size(-1) * itemsize(g.dtype());
      on(table).clear(table->data() + padding * bytes, size_t(bytes));
    }
    return table;
  }
  static Var batched(const HiddenDims& hidden, const Var& g, const Var& ids, int64_t rows,
                     int64_t padding, bool by_freq) {
    Var src = hidden.front(g), id = ids_in_parts(hidden, ids, rows);
    Var tables = forward(src, id, hidden.samples() * rows, -1, by_freq);
    tables = ops::reshape(tables, hidden.prefixed({rows, g.size(-1)}));
    if (padding >= 0 && padding < rows) ops::fill_data(ops::select(tables, -2, padding).get(), 0);
    return tables;
  }
  static void vjp(Back& b, const In&, const In& ids, int64_t rows, int64_t padding, bool by_freq);
};
RL_OP(EmbeddingBackward)

// Rows of the table; padding_idx and scale_grad_by_freq concern its gradient only.
struct EmbeddingOf : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "embedding(Tensor weight, Tensor indices, int padding_idx=-1, "
      "bool scale_grad_by_freq=False, bool sparse=False)";
  static constexpr auto doc = "embedding(table, ids): the rows of the table with these numbers.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "indices";
  static constexpr bool method = false;
  static Var forward(const Var& weight, const Var& indices, int64_t, bool, bool) {
    check(weight.dim() == 2, "'weight' must be 2-D, but embedding got a weight of shape ",
          weight.sizes());
    check(indices.dtype() == DType::I64 || indices.dtype() == DType::I32,
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
          "Long, Int; but got torch.",
          info(indices.dtype()).tensor_name,
          "Tensor instead (while checking arguments for embedding)");
    Var ids = dense_ids(indices);
    check_ids(ids, weight.size(0));
    return rows_by_id(weight, ids);
  }
  // The samples' tables become one, and each looks up its part.
  static Var batched(const HiddenDims& hidden, const Var& weight, const Var& indices,
                     int64_t padding, bool by_freq, bool sparse) {
    if (!batch_of(weight.get()))
      return forward(weight, hidden.front(indices), padding, by_freq, sparse);
    int64_t rows = weight.size(0);
    Var tables = ops::reshape(hidden.front(weight), {hidden.samples() * rows, weight.size(1)});
    return forward(tables, ids_in_parts(hidden, indices, rows), padding, by_freq, sparse);
  }
  static void vjp(Back& b, const In& weight, const In& indices, int64_t padding, bool by_freq,
                  bool sparse) {
    if (!b.wants(0)) return;
    check(!sparse || !by_freq,
          "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    if (sparse && !batch_of(b.g().get()) && weight.device() == kHost)
      b[0] = structured::rows(b.g(), *indices, weight.size(0), padding);
    else b[0] = call<EmbeddingBackward>(b.g(), *indices, weight.size(0), padding, by_freq);
  }
};
RL_OP(EmbeddingOf)

void EmbeddingBackward::vjp(Back& b, const In&, const In& ids, int64_t rows, int64_t padding,
                            bool by_freq) {
  if (!b.wants(0)) return;
  Var id = *ids, factor;
  {
    GradMode off(false);
    Var dense = dense_ids(id);
    check_ids(dense, rows);  // what was saved may have been overwritten since
    if (by_freq) factor = inverse_counts(dense, rows, b.g().dtype());
    if (padding >= 0) {
      Var kept = ops::to(dense != Var(double(padding)), b.g().dtype());
      factor = factor ? factor * kept : kept;
    }
  }
  Var picked = call<EmbeddingOf>(b.g(), id, int64_t(-1), false, false);
  b[0] = factor ? picked * ops::unsqueeze(factor, -1) : picked;
}

// Scales the rows that the ids name and that are longer than max_norm.
void shorten(const Var& weight, const Var& ids, double max_norm, double norm_type) {
  Var dense = dense_ids(ids);
  check_ids(dense, weight.size(0));
  Var table = ops::to(ops::contiguous(weight), DType::F64);
  if (table.get() == weight.get()) table = ops::clone(weight);
  on(table).shorten_rows(table->data<double>(), weight.size(0), weight.size(1),
                         dense->data<int64_t>(), dense.numel(), max_norm, norm_type);
  ops::copy_data(weight.get(), table.get());
}

void renormalize(const Var& weight, const Var& ids, double max_norm, double norm_type) {
  check(!levels_of(weight.get()),
        "embedding: max_norm writes to the weight, which has a tangent; forward AD does not "
        "follow that");
  SameDevice same("embedding");
  same.need(weight.get());
  same.need(ids.get());
  Plain plain;
  check(is_floating(weight.dtype()), "embedding: max_norm needs a floating weight, got ",
        info(weight.dtype()).tensor_name);
  check_writable(weight.get());
  HiddenDims hidden;
  hidden.add(weight);
  hidden.add(ids);
  if (!hidden) check_ids(dense_ids(ids), weight.size(0));
  prepare_write(weight.get(), "embedding_renorm_");
  for (int64_t n = 0; n < hidden.samples(); n++)
    shorten(hidden.sample(weight, n), hidden.sample(ids, n), max_norm, norm_type);
}

struct EmbeddingFunctional : Composite {
  static constexpr auto signature =
      "embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, "
      "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False)";
  static constexpr auto doc = "embedding(ids, table): the rows of the table with these numbers.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Indexing;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& weight, std::optional<int64_t> padding_idx,
                     std::optional<double> max_norm, double norm_type, bool by_freq, bool sparse) {
    int64_t padding = -1;
    check(weight.dim() == 2, "'weight' must be 2-D, but embedding got a weight of shape ",
          weight.sizes());
    if (padding_idx) {
      int64_t rows = weight.size(0);
      if (*padding_idx >= rows || *padding_idx < -rows)
        fail_as(PyExc_AssertionError, "Padding_idx must be within num_embeddings, got ",
                *padding_idx, " for ", rows, " rows");
      padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    }
    if (max_norm) {
      check(is_integral(input.dtype()), "embedding: ids must be integers, got ",
            info(input.dtype()).tensor_name);
      renormalize(weight, input, *max_norm, norm_type);
    }
    return call<EmbeddingOf>(weight, input, padding, by_freq, sparse);
  }
};
RL_OP(EmbeddingFunctional)

struct OneHot : NonDifferentiable {
  static constexpr auto signature = "one_hot(Tensor tensor, int num_classes=-1)";
  static constexpr auto doc = "one_hot(ids, n): for each id, n zeros with a 1 at the id.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Indexing;
  static constexpr bool out = false;
  static Var forward(const Var& tensor, int64_t classes) {
    check(tensor.dtype() == DType::I64,
          "one_hot is only applicable to index tensor of type LongTensor, got ",
          info(tensor.dtype()).tensor_name, ": use ids.long()");
    Var ids = ops::contiguous(tensor);
    int64_t n = ids.numel();
    check(n > 0 || classes > 0, "Can not infer total number of classes from empty tensor.");
    if (n > 0 && (has_data(ids.get()) || classes == -1)) {
      auto [low, high] = on(ids).range(ids->data<int64_t>(), n);
      check(low >= 0, "Class values must be non-negative, got ", low);
      check(high < INT64_MAX, "Class values must be smaller than num_classes, got ", high);
      if (classes == -1) classes = high + 1;
      check(high < classes, "Class values must be smaller than num_classes, got ", high, " for ",
            classes, " classes");
    }
    Ints sizes = ids.sizes();
    sizes.push_back(classes);
    Var out = ops::zeros(sizes, DType::I64, tensor.device());
    if (n == 0) return out;
    Var at = ops::unsqueeze(ids, -1);
    return ops::scatter(out, -1, at, ops::full(at.sizes(), 1, DType::I64, at.device()));
  }
};
RL_OP(OneHot)

}  // namespace
}  // namespace rl
