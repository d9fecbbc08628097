// Products with a sparse matrix, given by the places and values of its entries. Two ops that are
// linear in each argument and each other's adjoints. See docs/design/sparse.md.
#include "call/op.h"
#include "kernels/cpu/sparse.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

struct Entries {
  Var rows, columns;  // int64 without gaps, one for each entry
  std::vector<int64_t> expanded;
  const int64_t* row = nullptr;
  const int64_t* column = nullptr;
  int64_t count = 0;
};

Var plain_index(const Var& index) { return ops::contiguous(ops::to(index, DType::I64)); }

Var here(const Var& v) { return ops::to(v, v.dtype(), kHost); }

[[noreturn]] void fail_outside(const char* what, int64_t size) {
  fail_as(PyExc_IndexError, "sparse product: ", what, " of an entry is out of range for size ",
          size, "; make the tensor with check_invariants=True to see which");
}

// Where the lines begin must ascend from 0 to the number of entries.
void check_begins(const int64_t* begin, int64_t lines, int64_t entries) {
  bool right = begin[0] == 0 && begin[lines] == entries;
  for (int64_t i = 0; right && i < lines; i++) right = begin[i] <= begin[i + 1];
  if (!right)
    fail_as(PyExc_IndexError, "sparse product: the compressed indices do not ascend from 0 to ",
            entries, ", the number of entries");
}

Entries entries_of(const Var& rows, const Var& columns, bool compressed) {
  Entries e;
  e.rows = plain_index(rows);
  e.columns = plain_index(columns);
  check(e.rows.dim() == 1 && e.columns.dim() == 1, "sparse product: indices of shapes ",
        rows.sizes(), " and ", columns.sizes());
  e.count = e.columns.numel();
  e.row = e.rows->host<int64_t>();
  e.column = e.columns->host<int64_t>();
  if (!compressed) {
    check(e.rows.numel() == e.count, "sparse product: ", e.rows.numel(), " rows for ", e.count,
          " columns");
    return e;
  }
  check(e.rows.numel() > 0, "sparse product: no compressed indices");
  check_begins(e.row, e.rows.numel() - 1, e.count);
  return e;
}

// The row of every entry, of compressed ones too.
void expand_rows(Entries& e) {
  e.expanded.resize(size_t(e.count));
  for (int64_t i = 0; i + 1 < e.rows.numel(); i++)
    std::fill(e.expanded.begin() + e.row[i], e.expanded.begin() + e.row[i + 1], i);
  e.row = e.expanded.data();
}

void check_range(const int64_t* index, int64_t count, int64_t size, const char* what) {
  if (on_host().find_outside(index, count, size)) fail_outside(what, size);
}

// What the kernels compute in.
DType product_type(DType d) {
  d = compute_type(d);
  return is_floating(d) || is_complex(d) ? d : DType::I64;
}

struct SparseProduct : Bilinear {
  static constexpr auto signature =
      "_spmm(Tensor rows, Tensor columns, Tensor values, Tensor dense, int size, "
      "bool compressed, bool transposed)";
  static constexpr auto grad_name = "SparseAddmmBackward0";
  static constexpr auto doc =
      "_spmm(rows, columns, values, dense, size, ...): sums of values times rows of dense.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "||rows columns dense|rows columns values";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& rows, const Var& columns, const Var& values, const Var& dense,
                     int64_t size, bool compressed, bool transposed) {
    if (Device device = dense.device(); device.type == Device::CUDA) {  // the host computes it
      Var y = forward(here(rows), here(columns), here(values), here(dense), size, compressed,
                      transposed);
      return ops::to(y, y.dtype(), device);
    }
    check(dense.dim() == 2, "sparse product: expected a dense matrix, got a tensor of shape ",
          dense.sizes());
    check(values.dtype() == dense.dtype(),
          "sparse product: expected the dtypes to be the same, "
          "got ",
          name(values.dtype()), " and ", name(dense.dtype()));
    Entries e = entries_of(rows, columns, compressed);
    check(values.dim() == 1 && values.numel() == e.count, "sparse product: values of shape ",
          values.sizes(), " for ", e.count, " entries");
    DType d = product_type(dense.dtype());
    Var v = ops::contiguous(ops::to(values, d)), x = ops::contiguous(ops::to(dense, d));
    Var y = empty({size, dense.size(1)}, d, dense.device());
    if (y.numel() == 0) return ops::to(y, dense.dtype());
    cpu::Lines lines;
    const int64_t* begin = e.row;
    const int64_t* order = nullptr;
    const int64_t* other = e.column;
    if (compressed && transposed) expand_rows(e);
    if (transposed || !compressed) {
      const int64_t* line = transposed ? e.column : e.row;
      other = transposed ? e.row : e.column;
      check_range(line, e.count, size, transposed ? "the column" : "the row");
      lines = cpu::lines_of(line, e.count, size);
      begin = lines.begin.data();
      if (!lines.order.empty()) order = lines.order.data();
    } else {
      check(e.rows.numel() == size + 1, "sparse product: ", e.rows.numel(),
            " compressed indices for ", size, " rows");
    }
    bool inside;
    {
      Launch launch(double(e.count) * double(dense.size(1)), {v.get(), x.get(), y.get()});
      inside = cpu::sparse_product(d, begin, order, size, other, v->host<char>(), x->host<char>(),
                                   dense.size(0), dense.size(1), y->host<char>());
    }
    if (!inside) fail_outside(transposed ? "the row" : "the column", dense.size(0));
    return ops::to(y, dense.dtype());
  }
  static void vjp(Back& b, const In& rows, const In& columns, const In& values, const In& dense,
                  int64_t size, bool compressed, bool transposed);
};
RL_OP(SparseProduct)

struct SampledProduct : Bilinear {
  static constexpr auto signature =
      "_sddmm(Tensor rows, Tensor columns, Tensor a, Tensor b, bool compressed)";
  static constexpr auto grad_name = "SparseSampledAddmmBackward0";
  static constexpr auto doc =
      "_sddmm(rows, columns, a, b, ...): products of rows of a with rows of b, summed.";
  static constexpr Family family = Family::Contraction;
  static constexpr auto saves = "||rows columns b|rows columns a";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& rows, const Var& columns, const Var& a, const Var& b,
                     bool compressed) {
    if (Device device = a.device(); device.type == Device::CUDA) {
      Var values = forward(here(rows), here(columns), here(a), here(b), compressed);
      return ops::to(values, values.dtype(), device);
    }
    check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
          "sampled product: got matrices of shapes ", a.sizes(), " and ", b.sizes());
    check(a.dtype() == b.dtype(), "sampled product: expected the dtypes to be the same, got ",
          name(a.dtype()), " and ", name(b.dtype()));
    Entries e = entries_of(rows, columns, compressed);
    if (compressed) expand_rows(e);
    check_range(e.row, e.count, a.size(0), "the row");
    check_range(e.column, e.count, b.size(0), "the column");
    DType d = product_type(a.dtype());
    Var left = ops::contiguous(ops::to(a, d)), right = ops::contiguous(ops::to(b, d));
    Var values = empty({e.count}, d, a.device());
    {
      Launch launch(double(e.count) * double(a.size(1)), {left.get(), right.get(), values.get()});
      cpu::sampled_product(d, e.row, e.column, e.count, left->host<char>(), right->host<char>(),
                           a.size(1), values->host<char>());
    }
    return ops::to(values, a.dtype());
  }
  static void vjp(Back& b, const In& rows, const In& columns, const In& first, const In& second,
                  bool compressed) {
    Var r = *rows, c = *columns;
    if (b.wants(2))
      b[2] = call<SparseProduct>(r, c, b.g(), ops::conj(*second), first.size(0), compressed, false);
    if (b.wants(3))
      b[3] = call<SparseProduct>(r, c, b.g(), ops::conj(*first), second.size(0), compressed, true);
  }
};
RL_OP(SampledProduct)

void SparseProduct::vjp(Back& b, const In& rows, const In& columns, const In& values,
                        const In& dense, int64_t, bool compressed, bool transposed) {
  Var r = *rows, c = *columns;
  if (b.wants(2)) {
    Var x = ops::conj(*dense);
    b[2] = transposed ? call<SampledProduct>(r, c, x, b.g(), compressed)
                      : call<SampledProduct>(r, c, b.g(), x, compressed);
  }
  if (b.wants(3))
    b[3] = call<SparseProduct>(r, c, ops::conj(*values), b.g(), dense.size(0), compressed,
                               !transposed);
}

}  // namespace
}  // namespace rl
