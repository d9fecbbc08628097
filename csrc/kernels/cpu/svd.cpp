#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/blas.h"

namespace rl::cpu {
namespace {

using Real = void (*)(const char*, const int*, const int*, void*, const int*, double*, void*,
                      const int*, void*, const int*, void*, const int*, int*, int*, size_t);
using Complex = void (*)(const char*, const int*, const int*, void*, const int*, double*, void*,
                         const int*, void*, const int*, void*, const int*, double*, int*, int*,
                         size_t);

}  // namespace

// In LAPACK's column order the matrix is its transpose, whose factors change places.
bool svd(DType d, int64_t m, int64_t n, void* a, void* u, double* s, void* vh) {
  int rows = int(n), columns = int(m), k = std::min(rows, columns), info = 0, query = -1;
  std::vector<int> integers(size_t(8 * k));
  auto run = [&](void* work, const int* size) {
    if (d == DType::F64) {
      static const Real gesdd = reinterpret_cast<Real>(blas_symbol("dgesdd_"));
      gesdd("S", &rows, &columns, a, &rows, s, vh, &rows, u, &k, work, size, integers.data(), &info,
            1);
      return;
    }
    static const Complex gesdd = reinterpret_cast<Complex>(blas_symbol("zgesdd_"));
    size_t least = size_t(k), most = size_t(std::max(rows, columns));
    std::vector<double> reals(least * std::max(5 * least + 7, 2 * most + 2 * least + 1));
    gesdd("S", &rows, &columns, a, &rows, s, vh, &rows, u, &k, work, size, reals.data(),
          integers.data(), &info, 1);
  };
  double wanted[2];
  run(wanted, &query);
  int size = int(wanted[0]);
  std::vector<double> work(size_t(size) * 2);
  run(work.data(), &size);
  return info != 0;
}

}  // namespace rl::cpu
