// The memory behind one or more tensors, its version counter and the line that last wrote it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "autograd/provenance.h"

namespace rl {

struct Device {
  enum Type : uint8_t { CPU, CUDA, Meta, MPS, XPU, XLA, HIP } type = CPU;
  int8_t index = -1;
  friend bool operator==(const Device&, const Device&) = default;
};
inline constexpr Device kHost{};
inline constexpr const char* kDeviceNames[] = {"cpu", "cuda", "meta", "mps", "xpu", "xla", "hip"};
std::string device_text(Device device);  // "cuda:0"

// Memory that several storages share until one of them writes (copy on write).
struct SharedBlock;
// Writes to parts of the memory since something was saved (autograd/writes.h).
struct WriteLog;
void delete_log(WriteLog* log);

struct Storage {
  int64_t references;
  char* data;
  int64_t bytes;        // usable size
  size_t block;         // what the allocator was asked for; 0: inline or foreign memory
  SharedBlock* shared;  // null unless lazily cloned
  PyObject* owner;      // keeps foreign memory alive; null for our own
  uint32_t version;
  Device device;
  bool inference;  // made under inference_mode: versions are not counted
  bool exported;   // its address was handed out (NumPy, DLPack, data_ptr)
  bool saved;      // a graph kept a tensor of it: partial writes are logged
  bool recorded;   // its memory is that of a recorded region, which `owner` keeps
  WriteLog* writes;
  Where writer;  // the line of the last in-place write
  const char* writer_op;
  uint64_t number;    // of its content, for autograd/sharing.h; 0: nobody asked
  uint32_t numbered;  // the version that the number is of
  alignas(64) char inline_data[64];
};

Storage* new_storage(int64_t bytes, Device device);
// Memory that belongs to someone else; `owner` (stolen) is released with the storage.
Storage* foreign_storage(void* data, int64_t bytes, PyObject* owner);
// A Python object that keeps this storage's memory alive and in place; new reference.
PyObject* storage_owner(Storage* storage);
// Another storage with the same content; the copy is made when either is written.
Storage* lazy_clone(Storage* storage);
// Called before any write; after it the memory belongs to this storage alone.
void own_memory(Storage* storage);
// Grows or shrinks to `bytes`, keeping the content.
void resize_storage(Storage* storage, int64_t bytes);
void delete_storage(Storage* storage);

inline Storage* retain(Storage* storage) {
  storage->references++;
  return storage;
}
inline void release(Storage* storage) {
  if (--storage->references == 0) delete_storage(storage);
}
// Nobody else can see the memory.
inline bool is_exclusive(const Storage* storage) {
  return storage->references == 1 && !storage->shared && !storage->exported &&
         (!storage->owner || storage->recorded);
}

}  // namespace rl
