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
  int joined = 1;               // members so far, the caller included; guarded by the pool
  std::atomic<int> helpers{0};  // inside work() now
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

class Pool {
 public:
  // False when another thread's job has the helpers.
  bool run(Job& job) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn) return false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (size_ < job.members - 1) {
        std::thread([this] { help(); }).detach();
        ++size_;
      }
      job_ = &job;
      round_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    work(job, 0);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = nullptr;  // nobody joins from here on
    }
    for (int spins = 0; job.helpers.load(std::memory_order_acquire) > 0; ++spins)
      spins < kSpins ? pause() : std::this_thread::yield();
    return true;
  }

 private:
  void help() {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) pause();
      Job* job = nullptr;
      int member = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
        seen = round_.load(std::memory_order_relaxed);
        if (job_ && job_->joined < job_->members) {
          job = job_;
          member = job->joined++;
          job->helpers.fetch_add(1, std::memory_order_relaxed);
        }
      }
      if (!job) continue;
      work(*job, member);
      job->helpers.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex turn_;   // held by the caller whose job runs
  std::mutex mutex_;  // guards job_ and size_
  std::condition_variable wake_;
  std::atomic<uint64_t> round_{0};
  Job* job_ = nullptr;
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
