// The dual level that this thread is in: threads enter and leave levels independently.
#pragma once

namespace rl {

// The last level that this thread entered; the highest of all where it entered none; -1: none.
int current_dual_level();
bool in_dual_level(int level);  // some thread is

}  // namespace rl
