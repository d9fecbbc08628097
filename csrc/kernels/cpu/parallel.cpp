// The helpers wait on a pool of our own rather than OpenMP's: a job ends when its chunks are done,
// not when every thread has reported, so a helper that the system has not scheduled costs nothing.
#include "parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

namespace rl::cpu {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kSpins = 2000;  // looks for work before a helper goes to sleep: a few microseconds

std::atomic<int> threads{0};       // 0: not asked for yet
std::atomic<bool> forked{false};   // a child process has no helpers
thread_local bool inside = false;  // this thread is running a body

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

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
  std::atomic<int> joined{1};  // members so far, the caller included
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

// Helpers look for a new round, for a while, and then sleep. Joining a job takes no lock: with many
// helpers they would queue for it longer than a short job takes.
class Pool {
 public:
  // False when another thread's job has the helpers.
  bool run(Job& job) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn) return false;
    for (; size_ < job.members - 1; ++size_) std::thread([this] { help(); }).detach();
    job_.store(&job);
    round_.fetch_add(1);
    if (sleepers_.load() > 0) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
      }  // a helper that saw the old round waits now
      wake_.notify_all();
    }
    work(job, 0);
    job_.store(nullptr);  // nobody joins from here on
    for (int spins = 0; visitors_.load() > 0; ++spins)
      spins < kSpins ? pause() : std::this_thread::yield();
    return true;
  }

 private:
  void help() {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && round_.load(std::memory_order_relaxed) == seen; ++i) pause();
      if (round_.load() == seen) sleep(seen);
      seen = round_.load();
      // The job is its caller's, who waits while there are visitors.
      visitors_.fetch_add(1);
      if (Job* job = job_.load()) {
        int member = job->joined.fetch_add(1);
        if (member < job->members) work(*job, member);
      }
      visitors_.fetch_sub(1);
    }
  }

  void sleep(uint64_t seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return round_.load() != seen; });
    sleepers_.fetch_sub(1);
  }

  std::mutex turn_;   // held by the caller whose job runs; guards size_
  std::mutex mutex_;  // of wake_
  std::condition_variable wake_;
  alignas(64) std::atomic<uint64_t> round_{0};
  alignas(64) std::atomic<Job*> job_{nullptr};
  std::atomic<int> visitors_{0};
  std::atomic<int> sleepers_{0};
  int size_ = 0;
};

// Never destroyed: helpers may outlive main().
Pool& pool() {
  static Pool* p = [] {
    pthread_atfork(nullptr, nullptr, [] {
      forked.store(true, std::memory_order_relaxed);
      inside = false;
    });
    return new Pool;
  }();
  return *p;
}

int default_thread_count() {
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  int n = wanted ? std::atoi(wanted) : 0;
  cpu_set_t allowed;
  if (n < 1 && sched_getaffinity(0, sizeof allowed, &allowed) == 0) n = CPU_COUNT(&allowed);
  return std::clamp(n, 1, kMaxThreads);
}

}  // namespace

int thread_count() {
  if (forked.load(std::memory_order_relaxed)) return 1;
  int n = threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = default_thread_count();
    threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_thread_count(int n) { threads.store(std::clamp(n, 1, kMaxThreads)); }

void detail::parallel_run(int64_t chunks, void (*body)(void*, int64_t), void* context) {
  int members = int(std::min<int64_t>(thread_count(), chunks));
  if (!inside && members > 1) {
    Range ranges[kMaxThreads];
    for (int i = 0; i < members; ++i) {
      ranges[i].next = chunks / members * i + std::min<int64_t>(i, chunks % members);
      if (i > 0) ranges[i - 1].end = ranges[i].next;
    }
    ranges[members - 1].end = chunks;
    Job job{body, context, members, ranges};
    if (pool().run(job)) {
      if (job.error) std::rethrow_exception(job.error);
      return;
    }
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk);
}

}  // namespace rl::cpu
