#include <cstring>

#include "kernels/cpu/kernels.h"
#include "tensor/allocator.h"

namespace rl::cpu {

void* allocate(size_t block) { return rl::allocate(block); }
void release(void* data, size_t block) { rl::release(data, block); }
void copy_bytes(void* out, const void* in, size_t bytes) { std::memcpy(out, in, bytes); }
void copy_blocks(char* out, int64_t out_step, const char* in, int64_t in_step, int64_t bytes,
                 int64_t count) {
  for (int64_t i = 0; i < count; ++i, out += out_step, in += in_step)
    std::memcpy(out, in, size_t(bytes));
}
void clear(void* out, size_t bytes) { std::memset(out, 0, bytes); }
void read(void* host, const void* in, size_t bytes) { std::memcpy(host, in, bytes); }
void write(void* out, const void* host, size_t bytes) { std::memcpy(out, host, bytes); }
void write_constants(void* out, const void* host, size_t bytes) { write(out, host, bytes); }

}  // namespace rl::cpu
