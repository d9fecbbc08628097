// Differentiable operations that C++ code calls: the rules of other ops, the engine, composites.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace rl {

using Vars = std::vector<Var>;

// Whether a norm of tensors of one type may be computed in the other.
void check_norm_dtype(const char* op, DType from, DType to);

namespace ops {

Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);
Var neg(const Var& a);
Var pow_number(const Var& a, const Var& exponent);  // exponent: a wrapped number
Var matmul(const Var& a, const Var& b);
Var mm(const Var& a, const Var& b);
Var bmm(const Var& a, const Var& b);
Var dot(const Var& a, const Var& b);
Var softmax(const Var& a, int64_t dim);
Var log_softmax(const Var& a, int64_t dim);
Var sum(const Var& a, const Ints& dims, bool keepdim);
Var mean(const Var& a, const Ints& dims, bool keepdim);
Var sum_all(const Var& a);
Var mean_all(const Var& a);
Var cumsum(const Var& a, int64_t dim);
Var reshape(const Var& a, const Ints& sizes);
Var transpose(const Var& a, int64_t dim0, int64_t dim1);
Var permute(const Var& a, const Ints& dims);
Var expand(const Var& a, const Ints& sizes);
Var alias_view(const Var& a);  // a view of the whole tensor
Var unsqueeze(const Var& a, int64_t dim);
Var narrow(const Var& a, int64_t dim, int64_t start, int64_t length);
Var select(const Var& a, int64_t dim, int64_t index);
Var slice(const Var& a, int64_t dim, int64_t start, int64_t end, int64_t step);
Var diagonal(const Var& a, int64_t offset, int64_t dim1, int64_t dim2);
Var cat(const Vars& parts, int64_t dim);
Var stack(const Vars& parts, int64_t dim);
Var flip(const Var& a, const Ints& dims);
Var atleast(const Var& a, int dims);  // atleast_1d, atleast_2d, atleast_3d
Var tril(const Var& a, int64_t diagonal);
Var triu(const Var& a, int64_t diagonal);
// Picking and placing (ops/index/scatter.cpp, ops/index/index.cpp, ops/index/masked.cpp).
Var gather(const Var& a, int64_t dim, const Var& index);
Var scatter(const Var& a, int64_t dim, const Var& index, const Var& src);
Var scatter_add(const Var& a, int64_t dim, const Var& index, const Var& src);
Var index_select(const Var& a, int64_t dim, const Var& index);
Var index_add(const Var& a, int64_t dim, const Var& index, const Var& src);
Var masked_fill(const Var& a, const Var& mask, const Var& value);  // value: 0-d, cast to a's dtype
Var nonzero(const Var& a);  // one row of indices for each nonzero element
// a[indices]: one int64 tensor for each dimension of a, broadcast together; none is a full slice.
Var index(const Var& a, const Vars& indices);
Var index_put(const Var& a, const Vars& indices, const Var& values, bool accumulate);
Var view_as_real(const Var& a);
Var view_as_complex(const Var& a);
Var conj(const Var& a);
Var real(const Var& a);  // a view; of a real tensor, itself
Var imag(const Var& a);  // a view
Var to(const Var& a, DType dtype);
Var to(const Var& a, DType dtype, Device device);
Var clone(const Var& a);
Var copied(const Var& like, const Var& src);  // src with the shape and dtype of `like`
Var contiguous(const Var& a);
// Adds up the dimensions that broadcasting made, so that the result has these sizes.
Var sum_to(const Var& a, const Ints& sizes);
Var zeros(const Ints& sizes, DType dtype, Device device);
// The number in a tensor of one element, for the host.
// The same in main memory, if it lies on a CUDA device.
Var on_host(const Var& v);
double number(const Var& v);
int64_t whole_number(const Var& v);
// Integers that the host knows, and 0 to n - 1 of them.
Var integers(const std::vector<int64_t>& numbers, Device device);
Var counting(int64_t n, Device device);
Var full(const Ints& sizes, double value, DType dtype, Device device);
// A tensor of zeros with g added at the elements that (sizes, strides, offset) address in a
// row-major tensor of shape `whole`.
Var embed(const Var& g, const Ints& whole, const Ints& strides, int64_t offset);
// `into` with those elements replaced by src.
Var as_strided_scatter(const Var& into, const Var& src, const Ints& sizes, const Ints& strides,
                       int64_t offset);
Var as_strided(const Var& a, const Ints& sizes, const Ints& strides, int64_t offset);

// An index on the device; those of main memory go with any tensor.
Var index_on(Device device, const Var& index);
// Checks and holds what index_put_ is given, before the elements are looked at.
void admit_put(const Var& x, const Vars& indices, const Var& values);
// x[indices] = values in place, recording it (python/indexing.cpp).
void index_put_(const Var& x, const Vars& indices, const Var& values);
// Takes the elements of src, recording it.
void copy_(const Var& into, const Var& src);

// a[indices] = values (or +=) in place, recording it; a refused write changes nothing.
void write_indexed(const Var& a, const Vars& indices, const Var& values, bool accumulate);

// Not recorded: into += g, into = src (casting and broadcasting as needed).
void accumulate_into(Tensor* into, const Tensor* g);
void copy_data(Tensor* into, const Tensor* src);
void fill_data(Tensor* into, double value);
// The same for into[indices] = values, or += when they accumulate.
void index_put_into(Tensor* into, const Vars& indices, const Tensor* values, bool accumulate);

}  // namespace ops

// Raises unless the strided region lies inside the tensor's storage.
void check_region(const Tensor* t, const Ints& sizes, const Ints& strides, int64_t offset);

}  // namespace rl
