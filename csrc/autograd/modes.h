// Per-thread switches that operations consult.
#pragma once

#include <cstdint>

namespace rl {

struct Modes {
  bool grad = true;
  bool inference = false;
  bool anomaly = false;
  bool anomaly_check_nan = true;
  bool intercepted = false;        // a mode of __torch_function__ is active
  bool subclasses = true;          // subclasses of Tensor have a say
  bool watched = false;            // node_creation_hook is active
  bool autocast = false;           // ops that state a policy cast their arguments
  bool profiled = false;           // ops and nodes are timed
  bool derives = false;            // a backward pass that records itself is running
  bool transforms = false;         // a transform of func runs, perhaps in inference mode
  bool shares = false;             // ops look for results they gave before (autograd/sharing.h)
  uint64_t levels = ~uint64_t(0);  // the dual levels whose tangents are seen, a bit for each

  bool records() const { return grad && !inference; }
};

extern constinit thread_local Modes modes __attribute__((tls_model("initial-exec")));

// Sets grad mode for a C++ scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(modes.grad) { modes.grad = on; }
  ~GradMode() { modes.grad = before_; }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace rl
