#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

namespace {

constexpr int64_t kBlock = 512;  // elements converted at a time
// Blocks are a cache line more than their size apart: loads and stores at the same distance from a
// multiple of 4096 would wait for each other.
constexpr int64_t kLine = 64;
constexpr double kChunkCost = 32768;  // additions per piece of parallel work
constexpr int kMaxDims = 64;

int64_t grain(double cost) {
  return std::max<int64_t>(kBlock, int64_t(kChunkCost / cost) / kBlock * kBlock);
}

// The call with dimensions merged and ordered, strides in bytes; operand 0 is the output.
struct Plan {
  const PointwiseCall& call;
  int operands;
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxOperands + 1][kMaxDims];
  char* data[kMaxOperands + 1];
  DType dtype[kMaxOperands + 1];
  DType target[kMaxOperands + 1];
  Conversion unit[kMaxOperands + 1];  // of elements that lie side by side
  int64_t place[kMaxOperands + 1];    // of the operand's block among the converted ones

  explicit Plan(const PointwiseCall& c) : call(c), operands(c.inputs + 1) {
    for (int k = 0; k < operands; k++) {
      const Operand& o = k == 0 ? c.out : c.in[k - 1];
      data[k] = o.data;
      dtype[k] = o.dtype;
      target[k] = k == 0 ? c.produced : c.compute;
    }
    int order[kMaxDims];
    for (int i = 0; i < c.ndim; i++) order[i] = i;
    // Innermost: the smallest output stride.
    std::stable_sort(order, order + c.ndim,
                     [&](int a, int b) { return c.out.strides[a] > c.out.strides[b]; });
    for (int i = 0; i < c.ndim; i++) {
      int d = order[i];
      if (c.sizes[d] == 1) continue;
      int64_t step[kMaxOperands + 1];
      for (int k = 0; k < operands; k++) {
        const Operand& o = k == 0 ? c.out : c.in[k - 1];
        step[k] = o.data ? o.strides[d] * itemsize(o.dtype) : 0;
      }
      bool merges = ndim > 0;
      for (int k = 0; merges && k < operands; k++)
        merges = !data[k] || strides[k][ndim - 1] == step[k] * c.sizes[d];
      if (merges) {
        sizes[ndim - 1] *= c.sizes[d];
        for (int k = 0; k < operands; k++) strides[k][ndim - 1] = step[k];
      } else {
        sizes[ndim] = c.sizes[d];
        for (int k = 0; k < operands; k++) strides[k][ndim] = step[k];
        ndim++;
      }
    }
    if (ndim == 0) {
      sizes[0] = 1;
      for (int k = 0; k < operands; k++) strides[k][0] = 0;
      ndim = 1;
    }
    int64_t next = 0;
    for (int k = 0; k < operands; k++) {
      DType to = k == 0 ? dtype[k] : target[k], from = k == 0 ? target[k] : dtype[k];
      bool side_by_side = strides[k][ndim - 1] == itemsize(dtype[k]);
      unit[k] = side_by_side ? unit_conversion(to, from) : nullptr;
      place[k] = next;
      next += kBlock * itemsize(target[k]) + kLine;
    }
  }

  // n elements along the innermost dimension from these addresses.
  void run(char* const* at, int64_t n) const {
    alignas(kLine) char room[(kMaxOperands + 1) * (kBlock * 16 + kLine)];
    int last = ndim - 1;
    const char* in[kMaxOperands] = {};
    bool direct[kMaxOperands + 1] = {}, constant[kMaxOperands + 1];
    for (int k = 0; k < operands; k++) {
      int64_t step = strides[k][last], size = itemsize(dtype[k]);
      direct[k] = dtype[k] == target[k] && (step == size || n == 1);
      constant[k] = k > 0 && data[k] && !direct[k] && step == 0;
      if (constant[k])
        convert(target[k], room + place[k], itemsize(target[k]), dtype[k], at[k], 0,
                std::min(n, kBlock));
    }
    bool all_direct = direct[0];
    for (int k = 1; k < operands; k++) all_direct = all_direct && (direct[k] || !data[k]);
    int64_t block = all_direct ? n : kBlock;
    for (int64_t i = 0; i < n; i += block) {
      int64_t m = std::min(block, n - i);
      for (int k = 1; k < operands; k++) {
        if (!data[k]) continue;
        char* from = at[k] + i * strides[k][last];
        if (direct[k]) {
          in[k - 1] = from;
        } else {
          char* block = room + place[k];
          if (unit[k]) unit[k](block, from, m);
          else if (!constant[k])
            convert(target[k], block, itemsize(target[k]), dtype[k], from, strides[k][last], m);
          in[k - 1] = block;
        }
      }
      char* to = at[0] + i * strides[0][last];
      char* out = direct[0] ? to : room + place[0];
      call.lanes(out, in, call.params, m);
      if (direct[0]) continue;
      if (unit[0]) unit[0](to, out, m);
      else convert(dtype[0], to, strides[0][last], target[0], out, itemsize(target[0]), m);
    }
  }

  // Elements [begin, end) in the order of the plan.
  void run_range(int64_t begin, int64_t end) const {
    int last = ndim - 1;
    int64_t index[kMaxDims];
    int64_t rest = begin;
    char* at[kMaxOperands + 1];
    for (int k = 0; k < operands; k++) at[k] = data[k];
    for (int d = last; d >= 0; d--) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int k = 0; k < operands; k++) at[k] += index[d] * strides[k][d];
    }
    while (begin < end) {
      int64_t n = std::min(end - begin, sizes[last] - index[last]);
      run(at, n);
      begin += n;
      if (begin == end) break;
      for (int k = 0; k < operands; k++) at[k] -= index[last] * strides[k][last];
      index[last] = 0;
      for (int d = last - 1; d >= 0; d--) {
        index[d]++;
        for (int k = 0; k < operands; k++) at[k] += strides[k][d];
        if (index[d] < sizes[d]) break;
        for (int k = 0; k < operands; k++) at[k] -= index[d] * strides[k][d];
        index[d] = 0;
      }
    }
  }
};

}  // namespace

void pointwise(const PointwiseCall& call) {
  int64_t total = 1;
  for (int i = 0; i < call.ndim; i++) total *= call.sizes[i];
  if (total == 0) return;
  Plan plan(call);
  parallel_for(total, grain(call.cost),
               [&](int64_t begin, int64_t end) { plan.run_range(begin, end); });
}

namespace {

template <class T>
void repeat_as(char* out, const char* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof v);
  std::fill_n(reinterpret_cast<T*>(out), n, v);
}
void repeat(char* out, const char* value, int64_t size, int64_t n) {
  switch (size) {
    case 1: return repeat_as<uint8_t>(out, value, n);
    case 2: return repeat_as<uint16_t>(out, value, n);
    case 4: return repeat_as<uint32_t>(out, value, n);
    case 8: return repeat_as<uint64_t>(out, value, n);
    default: return repeat_as<c128>(out, value, n);
  }
}

// Runs [begin, end) with the single numbers repeated in a block that stays in the cache.
void run_with_numbers(Lanes lanes, const double* params, char* out, int64_t out_size,
                      const char* const* in, int inputs, unsigned singles, int64_t in_size,
                      int64_t begin, int64_t end) {
  alignas(64) char room[kMaxOperands][kBlock * 16];
  int64_t filled = std::min(end - begin, kBlock);
  const char* part[kMaxOperands];
  for (int k = 0; k < inputs; k++) {
    part[k] = in[k];
    if (!(singles >> k & 1)) continue;
    repeat(room[k], in[k], in_size, filled);
    part[k] = room[k];
  }
  for (int64_t at = begin; at < end; at += kBlock) {
    const char* now[kMaxOperands];
    for (int k = 0; k < inputs; k++)
      now[k] = !part[k] || (singles >> k & 1) ? part[k] : part[k] + at * in_size;
    lanes(out + at * out_size, now, params, std::min(kBlock, end - at));
  }
}

}  // namespace

void pointwise_flat(Lanes lanes, const double* params, char* out, int64_t out_size,
                    const char* const* in, int inputs, unsigned singles, int64_t in_size, int64_t n,
                    double cost) {
  int64_t step = grain(cost);
  if (n <= step) {
    if (!singles) return lanes(out, in, params, n);
    return run_with_numbers(lanes, params, out, out_size, in, inputs, singles, in_size, 0, n);
  }
  parallel_for(n, step, [&](int64_t begin, int64_t end) {
    if (singles)
      return run_with_numbers(lanes, params, out, out_size, in, inputs, singles, in_size, begin,
                              end);
    const char* part[kMaxOperands];
    for (int k = 0; k < inputs; k++) part[k] = in[k] ? in[k] + begin * in_size : nullptr;
    lanes(out + begin * out_size, part, params, end - begin);
  });
}

void add_overlapping(DType dtype, char* into, const int64_t* into_strides, const char* g,
                     const int64_t* g_strides, const int64_t* sizes, int ndim) {
  int64_t total = 1;
  for (int i = 0; i < ndim; i++) total *= sizes[i];
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    int64_t index[kMaxDims] = {};
    T* to = reinterpret_cast<T*>(into);
    const T* from = reinterpret_cast<const T*>(g);
    for (int64_t i = 0; i < total; i++) {
      *to = T(*to + *from);
      for (int d = ndim - 1; d >= 0; d--) {
        to += into_strides[d];
        from += g_strides[d];
        if (++index[d] < sizes[d]) break;
        to -= sizes[d] * into_strides[d];
        from -= sizes[d] * g_strides[d];
        index[d] = 0;
      }
    }
  });
}

}  // namespace rl::cpu
