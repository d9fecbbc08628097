// What the ops that take indices share.
#pragma once

#include "ops/functions.h"

namespace rl {

// Raises unless the index is int32 or int64; op is written "gather()".
void check_index_type(const Var& index, const char* op, const char* expected);
// A number as a 0-d tensor of this type; raises when it does not fit.
Var scalar_of(const Var& value, DType dtype, Device device);
// Raises unless the one element of `value` can fill masked places of this type.
void check_fill(const Var& value, DType dtype);
// The same for a whole tensor of this type: among halves what is too large is infinite.
void check_number(const Var& value, DType dtype);
// A copy that the caller may write to.
Var row_major_copy(const Var& v);

}  // namespace rl
