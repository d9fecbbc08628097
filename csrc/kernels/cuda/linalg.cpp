// Linear algebra: large matrices by cuSOLVER and cuBLAS, opened by name; small ones, what those have
// no function for, and all when they are not there, by the host.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/linalg.h"
#include "kernels/cuda/host.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr int64_t kLarge = 64;  // from this size on the device is faster than the way to the host

struct SolverObject;
struct ParamsObject;
struct BlasObject;
using Solver = SolverObject*;
using Params = ParamsObject*;
using Blas = BlasObject*;

#define RL_SIZES size_t *device, size_t *host
#define RL_ROOM void *device, size_t device_bytes, void *host, size_t host_bytes, int *info
#define RL_CUSOLVER(X)                                                                             \
  X(create, "cusolverDnCreate", (Solver * solver))                                                 \
  X(create_params, "cusolverDnCreateParams", (Params * params))                                    \
  X(set_stream, "cusolverDnSetStream", (Solver solver, Stream stream))                             \
  X(potrf_size, "cusolverDnXpotrf_bufferSize",                                                     \
    (Solver, Params, int uplo, int64_t n, int type, const void* a, int64_t lda, int compute,       \
     RL_SIZES))                                                                                    \
  X(potrf, "cusolverDnXpotrf",                                                                     \
    (Solver, Params, int uplo, int64_t n, int type, void* a, int64_t lda, int compute, RL_ROOM))   \
  X(getrf_size, "cusolverDnXgetrf_bufferSize",                                                     \
    (Solver, Params, int64_t m, int64_t n, int type, const void* a, int64_t lda, int compute,      \
     RL_SIZES))                                                                                    \
  X(getrf, "cusolverDnXgetrf",                                                                     \
    (Solver, Params, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* pivots,        \
     int compute, RL_ROOM))                                                                        \
  X(getrs, "cusolverDnXgetrs",                                                                     \
    (Solver, Params, int form, int64_t n, int64_t columns, int type, const void* a, int64_t lda,   \
     const int64_t* pivots, int type_b, void* b, int64_t ldb, int* info))                          \
  X(geqrf_size, "cusolverDnXgeqrf_bufferSize",                                                     \
    (Solver, Params, int64_t m, int64_t n, int type, const void* a, int64_t lda, int type_tau,     \
     const void* tau, int compute, RL_SIZES))                                                      \
  X(geqrf, "cusolverDnXgeqrf",                                                                     \
    (Solver, Params, int64_t m, int64_t n, int type, void* a, int64_t lda, int type_tau,           \
     void* tau, int compute, RL_ROOM))                                                             \
  X(syevd_size, "cusolverDnXsyevd_bufferSize",                                                     \
    (Solver, Params, int vectors, int uplo, int64_t n, int type, const void* a, int64_t lda,       \
     int type_w, const void* w, int compute, RL_SIZES))                                            \
  X(syevd, "cusolverDnXsyevd",                                                                     \
    (Solver, Params, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda, int type_w, \
     void* w, int compute, RL_ROOM))                                                               \
  X(gesvd_size, "cusolverDnXgesvd_bufferSize",                                                     \
    (Solver, Params, signed char u_job, signed char vt_job, int64_t m, int64_t n, int type,        \
     const void* a, int64_t lda, int type_s, const void* s, int type_u, const void* u,             \
     int64_t ldu, int type_vt, const void* vt, int64_t ldvt, int compute, RL_SIZES))               \
  X(gesvd, "cusolverDnXgesvd",                                                                     \
    (Solver, Params, signed char u_job, signed char vt_job, int64_t m, int64_t n, int type,        \
     void* a, int64_t lda, int type_s, void* s, int type_u, void* u, int64_t ldu, int type_vt,     \
     void* vt, int64_t ldvt, int compute, RL_ROOM))

#define RL_CUBLAS(X)                                              \
  X(create, "cublasCreate_v2", (Blas * blas))                     \
  X(set_stream, "cublasSetStream_v2", (Blas blas, Stream stream)) \
  X(strsm, "cublasStrsm_v2", RL_TRSM)                             \
  X(dtrsm, "cublasDtrsm_v2", RL_TRSM)                             \
  X(ctrsm, "cublasCtrsm_v2", RL_TRSM)                             \
  X(ztrsm, "cublasZtrsm_v2", RL_TRSM)
#define RL_TRSM                                                                                    \
  (Blas, int right, int upper, int form, int unit, int m, int n, const void* alpha, const void* a, \
   int lda, void* b, int ldb)

struct Cusolver {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_CUSOLVER(X)
#undef X
} solve;
struct Cublas {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_CUBLAS(X)
#undef X
} blas;

bool open_libraries() {
  static const bool there = [] {
    static const char* const blas_names[] = {"libcublas.so.13", "libcublas.so.12", nullptr};
    static const char* const names[] = {"libcusolver.so.12", "libcusolver.so.11", nullptr};
    std::string missing;
    void* first = open_library(library_folders(), blas_names, missing);
    void* second = first ? open_library(library_folders(), names, missing) : nullptr;
    if (!second) return false;
#define X(name, symbol, parameters)                                        \
  blas.name = reinterpret_cast<decltype(blas.name)>(dlsym(first, symbol)); \
  if (!blas.name) return false;
    RL_CUBLAS(X)
#undef X
#define X(name, symbol, parameters)                                           \
  solve.name = reinterpret_cast<decltype(solve.name)>(dlsym(second, symbol)); \
  if (!solve.name) return false;
    RL_CUSOLVER(X)
#undef X
    return true;
  }();
  return there;
}

// The libraries' handles on the active device.
struct Handles {
  bool tried = false, works = false;
  Solver solver = nullptr;
  Params params = nullptr;
  Blas blas = nullptr;
};
Handles& handles() {
  static PerDevice<Handles> all;
  enter();
  Handles& found = all.here();
  if (!found.tried) [[unlikely]] {
    found.tried = true;
    found.works = open_libraries() && blas.create(&found.blas) == 0 &&
                  solve.create(&found.solver) == 0 && solve.create_params(&found.params) == 0;
  }
  return found;
}

// Whether a matrix of this size goes to the library, whose calls are then for this thread's stream.
bool on_device(int64_t n) {
  if (n < kLarge || !handles().works) return false;
  solve.set_stream(handles().solver, stream);
  blas.set_stream(handles().blas, stream);
  return true;
}

void done(int status, const char* what) {
  if (status != 0) fail("cuSOLVER: ", what, " failed (status ", status, ")");
}

int type_of(DType d) { return d == DType::F32 ? 0 : d == DType::F64 ? 1 : d == DType::C64 ? 4 : 5; }
int real_type_of(DType d) { return itemsize(real_of(d)) == 8 ? 1 : 0; }

// The room that a function asks for, here and there.
struct Room {
  size_t device = 0, host = 0;
  std::vector<char> here;
  std::unique_ptr<Scratch> there;
  void take() {
    here.resize(host);
    there = std::make_unique<Scratch>(int64_t(std::max<size_t>(device, 1)));
  }
};

char* at(void* data, int64_t elements, DType d) {
  return static_cast<char*>(data) + elements * itemsize(d);
}

constexpr char kText[] = R"(
// Zeros on one side of the diagonal of matrices in columns.
extern "C" __global__ void clear_side(T* a, int64 n, int64 total, int upper) {
  RL_EACH(i, total) {
    int64 row = i % n, column = i / n % n;
    if (upper ? row > column : row < column) a[i] = T(0);
  }
}
extern "C" __global__ void identity(T* a, int64 n, int64 total) {
  RL_EACH(i, total) a[i] = i % n == i / n % n ? T(1) : T(0);
}
extern "C" __global__ void adjoint(T* out, const T* in, int64 rows, int64 columns, int64 total) {
  RL_EACH(i, total) {
    int64 row = i % rows, column = i / rows % columns, matrix = i / rows / columns;
    out[matrix * rows * columns + row * columns + column] = conjugate(in[i]);
  }
}
)";
constexpr char kConjugate[] = R"(
__device__ inline float conjugate(float x) { return x; }
__device__ inline double conjugate(double x) { return x; }
template <class R> __device__ Complex<R> conjugate(Complex<R> x) { return Complex<R>(x.re, -x.im); }
)";
Function kernel_of(DType d, const char* name) {
  static Slots<3 * kDTypes> slots;
  int which = name[0] == 'c' ? 0 : name[0] == 'i' ? 1 : 2;
  return slots.get(which * kDTypes + int(d), [&] {
    return compiled(concat("using T = ", type_name(d), ";\n", kConjugate, kText), name);
  });
}

void factor(DType d, int64_t m, int64_t n, void* a, int64_t* pivots, int32_t* info) {
  Room room;
  int t = type_of(d);
  done(solve.getrf_size(handles().solver, handles().params, m, n, t, a, m, t, &room.device,
                        &room.host),
       "lu");
  room.take();
  done(solve.getrf(handles().solver, handles().params, m, n, t, a, m, pivots, t,
                   room.there->get<void>(), room.device, room.here.data(), room.host, info),
       "lu");
}

void solve_factored(DType d, int64_t n, int64_t columns, const void* a, const int64_t* pivots,
                    void* b, int form, int* info) {
  int t = type_of(d);
  done(solve.getrs(handles().solver, handles().params, form, n, columns, t, a, n, pivots, t, b, n,
                   info),
       "lu_solve");
}

}  // namespace

void cholesky(DType d, int64_t batch, int64_t n, void* a, bool upper, int32_t* info) {
  if (!on_device(n)) {
    Out x(a, batch * n * n * itemsize(d), true), found(info, batch * 4);
    return cpu::cholesky(d, batch, n, x.get(), upper, found.get<int32_t>());
  }
  Room room;
  int t = type_of(d);
  done(solve.potrf_size(handles().solver, handles().params, upper, n, t, a, n, t, &room.device,
                        &room.host),
       "cholesky");
  room.take();
  for (int64_t i = 0; i < batch; i++)
    done(solve.potrf(handles().solver, handles().params, upper, n, t, at(a, i * n * n, d), n, t,
                     room.there->get<void>(), room.device, room.here.data(), room.host, info + i),
         "cholesky");
  int64_t total = batch * n * n;
  launch(kernel_of(d, "clear_side"), grid_for(total, 256), 256, a, n, total, int(upper));
}

void lu(DType d, int64_t batch, int64_t m, int64_t n, void* a, int32_t* pivots, int32_t* info) {
  int64_t k = std::min(m, n);
  if (!on_device(k)) {
    Out x(a, batch * m * n * itemsize(d), true), rows(pivots, batch * k * 4),
        found(info, batch * 4);
    return cpu::lu(d, batch, m, n, x.get(), rows.get<int32_t>(), found.get<int32_t>());
  }
  Scratch wide(batch * k * 8);
  for (int64_t i = 0; i < batch; i++)
    factor(d, m, n, at(a, i * m * n, d), wide.get<int64_t>() + i * k, info + i);
  convert(DType::I32, pivots, 4, DType::I64, wide.get<void>(), 8, batch * k);
}

void lu_order(const int32_t* pivots, int64_t batch, int64_t k, int64_t m, bool inverse,
              int64_t* order) {
  In rows(pivots, batch * k * 4);
  Out found(order, batch * m * 8);
  cpu::lu_order(rows.get<int32_t>(), batch, k, m, inverse, found.get<int64_t>());
}

void lu_solve(DType d, int64_t batch, int64_t n, int64_t columns, const void* lu,
              const int32_t* pivots, void* b, MatrixForm form) {
  int64_t size = itemsize(d);
  if (!on_device(n)) {
    In factors(lu, batch * n * n * size), rows(pivots, batch * n * 4);
    Out x(b, batch * n * columns * size, true);
    return cpu::lu_solve(d, batch, n, columns, factors.get(), rows.get<int32_t>(), x.get(), form);
  }
  Scratch wide(batch * n * 8), info(4);
  convert(DType::I64, wide.get<void>(), 8, DType::I32, pivots, 4, batch * n);
  for (int64_t i = 0; i < batch; i++)
    solve_factored(d, n, columns, at(const_cast<void*>(lu), i * n * n, d),
                   wide.get<int64_t>() + i * n, at(b, i * n * columns, d), int(form),
                   info.get<int>());
}

void inverse(DType d, int64_t batch, int64_t n, void* a, int32_t* info) {
  int64_t total = batch * n * n, size = itemsize(d);
  if (!on_device(n)) {
    Out x(a, total * size, true), found(info, batch * 4);
    return cpu::inverse(d, batch, n, x.get(), found.get<int32_t>());
  }
  Scratch pivots(n * 8), whole(total * size), status(4);
  launch(kernel_of(d, "identity"), grid_for(total, 256), 256, whole.get<void>(), n, total);
  for (int64_t i = 0; i < batch; i++) {
    factor(d, n, n, at(a, i * n * n, d), pivots.get<int64_t>(), info + i);
    solve_factored(d, n, n, at(a, i * n * n, d), pivots.get<int64_t>(),
                   at(whole.get<void>(), i * n * n, d), 0, status.get<int>());
  }
  copy_bytes(a, whole.get<void>(), size_t(total * size));
}

void solve_triangular(DType d, int64_t batch, int64_t n, int64_t others, MatrixRef a,
                      int64_t a_batch, void* b, bool upper, bool unit, bool right) {
  int64_t size = itemsize(d);
  if (!on_device(n)) {
    int64_t reach = (batch - 1) * a_batch + (n - 1) * (a.row_stride + a.col_stride) + 1;
    In matrix(a.data, std::max<int64_t>(n ? reach : 0, 0) * size);
    Out x(b, batch * n * others * size, true);
    MatrixRef here{matrix.get(), a.row_stride, a.col_stride};
    return cpu::solve_triangular(d, batch, n, others, here, a_batch, x.get(), upper, unit, right);
  }
  // By rows it is the transpose of what the library reads, and the other triangle there.
  bool turned = a.row_stride != 1;
  int64_t lead = std::max(n, turned ? a.row_stride : a.col_stride);
  double one[2] = {1, 0};
  float single[2] = {1, 0};
  auto* run = d == DType::F32   ? blas.strsm
              : d == DType::F64 ? blas.dtrsm
              : d == DType::C64 ? blas.ctrsm
                                : blas.ztrsm;
  const void* alpha = itemsize(real_of(d)) == 8 ? static_cast<const void*>(one) : single;
  int64_t rows = right ? others : n, columns = right ? n : others;
  for (int64_t i = 0; i < batch; i++)
    done(run(handles().blas, right, upper != turned, turned, unit, int(rows), int(columns), alpha,
             at(const_cast<void*>(a.data), i * a_batch, d), int(lead), at(b, i * n * others, d),
             int(rows)),
         "solve_triangular");
}

void qr(DType d, int64_t batch, int64_t m, int64_t n, void* a, void* tau) {
  int64_t k = std::min(m, n), size = itemsize(d);
  if (!on_device(k)) {
    Out x(a, batch * m * n * size, true), factors(tau, batch * k * size);
    return cpu::qr(d, batch, m, n, x.get(), factors.get());
  }
  Room room;
  int t = type_of(d);
  Scratch info(4);
  done(solve.geqrf_size(handles().solver, handles().params, m, n, t, a, m, t, tau, t, &room.device,
                        &room.host),
       "qr");
  room.take();
  for (int64_t i = 0; i < batch; i++)
    done(solve.geqrf(handles().solver, handles().params, m, n, t, at(a, i * m * n, d), m, t,
                     at(tau, i * k, d), t, room.there->get<void>(), room.device, room.here.data(),
                     room.host, info.get<int>()),
         "qr");
}

void reflect(DType d, int64_t batch, int64_t m, int64_t n, int64_t k, void* a, const void* tau) {
  In factors(tau, batch * k * itemsize(d));
  Out x(a, batch * m * n * itemsize(d), true);
  cpu::reflect(d, batch, m, n, k, x.get(), factors.get());
}

void apply_reflections(DType d, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                       const void* tau, void* c, bool right, bool adjoint) {
  int64_t size = itemsize(d), rows = right ? n : m;
  In vectors(a, batch * rows * k * size), factors(tau, batch * k * size);
  Out x(c, batch * m * n * size, true);
  cpu::apply_reflections(d, batch, m, n, k, vectors.get(), factors.get(), x.get(), right, adjoint);
}

void eigh(DType d, int64_t batch, int64_t n, void* a, void* w, bool vectors, bool upper,
          int32_t* info) {
  DType real = real_of(d);
  if (!on_device(n)) {
    Out x(a, batch * n * n * itemsize(d), true), values(w, batch * n * itemsize(real)),
        found(info, batch * 4);
    return cpu::eigh(d, batch, n, x.get(), values.get(), vectors, upper, found.get<int32_t>());
  }
  Room room;
  int t = type_of(d), r = real_type_of(d);
  done(solve.syevd_size(handles().solver, handles().params, vectors, upper, n, t, a, n, r, w, t,
                        &room.device, &room.host),
       "eigh");
  room.take();
  for (int64_t i = 0; i < batch; i++)
    done(solve.syevd(handles().solver, handles().params, vectors, upper, n, t, at(a, i * n * n, d),
                     n, r, at(w, i * n, real), t, room.there->get<void>(), room.device,
                     room.here.data(), room.host, info + i),
         "eigh");
}

void eig(DType d, int64_t batch, int64_t n, void* a, void* w, void* v, int32_t* info) {
  DType made = complex_of(d);
  Out x(a, batch * n * n * itemsize(d), true), values(w, batch * n * itemsize(made)),
      vectors(v, batch * n * n * itemsize(made)), found(info, batch * 4);
  cpu::eig(d, batch, n, x.get(), values.get(), vectors.get(), found.get<int32_t>());
}

void singular(DType d, int64_t batch, int64_t m, int64_t n, void* a, void* u, void* s, void* vh,
              bool full, int32_t* info) {
  int64_t k = std::min(m, n), size = itemsize(d);
  int64_t wide = full ? m : k, tall = full ? n : k;
  DType real = real_of(d);
  if (!on_device(k)) {
    Out x(a, batch * m * n * size, true), left(u, batch * m * wide * size),
        values(s, batch * k * itemsize(real)), right(vh, batch * tall * n * size),
        found(info, batch * 4);
    return cpu::singular(d, batch, m, n, x.get(), left.get(), values.get(), right.get(), full,
                         found.get<int32_t>());
  }
  // The library takes matrices that are not wide: of a wide one, the adjoint.
  bool turned = m < n;
  int64_t rows = std::max(m, n), left_columns = full ? rows : k, total = m * n;
  Room room;
  int t = type_of(d), r = real_type_of(d);
  Scratch other(turned ? total * size : 1), left(turned && u ? rows * left_columns * size : 1),
      right(turned && u ? k * k * size : 1);
  signed char job = !u ? 'N' : full ? 'A' : 'S';
  auto run = [&](void* x, void* values, void* lu, void* rv, int32_t* found) {
    if (!room.there) {
      done(solve.gesvd_size(handles().solver, handles().params, job, job, rows, k, t, x, rows, r,
                            values, t, lu, rows, t, rv, k, t, &room.device, &room.host),
           "svd");
      room.take();
    }
    done(solve.gesvd(handles().solver, handles().params, job, job, rows, k, t, x, rows, r, values,
                     t, lu, rows, t, rv, k, t, room.there->get<void>(), room.device,
                     room.here.data(), room.host, found),
         "svd");
  };
  auto turn = [&](void* out, void* in, int64_t from_rows, int64_t from_columns) {
    int64_t count = from_rows * from_columns;
    launch(kernel_of(d, "adjoint"), grid_for(count, 256), 256, out, in, from_rows, from_columns,
           count);
  };
  for (int64_t i = 0; i < batch; i++) {
    void* x = at(a, i * total, d);
    void* values = at(s, i * k, real);
    if (!turned) {
      run(x, values, u ? at(u, i * m * wide, d) : nullptr, vh ? at(vh, i * tall * n, d) : nullptr,
          info + i);
      continue;
    }
    turn(other.get<void>(), x, m, n);
    run(other.get<void>(), values, left.get<void>(), right.get<void>(), info + i);
    if (!u) continue;
    turn(at(vh, i * tall * n, d), left.get<void>(), rows, left_columns);
    turn(at(u, i * m * wide, d), right.get<void>(), k, k);
  }
}

void ldl(DType d, int64_t batch, int64_t n, void* a, int32_t* pivots, bool hermitian,
         int32_t* info) {
  Out x(a, batch * n * n * itemsize(d), true), rows(pivots, batch * n * 4), found(info, batch * 4);
  cpu::ldl(d, batch, n, x.get(), rows.get<int32_t>(), hermitian, found.get<int32_t>());
}

void ldl_solve(DType d, int64_t batch, int64_t n, int64_t columns, const void* a,
               const int32_t* pivots, void* b, bool hermitian) {
  In factors(a, batch * n * n * itemsize(d)), rows(pivots, batch * n * 4);
  Out x(b, batch * n * columns * itemsize(d), true);
  cpu::ldl_solve(d, batch, n, columns, factors.get(), rows.get<int32_t>(), x.get(), hermitian);
}

void least_squares(DType d, int64_t batch, int64_t m, int64_t n, int64_t columns,
                   LeastSquares driver, void* a, void* b, double rcond, int64_t* rank, void* s,
                   int32_t* info) {
  int64_t size = itemsize(d), k = std::min(m, n);
  Out x(a, batch * m * n * size, true), y(b, batch * std::max(m, n) * columns * size, true),
      ranks(rank, batch * 8), values(s, batch * k * itemsize(real_of(d))), found(info, batch * 4);
  cpu::least_squares(d, batch, m, n, columns, driver, x.get(), y.get(), rcond, ranks.get<int64_t>(),
                     values.get(), found.get<int32_t>());
}

void matrix_exp(DType d, int64_t batch, int64_t n, const void* a, void* y) {
  In x(a, batch * n * n * itemsize(d));
  Out out(y, batch * n * n * itemsize(d));
  cpu::matrix_exp(d, batch, n, x.get(), out.get());
}

Outside find_failure(const int32_t* info, int64_t n) {
  In found(info, n * 4);
  return cpu::find_failure(found.get<int32_t>(), n);
}

}  // namespace rl::cuda
