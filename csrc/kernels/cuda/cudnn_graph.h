// cuDNN's graphs of operations, opened by name: how they are described, planned and run.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/driver.h"
#include "tensor/dtype.h"

namespace rl::cuda::dnn {

struct HandleObject;
struct DescriptorObject;
using Handle = HandleObject*;
using Raw = DescriptorObject*;

// Of the active device; null where the library is not there.
Handle handle();

// The library's numbers of kinds of descriptors, of attributes' types and of types of elements.
enum Kind {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31
};
enum Type {
  kHandle = 0,
  kData = 1,
  kBool = 2,
  kInt = 3,
  kFloat = 4,
  kDouble = 5,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReductionMode = 18,
  kBehaviorNote = 19
};
enum Element { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kInt32 = 4, kBFloat16 = 9, kBoolean = 11 };

// Whether only engines whose results are the same every time will do.
bool repeats();

// False for types that the library does not compute in.
bool type_of(DType d, int& type);

// A description that the library keeps; `good` as long as it took all that it was told.
class Object {
 public:
  explicit Object(int kind);
  Object(Object&& o) noexcept;
  Object& operator=(Object&& o) noexcept;
  ~Object();
  Object& set(int name, int type, int64_t count, const void* values);
  Object& set(int name, const Object& part);
  Object& set(int name, int64_t number) { return set(name, kInt, 1, &number); }
  Object& set(int name, int type, int choice) { return set(name, type, 1, &choice); }
  bool finish();
  // How many values there are, of which at most `wanted` are given.
  int64_t get(int name, int type, int64_t wanted, void* values) const;
  Raw raw() const { return raw_; }
  bool good;

 private:
  Raw raw_ = nullptr;
};

// Operations, and all that they are made of.
struct Drawing {
  std::deque<Object> parts;
  std::vector<Raw> operations;
  bool good = true;

  const Object& part(Object made);  // finishes and keeps it
  void operation(Object made) { operations.push_back(part(std::move(made)).raw()); }
};

// The way to compute a drawing that the library prefers of those that compute as is asked for.
class Plan {
 public:
  Plan(Drawing drawing, DType d);
  // On the current stream. False where there is no way, or, from then on, where it failed.
  bool run(const int64_t* ids, const void* const* places, int64_t count);

 private:
  void take(const Object& graph, int mode, DType d, bool compiled);

  Object plan_{kPlan};
  int64_t room_ = 0;
  bool works_ = false;
  Drawing drawing_;
};

// The active device's plans, by numbers that say what is computed. One is made when it was asked for
// `patience` times before: a plan costs up to half a second, and a shape may never come again.
template <size_t N, int patience = 0>
class Plans {
 public:
  using Key = std::array<int64_t, N>;

  // Null while it is too early.
  template <class Draw>
  Plan* get(const Key& key, DType d, const Draw& draw) {
    Entry& entry = all_.here()[key];
    if (!entry.plan && entry.uses++ == patience) entry.plan.emplace(draw(), d);
    return entry.plan ? &*entry.plan : nullptr;
  }

 private:
  struct Entry {
    std::optional<Plan> plan;
    int uses = 0;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t h = 0x9e3779b97f4a7c15u;
      for (int64_t word : key) h = (h ^ uint64_t(word)) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
      return size_t(h);
    }
  };
  PerDevice<std::unordered_map<Key, Entry, Hash>> all_;
};

}  // namespace rl::cuda::dnn
