#include "kernels/cuda/allocator.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

constexpr size_t kAlign = 512;
constexpr size_t kSmall = size_t(1) << 20;  // blocks up to here share small segments
constexpr size_t kSmallSegment = size_t(2) << 20;
constexpr size_t kLargeSegment = size_t(20) << 20;  // for blocks up to half of that
constexpr size_t kRound = size_t(2) << 20;          // larger segments are multiples of this

struct Pool;

// A piece of a segment, in use or free. Neighbours of one segment are linked.
struct Block {
  Address data;
  size_t bytes;
  Pool* pool;
  bool small, free;
  int bin = -1;  // of small blocks: where it is kept when nobody uses it
  Block *before = nullptr, *after = nullptr;
  std::vector<Stream>* others = nullptr;  // that use it too
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
  }
};

// The free blocks of a stream. Those of the sizes that small tensors have wait in bins, uncut and
// unjoined: a program in a steady state finds them there.
constexpr int kBins = 64;
struct Pool {
  std::set<Block*, BySize> free[2];  // large, small
  std::vector<Block*> bins[kBins];
  Stream stream = nullptr;
};

// By the number of the pool, 0 for the common one, and the stream.
using PoolKey = std::pair<int64_t, Stream>;
std::map<PoolKey, Pool>& pools() {
  static auto* all = new std::map<PoolKey, Pool>;
  return *all;
}
constinit thread_local int64_t pool_in_use = 0;
std::map<int64_t, int>& holders() {
  static auto* all = new std::map<int64_t, int>;
  return *all;
}
Pool& current_pool() {
  static PoolKey last{0, nullptr};
  static Pool* pool = &pools()[last];
  if (stream != last.second || pool_in_use != last.first) {
    last = {pool_in_use, stream};
    pool = &pools()[last];
    pool->stream = stream;
  }
  return *pool;
}
// By address; blocks in bins stay listed.
std::unordered_map<Address, Block*>& used() {
  static auto* all = new std::unordered_map<Address, Block*>;
  return *all;
}
DeviceMemoryStats stats{};
int64_t limit = -1;

// Bins of 512 bytes up to 16 KB, then of powers of two; -1: none.
int bin_of(size_t bytes) {
  if (bytes <= 16384) return int(bytes / kAlign) - 1;
  if (bytes <= kSmall && (bytes & (bytes - 1)) == 0) return 32 + std::countr_zero(bytes) - 14;
  return -1;
}

void count(int64_t bytes) {
  stats.allocated += bytes;
  stats.peak_allocated = std::max(stats.peak_allocated, stats.allocated);
  stats.blocks += bytes > 0 ? 1 : -1;
}

Block* segment(size_t bytes, bool small, Pool& of) {
  size_t whole = small                        ? kSmallSegment
                 : bytes <= kLargeSegment / 2 ? kLargeSegment
                                              : (bytes + kRound - 1) / kRound * kRound;
  if (limit >= 0 && stats.reserved + int64_t(whole) > limit) return nullptr;
  enter();
  Address data = 0;
  Relaxed relaxed;
  Result result = driver.memory_allocate(&data, whole);
  if (result == kOutOfMemory) return nullptr;
  ok(result, "allocating device memory");
  stats.segments++;
  stats.segment_allocations++;
  stats.reserved += int64_t(whole);
  stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
  return new Block{data, whole, &of, small, true};
}

void merge(Block* into, Block* next) {
  into->bytes += next->bytes;
  into->after = next->after;
  if (next->after) next->after->before = into;
  delete next;
}

[[noreturn]] void fail_full(size_t bytes) {
  size_t free = 0, total = 0;
  driver.memory_info(&free, &total);
  stats.failures++;
  auto gib = [](double n) { return n / (1 << 30); };
  fail_out_of_memory(concat(
      "CUDA out of memory. Tried to allocate ", gib(double(bytes)), " GiB. The device has ",
      gib(double(total)), " GiB, of which ", gib(double(free)), " GiB are free; tensors of this ",
      "process hold ", gib(double(stats.allocated)), " GiB, and ",
      gib(double(stats.reserved - stats.allocated)), " GiB are kept for reuse."));
}

}  // namespace

namespace {

// A free block joins its neighbours.
void put_back(Block* block) {
  auto& free = block->pool->free[block->small];
  block->free = true;
  if (block->after && block->after->free) {
    free.erase(block->after);
    merge(block, block->after);
  }
  if (block->before && block->before->free) {
    Block* before = block->before;
    free.erase(before);
    merge(before, block);
    block = before;
  }
  free.insert(block);
}

}  // namespace

void* allocate(size_t wanted) {
  size_t bytes = (std::max<size_t>(wanted, 1) + kAlign - 1) / kAlign * kAlign;
  bool small = bytes <= kSmall;
  if (small && bytes > 16384) bytes = std::bit_ceil(bytes);
  Pool& pool = current_pool();
  int bin = small ? bin_of(bytes) : -1;
  if (bin >= 0 && !pool.bins[bin].empty()) [[likely]] {
    Block* kept = pool.bins[bin].back();
    pool.bins[bin].pop_back();
    count(int64_t(kept->bytes));
    stats.allocations++;
    return reinterpret_cast<void*>(kept->data);
  }
  auto& free = pool.free[small];
  Block key{0, bytes, &pool, small, true, -1};
  auto found = free.lower_bound(&key);
  Block* block = nullptr;
  if (found != free.end()) {
    block = *found;
    free.erase(found);
  } else {
    block = segment(bytes, small, pool);
    if (!block && !capture) {
      stats.retries++;
      empty_device_cache();
      block = segment(bytes, small, pool);
    }
    if (!block) fail_full(wanted);
  }
  // What is left over stays free, unless it is a small part of a large block.
  size_t rest = block->bytes - bytes;
  if (rest >= (small ? kAlign : kSmall)) {
    Block* other =
        new Block{block->data + bytes, rest, &pool, small, true, -1, block, block->after};
    if (block->after) block->after->before = other;
    block->after = other;
    block->bytes = bytes;
    free.insert(other);
  }
  block->free = false;
  block->bin = bin;
  used()[block->data] = block;
  count(int64_t(block->bytes));
  stats.allocations++;
  return reinterpret_cast<void*>(block->data);
}

void release(void* data, size_t) {
  auto found = used().find(reinterpret_cast<Address>(data));
  if (found == used().end()) return;
  Block* block = found->second;
  count(-int64_t(block->bytes));
  stats.frees++;
  if (block->others) {
    // The next user of the memory comes after what the other streams do with it.
    enter();
    for (Stream other : *block->others) {
      Event event;
      if (driver.event_create(&event, 2 /* no timing */) != 0) continue;
      driver.event_record(event, other);
      driver.stream_wait_event(block->pool->stream, event, 0);
      driver.event_destroy(event);
    }
    delete block->others;
    block->others = nullptr;
  }
  if (block->bin >= 0) return block->pool->bins[block->bin].push_back(block);
  used().erase(found);
  put_back(block);
}

DeviceMemoryStats device_memory_stats() { return stats; }

void reset_peak_device_memory() {
  stats.peak_allocated = stats.allocated;
  stats.peak_reserved = stats.reserved;
}

void empty_device_cache() {
  if (!is_started()) return;
  wait_for_device();
  for (auto& [key, pool] : pools()) {
    if (holders().count(key.first)) continue;  // recorded work uses the addresses
    for (auto& bin : pool.bins) {
      for (Block* block : bin) {
        used().erase(block->data);
        put_back(block);
      }
      bin.clear();
    }
    for (auto& free : pool.free) {
      for (auto at = free.begin(); at != free.end();) {
        Block* block = *at;
        if (block->before || block->after) {
          ++at;
          continue;
        }
        at = free.erase(at);
        driver.memory_free(block->data);
        stats.reserved -= int64_t(block->bytes);
        stats.segments--;
        stats.segment_frees++;
        delete block;
      }
    }
  }
}

void limit_device_memory(int64_t bytes) { limit = bytes; }

int64_t new_pool() {
  static int64_t last = 0;
  return ++last;
}
void hold_pool(int64_t id) { holders()[id]++; }
void drop_pool(int64_t id) {
  if (--holders()[id] == 0) holders().erase(id);
}
void use_pool(int64_t id) { pool_in_use = id; }

void use_on_stream(const void* data, Stream other) {
  auto found = used().find(reinterpret_cast<Address>(data));
  if (found == used().end() || found->second->pool->stream == other) return;
  Block* block = found->second;
  if (!block->others) block->others = new std::vector<Stream>;
  if (std::find(block->others->begin(), block->others->end(), other) == block->others->end())
    block->others->push_back(other);
}

// ---- pinned memory

namespace {
std::map<const char*, size_t>& pinned() {
  static auto* all = new std::map<const char*, size_t>;
  return *all;
}
}  // namespace

void* allocate_pinned(size_t bytes) {
  enter();
  void* data = nullptr;
  if (driver.host_allocate(&data, std::max<size_t>(bytes, 64), 1 /* for all contexts */) != 0)
    return nullptr;
  pinned()[static_cast<char*>(data)] = std::max<size_t>(bytes, 64);
  return data;
}

// What is still copied out of it must be through.
void release_pinned(void* data) {
  pinned().erase(static_cast<char*>(data));
  enter();
  driver.wait_context();
  driver.host_free(data);
}

bool is_pinned(const void* data) {
  if (pinned().empty()) return false;
  auto next = pinned().upper_bound(static_cast<const char*>(data));
  if (next == pinned().begin()) return false;
  --next;
  return static_cast<const char*>(data) < next->first + next->second;
}

}  // namespace rl::cuda
