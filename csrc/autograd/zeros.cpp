#include "autograd/zeros.h"

#include "autograd/batch.h"
#include "autograd/structured.h"
#include "ops/functions.h"

namespace rl {

constinit thread_local bool structural_zeros = false;

bool all_zero(const Var* grads, uint32_t count) {
  GradMode off(false);
  bool any = false;
  for (uint32_t i = 0; i < count; i++) {
    if (!grads[i]) continue;
    // Samples may differ, and nobody knows what is in a meta tensor.
    if (batch_of(grads[i].get()) || !has_data(grads[i].get()) || is_structured(grads[i].get()))
      return false;
    any = true;
    Var parts = ops::contiguous(grads[i]);
    if (is_complex(parts->dtype)) parts = ops::view_as_real(parts);
    Var wide = ops::on_host(ops::to(parts, DType::F64));
    const double* x = wide->host<double>();
    for (int64_t k = 0; k < wide->numel; k++)
      if (x[k] != 0) return false;
  }
  return any;
}

void give_zeros(Node* node, Pass& pass) {
  for (uint32_t i = 0; i < node->edge_count; i++) {
    const Edge& to = node->edges[i];
    if (!to.node || !pass.wants(int(i))) continue;
    const TensorMeta& meta = to.node->meta(to.nr);
    pass.results[i] = ops::zeros(meta.sizes, meta.dtype, meta.device);
  }
}

}  // namespace rl
