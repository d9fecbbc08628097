// How the arguments of a call are moved behind the hidden dimensions of vmap.
#pragma once

#include <optional>

#include "autograd/batch.h"
#include "ops/functions.h"
#include "python/signature.h"

namespace rl {

class Shift {
 public:
  // `added`: how many dimensions more than the first tensor has do the op's dims count.
  Shift(const HiddenDims& hidden, const Signature& signature, bool reduces, int added)
      : hidden_(hidden), signature_(signature), reduces_(reduces), added_(added) {}

  // Whether the op can be run so: not when there are no dimensions to move.
  bool possible() const { return possible_; }

  Var operator()(size_t, const Var& v) {
    if (!v) return v;
    if (rank_ < 0) rank_ = v.dim();
    return hidden_.front(v);
  }
  Vars operator()(size_t at, const Vars& vars) {
    Vars all;
    for (const Var& v : vars) all.push_back((*this)(at, v));
    return all;
  }
  int64_t operator()(size_t at, int64_t value) { return is_dim(at) ? moved(value) : value; }
  std::optional<int64_t> operator()(size_t at, const std::optional<int64_t>& value) {
    if (!is_dim(at)) return value;
    if (!value) possible_ = false;
    return value ? std::optional(moved(*value)) : value;
  }
  Ints operator()(size_t at, const Ints& value) {
    if (name(at) == "size") return hidden_.prefixed(value);
    if (!is_dim(at)) return value;
    return value.empty() && reduces_ ? all_dims() : moved(value);
  }
  std::optional<Ints> operator()(size_t at, const std::optional<Ints>& value) {
    if (!is_dim(at)) return value;
    return value && !(value->empty() && reduces_) ? moved(*value) : all_dims();
  }
  template <class T>
  const T& operator()(size_t, const T& value) {
    return value;
  }

 private:
  const std::string& name(size_t at) const { return signature_.params()[at].name; }
  bool is_dim(size_t at) const { return name(at).compare(0, 3, "dim") == 0; }
  int64_t moved(int64_t dim) {
    int rank = rank_ + added_;
    if (rank == 0) possible_ = false;
    return wrap_dim(dim, rank, signature_.name().c_str()) + hidden_.count();
  }
  Ints moved(const Ints& dims) {
    Ints all;
    for (int64_t d : dims) all.push_back(moved(d));
    return all;
  }
  Ints all_dims() {
    if (rank_ == 0) possible_ = false;
    Ints all;
    for (int i = 0; i < rank_; i++) all.push_back(hidden_.count() + i);
    return all;
  }

  const HiddenDims& hidden_;
  const Signature& signature_;
  bool reduces_;
  int added_;
  int rank_ = -1;
  bool possible_ = true;
};

}  // namespace rl
