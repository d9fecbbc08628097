#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {
namespace {

constexpr int64_t kPiece = 1 << 15;
constexpr int64_t kBlock = 512;

template <class C>
RL_CLONES void multiply(C* x, int64_t n, C factor) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// The sum of x * 0 is 0 unless something is not finite.
template <class C>
RL_CLONES C multiply_and_probe(C* x, int64_t n, C factor) {
  C probe = 0;
#pragma omp simd reduction(+ : probe)
  for (int64_t i = 0; i < n; ++i) {
    probe += x[i] * C(0);
    x[i] *= factor;
  }
  return probe;
}

template <class C>
bool scale_direct(void* data, int64_t begin, int64_t end, double factor, bool probes) {
  C* x = static_cast<C*>(data) + begin;
  if (probes) return multiply_and_probe(x, end - begin, C(factor)) == 0;
  multiply(x, end - begin, C(factor));
  return true;
}

bool scale_halves(DType d, void* data, int64_t begin, int64_t end, double factor, bool probes) {
  Convert load = loader<float>(d), store = storer<float>(d);
  float block[kBlock], probe = 0;
  for (int64_t at = begin; at < end; at += kBlock) {
    int64_t n = std::min(kBlock, end - at);
    char* x = static_cast<char*>(data) + at * itemsize(d);
    load(x, block, n);
    probe += multiply_and_probe(block, n, float(factor));
    store(block, x, n);
  }
  return !probes || probe == 0;
}

bool scale_one(DType d, void* x, int64_t n, double factor, bool probes) {
  std::atomic<bool> finite{true};
  parallel_for(n, kPiece, [&](int64_t begin, int64_t end) {
    bool here = d == DType::F64   ? scale_direct<double>(x, begin, end, factor, probes)
                : d == DType::F32 ? scale_direct<float>(x, begin, end, factor, probes)
                                  : scale_halves(d, x, begin, end, factor, probes);
    if (!here) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

}  // namespace

void scale(DType d, void* x, int64_t n, double factor) { scale_one(d, x, n, factor, false); }
bool scale_checked(DType d, void* x, int64_t n, double factor) {
  return !scale_one(d, x, n, factor, true);
}

void norm_all(const Piece* pieces, size_t count, double p, double* out) {
  std::vector<double> norms(count);
  for (size_t i = 0; i < count; i++) {
    alignas(8) char room[8];
    norm(pieces[i].dtype, pieces[i].data, room, 1, pieces[i].n, 1, p);
    convert(DType::F64, &norms[i], 8, real_of(pieces[i].dtype), room, 8, 1);
  }
  norm(DType::F64, norms.data(), out, 1, int64_t(count), 1, p);
}
void scale_all(const Piece* pieces, size_t count, const double* factor, float* found) {
  for (size_t i = 0; i < count; i++) {
    const Piece& piece = pieces[i];
    double by = factor ? *factor : 1;
    if (!scale_one(piece.dtype, piece.data, piece.n, by, found != nullptr)) *found = 1;
  }
}
void update_scale(float* scale, int32_t* tracker, const float* found, double growth, double backoff,
                  int64_t interval) {
  if (*found != 0) {
    *scale *= float(backoff);
    *tracker = 0;
  } else if (++*tracker == interval) {
    float grown = *scale * float(growth);
    if (std::isfinite(grown)) *scale = grown;
    *tracker = 0;
  }
}

}  // namespace rl::cpu
