// Backward passes on the streams of the forward ones: a node's kernels go where those of its call went,
// and events order the streams where a gradient goes from one to another.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/node.h"

namespace rl {

// Whether a stream other than a device's first was ever in use.
extern bool streams_used;
// The number of the stream that this thread's work on the device goes to.
uint16_t current_stream_number(int device);

// What a backward pass does about streams: leaves and what is not of a CUDA device belong to those that
// were current when it began. These go on when all is done.
class RunStreams {
 public:
  RunStreams() = default;
  ~RunStreams();
  RunStreams(const RunStreams&) = delete;

  // Work goes to the node's stream from now on.
  void enter(const Node* node);
  // Work goes to the caller's streams.
  void leave();
  // What enter does, after what made the gradient, whose memory the stream uses too.
  void hand_over(const Node* node, const Var& grad);
  // Whether work of both nodes goes to one stream.
  bool together(const Node* a, const Node* b) const;
  // The caller's streams are current again, and come after all the others.
  void finish(const std::vector<Var>& results);

 private:
  struct Place {
    int device;
    void* stream;
    bool operator==(const Place&) const = default;
  };
  bool place_of(const Node* node, Place& found) const;
  void move_to(const Place& place);

  Place home_{-1, nullptr};   // the caller's stream of the device that is on another one now
  std::vector<Place> used_;   // apart from the caller's
  std::vector<Place> homes_;  // the caller's of the same devices
};

}  // namespace rl
