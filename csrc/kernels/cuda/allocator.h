// The devices' memory: blocks are cut from segments, kept and reused in the order of the stream
// that they were made for. Called with the GIL held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/driver.h"

namespace rl::cuda {

struct DeviceMemoryStats {
  int64_t allocated, peak_allocated;  // bytes in live blocks
  int64_t reserved, peak_reserved;    // bytes taken from the device
  int64_t blocks, allocations, frees;
  int64_t segments, segment_allocations, segment_frees;
  int64_t retries, failures;  // of requests that found the device full
};
DeviceMemoryStats device_memory_stats(int device);
void reset_peak_device_memory(int device);
// Segments that hold nothing go back to the device.
void empty_device_cache(int device);
// Blocks beyond this many bytes are refused; negative: no limit.
void limit_device_memory(int device, int64_t bytes);
// Pools of their own, for recorded work: this thread's blocks of the active device come from pool `id`
// (0: the common one) until it is set anew. A held pool keeps its segments until as many drop it.
int64_t new_pool();
void hold_pool(int64_t id);
void drop_pool(int64_t id);
void use_pool(int64_t id);
// The block is used by this stream too: it is not reused before that work is done.
void use_on_stream(const void* data, int device, Stream stream);

// Memory of the host that the device reads directly. Null when there is none. What is released is
// used anew when the copies that go on are through.
void* allocate_pinned(size_t bytes);
void release_pinned(void* data);
bool is_pinned(const void* data);
// The current stream was given a copy from or to it, which the host does not wait for.
void copies_pinned(const void* data);

struct HostMemoryStats {
  int64_t allocated, peak_allocated, reserved, peak_reserved;
  int64_t blocks, allocations, frees, segments, segment_allocations, segment_frees;
};
HostMemoryStats host_memory_stats();
void reset_peak_host_memory();

}  // namespace rl::cuda
