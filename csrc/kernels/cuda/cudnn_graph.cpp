#include "kernels/cuda/cudnn_graph.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

CudnnSwitches cudnn_switches;

namespace dnn {

namespace {

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

struct Library {
#define X(name, symbol, result, parameters) result(*name) parameters;
  RL_CUDNN(X)
#undef X
} library;

bool load() {
  static const bool there = [] {
    static const char* const names[] = {"libcudnn.so.9", "libcudnn.so.8", nullptr};
    std::string missing;
    void* opened = open_library(library_folders(), names, missing);
    if (!opened) return false;
#define X(name, symbol, result, parameters)                                       \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(opened, symbol)); \
  if (!library.name) return false;
    RL_CUDNN(X)
#undef X
    return true;
  }();
  return there;
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
    if (notes[i] == kVaries && repeats()) return false;
    if (d != DType::F32) continue;
    if (notes[i] == kDownConverts || (notes[i] == kTensorCore && !cudnn_switches.tf32))
      return false;
  }
  return true;
}

}  // namespace

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
    if (load() && library.create(&here.handle) != 0) here.handle = nullptr;
  }
  return here.handle;
}

bool repeats() { return cudnn_switches.deterministic || deterministic_algorithms; }

bool type_of(DType d, int& type) {
  switch (d) {
    case DType::F32: type = kFloat32; return true;
    case DType::F64: type = kFloat64; return true;
    case DType::F16: type = kFloat16; return true;
    case DType::BF16: type = kBFloat16; return true;
    default: return false;
  }
}

Object::Object(int kind) { good = library.make(kind, &raw_) == 0; }
Object::Object(Object&& o) noexcept : good(o.good), raw_(std::exchange(o.raw_, nullptr)) {}
Object& Object::operator=(Object&& o) noexcept {
  std::swap(good, o.good);
  std::swap(raw_, o.raw_);
  return *this;
}
Object::~Object() {
  if (raw_) library.destroy(raw_);
}
Object& Object::set(int name, int type, int64_t count, const void* values) {
  good = good && library.set(raw_, name, type, count, values) == 0;
  return *this;
}
Object& Object::set(int name, const Object& part) {
  good = good && part.good;
  return set(name, kDescriptor, 1, &part.raw_);
}
bool Object::finish() { return good = good && library.finalize(raw_) == 0; }
int64_t Object::get(int name, int type, int64_t wanted, void* values) const {
  int64_t found = 0;
  return good && library.get(raw_, name, type, wanted, &found, values) == 0 ? found : 0;
}

const Object& Drawing::part(Object made) {
  good = made.finish() && good;
  return parts.emplace_back(std::move(made));
}

Plan::Plan(Drawing drawing, DType d) : drawing_(std::move(drawing)) {
  Handle to = handle();
  Object graph(kGraph);
  graph.set(800, kHandle, 1, &to);
  graph.set(801, kDescriptor, int64_t(drawing_.operations.size()), drawing_.operations.data());
  if (!drawing_.good || !graph.finish()) return;
  // The library's own order; engines that are compiled first, and those that work at all, last.
  enum { kFallback = 2, kByTree = 3 };
  for (auto [mode, compiled] : {std::pair(kByTree, false), {kByTree, true}, {kFallback, true}}) {
    take(graph, mode, d, compiled);
    if (works_) break;
  }
  drawing_.parts.push_back(std::move(graph));
}

void Plan::take(const Object& graph, int mode, DType d, bool compiled) {
  Object heuristic(kHeuristic);
  heuristic.set(201, graph).set(200, kHeuristicMode, mode);
  if (!heuristic.finish()) return;
  // All of them: engines without TF32 stand behind those with it.
  int64_t most = std::max<int64_t>(heuristic.get(202, kDescriptor, 0, nullptr), 0);
  std::vector<Object> configs;
  std::vector<Raw> raw;
  for (int64_t i = 0; i < most; i++) raw.push_back(configs.emplace_back(int(kConfig)).raw());
  int64_t count = std::min(heuristic.get(202, kDescriptor, most, raw.data()), most);
  for (int64_t i = 0; i < count && !works_; i++) {
    Object& config = configs[size_t(i)];
    if (!admits(config, d, compiled)) continue;
    Object made(kPlan);
    Handle to = handle();
    made.set(400, kHandle, 1, &to).set(401, config);
    if (!made.finish() || made.get(402, kInt, 1, &room_) != 1 || room_ > int64_t(2) << 30) continue;
    plan_ = std::move(made);
    drawing_.parts.push_back(std::move(config));
    works_ = true;
  }
}

bool Plan::run(const int64_t* ids, const void* const* places, int64_t count) {
  if (!works_) return false;
  Handle to = handle();
  library.set_stream(to, stream);
  Scratch scratch(room_ + 1);
  void* room = scratch.get<void>();
  Object pack(kPack);
  pack.set(1000, kInt, count, ids).set(1001, kPointer, count, places);
  pack.set(1003, kPointer, 1, &room);
  return works_ = pack.finish() && library.execute(to, plan_.raw(), pack.raw()) == 0;
}

}  // namespace dnn

int64_t cudnn_version() {
  return is_started() && dnn::load() ? int64_t(dnn::library.version()) : 0;
}

}  // namespace rl::cuda
