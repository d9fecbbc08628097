// The maps along one dimension that resampling is made of.
#pragma once

#include <optional>

#include "kernels/kernels.h"

namespace rl {

enum class Resampling { Nearest, NearestExact, Linear, Cubic, LinearAa, CubicAa, LanczosAa };

// From `input` to `output` elements. `scale` is the factor that the user gave; positions are
// computed in float unless `precise`.
kernel::AxisMap resampling(Resampling how, int64_t input, int64_t output, bool align_corners,
                           std::optional<double> scale, bool precise);

}  // namespace rl
