// Threads for kernels. Work is cut into chunks that do not depend on the number of threads, so
// that every result is bitwise the same for any of them.
#pragma once

#include <cstdint>

#include "simd.h"

namespace rl::cpu {

int thread_count();
void set_thread_count(int n);

namespace detail {
void parallel_run(int64_t chunks, void (*body)(void*, int64_t), void* context);
}

// Calls body(chunk) for chunk in [0, chunks), on several threads when there are several chunks.
// Nested calls run on the calling thread. An exception in a body is rethrown here.
template <class F>
void parallel_chunks(int64_t chunks, const F& body) {
  if (chunks <= 0) return;
  if (chunks == 1) return body(int64_t(0));
  detail::parallel_run(
      chunks, [](void* f, int64_t chunk) { (*static_cast<const F*>(f))(chunk); },
      const_cast<F*>(&body));
}

// Simple steps that are worth a thread's while.
inline constexpr int64_t kGrain = 1 << 14;
// How many items of `each` steps make that many.
constexpr int64_t grain(int64_t each) { return each < kGrain ? kGrain / (each > 0 ? each : 1) : 1; }

// Calls body(begin, end) over [0, n) cut into ranges of `grain` elements (the last one shorter).
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& body) {
  if (grain < 1) grain = 1;
  int64_t chunks = (n + grain - 1) / grain;
  if (chunks <= 1) {
    if (n > 0) body(int64_t(0), n);
    return;
  }
  parallel_chunks(chunks, [&](int64_t c) {
    int64_t end = (c + 1) * grain;
    body(c * grain, end < n ? end : n);
  });
}

}  // namespace rl::cpu
