// Recorded work: what a stream was given becomes a graph, which is launched again as a whole. What
// changes from launch to launch (positions in the stream of random numbers, the numbers of an
// optimizer's step) is set in its nodes before.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/cuda/driver.h"

namespace rl::cuda {

[[noreturn]] void fail_capturing(const char* what);

// Computes the numbers of recorded steps of an optimizer anew.
using RenewSteps = std::function<void(std::vector<kernel::Step>&)>;

// Steps that were recorded together: a node for each pack of them.
struct RecordedSteps {
  std::vector<kernel::Step> steps;
  std::vector<std::function<void(Exec, const std::vector<kernel::Step>&)>> packs;
  RenewSteps renew;
};

struct Capture {
  int device = 0;
  Stream stream = nullptr;
  int64_t pool = 0;
  bool held = false;  // the pool
  Graph graph = nullptr;
  Exec exec = nullptr;
  std::vector<std::function<void(Exec, uint64_t seed, uint64_t further)>> random;
  std::vector<RecordedSteps> steps;
};

// Everything this thread's stream is given from now on is recorded; blocks come from the pool.
void begin_capture(Capture& of, int64_t pool, int mode);
void end_capture(Capture& of);
// `further`: how far the stream of random numbers is beyond where it was.
void replay(Capture& of, uint64_t seed, uint64_t further);
void reset(Capture& of);
bool is_capturing(Stream stream);

// The node of the launch that was recorded last.
Node last_node();

// The steps that were just recorded get their numbers from here.
void renew_last_steps(RenewSteps renew);

template <class... Arguments>
void launch_random(Function function, Grid grid, unsigned threads, const Arguments&... arguments) {
  launch(function, grid, threads, arguments...);
  if (!capture) [[likely]]
    return;
  capture->random.push_back([function, grid, threads, node = last_node(),
                             all = std::tuple<Arguments...>(arguments...)](Exec exec, uint64_t seed,
                                                                           uint64_t further) {
    auto now = all;
    Share& share = std::get<Share>(now);
    share.seed = seed;
    share.offset += further;
    std::apply(
        [&](auto&... each) {
          void* list[] = {static_cast<void*>(&each)...};
          KernelNode what{function->here().raw, grid.x, grid.y, 1, threads, 1, 1, 0, list, nullptr};
          ok(driver.exec_set(exec, node, &what), "renewing a recorded launch");
        },
        now);
  });
}

}  // namespace rl::cuda
