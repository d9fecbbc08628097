// Elements in another order or repeated: flip, roll, repeat, meshgrid, splits.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

struct Flip : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "flip(Tensor input, size dims)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc = "flip(x, dims): a copy with these dimensions in reverse.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& dims) {
    Ints reversed = wrap_dims(dims, input.dim(), "flip()");
    Var y = empty_like(input.get(), input.dtype());
    if (y.numel() == 0) return y;
    // The input is read backwards: negative strides from the far end.
    int64_t item = itemsize(input.dtype());
    const char* start = input->data();
    Ints from = input->strides, to = y->strides;
    for (int i = 0; i < input.dim(); i++) {
      from[i] *= item;
      to[i] *= item;
      if (reversed.contains(i)) {
        start += (input.sizes()[i] - 1) * from[i];
        from[i] = -from[i];
      }
    }
    Launch launch(double(y.numel()) * 2, {input.get(), y.get()});
    on(y).copy_strided(y.dtype(), y->data(), to.data(), y.dtype(), start, from.data(),
                       y->sizes.data(), y.dim());
    return y;
  }
  static void vjp(Back& b, const In&, const Ints& dims) { b[0] = ops::flip(b.g(), dims); }
};
RL_OP(Flip)

struct FlipLR : Composite {
  static constexpr auto signature = "fliplr(Tensor input)";
  static constexpr auto doc = "fliplr(x): the columns in reverse.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dim() >= 2, "fliplr(): Input must be >= 2-d., got ", input.dim(), "-d");
    return ops::flip(input, {1});
  }
};
RL_OP(FlipLR)

struct FlipUD : Composite {
  static constexpr auto signature = "flipud(Tensor input)";
  static constexpr auto doc = "flipud(x): the rows in reverse.";
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    check(input.dim() >= 1, "flipud(): Input must be >= 1-d., got a 0-d tensor");
    return ops::flip(input, {0});
  }
};
RL_OP(FlipUD)

struct Roll : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "roll(Tensor input, int[] shifts, int[] dims=())";
  static constexpr auto doc =
      "roll(x, shifts, dims): shifted along dims, what leaves one end entering at the other.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& shifts, const Ints& dims) {
    check(!shifts.empty(), "roll: `shifts` required");
    if (dims.empty() && shifts.size() == 1) {
      Var flat = shifted(ops::reshape(input, {-1}), shifts[0], 0);
      return alias(flat.get(), Ints(input.sizes()), contiguous_strides(input.sizes()), 0);
    }
    check(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
          ", dims:", dims.size());
    if (input.dim() == 0)
      fail_as(PyExc_IndexError, "Dimension specified as ", dims[0],
              " but tensor has no dimensions");
    Var y = input;
    for (int i = 0; i < dims.size(); i++)
      y = shifted(y, shifts[i], int(wrap_dim(dims[i], input.dim(), "roll")));
    return y;
  }
  static Var shifted(const Var& x, int64_t shift, int d) {
    if (x.numel() == 0) return empty_like(x.get(), x.dtype());
    int64_t n = x.sizes()[d], by = shift % n;
    if (by < 0) by += n;
    Var y = by ? empty_suggested(x.get(), x.sizes(), x.dtype())
               : empty(x.sizes(), x.dtype(), x.device());
    ops::copy_data(ops::narrow(y, d, by, n - by).get(), ops::narrow(x, d, 0, n - by).get());
    ops::copy_data(ops::narrow(y, d, 0, by).get(), ops::narrow(x, d, n - by, by).get());
    return y;
  }
  static Ints opposite(const Var& g, const Ints& shifts, const Ints& dims) {
    Ints back(shifts.size());
    for (int i = 0; i < shifts.size(); i++) {
      int64_t n = dims.empty() ? g.numel() : g.sizes()[int(wrap_dim(dims[i], g.dim()))];
      if (n > 0) back[i] = -(shifts[i] % n);
    }
    return back;
  }
  static void vjp(Back& b, const In&, const Ints& shifts, const Ints& dims) {
    b[0] = call<Roll>(b.g(), opposite(b.g(), shifts, dims), dims);
  }
};
RL_OP(Roll)

struct Rot90 : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "rot90(Tensor input, int k=1, int[]? dims=None)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto doc =
      "rot90(x, k, dims): rotated k quarter turns in the plane of dims (0, 1).";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t k, std::optional<Ints> plane) {
    Ints dims = plane.value_or(Ints{0, 1});
    check(dims.size() == 2, "expected total rotation dims == 2, but got dims = ", dims.size());
    check(input.dim() >= 2, "expected total dims >= 2, but got total dims = ", input.dim());
    int64_t a = wrap_dim(dims[0], input.dim(), "rot90"),
            b = wrap_dim(dims[1], input.dim(), "rot90");
    check(a != b, "expected rotation dims to be different, but got dim0 = ", dims[0],
          " and dim1 = ", dims[1]);
    switch ((k % 4 + 4) % 4) {
      case 1: return turned(input, b, a, b);
      case 2: return Flip::forward(input, {a, b});
      case 3: return turned(input, a, a, b);
      default: return row_major_copy(input);
    }
  }
  static Var turned(const Var& x, int64_t reversed, int64_t a, int64_t b) {
    Var y = Flip::forward(x, {reversed});
    Ints sizes = y.sizes(), strides = y->strides;
    std::swap(sizes[int(a)], sizes[int(b)]);
    std::swap(strides[int(a)], strides[int(b)]);
    return alias(y.get(), std::move(sizes), std::move(strides), 0);
  }
  static void vjp(Back& b, const In&, int64_t k, std::optional<Ints> plane) {
    b[0] = call<Rot90>(b.g(), -(k % 4), plane);
  }
};
RL_OP(Rot90)

// The sizes of x with each dimension split into (repeats, size), ones left out; `repeated` gets
// the places of the repeats.
struct Repetition {
  Ints sizes;    // of the result
  Ints split;    // repeats and sizes in turn
  Ints repeats;  // where in `split` the repeats are
  Repetition(const Ints& from, const Ints& times) {
    check(times.size() >= from.size(),
          "Number of dimensions of repeat dims can not be smaller "
          "than number of dimensions of tensor: ",
          times, " for ", from);
    int lead = times.size() - from.size();
    for (int i = 0; i < times.size(); i++) {
      int64_t size = i < lead ? 1 : from[i - lead], total;
      check(times[i] >= 0, "Trying to create tensor with negative dimension ", times[i] * size,
            ": repeats ", times);
      check(!__builtin_mul_overflow(times[i], size, &total), "repeat: too many elements: ", times);
      sizes.push_back(total);
      if (times[i] != 1) {
        repeats.push_back(split.size());
        split.push_back(times[i]);
      }
      if (size != 1) split.push_back(size);
    }
  }
};

struct Repeat : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "repeat(Tensor input, size repeats)";
  static constexpr auto doc = "repeat(*repeats): copies side by side along each dimension.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& repeats) {
    Repetition r(input.sizes(), repeats);
    Var y = empty(r.sizes, input.dtype(), input.device());
    Ints from;
    int lead = repeats.size() - input.dim();
    for (int i = 0; i < repeats.size(); i++) {
      if (repeats[i] != 1) from.push_back(0);
      if (i >= lead && input.sizes()[i - lead] != 1) from.push_back(input->strides[i - lead]);
    }
    Var whole = alias(y.get(), Ints(r.split), contiguous_strides(r.split), 0);
    Var part = alias(input.get(), Ints(r.split), std::move(from), input->offset);
    ops::copy_data(whole.get(), part.get());
    return y;
  }
  static void vjp(Back& b, const In& input, const Ints& repeats) {
    Repetition r(input.sizes(), repeats);
    Var g = ops::reshape(b.g(), r.split);
    if (!r.repeats.empty()) g = ops::sum(g, r.repeats, false);
    b[0] = ops::reshape(g, input.sizes());
  }
};
RL_OP(Repeat)

struct Tile : Composite {
  static constexpr auto signature = "tile(Tensor input, size dims)";
  static constexpr auto doc = "tile(x, dims): repeat, the missing leading repeats being 1.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& dims) {
    Ints times = dims;
    while (times.size() < input.dim()) times.insert(0, 1);
    return call<Repeat>(input, times);
  }
};
RL_OP(Tile)

// Each position as often as `repeats` says.
Var repeated_positions(const Var& repeats, std::optional<int64_t> output_size) {
  if (repeats.dtype() != DType::I64 && repeats.dtype() != DType::I32)
    fail_as(PyExc_NotImplementedError, "\"repeat_interleave_cpu\" not implemented for '",
            info(repeats.dtype()).tensor_name, "'");
  check(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat, got shape ",
        repeats.sizes());
  if (!has_data(repeats.get()) && output_size)
    return empty({*output_size}, DType::I64, repeats.device());
  GradMode off(false);
  Var times = ops::on_host(ops::contiguous(ops::to(repeats, DType::I64)));
  const int64_t* t = times->host<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < times.numel(); i++) {
    check(t[i] >= 0, "repeats can not be negative, got ", t[i]);
    check(!__builtin_add_overflow(total, t[i], &total), "repeat_interleave: too many elements");
  }
  check(!output_size || *output_size == total,
        "allocated size does not match required size: ", output_size.value_or(0), " and ", total);
  Var positions = empty({total}, DType::I64, times.device());
  int64_t* to = positions->host<int64_t>();
  for (int64_t i = 0; i < times.numel(); i++) to = std::fill_n(to, t[i], i);
  return ops::to(positions, DType::I64, repeats.device());
}

struct RepeatInterleavePositions : NonDifferentiable {
  static constexpr auto signature = "repeat_interleave(Tensor repeats, *, int? output_size=None)";
  static constexpr auto doc = "repeat_interleave(repeats): each index as often as repeats says.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& repeats, std::optional<int64_t> output_size) {
    return ops::to(repeated_positions(repeats, output_size), repeats.dtype());
  }
};
RL_OP(RepeatInterleavePositions)

struct RepeatInterleave : Composite {
  static constexpr auto signature =
      "repeat_interleave(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None)";
  static constexpr bool reads_numbers = true;
  static constexpr auto doc =
      "repeat_interleave(x, repeats, dim): each slice repeated in place, as often as repeats says.";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& repeats, std::optional<int64_t> dim,
                     std::optional<int64_t> output_size) {
    Var x = dim ? input : ops::reshape(input, {-1});
    int d = int(wrap_dim(dim.value_or(0), x.dim()));
    check(repeats.dim() <= 1, "repeats must be 0-dim or 1-dim tensor, got shape ", repeats.sizes());
    int64_t n = x.dim() ? x.sizes()[d] : 1;
    Var times = repeats;
    if (repeats.dim() == 0 || repeats.numel() == 1)
      times = ops::expand(ops::reshape(repeats, {1}), {n});
    check(times.numel() == n,
          "repeats must have the same size as input along dim, but got "
          "repeats.size(0) = ",
          times.numel(), " and input.size(", d, ") = ", n);
    return ops::index_select(x, d, repeated_positions(times, output_size));
  }
};
RL_OP(RepeatInterleave)

struct RepeatInterleaveNumber : Composite {
  static constexpr auto signature =
      "repeat_interleave(Tensor input, int repeats, int? dim=None, *, int? output_size=None)";
  static constexpr auto doc = "repeat_interleave(x, n, dim): each slice n times in a row.";
  static constexpr bool out = false;
  static Var forward(const Var& input, int64_t repeats, std::optional<int64_t> dim,
                     std::optional<int64_t> output_size) {
    check(repeats >= 0, "Repeats must be non-negative, got ", repeats);
    Var x = dim ? input : ops::reshape(input, {-1});
    if (x.dim() == 0)
      fail_as(PyExc_IndexError,
              "repeat_interleave: Dimension out of range: a 0-d tensor has no "
              "dimension ",
              *dim);
    int d = int(wrap_dim(dim.value_or(0), x.dim()));
    Ints wide = x.sizes(), sizes = x.sizes();
    check(!__builtin_mul_overflow(sizes[d], repeats, &sizes[d]),
          "repeat_interleave: too many elements");
    check(!output_size || *output_size == sizes[d],
          "allocated size does not match required size: ", output_size.value_or(0), " and ",
          sizes[d]);
    wide.insert(d + 1, repeats);
    Var spread = ops::expand(ops::unsqueeze(x, d + 1), wide);
    return ops::reshape(ops::contiguous(ops::clone(spread)), sizes);
  }
};
RL_OP(RepeatInterleaveNumber)

struct MeshGrid : Composite {
  static constexpr auto signature = "meshgrid(tensors tensors, *, str? indexing=None)";
  static constexpr auto doc =
      "meshgrid(*tensors, indexing='ij'): the coordinates of a grid; 'xy' swaps the first two.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Vars forward(const Vars& tensors, std::optional<std::string> indexing) {
    check(!tensors.empty(), "meshgrid expects a non-empty TensorList");
    check(tensors.size() <= 64, "meshgrid: a tensor has at most 64 dimensions, got ",
          tensors.size(), " tensors");
    std::string order = indexing.value_or("ij");
    check(order == "ij" || order == "xy",
          "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", order);
    Vars axes = tensors;
    bool swap = order == "xy" && axes.size() >= 2;
    if (swap) std::swap(axes[0], axes[1]);
    Ints sizes;
    SameDevice same("meshgrid");
    for (const Var& axis : axes) {
      same.need(axis.get());
      check(axis.dim() <= 1,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: ", axis.dim(),
            "D of shape ", axis.sizes());
      check(axis.dtype() == axes[0].dtype(),
            "meshgrid expects all tensors to have the same dtype, got ", name(axes[0].dtype()),
            " and ", name(axis.dtype()));
      sizes.push_back(axis.numel());
    }
    Vars grids;
    for (size_t i = 0; i < axes.size(); i++) {
      Ints shape(sizes.size(), 1);
      shape[int(i)] = sizes[int(i)];
      grids.push_back(ops::expand(ops::reshape(axes[i], shape), sizes));
    }
    if (swap) std::swap(grids[0], grids[1]);
    return grids;
  }
};
RL_OP(MeshGrid)

struct BroadcastTensors : Composite {
  static constexpr auto signature = "broadcast_tensors(tensors tensors)";
  static constexpr auto doc = "broadcast_tensors(*tensors): views expanded to a common shape.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Vars forward(const Vars& tensors) {
    Ints sizes;
    for (const Var& t : tensors) sizes = broadcast(sizes, t.sizes());
    Vars views;
    for (const Var& t : tensors) views.push_back(t.sizes() == sizes ? t : ops::expand(t, sizes));
    return views;
  }
};
RL_OP(BroadcastTensors)

#define RL_ATLEAST(Type, count)                                                                 \
  struct Type : Composite {                                                                     \
    static constexpr auto signature = "atleast_" #count "d(Tensor input)";                      \
    static constexpr auto doc =                                                                 \
        "atleast_" #count "d(x): with dimensions of 1 added up to " #count ".";                 \
    static constexpr bool method = false;                                                       \
    static constexpr bool out = false;                                                          \
    static Var forward(const Var& input) { return ops::atleast(input, count); }                 \
  };                                                                                            \
  RL_OP(Type)                                                                                   \
  struct Type##List : Composite {                                                               \
    static constexpr auto signature = "atleast_" #count "d(tensors tensors)";                   \
    static constexpr auto doc = "atleast_" #count "d(*tensors): the same for each of several."; \
    static constexpr bool method = false;                                                       \
    static constexpr bool out = false;                                                          \
    static Vars forward(const Vars& tensors) {                                                  \
      Vars raised;                                                                              \
      for (const Var& t : tensors) raised.push_back(ops::atleast(t, count));                    \
      return raised;                                                                            \
    }                                                                                           \
  };                                                                                            \
  RL_OP(Type##List)
RL_ATLEAST(AtLeast1D, 1)
RL_ATLEAST(AtLeast2D, 2)
RL_ATLEAST(AtLeast3D, 3)

// Pieces between the given positions, which are clipped as a slice's are.
Vars split_at(const Var& input, const Ints& indices, int64_t dim) {
  check(input.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor "
        "with 0 dims");
  wrap_dim(dim, input.dim());
  Vars parts;
  int64_t start = 0;
  for (int64_t end : indices) {
    parts.push_back(ops::slice(input, dim, start, end, 1));
    start = end;
  }
  parts.push_back(ops::slice(input, dim, start, INT64_MAX, 1));
  return parts;
}

Vars split_into(const Var& input, int64_t sections, int64_t dim) {
  check(input.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor "
        "with 0 dims");
  check(sections > 0, "number of sections must be larger than 0, got ", sections);
  int64_t n = input.sizes()[int(wrap_dim(dim, input.dim()))], start = 0;
  check(sections <= std::max<int64_t>(n, 1 << 20), "tensor_split: ", sections,
        " sections of a dimension of size ", n, " are too many");
  Vars parts;
  for (int64_t i = 0; i < sections; i++) {
    int64_t size = n / sections + (i < n % sections ? 1 : 0);
    parts.push_back(ops::slice(input, dim, start, start + size, 1));
    start += size;
  }
  return parts;
}

struct TensorSplitIndices : Composite {
  static constexpr auto signature =
      "tensor_split(Tensor input, Tensor tensor_indices_or_sections, "
      "int dim=0)";
  static constexpr bool reads_numbers = true;
  static constexpr auto doc = "tensor_split(x, t, dim): the count or the positions in a tensor.";
  static constexpr bool out = false;
  static Vars forward(const Var& input, const Var& where, int64_t dim) {
    check(where.dim() <= 1,
          "tensor_split expected tensor_indices_or_sections to be a "
          "zero-dimensional or one-dimensional tensor, but got a tensor with ",
          where.dim(), " dims");
    check(where.dtype() == DType::I64,
          "tensor_split expected tensor_indices_or_sections to have "
          "dtype of long, but got ",
          info(where.dtype()).tensor_name);
    Var at = [&] {
      GradMode off(false);
      return ops::on_host(ops::contiguous(where));
    }();
    if (where.dim() == 0) return split_into(input, *at->host<int64_t>(), dim);
    return split_at(input, Ints(at->host<int64_t>(), int(at.numel())), dim);
  }
};
RL_OP(TensorSplitIndices)

struct TensorSplit : Composite {
  static constexpr auto signature = "tensor_split(Tensor input, int sections, int dim=0)";
  static constexpr auto doc = "tensor_split(x, sections, dim): that many pieces, nearly equal.";
  static constexpr bool out = false;
  static Vars forward(const Var& input, int64_t sections, int64_t dim) {
    return split_into(input, sections, dim);
  }
};
RL_OP(TensorSplit)

struct TensorSplitAt : Composite {
  static constexpr auto signature = "tensor_split(Tensor input, int[] indices, int dim=0)";
  static constexpr auto doc = "tensor_split(x, indices, dim): pieces that end at these positions.";
  static constexpr bool out = false;
  static Vars forward(const Var& input, const Ints& indices, int64_t dim) {
    return split_at(input, indices, dim);
  }
};
RL_OP(TensorSplitAt)

int64_t split_dim(const Var& input, const char* op, int least, int64_t dim) {
  check(input.dim() >= least, "torch.", op, " requires a tensor with at least ", least,
        " dimension, but got a tensor with ", input.dim(), " dimensions!");
  return input.dim() == 1 ? 0 : dim;
}

#define RL_SPLIT(Type, word, least, along, text)                                                 \
  struct Type : Composite {                                                                      \
    static constexpr auto signature = word "(Tensor input, int sections)";                       \
    static constexpr auto doc = word "(x, sections): equal pieces along " text ".";              \
    static constexpr bool out = false;                                                           \
    static Vars forward(const Var& input, int64_t sections) {                                    \
      int64_t d = split_dim(input, word, least, along), n = input.sizes()[int(d)];               \
      check(sections > 0 && n % sections == 0,                                                   \
            "torch." word                                                                        \
            " attempted to split along "                                                         \
            "dimension ",                                                                        \
            d, ", but the size of the dimension ", n, " is not divisible by the split_size ",    \
            sections, "!");                                                                      \
      return split_into(input, sections, d);                                                     \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type)                                                                                    \
  struct Type##At : Composite {                                                                  \
    static constexpr auto signature = word "(Tensor input, int[] indices)";                      \
    static constexpr auto doc = word "(x, indices): pieces along " text " ending at positions."; \
    static constexpr bool out = false;                                                           \
    static Vars forward(const Var& input, const Ints& indices) {                                 \
      return split_at(input, indices, split_dim(input, word, least, along));                     \
    }                                                                                            \
  };                                                                                             \
  RL_OP(Type##At)
RL_SPLIT(HSplit, "hsplit", 1, 1, "the columns")
RL_SPLIT(VSplit, "vsplit", 2, 0, "the rows")
RL_SPLIT(DSplit, "dsplit", 3, 2, "the third dimension")

}  // namespace

namespace ops {

Var flip(const Var& a, const Ints& dims) { return call<Flip>(a, dims); }

Var atleast(const Var& a, int dims) {
  if (a.dim() >= dims) return a;
  if (a.dim() == 0) return reshape(a, Ints(dims, 1));
  if (dims == 2) return unsqueeze(a, 0);
  return a.dim() == 1 ? unsqueeze(unsqueeze(a, 0), 2) : unsqueeze(a, 2);
}

}  // namespace ops
}  // namespace rl
