#include "kernels/cuda/graph.h"

#include <algorithm>

#include "kernels/cuda/allocator.h"
#include "tensor/error.h"

namespace rl::cuda {

void fail_capturing(const char* what) {
  fail("CUDA error: operation not permitted when stream is capturing: ", what,
       " cannot be part of a CUDA graph; move it out of the recorded region");
}

void begin_capture(Capture& of, int64_t pool, int mode) {
  use(chosen);
  if (capture) fail("CUDAGraph.capture_begin: this thread is recording already");
  if (of.graph) fail("CUDAGraph.capture_begin: this graph was recorded; call reset() first");
  if (!stream)
    fail(
        "CUDAGraph.capture_begin: CUDA graphs must be captured on a non-default stream; use "
        "`with torch.cuda.graph(g):`, or a torch.cuda.Stream()");
  ok(driver.begin_capture(stream, mode), "starting to record");
  of.device = active;
  of.stream = stream;
  of.pool = pool;
  hold_pool(pool);
  of.held = true;
  use_pool(pool);
  capture = &of;
}

void end_capture(Capture& of) {
  use(of.device);
  if (capture != &of) fail("CUDAGraph.capture_end: this graph is not being recorded");
  capture = nullptr;
  use_pool(0);
  ok(driver.end_capture(of.stream, &of.graph), "recording a graph");
  if (!of.graph) fail("CUDAGraph.capture_end: nothing was recorded: the recording was invalidated");
  ok(driver.instantiate(&of.exec, of.graph, 0), "making a graph");
}

void draw_from(const Generator* generator) {
  if (!capture) return;
  auto& all = capture->generators;
  auto found = std::find(all.begin(), all.end(), generator);
  if (generator && found == all.end())
    fail(
        "Attempt to increase offset for a CUDA generator not in capture mode: give it to "
        "CUDAGraph.register_generator_state before the recording");
  capture->source = generator ? size_t(found - all.begin()) + 1 : 0;
}

void replay(Capture& of, const std::vector<Drawing>& sources) {
  if (!of.exec) fail("Called CUDAGraph::replay without a preceding successful capture.");
  use(of.device);
  for (auto& draw : of.random) draw.renew(of.exec, sources.at(draw.source));
  for (RecordedSteps& recorded : of.steps) {
    if (recorded.renew) recorded.renew(recorded.steps);
    for (auto& set : recorded.packs) set(of.exec, recorded.steps);
  }
  ok(driver.exec_launch(of.exec, stream), "launching a graph");
  if (blocking) wait_for(stream);
}

void reset(Capture& of) {
  use(of.device);
  if (capture == &of) {
    capture = nullptr;
    use_pool(0);
    driver.end_capture(of.stream, &of.graph);
  }
  if (of.exec) driver.exec_destroy(of.exec);
  if (of.graph) driver.graph_destroy(of.graph);
  if (of.held) drop_pool(of.pool);
  auto generators = std::move(of.generators);
  of = Capture();
  of.generators = std::move(generators);
}

bool is_capturing(Stream which) {
  int status = 0;
  unsigned long long number = 0;
  ok(driver.capture_info(which, &status, &number, nullptr, nullptr, nullptr), "asking a stream");
  return status != 0;
}

Node last_node() {
  int status = 0;
  unsigned long long number = 0;
  const Node* last = nullptr;
  size_t count = 0;
  ok(driver.capture_info(stream, &status, &number, nullptr, &last, &count), "asking a stream");
  if (count == 0) fail("internal error: a recorded launch left no node");
  return last[count - 1];
}

void renew_last_steps(RenewSteps renew) { capture->steps.back().renew = std::move(renew); }

}  // namespace rl::cuda
