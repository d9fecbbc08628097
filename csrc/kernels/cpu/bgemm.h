// Products of bfloat16 by the machine's own instructions for them: AMX tiles, or the AVX-512 dot
// product of pairs. Sums are floats, rounded once.
#pragma once

#include "kernels/cpu/kernels.h"

namespace rl::cpu {

// Whether this machine has such instructions. RUSHLIGHT_BF16 chooses among them: "amx",
// "avx512_bf16", "plain" (the same scheme in ordinary code, for tests), "float" (none of these).
bool has_bgemm();

// c = alpha * a @ b + beta * c as gemm() has it.
void bgemm(int64_t m, int64_t n, int64_t k, float alpha, MatrixRef a, MatrixRef b, float beta,
           BF16* c, int64_t c_row);

}  // namespace rl::cpu
