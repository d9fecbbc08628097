#include "kernels/cuda/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

bool allow_convolution_tf32 = true;
bool deterministic_convolutions = false;

namespace {

struct HandleObject;
struct DescriptorObject;
using Handle = HandleObject*;
using Raw = DescriptorObject*;

#define RL_CUDNN(X)                                                               \
  X(create, "cudnnCreate", int, (Handle * handle))                                \
  X(set_stream, "cudnnSetStream", int, (Handle handle, Stream stream))            \
  X(make, "cudnnBackendCreateDescriptor", int, (int kind, Raw* made))             \
  X(destroy, "cudnnBackendDestroyDescriptor", int, (Raw what))                    \
  X(finalize, "cudnnBackendFinalize", int, (Raw what))                            \
  X(set, "cudnnBackendSetAttribute", int,                                         \
    (Raw what, int name, int type, int64_t count, const void* values))            \
  X(get, "cudnnBackendGetAttribute", int,                                         \
    (Raw what, int name, int type, int64_t wanted, int64_t* found, void* values)) \
  X(execute, "cudnnBackendExecute", int, (Handle handle, Raw plan, Raw pack))     \
  X(version, "cudnnGetVersion", size_t, ())

struct Cudnn {
#define X(name, symbol, result, parameters) result(*name) parameters;
  RL_CUDNN(X)
#undef X
} dnn;

bool load_cudnn() {
  static const bool there = [] {
    static const char* const names[] = {"libcudnn.so.9", "libcudnn.so.8", nullptr};
    std::string missing;
    void* library = open_library(library_folders(), names, missing);
    if (!library) return false;
#define X(name, symbol, result, parameters)                                \
  dnn.name = reinterpret_cast<decltype(dnn.name)>(dlsym(library, symbol)); \
  if (!dnn.name) return false;
    RL_CUDNN(X)
#undef X
    return true;
  }();
  return there;
}

// Of the active device; null where there is none.
Handle handle() {
  struct Made {
    bool tried = false;
    Handle handle = nullptr;
  };
  static PerDevice<Made> all;
  enter();
  Made& here = all.here();
  if (!here.tried) [[unlikely]] {
    here.tried = true;
    if (load_cudnn() && dnn.create(&here.handle) != 0) here.handle = nullptr;
  }
  return here.handle;
}

// The library's numbers of kinds of descriptors, of attributes and of their types.
enum Kind {
  kConvolution = 1,
  kEngine = 2,
  kConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kGraph = 15,
  kPack = 16,
  kTensor = 17
};
enum Type {
  kHandle = 0,
  kData = 1,
  kInt = 3,
  kFloat = 4,
  kDouble = 5,
  kPointer = 6,
  kModeType = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kDescriptor = 15,
  kBehaviorNote = 19
};

// A description that the library keeps; `good` as long as it took all that it was told.
class Object {
 public:
  explicit Object(int kind) { good = dnn.make(kind, &raw_) == 0; }
  Object(Object&& o) noexcept : good(o.good), raw_(std::exchange(o.raw_, nullptr)) {}
  Object& operator=(Object&& o) noexcept {
    std::swap(good, o.good);
    std::swap(raw_, o.raw_);
    return *this;
  }
  ~Object() {
    if (raw_) dnn.destroy(raw_);
  }
  Object& set(int name, int type, int64_t count, const void* values) {
    good = good && dnn.set(raw_, name, type, count, values) == 0;
    return *this;
  }
  Object& set(int name, const Object& part) {
    good = good && part.good;
    return set(name, kDescriptor, 1, &part.raw_);
  }
  Object& set(int name, int64_t number) { return set(name, kInt, 1, &number); }
  Object& set(int name, int type, int choice) { return set(name, type, 1, &choice); }
  bool finish() { return good = good && dnn.finalize(raw_) == 0; }
  // How many values there are, of which at most `wanted` are given.
  int64_t get(int name, int type, int64_t wanted, void* values) const {
    int64_t found = 0;
    return good && dnn.get(raw_, name, type, wanted, &found, values) == 0 ? found : 0;
  }
  Raw raw() const { return raw_; }
  bool good;

 private:
  Raw raw_ = nullptr;
};

struct Key {
  Convolution c;
  int64_t what;
  bool operator==(const Key& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    const auto* words = reinterpret_cast<const uint64_t*>(&key);
    for (size_t i = 0; i < sizeof key / 8; i++)
      h = (h ^ words[i]) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
    return size_t(h);
  }
};

bool type_of(DType d, int& type) {
  switch (d) {
    case DType::F32: type = 0; return true;
    case DType::F64: type = 1; return true;
    case DType::F16: type = 2; return true;
    case DType::BF16: type = 9; return true;
    default: return false;
  }
}

constexpr int64_t kIds[] = {1, 2, 3};  // of x, w and y

Object tensor(int64_t id, int type, const int64_t* sizes, int dims, bool channels_last,
              int64_t alignment) {
  int64_t strides[5], step = 1;
  auto lay = [&](int i) {
    strides[i] = step;
    step *= sizes[i];
  };
  if (channels_last) lay(1);
  for (int i = dims - 1; i >= 0; i--)
    if (i != 1 || !channels_last) lay(i);
  Object t(kTensor);
  t.set(901, kData, type).set(902, kInt, dims, sizes).set(903, kInt, dims, strides);
  t.set(906, id).set(900, alignment).finish();
  return t;
}

// The one operation, as a graph; `parts` keeps what it is made of.
Object graph_of(Convolve what, DType d, const Convolution& c, int type, int64_t alignment,
                std::vector<Object>& parts) {
  // Two spatial dimensions at least; a leading one of 1 is left out.
  bool flat = c.input[0] == 1 && c.output[0] == 1 && c.kernel[0] == 1 && c.padding[0] == 0;
  int first = flat ? 1 : 0, spatial = 3 - first, dims = spatial + 2;
  int64_t x[5] = {c.batch, c.groups * c.in}, y[5] = {c.batch, c.groups * c.out},
          w[5] = {c.groups * c.out, c.in}, padding[3], stride[3], dilation[3];
  for (int i = 0; i < spatial; i++) {
    size_t at = size_t(first + i);
    x[2 + i] = c.input[at], y[2 + i] = c.output[at], w[2 + i] = c.kernel[at];
    padding[i] = c.padding[at], stride[i] = c.stride[at], dilation[i] = c.dilation[at];
  }
  bool wide = d == DType::F64;
  Object convolution(kConvolution);
  convolution.set(100, kData, wide ? 1 : 0).set(101, kModeType, 1).set(106, int64_t(spatial));
  convolution.set(102, kInt, spatial, dilation).set(103, kInt, spatial, stride);
  convolution.set(104, kInt, spatial, padding).set(105, kInt, spatial, padding).finish();
  bool last = c.channels_last != 0;
  Object image = tensor(kIds[0], type, x, dims, last, alignment),
         filter = tensor(kIds[1], type, w, dims, last, alignment),
         result = tensor(kIds[2], type, y, dims, last, alignment);
  // The descriptor, its first attribute (alpha; beta and the convolution follow), and where x, w
  // and y stand.
  struct Layout {
    int kind, alpha, x, w, y;
  };
  static constexpr Layout layouts[] = {
      {10, 700, 704, 703, 705}, {12, 706, 710, 709, 711}, {11, 712, 716, 715, 717}};
  const Layout& l = layouts[int(what)];
  float alpha = 1, beta = 0;
  double wide_alpha = 1, wide_beta = 0;
  Object operation(l.kind);
  if (wide) {
    operation.set(l.alpha, kDouble, 1, &wide_alpha).set(l.alpha + 1, kDouble, 1, &wide_beta);
  } else {
    operation.set(l.alpha, kFloat, 1, &alpha).set(l.alpha + 1, kFloat, 1, &beta);
  }
  operation.set(l.alpha + 2, convolution).set(l.x, image).set(l.w, filter).set(l.y, result);
  operation.finish();
  Object graph(kGraph);
  Handle library = handle();
  graph.set(800, kHandle, 1, &library).set(801, operation).finish();
  for (Object* part : {&convolution, &image, &filter, &result, &operation})
    parts.push_back(std::move(*part));
  return graph;
}

// Whether an engine computes as is asked for: without TF32, or the same every time.
bool admits(const Object& config, DType d, bool compiled) {
  enum { kTensorCore = 0, kDownConverts = 1, kVaries = 4, kCompiles = 0 };
  Object engine(kEngine);
  Raw raw = engine.raw();
  if (config.get(300, kDescriptor, 1, &raw) != 1) return false;
  int notes[16];
  int64_t count = engine.get(1305, kBehaviorNote, 16, notes);
  for (int64_t i = 0; i < count; i++)
    if (notes[i] == kCompiles && !compiled) return false;
  count = engine.get(1303, kNumericalNote, 16, notes);
  for (int64_t i = 0; i < count; i++) {
    if (notes[i] == kVaries && deterministic_convolutions) return false;
    if (d != DType::F32) continue;
    if (notes[i] == kDownConverts || (notes[i] == kTensorCore && !allow_convolution_tf32))
      return false;
  }
  return true;
}

struct Plan {
  Object plan{kPlan};
  int64_t room = 0;
  bool works = false;
  std::vector<Object> parts;

  Plan(Convolve what, DType d, const Convolution& c, int64_t alignment) {
    int type;
    if (!type_of(d, type)) return;
    Object graph = graph_of(what, d, c, type, alignment, parts);
    // The library's own order; engines that are compiled first, and those that work at all, last.
    enum { kFallback = 2, kByTree = 3 };
    for (auto [mode, compiled] : {std::pair(kByTree, false), {kByTree, true}, {kFallback, true}}) {
      take(graph, mode, d, compiled);
      if (works) break;
    }
    parts.push_back(std::move(graph));
  }

  void take(const Object& graph, int mode, DType d, bool compiled) {
    Object heuristic(kHeuristic);
    heuristic.set(201, graph).set(200, kHeuristicMode, mode);
    if (!heuristic.finish()) return;
    // All of them: engines without TF32 stand behind those with it.
    int64_t most = std::max<int64_t>(heuristic.get(202, kDescriptor, 0, nullptr), 0);
    std::vector<Object> configs;
    std::vector<Raw> raw;
    for (int64_t i = 0; i < most; i++) raw.push_back(configs.emplace_back(int(kConfig)).raw());
    int64_t count = std::min(heuristic.get(202, kDescriptor, most, raw.data()), most);
    for (int64_t i = 0; i < count && !works; i++) {
      const Object& config = configs[size_t(i)];
      if (!admits(config, d, compiled)) continue;
      Object made(kPlan);
      Handle library = handle();
      made.set(400, kHandle, 1, &library).set(401, config);
      if (!made.finish() || made.get(402, kInt, 1, &room) != 1 || room > int64_t(2) << 30) continue;
      plan = std::move(made);
      parts.push_back(std::move(configs[size_t(i)]));
      works = true;
    }
  }
};

}  // namespace

int64_t cudnn_version() { return is_started() && load_cudnn() ? int64_t(dnn.version()) : 0; }

bool convolve_by_library(Convolve what, DType d, const Convolution& c, const void* x, const void* w,
                         const void* y) {
  Handle library = handle();
  if (!library) return false;
  bool aligned = (uint64_t(x) | uint64_t(w) | uint64_t(y)) % 16 == 0;
  Key key;
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  key.c = c;
  key.what = int64_t(what) | int64_t(d) << 8 | int64_t(allow_convolution_tf32) << 16 |
             int64_t(deterministic_convolutions) << 17 | int64_t(aligned) << 18;
  static auto* all = new PerDevice<std::unordered_map<Key, Plan, Hash>>;
  auto& plans = all->here();
  auto found = plans.find(key);
  if (found == plans.end())
    found = plans.try_emplace(key, what, d, c, aligned ? 16 : itemsize(d)).first;
  Plan& plan = found->second;
  if (!plan.works) return false;
  dnn.set_stream(library, stream);
  Scratch room(plan.room + 1);
  const void* places[] = {x, w, y};
  void* to = room.get<void>();
  Object pack(kPack);
  pack.set(1000, kInt, 3, kIds).set(1001, kPointer, 3, places).set(1003, kPointer, 1, &to);
  // Where it fails ours computes it, from now on.
  plan.works = pack.finish() && dnn.execute(library, plan.plan.raw(), pack.raw()) == 0;
  return plan.works;
}

}  // namespace rl::cuda
