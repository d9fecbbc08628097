// Python code that a backward pass calls may run another one, to any depth.
#pragma once

#include <exception>

namespace rl {

// Calls body(context) with the interpreter's full allowance of nested calls, and on a stack of its
// own where little is left of this thread's.
void call_deep(void (*body)(void*), void* context);

template <class F>
auto deeply(const F& f) -> decltype(f()) {
  using Result = decltype(f());
  struct Call {
    const F& f;
    Result result{};
    std::exception_ptr error;
  } call{f, {}, {}};
  // No exception may cross from one stack to another.
  call_deep(
      [](void* context) {
        auto* call = static_cast<Call*>(context);
        try {
          call->result = call->f();
        } catch (...) {
          call->error = std::current_exception();
        }
      },
      &call);
  if (call.error) std::rethrow_exception(call.error);
  return std::move(call.result);
}

}  // namespace rl
