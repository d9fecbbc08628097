#include "autograd/sharing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "autograd/batch.h"
#include "autograd/forward.h"

namespace rl {

namespace {

struct Hash {
  size_t operator()(const CallKey& key) const { return key.hash(); }
};

// A reference that does not keep its object; possibly to none.
template <class T>
class Weak {
 public:
  explicit Weak(T* o)
      : reference_(o ? PyWeakref_NewRef(reinterpret_cast<PyObject*>(o), nullptr) : nullptr) {
    if (o && !reference_) throw PythonError{};
  }
  Weak(Weak&& other) noexcept : reference_(std::exchange(other.reference_, nullptr)) {}
  Weak& operator=(Weak&& other) noexcept {
    std::swap(reference_, other.reference_);
    return *this;
  }
  ~Weak() { Py_XDECREF(reference_); }

  // A new reference, or null where it is gone.
  T* get() const {
    if (!reference_) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* o = nullptr;
    PyWeakref_GetRef(reference_, &o);
#else
    PyObject* o = PyWeakref_GetObject(reference_);
    if (o == Py_None) return nullptr;
    Py_INCREF(o);
#endif
    return reinterpret_cast<T*>(o);
  }

 private:
  PyObject* reference_;
};

void set_number(Storage* storage, uint64_t number) {
  storage->number = number;
  storage->numbered = storage->version;
}
// Storages with the same number have the same content.
uint64_t number_of(Storage* storage) {
  static uint64_t next = 0;
  if (!storage->number || storage->numbered != storage->version) set_number(storage, ++next);
  return storage->number;
}

// Calls and what they left. Guarded by the interpreter's lock.
class Table {
 public:
  Found find(const CallKey& key) {
    auto it = entries_.find(key);
    if (it == entries_.end()) return {};
    const Entry& entry = it->second;
    if (entry.records != modes.records()) return {};
    Found found{NodeRef::steal(entry.node.get()), Var::steal(entry.result.get()), entry.number};
    Tensor* t = found.result.get();
    if (t && (t->storage->version != entry.version || t->storage->exported)) return {};
    if (!entry.recorded) return found;
    Node* node = found.node.get();
    if (!node || node->freed || node->shown || (t && t->grad_fn != node)) return {};
    node->shared = true;
    return found;
  }

  void keep(const CallKey& key, const Var& result) {
    if (entries_.size() >= limit_) sweep();
    Node* node = result->grad_fn;
    entries_.insert_or_assign(
        key, Entry{Weak<Node>(node), Weak<Tensor>(result.get()), modes.records(), node != nullptr,
                   result->storage->version, number_of(result->storage)});
  }

 private:
  struct Entry {
    Weak<Node> node;
    Weak<Tensor> result;
    bool records;      // recording was on: without it the same call has no history
    bool recorded;     // there is, or was, a node
    uint32_t version;  // of the result
    uint64_t number;   // of its memory
  };

  // Forgets what is gone; the work is a share of that of the calls kept since.
  void sweep() {
    std::erase_if(entries_, [](const auto& entry) {
      const Entry& e = entry.second;
      return e.recorded ? !NodeRef::steal(e.node.get()) : !Var::steal(e.result.get());
    });
    limit_ = std::max<size_t>(kLeast, 2 * entries_.size());
  }

  static constexpr size_t kLeast = 1 << 10;
  std::unordered_map<CallKey, Entry, Hash> entries_;
  size_t limit_ = kLeast;
};

// Never destroyed: the interpreter may be gone before.
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

void CallKey::add(const Var& v) {
  if (!v) return put(0);
  Tensor* t = v.get();
  put(uint64_t(t->dtype) << 8 | uint64_t(t->wrapped_number));
  if (t->wrapped_number) return add_bytes(t->data(), itemsize(t->dtype));
  put(batch_key(t));
  // What others can write unseen is not known by its version, tangents not by the memory.
  if (t->storage->exported || t->storage->owner || t->storage->inference || levels_of(t))
    complete_ = false;
  // The node of the result keeps this one: its address is its own while the entry can be used.
  if (Edge edge = gradient_edge(t); edge.node) {
    put(reinterpret_cast<uint64_t>(edge.node));
    put(uint64_t(edge.nr) << 32 | t->storage->version);
    release_node(edge.node);
    if (t->grad_fn) return;
  }
  add(t->sizes);
  if (t->device() == kHost &&
      std::all_of(t->strides.begin(), t->strides.end(), [](int64_t s) { return s == 0; }))
    return add_bytes(t->data(), t->numel > 0 ? itemsize(t->dtype) : 0);
  add(t->strides);
  put(number_of(t->storage));
  put(uint64_t(t->offset));
}

void CallKey::add_bytes(const char* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, size_t(std::min<int64_t>(8, bytes - at)));
    put(word);
  }
}

void CallKey::add(double value) { put(std::bit_cast<uint64_t>(value)); }

size_t CallKey::hash() const {
  uint64_t h = 0;
  for (int i = 0; i < count_; i++) h = (std::rotl(h, 23) ^ words_[i]) * 0x9E3779B97F4A7C15u;
  return size_t(h ^ h >> 32);
}

bool operator==(const CallKey& a, const CallKey& b) {
  return a.count_ == b.count_ && std::equal(a.words_, a.words_ + a.count_, b.words_);
}

Found find_shared(const CallKey& key) { return table().find(key); }

void keep_shared(const CallKey& key, const Var& result) { table().keep(key, result); }

void adopt(const Var& result, const Found& found) {
  if (!found.node) {
    if (!result->storage->number) set_number(result->storage, found.number);
    return;
  }
  set_history(result.get(), found.node.get(), 0);
  result->cut = 0;
  if (Extra* e = result->extra; e && e->base) {
    e->creation = Creation::Default;
    e->view_version = result->storage->version;
  }
}

}  // namespace rl
