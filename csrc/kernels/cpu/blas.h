// OpenBLAS, opened at run time from the scipy-openblas32 wheel and kept to one thread: kernels cut
// their work into fixed tiles themselves, so that results do not depend on the thread count.
#pragma once

#include <cstdint>

namespace rl::cpu {

enum CblasFlag : int { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };

struct Blas {
  void (*sgemm)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                float*, int);
  void (*dgemm)(int, int, int, int, int, int, double, const double*, int, const double*, int,
                double, double*, int);
  void (*cgemm)(int, int, int, int, int, int, const void*, const void*, int, const void*, int,
                const void*, void*, int);
  void (*zgemm)(int, int, int, int, int, int, const void*, const void*, int, const void*, int,
                const void*, void*, int);
  void (*sgemv)(int, int, int, int, float, const float*, int, const float*, int, float, float*,
                int);
  void (*dgemv)(int, int, int, int, double, const double*, int, const double*, int, double, double*,
                int);
  void (*cgemv)(int, int, int, int, const void*, const void*, int, const void*, int, const void*,
                void*, int);
  void (*zgemv)(int, int, int, int, const void*, const void*, int, const void*, int, const void*,
                void*, int);
  float (*sdot)(int, const float*, int, const float*, int);
  double (*ddot)(int, const double*, int, const double*, int);
  void (*cdotu)(int, const void*, int, const void*, int, void*);
  void (*zdotu)(int, const void*, int, const void*, int, void*);
};

// Where libscipy_openblas.so is. It is opened at once; where it can't be, the first use says so.
void set_blas_path(const char* path);

// The library's functions; opens it where it is not open yet. Throws std::runtime_error if it can't.
const Blas& blas();

// Any function of the library by its plain name ("cblas_strsm", "dgesdd_"); throws if absent.
void* blas_symbol(const char* name);

}  // namespace rl::cpu
