#include "autograd/writes.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "autograd/batch.h"

namespace rl {

namespace {

constexpr size_t kMostWrites = 1 << 14;     // kept per storage; older ones count as overlapping
constexpr int64_t kMostElements = 1 << 16;  // compared one by one

// The elements of a strided tensor, in bytes from the start of the memory.
struct Region {
  int64_t offset, item, count = 1, end;
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size), widest stride first

  explicit Region(const Tensor* t)
      : offset(t->offset * itemsize(t->dtype)), item(itemsize(t->dtype)) {
    end = offset + item;
    add(t->sizes, t->strides);
    if (const Batch* batch = batch_of(t)) add(batch->sizes, batch->strides);
    std::sort(dims.rbegin(), dims.rend());
  }
  Region() : offset(0), item(1), count(0), end(0) {}  // of no elements

  void add(const Ints& sizes, const Ints& strides) {
    for (int i = 0; i < sizes.size(); i++) {
      int64_t stride = strides[i] * item, size = sizes[i];
      if (size == 0) count = 0;
      if (size <= 1 || stride == 0) continue;
      dims.emplace_back(stride, size);
      count *= size;
      end += stride * (size - 1);
    }
  }

  // Whether every address has one index: wide strides clear the reach of the narrow ones.
  bool nested() const {
    int64_t reach = item;
    for (size_t i = dims.size(); i-- > 0;) {
      if (dims[i].first < reach) return false;
      reach = dims[i].first * (dims[i].second - 1) + reach;
    }
    return true;
  }

  bool contains(int64_t address) const {
    int64_t rest = address - offset;
    if (rest < 0) return false;
    for (auto [stride, size] : dims) rest -= std::min(rest / stride, size - 1) * stride;
    return rest == 0;
  }

  template <class F>
  bool any(F&& test, size_t dim, int64_t at) const {
    if (dim == dims.size()) return test(at);
    for (int64_t i = 0; i < dims[dim].second; i++)
      if (any(test, dim + 1, at + i * dims[dim].first)) return true;
    return false;
  }
};

// Boxes on one grid are disjoint when they are along some axis.
bool disjoint_boxes(const Region& a, const Region& b) {
  std::vector<int64_t> strides;
  for (const Region* r : {&a, &b})
    for (auto [stride, size] : r->dims) strides.push_back(stride);
  strides.push_back(a.item);
  std::sort(strides.rbegin(), strides.rend());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (size_t i = 0; i < strides.size(); i++) {
    int64_t stride = strides[i], row = i ? strides[i - 1] : INT64_MAX;
    if (i && row % stride != 0) return false;
    auto range = [&](const Region& r) {
      int64_t first = r.offset % row / stride, size = 1;
      for (auto [s, n] : r.dims)
        if (s == stride) size = n;
      return std::pair(first, first + size);
    };
    auto [a0, a1] = range(a);
    auto [b0, b1] = range(b);
    if (i && std::max(a1, b1) > row / stride) return false;  // wraps around
    if (a1 <= b0 || b1 <= a0) return true;
  }
  return false;
}

bool overlap(const Region& a, const Region& b) {
  if (a.count == 0 || b.count == 0 || a.end <= b.offset || b.end <= a.offset) return false;
  if (a.item != b.item || !a.nested() || !b.nested()) return true;
  const Region &few = a.count <= b.count ? a : b, &many = a.count <= b.count ? b : a;
  if (few.count > kMostElements) return !disjoint_boxes(a, b);
  return few.any([&](int64_t at) { return many.contains(at); }, 0, few.offset);
}

}  // namespace

struct WriteLog {
  struct Entry {
    Region region;
    Where where;
    const char* op;
  };
  uint32_t first = 0;  // version of the first entry; the others follow without gaps
  uint32_t since = 0;  // nothing was written after this version and before the first entry
  std::vector<Entry> entries;

  void clear() {
    for (Entry& e : entries) e.where.drop();
    entries.clear();
  }
  ~WriteLog() { clear(); }
};

void delete_log(WriteLog* log) { delete log; }

void log_write(const Tensor* t, const char* op) {
  Storage* s = t->storage;
  if (t->numel * itemsize(t->dtype) >= s->bytes) {
    delete std::exchange(s->writes, nullptr);
    return;
  }
  if (!s->writes) s->writes = new WriteLog;
  WriteLog& log = *s->writes;
  if (log.first + log.entries.size() != s->version) {
    log.clear();
    log.first = s->version;
    log.since = s->version - 1;
  }
  if (log.entries.size() == kMostWrites) {
    for (size_t i = 0; i < kMostWrites / 2; i++) log.entries[i].where.drop();
    log.entries.erase(log.entries.begin(), log.entries.begin() + kMostWrites / 2);
    log.first += kMostWrites / 2;
    log.since = log.first - 1;
  }
  log.entries.push_back({Region(t), {}, op});
  log.entries.back().where.note();
}

void note_swap(Tensor* t, Storage* now, bool counts) {
  constexpr uint32_t kMostGap = 1 << 10;
  constexpr size_t kMostSwaps = 8;
  Storage* before = t->storage;
  uint32_t old = before->version + counts;
  if ((before == now && !counts) || before->inference || now->inference || !(old | now->version))
    return;
  now->saved |= before->saved;
  if (now->version < old) {  // others who saved of the new memory learn that nothing was written
    uint32_t gap = old - now->version;
    WriteLog* log = now->writes;
    if (!log) {
      log = now->writes = new WriteLog;
      log->first = old + 1;
      log->since = now->version;
    } else if (gap <= kMostGap && log->first + log->entries.size() == now->version + 1) {
      log->entries.resize(log->entries.size() + gap, {Region(), {}, nullptr});
    }
    now->version = old;
  }
  auto*& swaps = extra(t).swaps;
  if (!swaps) swaps = new std::vector<std::pair<uint32_t, uint32_t>>;
  bool same = !swaps->empty() && swaps->back().first == old && swaps->back().second == old;
  if (same) swaps->pop_back();
  if (swaps->size() == kMostSwaps) swaps->erase(swaps->begin());
  swaps->emplace_back(old, now->version);
}

Overwrite find_overwrite(const Tensor* t, uint32_t since) {
  const Storage* s = t->storage;
  Overwrite last{true, s->writer_op, &s->writer};
  if (t->extra && t->extra->swaps)
    for (auto [ended, begun] : *t->extra->swaps) {
      if (since < ended) return last;
      if (since == ended) since = begun;
    }
  if (s->version == since) return {};
  const WriteLog* log = s->writes;
  if (!log || log->since > since || log->first + log->entries.size() != s->version + 1) return last;
  Region saved(t);
  for (size_t i = since + 1 > log->first ? since + 1 - log->first : 0; i < log->entries.size(); i++)
    if (overlap(saved, log->entries[i].region))
      return {true, log->entries[i].op, &log->entries[i].where};
  return {};
}

}  // namespace rl
