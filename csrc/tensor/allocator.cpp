#include "tensor/allocator.h"

#include <alloca.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "tensor/error.h"

namespace rl {

namespace {

constexpr size_t kAlign = 64;
constexpr size_t kPage = 2 << 20;  // huge page
constexpr size_t kLarge = kPage;   // blocks from here on are mapped, not malloc'ed
constexpr int kClasses = 64 * 8;   // eight classes per power of two

// Lists of free blocks, each linked through its first bytes: freeing must not need memory.
struct Free {
  Free* next;
};
Free* bins[kClasses];
MemoryStats stats{};

// Half of the machine's memory may lie idle in the cache, or of what there was when it ran out.
int64_t& cache_limit() {
  static int64_t limit = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 2;
  return limit;
}

int size_class(size_t block) {
  if (block <= 8 * kAlign) return int(block / kAlign);
  int power = std::bit_width(block - 1) - 1;  // block lies in (2^power, 2^(power+1)]
  size_t step = size_t(1) << (power - 3);
  return power * 8 + int((block - 1 - (size_t(1) << power)) / step);
}

void* from_system(size_t block) {
  void* data = nullptr;
  if (block >= kLarge) {
    data = mmap(nullptr, block + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    // Trim to a huge-page boundary on both sides.
    uintptr_t start = reinterpret_cast<uintptr_t>(data),
              aligned = (start + kPage - 1) & ~(kPage - 1);
    if (aligned > start) munmap(data, aligned - start);
    size_t tail = start + kPage - aligned;
    if (tail) munmap(reinterpret_cast<void*>(aligned + block), tail);
    data = reinterpret_cast<void*>(aligned);
    madvise(data, block, MADV_HUGEPAGE);
  } else {
    data = std::aligned_alloc(kAlign, block);
  }
  return data;
}

void to_system(void* data, size_t block) {
  if (block >= kLarge) munmap(data, block);
  else std::free(data);
}

// The size of every block of a class (the inverse of size_class).
size_t class_size(int c) {
  if (c <= 8) return size_t(c) * kAlign;
  int power = c / 8;
  return (size_t(1) << power) + (size_t(c % 8) + 1) * (size_t(1) << (power - 3));
}

}  // namespace

BlockWatcher* block_watcher = nullptr;

size_t block_size(size_t bytes) {
  if (bytes <= 8 * kAlign) return bytes == 0 ? kAlign : (bytes + kAlign - 1) / kAlign * kAlign;
  size_t size = class_size(size_class(bytes));
  size_t unit = size >= kLarge ? 4096 : kAlign;
  return (size + unit - 1) / unit * unit;
}

void* allocate(size_t block) {
  Free*& bin = bins[size_class(block)];
  void* data = bin;
  if (data) {
    bin = bin->next;
    stats.cached_bytes -= int64_t(block);
  } else {
    data = from_system(block);
    if (!data) {
      release_cached_blocks();
      data = from_system(block);
    }
    if (!data) {
      cache_limit() = std::min(cache_limit(), (stats.allocated_bytes + int64_t(block)) / 2);
      fail("DefaultCPUAllocator: not enough memory: you tried to allocate ", block, " bytes. ",
           stats.allocated_bytes, " bytes are in use by live tensors.");
    }
    stats.system_allocations++;
  }
  stats.allocations++;
  stats.live_blocks++;
  stats.allocated_bytes += int64_t(block);
  stats.peak_allocated_bytes = std::max(stats.peak_allocated_bytes, stats.allocated_bytes);
  if (block_watcher) [[unlikely]]
    block_watcher->taken(data, block);
  return data;
}

void release(void* data, size_t block) {
  if (block_watcher) [[unlikely]]
    block_watcher->returned(data, block);
  stats.live_blocks--;
  stats.allocated_bytes -= int64_t(block);
  if (stats.cached_bytes + int64_t(block) > cache_limit()) {
    to_system(data, block);
    return;
  }
  stats.cached_bytes += int64_t(block);
  Free*& bin = bins[size_class(block)];
  bin = new (data) Free{bin};
}

MemoryStats memory_stats() { return stats; }

void reset_peak_memory_stats() { stats.peak_allocated_bytes = stats.allocated_bytes; }

void release_cached_blocks() {
  for (int c = 0; c < kClasses; c++) {
    if (!bins[c]) continue;  // no block has some of the small numbers
    size_t block = c <= 8 ? size_t(c) * kAlign : block_size(class_size(c));
    while (Free* first = bins[c]) {
      bins[c] = first->next;
      to_system(first, block);
    }
  }
  stats.cached_bytes = 0;
}

void reserve_stack() {
#ifdef __linux__
  constexpr size_t kRoom = 1 << 20;
  rlimit limit;
  if (syscall(SYS_gettid) != getpid() || getrlimit(RLIMIT_STACK, &limit) != 0 ||
      limit.rlim_cur < 4 * kRoom)
    return;
  *static_cast<volatile char*>(alloca(kRoom)) = 0;
#endif
}

}  // namespace rl
