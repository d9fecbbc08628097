// What the calls of pointwise ops and their nodes share.
#pragma once

#include "call/pointwise.h"
#include "kernels/kernels.h"

namespace rl {

// Operands that a kernel reads straight through: contiguous tensors of one shape and dtype, and
// single numbers that do not change the result's type.
class Flat {
 public:
  // `main` decides shape and dtype. Null operands are skipped.
  bool take(const Tensor* const* in, int count, const Tensor* main) {
    if (!main->contiguous || compute_type(main->dtype) != main->dtype) return false;
    for (int k = 0; k < count; k++) {
      const Tensor* t = in[k];
      if (!t) continue;
      if (t == main ||
          (t->contiguous && t->dtype == main->dtype && !t->wrapped_number &&
           t->sizes == main->sizes && (!devices_mix || t->device() == main->device()))) {
        data[k] = t->data();
      } else if (t->dim() == 0 && category(t->dtype) <= category(main->dtype) &&
                 (t->wrapped_number || main->dim() > 0) && (!recording || is_constant(t)) &&
                 t->device().type != Device::CUDA) {
        singles |= 1u << k;
        if (has_data(t))
          on_host().convert(main->dtype, numbers_[k], 16, t->dtype, t->data(), 16, 1);
        data[k] = numbers_[k];
      } else {
        return false;
      }
    }
    return true;
  }
  const char* data[kernel::kMaxOperands] = {};
  unsigned singles = 0;

 private:
  // In a region that is recorded: a number that no call of it computes.
  static bool is_constant(const Tensor* t) {
    return t->wrapped_number && !recording->varies(t->data());
  }
  alignas(16) char numbers_[kernel::kMaxOperands][16];
};

// Operands of any shapes and strides, read as the type `compute`; null ones are skipped.
void run_general(kernel::Lanes kernel, const double* params, DType compute, DType produced,
                 double cost, Tensor* out, const Tensor* const* in, int count);
[[noreturn]] void fail_dtype(const Pointwise& op, DType d);

// ---- nodes (call/pointwise_node.cpp)

// A node with its edges and what it saves of the inputs. An input that is about to be overwritten is
// kept as a copy. New reference.
Node* make_node(const Pointwise& op, const Var* in, const double* params,
                const Tensor* overwritten = nullptr);
// Saves the result where it is needed and tells of the node.
void finish_node(Node* node, Tensor* out);
// A hook raised after the values were written: the history says so, but cannot be run.
void leave_unfinished(Node* node, Tensor* into);
// g times the partial by input i, in one pass; `out` only where it reads it.
Var kernel_gradient(const Pointwise& op, int i, const Var& g, const Var* in, const Var& out,
                    const double* params);
// The tangent of the result: each partial times the tangent of its input.
Var pushed(const Pointwise& op, const Var* in, const double* params, const Push& push);
NodeClass pointwise_node(const char* name);

// While a derivative is read as a tensor expression: the type of a choice between two numbers.
extern constinit thread_local int choice_dtype;

}  // namespace rl
