// A tensor that a node keeps for its backward formula: version-checked, released after use, and
// free of reference cycles when the tensor is the node's own output.
#pragma once

#include "tensor/tensor.h"

namespace rl {

struct Node;

// What saved_tensors_hooks made of a tensor.
struct Packed {
  PyObject* content;
  PyObject* unpacks;  // tuple of hooks, to be called from the last to the first
  // An empty stand-in with an input's history, null when it has none. In strict mode, without
  // hooks: the live tensor, whose memory someone else may write; content is a copy.
  Tensor* input;
  uint32_t output_nr;
  bool is_output;
  Tensor* tangents;  // tangents_alone: hooks need not keep them
};

class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor(SavedTensor&& other) noexcept
      : tensor_(other.tensor_), version_(other.version_), kind_(other.kind_) {
    other.kind_ = Kind::Empty;
  }
  ~SavedTensor() { drop(); }

  // An input keeps the very tensor; output `nr` of the node keeps an alias without history.
  void save_input(Tensor* t);
  void save_output(Tensor* t, uint32_t nr);
  // Leaves nothing to read: the node was not finished.
  void spoil() {
    drop();
    kind_ = Kind::Freed;
  }

  // The tensor as it was. Raises when it was changed in place since, or already released.
  Var unpack(Node* owner) const;
  // Packs what is held with a pair of hooks of its own.
  void register_hooks(Node* owner, PyObject* pack, PyObject* unpack);
  // Forgets the tensor after a backward pass that does not keep the graph.
  void free();
  bool is_empty() const { return kind_ == Kind::Empty; }

  // For the collector, and for reports: the tensor held, null when packed or empty.
  Tensor* held() const { return kind_ == Kind::Input || kind_ == Kind::Output ? tensor_ : nullptr; }
  Packed* packed() const { return kind_ == Kind::Packed ? packed_ : nullptr; }
  uint32_t version() const { return version_; }

 private:
  enum class Kind : uint8_t { Empty, Input, Output, Packed, Freed };
  void drop();
  void save_slowly(Tensor* t, bool is_output, uint32_t nr);
  void save_guarded(Tensor* t, bool is_output, uint32_t nr);
  void pack(Tensor* t, bool is_output, uint32_t nr);
  void check_version(Node* owner) const;
  [[noreturn]] void fail_freed(Node* owner) const;

  union {
    Tensor* tensor_ = nullptr;
    Packed* packed_;
  };
  uint32_t version_ = 0;
  Kind kind_ = Kind::Empty;
};

// saved_tensors_hooks of this thread. Borrowed from a Python stack that outlives the region.
struct SavedHooks {
  PyObject* stack = nullptr;   // list of (pack, unpack, detailed), the innermost last
  bool copy_on_write = false;  // allow_mutation_on_saved_tensors
  bool spares = false;         // for one op: the same, where the memory is ours alone
  bool strict = false;         // as in Modes, to be tested along with the others
  bool active() const { return stack || copy_on_write || spares || strict; }
};
extern constinit thread_local SavedHooks saved_hooks __attribute__((tls_model("initial-exec")));

// While it lives, later writes to what is saved leave the saved values alone: the writer gets memory
// of its own.
class Spared {
 public:
  explicit Spared(bool on) : before_(saved_hooks.spares) { saved_hooks.spares = on; }
  ~Spared() { saved_hooks.spares = before_; }
  Spared(const Spared&) = delete;

 private:
  bool before_;
};

// Checks tensors that a custom Function put on its ctx: raises when one was changed in place.
[[noreturn]] void fail_changed(Node* owner, const Tensor* t, uint32_t expected, const char* what);

}  // namespace rl
