// Programs of kernel calls: what a region of eager code asked of the CPU's table, done again without
// Python. See docs/design/recording.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
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
  struct Block {
    char* data;
    size_t bytes, number;
    bool varies = false;  // from run to run, as far as is known
  };
  std::map<char*, Block> blocks;
  // The one with this byte, or null.
  Block* find(const void* data);
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

// %n: memory of the region. $n: a tensor from outside. A number behind + is in bytes.
class Places {
 public:
  explicit Places(const Program& program) : program_(program) {}
  std::string name(const void* data) const;

 private:
  const Program& program_;
};

// While a program is made. One for a thread at a time.
class Recording final : public Recorder {
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
  void vary(const Tensor* t) override;
  bool varies(const void* data) const override;
  // Whether it is memory of a tensor at all, and not the host's own.
  bool knows(const void* data) const;
  // The end: what was noted, all of it in memory that is known.
  std::unique_ptr<Program> finish();

 private:
  std::unique_ptr<Program> program_;
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

// The CPU's kernels (call/recorded_kernels.cpp): they note their calls where a thread records.
extern const kernel::Table recording_table;

}  // namespace rl
