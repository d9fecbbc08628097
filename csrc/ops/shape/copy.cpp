// Copies, casts and constants.
#include <cstring>
#include <numeric>
#include <utility>

#include "autograd/batch.h"
#include "call/broadcast.h"
#include "call/memory_format.h"
#include "call/op.h"
#include "call/pointwise.h"
#include "call/write.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/driver.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

void fill_bits(Tensor* into, const void* value) {
  if (recording) [[unlikely]]
    recording->hold(into);
  if (into->numel == 0) return;
  int64_t size = itemsize(into->dtype);
  if (into->contiguous) {
    on(into).fill(into->dtype, into->data(), size, into->numel, value);
    return;
  }
  Ints zero(into->dim()), strides = into->strides;
  for (int i = 0; i < strides.size(); i++) strides[i] *= size;
  if (into->device().type == Device::CUDA) {
    Var number = empty({}, into->dtype, into->device());
    on(into).fill(into->dtype, number->data(), size, 1, value);
    on(into).copy_strided(into->dtype, into->data(), strides.data(), into->dtype, number->data(),
                          zero.data(), into->sizes.data(), into->dim());
    return;
  }
  on(into).copy_strided(into->dtype, into->data(), strides.data(), into->dtype, value, zero.data(),
                        into->sizes.data(), into->dim());
}

Var filled_from(const Var& input, Var copy) {
  ops::copy_data(copy.get(), input.get());
  return copy;
}

struct Clone : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "clone(Tensor input, *, object? memory_format=None)";
  static constexpr auto doc = "clone(x): a copy with memory of its own; gradients flow through.";
  static constexpr bool out = false;
  static Var forward(const Var& input, PyObject* memory_format) {
    return filled_from(input,
                       empty_like(input, input.dtype(), input.device(), memory_format, "clone"));
  }
  static Var batched(const HiddenDims& hidden, const Var& input, PyObject* memory_format) {
    return filled_from(hidden.front(input), empty_like(hidden, input, input.dtype(), input.device(),
                                                       memory_format, "clone"));
  }
  static void vjp(Back& b, const In&, PyObject*) { b[0] = b.g(); }
};
RL_OP(Clone)

struct ToCopy : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "_to_copy(Tensor input, dtype dtype, device device, *, object? memory_format=None)";
  static constexpr auto grad_name = "ToCopyBackward0";
  static constexpr bool any_devices = true;
  static constexpr auto doc =
      "_to_copy(x, dtype, device): a copy with another element type, or elsewhere.";
  static constexpr bool out = false;
  static constexpr bool method = false;
  static Var forward(const Var& input, DType dtype, Device device, PyObject* memory_format) {
    return filled_from(input, empty_like(input, dtype, device, memory_format, "to"));
  }
  static Var batched(const HiddenDims& hidden, const Var& input, DType dtype, Device device,
                     PyObject* memory_format) {
    return filled_from(hidden.front(input),
                       empty_like(hidden, input, dtype, device, memory_format, "to"));
  }
  static void vjp(Back& b, const In& input, DType, Device, PyObject*) {
    b[0] = ops::to(b.g(), b.g().dtype(), input.device());
  }
};
RL_OP(ToCopy)

struct Contiguous : Composite {
  static constexpr auto signature = "contiguous(Tensor input, *, object? memory_format=None)";
  static constexpr auto doc =
      "contiguous(x): x itself when it is row-major (or in the memory format), else a copy that "
      "is.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, PyObject* memory_format) {
    MemoryFormat format =
        memory_format_argument(memory_format, MemoryFormat::Contiguous, "contiguous");
    if (format == MemoryFormat::Contiguous) return ops::contiguous(input);
    if (is_contiguous_in(format, input.get())) return input;
    check(format != MemoryFormat::Preserve,
          "contiguous: preserve memory format is unsupported by the contiguous operator on a "
          "tensor that is not contiguous (sizes ",
          input.sizes(), ", strides ", input->strides, "); call clone() to keep its strides");
    check_format(format, input.sizes(), "contiguous");
    return call<Clone>(input, memory_format);
  }
};
RL_OP(Contiguous)

// The copy behind contiguous(), whose result is row-major whatever the input's strides.
struct CloneRows : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_contiguous_copy(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "CloneBackward0";
  static constexpr auto doc = "_contiguous_copy(x): a row-major copy.";
  static constexpr bool out = false;
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    Var copy = empty(input.sizes(), input.dtype(), input.device());
    ops::copy_data(copy.get(), input.get());
    return copy;
  }
  static void vjp(Back& b, const In&) { b[0] = b.g(); }
};
RL_OP(CloneRows)

struct Bound : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_bound(Tensor input, Tensor[] others)";
  static constexpr auto doc =
      "_bound(x, others): x with `others` in its history, whose gradients are 0.";
  static constexpr bool whole_history = true;
  static constexpr bool sees_batches = true;
  static constexpr bool out = false;
  static constexpr bool method = false;
  static Var forward(const Var& input, const Vars&) { return lazy_clone(input.get()); }
  static void vjp(Back& b, const In&, const InList& others) {
    b[0] = b.g();
    for (size_t i = 0; i < others.size(); i++)
      if (b.wants(int(i) + 1))
        b[int(i) + 1] = ops::zeros(others[i].sizes(), others[i].dtype(), others[i].device());
  }
};
RL_OP(Bound)

struct Fill : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "fill(Tensor input, Tensor|Number value)";
  static constexpr auto doc = "fill(x, value): a tensor like x with every element equal to value.";
  static constexpr bool inplace = true;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& value) {
    Var filled = empty_like(input.get(), input.dtype());
    fill_with(filled.get(), value);
    return filled;
  }
  static void vjp(Back& b, const In& input, const In&) {
    if (b.wants(0)) b[0] = ops::zeros(input.sizes(), input.dtype(), input.device());
    if (b.wants(1)) b[1] = ops::sum_to(b.g(), {});
  }
  static void fill_with(Tensor* into, const Var& value) {
    check(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
          value.dim(), " dimensions.");
    if (value.device() == kHost || is_stored(into->dtype) || value.dtype() == DType::U64)
      check_fill(value, into->dtype);
    Var all = Var(into);
    if (batch_of(into)) {
      HiddenDims hidden;
      hidden.add(all);
      all = hidden.front(all);
    }
    if (value.device() != kHost || (recording && !value->wrapped_number))
      return ops::copy_data(all.get(), value.get());
    alignas(16) char bits[16];
    on_host().convert(into->dtype, bits, 16, value.dtype(), value->data(), 16, 1);
    fill_bits(all.get(), bits);
  }
  static void into(Tensor* self, bool, const Var& input, const Var& value);
};
RL_OP(Fill)

// The histories of the in-place forms, under torch's names for them.
#define RL_FILLED(Type, label)                                                                 \
  struct Type : Linear {                                                                       \
    static constexpr auto signature = "_filled(Tensor input, Tensor|Number value)";            \
    static constexpr auto grad_name = label;                                                   \
    static Var forward(const Var& input, const Var&) { return alias(input.get()); }            \
    static void vjp(Back& b, const In& input, const In& value) { Fill::vjp(b, input, value); } \
    static void jvp(Push& p, const Var&, const Var&) { p[0] = p.t(1); }                        \
  };
RL_FILLED(FilledNumber, "FillBackward2")
RL_FILLED(FilledTensor, "FillBackward3")
RL_FILLED(Zeroed, "ZeroBackward0")
#undef RL_FILLED

template <class History>
void fill_in_place(Tensor* self, const Var& value, const char* name) {
  check_inplace(self, name);
  Var history;
  if (is_tracked(self) || is_tracked(value.get())) history = call<History>(Var(self), value);
  // Elements in one place may all become one number.
  Var places = value->wrapped_number && repeats(self) ? without_repeats(self) : Var(self);
  prepare_write(places.get(), name);
  Fill::fill_with(places.get(), value);
  take_over(self, history);
}

void Fill::into(Tensor* self, bool, const Var&, const Var& value) {
  if (value->wrapped_number) fill_in_place<FilledNumber>(self, value, "fill_");
  else fill_in_place<FilledTensor>(self, value, "fill_");
}

struct Zero : Composite {
  static constexpr auto signature = "zero_(Tensor input)";
  static constexpr auto doc = "zero_(): sets every element to 0, in place.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) {
    fill_in_place<Zeroed>(input.get(), Var(0), "zero_");
    return input;
  }
};
RL_OP(Zero)

// What a tensor holds after copy_: the source, cast and expanded.
struct Copied : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_copied(Tensor input, Tensor src)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr auto grad_name = "CopyBackwards";
  static constexpr bool any_devices = true;
  static constexpr auto doc = "_copied(x, src): src with the sizes and the element type of x.";
  static constexpr bool out = false;
  static constexpr bool method = false;
  static Var forward(const Var& input, const Var& src) {
    Var copy = empty_like(input.get(), input.dtype());
    ops::copy_data(copy.get(), src.get());
    return copy;
  }
  static void vjp(Back& b, const In& input, const In& src) {
    if (b.wants(0)) b[0] = ops::zeros(input.sizes(), input.dtype(), input.device());
    if (b.wants(1)) b[1] = ops::to(ops::sum_to(b.g(), src.sizes()), b.g().dtype(), src.device());
  }
};
RL_OP(Copied)

struct CopyInto : Composite {
  static constexpr auto signature = "copy_(Tensor input, Tensor src, bool non_blocking=False)";
  static constexpr auto doc =
      "copy_(src): takes the elements of src, cast and broadcast, in place.";
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& src, bool non_blocking) {
    bool before = std::exchange(cuda::copies_go_on, cuda::copies_go_on || non_blocking);
    struct Scope {
      bool before;
      ~Scope() { cuda::copies_go_on = before; }
    } scope{before};
    ops::copy_(input, src);
    return input;
  }
};
RL_OP(CopyInto)

// A tensor of zeros into which g was added at the elements of a strided region.
struct Embed : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_embed(Tensor g, int[] whole, int[] strides, int offset)";
  static constexpr auto doc = "_embed(g, whole, strides, offset): zeros with g added at a region.";
  static constexpr bool out = false;
  static constexpr bool method = false;
  static Var forward(const Var& g, const Ints& whole, const Ints& strides, int64_t offset) {
    Var result = ops::zeros(whole, g.dtype(), g.device());
    check_region(result.get(), g.sizes(), strides, offset);
    Var region = alias(result.get(), g.sizes(), strides, offset);
    ops::accumulate_into(region.get(), g.get());
    return result;
  }
  static void vjp(Back& b, const In& g, const Ints&, const Ints& strides, int64_t offset) {
    b[0] = ops::as_strided(ops::contiguous(b.g()), g.sizes(), strides, offset);
  }
};
RL_OP(Embed)

// The region is one of a row-major tensor.
struct AsStridedScatter : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature =
      "_as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int offset)";
  static constexpr auto grad_name = "AsStridedScatterBackward0";
  static constexpr auto doc =
      "_as_strided_scatter(x, src, size, stride, offset): a row-major copy of x with a region "
      "replaced.";
  static constexpr bool function = false;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& src, const Ints& size, const Ints& stride,
                     int64_t offset) {
    check(src.sizes() == size, "as_strided_scatter: src has shape ", src.sizes(),
          " but the region has ", size);
    Var copy = empty(input.sizes(), input.dtype(), input.device());
    ops::copy_data(copy.get(), input.get());
    check_region(copy.get(), size, stride, offset);
    Var region = alias(copy.get(), size, stride, offset);
    ops::copy_data(region.get(), src.get());
    return copy;
  }
  static void vjp(Back& b, const In&, const In& src, const Ints& size, const Ints& stride,
                  int64_t offset) {
    Var g = ops::contiguous(b.g());
    if (b.wants(0))
      b[0] = ops::as_strided_scatter(g, ops::zeros(size, src.dtype(), src.device()), size, stride,
                                     offset);
    if (b.wants(1)) b[1] = ops::as_strided(g, size, stride, offset);
  }
};
RL_OP(AsStridedScatter)

struct AsStridedScatterPublic : Composite {
  static constexpr auto signature =
      "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, "
      "int? storage_offset=None)";
  static constexpr auto doc =
      "as_strided_scatter(x, src, size, stride, offset): a copy of x in which "
      "x.as_strided(size, stride, offset) is src.";
  static Var forward(const Var& input, const Var& src, const Ints& size, const Ints& stride,
                     std::optional<int64_t> storage_offset) {
    // A sample of a batch is read as a tensor with a storage of its own.
    int64_t own = batch_of(input.get()) ? 0 : input->offset, offset = storage_offset.value_or(own);
    if (batch_of(input.get()) || (input->contiguous && own == 0))
      return ops::as_strided_scatter(input, src, size, stride, offset);
    check_region(input.get(), size, stride, offset);
    check(has_distinct_elements(input.sizes(), input->strides),
          "as_strided_scatter: more than one element of the input, of strides ", input->strides,
          ", refers to a single memory location. Use contiguous() first.");
    // In the storage, of which the result shows what the input does.
    Var all =
        ops::embed(input, {input->storage->bytes / itemsize(input.dtype())}, input->strides, own);
    all = ops::as_strided_scatter(all, src, size, stride, offset);
    return ops::as_strided(all, input.sizes(), input->strides, own);
  }
};
RL_OP(AsStridedScatterPublic)

}  // namespace

void check_region(const Tensor* t, const Ints& sizes, const Ints& strides, int64_t offset) {
  check(sizes.size() == strides.size(),
        "as_strided: mismatch in length of strides and shape: ", strides, " and ", sizes);
  int64_t last = offset;
  bool overflow = false, empty = false;
  for (int i = 0; i < sizes.size(); i++) {
    check(sizes[i] >= 0, "as_strided: negative size ", sizes[i], " in ", sizes);
    check(strides[i] >= 0,
          "as_strided: Negative strides are not supported at the moment, got "
          "strides: ",
          strides);
    empty = empty || sizes[i] == 0;
    int64_t reach;
    overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  check(offset >= 0, "as_strided: negative storage_offset ", offset);
  const Batch* batch = batch_of(t);
  if (empty || (batch && element_count(batch->sizes) == 0)) return;
  if (overflow || last >= t->storage->bytes / itemsize(t->dtype))
    fail("setStorage: sizes ", sizes, ", strides ", strides, ", storage offset ", offset,
         ", and itemsize ", itemsize(t->dtype), " requiring a storage size beyond the ",
         t->storage->bytes, " bytes of the tensor's storage: out of bounds");
}

namespace ops {

Var clone(const Var& a) { return call<Clone>(a, nullptr); }
Var to(const Var& a, DType dtype) { return to(a, dtype, a.device()); }
Var to(const Var& a, DType dtype, Device device) {
  return a.dtype() == dtype && a.device() == device ? a : call<ToCopy>(a, dtype, device, nullptr);
}
Var copied(const Var& like, const Var& src) { return call<Copied>(like, src); }
Var contiguous(const Var& a) { return a->contiguous ? a : call<CloneRows>(a); }

Var zeros(const Ints& sizes, DType dtype, Device device) {
  Var v = empty(sizes, dtype, device);
  on(v).clear(v->data(), size_t(v->numel * itemsize(dtype)));
  return v;
}

Var on_host(const Var& v) {
  if (v.device().type != Device::CUDA) return v;
  Plain plain;
  return to(v, v.dtype(), kHost);
}

double number(const Var& v) {
  Var here = on_host(v);
  here->check_host_access();
  Unrecorded off;
  Plain plain;
  return *to(here, DType::F64)->host<double>();
}
int64_t whole_number(const Var& v) {
  Var here = on_host(v);
  here->check_host_access();
  Unrecorded off;
  Plain plain;
  return *to(here, DType::I64)->host<int64_t>();
}

Var integers(const std::vector<int64_t>& numbers, Device device) {
  Var v = empty({int64_t(numbers.size())}, DType::I64, device);
  if (!numbers.empty())
    on(v).write_constants(v->data(), numbers.data(), numbers.size() * sizeof(int64_t));
  return v;
}

Var counting(int64_t n, Device device) {
  if (device.type == Device::CUDA) {
    Var v = empty({n}, DType::I64, device);
    on(v).ramp(DType::I64, v->data(), n, {true, 0, 1, 0, 0, 0, 0});
    return v;
  }
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  return integers(numbers, device);
}

Var full(const Ints& sizes, double value, DType dtype, Device device) {
  Var v = empty(sizes, dtype, device);
  fill_data(v.get(), value);
  return v;
}

Var embed(const Var& g, const Ints& whole, const Ints& strides, int64_t offset) {
  return call<Embed>(g, whole, strides, offset);
}

Var as_strided_scatter(const Var& into, const Var& src, const Ints& sizes, const Ints& strides,
                       int64_t offset) {
  return call<AsStridedScatter>(into, src, sizes, strides, offset);
}

void copy_(const Var& into, const Var& src) {
  check_inplace(into.get(), "copy_");
  check(can_expand(src.sizes(), into.sizes()), "copy_: The expanded size of the tensor ",
        into.sizes(), " must match the existing size ", src.sizes());
  Var history;
  if (is_tracked(into.get()) || is_tracked(src.get())) history = call<Copied>(into, src);
  Var from = src;
  if (src->storage == into->storage) {
    Plain plain;
    if (!(src.sizes() == into.sizes())) from = expand(src, into.sizes());
    if (overlaps_partly(from.get(), into.get())) from = clone(src);
  }
  if (batched_tensors) check_batched_write(into.get(), src.get());
  prepare_write(into.get(), "copy_");
  copy_data(into.get(), from.get());
  take_over(into.get(), history);
}

namespace {

// Stored types are converted by the host.
bool converts_here(const Tensor* into, const Tensor* src) {
  return into->dtype != src->dtype && (is_stored(into->dtype) || is_stored(src->dtype)) &&
         src->device().type == Device::CUDA;
}

// A number of the host's, perhaps spread: a kernel takes it along, and a CUDA graph keeps it.
bool one_number(const Var& v) {
  if (v.device() != kHost) return false;
  for (int i = 0; i < v.dim(); i++)
    if (v.sizes()[i] != 1 && v->strides[i] != 0) return false;
  return true;
}

// From one device to another, or the host: converted at the source, moved in one piece, laid out
// there.
void copy_between(Tensor* into, const Tensor* src) {
  Plain plain;
  Var from = alias(src);
  if (converts_here(into, src)) from = on_host(from);
  if (from.dtype() != into->dtype) from = to(from, into->dtype);
  if (from.device() == into->device()) return copy_data(into, from.get());
  if (one_number(from) && !cuda::is_pinned(from->data())) {
    alignas(16) char bits[16];
    std::memcpy(bits, from->host<char>(), size_t(itemsize(into->dtype)));
    return fill_bits(into, bits);
  }
  if (!(from.sizes() == into->sizes)) from = expand(from, into->sizes);
  bool same = from->strides == into->strides && is_dense(into->sizes, into->strides);
  if (!same) from = contiguous(from);
  Var target =
      same || into->contiguous ? Var(into) : empty(into->sizes, into->dtype, into->device());
  size_t bytes = size_t(into->numel * itemsize(into->dtype));
  // What is made here for the time of the call is not pinned, and waited for.
  if (into->device() == kHost) {
    const auto& kernels = on(from);
    if (!cuda::copies_go_on || !cuda::start_read(target->data(), from->data(), bytes))
      kernels.read(target->data(), from->data(), bytes);
  } else if (from.device() == kHost) {
    const auto& kernels = on(into);
    if (!cuda::copies_go_on || !cuda::start_write(target->data(), from->data(), bytes))
      kernels.write(target->data(), from->data(), bytes);
  } else
    cuda::copy_to_device(into->device().index, target->data(), from.device().index, from->data(),
                         bytes);
  if (target.get() != into) copy_data(into, target.get());
}

}  // namespace

void copy_data(Tensor* into, const Tensor* src) {
  if (batch_of(into) || batch_of(src)) [[unlikely]]
    return copy_batched(into, src);
  if (into->numel == 0 || !has_data(into)) return;
  if (recording) [[unlikely]] {
    recording->hold(into);
    recording->hold(src);
  }
  if (!has_data(src)) [[unlikely]]
    fail_as(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data! (shape ",
            src->sizes,
            ") Use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving a module "
            "from meta to a different device.");
  if (into->device() != src->device() || converts_here(into, src)) [[unlikely]]
    return copy_between(into, src);
  int64_t to_size = itemsize(into->dtype), from_size = itemsize(src->dtype);
  if (into->contiguous && src->contiguous && into->sizes == src->sizes) {
    if (into->dtype == src->dtype && into->numel * to_size <= 4096) {
      on(into).copy_bytes(into->data(), src->data(), size_t(into->numel * to_size));
      return;
    }
    Launch launch(double(into->numel), {into, src});
    int64_t one = 1;
    on(into).copy_strided(into->dtype, into->data(), &to_size, src->dtype, src->data(), &from_size,
                          &into->numel, int(one));
    return;
  }
  // Merge dimensions that follow each other in both.
  Ints from = broadcast_strides(src, into->sizes), sizes, a, b;
  for (int i = 0; i < into->dim(); i++) {
    if (into->sizes[i] == 1) continue;
    int64_t s = into->strides[i] * to_size, t = from[i] * from_size, n = into->sizes[i];
    int last = sizes.size() - 1;
    if (last >= 0 && a[last] == s * n && b[last] == t * n) {
      sizes[last] *= n;
      a[last] = s;
      b[last] = t;
    } else {
      sizes.push_back(n);
      a.push_back(s);
      b.push_back(t);
    }
  }
  Launch launch(double(into->numel) * 2, {into, src});
  on(into).copy_strided(into->dtype, into->data(), a.data(), src->dtype, src->data(), b.data(),
                        sizes.data(), sizes.size());
}

void fill_data(Tensor* into, double value) {
  if (batch_of(into)) [[unlikely]]
    return fill_data(all_samples(into).get(), value);
  alignas(16) char bits[16];
  rl::on_host().convert(into->dtype, bits, 16, DType::F64, &value, 8, 1);
  fill_bits(into, bits);
}

void accumulate_into(Tensor* into, const Tensor* g) {
  if (recording) [[unlikely]] {
    recording->hold(into);
    recording->hold(g);
  }
  if (into->numel == 0) return;
  if (!into->contiguous && (overlaps_itself(into->sizes, into->strides) ||
                            !has_distinct_elements(into->sizes, into->strides))) {
    Var same = Var(const_cast<Tensor*>(g));
    if (g->dtype != into->dtype) same = to(same, into->dtype);
    Ints strides = broadcast_strides(same.get(), into->sizes);
    on(into).add_overlapping(into->dtype, into->data(), into->strides.data(), same->data(),
                             strides.data(), into->sizes.data(), into->dim());
    return;
  }
  const Pointwise& add = find_pointwise("add");
  DType compute = compute_type(into->dtype);
  kernel::Lanes kernel = add.lanes[int(compute)];
  if (into->contiguous && g->contiguous && into->dtype == g->dtype && compute == into->dtype &&
      into->sizes == g->sizes) {
    const char* in[2] = {into->data(), g->data()};
    int64_t size = itemsize(compute);
    on(into).pointwise_flat(kernel, nullptr, into->data(), size, in, 2, 0, size, into->numel, 1);
    return;
  }
  kernel::PointwiseCall call{};
  call.lanes = kernel;
  call.compute = call.produced = compute;
  call.cost = 1;
  call.inputs = 2;
  call.sizes = into->sizes.data();
  call.ndim = into->dim();
  Ints strides = broadcast_strides(g, into->sizes);
  call.out = {into->data(), into->strides.data(), into->dtype};
  call.in[0] = call.out;
  call.in[1] = {g->data(), strides.data(), g->dtype};
  on(into).pointwise(call);
}

}  // namespace ops
}  // namespace rl
