// Moves of raw items over two dimensions: the loops under copy_strided, blind to the dtype.
#pragma once

#include <cstdint>

namespace rl::cpu {

// out[i * out_outer + j * out_inner] = in[i * in_outer + j * in_inner], i < outer, j < inner;
// strides in bytes; size is 1, 2, 4, 8 or 16 bytes. Serial. out and in do not overlap.
void move2d(int64_t size, char* out, int64_t out_outer, int64_t out_inner, const char* in,
            int64_t in_outer, int64_t in_inner, int64_t outer, int64_t inner);

}  // namespace rl::cpu
