// One record of an op and of a call of it, whatever the types of its arguments: the driver
// (call/driver.cpp) runs, records, pushes forward, batches and binds every op by these. A pointwise op's
// record has more (call/pointwise.h), for the short way of its calls.
#pragma once

#include "call/rule.h"
#include "call/types.h"

namespace rl {

// The arguments of a call: pointers to values of the types that the op's record lists.
using Values = const void* const*;
inline constexpr size_t kMaxBlock = 640, kMaxResult = 64;  // bytes of all arguments, of a result

struct OpRecord;

// What the struct of an op says, as data. Functions take the op's arguments as Values.
struct OpTable {
  const char* name;  // null: the signature's
  const char *text, *doc, *module, *former, *saves;
  const char* grad_name;  // null: made of the name
  const ArgumentType* const* types;
  const ResultType* result;
  const uint16_t *places, *kept_places;  // of each argument in its block
  uint16_t kept_size;
  uint8_t count;
  Family family;
  Form form;
  Autocast autocast;
  Batching batching;
  Stored stored;
  int8_t added_dims;
  bool function, method, inplace, out, tried_last;
  bool is_view, spares, whole_history, bilinear, reads_numbers, sees_batches;
  bool any_devices;  // its tensors may lie on different ones

  void (*forward)(const OpRecord& op, Values args, void* result);
  // Over all samples at once; null: as `batching` says.
  void (*batched)(const OpRecord& op, const HiddenDims& hidden, Values args, void* result);
  void (*vjp)(Back& b, Node* node, const char* kept);     // null: a view's own rule
  void (*jvp)(const OpRecord& op, Push& p, Values args);  // null: linear or bilinear
  void (*into)(Tensor* into, bool inplace, Values args);  // null: none
  // The node of a call with its edges and what it saves of the arguments; makes the results its
  // outputs, and saves those that a rule reads.
  NodeRef (*prepare)(const OpRecord& op, size_t outputs, Values args);
  void (*finish)(const OpRecord& op, Node* node, Var* results, size_t count);
};

// What `saves` says, as bits.
struct SavePlan {
  struct Group {
    uint32_t arguments = 0;
    uint32_t outputs = 0;
  };
  std::vector<Group> groups;  // per tensor argument, or one for all
  SavePlan(const char* text, const Signature& signature);
  const Group& of(int tensor) const {
    return groups[groups.size() == 1               ? 0
                  : size_t(tensor) < groups.size() ? size_t(tensor)
                                                   : groups.size() - 1];
  }
};

// The table with what follows from it.
struct OpRecord : OpTable {
  Signature signature;
  SavePlan plan;
  NodeClass node;
  // The arguments that hold tensors, and those that hold something else that must be ended.
  uint8_t tensor_count = 0, ended_count = 0;
  uint8_t tensors[kMaxParams], ended[kMaxParams];
  Holds holds[kMaxParams];
  ResultKind results;
  uint32_t saved = 0, saved_outputs = 0;  // what any gradient needs, as bits
  bool shareable;

  explicit OpRecord(const OpTable& table);
};

// Runs a call, recorded and with all that the modes of the thread ask for, into `result`.
void run(const OpRecord& op, Values args, void* result);
// The parts of it, for calls whose values are written by other means.
bool requires_any(const OpRecord& op, Values args);
void record(const OpRecord& op, Values args, Var* results, size_t count);
void push_forward(const OpRecord& op, Values args, Var* results, size_t count);

// An op's record, which stays, and its entry in the registry.
const OpRecord& make_record(const OpTable& table);
OpInfo describe(const OpRecord& op);
OpInfo& register_op(const OpRecord& op);

namespace detail {

template <class T>
struct Keep {
  using type = T;
};
template <>
struct Keep<Var> {
  using type = KeptTensor;
};
template <>
struct Keep<Vars> {
  using type = std::vector<KeptTensor>;
};

constexpr uint16_t rounded(size_t bytes) { return uint16_t((bytes + 7) / 8 * 8); }

}  // namespace detail

}  // namespace rl
