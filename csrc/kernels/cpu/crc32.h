// CRC-32 (the one of zip files), as fast as memory is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rl::cpu {

// The checksum of `size` bytes, continued from that of what came before (0 at the start).
uint32_t crc32(const void* data, size_t size, uint32_t before = 0);

}  // namespace rl::cpu
