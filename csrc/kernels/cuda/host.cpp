// Kernels that are rare, or sequential by nature: the elements come to the host, its kernel runs,
// and the results go back.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/host.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr int64_t kIndex = sizeof(int64_t);

}  // namespace

void kth(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n, int64_t inner,
         int64_t k) {
  In in(x, outer * n * inner * itemsize(d));
  Out values(y, outer * inner * itemsize(d)), places(index, outer * inner * kIndex);
  cpu::kth(d, in.get(), values.get(), places.get<int64_t>(), outer, n, inner, k);
}
void median(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
            int64_t inner) {
  In in(x, outer * n * inner * itemsize(d));
  Out values(y, outer * inner * itemsize(d)), places(index, outer * inner * kIndex);
  cpu::median(d, in.get(), values.get(), places.get<int64_t>(), outer, n, inner);
}
void median_value(DType d, const void* x, void* y, int64_t n) {
  In in(x, n * itemsize(d));
  Out value(y, itemsize(d));
  cpu::median_value(d, in.get(), value.get(), n);
}
void mode(DType d, const void* x, void* y, int64_t* index, int64_t outer, int64_t n,
          int64_t inner) {
  In in(x, outer * n * inner * itemsize(d));
  Out values(y, outer * inner * itemsize(d)), places(index, outer * inner * kIndex);
  cpu::mode(d, in.get(), values.get(), places.get<int64_t>(), outer, n, inner);
}
void recurrence(DType d, const void* a, const void* b, void* y, int64_t outer, int64_t n,
                int64_t inner, bool reverse) {
  int64_t links = n > 0 ? n - 1 : 0, size = inner * outer * itemsize(d);
  In factors(a, links * size), terms(b, n * size);
  Out out(y, n * size);
  cpu::recurrence(d, factors.get(), terms.get(), out.get(), outer, n, inner, reverse);
}
void complex_logcumsumexp(DType d, const void* x, void* y, int64_t outer, int64_t n,
                          int64_t inner) {
  In in(x, outer * n * inner * itemsize(d));
  Out out(y, outer * n * inner * itemsize(d));
  cpu::complex_logcumsumexp(d, in.get(), out.get(), outer, n, inner);
}

void bincount(const int64_t* x, DType weight_type, const void* weights, void* y, int64_t n) {
  In in(x, n * kIndex), w(weights, n * itemsize(weight_type));
  int64_t most = -1;
  for (int64_t i = 0; i < n; i++) most = std::max(most, in.get<int64_t>()[i]);
  int64_t size = weights ? itemsize(weight_type) : kIndex;
  Out out(y, (most + 1) * size, true);
  cpu::bincount(in.get<int64_t>(), weight_type, w.get(), out.get(), n);
}
void histogram(DType d, const void* x, int64_t* counts, int64_t n, int64_t bins, double low,
               double high) {
  In in(x, n * itemsize(d));
  Out out(counts, bins * kIndex, true);
  cpu::histogram(d, in.get(), out.get<int64_t>(), n, bins, low, high);
}
bool svd(DType d, int64_t m, int64_t n, void* a, void* u, double* s, void* vh) {
  int64_t k = std::min(m, n), size = itemsize(d);
  Out matrix(a, m * n * size, true), left(u, m * k * size), values(s, k * 8),
      right(vh, k * n * size);
  return cpu::svd(d, m, n, matrix.get(), left.get(), values.get<double>(), right.get());
}

void shorten_rows(double* table, int64_t rows, int64_t n, const int64_t* ids, int64_t count,
                  double max_norm, double p) {
  In which(ids, count * kIndex);
  Out all(table, rows * n * 8, true);
  cpu::shorten_rows(all.get<double>(), rows, n, which.get<int64_t>(), count, max_norm, p);
}
Outside count_classes(const int64_t* list, double* counts, int64_t rows, int64_t classes) {
  In in(list, rows * classes * kIndex);
  Out out(counts, rows * classes * 8, true);
  return cpu::count_classes(in.get<int64_t>(), out.get<double>(), rows, classes);
}

void fill_permutation(int64_t* out, int64_t n, uint64_t seed, uint64_t offset) {
  Out order(out, n * kIndex);
  cpu::fill_permutation(order.get<int64_t>(), n, seed, offset);
}
void multinomial(const double* weights, int64_t rows, int64_t cols, int64_t samples,
                 bool replacement, int64_t* out, uint64_t seed, uint64_t offset) {
  In in(weights, rows * cols * 8);
  const double* w = in.get<double>();
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      double p = w[r * cols + c];
      check(std::isfinite(p) && p >= 0,
            "probability tensor contains either `inf`, `nan` or element < 0: ", p);
      sum += p;
    }
    check(sum > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
  Out drawn(out, rows * samples * kIndex);
  cpu::multinomial(w, rows, cols, samples, replacement, drawn.get<int64_t>(), seed, offset);
}

void fill_gamma(const UniformSource& s, DType d, const void* shape, void* out, int64_t n) {
  In shapes(shape, n * itemsize(d));
  Out drawn(out, n * itemsize(d));
  cpu::fill_gamma(s, d, shapes.get(), drawn.get(), n);
}
void fill_poisson(const UniformSource& s, DType d, const void* rate, void* out, int64_t n) {
  In rates(rate, n * itemsize(d));
  Out drawn(out, n * itemsize(d));
  cpu::fill_poisson(s, d, rates.get(), drawn.get(), n);
}
void fill_binomial(const UniformSource& s, DType d, const void* count, const void* p, void* out,
                   int64_t n) {
  In counts(count, n * itemsize(d)), chances(p, n * itemsize(d));
  Out drawn(out, n * itemsize(d));
  cpu::fill_binomial(s, d, counts.get(), chances.get(), drawn.get(), n);
}
void fill_dirichlet(const UniformSource& s, DType d, const void* shape, void* out, int64_t rows,
                    int64_t cols) {
  In shapes(shape, rows * cols * itemsize(d));
  Out drawn(out, rows * cols * itemsize(d));
  cpu::fill_dirichlet(s, d, shapes.get(), drawn.get(), rows, cols);
}

namespace {

// The psi of each order, by the host.
class Psi {
 public:
  Psi(const double* const* psi, int count, int64_t n) {
    parts_.reserve(size_t(count));
    for (int m = 0; m < count; m++) {
      parts_.emplace_back(psi[m], n * 8);
      list_.push_back(parts_.back().get<double>());
    }
  }
  const double* const* get() const { return list_.data(); }

 private:
  std::vector<In> parts_;
  std::vector<const double*> list_;
};

}  // namespace

void gamma_slope(int order, const double* a, const double* x, const double* const* psi, double* out,
                 int64_t n) {
  In shape(a, n * 8), at(x, n * 8);
  Psi of_shape(psi, order, n);
  Out slope(out, n * 8);
  cpu::gamma_slope(order, shape.get<double>(), at.get<double>(), of_shape.get(),
                   slope.get<double>(), n);
}
void beta_slope(int j, int k, const double* x, const double* a, const double* b,
                const double* const* psi_a, const double* const* psi_b,
                const double* const* psi_sum, double* out, int64_t n) {
  In at(x, n * 8), first(a, n * 8), second(b, n * 8);
  Psi of_a(psi_a, j + k, n), of_b(psi_b, j + k, n), of_sum(psi_sum, j + k, n);
  Out slope(out, n * 8);
  cpu::beta_slope(j, k, at.get<double>(), first.get<double>(), second.get<double>(), of_a.get(),
                  of_b.get(), of_sum.get(), slope.get<double>(), n);
}

}  // namespace rl::cuda
