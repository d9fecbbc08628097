// Planes that are read and written whole, in the type that is computed in.
#pragma once

#include <vector>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

// make() gives each thread its run(plane, from, to); `in` and `out` count the elements of a plane.
template <class C, class Make>
void each_plane(DType d, int64_t planes, int64_t grain, const void* x, int64_t in, void* y,
                int64_t out, const Make& make) {
  Source<C> source(d, x);
  Convert store = storer<C>(d);
  parallel_for(planes, grain, [&](int64_t begin, int64_t end) {
    std::vector<C> from(source.direct() ? 0 : size_t(in)), to(store ? size_t(out) : 0);
    auto run = make();
    for (int64_t p = begin; p < end; ++p) {
      C* result = store ? to.data() : static_cast<C*>(y) + p * out;
      run(p, source.fetch(p * in, in, from.data()), result);
      if (store) store(result, static_cast<char*>(y) + p * out * itemsize(d), out);
    }
  });
}

}  // namespace rl::cpu
