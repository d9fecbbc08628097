#include "parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace rl::cpu {
namespace {

constexpr int kMaxThreads = 256;

std::atomic<int> threads{0};       // 0: not asked for yet
std::atomic<bool> forked{false};   // a child whose parent had a team: that team does not exist here
thread_local bool inside = false;  // this thread is running a body

// Chunks a thread has to itself first; the others help when they are done with theirs.
struct alignas(64) Range {
  int64_t next, end;
  int64_t take() { return std::atomic_ref(next).fetch_add(1, std::memory_order_relaxed); }
};

struct Job {
  void (*body)(void*, int64_t);
  void* context;
  int members;
  Range* ranges;
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
};

void work(Job& job, int member) {
  inside = true;
  try {
    for (int i = 0; i < job.members; ++i) {
      int victim = member + i;
      Range& range = job.ranges[victim < job.members ? victim : victim - job.members];
      while (!job.failed.load(std::memory_order_relaxed)) {
        int64_t chunk = range.take();
        if (chunk >= range.end) break;
        job.body(job.context, chunk);
      }
    }
  } catch (...) {
    if (!job.failed.exchange(true)) job.error = std::current_exception();
  }
  inside = false;
}

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    forked.store(true, std::memory_order_relaxed);
    inside = false;
  });
  (void)registered;
}

}  // namespace

int thread_count() {
  if (forked.load(std::memory_order_relaxed)) return 1;
  int n = threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = std::clamp(omp_get_max_threads(), 1, kMaxThreads);
    threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_thread_count(int n) { threads.store(std::clamp(n, 1, kMaxThreads)); }

void detail::parallel_run(int64_t chunks, void (*body)(void*, int64_t), void* context) {
  int members = int(std::min<int64_t>(thread_count(), chunks));
  if (inside || members <= 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk);
    return;
  }
  watch_forks();
  Range ranges[kMaxThreads];
  for (int i = 0; i < members; ++i) {
    ranges[i].next = chunks / members * i + std::min<int64_t>(i, chunks % members);
    if (i > 0) ranges[i - 1].end = ranges[i].next;
  }
  ranges[members - 1].end = chunks;
  Job job{body, context, members, ranges};
  // A team may come out smaller than asked for: the stealing in work() covers its ranges.
#pragma omp parallel num_threads(members)
  work(job, omp_get_thread_num());
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace rl::cpu
