// Drives one-element-at-a-time kernels over tensors of any layout and dtype.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

// out[i] = f(in[0][i], in[1][i], ...; params) for n consecutive elements of the compute type.
using Kernel = void (*)(char* out, const char* const* in, const double* params, int64_t n);

inline constexpr int kMaxOperands = 6;

struct Operand {
  char* data = nullptr;              // null: not read
  const int64_t* strides = nullptr;  // in elements, one per dimension; 0 where broadcast
  DType dtype = DType::F32;
};

struct PointwiseCall {
  Kernel kernel;
  const double* params;
  DType compute;   // what the inputs are converted to
  DType produced;  // what the kernel writes
  Operand out;
  Operand in[kMaxOperands];
  int inputs;
  const int64_t* sizes;
  int ndim;
  double cost;  // of one element, in units of an addition
};

void pointwise(const PointwiseCall& call);

// The same for operands of the right types that are contiguous, or single numbers (bit i of
// `singles`).
void pointwise_flat(Kernel kernel, const double* params, char* out, int64_t out_size,
                    const char* const* in, int inputs, unsigned singles, int64_t in_size, int64_t n,
                    double cost);

// into[...] += g[...] for layouts in which several elements of `into` share a place.
void add_overlapping(DType dtype, char* into, const int64_t* into_strides, const char* g,
                     const int64_t* g_strides, const int64_t* sizes, int ndim);

}  // namespace rl::cpu
