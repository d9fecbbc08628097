#include <cmath>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace rl::cpu {

void inverse_counts(const int64_t* ids, int64_t n, int64_t rows, double* out) {
  std::vector<int64_t> count(size_t(rows), 0);
  for (int64_t i = 0; i < n; ++i) count[size_t(ids[i])]++;
  for (int64_t i = 0; i < n; ++i) out[i] = 1 / double(count[size_t(ids[i])]);
}

void shorten_rows(double* table, int64_t rows, int64_t n, const int64_t* ids, int64_t count,
                  double max_norm, double p) {
  std::vector<bool> done(size_t(rows), false);
  for (int64_t i = 0; i < count; ++i) {
    if (done[size_t(ids[i])]) continue;
    done[size_t(ids[i])] = true;
    double* row = table + ids[i] * n;
    double norm = 0;
    for (int64_t k = 0; k < n; ++k) {
      double a = std::abs(row[k]);
      if (std::isinf(p)) norm = std::max(norm, a);
      else norm += p == 2 ? a * a : std::pow(a, p);
    }
    if (!std::isinf(p)) norm = std::pow(norm, 1 / p);
    if (norm <= max_norm) continue;
    double scale = max_norm / (norm + 1e-7);
    for (int64_t k = 0; k < n; ++k) row[k] *= scale;
  }
}

}  // namespace rl::cpu
