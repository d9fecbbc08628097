// Memory formats: the orders in which a tensor's dimensions lie in memory, as ops ask for them.
#pragma once

#include "autograd/batch.h"
#include "tensor/tensor.h"

namespace rl {

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
inline constexpr int kMemoryFormats = 4;

// The Python objects that stand for the formats, in the order of the enum; kept for good.
void set_memory_formats(PyObject* const* objects);
PyObject* memory_format_object(MemoryFormat format);
// The format that an argument names; null and None stand for `otherwise`.
MemoryFormat memory_format_argument(PyObject* argument, MemoryFormat otherwise, const char* op);

// Raises unless tensors of these sizes can lie in the format.
void check_format(MemoryFormat format, const Ints& sizes, const char* op);
// Strides without gaps; preserve_format has none.
Ints format_strides(MemoryFormat format, const Ints& sizes, const char* op);
bool is_contiguous_in(MemoryFormat format, const Tensor* t);
// What strides look like; where several formats fit, the rows win over the channels.
MemoryFormat format_of(const Ints& sizes, const Ints& strides);

// Uninitialised, with the sizes of `like`, in the format that an op's argument names: without one
// the strides are kept.
Var empty_like(const Var& like, DType dtype, Device device, PyObject* memory_format,
               const char* op);
// The same for all samples of a batched tensor, the hidden dimensions in front.
Var empty_like(const HiddenDims& hidden, const Var& like, DType dtype, Device device,
               PyObject* memory_format, const char* op);

}  // namespace rl
