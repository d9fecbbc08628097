#include "call/memory_format.h"

namespace rl {

namespace {

PyObject* objects[kMemoryFormats];

// The dimensions of images and volumes from the innermost in memory to the outermost.
struct Order {
  int rank;
  int dims[5];
};
constexpr Order kImages = {4, {1, 3, 2, 0}}, kVolumes = {5, {1, 4, 3, 2, 0}};

const Order* order_of(MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast) return &kImages;
  return format == MemoryFormat::ChannelsLast3d ? &kVolumes : nullptr;
}

bool lies_in(const Order& order, const Ints& sizes, const Ints& strides) {
  if (sizes.size() != order.rank) return false;
  int64_t step = 1;
  for (int i = 0; i < order.rank; i++) {
    int d = order.dims[i];
    if (sizes[d] == 1) continue;
    if (strides[d] != step) return false;
    step = wrapping_product(step, sizes[d]);
  }
  return true;
}

// Whether the strides grow in this order, gaps allowed. Where dimensions of size 1 leave the order
// open, their strides decide; tensors without elements and N111 with equal strides count as rows.
bool grows_in(const Order& order, const Ints& sizes, const Ints& strides) {
  if (sizes.size() != order.rank || strides[1] == 0) return false;
  int64_t least = 0;
  for (int i = 0; i < order.rank; i++) {
    int d = order.dims[i];
    if (sizes[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;
    least = strides[d] * sizes[d];
  }
  return true;
}

MemoryFormat preserving(PyObject* argument, const char* op) {
  return memory_format_argument(argument, MemoryFormat::Preserve, op);
}

Var lay_out(const Tensor* like, DType dtype, Device device, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::Contiguous) return empty(like->sizes, dtype, device);
  if (format != MemoryFormat::Preserve)
    return empty_strided(like->sizes, format_strides(format, like->sizes, op), dtype, device);
  return empty_like(like, dtype, device);
}

}  // namespace

void set_memory_formats(PyObject* const* given) {
  for (int i = 0; i < kMemoryFormats; i++) {
    Py_INCREF(given[i]);
    Py_XSETREF(objects[i], given[i]);
  }
}

PyObject* memory_format_object(MemoryFormat format) { return objects[int(format)]; }

MemoryFormat memory_format_argument(PyObject* argument, MemoryFormat otherwise, const char* op) {
  if (!argument || argument == Py_None) return otherwise;
  for (int i = 0; i < kMemoryFormats; i++)
    if (argument == objects[i]) return MemoryFormat(i);
  fail_as(PyExc_TypeError, op, "(): argument 'memory_format' must be torch.memory_format, not ",
          Py_TYPE(argument)->tp_name,
          "; pass torch.contiguous_format, torch.preserve_format, torch.channels_last or "
          "torch.channels_last_3d");
}

void check_format(MemoryFormat format, const Ints& sizes, const char* op) {
  const Order* order = order_of(format);
  if (!order || sizes.size() == order->rank) return;
  bool images = order == &kImages;
  fail(op, ": required rank ", order->rank, " tensor to use channels_last", images ? "" : "_3d",
       " format, got rank ", sizes.size(), ", shape ", sizes);
}

Ints format_strides(MemoryFormat format, const Ints& sizes, const char* op) {
  check_format(format, sizes, op);
  check(format != MemoryFormat::Preserve, op,
        ": unsupported memory format Preserve: there are no strides to keep; pass "
        "torch.contiguous_format or torch.channels_last");
  const Order* order = order_of(format);
  if (!order) return contiguous_strides(sizes);
  Ints strides(order->rank);
  uint64_t step = 1;
  for (int i = 0; i < order->rank; i++) {
    strides[order->dims[i]] = int64_t(step);
    step *= uint64_t(sizes[order->dims[i]]);
  }
  return strides;
}

bool is_contiguous_in(MemoryFormat format, const Tensor* t) {
  const Order* order = order_of(format);
  return order ? lies_in(*order, t->sizes, t->strides) : t->contiguous;
}

MemoryFormat format_of(const Ints& sizes, const Ints& strides) {
  if (grows_in(kImages, sizes, strides)) return MemoryFormat::ChannelsLast;
  if (grows_in(kVolumes, sizes, strides)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

Var empty_like(const Var& like, DType dtype, Device device, PyObject* memory_format,
               const char* op) {
  return lay_out(like.get(), dtype, device, preserving(memory_format, op), op);
}

Var empty_like(const HiddenDims& hidden, const Var& like, DType dtype, Device device,
               PyObject* memory_format, const char* op) {
  MemoryFormat format = preserving(memory_format, op);
  Var all = hidden.front(like);
  if (!order_of(format)) return lay_out(all.get(), dtype, device, format, op);
  Ints own = format_strides(format, like.sizes(), op), strides = contiguous_strides(all.sizes());
  for (int i = 0; i < own.size(); i++) strides[hidden.count() + i] = own[i];
  return empty_strided(all.sizes(), strides, dtype, device);
}

}  // namespace rl
