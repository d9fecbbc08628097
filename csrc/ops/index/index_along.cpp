// One index vector along one dimension: index_select, index_add, index_copy, index_fill.
#include "call/around.h"
#include "call/broadcast.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// The index as a contiguous int64 vector.
Var as_vector(const Var& index) {
  Var v = ops::contiguous(ops::to(index, DType::I64));
  return v.dim() == 1 ? v : alias(v.get(), Ints{v.numel()}, Ints{1}, v->offset);
}

// Raises for the first index outside [0, size); torch's exception class depends on the layout.
void check_bounds(const Var& index, int64_t size, PyObject* error, const char* op, int d,
                  const char* hint) {
  kernel::Outside bad = on(index).find_outside(index->data<int64_t>(), index.numel(), size);
  if (bad)
    fail_as(error, op, ": ", hint, "index ", bad.value, " is out of bounds for dimension ", d,
            " with size ", size);
}

// into[.., index[c], ..] = mode(that, src[.., c, ..]); a 0-d src counts for every element.
void place(Tensor* into, int d, const Var& index, const Var& src, kernel::Scatter mode,
           double alpha) {
  Around block(into->sizes, d);
  int64_t count = index.numel();
  if (count == 0 || block.outer * block.inner == 0) return;
  bool number = src.dim() == 0 && into->dim() > 0;
  double work = 2 * double(block.outer * block.inner) * double(count);
  if (into->contiguous && src->contiguous && !number) {
    Launch launch(work, {into, index.get(), src.get()});
    if (mode == kernel::Scatter::Add)
      on(into).index_add(into->dtype, into->data(), index->data<int64_t>(), src->data(),
                         block.outer, block.n, block.inner, count, alpha);
    else
      on(into).index_write(itemsize(into->dtype), into->data(), index->data<int64_t>(), src->data(),
                           block.outer, block.n, block.inner, count);
    return;
  }
  Var from = src;
  if (alpha != 1) from = ops::to(src * Var(alpha), into->dtype);
  int64_t item = itemsize(into->dtype);
  int n = into->dim();
  Ints sizes = into->sizes, to(n), along(n), steps(n);
  sizes[d] = count;
  along[d] = int64_t(sizeof(int64_t));
  for (int i = 0; i < n; i++) {
    to[i] = into->strides[i] * item;
    if (!number) steps[i] = from->strides[i] * item;
  }
  Launch launch(work, {into, index.get(), from.get()});
  DType moved = mode == kernel::Scatter::Set ? moved_as(into->dtype) : into->dtype;
  on(into).scatter(moved, mode, into->data(), to.data(), index->data<int64_t>(), along.data(),
                   from->data(), steps.data(), sizes.data(), n, d, into->sizes[d]);
}

struct IndexSelect : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "index_select(Tensor input, int dim, Tensor index)";
  static constexpr auto doc = "index_select(x, dim, index): the slices of x along dim at index.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static Var forward(const Var& input, int64_t dim, const Var& index) {
    int d = int(wrap_dim(dim, input.dim()));
    if (index.dim() > 1)
      fail_as(PyExc_IndexError, "index_select(): Index is supposed to be a vector, but got shape ",
              index.sizes());
    check_index_type(index, "index_select()", "int32 or int64");
    Var at = as_vector(index);
    check(input.dim() > 0 || at.numel() == 1,
          "index_select(): Index to scalar can have only 1 value, got ", at.numel(), " value(s)");
    bool inside = d > 0 && d < input.dim() - 1;
    check_bounds(at, input.dim() ? input.sizes()[d] : 1,
                 inside || (d > 0 && input.dim() == 2) ? PyExc_RuntimeError : PyExc_IndexError,
                 "index_select()", d, "index out of range in self: ");
    Ints sizes = input.sizes();
    if (input.dim()) sizes[d] = at.numel();
    Var x = ops::contiguous(input), y = empty(sizes, input.dtype(), input.device());
    Around block(x.sizes(), d);
    Launch launch(double(y.numel()), {x.get(), at.get(), y.get()});
    on(x).index_select(itemsize(x.dtype()), x->data(), at->data<int64_t>(), y->data(), block.outer,
                       block.n, block.inner, at.numel());
    return y;
  }
  static void vjp(Back& b, const In& input, int64_t dim, const In& index) {
    b[0] = ops::index_add(ops::zeros(input.sizes(), b.g().dtype(), b.g().device()), dim, *index,
                          b.g());
  }
};
RL_OP(IndexSelect)

struct IndexAdd : Linear {
  static constexpr auto signature =
      "index_add(Tensor input, int dim, Tensor index, Tensor source, *, float alpha=1)";
  static constexpr auto doc =
      "index_add(x, dim, index, source, alpha): x with alpha * source added to slices along dim.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& source,
                     double alpha) {
    int d = int(wrap_dim(dim, input.dim()));
    Var at = checked(input, d, index, source), y = row_major_copy(input);
    place(y.get(), d, at, source, kernel::Scatter::Add, alpha);
    return y;
  }
  static Var checked(const Var& input, int d, const Var& index, const Var& source) {
    check_index_type(index, "index_add_()", "int32/int64");
    check(input.dtype() == source.dtype(), "index_add_(): self (", info(input.dtype()).tensor_name,
          ") and source (", info(source.dtype()).tensor_name, ") must have the same scalar type");
    if (index.dim() > 1)
      fail_as(PyExc_IndexError,
              "index_add_(): Index is supposed to be a vector, but got dim: ", index.dim(),
              " with type: ", info(index.dtype()).tensor_name, " and size: ", index.sizes());
    int64_t along = source.dim() ? (d < source.dim() ? source.sizes()[d] : 1) : 1;
    bool fits = source.dim() == input.dim();
    for (int i = 0; fits && i < input.dim(); i++)
      fits = i == d || source.sizes()[i] == input.sizes()[i];
    check(fits,
          "source tensor shape must match self tensor shape, excluding the specified "
          "dimension. Got self.shape = ",
          input.sizes(), " source.shape = ", source.sizes());
    check(index.numel() == along, "index_add_(): Number of indices (", index.numel(),
          ") should be equal to source.size(dim): (", along, "), for dim: ", d);
    Var at = as_vector(index);
    check_bounds(at, input.dim() ? input.sizes()[d] : 1,
                 input.dim() > 1 ? PyExc_RuntimeError : PyExc_IndexError, "index_add_()", d,
                 "index out of range in self: ");
    return at;
  }
  static void vjp(Back& b, const In&, int64_t dim, const In& index, const In& source,
                  double alpha) {
    if (b.wants(0)) b[0] = b.g();
    if (!b.wants(2)) return;
    Var taken = ops::reshape(ops::index_select(b.g(), dim, *index), source.sizes());
    b[2] = alpha == 1 ? taken : taken * Var(alpha);
  }
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& source, double alpha) {
    if (!inplace)
      return write_out(self, call<IndexAdd>(input, dim, index, source, alpha), "index_add");
    int d = int(wrap_dim(dim, input.dim()));
    Var at = apart_from(self, checked(input, d, index, source)), src = apart_from(self, source);
    auto write = [&] { place(self, d, at, src, kernel::Scatter::Add, alpha); };
    write_inplace<IndexAdd>(self, "index_add_", write, input, dim, index, source, alpha);
  }
};
RL_OP(IndexAdd)

struct IndexCopy : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "index_copy(Tensor input, int dim, Tensor index, Tensor source)";
  static constexpr Autocast autocast = Autocast::Widest;
  static constexpr auto doc =
      "index_copy(x, dim, index, source): x with slices along dim replaced.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "index";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, int64_t dim, const Var& index, const Var& source) {
    int d = int(wrap_dim(dim, input.dim()));
    Var at = checked(input, d, index, source), y = row_major_copy(input);
    place(y.get(), d, at, fitted(input, source, d), kernel::Scatter::Set, 1);
    return y;
  }
  static Var checked(const Var& input, int d, const Var& index, const Var& source) {
    check(index.dtype() == DType::I64, "index_copy_(): Expected a long tensor for index, but got ",
          info(index.dtype()).tensor_name);
    check(input.dtype() == source.dtype(),
          "index_copy_(): self and source expected to have the same dtype, but got (self) ",
          info(input.dtype()).tensor_name, " and (source) ", info(source.dtype()).tensor_name);
    if (index.dim() > 1)
      fail_as(PyExc_IndexError, "index_copy_(): Index should have dimension 1 or 0 (got ",
              index.dim(), ")");
    int64_t count = index.numel();
    if (source.dim() == 0 && count != 1)
      fail_as(PyExc_IndexError,
              "index_copy_(): When source is scalar, index should have one "
              "element (got ",
              count, ")");
    if (source.dim() != input.dim() && source.dim() != 0 && input.dim() != 0)
      fail_as(PyExc_IndexError,
              "index_copy_(): When source and destination are not scalars, their "
              "dimensionality must match. Source dimensionality (",
              source.dim(), "), destination dimensionality (", input.dim(), ")");
    Ints from = without(source.sizes(), d), to = without(input.sizes(), d);
    check(from == to,
          "index_copy_(): Source/destination tensor must have same slice shapes. "
          "Destination slice shape: ",
          to, " at dimension ", d, " and source slice shape: ", from, " at dimension 0.");
    if (source.dim() > 0 && count != source.sizes()[d])
      fail_as(PyExc_IndexError, "index_copy_(): Number of indices (", count,
              ") should be equal to source.size(dim) (", source.sizes()[d], ")");
    Var at = as_vector(index);
    check_bounds(at, input.dim() ? input.sizes()[d] : 1, PyExc_IndexError, "index_copy_()", d, "");
    return at;
  }
  static Ints without(const Ints& sizes, int d) {
    Ints rest = sizes;
    if (!rest.empty()) rest.erase(d);
    return rest;
  }
  // A source with as many dimensions as the input.
  static Var fitted(const Var& input, const Var& source, int d) {
    if (source.dim() == input.dim()) return source;
    Ints sizes = input.sizes();
    if (!sizes.empty()) sizes[d] = 1;
    return ops::reshape(source, sizes);
  }
  static void vjp(Back& b, const In&, int64_t dim, const In& index, const In& source);
  static void into(Tensor* self, bool inplace, const Var& input, int64_t dim, const Var& index,
                   const Var& source) {
    if (!inplace) return write_out(self, call<IndexCopy>(input, dim, index, source), "index_copy");
    int d = int(wrap_dim(dim, input.dim()));
    Var at = apart_from(self, checked(input, d, index, source)), src = apart_from(self, source);
    auto write = [&] { place(self, d, at, fitted(input, src, d), kernel::Scatter::Set, 1); };
    write_inplace<IndexCopy>(self, "index_copy_", write, input, dim, index, source);
  }
};
RL_OP(IndexCopy)

// A value and an index for index_fill, checked.
Var fill_value(const Var& value, DType dtype, Device device) {
  check(value.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
        " dimension(s).");
  check(is_complex(dtype) || !is_complex(value.dtype()),
        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  return scalar_of(value, dtype, device);
}

Var fill_index(const Var& input, int d, const Var& index) {
  if (index.dtype() != DType::I64)
    fail_as(PyExc_IndexError, "index_fill_(): Expected dtype int64 for index, but got ",
            info(index.dtype()).tensor_name);
  check(index.dim() <= 1, "Index has to be a vector/scalar, but got shape ", index.sizes());
  Var at = as_vector(index);
  int64_t size = input.dim() ? input.sizes()[d] : 1, n = at.numel();
  kernel::Outside bad = on(at).find_out_of_range(at->data<int64_t>(), n, size);
  if (bad)
    fail_as(PyExc_IndexError, "index ", bad.value, " is out of bounds for dimension ", d,
            " with size ", size);
  Var positive = empty({n}, DType::I64, input.device());
  on(at).linear_index(at->data<int64_t>(), n, size, 1, false, positive->data<int64_t>());
  return positive;
}

void fill_slices(Tensor* into, int d, const Var& index, const Var& value) {
  if (into->dim() == 0 && index.numel() > 0) ops::copy_data(into, value.get());
  else if (into->dim() > 0) place(into, d, index, value, kernel::Scatter::Set, 1);
}

// v with those slices zero; the sum of g over them.
Var zero_slices(const Var& v, int64_t dim, const Var& at);
Var filled_sum(const Var& g, int64_t dim, const Var& at);

#define RL_INDEX_FILL(Type, kind, text, grad)                                                     \
  struct Type : Linear {                                                                          \
    static constexpr auto signature =                                                             \
        "index_fill(Tensor input, int dim, Tensor index, " kind " value)";                        \
    static constexpr auto grad_name = grad;                                                       \
    static constexpr auto doc = "index_fill(x, dim, index, value): x with " text " in slices.";   \
    static constexpr Family family = Family::Indexing;                                            \
    static constexpr Stored stored = Stored::Moved;                                               \
    static constexpr auto saves = "index";                                                        \
    static constexpr bool inplace = true;                                                         \
    static constexpr bool out = false;                                                            \
    static Var forward(const Var& input, int64_t dim, const Var& index, const Var& value) {       \
      int d = int(wrap_dim(dim, input.dim()));                                                    \
      Var number = fill_value(value, input.dtype(), input.device()),                              \
          at = fill_index(input, d, index);                                                       \
      Var y = empty_like(input.get(), input.dtype());                                             \
      ops::copy_data(y.get(), input.get());                                                       \
      fill_slices(y.get(), d, at, number);                                                        \
      return y;                                                                                   \
    }                                                                                             \
    static void vjp(Back& b, const In&, int64_t dim, const In& index, const In&) {                \
      Var at = *index;                                                                            \
      if (b.wants(0)) b[0] = zero_slices(b.g(), dim, at);                                         \
      if (b.wants(2)) b[2] = filled_sum(b.g(), dim, at);                                          \
    }                                                                                             \
    static void into(Tensor* self, bool, const Var& input, int64_t dim, const Var& index,         \
                     const Var& value) {                                                          \
      int d = int(wrap_dim(dim, input.dim()));                                                    \
      Var number = fill_value(value, input.dtype(), input.device()),                              \
          at = fill_index(input, d, index);                                                       \
      if (may_repeat(self, value, "index_fill_")) {                                               \
        Var places = without_repeats(self);                                                       \
        bool one = places.size(d) != self->sizes[d];                                              \
        if (one) at = ops::zeros({std::min<int64_t>(at.numel(), 1)}, DType::I64, self->device()); \
        return into(places.get(), true, places, dim, at, value);                                  \
      }                                                                                           \
      auto write = [&] { fill_slices(self, d, at, number); };                                     \
      write_inplace<Type>(self, "index_fill_", write, input, dim, index, value);                  \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type)
RL_INDEX_FILL(IndexFillTensor, "Tensor", "a 0-d tensor's value", "IndexFillBackward1")
RL_INDEX_FILL(IndexFill, "Number", "a number", "IndexFillBackward0")

Var zero_slices(const Var& v, int64_t dim, const Var& at) {
  return call<IndexFill>(v, dim, at, Var(0));
}
Var filled_sum(const Var& g, int64_t dim, const Var& at) {
  Var chosen = call<IndexFill>(ops::zeros(g.sizes(), DType::Bool, g.device()), dim, at, Var(1));
  return ops::sum_to(math::where(chosen, g, Var(0)), {});
}

void IndexCopy::vjp(Back& b, const In&, int64_t dim, const In& index, const In& source) {
  Var at = *index;
  if (b.wants(0)) b[0] = zero_slices(b.g(), dim, at);
  if (b.wants(2)) b[2] = ops::reshape(ops::index_select(b.g(), dim, at), source.sizes());
}

}  // namespace

namespace ops {

Var index_select(const Var& a, int64_t dim, const Var& index) {
  return call<IndexSelect>(a, dim, index);
}
Var index_add(const Var& a, int64_t dim, const Var& index, const Var& src) {
  return call<IndexAdd>(a, dim, index, src, 1.0);
}

}  // namespace ops
}  // namespace rl
