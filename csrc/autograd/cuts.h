// Where histories end: the operation, the line and the block that kept a result out of the graph.
// A tensor carries a number; the records lie in a ring, so old ones are forgotten.
#pragma once

#include "autograd/provenance.h"
#include "tensor/tensor.h"

namespace rl {

enum class CutReason : uint8_t { NoGrad, Inference, Detach, Data, Copied, NoDerivative };

struct Cut {
  uint32_t id = 0;
  CutReason reason = CutReason::NoGrad;
  const char* op = nullptr;
  Where where;  // the line of the operation
  Where block;  // where recording was switched off
};

// Records that `op` ended a history here.
uint32_t note_cut(CutReason reason, const char* op);
// The record, null when it was forgotten or there is none.
const Cut* find_cut(uint32_t id);
// Gives results the mark of an operation that was not recorded: `inherited` from an input that had
// one, or a new one when an input required grad.
void mark_cut(Var* results, size_t count, uint32_t inherited, const char* op, bool has_derivative);
// Notes the line that switched recording off in this thread.
void note_grad_off();
// "was computed by mul at ... under no_grad entered at ..."
std::string cut_text(const Cut& cut);

}  // namespace rl
