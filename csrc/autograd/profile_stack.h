// The whole stack of the user's frames at each event, for a profiler that asks for it.
#pragma once

#include <vector>

#include "autograd/provenance.h"

namespace rl {

struct ProfileStacks {
  bool wanted = false;
  std::vector<std::vector<Where>> of;  // by event, innermost frame first

  void note(size_t event);
  void clear();
};
extern thread_local ProfileStacks profile_stacks;

}  // namespace rl
