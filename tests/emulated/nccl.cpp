// A small NCCL between real processes: what one has for others is a file in a folder that the
// communicator's name says. A call ends when its data is there; an abort ends one that waits.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "shared.h"

namespace {

struct Id {
  char text[128];
};
struct Communicator {
  std::string folder;
  int size, rank, device;
  long count = 0;                      // collectives so far
  std::map<int, long> sent, received;  // messages, by the other's rank
  std::atomic<bool> aborted{false};
};
using Bytes = std::vector<char>;
enum { Success = 0, SystemError = 2, InvalidArgument = 4 };

size_t width(int kind) {
  static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[kind];
}

void put(Communicator* c, const std::string& name, const void* data, size_t bytes) {
  std::string path = c->folder + "/" + name, draft = path + "." + std::to_string(getpid());
  std::ofstream(draft, std::ios::binary).write(static_cast<const char*>(data), long(bytes));
  std::filesystem::rename(draft, path);
}

// What another process has put there; false after an abort.
bool get(Communicator* c, const std::string& name, Bytes& data, bool keep) {
  std::string path = c->folder + "/" + name;
  while (!std::filesystem::exists(path)) {
    if (c->aborted) return false;
    usleep(200);
  }
  data.resize(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary).read(data.data(), long(data.size()));
  if (!keep) std::filesystem::remove(path);
  return true;
}

struct Half {
  _Float16 value;
  operator float() const { return float(value); }
  Half& operator=(float x) { return value = _Float16(x), *this; }
};
struct Brain {
  uint16_t bits;
  operator float() const {
    uint32_t wide = uint32_t(bits) << 16;
    float x;
    return std::memcpy(&x, &wide, 4), x;
  }
  Brain& operator=(float x) {
    uint32_t wide;
    std::memcpy(&wide, &x, 4);
    bits = uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    return *this;
  }
};

template <class T, class W>
void combine(char* into, const char* other, size_t count, int op) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(other);
  for (size_t i = 0; i < count; ++i) {
    W x = W(a[i]), y = W(b[i]);
    a[i] = op == 0 ? W(x + y) : op == 1 ? W(x * y) : op == 2 ? std::max(x, y) : std::min(x, y);
  }
}

void combine(int kind, char* into, const char* other, size_t count, int op) {
  switch (kind) {
    case 0: return combine<int8_t, int8_t>(into, other, count, op);
    case 1: return combine<uint8_t, uint8_t>(into, other, count, op);
    case 2: return combine<int32_t, int32_t>(into, other, count, op);
    case 4: return combine<int64_t, int64_t>(into, other, count, op);
    case 6: return combine<Half, float>(into, other, count, op);
    case 7: return combine<float, float>(into, other, count, op);
    case 8: return combine<double, double>(into, other, count, op);
    default: return combine<Brain, float>(into, other, count, op);
  }
}

// The data of all processes, in the order of their ranks.
bool share(Communicator* c, const void* data, size_t bytes, std::vector<Bytes>& all) {
  std::string number = std::to_string(c->count++) + ".";
  put(c, number + std::to_string(c->rank), data, bytes);
  all.resize(size_t(c->size));
  for (int r = 0; r < c->size; ++r)
    if (!get(c, number + std::to_string(r), all[size_t(r)], true)) return false;
  return true;
}

int reduce(Communicator* c, const void* in, Bytes& out, size_t count, int kind, int op) {
  std::vector<Bytes> all;
  if (!c || op < 0 || op > 4) return InvalidArgument;
  if (!share(c, in, count * width(kind), all)) return SystemError;
  out = all[0];
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r].size() != out.size()) return InvalidArgument;
    combine(kind, out.data(), all[r].data(), count, op);
  }
  return Success;
}

// Whether a call is for the communicator's device: its stream, entered, and its memory.
bool is_fit(Communicator* c, const void* data, void* stream) {
  return c && entered() == c->device && !foreign("a collective", stream) && !finish(stream) &&
         (!data || device_of(Address(data)) == c->device);
}

}  // namespace

EXPORT const char* ncclGetErrorString(int status) {
  return status == SystemError ? "unhandled system error" : "invalid argument";
}
EXPORT const char* ncclGetLastError(void*) { return ""; }
EXPORT int ncclGetVersion(int* version) { return *version = 22800, Success; }
EXPORT int ncclGetUniqueId(Id* id) {
  std::string pattern = std::filesystem::temp_directory_path() / "emulated-nccl-XXXXXX";
  if (!mkdtemp(pattern.data())) return SystemError;
  std::strncpy(id->text, pattern.c_str(), sizeof id->text - 1);
  return Success;
}
EXPORT int ncclCommInitRank(Communicator** made, int size, Id id, int rank) {
  if (failure("nccl", 1)) return SystemError;
  *made = new Communicator;
  (*made)->folder = id.text, (*made)->size = size, (*made)->rank = rank;
  if (((*made)->device = entered()) < 0) return SystemError;
  std::vector<Bytes> all;
  share(*made, "", 0, all);
  return Success;
}
EXPORT int ncclCommDestroy(Communicator* c) {
  std::vector<Bytes> all;
  if (!share(c, "", 0, all)) return SystemError;
  std::string done = "done." + std::to_string(c->rank);
  put(c, done, "", 0);
  if (c->rank == 0) {
    for (int r = 0; r < c->size; ++r) get(c, "done." + std::to_string(r), all[0], true);
    std::filesystem::remove_all(c->folder);
  }
  delete c;
  return Success;
}
EXPORT int ncclCommAbort(Communicator* c) {
  c->aborted = true;
  std::error_code ignored;
  std::filesystem::remove_all(c->folder, ignored);
  return Success;
}
EXPORT int ncclCommGetAsyncError(Communicator*, int* status) { return *status = Success; }
EXPORT int ncclGroupStart() { return Success; }
EXPORT int ncclGroupEnd() { return Success; }

EXPORT int ncclAllReduce(const void* in, void* out, size_t count, int kind, int op, Communicator* c,
                         void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  Bytes sum;
  if (int status = reduce(c, in, sum, count, kind, op)) return status;
  return std::memcpy(out, sum.data(), sum.size()), Success;
}
EXPORT int ncclReduce(const void* in, void* out, size_t count, int kind, int op, int root,
                      Communicator* c, void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  Bytes sum;
  if (int status = reduce(c, in, sum, count, kind, op)) return status;
  if (c->rank == root) std::memcpy(out, sum.data(), sum.size());
  return Success;
}
EXPORT int ncclReduceScatter(const void* in, void* out, size_t count, int kind, int op,
                             Communicator* c, void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  Bytes sum;
  if (int status = reduce(c, in, sum, count * size_t(c ? c->size : 1), kind, op)) return status;
  size_t part = count * width(kind);
  return std::memcpy(out, sum.data() + size_t(c->rank) * part, part), Success;
}
EXPORT int ncclBroadcast(const void* in, void* out, size_t count, int kind, int root,
                         Communicator* c, void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  std::vector<Bytes> all;
  if (!c) return InvalidArgument;
  if (!share(c, in, c->rank == root ? count * width(kind) : 0, all)) return SystemError;
  const Bytes& sent = all[size_t(root)];
  return sent.size() == count * width(kind) ? (std::memcpy(out, sent.data(), sent.size()), Success)
                                            : int(InvalidArgument);
}
EXPORT int ncclAllGather(const void* in, void* out, size_t count, int kind, Communicator* c,
                         void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  std::vector<Bytes> all;
  if (!c) return InvalidArgument;
  if (!share(c, in, count * width(kind), all)) return SystemError;
  char* to = static_cast<char*>(out);
  for (const Bytes& part : all) to = std::copy(part.begin(), part.end(), to);
  return Success;
}
EXPORT int ncclSend(const void* in, size_t count, int kind, int peer, Communicator* c, void* stream) {
  if (!is_fit(c, in, stream)) return InvalidArgument;
  if (!c) return InvalidArgument;
  std::string name = std::to_string(c->rank) + "-" + std::to_string(peer) + "-";
  put(c, name + std::to_string(c->sent[peer]++), in, count * width(kind));
  return Success;
}
EXPORT int ncclRecv(void* out, size_t count, int kind, int peer, Communicator* c, void* stream) {
  if (!is_fit(c, out, stream)) return InvalidArgument;
  if (!c) return InvalidArgument;
  std::string name = std::to_string(peer) + "-" + std::to_string(c->rank) + "-";
  Bytes data;
  if (!get(c, name + std::to_string(c->received[peer]++), data, false)) return SystemError;
  if (data.size() != count * width(kind)) return InvalidArgument;
  return std::memcpy(out, data.data(), data.size()), Success;
}
