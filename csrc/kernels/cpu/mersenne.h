// PyTorch's CPU random numbers: the Mersenne Twister (Matsumoto and Nishimura, 1998) and the way in
// which torch makes numbers of its words, so that one seed gives the same numbers in both libraries.
// A stream is sequential: fills run on one thread, in the order of the output.
#pragma once

#include "tensor/dtype.h"

namespace rl::cpu {

struct Mersenne {
  static constexpr int kWords = 624;
  uint32_t words[kWords];
  int32_t left;  // draws until the words are renewed, plus one
  int32_t next;  // the word of the next draw
  double spare;  // the second normal number of a pair
  bool has_spare;

  explicit Mersenne(uint64_t seed);
  uint32_t draw32();
  uint64_t draw64() {
    uint64_t high = draw32();
    return high << 32 | draw32();
  }
  void draw(uint32_t* out, int64_t n);  // the next n words
  void uniform(float* out, int64_t n, float from = 0, float width = 1);
  void uniform(double* out, int64_t n, double from = 0, double width = 1);
  double uniform() { return double(draw64() & ((uint64_t(1) << 53) - 1)) * 0x1p-53; }
  double normal();

 private:
  void renew();
};

// The layout in which torch saves a generator: get_state() gives these bytes.
constexpr int64_t kMersenneBytes = 5056;
void save(const Mersenne& m, uint64_t seed, char* bytes);
bool restore(Mersenne& m, uint64_t& seed, const char* bytes);  // false: no such state

// Fills as torch has them. Dtypes are real; outputs are contiguous.
void fill_uniform(Mersenne& m, DType d, void* out, int64_t n, double from, double to);
// Blocks of 16 where there are as many elements and the tensor is `contiguous`.
void fill_normal(Mersenne& m, DType d, void* out, int64_t n, double mean, double std,
                 bool contiguous);
// Numbers from [0, 1) in blocks of 16 become normal ones, to the last bit as torch's vector loop.
void box_muller(float* x, int64_t blocks, float mean, float std);
// [low, low + range), a range of 0 meaning all 2^64.
void fill_integers(Mersenne& m, DType d, void* out, int64_t n, int64_t low, uint64_t range);
// What random_() gives without bounds: all integers that the type tells apart, from 0.
void fill_any_integers(Mersenne& m, DType d, void* out, int64_t n);
void fill_bernoulli(Mersenne& m, DType d, void* out, int64_t n, double p);
// A probability for each; those that came as float64 are compared with finer numbers.
void fill_bernoulli_each(Mersenne& m, DType d, void* out, const double* p, bool fine, int64_t n);
void fill_exponential(Mersenne& m, DType d, void* out, int64_t n, double lambda);
void fill_log_normal(Mersenne& m, DType d, void* out, int64_t n, double mean, double std);
void fill_geometric(Mersenne& m, DType d, void* out, int64_t n, double p);
void fill_cauchy(Mersenne& m, DType d, void* out, int64_t n, double median, double sigma);
void fill_permutation(Mersenne& m, int64_t* out, int64_t n);
// Weights as for the counter-based multinomial (kernels/cpu/random.h); d is the type they came in.
void multinomial(Mersenne& m, DType d, const double* weights, int64_t rows, int64_t cols,
                 int64_t samples, bool replacement, int64_t* out);

}  // namespace rl::cpu
