// Memory for Python objects that come and go with every operation: slabs of equal slots behind a
// free list. Slots start with room for the garbage collector's header; an object is untracked until
// someone tracks it. Every slot can be enumerated. Used with the GIL held.
#pragma once

#include <Python.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace rl {

class Pool {
 public:
  static constexpr size_t kHeader = 16;  // PyGC_Head

  explicit Pool(size_t object_size) : slot_((object_size + kHeader + 15) / 16 * 16) {}

  // A slot whose collector header is cleared; the object itself is raw.
  void* take() {
    if (!free_) grow();
    Slot* slot = free_;
    free_ = slot->next;
    char* memory = reinterpret_cast<char*>(slot);
    std::memset(memory, 0, kHeader);
    return memory + kHeader;
  }
  // The object must be untracked; its reference count stays zero while it is free.
  void give(void* object) {
    Slot* slot = reinterpret_cast<Slot*>(static_cast<char*>(object) - kHeader);
    slot->next = free_;
    free_ = slot;
  }
  template <class F>
  void for_each(const F& visit) {
    for (char* slab : slabs_)
      for (int i = 0; i < kSlots; i++) {
        PyObject* object = reinterpret_cast<PyObject*>(slab + size_t(i) * slot_ + kHeader);
        if (Py_REFCNT(object) > 0) visit(object);
      }
  }

 private:
  static constexpr int kSlots = 128;
  struct Slot {
    Slot* next;
  };

  void grow() {
    slabs_.reserve(slabs_.size() + 1);
    char* slab = static_cast<char*>(std::calloc(kSlots, slot_));
    if (!slab) throw std::bad_alloc();
    slabs_.push_back(slab);
    for (int i = kSlots - 1; i >= 0; i--) {
      Slot* slot = reinterpret_cast<Slot*>(slab + size_t(i) * slot_);
      slot->next = free_;
      free_ = slot;
    }
  }

  size_t slot_;
  Slot* free_ = nullptr;
  std::vector<char*> slabs_;
};

}  // namespace rl
