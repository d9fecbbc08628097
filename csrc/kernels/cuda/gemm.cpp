// Products by cuBLASLt, opened by name; integers, and all when there is none, by a kernel of ours.
#include "kernels/cuda/gemm.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

bool allow_tf32 = false;

namespace {

// ---- cuBLASLt

struct HandleObject;
struct DescObject;
struct LayoutObject;
struct PreferenceObject;
using Handle = HandleObject*;
using Desc = DescObject*;
using Matrix = LayoutObject*;
using Preference = PreferenceObject*;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

#define RL_CUBLASLT(X)                                                                            \
  X(create, "cublasLtCreate", (Handle * handle))                                                  \
  X(desc_create, "cublasLtMatmulDescCreate", (Desc * desc, int compute, int scale))               \
  X(desc_set, "cublasLtMatmulDescSetAttribute",                                                   \
    (Desc desc, int attribute, const void* value, size_t size))                                   \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                  \
    (Matrix * layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                        \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                               \
    (Matrix layout, int attribute, const void* value, size_t size))                               \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (Preference * preference))               \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                       \
    (Preference preference, int attribute, const void* value, size_t size))                       \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                  \
    (Handle handle, Desc desc, Matrix a, Matrix b, Matrix c, Matrix d, Preference preference,     \
     int wanted, Heuristic* found, int* count))                                                   \
  X(matmul, "cublasLtMatmul",                                                                     \
    (Handle handle, Desc desc, const void* alpha, const void* a, Matrix a_layout, const void* b,  \
     Matrix b_layout, const void* beta, const void* c, Matrix c_layout, void* d, Matrix d_layout, \
     const Algorithm* algorithm, void* workspace, size_t bytes, Stream stream))

struct CublasLt {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_CUBLASLT(X)
#undef X
} lt;

bool open_cublas() {
  static const char* const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                      nullptr};
  std::string missing;
  void* library = open_library(library_folders(), names, missing);
  if (!library) return false;
#define X(name, symbol, parameters)                                      \
  lt.name = reinterpret_cast<decltype(lt.name)>(dlsym(library, symbol)); \
  if (!lt.name) return false;
  RL_CUBLASLT(X)
#undef X
  return true;
}

// A factor as columns: its leading dimension, and whether it is turned.
struct Side {
  const void* data;
  int64_t ld;
  bool turned;  // in memory it is row-major
};

struct PlanKey {
  int64_t m, n, k, lda, ldb, ldc, batch, sa, sb, sc;
  int dtype, flags, alignment;
  bool operator==(const PlanKey& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
struct PlanHash {
  size_t operator()(const PlanKey& key) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    const uint64_t* words = reinterpret_cast<const uint64_t*>(&key);
    for (size_t i = 0; i < sizeof key / 8; i++)
      h = (h ^ words[i]) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
    return size_t(h);
  }
};
struct Plan {
  Desc desc = nullptr;
  Matrix a, b, c;
  Heuristic choice;
  bool works = false;
};

constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr int kBatchCount = 5, kBatchOffset = 6;
constexpr int kMaxWorkspace = 1, kAlignA = 5;
constexpr int kEpilogueBias = 4;
constexpr size_t kWorkspace = size_t(32) << 20;

struct Types {
  int data, compute, scale;
};
bool types_of(DType d, Types& t) {
  switch (d) {
    case DType::F32: t = {0, allow_tf32 ? 77 : 68, 0}; return true;
    case DType::F64: t = {1, 70, 1}; return true;
    case DType::F16: t = {2, 68, 0}; return true;
    case DType::BF16: t = {14, 68, 0}; return true;
    case DType::C64: t = {4, 68, 4}; return true;
    case DType::C128: t = {5, 70, 5}; return true;
    default: return false;
  }
}

// What the library has on a device.
struct Library {
  bool tried = false;
  Handle handle = nullptr;  // null: there is none
  Scratch* workspace = nullptr;
  std::unordered_map<PlanKey, Plan, PlanHash> plans;
};
Library& library() {
  static auto* all = new PerDevice<Library>;
  Library& here = all->here();
  if (!here.tried) [[unlikely]] {
    static const bool there = open_cublas();
    here.tried = true;
    if (there && lt.create(&here.handle) != 0) here.handle = nullptr;
  }
  return here;
}

void set(int result, const char* what) {
  if (result != 0) fail("cuBLASLt: ", what, " failed (status ", result, ")");
}

int alignment_of(const void* p) {
  uint64_t x = uint64_t(p) | 256;
  return int(x & (~x + 1));
}

// c (m x n, row-major) = alpha * a @ b + beta * c, read by columns: c^T = b^T a^T.
struct Product {
  DType dtype;
  int64_t m, n, k;
  double alpha, beta;
  Side a, b;
  void* c;
  int64_t ldc, batch = 1, sa = 0, sb = 0, sc = 0;
  const void* bias = nullptr;
};

bool run_cublas(const Product& p) {
  Types types;
  enter();
  Library& here = library();
  if (!here.handle || !types_of(p.dtype, types)) return false;
  PlanKey key;
  std::memset(&key, 0, sizeof key);
  key.m = p.m, key.n = p.n, key.k = p.k;
  key.lda = p.a.ld, key.ldb = p.b.ld, key.ldc = p.ldc;
  key.batch = p.batch, key.sa = p.sa, key.sb = p.sb, key.sc = p.sc;
  key.dtype = int(p.dtype);
  key.flags = int(p.a.turned) | int(p.b.turned) << 1 | int(p.bias != nullptr) << 2 |
              int(p.beta != 0) << 3 | int(allow_tf32) << 4;
  int aligned = std::min({alignment_of(p.a.data), alignment_of(p.b.data), alignment_of(p.c)});
  key.alignment = aligned;
  auto [found, fresh] = here.plans.try_emplace(key);
  Plan& plan = found->second;
  if (!here.workspace && !stream) here.workspace = new Scratch(int64_t(kWorkspace));
  if (fresh) {
    set(lt.desc_create(&plan.desc, types.compute, types.scale), "making a descriptor");
    // The first factor of the library's is b; what is row-major here is the transpose there.
    int yes = 1, no = 0;
    set(lt.desc_set(plan.desc, kTransA, p.b.turned ? &no : &yes, sizeof(int)), "an attribute");
    set(lt.desc_set(plan.desc, kTransB, p.a.turned ? &no : &yes, sizeof(int)), "an attribute");
    if (p.bias) {
      int epilogue = kEpilogueBias;
      set(lt.desc_set(plan.desc, kEpilogue, &epilogue, sizeof epilogue), "an attribute");
    }
    auto layout = [&](Matrix* made, int64_t rows, int64_t cols, int64_t ld, int64_t offset) {
      set(lt.layout_create(made, types.data, uint64_t(rows), uint64_t(cols), ld),
          "making a layout");
      if (p.batch == 1) return;
      int count = int(p.batch);
      set(lt.layout_set(*made, kBatchCount, &count, sizeof count), "an attribute");
      set(lt.layout_set(*made, kBatchOffset, &offset, sizeof offset), "an attribute");
    };
    if (p.b.turned) layout(&plan.b, p.n, p.k, p.b.ld, p.sb);
    else layout(&plan.b, p.k, p.n, p.b.ld, p.sb);
    if (p.a.turned) layout(&plan.a, p.k, p.m, p.a.ld, p.sa);
    else layout(&plan.a, p.m, p.k, p.a.ld, p.sa);
    layout(&plan.c, p.n, p.m, p.ldc, p.sc);
    Preference preference;
    set(lt.preference_create(&preference), "making a preference");
    size_t room = kWorkspace;
    set(lt.preference_set(preference, kMaxWorkspace, &room, sizeof room), "an attribute");
    uint32_t bytes = uint32_t(aligned);
    for (int i = 0; i < 4; i++)
      set(lt.preference_set(preference, kAlignA + i, &bytes, sizeof bytes), "an attribute");
    int count = 0;
    int result = lt.heuristic(here.handle, plan.desc, plan.b, plan.a, plan.c, plan.c, preference, 1,
                              &plan.choice, &count);
    plan.works = result == 0 && count > 0;
  }
  if (!plan.works) return false;
  if (p.bias) set(lt.desc_set(plan.desc, kBiasPointer, &p.bias, sizeof p.bias), "an attribute");
  union Number {
    float f[2];
    double d[2];
  } alpha{}, beta{};
  bool wide = types.scale == 1 || types.scale == 5;
  if (wide) alpha.d[0] = p.alpha, beta.d[0] = p.beta;
  else alpha.f[0] = float(p.alpha), beta.f[0] = float(p.beta);
  // One workspace: work of other streams would share it.
  void* room = stream ? nullptr : here.workspace->get<void>();
  size_t bytes = stream ? 0 : kWorkspace;
  std::unique_ptr<Scratch> own;
  if (stream && plan.choice.workspace) {
    own = std::make_unique<Scratch>(int64_t(plan.choice.workspace));
    room = own->get<void>();
    bytes = plan.choice.workspace;
  }
  set(lt.matmul(here.handle, plan.desc, &alpha, p.b.data, plan.b, p.a.data, plan.a, &beta, p.c,
                plan.c, p.c, plan.c, &plan.choice.algorithm, room, bytes, stream),
      "a product");
  if (blocking && !capture) wait_for(stream);
  return true;
}

// ---- ours

constexpr char kText[] = R"(
struct Factor {
  const T* data;
  int64 row, col, batch;
};
// A tile of 16 x 16 results for a block.
extern "C" __global__ void product(Factor a, Factor b, T* c, int64 ldc, int64 batch_c, int64 m,
                                   int64 n, int64 k, double alpha, double beta, const T* bias,
                                   int64 tiles) {
  __shared__ __align__(16) char rooms[2][256 * sizeof(A)];
  A* left = (A*)rooms[0];
  A* right = (A*)rooms[1];
  int x = threadIdx.x & 15, y = threadIdx.x >> 4;
  int64 column = (blockIdx.x % tiles) * 16 + x, row = (blockIdx.x / tiles) * 16 + y,
        at = blockIdx.y;
  const T* from_a = a.data + at * a.batch;
  const T* from_b = b.data + at * b.batch;
  A sum = A(0);
  for (int64 start = 0; start < k; start += 16) {
    left[threadIdx.x] =
        row < m && start + x < k ? A(from_a[row * a.row + (start + x) * a.col]) : A(0);
    right[threadIdx.x] =
        column < n && start + y < k ? A(from_b[(start + y) * b.row + column * b.col]) : A(0);
    __syncthreads();
    for (int i = 0; i < 16; i++) sum = A(sum + left[y * 16 + i] * right[i * 16 + x]);
    __syncthreads();
  }
  if (row >= m || column >= n) return;
  T* to = c + at * batch_c + row * ldc + column;
  A value = alpha == 1 ? sum : A(sum * cast<A>(alpha));
  if (beta != 0) value = A(value + (beta == 1 ? A(*to) : A(A(*to) * cast<A>(beta))));
  if (bias) value = A(value + A(bias[column]));
  *to = T(value);
}
extern "C" __global__ void dot(const T* a, int64 a_stride, const T* b, int64 b_stride, T* out,
                               int64 n, A* parts) {
  A sum = A(0);
  RL_EACH(i, n) sum = A(sum + A(a[i * a_stride]) * A(b[i * b_stride]));
  sum = block_all(sum, A(0), Plus());
  if (threadIdx.x != 0) return;
  if (parts) parts[blockIdx.x] = sum;
  else *out = T(sum);
}
extern "C" __global__ void dot_parts(const A* parts, int count, T* out) {
  A sum = A(0);
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum = A(sum + parts[i]);
  sum = block_all(sum, A(0), Plus());
  if (threadIdx.x == 0) *out = T(sum);
}
)";

struct Factor {
  const void* data;
  int64_t row, col, batch;
};

struct Call {
  DType dtype;
  int64_t batch, m, n, k;
  double alpha;
  MatrixRef a;
  int64_t sa;
  MatrixRef b;
  int64_t sb;
  double beta;
  void* c;
  int64_t sc, ldc;
  const void* bias;
};

// The factor as the library takes it; false when no dimension lies side by side.
bool side_of(const MatrixRef& x, int64_t rows, int64_t cols, Side& side) {
  bool by_rows = (x.col_stride == 1 || cols == 1) && (x.row_stride >= cols || rows == 1);
  if (by_rows) {
    side = {x.data, rows == 1 ? std::max<int64_t>(cols, 1) : x.row_stride, true};
    return true;
  }
  bool by_cols = (x.row_stride == 1 || rows == 1) && (x.col_stride >= rows || cols == 1);
  if (by_cols) side = {x.data, cols == 1 ? std::max<int64_t>(rows, 1) : x.col_stride, false};
  return by_cols;
}

void run_ours(const Call& c) {
  static Kernel kernel(kText, "product");
  int64_t tiles = (c.n + 15) / 16, blocks = tiles * ((c.m + 15) / 16);
  Factor a{c.a.data, c.a.row_stride, c.a.col_stride, c.sa},
      b{c.b.data, c.b.row_stride, c.b.col_stride, c.sb};
  launch(kernel.of(c.dtype), {unsigned(blocks), unsigned(c.batch)}, 256, a, b, c.c, c.ldc, c.sc,
         c.m, c.n, c.k, c.alpha, c.beta, c.bias, tiles);
}

void run(const Call& c) {
  if (c.m == 0 || c.n == 0 || c.batch == 0) return;
  if (c.dtype == DType::Bool) fail_missing("matmul", &c.dtype);
  Product p{c.dtype, c.m, c.n, c.k, c.alpha, c.beta, {}, {}, c.c, c.ldc};
  p.batch = c.batch, p.sa = c.sa, p.sb = c.sb, p.sc = c.sc, p.bias = c.bias;
  if (c.k > 0 && c.alpha != 0 && c.ldc >= c.n && side_of(c.a, c.m, c.k, p.a) &&
      side_of(c.b, c.k, c.n, p.b) && run_cublas(p))
    return;
  run_ours(c);
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, double alpha, MatrixRef a, MatrixRef b,
          double beta, void* c, int64_t c_row_stride) {
  run({dtype, 1, m, n, k, alpha, a, 0, b, 0, beta, c, 0, c_row_stride, nullptr});
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha,
                  MatrixRef a, int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride,
                  double beta, void* c, int64_t c_batch_stride, int64_t c_row_stride) {
  run({dtype, batch, m, n, k, alpha, a, a_batch_stride, b, b_batch_stride, beta, c, c_batch_stride,
       c_row_stride, nullptr});
}

void gemm_with_bias(DType dtype, int64_t m, int64_t n, int64_t k, MatrixRef a, MatrixRef b,
                    const void* bias, void* c) {
  run({dtype, 1, m, n, k, 1, a, 0, b, 0, 0, c, 0, n, bias});
}

void gemm_nd(DType dtype, const BatchDim* dims, int ndim, int64_t m, int64_t n, int64_t k,
             double alpha, MatrixRef a, MatrixRef b, double beta, void* c, int64_t c_row_stride) {
  // The longest run of dimensions that one batch covers is done at once, the others one by one.
  BatchDim merged[kMaxBatchDims];
  int count = 0;
  for (int i = 0; i < ndim; i++) {
    const BatchDim& d = dims[i];
    if (d.size == 0 && !d.summed) return;
    if (d.size == 1 && !d.summed) continue;
    BatchDim* last = count ? &merged[count - 1] : nullptr;
    if (last && !last->summed && !d.summed && last->a == d.a * d.size && last->b == d.b * d.size &&
        last->c == d.c * d.size) {
      *last = {last->size * d.size, d.a, d.b, d.c, false};
    } else {
      merged[count++] = d;
    }
  }
  int inner = -1;
  for (int i = 0; i < count; i++)
    if (!merged[i].summed && (inner < 0 || merged[i].size > merged[inner].size)) inner = i;
  BatchDim all{1, 0, 0, 0, false};
  if (inner >= 0) all = merged[inner];
  int64_t at[kMaxBatchDims] = {}, size = itemsize(dtype);
  bool empty_sum = false;
  for (int i = 0; i < count; i++) empty_sum |= merged[i].size == 0;
  for (bool more = true; more;) {
    int64_t oa = 0, ob = 0, oc = 0;
    bool first = true;
    for (int i = 0; i < count; i++) {
      if (i == inner) continue;
      oa += at[i] * merged[i].a;
      ob += at[i] * merged[i].b;
      if (merged[i].summed) first = first && at[i] == 0;
      else oc += at[i] * merged[i].c;
    }
    MatrixRef x = a, y = b;
    x.data = static_cast<const char*>(a.data) + oa * size;
    y.data = static_cast<const char*>(b.data) + ob * size;
    run({dtype, all.size, m, n, empty_sum ? 0 : k, alpha, x, all.a, y, all.b, first ? beta : 1.0,
         static_cast<char*>(c) + oc * size, all.c, c_row_stride, nullptr});
    more = false;
    for (int i = count - 1; i >= 0 && !more; i--) {
      if (i == inner) continue;
      if (++at[i] < merged[i].size) more = true;
      else at[i] = 0;
    }
  }
}

void dot(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
         void* out) {
  static Kernel kernel(kText, "dot"), join(kText, "dot_parts");
  void* none = nullptr;
  if (n <= 16384)
    return launch(kernel.of(dtype), {1}, n > 4096 ? 1024 : 256, a, a_stride, b, b_stride, out, n,
                  none);
  unsigned blocks = unsigned(std::min<int64_t>((n + 8191) / 8192, 1024));
  Scratch parts(int64_t(blocks) * 16);
  launch(kernel.of(dtype), {blocks}, 256, a, a_stride, b, b_stride, out, n, parts.get<void>());
  launch(join.of(dtype), {1}, 256, parts.get<void>(), int(blocks), out);
}

}  // namespace rl::cuda
