#include "call/pointwise_batch.h"

#include "autograd/forward.h"
#include "autograd/inplace.h"
#include "call/broadcast.h"
#include "ops/functions.h"

namespace rl {

// A number of Python, or one of the host's beside tensors of another device: the same for all samples.
static bool stays_number(const Var& v) {
  bool host = devices_mix && v.dim() == 0 && v.device() == kHost && !batch_of(v.get());
  return v->wrapped_number || host;
}

// Types are settled as for one sample: there, a tensor may have no dimensions and so no say in them.
Var run_batched(const Pointwise& op, const Var* in, const double* params,
                const HiddenDims& hidden) {
  Promotion promotion;
  int rank = 0;
  for (int i = 0; i < op.inputs; i++) {
    if (i > 0 || !op.moves) promotion.add(in[i].get());
    rank = std::max(rank, in[i].dim());
  }
  DType common = promotion.result();
  Var physical[3];
  for (int i = 0; i < op.inputs; i++) {
    bool weak = in[i].dim() == 0 && in[i].dtype() != common && in[i].dtype() != DType::Bool;
    physical[i] = stays_number(in[i]) ? in[i] : hidden.front(in[i], rank - in[i].dim());
    if (weak && !in[i]->wrapped_number) physical[i] = ops::to(physical[i], common);
  }
  return run_pointwise(op, physical, params);
}

HiddenDims bring_front(std::initializer_list<Var*> tensors) {
  HiddenDims hidden;
  int rank = 0;
  for (Var* t : tensors) {
    hidden.add(*t);
    rank = std::max(rank, *t ? t->dim() : 0);
  }
  if (hidden)
    for (Var* t : tensors)
      if (*t && !stays_number(*t)) *t = hidden.front(*t, rank - t->dim());
  return hidden;
}

bool is_batched_write(const Pointwise& op, const Var* in, const Tensor* into) {
  bool any = batch_of(into);
  for (int i = 0; i < op.inputs; i++) any = any || batch_of(in[i].get());
  return any;
}

// The result of the plain form, copied.
Var write_batched(const Pointwise& op, const Var* in, const double* params, Tensor* into,
                  bool inplace) {
  check(inplace, op.name, "(): out= is not supported under vmap");
  check_inplace(into, op.name);
  Var before[3];
  for (int i = 0; i < op.inputs; i++)
    before[i] = in[i]->storage == into->storage ? ops::clone(in[i]) : in[i];
  Var result = run_pointwise(op, before, params);
  if (!(into->sizes == result.sizes()))
    fail("output with shape ", into->sizes, " doesn't match the broadcast shape ", result.sizes());
  check_batched_write(into, result.get());
  if (!op.differentiable()) {
    ops::copy_(Var(into), ops::to(result, into->dtype));  // its history ends here
    return Var(into);
  }
  prepare_write(into, op.name);
  ops::copy_data(into, result.get());
  take_over(into, result);
  return Var(into);
}

}  // namespace rl
