#include "autograd/anomaly.h"

#include "ops/functions.h"

namespace rl {

namespace {

bool has_nan(const Var& v) {
  if (!is_differentiable(v->dtype) || v->numel == 0) return false;
  GradMode off(false);
  Var whole = ops::contiguous(v);
  if (is_complex(v->dtype)) return false;
  Var wide = ops::to(whole, DType::F64);
  const double* x = wide->data<double>();
  for (int64_t i = 0; i < wide->numel; i++)
    if (x[i] != x[i]) return true;
  return false;
}

}  // namespace

void check_anomaly(Node* node, const Pass& pass) {
  if (!modes.anomaly_check_nan) return;
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (pass.results[i] && has_nan(pass.results[i]))
      fail("Function '", Py_TYPE(node)->tp_name, "' returned nan values in its ", i, "th output.");
}

}  // namespace rl
