// Several tensors made one.
#include "call/around.h"
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"

namespace rl {

namespace {

// Empty vectors are passed over, whatever the others' shape.
bool is_skipped(const Ints& sizes) { return sizes.size() == 1 && sizes[0] == 0; }

DType common_type(const Vars& parts) {
  Promotion promotion;
  for (const Var& part : parts) promotion.add(part.get());
  return promotion.result();
}

// The format that all parts suggest, or rows.
MemoryFormat common_format(const Vars& parts) {
  MemoryFormat format = suggested_format(parts[0].get());
  for (const Var& part : parts)
    if (suggested_format(part.get()) != format) return MemoryFormat::Contiguous;
  return format;
}

// As if the tensors were joined along d and that dimension was then split in two.
Var empty_stacked(const Vars& tensors, const Vars& parts, const Ints& sizes, int d) {
  bool last = d + 1 == sizes.size();
  MemoryFormat format = common_format(last ? parts : tensors);
  DType dtype = common_type(tensors);
  if (last || format == MemoryFormat::Contiguous)
    return empty_in(format, sizes, dtype, tensors[0].device());
  Ints joined = tensors[0].sizes();
  int64_t each = joined[d];
  joined[d] *= int64_t(tensors.size());
  Ints strides = format_strides(format, joined, "stack");
  strides.insert(d, strides[d] * each);
  return empty_strided(sizes, strides, dtype, tensors[0].device());
}

// Copies the parts behind one another along d.
void lay_out(Tensor* into, const Vars& parts, int d) {
  Around at(into->sizes, d);
  int64_t outer = at.outer, inner = at.inner * itemsize(into->dtype), start = 0;
  constexpr int64_t kSmall = 16384;  // bytes for which threads are not worth it
  for (const Var& part : parts) {
    int64_t n = part.sizes()[d], row = n * inner;
    if (into->contiguous && part->contiguous && part.dtype() == into->dtype &&
        outer * row <= kSmall) {
      on(into).copy_blocks(into->data() + start * inner, into->sizes[d] * inner, part->data(), row,
                           row, outer);
    } else {
      Ints sizes = into->sizes;
      sizes[d] = n;
      Var region = alias(into, std::move(sizes), Ints(into->strides), start * into->strides[d]);
      ops::copy_data(region.get(), part.get());
    }
    start += n;
  }
}

struct Cat : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "cat(Tensor[] tensors, int dim=0)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr Autocast autocast = Autocast::Widest;
  static constexpr auto doc = "cat(tensors, dim): the tensors behind one another along dim.";
  static constexpr bool method = false;
  static Var forward(const Vars& tensors, int64_t dim) {
    if (tensors.empty())
      fail_as(PyExc_ValueError, "torch.cat(): expected a non-empty list of Tensors");
    Vars parts;
    parts.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      check(tensors[i].dim() > 0, "zero-dimensional tensor (at position ", i,
            ") cannot be concatenated");
      if (!is_skipped(tensors[i].sizes())) parts.push_back(tensors[i]);
    }
    DType dtype = common_type(tensors);
    if (parts.empty()) return empty({0}, dtype, tensors[0].device());
    Ints sizes = parts[0].sizes();
    int d = int(wrap_dim(dim, sizes.size()));
    int64_t total = 0;
    for (size_t i = 0; i < tensors.size(); i++) {
      const Ints& s = tensors[i].sizes();
      if (is_skipped(s)) continue;
      check(s.size() == sizes.size(), "Tensors must have same number of dimensions: got ",
            sizes.size(), " and ", s.size());
      for (int k = 0; k < s.size(); k++)
        check(k == d || s[k] == sizes[k], "Sizes of tensors must match except in dimension ", d,
              ". Expected size ", sizes[k], " but got size ", s[k], " for tensor number ", i,
              " in the list.");
      total += s[d];
    }
    sizes[d] = total;
    Var joined = empty_in(common_format(tensors), sizes, dtype, tensors[0].device());
    lay_out(joined.get(), parts, d);
    return joined;
  }
  static void vjp(Back& b, const InList& tensors, int64_t dim) {
    int64_t d = is_skipped(b.g().sizes()) ? 0 : wrap_dim(dim, b.g().dim()), start = 0;
    for (size_t i = 0; i < tensors.size(); i++) {
      bool skipped = is_skipped(tensors[i].sizes());
      int64_t n = skipped ? 0 : tensors[i].size(int(d));
      if (b.wants(int(i)))
        b[int(i)] = skipped ? ops::zeros({0}, b.g().dtype(), b.g().device())
                            : ops::narrow(b.g(), d, start, n);
      start += n;
    }
  }
};
RL_OP(Cat)

#define RL_CAT(Type, function_name)                                                         \
  struct Type : Composite {                                                                 \
    static constexpr auto signature = function_name "(Tensor[] tensors, int dim=0)";        \
    static constexpr auto doc = function_name "(tensors, dim): another name of cat.";       \
    static constexpr bool method = false;                                                   \
    static Var forward(const Vars& tensors, int64_t dim) { return ops::cat(tensors, dim); } \
  };                                                                                        \
  RL_OP(Type)
RL_CAT(Concat, "concat")
RL_CAT(Concatenate, "concatenate")

struct Stack : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "stack(Tensor[] tensors, int dim=0)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr int added_dims = 1;
  static constexpr Autocast autocast = Autocast::Widest;
  static constexpr auto doc = "stack(tensors, dim): equal shapes side by side along a new dim.";
  static constexpr bool method = false;
  static Var forward(const Vars& tensors, int64_t dim) {
    check(!tensors.empty(), "stack expects a non-empty TensorList");
    const Ints& first = tensors[0].sizes();
    int d = int(wrap_dim(dim, first.size() + 1));
    Vars parts;
    for (size_t i = 0; i < tensors.size(); i++) {
      check(tensors[i].sizes() == first, "stack expects each tensor to be equal size, but got ",
            first, " at entry 0 and ", tensors[i].sizes(), " at entry ", i);
      parts.push_back(ops::unsqueeze(tensors[i], d));
    }
    Ints sizes = first;
    sizes.insert(d, int64_t(tensors.size()));
    Var stacked = empty_stacked(tensors, parts, sizes, d);
    lay_out(stacked.get(), parts, d);
    return stacked;
  }
  static void vjp(Back& b, const InList& tensors, int64_t dim) {
    for (size_t i = 0; i < tensors.size(); i++)
      if (b.wants(int(i))) b[int(i)] = ops::select(b.g(), dim, int64_t(i));
  }
};
RL_OP(Stack)

Vars raised(const Vars& tensors, int dims, const char* op) {
  check(!tensors.empty(), op, " expects a non-empty TensorList");
  Vars parts;
  for (const Var& t : tensors) parts.push_back(ops::atleast(t, dims));
  return parts;
}

struct HStack : Composite {
  static constexpr auto signature = "hstack(Tensor[] tensors)";
  static constexpr auto doc = "hstack(tensors): joined column by column; vectors end to end.";
  static constexpr bool method = false;
  static Var forward(const Vars& tensors) {
    Vars parts = raised(tensors, 1, "hstack");
    return ops::cat(parts, parts[0].dim() == 1 ? 0 : 1);
  }
};
RL_OP(HStack)

#define RL_VSTACK(Type, function_name)                                                            \
  struct Type : Composite {                                                                       \
    static constexpr auto signature = function_name "(Tensor[] tensors)";                         \
    static constexpr auto doc = function_name "(tensors): joined row by row.";                    \
    static constexpr bool method = false;                                                         \
    static Var forward(const Vars& tensors) { return ops::cat(raised(tensors, 2, "vstack"), 0); } \
  };                                                                                              \
  RL_OP(Type)
RL_VSTACK(VStack, "vstack")
RL_VSTACK(RowStack, "row_stack")

struct DStack : Composite {
  static constexpr auto signature = "dstack(Tensor[] tensors)";
  static constexpr auto doc = "dstack(tensors): joined along the third dimension.";
  static constexpr bool method = false;
  static Var forward(const Vars& tensors) { return ops::cat(raised(tensors, 3, "dstack"), 2); }
};
RL_OP(DStack)

struct ColumnStack : Composite {
  static constexpr auto signature = "column_stack(Tensor[] tensors)";
  static constexpr auto doc = "column_stack(tensors): vectors as columns, matrices side by side.";
  static constexpr bool method = false;
  static Var forward(const Vars& tensors) {
    check(!tensors.empty(), "column_stack expects a non-empty TensorList");
    Vars parts;
    for (const Var& t : tensors) parts.push_back(t.dim() > 1 ? t : ops::reshape(t, {t.numel(), 1}));
    return ops::cat(parts, 1);
  }
};
RL_OP(ColumnStack)

struct BlockDiag : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "block_diag(tensors tensors)";
  static constexpr auto doc = "block_diag(tensors): the matrices along a diagonal, zeros beside.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  struct Block {
    int64_t rows, cols;
  };
  static Block block(const Ints& s) { return {s.size() == 2 ? s[0] : 1, s.empty() ? 1 : s.back()}; }
  static Var forward(const Vars& tensors) {
    if (tensors.empty()) return empty({1, 0}, default_dtype(), kHost);
    int64_t rows = 0, cols = 0;
    for (size_t i = 0; i < tensors.size(); i++) {
      check(tensors[i].dim() <= 2,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input ", i, " has ",
            tensors[i].dim(), " dimensions");
      rows += block(tensors[i].sizes()).rows;
      cols += block(tensors[i].sizes()).cols;
    }
    Var whole = ops::zeros({rows, cols}, common_type(tensors), tensors[0].device());
    int64_t row = 0, col = 0;
    for (const Var& t : tensors) {
      auto [r, c] = block(t.sizes());
      Var region = alias(whole.get(), Ints{r, c}, Ints{cols, 1}, row * cols + col);
      ops::copy_data(region.get(), t.get());
      row += r;
      col += c;
    }
    return whole;
  }
  static void vjp(Back& b, const InList& tensors) {
    int64_t row = 0, col = 0;
    for (size_t i = 0; i < tensors.size(); i++) {
      auto [r, c] = block(tensors[i].sizes());
      if (b.wants(int(i))) {
        Var part = ops::narrow(ops::narrow(b.g(), 0, row, r), 1, col, c);
        b[int(i)] = ops::reshape(part, tensors[i].sizes());
      }
      row += r;
      col += c;
    }
  }
};
RL_OP(BlockDiag)

}  // namespace

namespace ops {

Var cat(const Vars& parts, int64_t dim) { return call<Cat>(parts, dim); }
Var stack(const Vars& parts, int64_t dim) { return call<Stack>(parts, dim); }

}  // namespace ops
}  // namespace rl
