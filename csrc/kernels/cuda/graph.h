// Recorded work: what a stream was given becomes a graph, which is launched again as a whole. What
// changes from launch to launch (positions in the stream of random numbers, the numbers of an
// optimizer's step) is set in its nodes before.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/cuda/driver.h"

namespace rl {
struct Generator;
}

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

// Where a source of random numbers is at a replay: `further` than when it was recorded.
struct Drawing {
  uint64_t seed, further;
};
// A launch that draws, from a source of the capture.
struct RecordedDraw {
  size_t source;
  std::function<void(Exec, Drawing)> renew;
};

struct Capture {
  int device = 0;
  Stream stream = nullptr;
  int64_t pool = 0;
  bool held = false;  // the pool
  Graph graph = nullptr;
  Exec exec = nullptr;
  std::vector<RecordedDraw> random;
  std::vector<const Generator*> generators;  // registered; source 0 is the device's default
  size_t source = 0;                         // that is drawn from now
  std::vector<RecordedSteps> steps;
};

// Everything this thread's stream is given from now on is recorded; blocks come from the pool.
void begin_capture(Capture& of, int64_t pool, int mode);
void end_capture(Capture& of);
// `sources`: the default generator's numbers, then those of the registered ones.
void replay(Capture& of, const std::vector<Drawing>& sources);
// Draws of this thread that are recorded come from this generator; null: the default one.
void draw_from(const Generator* generator);
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
  auto renew = [function, grid, threads, node = last_node(),
                all = std::tuple<Arguments...>(arguments...)](Exec exec, Drawing from) {
    auto now = all;
    Share& share = std::get<Share>(now);
    share.seed = from.seed;
    share.offset += from.further;
    std::apply(
        [&](auto&... each) {
          void* list[] = {static_cast<void*>(&each)...};
          KernelNode what{function->here().raw, grid.x, grid.y, 1, threads, 1, 1, 0, list, nullptr};
          ok(driver.exec_set(exec, node, &what), "renewing a recorded launch");
        },
        now);
  };
  capture->random.push_back({capture->source, renew});
}

}  // namespace rl::cuda
