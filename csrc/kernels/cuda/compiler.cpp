#include "kernels/cuda/compiler.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/prelude.h"
#include "tensor/error.h"

namespace rl::cuda {

namespace {

// ---- NVRTC

struct ProgramObject;
using Program = ProgramObject*;

#define RL_NVRTC(X)                                                                           \
  X(version, "nvrtcVersion", (int* major, int* minor))                                        \
  X(create, "nvrtcCreateProgram",                                                             \
    (Program * program, const char* text, const char* name, int headers, const char* const*,  \
     const char* const*))                                                                     \
  X(destroy, "nvrtcDestroyProgram", (Program * program))                                      \
  X(compile, "nvrtcCompileProgram", (Program program, int count, const char* const* options)) \
  X(binary_size, "nvrtcGetCUBINSize", (Program program, size_t* bytes))                       \
  X(binary, "nvrtcGetCUBIN", (Program program, char* data))                                   \
  X(log_size, "nvrtcGetProgramLogSize", (Program program, size_t* bytes))                     \
  X(log, "nvrtcGetProgramLog", (Program program, char* data))

struct Nvrtc {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_NVRTC(X)
#undef X
} nvrtc;

std::string folders, cache_folder;
CompilerStats stats{};

bool logs() {
  static const bool yes = [] {
    const char* wish = std::getenv("RUSHLIGHT_CUDA_LOG");
    return wish && *wish && std::strcmp(wish, "0") != 0;
  }();
  return yes;
}

void open_compiler() {
  static bool done = false;
  if (done) return;
  static const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", nullptr};
  std::string tried;
  void* library = open_library(folders, names, tried);
  if (!library)
    fail("CUDA kernels are compiled by NVRTC, which was not found (", tried,
         "): pip install rushlight[cuda], or name its folder in RUSHLIGHT_CUDA_PATH");
#define X(name, symbol, parameters)                                            \
  nvrtc.name = reinterpret_cast<decltype(nvrtc.name)>(dlsym(library, symbol)); \
  if (!nvrtc.name) fail("the NVRTC that was found is too old: it has no ", symbol);
  RL_NVRTC(X)
#undef X
  done = true;
}

// Of the one that would compile; nothing where there is none, and what is cached serves.
const std::string& compiler_version() {
  static const std::string version = [] {
    int major = 0, minor = 0;
    try {
      open_compiler();
      nvrtc.version(&major, &minor);
    } catch (const Error&) {
      return std::string();
    }
    return concat(major, ".", minor);
  }();
  return version;
}

// Of the active device.
std::string architecture() { return concat("sm_", devices.here().major, devices.here().minor); }

std::string compile(const std::string& text) {
  open_compiler();
  Program program = nullptr;
  if (nvrtc.create(&program, text.c_str(), "rushlight.cu", 0, nullptr, nullptr) != 0)
    fail("NVRTC could not make a program");
  std::string target = "--gpu-architecture=" + architecture();
  const char* options[] = {target.c_str(), "--std=c++17", "-default-device", "-w"};
  int result = nvrtc.compile(program, 4, options);
  if (result != 0) {
    size_t size = 0;
    nvrtc.log_size(program, &size);
    std::string log(size, 0);
    if (size) nvrtc.log(program, log.data());
    nvrtc.destroy(&program);
    fail("internal error: NVRTC refused a kernel for ", architecture(), ":\n", log.c_str());
  }
  size_t size = 0;
  nvrtc.binary_size(program, &size);
  std::string binary(size, 0);
  int failed = size ? nvrtc.binary(program, binary.data()) : 1;
  nvrtc.destroy(&program);
  if (failed) fail("NVRTC made no machine code for ", architecture());
  stats.compiled++;
  return binary;
}

// ---- The cache: a file for a text, an architecture and a compiler. It is written whole under
// another name and then renamed, so processes never see half of one.

struct Header {
  char magic[8];
  uint64_t text[2];   // of what it was made from
  uint64_t bytes;     // of the machine code
  uint64_t check[2];  // of it
};
constexpr char kMagic[8] = {'R', 'L', 'C', 'U', 'D', 'A', '0', '1'};
constexpr int64_t kMostBytes = int64_t(512) << 20;

void hash(const char* data, size_t size, uint64_t into[2]) {
  uint64_t a = 0xcbf29ce484222325u ^ size, b = 0x9e3779b97f4a7c15u + size;
  for (size_t i = 0; i < size; i++) {
    a = (a ^ uint8_t(data[i])) * 0x100000001b3u;
    b = (b ^ (b >> 29) ^ uint8_t(data[i])) * 0xbf58476d1ce4e5b9u;
  }
  into[0] = a ^ (a >> 32);
  into[1] = b ^ (b >> 31);
}

// Only a folder of ours that nobody else writes to: what lies there is run.
bool is_trusted(const char* folder) {
  struct stat found;
  return lstat(folder, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         !(found.st_mode & (S_IWGRP | S_IWOTH));
}

bool make_folders(const std::string& path) {
  for (size_t at = 1; at <= path.size(); at++) {
    if (at < path.size() && path[at] != '/') continue;
    mkdir(path.substr(0, at).c_str(), 0700);
  }
  return is_trusted(path.c_str());
}

bool has_cache() {
  static const bool yes = !cache_folder.empty() && make_folders(cache_folder);
  return yes;
}

std::string file_of(const uint64_t key[2]) {
  char name[64];
  std::snprintf(name, sizeof name, "/%016llx%016llx.bin", (unsigned long long)(key[0]),
                (unsigned long long)(key[1]));
  return cache_folder + name;
}

bool read_cached(const uint64_t key[2], std::string& binary) {
  std::string path = file_of(key);
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  struct stat found;
  Header header;
  bool good = fstat(file, &found) == 0 && found.st_uid == geteuid() &&
              !(found.st_mode & (S_IWGRP | S_IWOTH)) &&
              ::read(file, &header, sizeof header) == ssize_t(sizeof header) &&
              !std::memcmp(header.magic, kMagic, sizeof kMagic) && header.text[0] == key[0] &&
              header.text[1] == key[1] &&
              int64_t(header.bytes) == int64_t(found.st_size) - int64_t(sizeof header);
  if (good) {
    binary.resize(header.bytes);
    good = ::read(file, binary.data(), header.bytes) == ssize_t(header.bytes);
    uint64_t check[2];
    hash(binary.data(), binary.size(), check);
    good = good && check[0] == header.check[0] && check[1] == header.check[1];
  }
  close(file);
  if (!good) unlink(path.c_str());  // damaged: it is made anew
  else utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return good;
}

// The files that were used longest ago go, once in a process.
void bound_cache() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  DIR* folder = opendir(cache_folder.c_str());
  if (!folder) return;
  std::vector<std::pair<int64_t, std::pair<std::string, int64_t>>> files;
  int64_t total = 0;
  while (dirent* entry = readdir(folder)) {
    std::string path = cache_folder + "/" + entry->d_name;
    struct stat found;
    if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    files.push_back({found.st_mtime, {path, found.st_size}});
    total += found.st_size;
  }
  closedir(folder);
  if (total <= kMostBytes) return;
  std::sort(files.begin(), files.end());
  for (auto& [when, file] : files) {
    if (total <= kMostBytes / 2) break;
    if (unlink(file.first.c_str()) == 0) total -= file.second;
  }
}

void write_cached(const uint64_t key[2], const std::string& binary) {
  bound_cache();
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.text[0] = key[0];
  header.text[1] = key[1];
  header.bytes = binary.size();
  hash(binary.data(), binary.size(), header.check);
  std::string path = file_of(key), draft = path + ".XXXXXX";
  int file = mkstemp(draft.data());
  if (file < 0) return;
  bool good = ::write(file, &header, sizeof header) == ssize_t(sizeof header) &&
              ::write(file, binary.data(), binary.size()) == ssize_t(binary.size());
  good = close(file) == 0 && good && rename(draft.c_str(), path.c_str()) == 0;
  if (!good) unlink(draft.c_str());
}

// A text's modules. Without a cache on disk the machine code is kept for the other devices.
struct Image {
  PerDevice<Module> modules;
  std::unordered_map<std::string, std::string> kept;  // by the architecture
};
std::unordered_map<std::string, Image>& images() {
  static auto* all = new std::unordered_map<std::string, Image>;
  return *all;
}

Module load(const std::string& text, Image& image) {
  enter();
  Module& module = image.modules.here();
  if (module) return module;
  std::string whole = whole_text(text), binary;
  uint64_t key[2];
  std::string named =
      architecture() + "\n" + RUSHLIGHT_VERSION + "\n" + compiler_version() + "\n" + whole;
  hash(named.data(), named.size(), key);
  bool found = has_cache() && read_cached(key, binary);
  auto kept = image.kept.find(architecture());
  if (found) {
    stats.from_disk++;
  } else if (kept != image.kept.end()) {
    binary = kept->second;
  } else {
    binary = compile(whole);
    if (has_cache()) write_cached(key, binary);
    else if (device_count() > 1) image.kept[architecture()] = binary;
  }
  Relaxed relaxed;
  Result loaded = driver.module_load(&module, binary.data());
  if (loaded != 0 && found) {  // another driver's, perhaps: it is made anew
    module = nullptr;
    binary = compile(whole);
    write_cached(key, binary);
    loaded = driver.module_load(&module, binary.data());
  }
  ok(loaded, "loading a kernel");
  stats.loaded++;
  if (logs())
    std::fprintf(stderr, "rushlight: %s a CUDA kernel for %s, %zu bytes\n",
                 found ? "read" : "compiled", architecture().c_str(), binary.size());
  return module;
}

}  // namespace

void set_folders(const std::string& libraries, const std::string& cache) {
  folders = libraries;
  cache_folder = cache;
}
const std::string& library_folders() { return folders; }

std::string whole_text(const std::string& text) { return prelude() + text; }

Function compiled(const std::string& text, const char* function, unsigned shared_bytes) {
  const std::string& kept = images().try_emplace(text).first->first;  // for ever
  auto made = std::make_unique<Launchable>(Launchable{&kept, function, shared_bytes, {}});
  made->here();
  return made.release();
}

void Launchable::load(Loaded& into) const {
  Module module = cuda::load(*text, images().find(*text)->second);
  FunctionObject* raw;
  ok(driver.module_function(&raw, module, name), name);
  if (shared_bytes)
    ok(driver.function_set(raw, kDynamicShared, int(shared_bytes)), "asking for shared memory");
  into.raw = raw;
  if (logs()) std::fprintf(stderr, "rushlight: %s is ready on cuda:%d\n", name, active);
}

CompilerStats compiler_stats() { return stats; }

const char* type_name(DType d) {
  static const char* const names[] = {"Bool", "uint8", "int8",  "int16",  "int32", "int64",
                                      "F16",  "BF16",  "float", "double", "C64",   "C128"};
  if (is_stored(d))
    fail_as(PyExc_NotImplementedError, "kernel not implemented for '", info(d).tensor_name,
            "' on the device 'cuda': convert with .to(torch.float32)");
  return names[int(d)];
}
const char* compute_name(DType d) { return type_name(compute_type(d)); }

Function Kernel::make(DType d) const {
  return compiled(concat("using T = ", type_name(d), "; using A = ", compute_name(d), ";\n", text_),
                  function_);
}
Function Kernel2::make(DType t, DType u) const {
  return compiled(concat("using T = ", type_name(t), "; using A = ", compute_name(t),
                         "; using U = ", type_name(u), ";\n", text_),
                  function_);
}

}  // namespace rl::cuda
