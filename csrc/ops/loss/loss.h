// What the losses share: how they are reduced.
#pragma once

#include <optional>
#include <string>

#include "call/op.h"

namespace rl {

enum class Reduce : int64_t { None, Mean, Sum };

// The reduction by its name, or by the deprecated flags when one of them is given.
Reduce reduction_of(const std::string& reduction, const std::optional<bool>& size_average,
                    const std::optional<bool>& reduce);

// All elements reduced, recorded when `each` is.
Var reduced(const Var& each, Reduce reduce);

// torch.Size([2, 3])
std::string size_text(const Ints& sizes);
void warn_user(const std::string& text);

}  // namespace rl
