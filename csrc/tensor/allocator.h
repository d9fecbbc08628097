// The memory of tensors: blocks are kept by size class and reused, so that a program in a steady
// state never asks the system for pages. Called with the GIL held.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rl {

struct MemoryStats {
  int64_t allocated_bytes;       // in live tensors
  int64_t peak_allocated_bytes;  // the most since the start or the last reset
  int64_t cached_bytes;          // kept for reuse
  int64_t live_blocks;
  int64_t allocations;         // blocks handed out
  int64_t system_allocations;  // of these, the ones that were not reused
};

// Rounded up to the size that `release` must be told.
size_t block_size(size_t bytes);
// 64-byte aligned. Throws Error when the system has no memory.
void* allocate(size_t block);
void release(void* data, size_t block);

// Told of every block that is handed out or comes back; null: nobody asks.
class BlockWatcher {
 public:
  virtual void taken(void* data, size_t block) = 0;
  virtual void returned(void* data, size_t block) = 0;
};
extern BlockWatcher* block_watcher;

MemoryStats memory_stats();
void reset_peak_memory_stats();
void release_cached_blocks();

// The main thread's stack grows as it is used, and a program whose memory ran out would die where it
// first needs more of it. Its next megabyte is mapped at once; no page of it is used yet.
void reserve_stack();

}  // namespace rl
