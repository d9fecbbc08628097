// Programs of kernel calls: what a region of eager code asked of the CPU's table, done again without
// Python. See docs/design/recording.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/recorder.h"

namespace rl {

// Names the memory that a call reads and writes.
class Places;

// One thing that is done again.
struct Action {
  virtual ~Action() = default;
  virtual void run() = 0;
  // Calls visit(pointer, whether it is written) for all of the memory it was given.
  virtual void each_pointer(const std::function<void(const void*, bool)>& visit) const = 0;
  virtual std::string text(const Places& places) const = 0;
};

// The memory that tensors got in the region; it lives as long as one of them, or the program.
struct Arena {
  std::vector<std::pair<char*, size_t>> blocks;
  ~Arena();
};

class Program {
 public:
  ~Program();
  // Does everything again, on what the tensors of the region hold now.
  void replay();
  std::string text() const;

 private:
  friend class Recording;
  friend class Places;
  // A tensor from outside of the region, where it lay.
  struct Outer {
    Var tensor;
    Storage* storage;
    const char* data;
    bool written = false;
  };
  std::vector<std::unique_ptr<Action>> actions_;
  std::vector<Outer> outers_;
  PyObject* memory_ = nullptr;  // a capsule of the Arena
  Arena* arena_ = nullptr;
};

// While a program is made. One for a thread at a time.
class Recording : public Recorder {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;

  void add(std::unique_ptr<Action> action);
  // A function of the core that calls kernels on the way; they are not noted by themselves.
  void add(const char* name, std::function<void()> run);
  void hold(const Tensor* t) override;
  void attach(Storage* s, int64_t bytes) override;
  void check_host(const Storage* s) override;
  bool wrote(const void* data) const override;
  // Whether it is memory of a tensor at all, and not the host's own.
  bool knows(const void* data) const;
  // The end: what was noted, all of it in memory that is known.
  std::unique_ptr<Program> finish();

 private:
  std::unique_ptr<Program> program_;
  std::unordered_map<const void*, bool> written_;  // blocks of the arena
};

// The one of this thread, or null.
inline Recording* the_recording() { return static_cast<Recording*>(recording); }

// Runs `f`, which is noted as one action.
template <class F>
void act(const char* name, const F& f) {
  if (recording) [[unlikely]]
    the_recording()->add(name, f);
  Unrecorded off;
  f();
}

[[noreturn]] void refuse_recording(const char* what);

}  // namespace rl
