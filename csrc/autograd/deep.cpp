#include "autograd/deep.h"

#include <Python.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "tensor/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace rl {

namespace {

constexpr int kMostDepth = 100'000;
constexpr size_t kStack = size_t(16) << 20;     // of address space; memory is taken as it is used
constexpr size_t kReserve = size_t(512) << 10;  // what other code may use between two looks

thread_local int depth = 0;

// Nested calls that Python allows: counted down in the thread's state.
class Allowance {
 public:
  Allowance() : state_(PyThreadState_Get()) {
    if (depth == kMostDepth) {
      PyErr_Format(PyExc_RecursionError, "backward: more than %d passes, one inside the other",
                   kMostDepth);
      throw PythonError{};
    }
    depth++;
#if PY_VERSION_HEX < 0x030c0000
    left_ = std::exchange(state_->recursion_remaining, state_->recursion_limit);
    limit_ = state_->recursion_limit;
#else
    left_ = std::exchange(state_->py_recursion_remaining, state_->py_recursion_limit);
    limit_ = state_->py_recursion_limit;
#endif
  }
  ~Allowance() {
    depth--;
#if PY_VERSION_HEX < 0x030c0000
    state_->recursion_remaining = left_ + state_->recursion_limit - limit_;
#else
    state_->py_recursion_remaining = left_ + state_->py_recursion_limit - limit_;
#endif
  }
  Allowance(const Allowance&) = delete;

 private:
  PyThreadState* state_;
  int left_, limit_;
};

// From 3.14 on the interpreter knows the bounds of the stack and refuses another one.
#if PY_VERSION_HEX < 0x030e0000

// The lowest address of the stack that this thread is on, and the part of it to leave alone.
struct Bounds {
  char* low = nullptr;
  size_t size = 0;
};
thread_local Bounds bounds;

Bounds of_thread() {
  pthread_attr_t attributes;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return {static_cast<char*>(low), size};
}

bool is_nearly_used_up() {
  if (!bounds.low) bounds = of_thread();
  if (!bounds.low) return false;
  char* here = static_cast<char*>(__builtin_frame_address(0));
  return size_t(here - bounds.low) < std::min(kReserve, bounds.size / 2);
}

struct Switch {
  void (*body)(void*);
  void* context;
  ucontext_t back, there;
  char* memory;
#ifdef __SANITIZE_ADDRESS__
  const void* low_before;
  size_t size_before;
#endif
};

void enter(uint32_t high, uint32_t low) {
  auto* s = reinterpret_cast<Switch*>(uintptr_t(high) << 32 | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &s->low_before, &s->size_before);
#endif
  s->body(s->context);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(nullptr, s->low_before, s->size_before);
#endif
  swapcontext(&s->there, &s->back);
}

void call_on_new_stack(void (*body)(void*), void* context) {
  Switch s{};
  s.body = body;
  s.context = context;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  s.memory = static_cast<char*>(memory);
  mprotect(memory, 4096, PROT_NONE);
  getcontext(&s.there);
  s.there.uc_stack.ss_sp = s.memory;
  s.there.uc_stack.ss_size = kStack;
  s.there.uc_link = nullptr;
  auto address = reinterpret_cast<uintptr_t>(&s);
  makecontext(&s.there, reinterpret_cast<void (*)()>(enter), 2, uint32_t(address >> 32),
              uint32_t(address));
  Bounds before = std::exchange(bounds, {s.memory, kStack});
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, s.memory, kStack);
#endif
  swapcontext(&s.back, &s.there);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  bounds = before;
  munmap(memory, kStack);
}

#else

bool is_nearly_used_up() { return false; }
void call_on_new_stack(void (*body)(void*), void* context) { body(context); }

#endif

}  // namespace

void call_deep(void (*body)(void*), void* context) {
  Allowance allowance;
  if (is_nearly_used_up()) call_on_new_stack(body, context);
  else body(context);
}

}  // namespace rl
