// How the arguments of a call are moved behind the hidden dimensions of vmap.
#pragma once

#include <optional>

#include "autograd/batch.h"
#include "call/signature.h"
#include "ops/functions.h"

namespace rl {

class Shift {
 public:
  // `added`: how many dimensions more than the first tensor has do the op's dims count.
  Shift(const HiddenDims& hidden, const Signature& signature, bool reduces, int added)
      : hidden_(hidden), signature_(signature), reduces_(reduces), added_(added) {}

  // Whether the op can be run so: not when there are no dimensions to move.
  bool possible() const { return possible_; }

  // The argument at a place of the signature, moved.
  Var operator()(size_t at, const Var& v);
  Vars operator()(size_t at, const Vars& vars);
  int64_t operator()(size_t at, int64_t value);
  std::optional<int64_t> operator()(size_t at, const std::optional<int64_t>& value);
  Ints operator()(size_t at, const Ints& value);
  std::optional<Ints> operator()(size_t at, const std::optional<Ints>& value);
  template <class T>
  const T& operator()(size_t, const T& value) {
    return value;
  }

 private:
  bool is_dim(size_t at) const;
  int64_t moved(int64_t dim);
  Ints moved(const Ints& dims);
  Ints all_dims();

  const HiddenDims& hidden_;
  const Signature& signature_;
  bool reduces_;
  int added_;
  int rank_ = -1;
  bool possible_ = true;
};

}  // namespace rl
