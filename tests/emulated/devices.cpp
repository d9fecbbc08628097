// The emulated devices: their contexts, memory, streams and events. Each refuses what is another's, which
// real ones do too, or do slowly. EMULATED_CUDA_ORDER says on stderr in which order copies between
// devices and the events about them were asked for. EMULATED_CUDA_LATE=side puts off what streams other
// than the first are given until something waits for it, and EMULATED_CUDA_LATE=first what the first is:
// work that was not ordered after other work then finds memory as it was before.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "shared.h"

namespace {

constexpr int kMost = 8;
char contexts[kMost];  // their addresses
thread_local int current = kNoDevice;

int count() {
  const char* wish = std::getenv("EMULATED_CUDA_DEVICES");
  return wish ? std::atoi(wish) : 1;
}

struct Stream {
  int device;
  std::deque<std::function<int()>> later;
  size_t done = 0;  // of what was put off
};
struct Event {
  int device;
  bool recorded;
  Stream* stream = nullptr;
  size_t upto = 0;
};
Stream first[kMost];
std::deque<Stream*> streams;

std::map<Address, size_t> blocks[kMost], pinned;
size_t in_use[kMost];
bool reaches[kMost][kMost];

size_t capacity() {
  const char* wish = std::getenv("EMULATED_CUDA_MEMORY");
  return wish ? size_t(std::atoll(wish)) : size_t(1) << 32;
}

bool lies_in(const std::map<Address, size_t>& places, Address at) {
  auto next = places.upper_bound(at);
  return next != places.begin() && at <= (--next)->first + next->second;
}

int device_of_stream(void* stream) {
  return stream ? static_cast<Stream*>(stream)->device : current;
}

void say(const char* what, int device) {
  if (std::getenv("EMULATED_CUDA_ORDER")) std::fprintf(stderr, "%s %d\n", what, device);
}

Stream* as_stream(void* stream) {
  return stream ? static_cast<Stream*>(stream) : &first[current];
}

// Does what was put off, up to a point.
int catch_up(Stream* s, size_t upto) {
  Turn turn;
  int before = current, error = 0;
  if (s->done < upto) current = s->device;
  for (; s->done < upto && !s->later.empty(); s->done++) {
    auto work = std::move(s->later.front());
    s->later.pop_front();
    if (int found = work()) error = found;
  }
  current = before;
  return error;
}
int catch_up_all() {
  Turn turn;
  int error = 0;
  for (Stream& s : first) {
    s.device = int(&s - first);
    error |= catch_up(&s, SIZE_MAX);
  }
  for (Stream* s : streams) error |= catch_up(s, SIZE_MAX);
  return error;
}

// Whether a copy may touch the memory of the entered device at this address.
int elsewhere(const char* what, Address at) {
  int device = device_of(at);
  return device == current || device == kAnyDevice ? 0 : refused(what, device);
}

}  // namespace

std::recursive_mutex Turn::lock;

int entered() { return current; }

int device_of(Address at) {
  Turn turn;
  for (int i = 0; i < kMost; i++)
    if (lies_in(blocks[i], at)) return i;
  return lies_in(pinned, at) ? kAnyDevice : kNoDevice;
}

int refused(const char* what, int device) {
  std::fprintf(stderr, "emulated device %d was given %s of device %d\n", current, what, device);
  return current < 0 ? kInvalidContext : kInvalidHandle;
}

int foreign(const char* what, void* stream) {
  if (current < 0) return refused(what, kNoDevice);
  return device_of_stream(stream) == current ? 0 : refused(what, device_of_stream(stream));
}

bool put_off(void* stream, std::function<int()> work) {
  Turn turn;
  static const char* wish = std::getenv("EMULATED_CUDA_LATE");
  if (!wish || (std::strcmp(wish, "first") == 0) != !stream) return false;
  Stream* s = as_stream(stream);
  s->device = current;
  s->later.push_back(std::move(work));
  return true;
}
int finish(void* stream) { return catch_up(as_stream(stream), SIZE_MAX); }

EXPORT int cuInit(unsigned) { return failure("init", 999); }
EXPORT int cuDriverGetVersion(int* v) {
  *v = 13000;
  return 0;
}
EXPORT int cuGetErrorName(int error, const char** text) {
  *text = error == 2                 ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == 719             ? "CUDA_ERROR_LAUNCH_FAILED"
          : error == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == kInvalidHandle  ? "CUDA_ERROR_INVALID_HANDLE"
                                     : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  *text = error == 2                 ? "out of memory"
          : error == 700             ? "an illegal memory access was encountered"
          : error == 719             ? "unspecified launch failure"
          : error == kInvalidContext ? "invalid device context"
          : error == kInvalidHandle  ? "invalid resource handle"
                                     : "unknown error";
  return 0;
}
EXPORT int cuDeviceGetCount(int* number) {
  *number = count();
  return 0;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= count()) return 101;
  *device = ordinal;
  return 0;
}
EXPORT int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, size_t(length), "an emulated device");
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = capacity();
  return 0;
}
// Devices differ: kernels of one are of another architecture than those of the next.
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75   ? (is_dry() ? 9 : 7)
           : attribute == 76 ? (is_dry() ? 0 : 5 - device)
           : attribute == 16 ? 2 + device
           : attribute == 10 ? 32
                             : 1024;
  return 0;
}
EXPORT int cuDeviceGetUuid(char* uuid, int device) {
  std::memset(uuid, 7 + device, 16);
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[device];
  return failure("context", 999);
}
EXPORT int cuCtxSetCurrent(void* context) {
  current = int(static_cast<char*>(context) - contexts);
  return 0;
}
EXPORT int cuCtxSynchronize() {
  if (current < 0) return kInvalidContext;
  if (int error = catch_up_all()) return error;
  return failure("wait", 719);
}
EXPORT int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
EXPORT int cuDeviceCanAccessPeer(int* yes, int device, int peer) {
  *yes = device != peer && !std::getenv("EMULATED_CUDA_NO_PEERS");
  return 0;
}
EXPORT int cuCtxEnablePeerAccess(void* peer, unsigned) {
  bool& now = reaches[current][static_cast<char*>(peer) - contexts];
  if (now) return 704;
  now = true;
  return 0;
}

// ---- memory

EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (current < 0) return kInvalidContext;
  *total = capacity();
  *free = capacity() - in_use[current];
  return 0;
}
EXPORT int cuMemAlloc_v2(Address* data, size_t bytes) {
  Turn turn;
  if (current < 0) return kInvalidContext;
  if (int error = failure("allocate", 2)) return error;
  if (in_use[current] + bytes > capacity()) return 2;
  void* p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!p) return 2;
  std::memset(p, is_dry() ? 0 : 0xee, bytes);
  *data = Address(p);
  blocks[current][*data] = bytes;
  in_use[current] += bytes;
  return 0;
}
EXPORT int cuMemFree_v2(Address data) {
  Turn turn;
  if (int error = elsewhere("memory to free", data)) return error;
  catch_up_all();
  in_use[current] -= blocks[current][data];
  blocks[current].erase(data);
  std::free(reinterpret_cast<void*>(data));
  return 0;
}
EXPORT int cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  Turn turn;
  if (current < 0 || !(flags & 1)) return kInvalidContext;  // all pinned memory is for all devices
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  pinned[Address(*data)] = bytes;
  return 0;
}
EXPORT int cuMemFreeHost(void* data) {
  Turn turn;
  catch_up_all();
  pinned.erase(Address(data));
  std::free(data);
  return 0;
}
EXPORT int cuMemHostGetDevicePointer_v2(Address* address, void* data, unsigned) {
  *address = Address(data);
  return 0;
}
EXPORT int cuPointerGetAttribute(int* fact, int attribute, Address at) {
  *fact = device_of(at);
  return attribute != 9 || *fact < 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(Address out, const void* in, size_t bytes, void* stream) {
  if (int error = foreign("a copy", stream)) return error;
  if (int error = elsewhere("memory to write", out)) return error;
  // Pinned memory is read when the copy is done, other memory now.
  auto direct = [=] { return std::memcpy(reinterpret_cast<void*>(out), in, bytes), 0; };
  if (device_of(Address(in)) == kAnyDevice) {
    if (!record_other(stream, direct)) direct();
    return failure("copy", 719);
  }
  auto work = [out, data = std::string(static_cast<const char*>(in), bytes)] {
    return std::memcpy(reinterpret_cast<void*>(out), data.data(), data.size()), 0;
  };
  if (!put_off(stream, work)) work();
  return failure("copy", 719);
}
EXPORT int cuMemcpyDtoHAsync_v2(void* out, Address in, size_t bytes, void* stream) {
  if (int error = foreign("a copy", stream)) return error;
  if (int error = elsewhere("memory to read", in)) return error;
  auto work = [=] { return std::memcpy(out, reinterpret_cast<void*>(in), bytes), 0; };
  if (device_of(Address(out)) == kAnyDevice) {
    if (!record_other(stream, work)) work();
    return failure("copy", 719);
  }
  if (int error = finish(stream)) return error;
  work();
  return failure("copy", 719);
}
EXPORT int cuMemcpyDtoDAsync_v2(Address out, Address in, size_t bytes, void* stream) {
  if (int error = foreign("a copy", stream)) return error;
  if (int error = elsewhere("memory to write", out)) return error;
  if (int error = elsewhere("memory to read", in)) return error;
  auto work = [=] { return std::memmove(reinterpret_cast<void*>(out), reinterpret_cast<void*>(in), bytes), 0; };
  return record_other(stream, work) ? 0 : work();
}
EXPORT int cuMemcpyPeerAsync(Address out, void* to, Address in, void* from, size_t bytes, void* stream) {
  if (int error = foreign("a copy", stream)) return error;
  int target = int(static_cast<char*>(to) - contexts), source = int(static_cast<char*>(from) - contexts);
  if (device_of(out) != target) return refused("memory to write", device_of(out));
  if (device_of(in) != source) return refused("memory to read", device_of(in));
  if (int error = finish(stream)) return error;
  say(reaches[source][target] ? "copy to" : "copy by the host to", target);
  std::memcpy(reinterpret_cast<void*>(out), reinterpret_cast<void*>(in), bytes);
  return failure("copy", 719);
}
EXPORT int cuMemsetD8Async(Address out, unsigned char value, size_t count, void* stream) {
  if (int error = foreign("memory to clear", stream)) return error;
  if (int error = elsewhere("memory to clear", out)) return error;
  auto work = [=] { return std::memset(reinterpret_cast<void*>(out), value, count), 0; };
  return record_other(stream, work) ? 0 : work();
}

// ---- streams and events

EXPORT int cuStreamCreateWithPriority(void** stream, unsigned, int) {
  Turn turn;
  if (current < 0) return kInvalidContext;
  streams.push_back(new Stream{current});
  *stream = streams.back();
  return 0;
}
EXPORT int cuStreamDestroy_v2(void*) { return 0; }
EXPORT int cuStreamSynchronize(void* stream) {
  if (int error = foreign("a stream", stream)) return error;
  if (int error = finish(stream)) return error;
  return failure("wait", 719);
}
EXPORT int cuStreamQuery(void* stream) {
  if (int error = foreign("a stream", stream)) return error;
  return finish(stream);
}
// The event may be another device's.
EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (int error = foreign("a stream", stream)) return error;
  auto* e = static_cast<Event*>(event);
  if (!e->recorded) return kInvalidHandle;
  say("wait", current);
  return catch_up(e->stream, e->upto);
}
EXPORT int cuEventCreate(void** event, unsigned) {
  if (current < 0) return kInvalidContext;
  *event = new Event{current, false};
  return 0;
}
EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}
EXPORT int cuEventRecord(void* event, void* stream) {
  Turn turn;
  if (int error = foreign("a stream", stream)) return error;
  auto* e = static_cast<Event*>(event);
  if (e->device != current) return refused("an event", e->device);
  e->recorded = true;
  e->stream = as_stream(stream);
  e->upto = e->stream->done + e->stream->later.size();
  say("record", current);
  return 0;
}
EXPORT int cuEventSynchronize(void* event) {
  auto* e = static_cast<Event*>(event);
  return e->stream ? catch_up(e->stream, e->upto) : 0;
}
// What was put off is not through when it is asked for, and is when it is asked for again.
EXPORT int cuEventQuery(void* event) {
  Turn turn;
  auto* e = static_cast<Event*>(event);
  bool waits = e->stream && e->stream->done < e->upto;
  int error = cuEventSynchronize(event);
  return error ? error : waits ? kNotReady : 0;
}
EXPORT int cuEventElapsedTime(float* ms, void* start, void* end) {
  int a = static_cast<Event*>(start)->device, b = static_cast<Event*>(end)->device;
  *ms = 1;
  return a == b ? 0 : refused("an event", b);
}
