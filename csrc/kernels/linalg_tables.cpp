// The devices' kernels of linear algebra.
#include "kernels/cpu/linalg.h"
#include "kernels/linalg.h"

namespace rl {

const kernel::LinalgTable cpu_linalg = {
#define KERNEL(Result, name, parameters) .name = cpu::name,
#include "kernels/linalg.def"
#undef KERNEL
};

namespace {

template <class R, class... A>
R nothing(A...) {
  return R();
}

constexpr kernel::LinalgTable meta_linalg = {
#define KERNEL(Result, name, parameters) .name = nothing,
#include "kernels/linalg.def"
#undef KERNEL
};

}  // namespace

const kernel::LinalgTable* linalg_tables[] = {&cpu_linalg, nullptr, &meta_linalg};

const kernel::LinalgTable& linalg_on(const Var& v) {
  on(v);
  const kernel::LinalgTable* found = linalg_tables[v.device().type];
  if (!found)
    fail_as(PyExc_NotImplementedError,
            "linalg: there are no kernels of linear algebra on the device 'cuda'; move the tensor "
            "with .cpu()");
  return *found;
}

}  // namespace rl
