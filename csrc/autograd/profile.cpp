#include "autograd/profile.h"

#include <chrono>

#include "autograd/profile_stack.h"

namespace rl {

constinit thread_local Profile* profile = nullptr;
thread_local ProfileStacks profile_stacks;

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr int kMaxFrames = 64;

}  // namespace

void ProfileStacks::note(size_t event) {
  PyCodeObject* codes[kMaxFrames];
  int offsets[kMaxFrames], count = rl_user_stack(codes, offsets, kMaxFrames);
  of.resize(event + 1);
  for (int i = 0; i < count; i++) {
    Py_INCREF(codes[i]);
    of[event].push_back({codes[i], offsets[i]});
  }
}

void ProfileStacks::clear() {
  for (auto& frames : of)
    for (Where& frame : frames) frame.drop();
  of.clear();
  wanted = false;
}

Profile::Profile(bool shapes, bool memory) : shapes_(shapes) {
  if (memory) block_watcher = this;
}

Profile::~Profile() {
  if (block_watcher == this) block_watcher = nullptr;
  for (ProfileEvent& event : events_) event.where.drop();
  profile_stacks.clear();
}

size_t Profile::begin(ProfileKind kind, std::string name, const Node* node) {
  ProfileEvent event;
  event.kind = kind;
  event.name = std::move(name);
  event.parent = open_;
  event.memory = -memory_stats().allocated_bytes;
  event.sequence = node ? node->sequence : nodes_made();
  if (node) {
    event.where = node->where;
    Py_XINCREF(event.where.code);
  } else {
    event.where.note();
    if (profile_stacks.wanted) profile_stacks.note(events_.size());
  }
  open_ = int64_t(events_.size());
  events_.push_back(std::move(event));
  events_.back().start = now();
  return size_t(open_);
}

void Profile::end(size_t at) {
  ProfileEvent& event = events_[at];
  event.end = now();
  event.memory += memory_stats().allocated_bytes;
  open_ = event.parent;
}

void Profile::close() {
  while (open_ >= 0) end(size_t(open_));
}

void Profile::taken(void* data, size_t block) {
  int64_t event = profile == this ? open_ : -1;
  memory_.push_back({now(), reinterpret_cast<uintptr_t>(data), int64_t(block), event});
}
void Profile::returned(void* data, size_t block) {
  int64_t event = profile == this ? open_ : -1;
  memory_.push_back({now(), reinterpret_cast<uintptr_t>(data), -int64_t(block), event});
}

void Profiled::op(const char* name) {
  on_ = profile;
  event_ = on_->begin(ProfileKind::Op, name);
}
void Profiled::node(const Node* node) {
  on_ = profile;
  event_ = on_->begin(ProfileKind::Backward, Py_TYPE(node)->tp_name, node);
}
void Profiled::shape(const Var& v) {
  if (v && on_->takes_shapes()) (*on_)[event_].shapes.push_back(v.sizes());
}
void Profiled::finish() {
  // The profiler may have been stopped, or replaced, inside the scope.
  if (on_ == profile && event_ < on_->size()) on_->end(event_);
}

}  // namespace rl
