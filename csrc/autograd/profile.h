// What the profiler sees: ops, nodes of a backward pass and the user's own ranges, nested.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/modes.h"
#include "autograd/node.h"
#include "tensor/allocator.h"

namespace rl {

enum class ProfileKind : uint8_t { Op, Backward, Range };

struct ProfileEvent {
  ProfileKind kind = ProfileKind::Op;
  std::string name;
  int64_t start = 0, end = 0;  // nanoseconds of the monotonic clock
  int64_t parent = -1;         // the event around it
  uint64_t sequence = 0;       // of the node; of an op: of the next node to be made
  int64_t memory = 0;          // bytes allocated less bytes freed
  Where where;                 // the user's line; of a node: that of its forward op
  std::vector<Ints> shapes;
};

// A block of memory taken, or given back (its bytes are negative then).
struct MemoryEvent {
  int64_t time;
  uintptr_t block;
  int64_t bytes;
  int64_t event;  // the innermost event that was open; -1: none, or another thread's doing
};

// The events of this thread since the profiler was started.
class Profile : public BlockWatcher {
 public:
  Profile(bool shapes, bool memory);
  ~Profile();
  Profile(const Profile&) = delete;

  size_t begin(ProfileKind kind, std::string name, const Node* node = nullptr);
  void end(size_t event);
  void close();  // ends what is still open
  ProfileEvent& operator[](size_t event) { return events_[event]; }
  size_t size() const { return events_.size(); }
  bool takes_shapes() const { return shapes_; }
  const std::vector<MemoryEvent>& memory() const { return memory_; }

  void taken(void* data, size_t block) override;
  void returned(void* data, size_t block) override;

 private:
  bool shapes_;
  std::vector<MemoryEvent> memory_;
  std::vector<ProfileEvent> events_;
  int64_t open_ = -1;
};

extern constinit thread_local Profile* profile;  // set while modes.profiled

// An event for a C++ scope; without a profiler, nothing.
class Profiled {
 public:
  Profiled() = default;
  ~Profiled() {
    if (on_) [[unlikely]]
      finish();
  }
  Profiled(const Profiled&) = delete;

  void op(const char* name);
  void node(const Node* node);
  void shape(const Var& v);
  void shape(const std::vector<Var>& vars) {
    for (const Var& v : vars) shape(v);
  }
  template <class T>
  void shape(const T&) {}

 private:
  void finish();

  Profile* on_ = nullptr;
  size_t event_ = 0;
};

}  // namespace rl
