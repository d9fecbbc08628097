// A row-major tensor read as [outer, n, inner] around one dimension.
#pragma once

#include "tensor/ints.h"

namespace rl {

struct Around {
  int64_t outer = 1, n = 1, inner = 1;
  Around(const Ints& sizes, int64_t dim) {
    for (int i = 0; i < sizes.size(); i++) (i < dim ? outer : i == dim ? n : inner) *= sizes[i];
  }
};

}  // namespace rl
