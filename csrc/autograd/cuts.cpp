#include "autograd/cuts.h"

#include <vector>

#include "autograd/modes.h"

namespace rl {

namespace {

constexpr uint32_t kKept = 1 << 14;

std::vector<Cut>& ring() {
  static auto* cuts = new std::vector<Cut>(kKept);
  return *cuts;
}

uint32_t last_id = 0;
thread_local Where grad_off;

}  // namespace

uint32_t note_cut(CutReason reason, const char* op) {
  if (++last_id == 0) ++last_id;
  Cut& cut = ring()[last_id % kKept];
  cut.id = last_id;
  cut.reason = reason;
  cut.op = op;
  cut.where.note();
  bool block = reason == CutReason::NoGrad || reason == CutReason::Inference;
  PyCodeObject* before = std::exchange(cut.block.code, block ? grad_off.code : nullptr);
  cut.block.lasti = grad_off.lasti;
  Py_XINCREF(cut.block.code);
  Py_XDECREF(before);
  return last_id;
}

const Cut* find_cut(uint32_t id) {
  const Cut& cut = ring()[id % kKept];
  return id && cut.id == id ? &cut : nullptr;
}

void mark_cut(Var* results, size_t count, uint32_t inherited, const char* op, bool has_derivative) {
  uint32_t id = inherited;
  if (!id)
    id = note_cut(modes.inference                 ? CutReason::Inference
                  : !modes.grad && has_derivative ? CutReason::NoGrad
                                                  : CutReason::NoDerivative,
                  op);
  for (size_t i = 0; i < count; i++)
    if (results[i]) results[i]->cut = id;
}

void note_grad_off() { grad_off.note(); }

std::string cut_text(const Cut& cut) {
  std::string at = cut.where.text_with_source(), op = cut.op ? cut.op : "an operation";
  std::string block = cut.block ? ", entered at " + cut.block.text_with_source() : "";
  switch (cut.reason) {
    case CutReason::NoGrad:
      return op + " ran while recording was off (no_grad" + block + "): " + at;
    case CutReason::Inference: return "made in inference_mode" + block + ": " + at;
    case CutReason::Detach: return "detach() left the graph: " + at;
    case CutReason::Data: return ".data left the graph: " + at;
    case CutReason::Copied: return op + "() copied the values and left the history behind: " + at;
    case CutReason::NoDerivative: return op + " has no derivative: " + at;
  }
  return at;
}

}  // namespace rl
