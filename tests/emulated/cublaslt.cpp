// cuBLASLt of the emulated device: column-major products, in double.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shared.h"

namespace {

int some;  // handles point to it

struct LtDesc {
  int turn_a = 0, turn_b = 0, epilogue = 1;
  const void* bias = nullptr;
};
struct LtLayout {
  int type;
  uint64_t rows, cols;
  int64_t ld, offset = 0;
  int batch = 1;
};

float half_value(unsigned short h) {
  unsigned e = (h >> 10) & 31, m = h & 1023;
  float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(float(m + 1024), int(e) - 25) : std::ldexp(float(m), -24);
  return h & 0x8000 ? -f : f;
}
unsigned short half_bits(float value) {
  unsigned u;
  std::memcpy(&u, &value, 4);
  unsigned sign = (u >> 16) & 0x8000, m = u & 0x7fffffff;
  if (m > 0x7f800000) return (unsigned short)(sign | 0x7fff);
  if (m >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
  if (m < 0x38800000) {
    float scaled;
    std::memcpy(&scaled, &m, 4);
    scaled += 0.5f;
    std::memcpy(&m, &scaled, 4);
    return (unsigned short)(sign | (m - 0x3f000000));
  }
  return (unsigned short)(sign | ((m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13));
}

}  // namespace

double load(int type, const void* data, int64_t at) {
  switch (type) {
    case 0: return static_cast<const float*>(data)[at];
    case 1: return static_cast<const double*>(data)[at];
    case 2: return half_value(static_cast<const unsigned short*>(data)[at]);
    default: {
      unsigned u = unsigned(static_cast<const unsigned short*>(data)[at]) << 16;
      float f;
      std::memcpy(&f, &u, 4);
      return f;
    }
  }
}
void store(int type, void* data, int64_t at, double value) {
  float f = float(value);
  unsigned u;
  std::memcpy(&u, &f, 4);
  switch (type) {
    case 0: static_cast<float*>(data)[at] = f; break;
    case 1: static_cast<double*>(data)[at] = value; break;
    case 2: static_cast<unsigned short*>(data)[at] = half_bits(f); break;
    default:
      static_cast<unsigned short*>(data)[at] =
          f != f ? 0x7fc0 : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
}

EXPORT int cublasLtCreate(void** handle) {
  *handle = new int(entered());
  return std::getenv("EMULATED_CUDA_NO_BLAS") ? 1 : 0;
}
EXPORT int cublasLtMatmulDescCreate(void** desc, int, int) {
  *desc = new LtDesc;
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t size) {
  auto* d = static_cast<LtDesc*>(desc);
  if (attribute == 3) std::memcpy(&d->turn_a, value, size);
  else if (attribute == 4) std::memcpy(&d->turn_b, value, size);
  else if (attribute == 7) std::memcpy(&d->epilogue, value, size);
  else if (attribute == 8) std::memcpy(&d->bias, value, size);
  else return 7;
  return 0;
}
EXPORT int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new LtLayout{type, rows, cols, ld};
  return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t size) {
  auto* l = static_cast<LtLayout*>(layout);
  if (attribute == 5) std::memcpy(&l->batch, value, size);
  else if (attribute == 6) std::memcpy(&l->offset, value, size);
  else return 7;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = &some;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void* c, void*, void*, int,
                                          void* found, int* count) {
  std::memset(found, 0, 96);
  auto *d = static_cast<LtDesc*>(desc);
  auto *x = static_cast<LtLayout*>(a), *y = static_cast<LtLayout*>(b), *z = static_cast<LtLayout*>(c);
  uint64_t m = d->turn_a ? x->cols : x->rows, k = d->turn_a ? x->rows : x->cols;
  uint64_t n = d->turn_b ? y->rows : y->cols, l = d->turn_b ? y->cols : y->rows;
  bool fits = k == l && z->rows == m && z->cols == n && x->ld >= int64_t(x->rows) &&
              y->ld >= int64_t(y->rows) && z->ld >= int64_t(z->rows);
  if (!fits) {
    std::fprintf(stderr, "emulated cuBLASLt: layouts that do not fit\n");
    std::abort();
  }
  *count = x->type == 4 || x->type == 5 ? 0 : 1;
  return 0;
}
EXPORT int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* la, const void* b,
                          void* lb, const void* beta, const void* c, void* lc, void* out, void*,
                          const void*, void*, size_t, void* stream) {
  if (foreign("a product", stream) || *static_cast<int*>(handle) != entered()) return 13;
  for (const void* at : {a, b, c, static_cast<const void*>(out)})
    if (device_of(Address(at)) != entered()) return refused("a factor", device_of(Address(at)));
  LtDesc d = *static_cast<LtDesc*>(desc);
  LtLayout x = *static_cast<LtLayout*>(la), y = *static_cast<LtLayout*>(lb), z = *static_cast<LtLayout*>(lc);
  double scale = x.type == 1 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  double keep = x.type == 1 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  auto work = [=] {
    int64_t m = int64_t(z.rows), n = int64_t(z.cols), k = int64_t(d.turn_a ? x.rows : x.cols);
    for (int64_t batch = 0; batch < z.batch; batch++)
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          double sum = 0;
          for (int64_t l = 0; l < k; l++)
            sum += load(x.type, a, batch * x.offset + (d.turn_a ? l + i * x.ld : i + l * x.ld)) *
                   load(y.type, b, batch * y.offset + (d.turn_b ? j + l * y.ld : l + j * y.ld));
          int64_t at = batch * z.offset + i + j * z.ld;
          double value = scale * sum + (keep != 0 ? keep * load(z.type, c, at) : 0);
          if (d.epilogue == 4) value += load(z.type, d.bias, i);
          store(z.type, out, at, value);
        }
    return failure("product", 13);
  };
  return record_other(stream, work) ? 0 : work();
}
