// Philox4x32-10: a counter-based generator (Salmon et al., 2011). A draw is a function of the seed
// and the counter alone, so that any thread can compute any part of a stream.
#pragma once

#include <cstdint>

namespace rl::cpu {

constexpr int64_t kLanes = 16;          // counters computed side by side: a group
constexpr int64_t kWords = 4 * kLanes;  // 32-bit words of a group
constexpr int64_t kDraws = 2 * kLanes;  // 64-bit words of a group

// words[g * kWords + w * kLanes + l] is word w of the counter first + g * kLanes + l.
void philox(uint64_t seed, uint64_t first, int64_t groups, uint32_t* words);

// The same as 64-bit draws, kDraws to a group: word 0 over word 1, then word 2 over word 3.
void philox64(uint64_t seed, uint64_t first, int64_t groups, uint64_t* draws);

}  // namespace rl::cpu
