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
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMedium = kLarge;  // malloc's blocks have guards
#else
constexpr size_t kMedium = 64 << 10;  // blocks from here on are cut from segments
#endif
constexpr int kClasses = 64 * 8;  // eight classes per power of two

// Lists of free blocks, each linked through its first bytes: freeing must not need memory.
struct Free {
  Free* next;
};
Free* bins[kClasses];
Free* emptied[kClasses];  // parts of segments whose memory the system has back
MemoryStats stats{};

// Huge pages that blocks of medium size are cut from, one behind the other. This stands at its start.
struct Segment {
  static constexpr size_t kSize = 16 << 20, kFirst = kAlign;
  Segment* next;
  size_t used, idle;  // bytes that were cut, and bytes in free blocks while they are counted
  static Segment* of(void* block) {
    return reinterpret_cast<Segment*>(reinterpret_cast<uintptr_t>(block) & ~(kSize - 1));
  }
  bool is_idle() const { return idle == used - kFirst; }
};
Segment* segments = nullptr;  // the one that is being cut first

bool is_medium(size_t block) { return block >= kMedium && block < kLarge; }

// Half of the machine's memory may lie idle in the cache, or of what there was when it ran out.
int64_t& cache_limit() {
  static int64_t limit = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 2;
  return limit;
}

constexpr int size_class(size_t block) {
  if (block <= 8 * kAlign) return int(block / kAlign);
  int power = std::bit_width(block - 1) - 1;  // block lies in (2^power, 2^(power+1)]
  size_t step = size_t(1) << (power - 3);
  return power * 8 + int((block - 1 - (size_t(1) << power)) / step);
}

// The size of every block of a class (the inverse of size_class).
size_t class_size(int c) {
  if (c <= 8) return size_t(c) * kAlign;
  int power = c / 8;
  return (size_t(1) << power) + (size_t(c % 8) + 1) * (size_t(1) << (power - 3));
}

// Huge pages from a boundary on; null where there are none.
void* mapped(size_t bytes, size_t boundary) {
  void* data =
      mmap(nullptr, bytes + boundary, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  uintptr_t start = reinterpret_cast<uintptr_t>(data),
            aligned = (start + boundary - 1) & ~(boundary - 1);
  if (aligned > start) munmap(data, aligned - start);
  size_t tail = start + boundary - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  data = reinterpret_cast<void*>(aligned);
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void* cut(size_t block) {
  if (!segments || segments->used + block > Segment::kSize) {
    void* data = mapped(Segment::kSize, Segment::kSize);
    if (!data) return nullptr;
    segments = new (data) Segment{segments, Segment::kFirst, 0};
  }
  char* data = reinterpret_cast<char*>(segments) + segments->used;
  segments->used += block;
  return data;
}

void* from_system(size_t block) {
  if (block >= kLarge) return mapped(block, kPage);
  return is_medium(block) ? cut(block) : std::aligned_alloc(kAlign, block);
}

// Not of blocks of medium size.
void to_system(void* data, size_t block) {
  if (block >= kLarge) munmap(data, block);
  else std::free(data);
}

// The pages of a part of a segment, but for the one that its link stands on.
void give_back(Free* free, int c) {
  constexpr uintptr_t kSmallPage = 4096;
  uintptr_t start = reinterpret_cast<uintptr_t>(free),
            first = (start + sizeof(Free) + kSmallPage - 1) & ~(kSmallPage - 1),
            end = (start + class_size(c)) & ~(kSmallPage - 1);
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  free->next = std::exchange(emptied[c], free);
}

template <class F>
void for_each_free(Free* list, const F& f) {
  while (list) {
    Free* next = list->next;
    f(list);
    list = next;
  }
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
  } else if (Free*& first = emptied[size_class(block)]; first) {
    data = std::exchange(first, first->next);
    stats.system_allocations++;
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
  int c = size_class(block);
  if (stats.cached_bytes + int64_t(block) > cache_limit()) {
    if (is_medium(block)) give_back(new (data) Free, c);
    else to_system(data, block);
    return;
  }
  stats.cached_bytes += int64_t(block);
  bins[c] = new (data) Free{bins[c]};
}

MemoryStats memory_stats() { return stats; }

void reset_peak_memory_stats() { stats.peak_allocated_bytes = stats.allocated_bytes; }

void release_cached_blocks() {
  constexpr int kFrom = size_class(kMedium), kTo = size_class(kLarge);
  for (int c = 0; c < kClasses; c++) {
    if (!bins[c] && !emptied[c]) continue;  // no block has some of the small numbers
    size_t block = c <= 8 ? size_t(c) * kAlign : block_size(class_size(c));
    if (is_medium(block)) {
      auto count = [block](Free* free) { Segment::of(free)->idle += block; };
      for_each_free(bins[c], count);
      for_each_free(emptied[c], count);
    } else {
      for_each_free(std::exchange(bins[c], nullptr), [block](Free* f) { to_system(f, block); });
    }
  }
  for (int c = kFrom; c < kTo; c++) {
    auto stays = [](Free* free) { return !Segment::of(free)->is_idle(); };
    for_each_free(std::exchange(emptied[c], nullptr), [&](Free* free) {
      if (stays(free)) free->next = std::exchange(emptied[c], free);
    });
    for_each_free(std::exchange(bins[c], nullptr), [&](Free* free) {
      if (stays(free)) give_back(free, c);
    });
  }
  for (Segment** at = &segments; Segment* s = *at;) {
    if (s->is_idle()) {
      *at = s->next;
      munmap(s, Segment::kSize);
    } else {
      s->idle = 0;
      at = &s->next;
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
