// Kinds of ops. The driver treats reductions, contractions and random ops apart; tests and the
// documentation group by them.
#pragma once

#include <cstdint>

namespace rl {

enum class Family : uint8_t {
  None,
  Activation,
  Attention,
  Contraction,
  Convolution,
  Creation,
  Distance,
  Fourier,
  Indexing,
  Linalg,
  Loss,
  Norm,
  Pointwise,
  Pooling,
  Random,
  Recurrent,
  Reduction,
  Resampling,
  Scan,
  Shuffle,
  Softmax,
  Sort,
  View,
};

inline const char* name(Family family) {
  static constexpr const char* names[] = {
      "",          "activation", "attention", "contraction", "convolution", "creation",
      "distance",  "fourier",    "indexing",  "linalg",      "loss",        "norm",
      "pointwise", "pooling",    "random",    "recurrent",   "reduction",   "resampling",
      "scan",      "shuffle",    "softmax",   "sort",        "view",
  };
  static_assert(sizeof names / sizeof *names == int(Family::View) + 1);
  return names[int(family)];
}

}  // namespace rl
