#include "autograd/streams.h"

#include <algorithm>

#include "autograd/structured.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/driver.h"

namespace rl {

bool streams_used = false;

namespace {

constexpr char kOrdering[] = "ordering the streams of a backward pass";

// Streams that nodes were made on, by number; 0 is a device's first one.
struct Known {
  int device;
  cuda::Stream stream;
};
std::vector<Known>& known() {
  static auto* all = new std::vector<Known>{{0, nullptr}};
  return *all;
}

cuda::Stream as_stream(void* stream) { return static_cast<cuda::Stream>(stream); }

}  // namespace

uint16_t current_stream_number(int device) {
  cuda::Stream stream = cuda::stream_of(device);
  if (!stream) return 0;
  auto& all = known();
  for (size_t i = 1; i < all.size(); i++)
    if (all[i].stream == stream && all[i].device == device) return uint16_t(i);
  if (all.size() > UINT16_MAX) return 0;
  all.push_back({device, stream});
  return uint16_t(all.size() - 1);
}

RunStreams::~RunStreams() {
  try {
    finish({});
  } catch (...) {  // the pass failed already
  }
}

bool RunStreams::place_of(const Node* node, Place& found) const {
  if (node->cls == &accumulate_class) return false;
  if (node->stream) {
    const Known& at = known()[node->stream];
    found = {at.device, at.stream};
    return true;
  }
  Device device = node->output.device;
  // What is recorded for a graph can not come after a device's first stream.
  if (device.type != Device::CUDA || cuda::capture) return false;
  found = {device.index, nullptr};
  return true;
}

void RunStreams::leave() {
  if (home_.device < 0) return;
  cuda::set_stream(home_.device, as_stream(home_.stream));
  home_.device = -1;
}

void RunStreams::move_to(const Place& place) {
  if (home_.device == place.device && cuda::stream_of(place.device) == place.stream) return;
  leave();
  void* caller = cuda::stream_of(place.device);
  if (caller == place.stream) return;
  if (std::find(used_.begin(), used_.end(), place) == used_.end()) {
    cuda::ok(cuda::order(place.device, as_stream(caller), place.device, as_stream(place.stream)),
             kOrdering);
    used_.push_back(place);
    homes_.push_back({place.device, caller});
  }
  cuda::set_stream(place.device, as_stream(place.stream));
  home_ = {place.device, caller};
}

void RunStreams::enter(const Node* node) {
  Place place;
  if (place_of(node, place)) move_to(place);
  else leave();
}

void RunStreams::hand_over(const Node* node, const Var& grad) {
  Device device = grad->device();
  if (device.type != Device::CUDA) return enter(node);
  void* from = cuda::stream_of(device.index);
  enter(node);
  void* to = cuda::stream_of(device.index);
  if (from == to) return;
  cuda::ok(cuda::order(device.index, as_stream(from), device.index, as_stream(to)), kOrdering);
  if (structured_type && is_structured(grad.get())) return;
  cuda::use_on_stream(grad->storage->data, device.index, as_stream(to));
}

bool RunStreams::together(const Node* a, const Node* b) const {
  Place of_a, of_b;
  if (!b) return true;
  bool has_a = place_of(a, of_a), has_b = place_of(b, of_b);
  return has_a == has_b && (!has_a || of_a == of_b);
}

void RunStreams::finish(const std::vector<Var>& results) {
  leave();
  for (size_t i = 0; i < used_.size(); i++) {
    int device = used_[i].device;
    auto caller = as_stream(homes_[i].stream);
    cuda::ok(cuda::order(device, as_stream(used_[i].stream), device, caller), kOrdering);
    for (const Var& v : results)
      if (v && v->device() == Device{Device::CUDA, int8_t(device)} &&
          !(structured_type && is_structured(v.get())))
        cuda::use_on_stream(v->storage->data, device, caller);
  }
  used_.clear();
  homes_.clear();
}

}  // namespace rl
