#include "autograd/autocast_devices.h"

#include <unordered_map>

#include "ops/functions.h"

namespace rl {

constinit thread_local AutocastState autocast_state;
constinit thread_local DeviceAutocast device_autocast;

namespace {

struct Cast {
  Var source;  // keeps the key from being another tensor's
  Var result;
  uint32_t version = 0;  // of the source: a parameter may be written to inside a region
};
using Casts = std::unordered_map<const Tensor*, Cast>;

// A thread may end with casts that it did not clear, and without the GIL; the program's last one,
// without an interpreter.
struct ThreadCasts : Casts {
  ~ThreadCasts() {
    if (empty()) return;
    auto* left = new Casts(std::move(*this));
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    delete left;
    PyGILState_Release(state);
  }
};
thread_local ThreadCasts casts;

bool is_cacheable(const Var& v, DType target) {
  return autocast_state.cache && !modes.inference && target == autocast_dtype_on(v.device()) &&
         v.dtype() == DType::F32 && v->requires_grad && !v->grad_fn &&
         !(v->extra && v->extra->base);
}

}  // namespace

Var autocast(const Var& v, DType target) {
  if (!is_castable(v) || v.dtype() == target) return v;
  if (!is_cacheable(v, target)) return ops::to(v, target);
  Cast& known = casts[v.get()];
  if (!known.result || known.result.dtype() != target || known.version != v->storage->version) {
    GradMode on(true);
    known = {v, ops::to(v, target), v->storage->version};
  }
  return known.result;
}

void clear_autocast_cache() {
  // Moved out first: what dies with a cast may run Python.
  Casts dying;
  dying.swap(casts);
}

}  // namespace rl
