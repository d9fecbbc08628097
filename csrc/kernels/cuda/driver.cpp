#include "kernels/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "autograd/provenance.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"
#include "tensor/error.h"

namespace rl::cuda {

Driver driver;
constinit thread_local bool context_is_set = false;
constinit thread_local Stream stream = nullptr;
constinit thread_local Capture* capture = nullptr;
bool blocking = false;

namespace {

void* library = nullptr;
Context context = nullptr;
int device = 0;

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
  static int count = -1;
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
  if (result == 0) result = driver.device_count(&count);
  if (result != 0) {
    const char* text = nullptr;
    driver.error_text(result, &text);
    why = reason = concat("the NVIDIA driver reports: ", text ? text : "an unknown error");
    count = 0;
  } else if (count == 0) {
    why = reason = "the NVIDIA driver sees no device";
  }
  return count;
}

bool is_started() { return context != nullptr; }

void start_device() {
  if (context) return;
  ok(driver.device_get(&device, 0), "finding the device");
  Context made;
  ok(driver.retain_context(&made, device), "making the device's context");
  ok(driver.set_context(made), "entering the device's context");
  context_is_set = true;
  void* host;
  size_t bytes = sizeof(Fault) * (1 + 2 * kPlaces);
  ok(driver.host_allocate(&host, bytes, 2 /* mapped */), "allocating pinned memory");
  Address address;
  ok(driver.host_address(&address, host, 0), "mapping pinned memory");
  std::memset(host, 0, bytes);
  faults = static_cast<Fault*>(host);
  faults_on_device = reinterpret_cast<Fault*>(address);
  for (int i = 0; i <= 2 * kPlaces; i++) faults[i].head = faults_on_device;
  const char* wish = std::getenv("CUDA_LAUNCH_BLOCKING");
  blocking = wish && std::strcmp(wish, "0") != 0 && *wish;
  context = made;
  multiprocessors = attribute(kMultiprocessors);
  use_table();
}

int attribute(int which) {
  int value = 0;
  ok(driver.device_attribute(&value, which, device), "asking for a property of the device");
  return value;
}

void set_context() {
  ok(driver.set_context(context), "entering the device's context");
  context_is_set = true;
}

void fail_cuda(Result error, const char* doing) {
  const char *name = nullptr, *text = nullptr;
  driver.error_name(error, &name);
  driver.error_text(error, &text);
  fail("CUDA error: ", text ? text : "unknown error", " (", name ? name : "?", ") while ", doing);
}

void wait_for(Stream which) {
  enter();
  if (capture) fail_capturing("a wait for the device");
  ok(driver.stream_wait(which), "waiting for a stream");
  raise_faults();
}

void wait_for_device() {
  enter();
  if (capture) fail_capturing("a wait for the device");
  ok(driver.wait_context(), "waiting for the device");
  raise_faults();
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
void make_exec(Function f, const KernelNode& what) {
  Graph graph = nullptr;
  if (driver.graph_create(&graph, 0) != 0) return;
  if (driver.graph_add(&f->node, graph, nullptr, 0, &what) != 0 ||
      driver.instantiate(&f->exec, graph, 0) != 0)
    f->exec = nullptr;
}

}  // namespace

// Graphs of one node go to the first stream alone: a graph does not run beside itself.
void launch_list(Function f, Grid grid, unsigned threads, unsigned shared_bytes, void** list) {
  enter();
  KernelNode what{f->raw, grid.x, grid.y, 1, threads, 1, 1, shared_bytes, list, nullptr};
  Result result;
  if (!stream && f->exec) [[likely]] {
    result = driver.exec_set(f->exec, f->node, &what);
    if (result == 0) result = driver.exec_launch(f->exec, stream);
  } else {
    result = driver.launch_kernel(f->raw, grid.x, grid.y, 1, threads, 1, 1, shared_bytes, stream,
                                  list, nullptr);
    if (!stream && result == 0 && ++f->uses == kHot) make_exec(f, what);
  }
  if (result != 0 || blocking) [[unlikely]]
    after_launch(result);
}

void after_launch(Result result) {
  ok(result, "launching a kernel");
  if (blocking && !capture) wait_for(stream);
}

}  // namespace rl::cuda
