#include "kernels/cuda/allocator.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "autograd/provenance.h"
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

// A stream of a device.
struct Other {
  int device;
  Stream stream;
  bool operator==(const Other&) const = default;
};

// A piece of a segment, in use or free. Neighbours of one segment are linked.
struct Block {
  Address data;
  size_t bytes;
  Pool* pool;
  bool small, free;
  int bin = -1;  // of small blocks: where it is kept when nobody uses it
  Block *before = nullptr, *after = nullptr;
  std::vector<Other>* others = nullptr;  // that use it too
  Where user;                            // of large blocks: the line that asked for it
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
  int device = 0;
  Stream stream = nullptr;
};

// The number of the pool, 0 for the common one, the device and the stream.
struct PoolKey {
  int64_t id;
  int device;
  Stream stream;
  auto operator<=>(const PoolKey&) const = default;
};
std::map<PoolKey, Pool>& pools() {
  static auto* all = new std::map<PoolKey, Pool>;
  return *all;
}
// A thread's pool for one device; on others its blocks come from the common one.
struct InUse {
  int64_t id;
  int device;
};
constinit thread_local InUse in_use{0, 0};
std::map<int64_t, int>& holders() {
  static auto* all = new std::map<int64_t, int>;
  return *all;
}
Pool& current_pool() {
  static PoolKey last{-1, 0, nullptr};
  static Pool* pool = nullptr;
  int64_t id = in_use.device == active ? in_use.id : 0;
  if (stream != last.stream || id != last.id || active != last.device) {
    last = {id, active, stream};
    pool = &pools()[last];
    pool->device = active;
    pool->stream = stream;
  }
  return *pool;
}
// By address, which no two devices share; blocks in bins stay listed.
std::unordered_map<Address, Block*>& used() {
  static auto* all = new std::unordered_map<Address, Block*>;
  return *all;
}
PerDevice<DeviceMemoryStats> all_stats;
PerDevice<int64_t> rooms;  // one more than what may be taken of a device; 0: all of it

// Bins of 512 bytes up to 16 KB, then of powers of two; -1: none.
int bin_of(size_t bytes) {
  if (bytes <= 16384) return int(bytes / kAlign) - 1;
  if (bytes <= kSmall && (bytes & (bytes - 1)) == 0) return 32 + std::countr_zero(bytes) - 14;
  return -1;
}

void count(DeviceMemoryStats& stats, int64_t bytes) {
  stats.allocated += bytes;
  stats.peak_allocated = std::max(stats.peak_allocated, stats.allocated);
  stats.blocks += bytes > 0 ? 1 : -1;
}

Block* segment(size_t bytes, bool small, Pool& of) {
  size_t whole = small                        ? kSmallSegment
                 : bytes <= kLargeSegment / 2 ? kLargeSegment
                                              : (bytes + kRound - 1) / kRound * kRound;
  DeviceMemoryStats& stats = all_stats.of(of.device);
  int64_t most = rooms.of(of.device);
  if (most && stats.reserved + int64_t(whole) >= most) return nullptr;
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

// The lines that hold most of the device's memory, with how much.
std::string most_held(int device) {
  std::map<std::string, double> held;
  for (auto& [address, block] : used())
    if (!block->free && block->user && block->pool->device == device)
      held[block->user.text()] += double(block->bytes) / (1 << 30);
  std::vector<std::pair<double, std::string>> lines;
  for (auto& [line, bytes] : held) lines.emplace_back(bytes, line);
  std::sort(lines.rbegin(), lines.rend());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 3); i++)
    text +=
        concat(i ? ", " : " Most was taken at ", lines[i].second, " (", lines[i].first, " GiB)");
  return text.empty() ? text : text + ".";
}

[[noreturn]] void fail_full(size_t bytes) {
  size_t free = 0, total = 0;
  driver.memory_info(&free, &total);
  DeviceMemoryStats& stats = all_stats.here();
  stats.failures++;
  Where here;
  here.note();
  std::string line = here.text();
  here.drop();
  auto gib = [](double n) { return n / (1 << 30); };
  fail_out_of_memory(concat("CUDA out of memory. Tried to allocate ", gib(double(bytes)),
                            " GiB. cuda:", active, " has ", gib(double(total)), " GiB, of which ",
                            gib(double(free)), " GiB are free; tensors of this ", "process hold ",
                            gib(double(stats.allocated)), " GiB, and ",
                            gib(double(stats.reserved - stats.allocated)),
                            " GiB are kept for reuse.", line.empty() ? "" : " It was asked for at ",
                            line, line.empty() ? "" : ".", most_held(active)));
}

}  // namespace

namespace {

// The next user of the memory comes after what the other streams do with it.
void wait_for_others(const Block* block) {
  if (forked) return;
  int before = active;
  try {
    for (const Other& o : *block->others)
      order(o.device, o.stream, block->pool->device, block->pool->stream);
    if (before >= 0) use(before);
  } catch (const Error&) {  // memory is freed all the same, and the next call says what is wrong
  }
}

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
  enter();
  Pool& pool = current_pool();
  DeviceMemoryStats& stats = all_stats.of(pool.device);
  int bin = small ? bin_of(bytes) : -1;
  if (bin >= 0 && !pool.bins[bin].empty()) [[likely]] {
    Block* kept = pool.bins[bin].back();
    pool.bins[bin].pop_back();
    count(stats, int64_t(kept->bytes));
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
      empty_device_cache(pool.device);
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
  if (!small) block->user.note();
  count(stats, int64_t(block->bytes));
  stats.allocations++;
  return reinterpret_cast<void*>(block->data);
}

void release(void* data, size_t) {
  auto found = used().find(reinterpret_cast<Address>(data));
  if (found == used().end()) return;
  Block* block = found->second;
  DeviceMemoryStats& stats = all_stats.of(block->pool->device);
  count(stats, -int64_t(block->bytes));
  stats.frees++;
  if (block->others) {
    wait_for_others(block);
    delete block->others;
    block->others = nullptr;
  }
  if (block->bin >= 0) return block->pool->bins[block->bin].push_back(block);
  used().erase(found);
  block->user.drop();
  put_back(block);
}

DeviceMemoryStats device_memory_stats(int device) { return all_stats.of(device); }

void reset_peak_device_memory(int device) {
  DeviceMemoryStats& stats = all_stats.of(device);
  stats.peak_allocated = stats.allocated;
  stats.peak_reserved = stats.reserved;
}

void empty_device_cache(int device) {
  if (!devices.of(device).context) return;
  use(device);
  wait_for_device();
  DeviceMemoryStats& stats = all_stats.of(device);
  for (auto& [key, pool] : pools()) {
    if (key.device != device || holders().count(key.id)) continue;  // recorded: addresses stay
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

void limit_device_memory(int device, int64_t bytes) {
  rooms.of(device) = bytes < 0 ? 0 : bytes + 1;
}

int64_t new_pool() {
  static int64_t last = 0;
  return ++last;
}
void hold_pool(int64_t id) { holders()[id]++; }
void drop_pool(int64_t id) {
  if (--holders()[id] == 0) holders().erase(id);
}
void use_pool(int64_t id) { in_use = {id, active}; }

void use_on_stream(const void* data, int device, Stream stream) {
  auto found = used().find(reinterpret_cast<Address>(data));
  if (found == used().end()) return;
  Block* block = found->second;
  Other other{device, stream};
  if (other == Other{block->pool->device, block->pool->stream}) return;
  if (!block->others) block->others = new std::vector<Other>;
  if (std::find(block->others->begin(), block->others->end(), other) == block->others->end())
    block->others->push_back(other);
}

// ---- pinned memory

namespace {

constexpr size_t kPinnedUnit = size_t(1) << 20;

// The last copy of a stream from or to a piece.
struct Copying {
  Other by;
  Event done;
};
struct Pinned {
  size_t bytes;
  std::vector<Copying> copies;  // that may not be through
  bool recorded = false;        // a graph copies it at every launch: it is never used anew
};
std::map<const char*, Pinned>& pinned() {
  static auto* all = new std::map<const char*, Pinned>;
  return *all;
}
// Those that no tensor holds: by their bytes, and those that streams still copy.
std::multimap<size_t, char*>& idle() {
  static auto* all = new std::multimap<size_t, char*>;
  return *all;
}
std::vector<char*>& copied() {
  static auto* all = new std::vector<char*>;
  return *all;
}
HostMemoryStats host_stats;

std::map<const char*, Pinned>::iterator piece_of(const void* data) {
  auto next = pinned().upper_bound(static_cast<const char*>(data));
  if (next == pinned().begin()) return pinned().end();
  --next;
  return static_cast<const char*>(data) < next->first + next->second.bytes ? next : pinned().end();
}

// What streams are through with can be used again.
void collect_pinned(bool wait) {
  Relaxed relaxed;
  std::erase_if(copied(), [&](char* data) {
    Pinned& piece = pinned().at(data);
    std::erase_if(piece.copies, [&](const Copying& c) {
      Result result = wait ? driver.event_wait(c.done) : driver.event_query(c.done);
      if (result == kNotReady) return false;
      driver.event_destroy(c.done);
      return true;
    });
    if (!piece.copies.empty()) return false;
    idle().emplace(piece.bytes, data);
    return true;
  });
}

void free_idle_pinned() {
  Relaxed relaxed;
  for (auto& [bytes, data] : idle()) {
    pinned().erase(data);
    driver.host_free(data);
    host_stats.reserved -= int64_t(bytes);
    host_stats.segments--;
    host_stats.segment_frees++;
  }
  idle().clear();
}

void take_pinned(size_t bytes) {
  host_stats.allocated += int64_t(bytes);
  host_stats.peak_allocated = std::max(host_stats.peak_allocated, host_stats.allocated);
  host_stats.blocks++;
  host_stats.allocations++;
}

}  // namespace

void* allocate_pinned(size_t bytes) {
  // Any device will do: a thread that only pins starts none.
  for (int i = 0; i < device_count() && active < 0; i++)
    if (devices.of(i).context) use(i);
  enter();
  size_t wanted = bytes <= kPinnedUnit ? std::bit_ceil(std::max<size_t>(bytes, 512))
                                       : (bytes + kPinnedUnit - 1) / kPinnedUnit * kPinnedUnit;
  collect_pinned(false);
  auto found = idle().lower_bound(wanted);
  if (found != idle().end() && found->first <= wanted + wanted / 4) {
    auto [size, data] = *found;
    idle().erase(found);
    take_pinned(size);
    return data;
  }
  void* data = nullptr;
  auto attempt = [&] {
    Relaxed relaxed;
    return driver.host_allocate(&data, wanted, 1 /* for all contexts */) == 0;
  };
  if (!attempt()) {
    collect_pinned(!capture);
    free_idle_pinned();
    if (!attempt()) return nullptr;
  }
  pinned()[static_cast<char*>(data)] = {wanted, {}};
  host_stats.reserved += int64_t(wanted);
  host_stats.peak_reserved = std::max(host_stats.peak_reserved, host_stats.reserved);
  host_stats.segments++;
  host_stats.segment_allocations++;
  take_pinned(wanted);
  return data;
}

void release_pinned(void* data) {
  auto found = pinned().find(static_cast<char*>(data));
  if (found == pinned().end()) return;
  Pinned& piece = found->second;
  host_stats.allocated -= int64_t(piece.bytes);
  host_stats.blocks--;
  host_stats.frees++;
  if (piece.recorded || forked) return;
  if (piece.copies.empty()) idle().emplace(piece.bytes, static_cast<char*>(data));
  else copied().push_back(static_cast<char*>(data));
}

void copies_pinned(const void* data) {
  auto found = piece_of(data);
  if (found == pinned().end()) return;
  Pinned& piece = found->second;
  if (capture) {
    piece.recorded = true;
    return;
  }
  Other by{active, stream};
  auto known = std::find_if(piece.copies.begin(), piece.copies.end(),
                            [&](const Copying& c) { return c.by == by; });
  if (known == piece.copies.end()) {
    Event done;
    ok(driver.event_create(&done, 2 /* no timing */), "making an event");
    known = piece.copies.insert(known, {by, done});
  }
  ok(driver.event_record(known->done, stream), "recording an event");
}

bool is_pinned(const void* data) { return !pinned().empty() && piece_of(data) != pinned().end(); }

HostMemoryStats host_memory_stats() { return host_stats; }

void reset_peak_host_memory() {
  host_stats.peak_allocated = host_stats.allocated;
  host_stats.peak_reserved = host_stats.reserved;
}

}  // namespace rl::cuda
