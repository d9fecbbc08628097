#include "call/recording.h"

#include <algorithm>

#include "kernels/linalg.h"
#include "tensor/allocator.h"

namespace rl {

constinit thread_local Recorder* recording = nullptr;

namespace {

int recordings = 0;  // of all threads

// A function of the core.
struct Whole : Action {
  const char* label;
  std::function<void()> call;

  Whole(const char* label, std::function<void()> call) : label(label), call(std::move(call)) {}
  void run() override { call(); }
  void each_pointer(const std::function<void(const void*, bool)>&) const override {}
  std::string text(const Places&) const override { return concat(label, "()"); }
};

std::string with_offset(const char* kind, size_t number, int64_t offset) {
  return offset ? concat(kind, number, "+", offset) : concat(kind, number);
}

}  // namespace

// ---- memory and its names

Arena::~Arena() {
  for (auto& [data, block] : blocks) release(data, block.bytes);
}

Arena::Block* Arena::find(const void* data) {
  char* at = static_cast<char*>(const_cast<void*>(data));
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return nullptr;
  auto& [start, block] = *--next;
  return at < start + block.bytes ? &block : nullptr;
}

std::string Places::name(const void* data) const {
  const char* at = static_cast<const char*>(data);
  if (!at) return "none";
  if (const Arena::Block* block = program_.arena_->find(at))
    return with_offset("%", block->number, at - block->data);
  for (size_t i = 0; i < program_.outers_.size(); i++) {
    const Program::Outer& outer = program_.outers_[i];
    if (at >= outer.data && at < outer.data + std::max<int64_t>(outer.storage->bytes, 1))
      return with_offset("$", i, at - outer.data);
  }
  return "number";
}

// ---- recording

void refuse_recording(const char* what) {
  fail("recording: ", what,
       " reads elements, on which the program would depend. Do it outside of the region.");
}

Recording::Recording() : program_(new Program) {
  check(!recording, "recording: this thread records already");
  program_->arena_ = new Arena;
  program_->memory_ = PyCapsule_New(program_->arena_, nullptr, [](PyObject* capsule) {
    delete static_cast<Arena*>(PyCapsule_GetPointer(capsule, nullptr));
  });
  if (!program_->memory_) {
    delete program_->arena_;
    throw PythonError{};
  }
  if (recordings++ == 0) {
    kernel_tables[Device::CPU] = &recording_table;
    linalg_tables[Device::CPU] = &recording_linalg;
  }
  recording = this;
}

Recording::~Recording() {
  recording = nullptr;
  if (--recordings == 0) {
    kernel_tables[Device::CPU] = &on_host();
    linalg_tables[Device::CPU] = &cpu_linalg;
  }
}

// What it writes varies with what it reads; memory from outside always does.
void Recording::add(std::unique_ptr<Action> action) {
  bool varies = false;
  action->each_pointer([&](const void* data, bool written) {
    if (!data) return;
    const char* at = static_cast<const char*>(data);
    if (const Arena::Block* block = program_->arena_->find(at)) {
      varies = varies || block->varies;
      return;
    }
    varies = true;
    for (Program::Outer& outer : program_->outers_)
      if (written && at >= outer.data &&
          at < outer.data + std::max<int64_t>(outer.storage->bytes, 1))
        outer.written = true;
  });
  if (varies)
    action->each_pointer([&](const void* data, bool written) {
      if (!written || !data) return;
      if (Arena::Block* block = program_->arena_->find(data)) block->varies = true;
    });
  program_->actions_.push_back(std::move(action));
}

void Recording::add(const char* name, std::function<void()> run) {
  program_->actions_.push_back(std::make_unique<Whole>(name, std::move(run)));
}

void Recording::hold(const Tensor* t) {
  if (!t || t->storage->recorded || t->device() != kHost) return;
  for (const Program::Outer& outer : program_->outers_)
    if (outer.storage == t->storage) return;
  {
    Unrecorded off;
    own_memory(t->storage);
  }
  // Another tensor object: one that the caller changes keeps what it had.
  Program::Outer outer{alias(t), t->storage, t->storage->data};
  program_->outers_.push_back(std::move(outer));
}

void Recording::attach(Storage* s, int64_t bytes) {
  size_t block = block_size(size_t(std::max<int64_t>(bytes, 1)));
  char* data = static_cast<char*>(allocate(block));
  auto& blocks = program_->arena_->blocks;
  blocks[data] = {data, block, blocks.size()};
  s->data = data;
  s->bytes = bytes;
  s->block = 0;
  s->recorded = true;
  Py_INCREF(program_->memory_);
  s->owner = program_->memory_;
}

void Recording::vary(const Tensor* t) {
  if (Arena::Block* block = program_->arena_->find(t->data())) block->varies = true;
}

bool Recording::varies(const void* data) const {
  const Arena::Block* block = program_->arena_->find(data);
  return block && block->varies;
}

void Recording::check_host(const Storage* s) {
  if (!s->recorded || varies(s->data)) refuse_recording("the host");
}

bool Recording::knows(const void* data) const { return Places(*program_).name(data) != "number"; }

std::unique_ptr<Program> Recording::finish() {
  recording = nullptr;
  for (const Program::Outer& outer : program_->outers_)
    check(outer.tensor->storage == outer.storage && outer.storage->data == outer.data,
          "recording: the memory of a tensor of shape ", outer.tensor.sizes(),
          " moved while the region ran");
  Places places(*program_);
  for (const auto& action : program_->actions_)
    action->each_pointer([&](const void* data, bool) {
      check(places.name(data) != "number", "recording: ", action->text(places),
            " reads memory of a tensor that the region was not given; record what makes it too");
    });
  return std::move(program_);
}

// ---- programs

Program::~Program() { Py_XDECREF(memory_); }

void Program::replay() {
  check(!recording, "replay: a program cannot be a part of another one");
  for (const Outer& outer : outers_)
    check(outer.storage->data == outer.data && !outer.storage->shared,
          "replay: the memory of a tensor of shape ", outer.tensor.sizes(),
          " that the program uses has moved: record it again");
  for (const auto& action : actions_) action->run();
  for (const Outer& outer : outers_)
    if (outer.written) outer.storage->version++;
}

std::string Program::text() const {
  Places places(*this);
  std::string all;
  for (const auto& action : actions_) all += action->text(places) + "\n";
  return all;
}

}  // namespace rl
