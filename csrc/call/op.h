// The contract of the ops that are not pointwise. An op is a struct:
//
//   struct Gather : Linear {
//     static constexpr auto signature = "gather(Tensor input, int dim, Tensor index)";
//     static constexpr auto doc = "...";
//     static constexpr auto saves = "index";
//     static Var forward(const Var& input, int64_t dim, const Var& index);
//     static void vjp(Back& b, const In& input, int64_t dim, const In& index) {
//       b[0] = scatter_add(zeros(input.sizes(), b.g().dtype()), dim, *index, b.g());
//     }
//   };
//   RL_OP(Gather)
//
// forward computes and records nothing. vjp has forward's parameters, with tensors as `In`: its
// sizes and dtype are always there, *in is the tensor itself and only what `saves` names may be
// read. b[i] is the gradient of the i-th tensor argument; leave it empty where b.wants(i) is false.
// The engine sums over broadcast dimensions and casts. `saves` lists arguments and "out" (or
// "out1" ...); groups split by '|' say what each tensor argument's gradient needs.
//
// A linear op is its own derivative: its tangent is the op itself on tangents, where an argument
// that `saves` names (an index, a mask) stays what it is. A bilinear op follows the product rule. A
// general op states it: jvp has forward's parameters, p.t(i) is the tangent of the i-th tensor
// argument (none: zero), p[k] that of the k-th output.
#pragma once

#include "call/runner.h"

namespace rl {

// Calls an op from C++, recording it.
template <class Op, class... X>
auto call(X&&... x) {
  return detail::Runner<Op, decltype(&Op::forward)>::run(std::forward<X>(x)...);
}

#define RL_OP(Op) \
  [[maybe_unused]] static const OpInfo& registered_##Op = register_op(detail::record_of<Op>());

}  // namespace rl
