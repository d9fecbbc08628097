// What every kernel's text starts with: element types, conversions, reductions within a block.
#pragma once

#include <string>

namespace rl::cuda {

const std::string& prelude();

}  // namespace rl::cuda
