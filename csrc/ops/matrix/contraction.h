// Products of matrices as other ops compute them: nothing here is recorded.
#pragma once

#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

// The matrices in the last two dimensions of a tensor, perhaps read as their transposes.
struct Factor {
  const Tensor* t;
  bool transposed = false;

  int64_t rows() const { return t->sizes[t->dim() - (transposed ? 1 : 2)]; }
  int64_t cols() const { return t->sizes[t->dim() - (transposed ? 2 : 1)]; }
  kernel::MatrixRef ref() const {
    int64_t down = t->strides[t->dim() - 2], across = t->strides[t->dim() - 1];
    return transposed ? kernel::MatrixRef{t->data(), across, down}
                      : kernel::MatrixRef{t->data(), down, across};
  }
  Factor flipped() const { return {t, !transposed}; }
};

// into = alpha * a @ b + beta * into, for matrices; `into` is row-major.
void multiply(Factor a, Factor b, Tensor* into, double alpha = 1, double beta = 0);
// into = a @ b + bias, a contiguous row.
void multiply_with_bias(Factor a, Factor b, const Var& bias, Tensor* into);
// alpha * a @ b, for matrices. With `columns` the result is column-major.
Var product(Factor a, Factor b, double alpha = 1, bool columns = false);

// The same for every position of the batch dimensions `batch`, to which those of a and b broadcast.
// Products are added up along dimensions that `into` does not have or has with size 1.
void multiply_batched(Factor a, Factor b, const Ints& batch, Tensor* into, double alpha = 1,
                      double beta = 0);

// Gradients of alpha * a @ b, the op's tensor arguments `at` and `at + 1`. `saves` of the op must
// name the other factor for each.
void matrix_vjp(Back& back, int at, const In& a, const In& b, double alpha);
void batched_vjp(Back& back, int at, const In& a, const In& b, double alpha);

// The conjugate transpose of the last two dimensions, recorded.
Var adjoint(const Var& a);

Ints batch_sizes(const Ints& sizes);
void check_matrices(const Var& a, const Var& b);
// For tensors of three dimensions.
void check_batches(const Var& a, const Var& b);
void check_multiplies(const char* kernel, DType dtype);

}  // namespace rl
