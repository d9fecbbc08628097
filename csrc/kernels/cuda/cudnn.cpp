#include "kernels/cuda/cudnn.h"

#include <dlfcn.h>

#include <cstring>
#include <unordered_map>

#include "kernels/cuda/kernels.h"

namespace rl::cuda {

bool allow_convolution_tf32 = true;
bool deterministic_convolutions = false;

namespace {

struct HandleObject;
struct TensorObject;
struct FilterObject;
struct ConvolutionObject;
using Handle = HandleObject*;
using TensorDesc = TensorObject*;
using FilterDesc = FilterObject*;
using Desc = ConvolutionObject*;

// An algorithm with what it is expected to cost.
struct Choice {
  int algorithm, status;
  float time;
  size_t memory;
  int deterministic, math, reserved[3];
};

#define RL_CUDNN(X)                                                                                \
  X(version, "cudnnGetVersion", ())                                                                \
  X(create, "cudnnCreate", (Handle * handle))                                                      \
  X(set_stream, "cudnnSetStream", (Handle handle, Stream stream))                                  \
  X(tensor_create, "cudnnCreateTensorDescriptor", (TensorDesc * desc))                             \
  X(tensor_set, "cudnnSetTensorNdDescriptor",                                                      \
    (TensorDesc desc, int type, int dims, const int* sizes, const int* strides))                   \
  X(filter_create, "cudnnCreateFilterDescriptor", (FilterDesc * desc))                             \
  X(filter_set, "cudnnSetFilterNdDescriptor",                                                      \
    (FilterDesc desc, int type, int format, int dims, const int* sizes))                           \
  X(desc_create, "cudnnCreateConvolutionDescriptor", (Desc * desc))                                \
  X(desc_set, "cudnnSetConvolutionNdDescriptor",                                                   \
    (Desc desc, int dims, const int* padding, const int* stride, const int* dilation, int mode,    \
     int compute))                                                                                 \
  X(desc_groups, "cudnnSetConvolutionGroupCount", (Desc desc, int groups))                         \
  X(desc_math, "cudnnSetConvolutionMathType", (Desc desc, int math))                               \
  X(forward_choices, "cudnnGetConvolutionForwardAlgorithm_v7",                                     \
    (Handle handle, TensorDesc x, FilterDesc w, Desc desc, TensorDesc y, int wanted, int* found,   \
     Choice* choices))                                                                             \
  X(data_choices, "cudnnGetConvolutionBackwardDataAlgorithm_v7",                                   \
    (Handle handle, FilterDesc w, TensorDesc y, Desc desc, TensorDesc x, int wanted, int* found,   \
     Choice* choices))                                                                             \
  X(weight_choices, "cudnnGetConvolutionBackwardFilterAlgorithm_v7",                               \
    (Handle handle, TensorDesc x, TensorDesc y, Desc desc, FilterDesc w, int wanted, int* found,   \
     Choice* choices))                                                                             \
  X(forward, "cudnnConvolutionForward",                                                            \
    (Handle handle, const void* alpha, TensorDesc xd, const void* x, FilterDesc wd, const void* w, \
     Desc desc, int algorithm, void* room, size_t bytes, const void* beta, TensorDesc yd,          \
     void* y))                                                                                     \
  X(data, "cudnnConvolutionBackwardData",                                                          \
    (Handle handle, const void* alpha, FilterDesc wd, const void* w, TensorDesc yd, const void* y, \
     Desc desc, int algorithm, void* room, size_t bytes, const void* beta, TensorDesc xd,          \
     void* x))                                                                                     \
  X(weight, "cudnnConvolutionBackwardFilter",                                                      \
    (Handle handle, const void* alpha, TensorDesc xd, const void* x, TensorDesc yd, const void* y, \
     Desc desc, int algorithm, void* room, size_t bytes, const void* beta, FilterDesc wd,          \
     void* w))

struct Cudnn {
#define X(name, symbol, parameters) int(*name) parameters;
  RL_CUDNN(X)
#undef X
} dnn;
Handle handle = nullptr;

bool open_cudnn() {
  static const bool there = [] {
    static const char* const names[] = {"libcudnn.so.9", "libcudnn.so.8", nullptr};
    std::string missing;
    void* library = open_library(library_folders(), names, missing);
    if (!library) return false;
#define X(name, symbol, parameters)                                        \
  dnn.name = reinterpret_cast<decltype(dnn.name)>(dlsym(library, symbol)); \
  if (!dnn.name) return false;
    RL_CUDNN(X)
#undef X
    enter();
    return dnn.create(&handle) == 0;
  }();
  return there;
}

struct Key {
  Convolution c;
  int64_t what;
  bool operator==(const Key& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    const auto* words = reinterpret_cast<const uint64_t*>(&key);
    for (size_t i = 0; i < sizeof key / 8; i++)
      h = (h ^ words[i]) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
    return size_t(h);
  }
};
struct Plan {
  TensorDesc x = nullptr, y = nullptr;
  FilterDesc w = nullptr;
  Desc desc = nullptr;
  Choice choice{};
  bool works = false;
};

bool type_of(DType d, int& type, int& compute) {
  compute = d == DType::F64 ? 1 : 0;
  switch (d) {
    case DType::F32: type = 0; return true;
    case DType::F64: type = 1; return true;
    case DType::F16: type = 2; return true;
    case DType::BF16: type = 9; return true;
    default: return false;
  }
}

constexpr int kTensorMath = 1, kExactMath = 3;  // the latter without TF32
constexpr int kRows = 0, kChannelsLast = 1;
constexpr int kMost = 8;

bool make(Plan& plan, Convolve what, DType d, const Convolution& c) {
  int type, compute;
  if (!type_of(d, type, compute)) return false;
  // Two spatial dimensions at least; a leading one of 1 is left out.
  bool flat = c.input[0] == 1 && c.output[0] == 1 && c.kernel[0] == 1 && c.padding[0] == 0;
  int first = flat ? 1 : 0, spatial = 3 - first, dims = spatial + 2;
  int x[5] = {int(c.batch), int(c.groups * c.in)}, y[5] = {int(c.batch), int(c.groups * c.out)},
      w[5] = {int(c.groups * c.out), int(c.in)}, strides[2][5], padding[3], stride[3], dilation[3];
  for (int i = 0; i < spatial; i++) {
    size_t at = size_t(first + i);
    x[2 + i] = int(c.input[at]);
    y[2 + i] = int(c.output[at]);
    w[2 + i] = int(c.kernel[at]);
    padding[i] = int(c.padding[at]);
    stride[i] = int(c.stride[at]);
    dilation[i] = int(c.dilation[at]);
  }
  for (int k = 0; k < 2; k++) {
    const int* sizes = k ? y : x;
    int64_t step = 1;
    auto lay = [&](int i) {
      strides[k][i] = int(step);
      step *= sizes[i];
    };
    if (c.channels_last) lay(1);
    for (int i = dims - 1; i >= 0; i--)
      if (i != 1 || !c.channels_last) lay(i);
    if (step >= int64_t(1) << 31) return false;
  }
  if (dnn.tensor_create(&plan.x) || dnn.tensor_create(&plan.y) || dnn.filter_create(&plan.w) ||
      dnn.desc_create(&plan.desc) || dnn.tensor_set(plan.x, type, dims, x, strides[0]) ||
      dnn.tensor_set(plan.y, type, dims, y, strides[1]) ||
      dnn.filter_set(plan.w, type, c.channels_last ? kChannelsLast : kRows, dims, w) ||
      dnn.desc_set(plan.desc, spatial, padding, stride, dilation, 1, compute) ||
      dnn.desc_groups(plan.desc, int(c.groups)))
    return false;
  bool exact = d == DType::F32 && !allow_convolution_tf32, half = itemsize(d) == 2;
  if (dnn.desc_math(plan.desc, exact ? kExactMath : half ? kTensorMath : 0)) return false;
  Choice choices[kMost];
  int found = 0;
  int status =
      what == Convolve::Forward
          ? dnn.forward_choices(handle, plan.x, plan.w, plan.desc, plan.y, kMost, &found, choices)
      : what == Convolve::Data
          ? dnn.data_choices(handle, plan.w, plan.y, plan.desc, plan.x, kMost, &found, choices)
          : dnn.weight_choices(handle, plan.x, plan.y, plan.desc, plan.w, kMost, &found, choices);
  if (status != 0) return false;
  // The best, or where that is asked for the best that gives the same result every time.
  const Choice* best = nullptr;
  for (int i = 0; i < found; i++) {
    const Choice& one = choices[i];
    if (one.status != 0 || one.memory > size_t(2) << 30) continue;
    if (!best || (deterministic_convolutions && one.deterministic && !best->deterministic))
      best = &one;
  }
  if (!best) return false;
  plan.choice = *best;
  return dnn.desc_math(plan.desc, exact ? kExactMath : best->math) == 0;
}

}  // namespace

int64_t cudnn_version() { return is_started() && open_cudnn() ? int64_t(dnn.version()) : 0; }

bool convolve_by_library(Convolve what, DType d, const Convolution& c, const void* x, const void* w,
                         const void* y) {
  if (!open_cudnn()) return false;
  Key key;
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  key.c = c;
  key.what = int64_t(what) | int64_t(d) << 8 | int64_t(allow_convolution_tf32) << 16 |
             int64_t(deterministic_convolutions) << 17;
  static auto* plans = new std::unordered_map<Key, Plan, Hash>;
  auto [found, fresh] = plans->try_emplace(key);
  Plan& plan = found->second;
  enter();
  if (fresh) plan.works = make(plan, what, d, c);
  if (!plan.works) return false;
  dnn.set_stream(handle, stream);
  Scratch room(int64_t(plan.choice.memory) + 1);
  double one[] = {1, 0};
  float single[] = {1, 0};
  bool wide = d == DType::F64;
  const void* alpha = wide ? static_cast<const void*>(&one[0]) : &single[0];
  const void* beta = wide ? static_cast<const void*>(&one[1]) : &single[1];
  int how = plan.choice.algorithm;
  void* to = room.get<void>();
  size_t bytes = plan.choice.memory;
  int status = 0;
  switch (what) {
    case Convolve::Forward:
      status = dnn.forward(handle, alpha, plan.x, x, plan.w, w, plan.desc, how, to, bytes, beta,
                           plan.y, const_cast<void*>(y));
      break;
    case Convolve::Data:
      status = dnn.data(handle, alpha, plan.w, w, plan.y, y, plan.desc, how, to, bytes, beta,
                        plan.x, const_cast<void*>(x));
      break;
    case Convolve::Weight:
      status = dnn.weight(handle, alpha, plan.x, x, plan.y, y, plan.desc, how, to, bytes, beta,
                          plan.w, const_cast<void*>(w));
      break;
  }
  if (status != 0) plan.works = false;  // ours computes it, from now on
  return status == 0;
}

}  // namespace rl::cuda
