// Pointwise ops: a kernel for every formula and kinds of operands, written from the formula's
// symbol reading.
#include "call/pointwise.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/layout.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr int kInputs = kMaxOperands;

// How a kernel gets an operand.
enum class Mode : uint8_t {
  Absent,
  Number,  // of the host's, in the arguments
  Array,   // elements side by side
  Single,  // one element for all, or for all along the innermost dimension
};
struct Kind {
  Mode mode = Mode::Absent;
  DType dtype = DType::F32;
};

struct Key {
  kernel::Lanes lanes;
  uint64_t kinds;
  bool operator==(const Key&) const = default;
};

struct Entry {
  Key key{};
  Function function = nullptr;
  const LanesInfo* info = nullptr;
};

// An open table: a look costs a few nanoseconds.
class Table {
 public:
  Entry& find(const Key& key) {
    size_t at = hash(key) & mask_;
    for (;; at = (at + 1) & mask_) {
      Entry& e = entries_[at];
      if (e.key == key) return e;
      if (!e.key.lanes) break;
    }
    if (++count_ * 2 > mask_) {
      grow();
      return find(key);
    }
    entries_[at].key = key;
    return entries_[at];
  }

 private:
  static size_t hash(const Key& key) {
    uint64_t x = (reinterpret_cast<uint64_t>(key.lanes) >> 4) * 0x9e3779b97f4a7c15u;
    x = (x ^ key.kinds) * 0xbf58476d1ce4e5b9u;
    return size_t(x ^ (x >> 31));
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    mask_ = entries_.size() - 1;
    count_ = 0;
    for (Entry& e : old)
      if (e.key.lanes) find(e.key) = e;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(512);
  size_t mask_ = 511, count_ = 0;
};

// ---- the text

// The prelude, if the formula calls a function of it.
std::string prelude_of(Formula formula, Elements elements) {
  static const char* const firsts[] = {"double", "Int", "Int", "Complex<R>"};
  std::string prelude = formula_prelude(elements);
  for (const Expression& e : expressions(formula, elements))
    if (e.code == Expression::Code::Call &&
        prelude.find(concat(" ", e.name, "(", firsts[int(elements)])) != std::string::npos)
      return prelude;
  return "";
}

const char* const kNames[2][kInputs] = {{"a", "b", "c", "", "", ""}, {"g", "a", "b", "c", "", ""}};

// lanes: so many elements side by side are taken at once; 0: the call is flat, and as many as fit.
std::string text_of(const LanesInfo& f, const Kind* kinds, int inputs, DType out, int lanes) {
  DType d = f.compute;
  std::string element = d == DType::Bool ? "bool" : type_name(d);
  std::string text = concat("typedef ", element, " T;\ntypedef ", type_name(f.produced),
                            " R;\ntypedef ", type_name(out), " Out;\n");
  Formula formula = f.value ? f.value : f.partial;
  text += prelude_of(formula, elements_of(d));
  text += concat("static __device__ auto formula(T a, T b, T c, T y, T p0, T p1, T p2, T p3) { ",
                 formula_text(formula, elements_of(d), element.c_str()), " }\n");
  text += concat("struct Call { char* out; const char* in[", kInputs, "]; Bits numbers[", kInputs,
                 "]; double params[4]; int64 n; };\n");
  // What a thread keeps of the operands that are the same for all.
  std::string once, load, given;
  for (int k = 0; k < inputs; k++) {
    std::string name = f.value ? kNames[0][k] : k == f.inputs + 1 ? "y" : kNames[1][k];
    std::string u = type_name(kinds[k].dtype);
    switch (kinds[k].mode) {
      case Mode::Absent: break;
      case Mode::Number:
        once += concat("const T x", k, " = *(const T*)&call.numbers[", k, "];\n");
        load += concat("const T ", name, " = x", k, ";\n");
        break;
      case Mode::Single:
        if (lanes) {
          load += concat("const T ", name, " = w", k, ";\n");
          break;
        }
        once += concat("const T x", k, " = cast<T>(*(const ", u, "*)call.in[", k, "]);\n");
        load += concat("const T ", name, " = x", k, ";\n");
        break;
      case Mode::Array: load += concat("const T ", name, " = cast<T>(v", k, ".x[e]);\n"); break;
    }
    if (kinds[k].mode != Mode::Absent) given += " " + name + " ";
  }
  for (const char* name : {"a", "b", "c", "y"})
    if (given.find(concat(" ", name, " ")) == std::string::npos)
      load += concat("const T ", name, " = T(0);\n");
  std::string params;
  for (int i = 0; i < 4; i++)
    params += i < f.params ? concat("const T p", i, " = ",
                                    is_integral(d) && d != DType::Bool
                                        ? concat("T(cast<int64>(call.params[", i, "]))")
                                        : concat("T(call.params[", i, "])"),
                                    ";\n")
                           : concat("const T p", i, " = T(0);\n");
  std::string value = "const auto f = formula(a, b, c, y, p0, p1, p2, p3);\n";
  const char* product = is_complex(d) ? "g * conj(f)" : "g * f";
  value += f.value     ? "const R r = cast<R>(f);\n"
           : f.selects ? concat("const R r = f == T(0) ? T(0) : T(", product, ");\n")
                       : concat("const R r = ", product, ";\n");
  // One element may lie anywhere, several at a multiple of their bytes.
  text +=
      "template <class V, int N> struct alignas(N == 1 ? alignof(V) : sizeof(V) * N) Vector {\n"
      "V x[N];\n};\n";
  if (lanes) {
    text += concat("extern \"C\" __global__ void pointwise(Call call, Layout<", kInputs + 1,
                   "> layout) {\n", params, once, "RL_EACH(i, call.n) {\nint64 at[", kInputs + 1,
                   "];\nlayout.find(i, at);\nVector<Out, ", lanes, "> result;\n");
    for (int k = 0; k < inputs; k++) {
      std::string u = type_name(kinds[k].dtype);
      if (kinds[k].mode == Mode::Array)
        text += concat("typedef Vector<", u, ", ", lanes, "> V", k, ";\nconst V", k, " v", k,
                       " = *(const V", k, "*)(call.in[", k, "] + at[", k + 1, "]);\n");
      if (kinds[k].mode == Mode::Single)
        text += concat("const T w", k, " = cast<T>(*(const ", u, "*)(call.in[", k, "] + at[", k + 1,
                       "]));\n");
    }
    text += concat("for (int e = 0; e < ", lanes, "; e++) {\n", load, value,
                   "result.x[e] = cast<Out>(r);\n}\n*(Vector<Out, ", lanes,
                   ">*)(call.out + at[0]) = result;\n}\n}\n");
    return text;
  }
  int64_t widest = itemsize(out);
  for (int k = 0; k < inputs; k++)
    if (kinds[k].mode == Mode::Array) widest = std::max(widest, itemsize(kinds[k].dtype));
  lanes = int(16 / widest);
  text += concat("template <int N> static __device__ void run(const Call& call, int64 i, ",
                 "int64 end, int64 step) {\n", params, once,
                 "for (; i < end; i += step) {\nVector<Out, N> result;\n");
  for (int k = 0; k < inputs; k++)
    if (kinds[k].mode == Mode::Array)
      text += concat("typedef Vector<", type_name(kinds[k].dtype), ", N> V", k, ";\nconst V", k,
                     " v", k, " = ((const V", k, "*)call.in[", k, "])[i];\n");
  text += concat("for (int e = 0; e < N; e++) {\n", load, value,
                 "result.x[e] = cast<Out>(r);\n}\n((Vector<Out, N>*)call.out)[i] = result;\n}\n}\n",
                 "extern \"C\" __global__ void pointwise(Call call, int whole) {\n",
                 "int64 packs = whole ? call.n / ", lanes, " : 0;\n", "run<", lanes,
                 ">(call, thread_number(), packs, thread_count());\n", "run<1>(call, packs * ",
                 lanes, " + thread_number(), call.n, thread_count());\n}\n");
  return text;
}

struct Call {
  void* out;
  const void* in[kInputs];
  Bits numbers[kInputs];
  double params[4];
  int64_t n;
};

Function find(kernel::Lanes of, const Kind* kinds, int inputs, DType out, int lanes) {
  static auto* table = new Table;
  uint64_t packed = uint64_t(out) << 5 | uint64_t(lanes);
  for (int k = 0; k < inputs; k++)
    packed = packed << 7 | uint64_t(kinds[k].mode) << 4 | uint64_t(kinds[k].dtype);
  Entry& entry = table->find({of, packed});
  if (entry.function) [[likely]]
    return entry.function;
  Function made = compiled(text_of(formula_of(of), kinds, inputs, out, lanes), "pointwise");
  return table->find({of, packed}).function = made;
}

void run_flat(const Call& call, Function function, uint64_t addresses, int64_t pack) {
  int whole = addresses % 16 == 0;
  launch(function, grid_for(whole ? (call.n + pack - 1) / pack : call.n, 256), 256, call, whole);
}

void set_params(Call& call, const double* params, int count) {
  for (int i = 0; i < count; i++) call.params[i] = params[i];
}

}  // namespace

void pointwise_flat(Lanes lanes, const double* params, char* out, int64_t, const char* const* in,
                    int inputs, unsigned singles, int64_t in_size, int64_t n, double) {
  if (n == 0) return;
  Call call;
  call.out = out;
  call.n = n;
  uint64_t addresses = uint64_t(out);
  unsigned present = 0;
  for (int k = 0; k < inputs; k++) {
    if (!in[k]) continue;
    present |= 1u << k;
    if (singles >> k & 1) {
      std::memcpy(&call.numbers[k], in[k], size_t(in_size));
    } else {
      call.in[k] = in[k];
      addresses |= uint64_t(in[k]);
    }
  }
  static auto* table = new Table;
  Entry* entry = &table->find({lanes, uint64_t(present) << 8 | singles});
  if (!entry->function) [[unlikely]] {
    const LanesInfo& f = formula_of(lanes);
    Kind kinds[kInputs];
    for (int k = 0; k < inputs; k++)
      if (present >> k & 1) kinds[k] = {singles >> k & 1 ? Mode::Number : Mode::Array, f.compute};
    Function made = find(lanes, kinds, inputs, f.produced, 0);
    entry = &table->find({lanes, uint64_t(present) << 8 | singles});
    entry->function = made;
    entry->info = &f;
  }
  set_params(call, params, entry->info->params);
  run_flat(call, entry->function, addresses,
           16 / std::max(in_size, itemsize(entry->info->produced)));
}

void pointwise(const PointwiseCall& given) {
  const LanesInfo& f = formula_of(given.lanes);
  Call call;
  call.n = product(given.sizes, given.ndim);
  if (call.n == 0) return;
  call.out = given.out.data;
  set_params(call, given.params, f.params);
  Kind kinds[kInputs];
  int64_t scaled[kInputs + 1][64];
  const int64_t* strides[kInputs + 1];
  auto scale = [&](int at, const Operand* o) {
    for (int i = 0; i < given.ndim; i++) scaled[at][i] = o ? o->strides[i] * itemsize(o->dtype) : 0;
    strides[at] = scaled[at];
  };
  scale(0, &given.out);
  for (int k = 0; k < kInputs; k++) {
    bool there = k < given.inputs && given.in[k].data;
    scale(k + 1, there && !given.in[k].host ? &given.in[k] : nullptr);
    if (!there) continue;
    kinds[k].dtype = given.in[k].dtype;
    call.in[k] = given.in[k].data;
    if (!given.in[k].host) continue;
    kinds[k] = {Mode::Number, f.compute};
    cpu::convert(f.compute, &call.numbers[k], 16, given.in[k].dtype, given.in[k].data, 16, 1);
  }
  Layout<kInputs + 1> layout;
  layout.set(strides, given.sizes, given.ndim, f.name);
  bool flat =
      layout.ndim == 1 && (call.n == 1 || layout.strides[0][0] == itemsize(given.out.dtype));
  uint64_t addresses = uint64_t(call.out);
  int64_t widest = itemsize(given.out.dtype);
  for (int k = 0; k < given.inputs; k++) {
    if (!given.in[k].data || kinds[k].mode == Mode::Number) continue;
    int64_t step = layout.strides[0][k + 1];
    if (layout.ndim == 1 && (step == 0 || call.n == 1)) {
      kinds[k].mode = Mode::Single;
    } else {
      kinds[k].mode = Mode::Array;
      flat = flat && step == itemsize(given.in[k].dtype);
      addresses |= uint64_t(call.in[k]);
      widest = std::max(widest, itemsize(given.in[k].dtype));
    }
  }
  if (flat)
    return run_flat(call, find(given.lanes, kinds, given.inputs, given.out.dtype, 0), addresses,
                    16 / widest);
  // Vectors along the innermost dimension where all operands lie side by side there, or stay.
  int64_t lanes = 16 / widest;
  bool whole = layout.sizes[0] % lanes == 0 && addresses % 16 == 0;
  for (int o = 0; o <= given.inputs; o++) {
    const Operand& operand = o ? given.in[o - 1] : given.out;
    if (o && (!operand.data || kinds[o - 1].mode == Mode::Number)) continue;
    int64_t step = layout.strides[0][o];
    if (o) kinds[o - 1].mode = step == 0 ? Mode::Single : Mode::Array;
    whole = whole && (step == itemsize(operand.dtype) || (o && step == 0));
    for (int d = 1; whole && step && d < layout.ndim; d++) whole = layout.strides[d][o] % 16 == 0;
  }
  if (whole) {
    layout.sizes[0] /= lanes;
    for (int o = 0; o <= given.inputs; o++) layout.strides[0][o] *= lanes;
    call.n /= lanes;
  } else {
    lanes = 1;
  }
  launch(find(given.lanes, kinds, given.inputs, given.out.dtype, int(lanes)), grid_for(call.n, 256),
         256, call, layout);
}

namespace {

constexpr char kOverlap[] = R"(
extern "C" __global__ void add_overlapping(char* into, const char* g, Layout<2> layout, int64 n) {
  // Elements share places: one after the other.
  for (int64 i = 0; i < n; i++) {
    int64 at[2];
    layout.find(i, at);
    T* to = (T*)(into + at[0]);
    *to = T(A(*to) + A(*(const T*)(g + at[1])));
  }
}
)";

}  // namespace

void add_overlapping(DType d, char* into, const int64_t* into_strides, const char* g,
                     const int64_t* g_strides, const int64_t* sizes, int ndim) {
  static Kernel kernel(kOverlap, "add_overlapping");
  int64_t a[64], b[64];
  for (int i = 0; i < ndim; i++) {
    a[i] = into_strides[i] * itemsize(d);
    b[i] = g_strides[i] * itemsize(d);
  }
  const int64_t* strides[] = {a, b};
  Layout<2> layout;
  layout.set(strides, sizes, ndim, "accumulate");
  launch(kernel.of(d), {1}, 1, into, g, layout, product(sizes, ndim));
}

}  // namespace rl::cuda
