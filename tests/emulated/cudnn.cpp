// cuDNN of the emulated device: graphs of one convolution, in double. Descriptions that lack an attribute,
// or have one of a wrong type, are not taken.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "shared.h"

namespace {

void* current = nullptr;

enum { kData = 1, kInt = 3, kFloat = 4, kDouble = 5, kPointer = 6, kMode = 7, kHeuristic = 8, kDescriptor = 15 };

struct Attribute {
  int type;
  std::vector<char> bytes;
};
struct Descriptor {
  int kind;
  bool finished = false;
  std::map<int, Attribute> attributes;

  template <class T>
  const T* list(int name) const {
    return reinterpret_cast<const T*>(attributes.at(name).bytes.data());
  }
  int count(int name) const { return int(attributes.at(name).bytes.size() / 8); }
  const Descriptor& part(int name) const { return **list<const Descriptor*>(name); }
};

size_t size_of(int type) {
  return type == kData || type == kMode || type == kHeuristic || type == kFloat ? 4 : 8;
}

// What a description of each kind must say, with the types of it.
const std::map<int, std::map<int, int>>& required() {
  static const std::map<int, std::map<int, int>> all = [] {
    std::map<int, std::map<int, int>> kinds = {
        {1, {{100, kData}, {101, kMode}, {102, kInt}, {103, kInt}, {104, kInt}, {105, kInt}, {106, kInt}}},
        {4, {{200, kHeuristic}, {201, kDescriptor}}},
        {5, {{400, 0}, {401, kDescriptor}}},
        {15, {{800, 0}, {801, kDescriptor}}},
        {16, {{1000, kInt}, {1001, kPointer}, {1003, kPointer}}},
        {17, {{900, kInt}, {901, kData}, {902, kInt}, {903, kInt}, {906, kInt}}},
    };
    for (auto [kind, first] : {std::pair(10, 700), {12, 706}, {11, 712}}) {
      kinds[kind] = {{first, -1}, {first + 1, -1}};
      for (int i = 2; i < 6; i++) kinds[kind][first + i] = kDescriptor;
    }
    return kinds;
  }();
  return all;
}

Descriptor* as(void* p) { return static_cast<Descriptor*>(p); }

struct Tensor {
  int type, dims;
  const int64_t *sizes, *strides;
  int64_t id;
  explicit Tensor(const Descriptor& d)
      : type(*d.list<int>(901)),
        dims(d.count(902)),
        sizes(d.list<int64_t>(902)),
        strides(d.list<int64_t>(903)),
        id(*d.list<int64_t>(906)) {}
};

// Calls f(x's place, w's place, y's place) for every product of a convolution.
template <class F>
void each(const Descriptor& convolution, const Tensor& x, const Tensor& w, const Tensor& y, const F& f) {
  int spatial = x.dims - 2;
  auto of = [&](int name, int d) { return convolution.list<int64_t>(name)[d]; };
  int64_t groups = x.sizes[1] / w.sizes[1], out = w.sizes[0] / groups, positions = 1, taps = 1;
  for (int d = 0; d < spatial; d++) positions *= y.sizes[2 + d], taps *= w.sizes[2 + d];
  for (int64_t b = 0; b < y.sizes[0]; b++)
    for (int64_t o = 0; o < w.sizes[0]; o++)
      for (int64_t i = 0; i < w.sizes[1]; i++)
        for (int64_t p = 0; p < positions; p++)
          for (int64_t t = 0; t < taps; t++) {
            int64_t at_x = b * x.strides[0] + (o / out * w.sizes[1] + i) * x.strides[1];
            int64_t at_w = o * w.strides[0] + i * w.strides[1], at_y = b * y.strides[0] + o * y.strides[1];
            bool inside = true;
            for (int64_t d = spatial - 1, q = p, k = t; d >= 0; d--) {
              int64_t to = q % y.sizes[2 + d], tap = k % w.sizes[2 + d];
              q /= y.sizes[2 + d], k /= w.sizes[2 + d];
              int64_t from = to * of(103, int(d)) + tap * of(102, int(d)) - of(105, int(d));
              inside = inside && from >= 0 && from < x.sizes[2 + d];
              at_x += from * x.strides[2 + d], at_w += tap * w.strides[2 + d], at_y += to * y.strides[2 + d];
            }
            if (inside) f(at_x, at_w, at_y);
          }
}

int run(const Descriptor& operation, const int64_t* ids, void* const* places) {
  int first = operation.kind == 10 ? 700 : operation.kind == 12 ? 706 : 712;
  Tensor x(operation.part(operation.kind == 10 ? 704 : operation.kind == 12 ? 710 : 716)),
      w(operation.part(operation.kind == 10 ? 703 : operation.kind == 12 ? 709 : 715)),
      y(operation.part(operation.kind == 10 ? 705 : operation.kind == 12 ? 711 : 717));
  auto place = [&](const Tensor& t) {
    for (int i = 0; i < 3; i++)
      if (ids[i] == t.id) return places[i];
    std::abort();
  };
  void *xs = place(x), *ws = place(w), *ys = place(y);
  const Tensor& result = operation.kind == 10 ? y : operation.kind == 12 ? x : w;
  void* to = operation.kind == 10 ? ys : operation.kind == 12 ? xs : ws;
  int64_t room = 1;
  for (int d = 0; d < result.dims; d++) room *= result.sizes[d];
  std::vector<double> sums(size_t(room), 0.0);
  each(operation.part(first + 2), x, w, y, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    if (operation.kind == 10) sums[size_t(at_y)] += load(x.type, xs, at_x) * load(w.type, ws, at_w);
    else if (operation.kind == 12) sums[size_t(at_x)] += load(y.type, ys, at_y) * load(w.type, ws, at_w);
    else sums[size_t(at_w)] += load(x.type, xs, at_x) * load(y.type, ys, at_y);
  });
  for (int64_t i = 0; i < room; i++) store(result.type, to, i, sums[size_t(i)]);
  return failure("convolution", 5000);
}

}  // namespace

EXPORT size_t cudnnGetVersion() { return 92700; }
EXPORT int cudnnCreate(void** handle) {
  *handle = new int(entered());
  return std::getenv("EMULATED_CUDA_NO_DNN") ? 1 : 0;
}
EXPORT int cudnnSetStream(void* handle, void* stream) {
  if (foreign("a stream", stream) || *static_cast<int*>(handle) != entered()) return 13;
  current = stream;
  return 0;
}
EXPORT int cudnnBackendCreateDescriptor(int kind, void** made) {
  *made = new Descriptor{kind, false, {}};
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void* what) {
  delete as(what);
  return 0;
}
EXPORT int cudnnBackendSetAttribute(void* what, int name, int type, int64_t count, const void* values) {
  Descriptor& d = *as(what);
  auto kind = required().find(d.kind);
  if (d.finished || kind == required().end() || !kind->second.count(name)) return 2000;
  int wanted = kind->second.at(name);
  if (wanted == -1 ? type != kFloat && type != kDouble : type != wanted) return 2001;
  const char* from = static_cast<const char*>(values);
  d.attributes[name] = {type, {from, from + count * int64_t(size_of(type))}};
  return 0;
}
EXPORT int cudnnBackendFinalize(void* what) {
  Descriptor& d = *as(what);
  for (auto& [name, type] : required().at(d.kind))
    if (!d.attributes.count(name)) return 2002;
  for (auto& [name, attribute] : d.attributes)
    if (attribute.type == kDescriptor && !d.part(name).finished) return 2003;
  d.finished = true;
  return 0;
}
// A heuristic finds one configuration, whose engine is an ordinary one.
EXPORT int cudnnBackendGetAttribute(void* what, int name, int, int64_t wanted, int64_t* found, void* values) {
  Descriptor& d = *as(what);
  if (!d.finished || wanted < 1) return 3000;
  *found = 1;
  if (name == 202) {
    Descriptor& config = **static_cast<Descriptor**>(values);
    config.attributes = d.attributes;
    config.finished = true;
  } else if (name == 300) {
    (*static_cast<Descriptor**>(values))->finished = true;
  } else if (name == 402) {
    *static_cast<int64_t*>(values) = 256;
  } else {
    *found = 0;
  }
  return 0;
}
EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  if (*static_cast<int*>(handle) != entered()) std::abort();  // an error would fall back to ours
  if (!as(plan)->finished || !as(pack)->finished) return 3001;
  const Descriptor* operation = &as(plan)->part(401).part(201).part(801);
  std::vector<int64_t> ids(as(pack)->list<int64_t>(1000), as(pack)->list<int64_t>(1000) + 3);
  std::vector<void*> places(as(pack)->list<void*>(1001), as(pack)->list<void*>(1001) + 3);
  for (void* at : places)
    if (device_of(Address(at)) != entered()) std::abort();
  auto work = [=] { return run(*operation, ids.data(), places.data()); };
  return record_other(current, work) ? 0 : work();
}
