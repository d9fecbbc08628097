#include "autograd/anomaly.h"

#include "autograd/structured.h"
#include "ops/functions.h"

namespace rl {

namespace {

// A sum is NaN when an element is, or when infinities of both signs meet: only then look closer.
bool has_nan(const Var& v) {
  if (!is_differentiable(v->dtype) || v->numel == 0 || !has_data(v.get())) return false;
  if (is_structured(v.get())) return structured::has_nan(v);
  GradMode off(false);
  Var parts = is_complex(v->dtype) ? ops::view_as_real(ops::contiguous(v)) : v;
  Var sum = ops::on_host(ops::to(ops::sum(parts, {}, false), DType::F64));
  if (*sum->host<double>() == *sum->host<double>()) return false;
  Var wide = ops::on_host(ops::to(ops::contiguous(parts), DType::F64));
  const double* x = wide->host<double>();
  for (int64_t i = 0; i < wide->numel; i++)
    if (x[i] != x[i]) return true;
  return false;
}

}  // namespace

void check_anomaly(Node* node, const Pass& pass) {
  if (!modes.anomaly_check_nan) return;
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (pass.results[i] && has_nan(pass.results[i])) {
      bool arrived = false;
      for (uint32_t k = 0; k < node->output_count; k++)
        arrived = arrived || (pass.grads[k] && has_nan(pass.grads[k]));
      fail("Function '", Py_TYPE(node)->tp_name, "' returned nan values in its ", i, "th output.",
           arrived
               ? "\n  It only passed them on: the gradient that arrived was nan already. It was "
                 "given to backward(), made by a hook, or is a sum of infinities."
               : "");
    }
}

constinit thread_local Node* evaluated = nullptr;

}  // namespace rl
