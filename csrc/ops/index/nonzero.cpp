// Where a tensor is not zero.
#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

// The indices of the nonzero elements: [ndim, n].
Var coordinates(const Var& input) {
  Var x = ops::contiguous(input);
  int64_t n;
  Var flat;
  {
    Launch launch(double(x.numel()), {x.get()});
    n = on(x).nonzero(x.dtype(), x->data(), x.numel(), nullptr);
  }
  flat = empty({n}, DType::I64, input.device());
  Var found = x.dim() == 1 ? alias(flat.get(), Ints{1, n}, Ints{n, 1}, 0)
                           : empty({int64_t(x.dim()), n}, DType::I64, input.device());
  Launch launch(double(x.numel()), {x.get(), flat.get(), found.get()});
  on(x).nonzero(x.dtype(), x->data(), x.numel(), flat->data<int64_t>());
  if (x.dim() != 1)
    on(flat).unravel(flat->data<int64_t>(), n, x->sizes.data(), x.dim(), found->data<int64_t>());
  return found;
}

Var index_matrix(const Var& input) {
  Var found = coordinates(input);
  int64_t n = found.sizes()[1];
  return alias(found.get(), Ints{n, found.sizes()[0]}, Ints{1, std::max<int64_t>(n, 1)}, 0);
}

Vars index_vectors(const Var& input) {
  Var found = coordinates(ops::atleast(input, 1));
  Vars vectors;
  int64_t n = found.sizes()[1];
  for (int64_t d = 0; d < found.sizes()[0]; d++)
    vectors.push_back(alias(found.get(), Ints{n}, Ints{1}, d * n));
  return vectors;
}

struct Nonzero : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "nonzero(Tensor input, *, bool as_tuple=False)";
  static constexpr auto doc =
      "nonzero(x, as_tuple): a row of indices for each nonzero element, or a vector per dimension.";
  static constexpr Family family = Family::Indexing;
  static TensorOrTuple forward(const Var& input, bool as_tuple) {
    return {as_tuple ? index_vectors(input) : Vars{index_matrix(input)}, as_tuple};
  }
};
RL_OP(Nonzero)

struct ArgWhere : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "argwhere(Tensor input)";
  static constexpr auto doc = "argwhere(x): a row of indices for each nonzero element.";
  static constexpr Family family = Family::Indexing;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return index_matrix(input); }
};
RL_OP(ArgWhere)

struct WherePositions : NonDifferentiable {
  static constexpr Stored stored = Stored::Truth;
  static constexpr auto signature = "where(Tensor condition)";
  static constexpr bool tried_last = true;
  static constexpr auto doc = "where(condition): a vector of indices per dimension.";
  static constexpr Family family = Family::Indexing;
  static constexpr bool method = false;
  static Vars forward(const Var& condition) { return index_vectors(condition); }
};
RL_OP(WherePositions)

}  // namespace

namespace ops {

Var nonzero(const Var& a) { return call<Nonzero>(a, false).vars[0]; }

}  // namespace ops
}  // namespace rl
