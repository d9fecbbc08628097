// How tensors take part in a recording (call/recording.h).
#pragma once

#include <cstdint>

namespace rl {

struct Storage;
struct Tensor;

class Recorder {
 public:
  // A tensor that takes part: it is kept, and stays where it is.
  virtual void hold(const Tensor* t) = 0;
  // Memory for a new storage.
  virtual void attach(Storage* s, int64_t bytes) = 0;
  // Raises unless the host may see the elements: those that are the same in every run.
  virtual void check_host(const Storage* s) = 0;
  // Notes that the elements are other ones in every run.
  virtual void vary(const Tensor* t) = 0;
  // Whether it is memory of the region, with elements of that kind.
  virtual bool varies(const void* data) const = 0;

 protected:
  ~Recorder() = default;
};

// The one of this thread, while its calls are noted; null mostly.
extern constinit thread_local Recorder* recording __attribute__((tls_model("initial-exec")));

// Calls in this scope are not noted.
class Unrecorded {
 public:
  Unrecorded() : before_(recording) { recording = nullptr; }
  ~Unrecorded() { recording = before_; }
  Unrecorded(const Unrecorded&) = delete;

 private:
  Recorder* before_;
};

}  // namespace rl
