// A small libcuda, NVRTC and cuBLASLt for machines without a GPU. Device memory is the host's, a text is
// compiled by the host's C++ compiler (nvrtc.cpp), and a launch runs every thread of every block, those of
// a block taking turns at barriers. Errors can be asked for: EMULATED_CUDA_FAIL=launch:3 fails the third
// launch. With EMULATED_CUDA_DRY=1 nothing is compiled or run and the device's memory is zeros: that
// is enough to see which texts a program needs (EMULATED_CUDA_TEXTS, a folder that takes them).
// There are EMULATED_CUDA_DEVICES of them, 1 unless it is set (devices.cpp): what belongs to one is
// refused while the thread has entered another.
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared.h"

namespace {

// ---- errors on demand

std::map<std::string, int> counts;
}  // namespace

bool is_dry() {
  static const bool yes = std::getenv("EMULATED_CUDA_DRY");
  return yes;
}

int failure(const char* what, int error) {
  int now = ++counts[what];
  const char* wish = std::getenv("EMULATED_CUDA_FAIL");
  if (!wish) return 0;
  std::string text = wish;
  size_t colon = text.find(':');
  if (colon == std::string::npos || text.substr(0, colon) != what) return 0;
  return now == std::atoi(text.c_str() + colon + 1) ? error : 0;
}

namespace {

// ---- what a module is given to run its kernels with (see the shim below)

struct Dim3 {
  unsigned x, y, z;
};
struct Machine {
  Dim3 thread, block, block_size, grid_size;
  void (*barrier)();
  unsigned (*lane)(unsigned value, int mask);
};

struct Module {
  void* library;
  bool together;  // threads of a block wait for each other
  int device;
};
struct Function {
  void (*run)(void**);
  // Shows every argument: where it lies, its size, and how much of it is an address.
  void (*see)(void**, void (*)(const void*, unsigned long, unsigned long));
  Module* module;
  std::string name;
};

// ---- threads of a block take turns

constexpr size_t kStack = 128 << 10;
enum Wait { Ready, Block, Warp, Done };
struct Worker {
  ucontext_t context;
  char* stack = nullptr;
  Wait wait = Done;
};
std::vector<Worker> workers;
ucontext_t scheduler;
Machine* machine = nullptr;
Function* running = nullptr;
void** running_arguments = nullptr;
size_t current = 0;
unsigned lanes[1024];

void pause(Wait wait) {
  workers[current].wait = wait;
  swapcontext(&workers[current].context, &scheduler);
}
void work() {
  running->run(running_arguments);
  pause(Done);
}
void barrier() { pause(Block); }
// All lanes of a warp write, then all read.
unsigned lane(unsigned value, int mask) {
  lanes[current] = value;
  pause(Warp);
  unsigned other = lanes[current ^ size_t(mask)];
  pause(Warp);
  return other;
}

// Threads go on when all others of their group wait for the same.
bool release(size_t begin, size_t end, Wait wait) {
  for (size_t t = begin; t < end; t++)
    if (workers[t].wait != wait && workers[t].wait != Done) return false;
  bool any = false;
  for (size_t t = begin; t < end; t++)
    if (workers[t].wait == wait) workers[t].wait = Ready, any = true;
  return any;
}

void run_block_together(Function* f, void** arguments, unsigned threads) {
  if (workers.size() < threads) workers.resize(threads);
  running = f;
  running_arguments = arguments;
  for (size_t t = 0; t < threads; t++) {
    Worker& w = workers[t];
    if (!w.stack) w.stack = static_cast<char*>(std::malloc(kStack));
    getcontext(&w.context);
    w.context.uc_stack.ss_sp = w.stack;
    w.context.uc_stack.ss_size = kStack;
    w.context.uc_link = nullptr;
    makecontext(&w.context, work, 0);
    w.wait = Ready;
  }
  for (bool any = true; any;) {
    for (current = 0; current < threads; current++) {
      if (workers[current].wait != Ready) continue;
      machine->thread = {unsigned(current), 0, 0};
      swapcontext(&scheduler, &workers[current].context);
    }
    any = release(0, threads, Block);
    for (size_t warp = 0; warp < threads; warp += 32)
      any |= release(warp, std::min<size_t>(warp + 32, threads), Warp);
  }
  for (size_t t = 0; t < threads; t++)
    if (workers[t].wait != Done) {
      std::fprintf(stderr, "emulated device: threads of %s wait for each other for ever\n",
                   f->name.c_str());
      std::abort();
    }
}

// Addresses of the host's memory among the arguments of a kernel: a device could not follow them.
// Structs are not looked into.
const void* host_word = nullptr;
bool other_device = false;
void look(const void* argument, unsigned long, unsigned long size) {
  for (unsigned long i = 0; i + 8 <= size; i += 8) {
    Address word;
    std::memcpy(&word, static_cast<const char*>(argument) + i, 8);
    if (word < 0x10000 || word >> 47) continue;
    int device = device_of(word);
    if (device == entered() || device == kAnyDevice) continue;
    if (device == kNoDevice &&
        msync(reinterpret_cast<void*>(word & ~Address(4095)), 1, MS_ASYNC) != 0)
      continue;
    host_word = reinterpret_cast<void*>(word);
    other_device = device != kNoDevice;
  }
}

}  // namespace

// An image is a byte that says whether threads work together, 8 bytes of length, and a library.
EXPORT int cuModuleLoadData(void** module, const void* image) {
  if (int error = failure("module", 209)) return error;
  if (entered() < 0) return kInvalidContext;
  if (is_dry()) {
    *module = new Module{nullptr, false, entered()};
    return 0;
  }
  const char* data = static_cast<const char*>(image);
  size_t size;
  std::memcpy(&size, data + 1, sizeof size);
  char path[] = "/tmp/emulated_kernel.XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || write(file, data + 9, size) != ssize_t(size)) return 999;
  close(file);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 999;
  }
  auto* m = static_cast<Machine*>(dlsym(library, "rl_machine"));
  m->barrier = barrier;
  m->lane = lane;
  *module = new Module{library, data[0] == 1, entered()};
  return 0;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* m = static_cast<Module*>(module);
  if (is_dry()) {
    *function = new Function{nullptr, nullptr, m, name};
    return 0;
  }
  void* found = dlsym(m->library, (std::string("emulated_") + name).c_str());
  if (!found) return 500;
  void* see = dlsym(m->library, (std::string("emulated_see_") + name).c_str());
  *function = new Function{reinterpret_cast<void (*)(void**)>(found),
                           reinterpret_cast<decltype(Function::see)>(see), m, name};
  return 0;
}

// ---- launches and graphs

namespace {

// A launch with its own copy of the arguments.
struct Recorded {
  Function* function;
  unsigned gx, gy, bx;
  std::vector<std::string> values;
};
std::vector<std::string>* values_to = nullptr;
void keep(const void* argument, unsigned long size, unsigned long) {
  values_to->emplace_back(static_cast<const char*>(argument), size);
}
Recorded recorded(void* function, unsigned gx, unsigned gy, unsigned bx, void** arguments) {
  Recorded made{static_cast<Function*>(function), gx, gy, bx, {}};
  if (is_dry()) return made;
  values_to = &made.values;
  made.function->see(arguments, keep);
  return made;
}

int run(Function* f, unsigned gx, unsigned gy, unsigned bx, void** arguments) {
  Turn turn;
  if (int error = failure("launch", 719)) return error;
  if (!gx || !gy || !bx || bx > 1024 || gx > 0x7fffffff || gy > 65535) return 1;
  if (f->module->device != entered()) return refused(f->name.c_str(), f->module->device);
  if (is_dry()) return 0;
  machine = static_cast<Machine*>(dlsym(f->module->library, "rl_machine"));
  host_word = nullptr;
  f->see(arguments, look);
  if (host_word) {
    std::fprintf(stderr, "emulated device: %s was given an address of %s, %p\n", f->name.c_str(),
                 other_device ? "another device" : "the host", host_word);
    return 700;
  }
  machine->block_size = {bx, 1, 1};
  machine->grid_size = {gx, gy, 1};
  for (unsigned y = 0; y < gy; y++)
    for (unsigned x = 0; x < gx; x++) {
      machine->block = {x, y, 0};
      if (f->module->together) {
        run_block_together(f, arguments, bx);
        continue;
      }
      for (unsigned t = 0; t < bx; t++) {
        machine->thread = {t, 0, 0};
        f->run(arguments);
      }
    }
  return 0;
}

int run(Recorded& r) {
  std::vector<void*> list;
  for (std::string& value : r.values) list.push_back(value.data());
  return run(r.function, r.gx, r.gy, r.bx, list.data());
}

// What a node does, once more.
struct Work {
  Recorded launch;
  std::function<int()> other;
};
struct GraphObject {
  std::vector<Work*> nodes;
};
GraphObject* recording = nullptr;
void* recorded_stream = nullptr;

struct KernelNode {
  void* function;
  unsigned gx, gy, gz, bx, by, bz, shared_bytes;
  void** arguments;
  void** extra;
};
// An executable graph keeps nodes by the address they have in the graph.
struct ExecObject {
  std::vector<std::pair<Work*, Work>> nodes;
};

}  // namespace

bool record_other(void* stream, std::function<int()> work) {
  if (!recording || stream != recorded_stream) return put_off(stream, std::move(work));
  recording->nodes.push_back(new Work{{}, std::move(work)});
  return true;
}

EXPORT int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned, void* stream, void** arguments, void**) {
  if (by != 1 || bz != 1 || gz != 1) return 1;
  if (int error = foreign("a launch", stream)) return error;
  if (recording && stream == recorded_stream) {
    recording->nodes.push_back(new Work{recorded(function, gx, gy, bx, arguments), {}});
    return 0;
  }
  static const bool late = std::getenv("EMULATED_CUDA_LATE");
  if (late && put_off(stream, [r = recorded(function, gx, gy, bx, arguments)]() mutable { return run(r); }))
    return 0;
  return run(static_cast<Function*>(function), gx, gy, bx, arguments);
}
EXPORT int cuFuncSetAttribute(void* function, int, int) {
  int device = static_cast<Function*>(function)->module->device;
  return device == entered() ? 0 : refused("an attribute", device);
}
EXPORT int cuStreamBeginCapture_v2(void* stream, int) {
  if (recording || !stream) return 900;
  if (int error = foreign("a recording", stream)) return error;
  recording = new GraphObject;
  recorded_stream = stream;
  return failure("record", 901);
}
EXPORT int cuStreamEndCapture(void*, void** graph) {
  *graph = recording;
  recording = nullptr;
  return 0;
}
EXPORT int cuStreamGetCaptureInfo_v2(void* stream, int* status, Address* number, void** graph,
                                     void* const** last, size_t* count) {
  *status = recording && stream == recorded_stream;
  *number = 1;
  if (graph) *graph = recording;
  if (last && recording) {
    *last = recording->nodes.empty() ? nullptr : reinterpret_cast<void**>(&recording->nodes.back());
    *count = !recording->nodes.empty();
  }
  return 0;
}
EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  static int now = 0;
  std::swap(now, *mode);
  return 0;
}
EXPORT int cuGraphCreate(void** graph, unsigned) {
  *graph = new GraphObject;
  return 0;
}
EXPORT int cuGraphDestroy(void* graph) {
  for (Work* w : static_cast<GraphObject*>(graph)->nodes) delete w;
  delete static_cast<GraphObject*>(graph);
  return 0;
}
EXPORT int cuGraphGetNodes(void* graph, void*, size_t* count) {
  *count = static_cast<GraphObject*>(graph)->nodes.size();
  return 0;
}
EXPORT int cuGraphAddKernelNode(void** node, void* graph, const void*, size_t, const KernelNode* k) {
  auto* g = static_cast<GraphObject*>(graph);
  g->nodes.push_back(new Work{recorded(k->function, k->gx, k->gy, k->bx, k->arguments), {}});
  *node = g->nodes.back();
  return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void** exec, void* graph, Address) {
  auto* made = new ExecObject;
  for (Work* w : static_cast<GraphObject*>(graph)->nodes) made->nodes.push_back({w, *w});
  *exec = made;
  return 0;
}
EXPORT int cuGraphExecKernelNodeSetParams(void* exec, void* node, const KernelNode* k) {
  for (auto& [key, work] : static_cast<ExecObject*>(exec)->nodes)
    if (key == node) {
      work.launch = recorded(k->function, k->gx, k->gy, k->bx, k->arguments);
      return 0;
    }
  return 1;
}
EXPORT int cuGraphLaunch(void* exec, void* stream) {
  if (int error = foreign("a graph", stream)) return error;
  auto all = [nodes = static_cast<ExecObject*>(exec)->nodes]() mutable {
    for (auto& [key, work] : nodes)
      if (int error = work.other ? work.other() : run(work.launch)) return error;
    return 0;
  };
  return put_off(stream, all) ? 0 : all();
}
EXPORT int cuGraphExecDestroy(void* exec) {
  delete static_cast<ExecObject*>(exec);
  return 0;
}
