// Views: other readings of the same memory.
#include "call/op.h"
#include "ops/nn/spatial.h"

namespace rl {

namespace {

Ints inverse(const Ints& dims) {
  Ints result(dims.size());
  for (int i = 0; i < dims.size(); i++) result[int(dims[i])] = i;
  return result;
}

// Replaces a -1 by what is left; checks the count.
Ints infer_size(const Ints& wanted, int64_t numel) {
  Ints sizes = wanted;
  int at = -1;
  int64_t known = 1;
  for (int i = 0; i < sizes.size(); i++) {
    if (sizes[i] == -1) {
      check(at < 0, "only one dimension can be inferred, got ", wanted);
      at = i;
    } else {
      check(sizes[i] >= 0, "invalid shape dimension ", sizes[i], " in ", wanted);
      if (__builtin_mul_overflow(known, sizes[i], &known)) known = -1;
    }
  }
  if (at >= 0) {
    check(known != 0, "cannot reshape tensor of ", numel, " elements into shape ", wanted,
          " because the unspecified dimension size -1 can be any value and is ambiguous");
    if (known > 0 && numel % known == 0) {
      sizes[at] = numel / known;
      return sizes;
    }
  } else if (known == numel) {
    return sizes;
  }
  fail("shape '", wanted, "' is invalid for input of size ", numel);
}

// Strides that read `t` with other sizes without a copy; false when there are none.
bool view_strides(const Tensor* t, const Ints& sizes, Ints& strides) {
  strides = Ints(sizes.size());
  bool unit = t->dim() == 0 || t->strides[t->dim() - 1] == 1;
  if (t->numel == 0 || (t->contiguous && unit)) {
    strides = contiguous_strides(sizes);
    return true;
  }
  // Each run of dimensions that lie behind one another is split on its own.
  int v = sizes.size() - 1;
  int64_t chunk = t->strides[t->dim() - 1], in_chunk = 1, taken = 1;
  for (int d = t->dim() - 1; d >= 0; d--) {
    in_chunk *= t->sizes[d];
    bool ends = d == 0 || (t->sizes[d - 1] != 1 && t->strides[d - 1] != in_chunk * chunk);
    if (!ends) continue;
    while (v >= 0 && (taken < in_chunk || sizes[v] == 1)) {
      strides[v] = taken * chunk;
      taken *= sizes[v];
      v--;
    }
    if (taken != in_chunk) return false;
    if (d > 0) {
      chunk = t->strides[d - 1];
      in_chunk = taken = 1;
    }
  }
  return v == -1;
}

struct ViewOp : View {
  static constexpr auto signature = "view(Tensor input, size size)";
  static constexpr auto doc = "view(*size): the same elements with another shape, never a copy.";
  static constexpr bool function = false;
  static Var forward(const Var& input, const Ints& size) {
    Ints sizes = infer_size(size, input.numel()), strides;
    check(view_strides(input.get(), sizes, strides),
          "view size is not compatible with input tensor's size and stride (at least one dimension "
          "spans across two contiguous subspaces): input has shape ",
          input.sizes(), " and strides ", input->strides, ", wanted ", sizes,
          ". Use .reshape(...) instead.");
    return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  }
  static void vjp(Back& b, const In& input, const Ints&) {
    b[0] = ops::reshape(b.g(), input.sizes());
  }
};
RL_OP(ViewOp)

struct ViewDtype : Composite {
  static constexpr auto signature = "view(Tensor input, dtype dtype)";
  static constexpr auto doc = "view(dtype): the same bytes read as another element type.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, DType dtype) {
    int64_t from = itemsize(input.dtype()), to = itemsize(dtype);
    Ints sizes = input.sizes(), strides = input->strides;
    int last = input.dim() - 1;
    int64_t offset = input->offset;
    const Batch* hidden = batch_of(input.get());
    Batch batch = hidden ? *hidden : Batch{};
    if (from != to) {
      check(input.dim() > 0, "self.dim() cannot be 0 to view ", name(input.dtype()), " as ",
            name(dtype), " (different element sizes)");
      check(strides[last] == 1, "self.stride(-1) must be 1 to view ", name(input.dtype()), " as ",
            name(dtype), " (different element sizes), but got ", strides[last]);
      auto scale = [&](int64_t n, const char* what) {
        check(n * from % to == 0, what, " must be divisible by ", to / from, " to view ",
              name(input.dtype()), " as ", name(dtype), " (different element sizes), but got ", n);
        return n * from / to;
      };
      sizes[last] = scale(sizes[last], "self.size(-1)");
      offset = scale(offset, "self.storage_offset()");
      for (int i = 0; i < last; i++) strides[i] = scale(strides[i], "self.stride()");
      for (int i = 0; i < batch.strides.size(); i++)
        batch.strides[i] = scale(batch.strides[i], "the samples' stride");
    }
    Var view = wrap_storage(retain(input->storage), sizes, strides, offset, dtype);
    if (hidden) set_batch(view.get(), batch);
    return view;
  }
};
RL_OP(ViewDtype)

struct ViewAs : Composite {
  static constexpr auto signature = "view_as(Tensor input, Tensor other)";
  static constexpr auto doc = "view_as(other): a view with the shape of other.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& other) {
    return call<ViewOp>(input, other.sizes());
  }
};
RL_OP(ViewAs)

struct AliasView : View {
  static constexpr auto signature = "_alias(Tensor input)";
  static constexpr auto grad_name = "AliasBackward0";
  static constexpr auto doc = "_alias(x): a view of the whole of x.";
  static constexpr bool method = false;
  static Var forward(const Var& input) { return alias(input.get()); }
  static void vjp(Back& b, const In&) { b[0] = b.g(); }
};
RL_OP(AliasView)

// What reshape makes when a copy is needed: the copy under its new shape.
struct UnsafeView : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_reshape_copy(Tensor input, int[] size)";
  static constexpr auto grad_name = "UnsafeViewBackward0";
  static constexpr auto doc = "_reshape_copy(x, size): a row-major copy with another shape.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size) {
    Var copy = empty(input.sizes(), input.dtype(), input.device());
    ops::copy_data(copy.get(), input.get());
    return alias(copy.get(), Ints(size), contiguous_strides(size), 0);
  }
  static void vjp(Back& b, const In& input, const Ints&) {
    b[0] = ops::reshape(b.g(), input.sizes());
  }
};
RL_OP(UnsafeView)

struct Reshape : Composite {
  static constexpr auto signature = "reshape(Tensor input, size shape)";
  static constexpr auto doc =
      "reshape(x, shape): another shape; a view when possible, else a copy.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& shape) { return ops::reshape(input, shape); }
};
RL_OP(Reshape)

struct ReshapeAs : Composite {
  static constexpr auto signature = "reshape_as(Tensor input, Tensor other)";
  static constexpr auto doc = "reshape_as(other): reshape to the shape of other.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& other) {
    return ops::reshape(input, other.sizes());
  }
};
RL_OP(ReshapeAs)

struct Permute : View {
  static constexpr auto signature = "permute(Tensor input, size dims)";
  static constexpr auto doc = "permute(x, dims): the dimensions in another order.";
  static Var forward(const Var& input, const Ints& dims) {
    int n = input.dim();
    check(dims.size() == n,
          "permute(sparse_coo): number of dimensions in the tensor input does not "
          "match the length of the desired ordering of dimensions i.e. input.dim() "
          "= ",
          n, " is not equal to len(dims) = ", dims.size());
    Ints order = wrap_dims(dims, n, "permute()"), sizes(n), strides(n);
    for (int i = 0; i < n; i++) {
      sizes[i] = input.sizes()[int(order[i])];
      strides[i] = input->strides[int(order[i])];
    }
    return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  }
  static void vjp(Back& b, const In& input, const Ints& dims) {
    b[0] = ops::permute(b.g(), inverse(wrap_dims(dims, input.dim(), "permute()")));
  }
};
RL_OP(Permute)

Var swapped(const Var& input, int64_t dim0, int64_t dim1) {
  int a = int(wrap_dim(dim0, input.dim())), b = int(wrap_dim(dim1, input.dim()));
  Ints sizes = input.sizes(), strides = input->strides;
  if (input.dim() > 0) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
}

#define RL_TRANSPOSE(Type, function)                                                 \
  struct Type : View {                                                               \
    static constexpr auto signature = function "(Tensor input, int dim0, int dim1)"; \
    static constexpr auto grad_name = "TransposeBackward0";                          \
    static constexpr auto doc = function "(x, dim0, dim1): two dimensions swapped."; \
    static Var forward(const Var& input, int64_t dim0, int64_t dim1) {               \
      return swapped(input, dim0, dim1);                                             \
    }                                                                                \
    static void vjp(Back& b, const In&, int64_t dim0, int64_t dim1) {                \
      b[0] = ops::transpose(b.g(), dim0, dim1);                                      \
    }                                                                                \
  };                                                                                 \
  RL_OP(Type)
RL_TRANSPOSE(Transpose, "transpose")
RL_TRANSPOSE(SwapDims, "swapdims")
RL_TRANSPOSE(SwapAxes, "swapaxes")

struct T : View {
  static constexpr auto signature = "t(Tensor input)";
  static constexpr auto doc = "t(x): the transpose of a matrix; vectors and scalars stay.";
  static Var forward(const Var& input) {
    check(input.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", input.dim(),
          "D");
    return input.dim() < 2 ? alias(input.get()) : swapped(input, 0, 1);
  }
  static void vjp(Back& b, const In& input) {
    b[0] = input.dim() < 2 ? b.g() : ops::transpose(b.g(), 0, 1);
  }
};
RL_OP(T)

Var moved(const Var& input, const Ints& source, const Ints& destination) {
  check(source.size() == destination.size(),
        "movedim: Invalid source or destination dims: source (", source,
        " dims) should contain the same number of dims as destination (", destination, " dims)");
  Ints from = wrap_dims(source, input.dim(), "movedim");
  Ints to = wrap_dims(destination, input.dim(), "movedim");
  Ints order(input.dim(), -1), rest;
  for (int i = 0; i < from.size(); i++) order[int(to[i])] = from[i];
  for (int i = 0; i < input.dim(); i++)
    if (!from.contains(i)) rest.push_back(i);
  for (int i = 0, k = 0; i < input.dim(); i++)
    if (order[i] < 0) order[i] = rest[k++];
  return ops::permute(input, order);
}

struct MoveDim : Composite {
  static constexpr auto signature = "movedim(Tensor input, int[] source, int[] destination)";
  static constexpr auto doc = "movedim(x, source, destination): dimensions moved elsewhere.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& source, const Ints& destination) {
    return moved(input, source, destination);
  }
};
RL_OP(MoveDim)

struct MoveAxis : Composite {
  static constexpr auto signature = "moveaxis(Tensor input, int[] source, int[] destination)";
  static constexpr auto doc = "moveaxis(x, source, destination): another name of movedim.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& source, const Ints& destination) {
    return moved(input, source, destination);
  }
};
RL_OP(MoveAxis)

struct Expand : View {
  static constexpr auto signature = "expand(Tensor input, size size, *, bool implicit=False)";
  static constexpr auto doc = "expand(*size): dimensions of size 1 repeated without a copy.";
  static constexpr bool function = false;
  static Var forward(const Var& input, const Ints& size, bool) {
    int lead = size.size() - input.dim();
    check(lead >= 0, "expand(", input.sizes(), ", size=", size, "): the number of sizes provided (",
          size.size(), ") must be greater or equal to the number of dimensions in the tensor (",
          input.dim(), ")");
    Ints sizes = size, strides(size.size());
    for (int i = 0; i < size.size(); i++) {
      int64_t have = i < lead ? 1 : input.sizes()[i - lead];
      if (size[i] == -1) {
        check(i >= lead, "expand(", input.sizes(), ", size=", size,
              "): The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
              "dimension ",
              i);
        sizes[i] = have;
      }
      check(sizes[i] >= 0, "expand: invalid size ", size[i], " in ", size);
      check(have == sizes[i] || have == 1, "The expanded size of the tensor (", sizes[i],
            ") must match the existing size (", have, ") at non-singleton dimension ", i,
            ".  Target sizes: ", size, ".  Tensor sizes: ", input.sizes());
      strides[i] = i < lead || (have == 1 && sizes[i] != 1) ? 0 : input->strides[i - lead];
    }
    // New dimensions of size 1 have the strides that unsqueeze gives them.
    for (int i = lead - 1; i >= 0 && input.dim() > 0; i--)
      if (sizes[i] == 1) strides[i] = sizes[i + 1] * strides[i + 1];
    return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  }
  static void vjp(Back& b, const In& input, const Ints&, bool) {
    b[0] = ops::sum_to(b.g(), input.sizes());
  }
};
RL_OP(Expand)

struct ExpandAs : Composite {
  static constexpr auto signature = "expand_as(Tensor input, Tensor other)";
  static constexpr auto doc = "expand_as(other): expand to the shape of other.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& other) {
    return ops::expand(input, other.sizes());
  }
};
RL_OP(ExpandAs)

struct BroadcastTo : Composite {
  static constexpr auto signature = "broadcast_to(Tensor input, size size)";
  static constexpr auto doc = "broadcast_to(x, size): expand as a function.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size) { return ops::expand(input, size); }
};
RL_OP(BroadcastTo)

Var without_ones(const Var& input, const Ints& dims, bool all) {
  Ints sizes, strides;
  for (int i = 0; i < input.dim(); i++)
    if (input.sizes()[i] != 1 || !(all || dims.contains(i))) {
      sizes.push_back(input.sizes()[i]);
      strides.push_back(input->strides[i]);
    }
  return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
}

struct Squeeze : View {
  static constexpr auto signature = "squeeze(Tensor input)";
  static constexpr auto doc = "squeeze(x): without the dimensions of size 1.";
  static Var forward(const Var& input) { return without_ones(input, {}, true); }
  static void vjp(Back& b, const In& input) { b[0] = ops::reshape(b.g(), input.sizes()); }
};
RL_OP(Squeeze)

struct SqueezeDim : View {
  static constexpr auto signature = "squeeze(Tensor input, int dim)";
  static constexpr auto grad_name = "SqueezeBackward1";
  static constexpr auto doc = "squeeze(x, dim): without this dimension if its size is 1.";
  static Var forward(const Var& input, int64_t dim) {
    return without_ones(input, {wrap_dim(dim, input.dim(), "squeeze")}, false);
  }
  static void vjp(Back& b, const In& input, int64_t) { b[0] = ops::reshape(b.g(), input.sizes()); }
};
RL_OP(SqueezeDim)

struct SqueezeDims : View {
  static constexpr auto signature = "squeeze(Tensor input, int[] dim)";
  static constexpr auto grad_name = "SqueezeBackward2";
  static constexpr auto doc = "squeeze(x, dims): without these dimensions where their size is 1.";
  static Var forward(const Var& input, const Ints& dim) {
    return without_ones(input, wrap_dims(dim, input.dim(), "squeeze"), false);
  }
  static void vjp(Back& b, const In& input, const Ints&) {
    b[0] = ops::reshape(b.g(), input.sizes());
  }
};
RL_OP(SqueezeDims)

struct Unsqueeze : View {
  static constexpr auto signature = "unsqueeze(Tensor input, int dim)";
  static constexpr auto doc = "unsqueeze(x, dim): with a dimension of size 1 inserted.";
  static Var forward(const Var& input, int64_t dim) {
    int at = int(wrap_dim(dim, input.dim() + 1));
    Ints sizes = input.sizes(), strides = input->strides;
    int64_t step = at < input.dim() ? sizes[at] * strides[at] : 1;
    sizes.insert(at, 1);
    strides.insert(at, step);
    return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  }
  static void vjp(Back& b, const In& input, int64_t) { b[0] = ops::reshape(b.g(), input.sizes()); }
};
RL_OP(Unsqueeze)

struct Select : View {
  static constexpr auto signature = "select(Tensor input, int dim, int index)";
  static constexpr auto doc = "select(x, dim, index): one slice of a dimension, which disappears.";
  static Var forward(const Var& input, int64_t dim, int64_t index) {
    if (input.dim() == 0)
      fail_as(PyExc_IndexError, "select() cannot be applied to a 0-dim tensor.");
    int d = int(wrap_dim(dim, input.dim()));
    int64_t n = input.sizes()[d];
    if (index < -n || index >= n)
      fail_as(PyExc_IndexError, "select(): index ", index, " out of range for tensor of size ",
              input.sizes(), " at dimension ", d);
    Ints sizes = input.sizes(), strides = input->strides;
    int64_t offset = input->offset + (index < 0 ? index + n : index) * strides[d];
    sizes.erase(d);
    strides.erase(d);
    return alias(input.get(), std::move(sizes), std::move(strides), offset);
  }
};
RL_OP(Select)

struct Slice : View {
  static constexpr auto signature =
      "_slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)";
  static constexpr auto grad_name = "SliceBackward0";
  static constexpr auto doc = "_slice(x, dim, start, end, step): what x[start:end:step] takes.";
  static constexpr bool method = false;
  static Var forward(const Var& input, int64_t dim, std::optional<int64_t> start,
                     std::optional<int64_t> end, int64_t step) {
    check(input.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
    check(step > 0, "slice step must be positive, got ", step);
    int d = int(wrap_dim(dim, input.dim()));
    int64_t n = input.sizes()[d];
    auto clip = [&](int64_t v) { return v < 0 ? std::max<int64_t>(v + n, 0) : std::min(v, n); };
    int64_t a = clip(start.value_or(0)), b = std::max(clip(end.value_or(n)), a);
    Ints sizes = input.sizes(), strides = input->strides;
    sizes[d] = (b - a + step - 1) / step;
    int64_t offset = input->offset + a * strides[d];
    strides[d] *= step;
    return alias(input.get(), std::move(sizes), std::move(strides), offset);
  }
};
RL_OP(Slice)

struct Narrow : Composite {
  static constexpr auto signature = "narrow(Tensor input, int dim, int start, int length)";
  static constexpr auto doc = "narrow(x, dim, start, length): a range of one dimension.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, int64_t start, int64_t length) {
    return ops::narrow(input, dim, start, length);
  }
};
RL_OP(Narrow)

struct Diagonal : View {
  static constexpr auto signature = "diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1)";
  static constexpr auto doc = "diagonal(x, offset, dim1, dim2): a diagonal, as the last dimension.";
  static Var forward(const Var& input, int64_t offset, int64_t dim1, int64_t dim2) {
    int a = int(wrap_dim(dim1, input.dim())), b = int(wrap_dim(dim2, input.dim()));
    check(a != b, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    int64_t rows = input.sizes()[a], cols = input.sizes()[b];
    int64_t length = offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols);
    length = std::max<int64_t>(length, 0);
    int64_t at = input->offset;
    if (length > 0) at += offset >= 0 ? offset * input->strides[b] : -offset * input->strides[a];
    Ints sizes, strides;
    for (int i = 0; i < input.dim(); i++)
      if (i != a && i != b) {
        sizes.push_back(input.sizes()[i]);
        strides.push_back(input->strides[i]);
      }
    sizes.push_back(length);
    strides.push_back(input->strides[a] + input->strides[b]);
    return alias(input.get(), std::move(sizes), std::move(strides), at);
  }
};
RL_OP(Diagonal)

struct Unfold : View {
  static constexpr auto signature = "unfold(Tensor input, int dimension, int size, int step)";
  static constexpr auto doc = "unfold(dimension, size, step): sliding windows, as a new last dim.";
  static constexpr bool function = false;
  static Var forward(const Var& input, int64_t dimension, int64_t size, int64_t step) {
    int d = int(wrap_dim(dimension, input.dim()));
    Ints sizes = input.sizes(), strides = input->strides;
    int64_t n = input.dim() ? sizes[d] : 1;
    check(size >= 0 && size <= n, "maximum size for tensor at dimension ", d, " is ", n,
          " but size is ", size);
    check(step > 0, "step is ", step, " but must be > 0");
    int64_t unit = input.dim() ? strides[d] : 1;
    if (input.dim()) {
      sizes[d] = (n - size) / step + 1;
      strides[d] = unit * step;
    }
    sizes.push_back(size);
    strides.push_back(unit);
    return alias(input.get(), std::move(sizes), std::move(strides), input->offset);
  }
};
RL_OP(Unfold)

Ints flattened(const Ints& sizes, int64_t start, int64_t end) {
  int a = int(wrap_dim(start, sizes.size())), b = int(wrap_dim(end, sizes.size()));
  check(a <= b, "flatten() has invalid args: start_dim cannot come after end_dim: ", start, ", ",
        end);
  if (sizes.empty()) return {1};
  Ints result;
  int64_t merged = 1;
  for (int i = 0; i < sizes.size(); i++) {
    if (i >= a && i <= b) {
      merged *= sizes[i];
      if (i == b) result.push_back(merged);
    } else {
      result.push_back(sizes[i]);
    }
  }
  return result;
}

struct Flatten : Composite {
  static constexpr auto signature = "flatten(Tensor input, int start_dim=0, int end_dim=-1)";
  static constexpr auto doc = "flatten(x, start_dim, end_dim): a range of dimensions made one.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t start_dim, int64_t end_dim) {
    Ints sizes = flattened(input.sizes(), start_dim, end_dim);
    return sizes == input.sizes() ? input : ops::reshape(input, sizes);
  }
};
RL_OP(Flatten)

struct Ravel : Composite {
  static constexpr auto signature = "ravel(Tensor input)";
  static constexpr auto doc = "ravel(x): all elements in one dimension, row-major without gaps.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    return ops::reshape(ops::contiguous(input), {input.numel()});
  }
};
RL_OP(Ravel)

struct Unflatten : Composite {
  static constexpr auto signature = "unflatten(Tensor input, int dim, int[] sizes)";
  static constexpr auto doc = "unflatten(x, dim, sizes): one dimension split into several.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t dim, const Ints& sizes) {
    int d = int(wrap_dim(dim, input.dim()));
    check(sizes.size() > 0, "unflatten: sizes must be non-empty");
    Ints parts;
    try {
      parts = infer_size(sizes, input.sizes()[d]);
    } catch (const Error&) {
      fail("unflatten: Provided sizes ", sizes, " don't multiply up to the size of dim ", d, " (",
           input.sizes()[d], ") in the input tensor");
    }
    Ints all;
    for (int i = 0; i < input.dim(); i++) {
      if (i != d) all.push_back(input.sizes()[i]);
      else
        for (int64_t s : parts) all.push_back(s);
    }
    return ops::reshape(input, all);
  }
};
RL_OP(Unflatten)

}  // namespace

namespace ops {

Var reshape(const Var& a, const Ints& wanted) {
  Ints sizes = infer_size(wanted, a.numel()), strides;
  if (view_strides(a.get(), sizes, strides)) return call<ViewOp>(a, sizes);
  return call<UnsafeView>(a, sizes);
}
Var transpose(const Var& a, int64_t dim0, int64_t dim1) { return call<Transpose>(a, dim0, dim1); }
Var permute(const Var& a, const Ints& dims) { return call<Permute>(a, dims); }
Var expand(const Var& a, const Ints& sizes) { return call<Expand>(a, sizes, false); }
Var alias_view(const Var& a) { return call<AliasView>(a); }
Var unsqueeze(const Var& a, int64_t dim) { return call<Unsqueeze>(a, dim); }
Var select(const Var& a, int64_t dim, int64_t index) { return call<Select>(a, dim, index); }
Var slice(const Var& a, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return call<Slice>(a, dim, start, end, step);
}
Var narrow(const Var& a, int64_t dim, int64_t start, int64_t length) {
  check(a.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  int d = int(wrap_dim(dim, a.dim()));
  int64_t n = a.sizes()[d];
  check(length >= 0, "narrow(): length must be non-negative, got ", length);
  if (start < -n || start > n)
    fail_as(PyExc_IndexError, "start out of range (expected to be in range of [", -n, ", ", n,
            "], but got ", start, ")");
  if (start < 0) start += n;
  check(length <= n - start, "start (", start, ") + length (", length, ") exceeds dimension size (",
        n, ").");
  return call<Slice>(a, dim, start, start + length, int64_t(1));
}
Var diagonal(const Var& a, int64_t offset, int64_t dim1, int64_t dim2) {
  return call<Diagonal>(a, offset, dim1, dim2);
}
Var squeeze(const Var& a, int64_t dim) { return call<SqueezeDim>(a, dim); }

}  // namespace ops
}  // namespace rl
