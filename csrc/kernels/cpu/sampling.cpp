// Random orders and draws from weights.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"

namespace rl::cpu {
namespace {

// Draws of 64 bits one after the other.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t offset) : seed_(seed), counter_(offset) {}
  uint64_t next() {
    if (used_ == kDraws) {
      philox64(seed_, counter_, 1, draws_);
      counter_ += uint64_t(kLanes);
      used_ = 0;
    }
    return draws_[used_++];
  }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  double open() { return (double(next() >> 12) + 0.5) * 0x1p-52; }

 private:
  uint64_t seed_, counter_;
  int64_t used_ = kDraws;
  uint64_t draws_[kDraws];
};

uint64_t counters(int64_t n) { return uint64_t((n + kDraws - 1) / kDraws) * uint64_t(kLanes); }

void with_replacement(const double* weights, int64_t cols, int64_t samples, int64_t* out,
                      Draws draws) {
  std::vector<double> sums(static_cast<size_t>(cols));
  std::partial_sum(weights, weights + cols, sums.begin());
  int64_t last = cols - 1;
  while (last > 0 && weights[last] == 0) --last;
  for (int64_t i = 0; i < samples; ++i) {
    auto at = std::upper_bound(sums.begin(), sums.end(), draws.uniform() * sums.back());
    out[i] = std::min<int64_t>(at - sums.begin(), last);
  }
}

// A race: the one with the first exponential arrival at rate w wins, then the next, and so on.
void without_replacement(const double* weights, int64_t cols, int64_t samples, int64_t* out,
                         Draws draws) {
  std::vector<std::pair<double, int64_t>> arrivals(static_cast<size_t>(cols));
  for (int64_t j = 0; j < cols; ++j) {
    double time = -std::log(draws.open());
    arrivals[size_t(j)] = {weights[j] > 0 ? time / weights[j] : INFINITY, j};
  }
  std::partial_sort(arrivals.begin(), arrivals.begin() + samples, arrivals.end());
  for (int64_t i = 0; i < samples; ++i) out[i] = arrivals[size_t(i)].second;
}

}  // namespace

void fill_permutation(int64_t* out, int64_t n, uint64_t seed, uint64_t offset) {
  Draws draws(seed, offset);
  for (int64_t i = 0; i < n; ++i) {
    // Inside-out Fisher-Yates: element i goes to a random place among the first i + 1.
    int64_t j = int64_t((unsigned __int128)(draws.next()) * uint64_t(i + 1) >> 64);
    out[i] = out[j];
    out[j] = i;
  }
}

void multinomial(const double* weights, int64_t rows, int64_t cols, int64_t samples,
                 bool replacement, int64_t* out, uint64_t seed, uint64_t offset) {
  uint64_t each = counters(replacement ? samples : cols);
  parallel_for(rows, grain(cols + samples), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      Draws draws(seed, offset + uint64_t(r) * each);
      auto draw = replacement ? with_replacement : without_replacement;
      draw(weights + r * cols, cols, samples, out + r * samples, draws);
    }
  });
}

}  // namespace rl::cpu
