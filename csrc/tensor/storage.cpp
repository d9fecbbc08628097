#include "tensor/storage.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "tensor/allocator.h"
#include "tensor/error.h"
#include "tensor/recorder.h"

namespace rl {

struct SharedBlock {
  int64_t references;
  char* data;
  size_t block;
};

bool devices_mix = false;

std::string device_text(Device d) {
  std::string name = kDeviceNames[d.type];
  return d.index < 0 ? name : name + ":" + std::to_string(int(d.index));
}

namespace {

// A list through `data`: freeing must not need memory.
Storage* free_storages = nullptr;

void recycle(Storage* s) { s->data = reinterpret_cast<char*>(std::exchange(free_storages, s)); }

Storage* blank_storage() {
  Storage* s = free_storages;
  if (s) {
    free_storages = reinterpret_cast<Storage*>(s->data);
  } else {
    s = static_cast<Storage*>(std::aligned_alloc(64, sizeof(Storage)));
    if (!s) fail("not enough memory for a tensor's storage");
  }
  s->references = 1;
  s->block = 0;
  s->shared = nullptr;
  s->owner = nullptr;
  s->version = 0;
  s->device = {};
  s->inference = false;
  s->exported = false;
  s->saved = false;
  s->recorded = false;
  s->writes = nullptr;
  s->writer = {};
  s->writer_op = nullptr;
  s->number = 0;
  s->numbered = 0;
  return s;
}

void attach_memory(Storage* s, int64_t bytes) {
  if (recording && s->device == kHost) [[unlikely]]
    return recording->attach(s, bytes);
  s->bytes = bytes;
  if (bytes <= int64_t(sizeof s->inline_data) && s->device == kHost) {
    s->data = s->inline_data;
    s->block = 0;
  } else {
    s->block = block_size(size_t(bytes));
    s->data = static_cast<char*>(on(s->device).allocate(s->block));
  }
}

// A block knows its device, which need not be made active to take it back.
const kernel::Table& owner_of(const Storage* s) { return *kernel_tables[s->device.type]; }

void detach_memory(Storage* s) {
  if (s->shared) {
    if (--s->shared->references == 0) {
      owner_of(s).release(s->shared->data, s->shared->block);
      delete s->shared;
    }
    s->shared = nullptr;
  } else if (s->block) {
    owner_of(s).release(s->data, s->block);
  }
  Py_CLEAR(s->owner);
  s->block = 0;
}

// The system may use the whole pages of a range for others; who reads them finds zeros.
void give_pages_back(char* start, char* end) {
  constexpr uintptr_t kPage = 1 << 21;  // the largest that is in use
  uintptr_t first = (uintptr_t(start) + kPage - 1) & ~(kPage - 1),
            last = uintptr_t(end) & ~(kPage - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

Storage* new_storage(int64_t bytes, Device device) {
  Storage* s = blank_storage();
  s->device = device;
  devices_mix |= device != kHost;
  try {
    attach_memory(s, bytes);
  } catch (...) {
    recycle(s);
    throw;
  }
  return s;
}

Storage* foreign_storage(void* data, int64_t bytes, PyObject* owner) {
  Storage* s = blank_storage();
  s->data = data ? static_cast<char*>(data) : s->inline_data;
  s->bytes = bytes;
  s->owner = owner;
  return s;
}

PyObject* storage_owner(Storage* s) {
  s->exported = true;
  PyObject* capsule = PyCapsule_New(retain(s), nullptr, [](PyObject* c) {
    release(static_cast<Storage*>(PyCapsule_GetPointer(c, nullptr)));
  });
  if (!capsule) {
    release(s);
    throw PythonError{};
  }
  return capsule;
}

Storage* lazy_clone(Storage* from) {
  if (!from->block || recording) {  // inline, foreign or recorded: a copy now
    Storage* s = new_storage(from->bytes, from->device);
    on(s->device).copy_bytes(s->data, from->data, size_t(from->bytes));
    return s;
  }
  if (!from->shared) from->shared = new SharedBlock{1, from->data, from->block};
  Storage* s = blank_storage();
  from->shared->references++;
  s->device = from->device;
  s->data = from->data;
  s->bytes = from->bytes;
  s->block = from->block;
  s->shared = from->shared;
  return s;
}

void own_memory(Storage* s) {
  SharedBlock* shared = s->shared;
  if (!shared) return;
  if (shared->references == 1) {
    delete shared;
    s->shared = nullptr;
    return;
  }
  Unrecorded off;
  char* copy = static_cast<char*>(on(s->device).allocate(s->block));
  on(s->device).copy_bytes(copy, s->data, size_t(s->bytes));
  shared->references--;
  s->shared = nullptr;
  s->data = copy;
}

void resize_storage(Storage* s, int64_t bytes) {
  check(!s->owner && !s->exported,
        "Trying to resize storage that is not resizable: its memory is shared with another library "
        "(NumPy, DLPack, a buffer) or a .data alias. Use clone() first.");
  bool host = s->device == kHost;
  size_t room = s->block ? s->block : sizeof s->inline_data;
  if (size_t(bytes) <= room) {  // never less memory: tensors may lie beyond the new end
    if (bytes < s->bytes && s->block && !s->shared && host)
      give_pages_back(s->data + bytes, s->data + room);
    s->bytes = bytes;
    return;
  }
  Storage* grown = new_storage(bytes, s->device);
  on(s->device).copy_bytes(grown->data, s->data, size_t(std::min(bytes, s->bytes)));
  detach_memory(s);
  if (grown->block) {
    s->data = grown->data;
    s->block = grown->block;
    grown->block = 0;
  } else {
    std::memcpy(s->inline_data, grown->inline_data, sizeof s->inline_data);
    s->data = s->inline_data;
  }
  s->bytes = bytes;
  release(grown);
}

void delete_storage(Storage* s) {
  detach_memory(s);
  s->writer.drop();
  if (s->writes) delete_log(s->writes);
  recycle(s);
}

}  // namespace rl
