// Views: other readings of the same memory.
#include "ops/op.h"

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
  if (t->numel == 0 || t->contiguous) {
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
    }
    return wrap_storage(retain(input->storage), sizes, strides, offset, dtype);
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
  static constexpr auto signature = "_reshape_copy(Tensor input, int[] size)";
  static constexpr auto grad_name = "UnsafeViewBackward0";
  static constexpr auto doc = "_reshape_copy(x, size): a row-major copy with another shape.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size) {
    Var copy = empty(input.sizes(), input.dtype());
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
  static constexpr auto signature = "squeeze(Tensor input, int[] dim)";
  static constexpr auto grad_name = "SqueezeBackward1";
  static constexpr auto doc = "squeeze(x, dim): without these dimensions where their size is 1.";
  static Var forward(const Var& input, const Ints& dim) {
    return without_ones(input, wrap_dims(dim, input.dim(), "squeeze"), false);
  }
  static void vjp(Back& b, const In& input, const Ints&) {
    b[0] = ops::reshape(b.g(), input.sizes());
  }
};
RL_OP(SqueezeDim)

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

// `region` is where the elements lie in a row-major tensor of the input's shape.
struct AsStridedView : View {
  static constexpr auto signature =
      "_as_strided(Tensor input, int[] size, int[] stride, int offset, int[] region, int start)";
  static constexpr auto grad_name = "AsStridedBackward0";
  static constexpr auto doc = "_as_strided(...): as_strided with the region worked out.";
  static constexpr bool method = false;
  static constexpr bool function = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride, int64_t offset,
                     const Ints&, int64_t) {
    return alias(input.get(), size, stride, offset);
  }
  static void vjp(Back& b, const In& input, const Ints&, const Ints&, int64_t, const Ints& region,
                  int64_t start) {
    b[0] = ops::embed(b.g(), input.sizes(), region, start);
  }
};
RL_OP(AsStridedView)

struct AsStrided : Composite {
  static constexpr auto signature =
      "as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None)";
  static constexpr auto doc = "as_strided(x, size, stride, offset): any reading of the storage.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride,
                     std::optional<int64_t> storage_offset) {
    int64_t offset = storage_offset.value_or(input->offset);
    check_region(input.get(), size, stride, offset);
    Region r{input.sizes(), size, stride, offset - input->offset};
    if (requires_grad(input.get())) {
      r = region_in(input.get(), size, stride, offset);
      if (r.offset < 0 || !fits(r))
        fail("as_strided: the view reaches outside of its input (sizes ", input.sizes(),
             "), so it has no gradient; detach() it first");
    }
    return call<AsStridedView>(input, size, stride, offset, r.strides, r.offset);
  }
  static bool fits(const Region& r) {
    int64_t last = r.offset;
    for (int i = 0; i < r.sizes.size(); i++) {
      if (r.sizes[i] == 0) return true;
      last += (r.sizes[i] - 1) * r.strides[i];
    }
    return last < element_count(r.whole);
  }
};
RL_OP(AsStrided)

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
  static constexpr auto doc = "ravel(x): all elements in one dimension.";
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::reshape(input, {-1}); }
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

// Several views at once; the gradients that arrive are laid side by side.
void cat_grads(Back& b, const In& input, int64_t dim, int count) {
  Var whole = ops::zeros(input.sizes(), input.dtype());
  int64_t start = 0;
  Vars parts;
  for (int i = 0; i < count; i++) parts.push_back(b.g_or_zeros(i));
  if (b.create_graph()) {
    b[0] = ops::cat(parts, dim);
    return;
  }
  for (const Var& part : parts) {
    Var region = call<Slice>(whole, dim, start, start + part.size(int(dim)), int64_t(1));
    ops::copy_data(region.get(), part.get());
    start += part.size(int(dim));
  }
  b[0] = whole;
}

Vars split_by(const Var& input, const Ints& lengths, int d) {
  Vars parts;
  int64_t start = 0;
  for (int64_t n : lengths) {
    Ints sizes = input.sizes();
    sizes[d] = n;
    parts.push_back(
        alias(input.get(), sizes, input->strides, input->offset + start * input->strides[d]));
    start += n;
  }
  return parts;
}

Ints even_lengths(const Var& input, int64_t size, int d) {
  int64_t n = input.sizes()[d];
  check(size > 0 || (size == 0 && n == 0),
        "split expects split_size be non-negative, but got "
        "split_size=",
        size);
  Ints lengths;
  for (int64_t start = 0; start < n; start += size) lengths.push_back(std::min(size, n - start));
  if (lengths.empty()) lengths.push_back(0);
  return lengths;
}

struct Split : View {
  static constexpr auto signature = "split(Tensor input, int split_size, int dim=0)";
  static constexpr auto doc = "split(x, split_size, dim): pieces of a size; the last is shorter.";
  static Vars forward(const Var& input, int64_t split_size, int64_t dim) {
    check(input.dim() > 0, "split expects at least a 1-dimensional tensor");
    int d = int(wrap_dim(dim, input.dim()));
    check(split_size >= 0,
          "split expects split_size be non-negative, but got split_size=", split_size);
    return split_by(input, even_lengths(input, split_size, d), d);
  }
  static void vjp(Back& b, const In& input, int64_t split_size, int64_t dim) {
    int64_t d = wrap_dim(dim, input.dim()), n = input.size(int(d));
    cat_grads(b, input, d, n == 0 ? 1 : int((n + split_size - 1) / split_size));
  }
};
RL_OP(Split)

struct SplitWithSizes : View {
  static constexpr auto signature = "split(Tensor input, int[] split_size, int dim=0)";
  static constexpr auto grad_name = "SplitWithSizesBackward0";
  static constexpr auto doc = "split(x, sizes, dim): pieces of the given sizes.";
  static Vars forward(const Var& input, const Ints& split_size, int64_t dim) {
    check(input.dim() > 0, "split expects at least a 1-dimensional tensor");
    int d = int(wrap_dim(dim, input.dim()));
    int64_t total = 0;
    for (int64_t n : split_size) {
      check(n >= 0,
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            "split_sizes=",
            split_size);
      total += n;
    }
    check(total == input.sizes()[d], "split_with_sizes expects split_sizes to sum exactly to ",
          input.sizes()[d], " (input tensor's size at dimension ", d,
          "), but got split_sizes=", split_size);
    return split_by(input, split_size, d);
  }
  static void vjp(Back& b, const In& input, const Ints& split_size, int64_t dim) {
    cat_grads(b, input, wrap_dim(dim, input.dim()), split_size.size());
  }
};
RL_OP(SplitWithSizes)

struct Chunk : Composite {
  static constexpr auto signature = "chunk(Tensor input, int chunks, int dim=0)";
  static constexpr auto doc = "chunk(x, chunks, dim): about that many pieces of equal size.";
  static constexpr bool out = false;
  static Vars forward(const Var& input, int64_t chunks, int64_t dim) {
    check(input.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    check(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
    int d = int(wrap_dim(dim, input.dim()));
    int64_t n = input.sizes()[d], size = (n + chunks - 1) / chunks;
    if (n == 0) return call<SplitWithSizes>(input, Ints(int(chunks), 0), dim);
    return call<Split>(input, size, dim);
  }
};
RL_OP(Chunk)

struct Unbind : View {
  static constexpr auto signature = "unbind(Tensor input, int dim=0)";
  static constexpr auto doc = "unbind(x, dim): every slice of a dimension, as a tuple.";
  static Vars forward(const Var& input, int64_t dim) {
    if (input.dim() == 0)
      fail_as(PyExc_IndexError, "Dimension specified as ", dim, " but tensor has no dimensions");
    int d = int(wrap_dim(dim, input.dim()));
    Vars parts;
    for (int64_t i = 0; i < input.sizes()[d]; i++) {
      Ints sizes = input.sizes(), strides = input->strides;
      int64_t offset = input->offset + i * strides[d];
      sizes.erase(d);
      strides.erase(d);
      parts.push_back(alias(input.get(), std::move(sizes), std::move(strides), offset));
    }
    return parts;
  }
  static void vjp(Back& b, const In& input, int64_t dim) {
    int64_t d = wrap_dim(dim, input.dim());
    Vars parts;
    for (int i = 0; i < int(input.size(int(d))); i++)
      parts.push_back(ops::unsqueeze(b.g_or_zeros(i), d));
    b[0] = parts.empty() ? ops::zeros(input.sizes(), input.dtype()) : ops::cat(parts, d);
  }
};
RL_OP(Unbind)

struct ViewAsReal : View {
  static constexpr auto signature = "view_as_real(Tensor input)";
  static constexpr auto doc = "view_as_real(x): real and imaginary parts as a last dimension of 2.";
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    check(is_complex(input.dtype()), "view_as_real is only supported for complex tensors, got ",
          name(input.dtype()));
    Ints sizes = input.sizes(), strides = input->strides;
    for (int i = 0; i < strides.size(); i++) strides[i] *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    return wrap_storage(retain(input->storage), sizes, strides, input->offset * 2,
                        real_of(input.dtype()));
  }
  static void vjp(Back& b, const In&) { b[0] = ops::view_as_complex(ops::contiguous(b.g())); }
};
RL_OP(ViewAsReal)

struct ViewAsComplex : View {
  static constexpr auto signature = "view_as_complex(Tensor input)";
  static constexpr auto doc =
      "view_as_complex(x): the last dimension of 2 read as complex numbers.";
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    check(
        input.dtype() == DType::F32 || input.dtype() == DType::F64,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
        "scalar type: ",
        info(input.dtype()).tensor_name);
    check(input.dim() > 0 && input.size(-1) == 2, "Tensor must have a last dimension of size 2");
    check(input->strides.back() == 1, "Tensor must have a last dimension with stride 1");
    check(input->offset % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    Ints sizes = input.sizes(), strides = input->strides;
    sizes.erase(sizes.size() - 1);
    strides.erase(strides.size() - 1);
    for (int i = 0; i < strides.size(); i++) {
      check(strides[i] % 2 == 0,
            "Tensor must have a stride divisible by 2 for all but last "
            "dimension");
      strides[i] /= 2;
    }
    return wrap_storage(retain(input->storage), sizes, strides, input->offset / 2,
                        complex_of(input.dtype()));
  }
  static void vjp(Back& b, const In&) { b[0] = ops::view_as_real(ops::contiguous(b.g())); }
};
RL_OP(ViewAsComplex)

}  // namespace

namespace ops {

Var view_as_real(const Var& a) { return call<ViewAsReal>(a); }
Var view_as_complex(const Var& a) { return call<ViewAsComplex>(a); }

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
  check(start + length <= n, "start (", start, ") + length (", length, ") exceeds dimension size (",
        n, ").");
  return call<Slice>(a, dim, start, start + length, int64_t(1));
}
Var as_strided(const Var& a, const Ints& sizes, const Ints& strides, int64_t offset) {
  return call<AsStrided>(a, sizes, strides, a->offset + offset);
}
Var diagonal(const Var& a, int64_t offset, int64_t dim1, int64_t dim2) {
  return call<Diagonal>(a, offset, dim1, dim2);
}

}  // namespace ops
}  // namespace rl
