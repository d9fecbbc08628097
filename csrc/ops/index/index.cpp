// x[i, j, ...] with index tensors.
#include "ops/index/index.h"

#include "call/broadcast.h"
#include "call/layout.h"
#include "call/values.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "tensor/strides.h"

namespace rl {

namespace {

// What C++ calls each element type, as torch's messages do.
const char* const kNativeNames[kDTypes] = {"bool",
                                           "uint8_t",
                                           "int8_t",
                                           "int16_t",
                                           "int",
                                           "int64_t",
                                           "c10::Half",
                                           "c10::BFloat16",
                                           "float",
                                           "double",
                                           "c10::complex<float>",
                                           "c10::complex<double>",
                                           "uint16_t",
                                           "uint32_t",
                                           "uint64_t",
                                           "c10::Float8_e4m3fn",
                                           "c10::Float8_e5m2",
                                           "c10::Float8_e4m3fnuz",
                                           "c10::Float8_e5m2fnuz",
                                           "c10::Float8_e8m0fnu",
                                           "c10::complex<c10::Half>"};

bool overflows(double value, DType to) {
  switch (to) {
    case DType::U8: return !(std::abs(value) <= 255);
    case DType::I8: return !(value >= -128 && value <= 127);
    case DType::I16: return !(value >= -32768 && value <= 32767);
    case DType::I32: return !(value >= -2147483648.0 && value <= 2147483647.0);
    case DType::I64: return !(value >= -0x1p63 && value <= 0x1p63);
    case DType::U16: return !(std::abs(value) <= 65535);
    case DType::U32: return !(std::abs(value) <= 4294967295.0);
    case DType::U64: return !(std::abs(value) <= 0x1p64);
    case DType::E4M3FN: return std::isfinite(value) && std::abs(value) > 448;
    case DType::E4M3FNUZ: return std::isfinite(value) && std::abs(value) > 240;
    case DType::E5M2:
    case DType::E5M2FNUZ: return std::isfinite(value) && std::abs(value) > 57344;
    case DType::C32:
    case DType::F16: return std::isfinite(value) && std::abs(value) > 65504;
    case DType::BF16: return std::isfinite(value) && std::abs(value) > 3.38953139e38;
    case DType::F32:
    case DType::C64: return std::isfinite(value) && std::abs(value) > 3.40282347e38;
    default: return false;
  }
}

}  // namespace

void check_index_type(const Var& index, const char* op, const char* expected) {
  check(index.dtype() == DType::I64 || index.dtype() == DType::I32, op, ": Expected dtype ",
        expected, " for index but got: ", info(index.dtype()).tensor_name);
}

namespace {

// Raises where the type has no such number; where there are elements to look at.
void check_fits(const Var& value, DType dtype) {
  if (!has_data(value.get())) return;
  Unrecorded once;
  bool large = value.dtype() == DType::U64 && dtype == DType::I64 && ops::whole_number(value) < 0;
  c128 z;
  on_host().convert(DType::C128, &z, 16, value.dtype(), ops::on_host(value)->host<char>(), 16, 1);
  if (large || (z.imag() != 0 && !is_complex(dtype)) || overflows(z.real(), dtype) ||
      overflows(z.imag(), dtype))
    fail("value cannot be converted to type ", kNativeNames[int(dtype)], " without overflow");
}

}  // namespace

Var scalar_of(const Var& value, DType dtype, Device device) {
  check_fits(value, dtype);
  Plain plain;
  Var number = empty({}, dtype, device);
  ops::copy_data(number.get(), value.get());
  return number;
}

void check_fill(const Var& value, DType dtype) {
  if (value.dtype() == dtype || dtype == DType::Bool) return;
  Plain plain;
  check_fits(alias(value.get(), {}, {}, value->offset), dtype);
}

void check_number(const Var& value, DType dtype) {
  bool half = dtype == DType::F16 || dtype == DType::BF16;
  if (!half || is_complex(value.dtype())) check_fill(value, dtype);
}

Var row_major_copy(const Var& v) {
  Var copy = empty(v.sizes(), v.dtype(), v.device());
  ops::copy_data(copy.get(), v.get());
  return copy;
}

namespace {

// The dimensions that index tensors address, as one.
struct Addressed {
  Ints shape;               // the index tensors, broadcast together
  Vars indices;             // contiguous, of that shape
  std::vector<Ints> steps;  // their strides in that shape as given; none: all were row-major
  Ints dims;                // the dimension of each
  bool adjacent;            // the dimensions follow each other: the result keeps their place
  Ints sizes;               // of the result
  int at;                   // where shape lies in it
  int64_t count;
};

Addressed resolve(const Tensor* x, const Vars& indices) {
  Addressed a;
  if (int(indices.size()) > x->dim())
    fail_as(PyExc_IndexError, "too many indices for tensor of dimension ", x->dim(), " (got ",
            indices.size(), ")");
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i]) continue;
    a.dims.push_back(int64_t(i));
    a.indices.push_back(indices[i]);
    try {
      a.shape = a.dims.size() == 1 ? indices[i].sizes() : broadcast(a.shape, indices[i].sizes());
    } catch (const Error&) {
      std::string shapes;
      for (const Var& v : indices)
        if (v) shapes += concat(shapes.empty() ? "" : ", ", v.sizes());
      fail_as(PyExc_IndexError,
              "shape mismatch: indexing tensors could not be broadcast together with shapes ",
              shapes);
    }
  }
  Ints rows = contiguous_strides(a.shape);
  bool all_rows = true;
  for (Var& v : a.indices) {
    if (!(v.sizes() == a.shape)) v = ops::expand(v, a.shape);
    all_rows &= v->strides == rows;
  }
  for (Var& v : a.indices) {
    if (!all_rows) a.steps.push_back(v->strides);
    v = ops::contiguous(v);
  }
  a.count = element_count(a.shape);
  a.adjacent = true;
  for (int k = 1; k < a.dims.size(); k++) a.adjacent &= a.dims[k] == a.dims[k - 1] + 1;
  a.at = a.adjacent && !a.dims.empty() ? int(a.dims[0]) : 0;
  Ints rest;
  for (int i = 0; i < x->dim(); i++)
    if (!a.dims.contains(i)) rest.push_back(x->sizes[i]);
  for (int i = 0; i < a.at; i++) a.sizes.push_back(rest[i]);
  for (int64_t s : a.shape) a.sizes.push_back(s);
  for (int i = a.at; i < rest.size(); i++) a.sizes.push_back(rest[i]);
  for (int k = 0; k < a.dims.size(); k++) {
    int64_t size = x->sizes[int(a.dims[k])];
    const Var& index = a.indices[size_t(k)];
    kernel::Outside bad = on(index).find_out_of_range(index->data<int64_t>(), a.count, size);
    if (bad)
      fail_as(PyExc_IndexError, "index ", bad.value, " is out of bounds for dimension ", a.dims[k],
              " with size ", size);
  }
  return a;
}

// Sums of the indices, each times the step of its dimension.
Var linear(const Addressed& a, const Tensor* x, const Ints& steps) {
  if (a.dims.size() == 1 && steps[int(a.dims[0])] == 1) {
    const Var& only = a.indices[0];
    if (!on(only).find_outside(only->data<int64_t>(), a.count, x->sizes[int(a.dims[0])]))
      return only;
  }
  Var flat = empty({a.count}, DType::I64, x->device());
  for (int k = 0; k < a.dims.size(); k++)
    on(flat).linear_index(a.indices[size_t(k)]->data<int64_t>(), a.count, x->sizes[int(a.dims[k])],
                          steps[int(a.dims[k])], k > 0, flat->data<int64_t>());
  return flat;
}

// A row-major tensor read as [outer, n, inner] with n the addressed dimensions.
struct Rows {
  int64_t outer = 1, n = 1, inner = 1;
  Ints steps;
  Rows(const Addressed& a, const Tensor* x) : steps(x->dim()) {
    for (int i = 0; i < x->dim(); i++)
      (a.dims.contains(i) ? n : i < a.at ? outer : inner) *= x->sizes[i];
    int64_t step = 1;
    for (int k = a.dims.size() - 1; k >= 0; k--) {
      steps[int(a.dims[k])] = step;
      step *= x->sizes[int(a.dims[k])];
    }
  }
};

// The other layouts: positions of the result with the index shape as one dimension, and for each
// the bytes to go in x and in the flat index.
struct Walk {
  Ints sizes, x, index, bytes;
  int dim;
  Walk(const Addressed& a, const Tensor* t) : bytes(t->dim()), dim(a.at) {
    int64_t item = itemsize(t->dtype);
    for (int i = 0; i < t->dim(); i++) {
      bytes[i] = t->strides[i] * item;
      if (a.dims.contains(i)) continue;
      if (sizes.size() == dim) add_index(a.count);
      add(t->sizes[i], bytes[i], 0);
    }
    if (sizes.size() == dim) add_index(a.count);
  }
  void add_index(int64_t count) { add(count, 1, int64_t(sizeof(int64_t))); }
  void add(int64_t size, int64_t x_step, int64_t index_step) {
    sizes.push_back(size);
    x.push_back(x_step);
    index.push_back(index_step);
  }
  Ints result_strides(int64_t item) const {
    Ints strides = contiguous_strides(sizes);
    for (int i = 0; i < strides.size(); i++) strides[i] *= item;
    return strides;
  }
};

// Whether x and the indices are row-major, and so is what they make.
bool in_rows(const Addressed& a, const Tensor* x) {
  return a.steps.empty() && x->contiguous && x->strides == contiguous_strides(x->sizes);
}

// The result's dimensions lie as x's do, and those of the indices as they lie there.
Ints indexed_strides(const Addressed& a, const Tensor* x) {
  Ints rest;
  for (int i = 0; i < x->dim(); i++)
    if (!a.dims.contains(i)) rest.push_back(x->strides[i]);
  std::vector<Ints> given = a.steps;
  if (given.empty()) given.push_back(contiguous_strides(a.shape));
  std::vector<Ints> operands(given.size() + 1, Ints(a.sizes.size(), 0));
  for (int i = 0; i < rest.size(); i++) operands[0][i < a.at ? i : i + a.shape.size()] = rest[i];
  // An index is read as a view with the result's rank: it has a say in dimensions of size 1.
  for (size_t k = 0; k < given.size(); k++)
    for (int i = 0; i < a.sizes.size(); i++) {
      int at = i - a.at;
      if (at >= 0 && at < a.shape.size()) operands[k + 1][i] = given[k][at];
      else if (a.sizes[i] == 1 && !a.shape.empty())
        operands[k + 1][i] = at < 0 ? a.shape[0] * given[k][0] : given[k].back();
    }
  return ordered_strides(a.sizes, operands.data(), int(operands.size()));
}

Vars read_all(const InList& list) {
  Vars vars;
  for (const In& in : list) vars.push_back(in ? *in : Var());
  return vars;
}

// Indices into a tensor with its hidden dimensions in front: each sample meets its own part.
struct BehindHidden {
  Vars indices;
  Ints order;  // of the result's dimensions; empty: as they come

  BehindHidden(const HiddenDims& hidden, const Var& input, const Vars& given) {
    int count = hidden.count(), rank = 0, first = -1, last = -1, used = 0;
    for (int i = 0; i < int(given.size()); i++) {
      if (!given[size_t(i)]) continue;
      rank = std::max(rank, given[size_t(i)].dim());
      if (first < 0) first = i;
      last = i;
      used++;
    }
    for (int i = 0; i < count; i++) {
      Ints sizes(count + rank, 1);
      sizes[i] = hidden.sizes[i];
      indices.push_back(ops::reshape(ops::counting(hidden.sizes[i], input.device()), sizes));
    }
    for (const Var& v : given) indices.push_back(v ? hidden.front(v, rank - v.dim()) : v);
    indices.resize(size_t(count + input.dim()));
    // Dimensions before adjacent indices stay in front of them.
    if (first <= 0 || last - first + 1 != used) return;
    for (int i = 0; i < count; i++) order.push_back(i);
    for (int i = 0; i < first; i++) order.push_back(count + rank + i);
    for (int i = 0; i < rank; i++) order.push_back(count + i);
    for (int i = first; i < input.dim() - used; i++) order.push_back(count + rank + i);
  }
};

struct Index : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_index(Tensor input, Tensor[] indices)";
  static constexpr auto grad_name = "IndexBackward0";
  static constexpr auto doc = "_index(x, indices): x[indices] for an int64 tensor per dimension.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "indices";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Vars& indices) {
    Addressed a = resolve(input.get(), indices);
    if (a.dims.empty()) return row_major_copy(input);
    if (in_rows(a, input.get())) {
      Var y = empty(a.sizes, input.dtype(), input.device());
      read(a, input, y.get());
      return y;
    }
    Var y = empty_strided(a.sizes, indexed_strides(a, input.get()), input.dtype(), input.device());
    if (y->contiguous || a.shape.size() == 1) {
      read(a, input, y.get());
    } else {
      Var rows = empty(a.sizes, input.dtype(), input.device());
      read(a, input, rows.get());
      ops::copy_data(y.get(), rows.get());
    }
    return y;
  }
  // y is row-major, or the indices have one dimension.
  static void read(const Addressed& a, const Var& input, Tensor* y) {
    if (y->numel == 0) return;
    int64_t item = itemsize(input.dtype());
    if (input->contiguous && a.adjacent && y->contiguous) {
      Rows rows(a, input.get());
      Var flat = linear(a, input.get(), rows.steps);
      Launch launch(double(y->numel), {input.get(), flat.get(), y});
      on(input).index_select(item, input->data(), flat->data<int64_t>(), y->data(), rows.outer,
                             rows.n, rows.inner, a.count);
      return;
    }
    Walk walk(a, input.get());
    Var flat = linear(a, input.get(), walk.bytes);
    Ints to = walk.result_strides(item);
    if (!y->contiguous)
      for (int i = 0; i < to.size(); i++) to[i] = y->strides[i] * item;
    Launch launch(double(y->numel) * 2, {input.get(), flat.get(), y});
    on(input).gather(item, input->data(), walk.x.data(), flat->data<int64_t>(), walk.index.data(),
                     y->data(), to.data(), walk.sizes.data(), walk.sizes.size(), walk.dim, 0);
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Vars& indices) {
    BehindHidden behind(hidden, input, indices);
    Var y = forward(hidden.front(input), behind.indices);
    return behind.order.empty() ? y : ops::permute(y, behind.order);
  }
  static void vjp(Back& b, const In& input, const InList& indices) {
    Var zeros = ops::zeros(input.sizes(), b.g().dtype(), b.g().device());
    b[0] = ops::index_put(zeros, read_all(indices), b.g(), true);
  }
};

// The values in the shape that is written: a number as it is, anything else row-major.
Var shaped_values(const Addressed& a, const Tensor* values, const Tensor* into) {
  Var v = Var(const_cast<Tensor*>(values));
  if (!can_expand(v.sizes(), a.sizes))
    fail("shape mismatch: value tensor of shape ", v.sizes(),
         " cannot be broadcast to indexing result of shape ", a.sizes);
  v = ops::to(v, into->dtype, into->device());
  if (v.numel() == 1) return v;
  return ops::contiguous(v.sizes() == a.sizes ? v : ops::expand(v, a.sizes));
}

void put(Tensor* x, const Addressed& a, const Var& values, bool accumulate) {
  if (a.dims.empty()) {
    accumulate ? ops::accumulate_into(x, values.get()) : ops::copy_data(x, values.get());
    return;
  }
  if (element_count(a.sizes) == 0) return;
  bool rows_match = x->contiguous && a.adjacent && values.sizes() == a.sizes;
  double work = 2 * double(element_count(a.sizes));
  if (rows_match && (accumulate || a.count < element_count(a.sizes))) {
    Rows rows(a, x);
    Var flat = linear(a, x, rows.steps);
    Launch launch(work, {x, flat.get(), values.get()});
    if (accumulate)
      on(x).index_add(x->dtype, x->data(), flat->data<int64_t>(), values->data(), rows.outer,
                      rows.n, rows.inner, a.count, 1);
    else
      on(x).index_write(itemsize(x->dtype), x->data(), flat->data<int64_t>(), values->data(),
                        rows.outer, rows.n, rows.inner, a.count);
    return;
  }
  Walk walk(a, x);
  Var flat = linear(a, x, walk.bytes);
  Ints from =
      values.sizes() == a.sizes ? walk.result_strides(itemsize(x->dtype)) : Ints(walk.sizes.size());
  Launch launch(work, {x, flat.get(), values.get()});
  DType d = accumulate ? x->dtype : moved_as(x->dtype);
  on(x).scatter(d, accumulate ? kernel::Scatter::Add : kernel::Scatter::Set, x->data(),
                walk.x.data(), flat->data<int64_t>(), walk.index.data(), values->data(),
                from.data(), walk.sizes.data(), walk.sizes.size(), walk.dim, 0);
}

struct IndexPut : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "_index_put(Tensor input, Tensor[] indices, Tensor values, bool accumulate)";
  static constexpr auto grad_name = "IndexPutBackward0";
  static constexpr auto doc = "_index_put(x, indices, values, accumulate): x with x[indices] set.";
  static constexpr Family family = Family::Indexing;
  static constexpr auto saves = "indices";
  static constexpr bool method = false;
  static Var forward(const Var& input, const Vars& indices, const Var& values, bool accumulate) {
    Var result = empty_like(input.get(), input.dtype());
    ops::copy_data(result.get(), input.get());
    ops::index_put_into(result.get(), indices, values.get(), accumulate);
    return result;
  }
  static Var batched(const HiddenDims& hidden, const Var& input, const Vars& indices,
                     const Var& values, bool accumulate) {
    BehindHidden behind(hidden, input, indices);
    Var x = ops::contiguous(hidden.front(input));
    int rank = resolve(x.get(), behind.indices).sizes.size() - hidden.count();
    Var v = hidden.front(values, std::max(0, rank - values.dim()));
    if (!behind.order.empty()) {
      Ints back(behind.order.size());
      for (int i = 0; i < back.size(); i++) back[int(behind.order[i])] = i;
      v = ops::permute(v, back);
    }
    return forward(x, behind.indices, v, accumulate);
  }
  static void vjp(Back& b, const In&, const InList& indices, const In&, bool accumulate) {
    Vars at = read_all(indices);
    int last = int(at.size()) + 1;
    if (b.wants(0))
      b[0] = accumulate
                 ? b.g()
                 : ops::index_put(b.g(), at, ops::zeros({}, b.g().dtype(), b.g().device()), false);
    if (b.wants(last)) b[last] = ops::index(b.g(), at);
  }
};

// Index tensors as users give them: masks become indices, integers int64.
Vars plain_indices(const Var& input, const Vars& given) {
  GradMode off(false);
  Vars plain;
  for (size_t k = 0; k < given.size(); k++) {
    const Var& v = given[k];
    if (v.dtype() != DType::Bool && v.dtype() != DType::U8) {
      if (v.dtype() != DType::I64 && v.dtype() != DType::I32)
        fail_as(PyExc_IndexError,
                "tensors used as indices must be long, int, byte or bool tensors, got ",
                name(v.dtype()));
      plain.push_back(ops::to(ops::index_on(input.device(), v), DType::I64));
      continue;
    }
    for (int i = 0; i < v.dim(); i++) {
      int d = int(plain.size()) + i;
      if (d >= input.dim() || input.sizes()[d] != v.sizes()[i])
        fail_as(PyExc_IndexError, "The shape of the mask ", v.sizes(), " at index ", i,
                " does not match the shape of the indexed tensor ", input.sizes(), " at index ", d);
    }
    Var places = ops::index_on(input.device(), ops::nonzero(v));
    for (int i = 0; i < v.dim(); i++) plain.push_back(ops::select(places, 1, i));
  }
  return plain;
}

struct IndexPutPublic : Composite {
  static constexpr auto signature =
      "index_put(Tensor input, Tensor[] indices, Tensor values, bool accumulate=False)";
  static constexpr auto doc =
      "index_put(x, indices, values, accumulate): a copy of x with x[indices] = values (or +=).";
  static constexpr Family family = Family::Indexing;
  static constexpr bool inplace = true;
  static constexpr bool out = false;
  static constexpr bool any_devices = true;
  static Var forward(const Var& input, const Vars& indices, const Var& values, bool accumulate) {
    Var fitting = fitted(input, indices, values, accumulate);
    return ops::index_put(input, plain_indices(input, indices), fitting, accumulate);
  }
  static void into(Tensor*, bool, const Var& input, const Vars& indices, const Var& values,
                   bool accumulate) {
    Var fitting = fitted(input, indices, values, accumulate);
    ops::write_indexed(input, plain_indices(input, indices), fitting, accumulate);
  }
  // One value for the places of masks is a number of any type; others must match.
  static Var fitted(const Var& input, const Vars& indices, const Var& values, bool accumulate) {
    bool masked = !accumulate && values.numel() == 1;
    for (const Var& v : indices) masked = masked && v.dtype() == DType::Bool;
    if (masked) check_fill(values, input.dtype());
    check(masked || input.dtype() == values.dtype(),
          "Index put requires the source and destination dtypes match, got ",
          info(input.dtype()).tensor_name, " for the destination and ",
          info(values.dtype()).tensor_name, " for the source.");
    return masked && values.dim() > 0 ? ops::reshape(values, {}) : values;
  }
};
RL_OP(IndexPutPublic)

}  // namespace

namespace ops {

Var index(const Var& a, const Vars& indices) { return call<Index>(a, indices); }
Var index_put(const Var& a, const Vars& indices, const Var& values, bool accumulate) {
  return call<IndexPut>(a, indices, values, accumulate);
}

Var index_on(Device device, const Var& index) {
  if (index.device() == device) return index;
  check(index.device() == kHost,
        "indices should be either on cpu or on the same device as the indexed tensor (",
        device_text(device), "), got one on ", device_text(index.device()));
  return ops::to(index, index.dtype(), device);
}

void admit_put(const Var& x, const Vars& indices, const Var& values) {
  // A single number goes to any GPU, whichever it is on.
  bool moved = values.dim() == 0 && values.device().type == Device::CUDA;
  admit("index_put_", x.get(), [&](const auto& f) {
    if (!moved) f(values.get());
    for (const Var& v : indices) f(v.get());
  });
}

void index_put_into(Tensor* into, const Vars& indices, const Tensor* values, bool accumulate) {
  GradMode off(false);
  Addressed a = resolve(into, indices);
  put(into, a, shaped_values(a, values, into), accumulate);
}

void write_indexed(const Var& x, const Vars& indices, const Var& values, bool accumulate) {
  if (!accumulate && repeats(x.get())) return index_put_(x, indices, values);
  admit_put(x, indices, values);
  Addressed a;
  Var source;
  {
    GradMode off(false);
    a = resolve(x.get(), indices);
    source = apart_from(x.get(), shaped_values(a, values.get(), x.get()));
    for (Var& v : a.indices) v = apart_from(x.get(), v);
  }
  auto write = [&] { put(x.get(), a, source, accumulate); };
  write_inplace<IndexPut>(x.get(), "index_put_", write, x, indices, values, accumulate);
}

}  // namespace ops
}  // namespace rl
