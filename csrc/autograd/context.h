// The modes of the current context (contextvars): no_grad, inference_mode and autocast belong to the
// asyncio task or the Context.run() that entered them, whichever thread it runs on.
//
// Operations read the thread's modes alone. Python counts the contexts that a thread has entered and
// left; an entry point that finds another count than the last one loads the modes of the context.
#pragma once

#include <Python.h>

#include <cstdint>

#include "tensor/error.h"

namespace rl {

// The count for which the thread's modes are right.
extern constinit thread_local uint64_t modes_context __attribute__((tls_model("initial-exec")));
// A block was entered while a C++ scope had set the modes (a backward pass, the forward of a
// Function): until it is left, changes are the scope's and not the context's.
extern constinit thread_local bool modes_borrowed __attribute__((tls_model("initial-exec")));

void load_modes();
inline void follow_context() {
  if (PyThreadState_Get()->context_ver != modes_context) [[unlikely]]
    load_modes();
}

// Whether the thread's modes are the context's now, not those of a C++ scope that runs Python.
bool modes_are_contexts();

// Around a change of the thread's modes, which keep() then gives to the context.
class ModeChange {
 public:
  // False with a Python exception set.
  bool keep();
  // Grad mode of all contexts of the thread that have no modes of their own: what it was. False with
  // an exception set in `failed`.
  bool set_for_thread(bool grad, bool* failed);

 private:
  bool own_ = modes_are_contexts();
};

int init_contexts();

// Runs f in the modes of the context, turning C++ exceptions into Python ones and null.
template <class F>
PyObject* guarded(const F& f) {
  try {
    follow_context();
    return f();
  } catch (...) {
    raise_current_exception();
    return nullptr;
  }
}
template <class F>
int guarded_int(const F& f) {
  try {
    follow_context();
    return f();
  } catch (...) {
    raise_current_exception();
    return -1;
  }
}

}  // namespace rl
