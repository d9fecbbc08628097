// Random numbers for ops: a share of a generator's stream, and tensors filled from it.
#pragma once

#include "call/broadcast.h"
#include "kernels/cpu/mersenne.h"
#include "kernels/kernels.h"
#include "ops/functions.h"
#include "tensor/objects.h"

namespace rl {

// A part of a generator's stream that nobody else draws from: enough for `draws` numbers.
struct Stream {
  uint64_t seed, offset;
  Stream(Generator* generator, int64_t draws) : seed(generator->seed), offset(generator->offset) {
    generator->offset += (uint64_t(draws) + 31) / 32 * 16;
  }
};

// The arguments of distributions: raise when there is no such distribution of that type.
void check_uniform(DType dtype, double from, double to);
void check_normal(DType dtype, double std);
void check_integers(DType dtype, int64_t low, int64_t high);
void check_bernoulli(DType dtype, double p);
// Probabilities for a tensor of these sizes that lies there, checked: float64.
Var probabilities(const Var& p, const Ints& sizes, Device device);

// Fill in row-major order, whatever the layout, or, with torch's engine, in the order of memory, as
// torch does; nothing is recorded.
void fill_uniform(Tensor* t, double from, double to, Generator* generator);
void fill_normal(Tensor* t, double mean, double std, Generator* generator);
void fill_integers(Tensor* t, int64_t low, int64_t high, Generator* generator);  // [low, high)
void fill_bernoulli(Tensor* t, double p, Generator* generator);
// `type` is what the probabilities came as.
void fill_bernoulli(Tensor* t, const Var& probabilities, DType type, Generator* generator);

}  // namespace rl
