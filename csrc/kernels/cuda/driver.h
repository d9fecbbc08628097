// libcuda, opened by name at run time: the entry points in use, devices, streams and launches.
// Nothing of CUDA is needed to build or to import.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/active.h"

namespace rl::cuda {

using Address = unsigned long long;
using Result = int;
struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;
struct EventObject;
struct GraphObject;
struct NodeObject;
struct ExecObject;
using Context = ContextObject*;
using Module = ModuleObject*;
using Stream = StreamObject*;  // null: the device's first stream
using Event = EventObject*;
using Graph = GraphObject*;
using Node = NodeObject*;
using Exec = ExecObject*;

inline constexpr int kMostDevices = 32;

// A value for each device.
template <class T>
class PerDevice {
 public:
  T& here() { return values_[active]; }
  T& of(int device) { return values_[device]; }

 private:
  T values_[kMostDevices] = {};
};

// A kernel on one device, ready to be launched.
struct Loaded {
  FunctionObject* raw = nullptr;
  unsigned uses = 0;
  Exec exec = nullptr;  // a graph of this launch alone: half the price of a launch
  Node node = nullptr;
};
// A kernel; a device gets it when it is first launched there.
struct Launchable {
  const std::string* text;
  const char* name;
  unsigned shared_bytes;  // beyond what every kernel may have
  PerDevice<Loaded> loaded;
  Loaded& here() {
    Loaded& found = loaded.here();
    if (!found.raw) [[unlikely]]
      load(found);
    return found;
  }
  void load(Loaded& into) const;  // compiler.cpp
};
using Function = Launchable*;

// What a node of a graph launches.
struct KernelNode {
  FunctionObject* function;
  unsigned gx, gy, gz, bx, by, bz, shared_bytes;
  void** arguments;
  void** extra;
};

struct Uuid {
  char bytes[16];
};

// X(name here, name in the library, parameters)
#define RL_CUDA_DRIVER(X)                                                                          \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driver_version, "cuDriverGetVersion", (int* version))                                          \
  X(error_name, "cuGetErrorName", (Result error, const char** text))                               \
  X(error_text, "cuGetErrorString", (Result error, const char** text))                             \
  X(device_count, "cuDeviceGetCount", (int* count))                                                \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                         \
  X(device_name, "cuDeviceGetName", (char* name, int length, int device))                          \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t* bytes, int device))                             \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))             \
  X(device_uuid, "cuDeviceGetUuid", (Uuid * uuid, int device))                                     \
  X(retain_context, "cuDevicePrimaryCtxRetain", (Context * context, int device))                   \
  X(set_context, "cuCtxSetCurrent", (Context context))                                             \
  X(wait_context, "cuCtxSynchronize", ())                                                          \
  X(can_access, "cuDeviceCanAccessPeer", (int* yes, int device, int peer))                         \
  X(enable_access, "cuCtxEnablePeerAccess", (Context peer, unsigned flags))                        \
  X(memory_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                 \
  X(memory_allocate, "cuMemAlloc_v2", (Address * data, size_t bytes))                              \
  X(memory_free, "cuMemFree_v2", (Address data))                                                   \
  X(host_allocate, "cuMemHostAlloc", (void** data, size_t bytes, unsigned flags))                  \
  X(host_free, "cuMemFreeHost", (void* data))                                                      \
  X(host_address, "cuMemHostGetDevicePointer_v2", (Address * address, void* data, unsigned flags)) \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                        \
    (Address out, const void* in, size_t bytes, Stream stream))                                    \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* out, Address in, size_t bytes, Stream stream))    \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                        \
    (Address out, Address in, size_t bytes, Stream stream))                                        \
  X(copy_between, "cuMemcpyPeerAsync",                                                             \
    (Address out, Context to, Address in, Context from, size_t bytes, Stream stream))              \
  X(pointer_fact, "cuPointerGetAttribute", (void* fact, int attribute, Address at))                \
  X(set_bytes, "cuMemsetD8Async", (Address out, unsigned char value, size_t count, Stream stream)) \
  X(stream_create, "cuStreamCreateWithPriority", (Stream * stream, unsigned flags, int priority))  \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                         \
  X(stream_wait, "cuStreamSynchronize", (Stream stream))                                           \
  X(stream_query, "cuStreamQuery", (Stream stream))                                                \
  X(stream_wait_event, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))          \
  X(stream_priorities, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                 \
  X(event_create, "cuEventCreate", (Event * event, unsigned flags))                                \
  X(event_destroy, "cuEventDestroy_v2", (Event event))                                             \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                   \
  X(event_wait, "cuEventSynchronize", (Event event))                                               \
  X(event_query, "cuEventQuery", (Event event))                                                    \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))            \
  X(module_load, "cuModuleLoadData", (Module * module, const void* image))                         \
  X(module_function, "cuModuleGetFunction",                                                        \
    (FunctionObject * *function, Module module, const char* of))                                   \
  X(function_set, "cuFuncSetAttribute", (FunctionObject * function, int attribute, int value))     \
  X(begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                           \
  X(end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                             \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                     \
    (Stream stream, int* status, unsigned long long* number, Graph* graph, const Node** last,      \
     size_t* count))                                                                               \
  X(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                               \
  X(graph_create, "cuGraphCreate", (Graph * graph, unsigned flags))                                \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                \
  X(graph_nodes, "cuGraphGetNodes", (Graph graph, Node * nodes, size_t* count))                    \
  X(graph_add, "cuGraphAddKernelNode",                                                             \
    (Node * node, Graph graph, const Node* after, size_t count, const KernelNode* what))           \
  X(instantiate, "cuGraphInstantiateWithFlags",                                                    \
    (Exec * exec, Graph graph, unsigned long long flags))                                          \
  X(exec_set, "cuGraphExecKernelNodeSetParams", (Exec exec, Node node, const KernelNode* what))    \
  X(exec_launch, "cuGraphLaunch", (Exec exec, Stream stream))                                      \
  X(exec_destroy, "cuGraphExecDestroy", (Exec exec))                                               \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    (FunctionObject * function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,   \
     unsigned bz, unsigned shared_bytes, Stream stream, void** arguments, void** extra))

struct Driver {
#define X(name, symbol, parameters) Result(*name) parameters;
  RL_CUDA_DRIVER(X)
#undef X
};
extern Driver driver;

inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr int kDynamicShared = 8;  // an attribute of functions

// While it lives, this thread's calls that a recording of another kind would refuse are allowed.
class Relaxed {
 public:
  Relaxed() { driver.exchange_mode(&mode_); }
  ~Relaxed() { driver.exchange_mode(&mode_); }
  Relaxed(const Relaxed&) = delete;

 private:
  int mode_ = 2;
};

// What cuDeviceGetAttribute is asked for.
enum Attribute {
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kClockRate = 13,
  kMultiprocessors = 16,
  kIntegrated = 18,
  kPciBus = 33,
  kPciDevice = 34,
  kMemoryClock = 36,
  kBusWidth = 37,
  kL2Cache = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kPciDomain = 50,
  kMajor = 75,
  kMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kIsMultiGpu = 84,
  kSharedPerBlock = 8,
  kSharedPerBlockOptin = 97,
};

// Raises what the driver said, with what was being done.
[[noreturn]] void fail_cuda(Result error, const char* doing);
inline void ok(Result result, const char* doing) {
  if (result != 0) [[unlikely]]
    fail_cuda(result, doing);
}

// A library by its names, the first that opens; null, with what was tried added to `tried`.
void* open_library(const std::string& folders, const char* const* names, std::string& tried);
// Opens libcuda and counts devices; how many there are. 0 with a reason in `why` when it fails.
int open_driver(const std::string& folders, std::string& why);
// The table of kernels is in use from then on; a device is made ready when it is first used.
void start();
bool is_started();
// This process was forked from one that had opened the driver, which then serves it no more.
extern bool forked;
int device_count();
// Raises where there is no such device.
void check_device(int device);

// What is known of a device.
struct DeviceFacts {
  int ordinal = 0;
  Context context = nullptr;  // null: not in use yet
  int multiprocessors = 1;
  int major = 0, minor = 0;
};
extern PerDevice<DeviceFacts> devices;
inline int multiprocessors() { return devices.here().multiprocessors; }
int attribute(int which, int device);

// Before calls that no kernel of a tensor's device goes before.
inline void enter() {
  if (active < 0) [[unlikely]]
    use(chosen);
}

// The stream of the active device that this thread's work goes to; those of others are set aside.
extern constinit thread_local Stream stream;
Stream stream_of(int device);
void set_stream(int device, Stream stream);

// While it lives other Python threads run: for waits.
class Others {
 public:
  Others();
  ~Others();
  Others(const Others&) = delete;

 private:
  void* state_;
};

// Waits for the stream of the active device, then raises what kernels complained of.
void wait_for(Stream stream);
void wait_for_device();
// What `waiting`, a stream of one device, has to do next comes after what `done`, one of another,
// has now.
Result order(int device, Stream done, int other, Stream waiting);
// Between the memory of two devices, after and before what their current streams do.
void copy_to_device(int to, void* out, int from, const void* in, size_t bytes);
// Copies from and to pinned memory that the host does not wait for; false: it is not pinned. What is
// copied with non_blocking=True is copied so.
extern constinit thread_local bool copies_go_on;
bool start_read(void* host, const void* in, size_t bytes);
bool start_write(void* out, const void* host, size_t bytes);
bool can_access(int device, int peer);

// ---- What kernels find wrong: noted in memory that the host sees, raised at the next wait.

struct Fault {
  int state;   // 0: none; 1: being written; 2: written
  int reason;  // FaultReason
  int64_t at;  // the position of the number
  int64_t value;
  int64_t size;
  Fault* head;  // whose state says that there is one
};
enum FaultReason { kIndexOutOfRange = 1, kTargetOutOfRange = 2, kProbability = 3 };
// For a kernel: where it notes what is wrong. The op and the user's line are remembered with it.
Fault* fault_address(const char* op);
void raise_faults();
extern bool blocking;  // every launch is waited for (CUDA_LAUNCH_BLOCKING)
void after_launch(Result result);

// ---- Launches

struct Grid {
  unsigned x, y = 1;
};

// A kernel's share of a stream of random numbers.
struct Share {
  uint64_t seed, offset;
  int64_t n;
};

// While this thread's stream of the active device is recorded (graph.h): what it was is noted here.
struct Capture;
extern constinit thread_local Capture* capture;

void launch_list(Function function, Grid grid, unsigned threads, unsigned shared_bytes,
                 void** list);

template <class... Arguments>
void launch_shared(Function function, Grid grid, unsigned threads, unsigned shared_bytes,
                   const Arguments&... arguments) {
  void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  launch_list(function, grid, threads, shared_bytes, list);
}
template <class... Arguments>
void launch(Function function, Grid grid, unsigned threads, const Arguments&... arguments) {
  launch_shared(function, grid, threads, 0, arguments...);
}

// Blocks that cover n items, `per_block` each; kernels step through the rest.
inline Grid grid_for(int64_t n, int64_t per_block) {
  int64_t blocks = (n + per_block - 1) / per_block, most = int64_t(multiprocessors()) * 32;
  return {unsigned(blocks < 1 ? 1 : blocks > most ? most : blocks)};
}

}  // namespace rl::cuda
