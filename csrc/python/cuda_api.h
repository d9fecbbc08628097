// The functions of _C under torch.cuda.
#pragma once

#include <Python.h>

namespace rl {

extern PyMethodDef cuda_functions[];

}  // namespace rl
