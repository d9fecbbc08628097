#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "autograd/provenance.h"
#include "autograd/streams.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

Driver driver;
constexpr int kNone = -2;
constinit thread_local int active = kNone;
constinit thread_local int chosen = 0;
constinit thread_local Stream stream = nullptr;
constinit thread_local Capture* capture = nullptr;
constinit thread_local bool copies_go_on = false;
PerDevice<DeviceFacts> devices;
bool blocking = false;
bool forked = false;

namespace {

void* library = nullptr;
int count = -1;
bool started = false;

// What this thread does on devices that are not the active one.
struct Aside {
  Stream stream = nullptr;
  Capture* capture = nullptr;
};
// Not in the thread's own storage: what a library that is loaded late may have of that is little.
Aside& aside(int device) {
  static thread_local std::unique_ptr<Aside[]> all;
  if (!all) all = std::make_unique<Aside[]>(kMostDevices);
  return all[size_t(device)];
}

// Launches take turns with the places where faults are noted: as many launches back, the line of a
// fault is known. The first place tells the host that there is one. Recorded launches, which come
// again, have places of their own.
constexpr int kPlaces = 256;
Fault* faults = nullptr;  // the host's view
Fault* faults_on_device = nullptr;
struct Launched {
  Where line;
  const char* op = nullptr;
};
Launched launched[1 + 2 * kPlaces];

}  // namespace

void* open_library(const std::string& folders, const char* const* names, std::string& tried) {
  auto attempt = [&](const std::string& path) -> void* {
    void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!found) tried += (tried.empty() ? "" : ", ") + path;
    return found;
  };
  // Folders first: NVIDIA's wheels are of versions that fit each other.
  for (size_t start = 0; start < folders.size();) {
    size_t end = std::min(folders.find(':', start), folders.size());
    std::string folder = folders.substr(start, end - start);
    start = end + 1;
    for (const char* const* name = names; *name; name++) {
      std::string path = folder + "/" + *name;
      if (FILE* file = std::fopen(path.c_str(), "rb")) {
        std::fclose(file);
        if (void* found = attempt(path)) return found;
      }
    }
  }
  for (const char* const* name = names; *name; name++)
    if (void* found = attempt(*name)) return found;
  return nullptr;
}

int open_driver(const std::string& folders, std::string& why) {
  static std::string reason;
  why = reason;
  if (count >= 0) return count;
  count = 0;
  static const char* const names[] = {"libcuda.so.1", "libcuda.so", nullptr};
  std::string tried;
  library = open_library(folders, names, tried);
  if (!library) {
    why = reason = "no NVIDIA driver was found (" + tried + ")";
    return 0;
  }
  bool whole = true;
#define X(name, symbol, parameters)                                              \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, symbol)); \
  if (!driver.name)                                                              \
    why = reason = concat("the NVIDIA driver is too old: no ", symbol), whole = false;
  RL_CUDA_DRIVER(X)
#undef X
  if (!whole) return 0;
  Result result = driver.init(0);
  pthread_atfork(nullptr, nullptr, [] {
    forked = true;
    active = kNone;  // the next use of a device says so
  });
  if (result == 0) result = driver.device_count(&count);
  if (result != 0) {
    const char* text = nullptr;
    driver.error_text(result, &text);
    why = reason = concat("the NVIDIA driver reports: ", text ? text : "an unknown error");
    count = 0;
  } else if (count == 0) {
    why = reason = "the NVIDIA driver sees no device";
  }
  return count = std::min(count, kMostDevices);
}

bool is_started() { return started; }
int device_count() { return std::max(count, 0); }

void start() {
  if (started) return;
  const char* wish = std::getenv("CUDA_LAUNCH_BLOCKING");
  blocking = wish && std::strcmp(wish, "0") != 0 && *wish;
  started = true;
  use_table();
}

void check_device(int device) {
  if (device < 0 || device >= device_count())
    fail("CUDA error: invalid device ordinal: cuda:", device, " was asked for, and there are ",
         device_count(), " devices, from cuda:0 on: GPU device may be out of range, do you have ",
         "enough GPUs?");
}

int attribute(int which, int device) {
  int value = 0;
  ok(driver.device_attribute(&value, which, devices.of(device).ordinal),
     "asking for a property of the device");
  return value;
}

namespace {

// Kernels of all devices note what is wrong in the same places.
void make_faults() {
  void* host;
  size_t bytes = sizeof(Fault) * (1 + 2 * kPlaces);
  ok(driver.host_allocate(&host, bytes, 1 | 2 /* for all contexts, mapped */),
     "allocating pinned memory");
  Address address;
  ok(driver.host_address(&address, host, 0), "mapping pinned memory");
  std::memset(host, 0, bytes);
  faults_on_device = reinterpret_cast<Fault*>(address);
  for (int i = 0; i <= 2 * kPlaces; i++) static_cast<Fault*>(host)[i].head = faults_on_device;
  faults = static_cast<Fault*>(host);
}

void switch_to(int device) {
  if (device < 0) device = chosen;
  if (forked)
    fail("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you ",
         "must use the 'spawn' start method: the driver was opened before the fork, and does not ",
         "work after it. multiprocessing.set_start_method(\"spawn\"), or keep tensors of the ",
         "device out of the workers");
  check_device(device);
  DeviceFacts& facts = devices.of(device);
  Context context = facts.context;
  if (!context) {
    ok(driver.device_get(&facts.ordinal, device), "finding the device");
    ok(driver.retain_context(&context, facts.ordinal), "making the device's context");
  }
  if (active >= 0) aside(active) = {stream, capture};
  active = kNone;  // unless all of this works
  ok(driver.set_context(context), "entering the device's context");
  if (!facts.context) {
    facts.multiprocessors = attribute(kMultiprocessors, device);
    facts.major = attribute(kMajor, device);
    facts.minor = attribute(kMinor, device);
    if (!faults) make_faults();
    facts.context = context;
  }
  stream = aside(device).stream;
  capture = aside(device).capture;
  active = device;
}

}  // namespace

void use(int device) {
  if (device != active) [[unlikely]]
    switch_to(device);
}

Stream stream_of(int device) { return device == active ? stream : aside(device).stream; }
void set_stream(int device, Stream which) {
  use(device);
  if (which) streams_used = true;
  stream = which;
}

void fail_cuda(Result error, const char* doing) {
  const char *name = nullptr, *text = nullptr;
  driver.error_name(error, &name);
  driver.error_text(error, &text);
  fail("CUDA error: ", text ? text : "unknown error", " (", name ? name : "?", ") while ", doing);
}

Others::Others() : state_(PyEval_SaveThread()) {}
Others::~Others() { PyEval_RestoreThread(static_cast<PyThreadState*>(state_)); }

void wait_for(Stream which) {
  enter();
  if (capture) fail_capturing("a wait for the device");
  Result result;
  {
    Others others;
    result = driver.stream_wait(which);
  }
  ok(result, "waiting for a stream");
  raise_faults();
}

void wait_for_device() {
  enter();
  if (capture) fail_capturing("a wait for the device");
  ok(driver.wait_context(), "waiting for the device");
  raise_faults();
}

Result order(int device, Stream done, int other, Stream waiting) {
  Event event;
  use(device);
  Result result = driver.event_create(&event, 2 /* no timing */);
  if (result != 0) return result;
  result = driver.event_record(event, done);
  use(other);
  if (result == 0) result = driver.stream_wait_event(waiting, event, 0);
  driver.event_destroy(event);  // once it has come
  return result;
}

bool can_access(int device, int peer) {
  int yes = 0, pair[2];
  for (int i : {0, 1}) ok(driver.device_get(&pair[i], i ? peer : device), "finding a device");
  ok(driver.can_access(&yes, pair[0], pair[1]), "asking whether devices reach each other");
  return yes != 0;
}

namespace {

// Where the devices reach each other's memory, copies need no way through the host's.
void connect(int from, int to) {
  static PerDevice<uint32_t> asked;
  if (asked.of(from) >> to & 1) return;
  asked.of(from) |= uint32_t(1) << to;
  use(from);
  if (can_access(from, to)) driver.enable_access(devices.of(to).context, 0);
}

}  // namespace

void copy_to_device(int to, void* out, int from, const void* in, size_t bytes) {
  if (!bytes) return;
  use(to);
  bool recorded = capture;
  Stream receiving = stream;
  use(from);
  if (capture || recorded) fail_capturing("a copy between devices");
  connect(to, from);
  connect(from, to);
  Stream sending = stream_of(from);
  constexpr char kOrdering[] = "ordering the work of two devices";
  ok(order(to, receiving, from, sending), kOrdering);  // who used the memory before is done with it
  ok(driver.copy_between(Address(out), devices.of(to).context, Address(in),
                         devices.of(from).context, bytes, sending),
     "copying between devices");
  ok(order(from, sending, to, receiving), kOrdering);
  if (blocking) wait_for(receiving);
}

Fault* fault_address(const char* op) {
  static int next[2] = {};
  int ring = capture ? 1 : 0, at = 1 + ring * kPlaces + next[ring]++ % kPlaces;
  if (__atomic_load_n(&faults[at].state, __ATOMIC_ACQUIRE) == 0) {
    launched[at].line.note();
    launched[at].op = op;
  }
  return faults_on_device + at;
}

void raise_faults() {
  if (!faults || __atomic_load_n(&faults->state, __ATOMIC_ACQUIRE) != 2) return;
  __atomic_store_n(&faults->state, 0, __ATOMIC_RELEASE);
  int at = 0;
  Fault found{};
  for (int i = 2 * kPlaces; i > 0; i--) {  // what follows the first one may follow from it
    if (__atomic_load_n(&faults[i].state, __ATOMIC_ACQUIRE) != 2) continue;
    found = faults[at = i];
    __atomic_store_n(&faults[i].state, 0, __ATOMIC_RELEASE);
  }
  if (at == 0) return;
  const Launched& of = launched[at];
  std::string line = of.line.text();
  std::string where = concat("found on the device by ", of.op ? of.op : "a kernel",
                             line.empty() ? "" : ", called at ", line);
  switch (found.reason) {
    case kTargetOutOfRange:
      fail_as(PyExc_IndexError, "Target ", found.value, " is out of bounds: position ", found.at,
              ", with ", found.size, " classes (", where, ")");
    case kProbability:
      fail("probability tensor contains either `inf`, `nan` or element < 0 (row ", found.at, "; ",
           where, ")");
    default:
      fail_as(PyExc_IndexError, "index ", found.value, " is out of bounds for dimension with size ",
              found.size, " (position ", found.at, "; ", where, ")");
  }
}

namespace {

constexpr unsigned kHot = 32;  // launches after which a kernel gets a graph of its own

// A graph of one node, whose arguments are set anew for every launch.
void make_exec(Loaded& f, const KernelNode& what) {
  Graph graph = nullptr;
  if (driver.graph_create(&graph, 0) != 0) return;
  if (driver.graph_add(&f.node, graph, nullptr, 0, &what) != 0 ||
      driver.instantiate(&f.exec, graph, 0) != 0)
    f.exec = nullptr;
}

}  // namespace

// Graphs of one node go to the first stream alone: a graph does not run beside itself.
void launch_list(Function function, Grid grid, unsigned threads, unsigned shared_bytes,
                 void** list) {
  enter();
  Loaded& f = function->here();
  KernelNode what{f.raw, grid.x, grid.y, 1, threads, 1, 1, shared_bytes, list, nullptr};
  Result result;
  if (!stream && f.exec) [[likely]] {
    result = driver.exec_set(f.exec, f.node, &what);
    if (result == 0) result = driver.exec_launch(f.exec, stream);
  } else {
    result = driver.launch_kernel(f.raw, grid.x, grid.y, 1, threads, 1, 1, shared_bytes, stream,
                                  list, nullptr);
    if (!stream && result == 0 && ++f.uses == kHot) make_exec(f, what);
  }
  if (result != 0 || blocking) [[unlikely]]
    after_launch(result);
}

void after_launch(Result result) {
  ok(result, "launching a kernel");
  if (blocking && !capture) wait_for(stream);
}

}  // namespace rl::cuda
