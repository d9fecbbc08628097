// What an op's struct derives from and what its rules are given; call/op.h explains the contract.
#pragma once

#include "autograd/autocast.h"
#include "autograd/batch.h"
#include "autograd/forward.h"
#include "call/registry.h"
#include "ops/functions.h"

namespace rl {

// What an op makes of tensors of a stored type (tensor/dtype.h).
enum class Stored : uint8_t {
  Refused,
  Moved,    // its code takes every type
  Truth,    // only whether an element is 0 matters: it is given bools
  Summed,   // of unsigned integers it is given int64; results stay what they are
  Ordered,  // the same, the order kept; the first result, if it has a derivative, is of the type
};

// The forms. A struct derives from one; a missing rule is a compile error.
struct OpDefaults {
  static constexpr auto doc = "";
  static constexpr auto module = "";
  static constexpr auto saves = "";
  static constexpr Family family = Family::None;
  static constexpr bool tried_last = false;  // after the overloads of its name in other files
  static constexpr auto former = "";         // deprecated orders of the arguments (call/registry.h)
  static constexpr bool function = true;
  static constexpr bool method = true;
  static constexpr bool inplace = false;
  static constexpr bool out = true;
  static constexpr bool is_view = false;
  static constexpr bool spares = false;         // what it saved may be written: it keeps copies
  static constexpr bool whole_history = false;  // see autograd/history.h
  static constexpr Autocast autocast = Autocast::None;
  static constexpr Batching batching = Batching::Loop;
  static constexpr Stored stored = Stored::Refused;
};
struct Composite : OpDefaults {  // a function of other ops: no rule
  static constexpr Form form = Form::Composite;
};
struct Linear : OpDefaults {  // linear in all differentiable arguments together: vjp
  static constexpr Form form = Form::Linear;
};
struct Bilinear : OpDefaults {  // linear in each differentiable argument: vjp
  static constexpr Form form = Form::Linear;
  static constexpr bool bilinear = true;
};
struct General : OpDefaults {  // nonlinear: vjp and jvp
  static constexpr Form form = Form::General;
};
struct NonDifferentiable : OpDefaults {
  static constexpr Form form = Form::NonDifferentiable;
};
// The result shares the input's memory. Without a vjp the gradient is put back where it came from.
struct View : Linear {
  static constexpr bool is_view = true;
  static constexpr bool out = false;
  static constexpr Family family = Family::View;
  static constexpr Stored stored = Stored::Moved;
};

// The tangent of what has none.
inline Var no_tangent(const Var& v) {
  Var zeros = ops::zeros(v.sizes(), v.dtype(), v->storage->device);
  zeros->wrapped_number = v->wrapped_number;
  return zeros;
}

// A tensor argument as the node keeps it.
struct KeptTensor {
  SavedTensor saved;
  Ints sizes;
  DType dtype = DType::F32;
  Device device;
  bool defined = false;
};

// A tensor argument as a rule sees it.
class In {
 public:
  In(const KeptTensor& kept, Node* node) : kept_(&kept), node_(node) {}
  const Ints& sizes() const { return kept_->sizes; }
  int64_t size(int d) const { return kept_->sizes[d < 0 ? d + dim() : d]; }
  int dim() const { return kept_->sizes.size(); }
  DType dtype() const { return kept_->dtype; }
  Device device() const { return kept_->device; }
  explicit operator bool() const { return kept_->defined; }
  Var operator*() const { return kept_->saved.unpack(node_); }

 private:
  const KeptTensor* kept_;
  Node* node_;
};
using InList = std::vector<In>;

// A call of a rule: gradients in, gradients out.
class Back {
 public:
  Back(Node* node, Pass& pass, const SavedTensor* outs) : node_(node), pass_(pass), outs_(outs) {}
  const Var& g(int i = 0) const { return pass_.grads[i]; }
  bool wants(int i) const { return node_->edges[i].node && pass_.wants(i); }
  Var& operator[](int i) { return pass_.results[i]; }
  Var out(int i = 0) const { return outs_[i].unpack(node_); }
  // Whether the rule itself is differentiated: a fused kernel may not stand in for it.
  bool create_graph() const { return pass_.differentiable; }
  // The sizes and dtype of output i, for gradients that did not arrive.
  const TensorMeta& meta(int i) const { return node_->meta(uint32_t(i)); }
  Var g_or_zeros(int i) const {
    return g(i) ? g(i) : ops::zeros(meta(i).sizes, meta(i).dtype, meta(i).device);
  }

 private:
  Node* node_;
  Pass& pass_;
  const SavedTensor* outs_;
};

// A call of a jvp: tangents in, tangents out.
class Push {
 public:
  Push(Vars tangents, const Var* outs, size_t count)
      : tangents_(std::move(tangents)), outs_(outs), results_(count) {}
  const Var& t(int i) const { return tangents_[size_t(i)]; }
  const Var& out(int k = 0) const { return outs_[k]; }
  Var& operator[](int k) { return results_[size_t(k)]; }
  void add(const Var& term) { results_[0] = results_[0] ? ops::add(results_[0], term) : term; }

 private:
  Vars tangents_;
  const Var* outs_;
  Vars results_;
};

}  // namespace rl
