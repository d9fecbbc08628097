// Normalisation of channels: [batch, channels, inner]. Those that share statistics are a line, which
// several blocks share.
#include <algorithm>
#include <string>

#include "kernels/cuda/channel_rows.h"
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

namespace {

constexpr char kText[] = R"(
struct Shape {
  int64 batch, channels, inner, groups;
};
struct Place {
  int64 line, rest;
};
// i / n and i % n; most often both fit 32 bits, which are divided ten times as fast.
__device__ inline Place divided(int64 i, int64 n) {
  Place p;
  if (((i | n) >> 32) == 0) {
    p.line = uint32(i) / uint32(n);
    p.rest = uint32(i) - uint32(p.line) * uint32(n);
  } else {
    p.line = i / n;
    p.rest = i - p.line * n;
  }
  return p;
}
// Element k of those that share statistics: of a channel, or of a group of one image.
struct Line {
  int64 start, n, step, run;
  __device__ int64 at(int64 k) const {
    Place p = divided(k, run);
    return start + p.line * step + p.rest;
  }
};
__device__ inline Line channel(const Shape& s, int64 c) {
  Line l = {c * s.inner, s.batch * s.inner, s.channels * s.inner, s.inner};
  return l;
}
__device__ inline Line line(const Shape& s, int64 at) {
  if (!s.groups) return channel(s, at);
  int64 n = s.channels / s.groups * s.inner;
  Line l = {at * n, n, n, n};
  return l;
}
// The part of a line that a block has, in runs of LANES elements: [begin, end).
struct Range {
  int64 begin, end;
};
__device__ inline Range part(const Line& l) {
  int64 n = l.n / LANES, each = (n + gridDim.y - 1) / gridDim.y;
  Range r = {each * blockIdx.y, each * blockIdx.y + each};
  if (r.begin > n) r.begin = n;
  if (r.end > n) r.end = n;
  return r;
}
template <class V, int N> struct alignas(sizeof(V) * N) Vector { V x[N]; };
typedef Vector<T, LANES> Lanes;
__device__ inline Lanes run(const T* x, int64 at) { return *(const Lanes*)(x + at); }

// The count, the mean and the sum of squares about it, of every part of a line.
extern "C" __global__ void moments(const T* x, A* parts, Shape s) {
  Line l = line(s, blockIdx.x);
  Range r = part(l);
  A sum = 0, squares = 0;
  for (int64 k = r.begin + threadIdx.x; k < r.end; k += blockDim.x) {
    Lanes v = run(x, l.at(k * LANES));
    for (int e = 0; e < LANES; e++) sum += A(v.x[e]);
  }
  A n = A((r.end - r.begin) * LANES), mean = n == 0 ? A(0) : block_all(sum, A(0), Plus()) / n;
  for (int64 k = r.begin + threadIdx.x; k < r.end; k += blockDim.x) {
    Lanes v = run(x, l.at(k * LANES));
    for (int e = 0; e < LANES; e++) {
      A c = A(v.x[e]) - mean;
      squares += c * c;
    }
  }
  squares = block_all(squares, A(0), Plus());
  if (threadIdx.x != 0) return;
  A* to = parts + 3 * (int64(blockIdx.x) * gridDim.y + blockIdx.y);
  to[0] = n;
  to[1] = mean;
  to[2] = squares;
}
struct Moments {
  double n, mean, squares;
};
struct Join {
  __device__ Moments operator()(Moments a, Moments b) const {
    Moments all = {a.n + b.n, a.mean, a.squares};
    if (b.n == 0) return all;
    double apart = b.mean - a.mean;
    all.mean += apart * b.n / all.n;
    all.squares += b.squares + apart * apart * a.n * b.n / all.n;
    return all;
  }
};
// A warp for every line joins its parts.
extern "C" __global__ void statistics(const A* parts, int count, A* mean, A* rstd, A* variance,
                                      int64 lines, double eps) {
  int64 i = thread_number() / 32;
  if (i >= lines) return;
  Moments all = {0, 0, 0};
  for (int k = threadIdx.x & 31; k < count; k += 32) {
    const A* of = parts + 3 * (i * count + k);
    Moments one = {double(of[0]), double(of[1]), double(of[2])};
    all = Join()(all, one);
  }
  all = warp_all(all, Join());
  if (threadIdx.x & 31) return;
  double v = all.squares / all.n;
  mean[i] = A(all.mean);
  rstd[i] = A(1 / sqrt(v + eps));
  if (variance) variance[i] = A(v);
}
__device__ inline int64 line_of(const Shape& s, Place plane) {
  Place p = divided(plane.line, s.channels);
  return s.groups ? p.line * s.groups + p.rest / (s.channels / s.groups) : p.rest;
}
// LANES elements of one plane at a time.
extern "C" __global__ void normalize(const T* x, const A* w, const A* b, const A* mean,
                                     const A* rstd, T* y, Shape s) {
  typedef Lanes V;
  RL_EACH(i, s.batch * s.channels * s.inner / LANES) {
    Place plane = divided(i * LANES, s.inner);
    int64 c = divided(plane.line, s.channels).rest, l = line_of(s, plane);
    A m = mean[l], r = rstd[l], scale = w ? w[c] : A(1), shift = b ? b[c] : A(0);
    V v = ((const V*)x)[i];
    for (int e = 0; e < LANES; e++) v.x[e] = T((A(v.x[e]) - m) * r * scale + shift);
    ((V*)y)[i] = v;
  }
}
// For each part of a line the sums of g * w and of g * w * (x - mean); w is null for channels.
extern "C" __global__ void sums(const T* g, const T* x, const A* w, const A* mean, A* parts,
                                Shape s) {
  Line l = line(s, blockIdx.x);
  Range r = part(l);
  A m = mean[blockIdx.x], sum = 0, dot = 0;
  for (int64 k = r.begin + threadIdx.x; k < r.end; k += blockDim.x) {
    int64 at = l.at(k * LANES);
    Lanes from = run(g, at), of = run(x, at);
    A scale = w ? w[divided(divided(at, s.inner).line, s.channels).rest] : A(1);
    for (int e = 0; e < LANES; e++) {
      A v = A(from.x[e]) * scale;
      sum += v;
      dot += v * (A(of.x[e]) - m);
    }
  }
  sum = block_all(sum, A(0), Plus());
  dot = block_all(dot, A(0), Plus());
  if (threadIdx.x != 0) return;
  A* to = parts + 2 * (int64(blockIdx.x) * gridDim.y + blockIdx.y);
  to[0] = sum;
  to[1] = dot;
}
// Joins them; of channels they are the gradients of weight and bias too.
extern "C" __global__ void join_sums(const A* parts, int count, const A* w, const A* rstd, A* out,
                                     A* gw, A* gb, int64 lines) {
  int64 i = thread_number() / 32;
  if (i >= lines) return;
  double sum = 0, dot = 0;
  for (int k = threadIdx.x & 31; k < count; k += 32) {
    sum += double(parts[2 * (i * count + k)]);
    dot += double(parts[2 * (i * count + k) + 1]);
  }
  sum = warp_all(sum, Plus());
  dot = warp_all(dot, Plus());
  if (threadIdx.x & 31) return;
  double factor = w ? double(w[i]) : 1;
  out[2 * i] = A(sum * factor);
  out[2 * i + 1] = A(dot * factor);
  if (gw) gw[i] = A(dot * double(rstd[i]));
  if (gb) gb[i] = A(sum);
}
// Of groups: a block for every channel.
extern "C" __global__ void weight_gradients(const T* g, const T* x, const A* mean, const A* rstd,
                                            A* gw, A* gb, Shape s) {
  Line l = channel(s, blockIdx.x);
  A weight = 0, bias = 0;
  for (int64 k = threadIdx.x; k < l.n; k += blockDim.x) {
    int64 at = l.at(k), of = line_of(s, divided(at, s.inner));
    A v = A(g[at]);
    weight += v * (A(x[at]) - mean[of]) * rstd[of];
    bias += v;
  }
  weight = block_all(weight, A(0), Plus());
  bias = block_all(bias, A(0), Plus());
  if (threadIdx.x != 0) return;
  if (gw) gw[blockIdx.x] = weight;
  if (gb) gb[blockIdx.x] = bias;
}
extern "C" __global__ void input_gradient(const T* g, const T* x, const A* w, const A* mean,
                                          const A* rstd, const A* sums, T* gx, Shape s, int given) {
  typedef Lanes V;
  int64 n = s.groups ? s.channels / s.groups * s.inner : s.batch * s.inner;
  RL_EACH(i, s.batch * s.channels * s.inner / LANES) {
    Place plane = divided(i * LANES, s.inner);
    int64 c = divided(plane.line, s.channels).rest, l = line_of(s, plane);
    A r = rstd[l], scale = w ? w[c] : A(1), m = mean[l], shift = 0, slope = 0;
    if (!given) {
      shift = sums[2 * l] / A(n);
      slope = sums[2 * l + 1] * r * r / A(n);
    }
    V v = ((const V*)g)[i], of = ((const V*)x)[i];
    for (int e = 0; e < LANES; e++)
      v.x[e] = T(r * (A(v.x[e]) * scale - shift - (A(of.x[e]) - m) * slope));
    ((V*)gx)[i] = v;
  }
}
)";

struct Shape {
  int64_t batch, channels, inner, groups;
};

const std::string& text_of(int lanes) {
  static const std::string texts[] = {std::string("#define LANES 1\n") + kText,
                                      std::string("#define LANES 4\n") + kText};
  return texts[lanes == 4];
}

// Four elements of a plane at a time, where they lie at multiples of their size.
Function spread(const char* name, DType d, const Shape& s, uint64_t addresses, int& lanes) {
  static Kernel all[] = {
      {text_of(1).c_str(), "normalize"},      {text_of(4).c_str(), "normalize"},
      {text_of(1).c_str(), "input_gradient"}, {text_of(4).c_str(), "input_gradient"},
      {text_of(1).c_str(), "moments"},        {text_of(4).c_str(), "moments"},
      {text_of(1).c_str(), "sums"},           {text_of(4).c_str(), "sums"}};
  lanes = s.inner % 4 == 0 && addresses % uint64_t(4 * itemsize(d)) == 0 ? 4 : 1;
  int which = name[0] == 'n' ? 0 : name[0] == 'i' ? 2 : name[0] == 'm' ? 4 : 6;
  return all[which + (lanes == 4)].of(d);
}

// How many blocks share a line: enough to fill the device, each with some thousand elements.
int parts_of(int64_t lines, int64_t n) {
  int64_t wanted = (int64_t(multiprocessors()) * 8 + lines - 1) / std::max<int64_t>(lines, 1);
  return int(std::clamp<int64_t>(std::min(wanted, n / 2048), 1, 512));
}

// Channels that lie innermost.
bool in_rows(const Shape& s) { return s.inner == 1 && !s.groups; }

void normalize_all(DType d, const void* x, const void* w, const void* b, const void* mean,
                   const void* rstd, void* y, const Shape& s) {
  int64_t n = s.batch * s.channels * s.inner;
  if (!n) return;
  if (in_rows(s)) return rows::normalize(d, x, w, b, mean, rstd, y, s.batch, s.channels);
  int lanes;
  Function f = spread("normalize", d, s, uint64_t(x) | uint64_t(y), lanes);
  launch(f, grid_for(n / lanes, 256), 256, x, w, b, mean, rstd, y, s);
}

void forward(DType d, const void* x, const void* w, const void* b, void* y, void* mean, void* rstd,
             void* variance, const Shape& s, double eps) {
  static Kernel statistics(text_of(1).c_str(), "statistics");
  int64_t lines = s.groups ? s.batch * s.groups : s.channels, n = s.batch * s.channels * s.inner;
  if (!lines) return;
  bool turned = in_rows(s);
  int count = turned ? rows::parts(d, s.batch, s.channels) : parts_of(lines, n / lines);
  Scratch parts(lines * count * 3 * 8);
  int lanes;
  if (turned) rows::moments(d, x, parts.get<void>(), count, s.batch, s.channels);
  else
    launch(spread("moments", d, s, uint64_t(x), lanes), {unsigned(lines), unsigned(count)}, 256, x,
           parts.get<void>(), s);
  launch(statistics.of(d), grid_for(lines * 32, 128), 128, parts.get<void>(), count, mean, rstd,
         variance, lines, eps);
  normalize_all(d, x, w, b, mean, rstd, y, s);
}

void backward(DType d, const void* g, const void* x, const void* w, const void* mean,
              const void* rstd, void* gx, void* gw, void* gb, const Shape& s, bool given) {
  static Kernel join(text_of(1).c_str(), "join_sums"),
      weights(text_of(1).c_str(), "weight_gradients");
  int64_t lines = s.groups ? s.batch * s.groups : s.channels, n = s.batch * s.channels * s.inner;
  if (!lines) return;
  bool apart = s.groups && (gw || gb), turned = in_rows(s);
  if (apart) launch(weights.of(d), {unsigned(s.channels)}, 256, g, x, mean, rstd, gw, gb, s);
  Scratch room(lines * 16);
  if ((gx && !given) || (!s.groups && (gw || gb))) {
    int count = turned ? rows::parts(d, s.batch, s.channels) : parts_of(lines, n / lines);
    Scratch parts(lines * count * 2 * 8);
    const void* none = nullptr;
    void* no_gradient = nullptr;
    int lanes;
    if (turned) rows::sums(d, g, x, mean, parts.get<void>(), count, s.batch, s.channels);
    else
      launch(spread("sums", d, s, uint64_t(g) | uint64_t(x), lanes),
             {unsigned(lines), unsigned(count)}, 256, g, x, s.groups ? w : none, mean,
             parts.get<void>(), s);
    launch(join.of(d), grid_for(lines * 32, 128), 128, parts.get<void>(), count,
           s.groups ? none : w, rstd, room.get<void>(), apart ? no_gradient : gw,
           apart ? no_gradient : gb, lines);
  }
  if (!gx || !n) return;
  if (turned)
    return rows::input_gradient(d, g, x, w, mean, rstd, room.get<void>(), gx, s.batch, s.channels,
                                given);
  int lanes;
  Function f = spread("input_gradient", d, s, uint64_t(g) | uint64_t(x) | uint64_t(gx), lanes);
  launch(f, grid_for(n / lanes, 256), 256, g, x, w, mean, rstd, room.get<void>(), gx, s,
         int(given));
}

Shape shape(const ChannelShape& s, int64_t groups) {
  return {s.batch, s.channels, s.inner, groups};
}

}  // namespace

void batch_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, void* variance, ChannelShape s, double eps) {
  forward(d, x, w, b, y, mean, rstd, variance, shape(s, 0), eps);
}
void batch_norm_given(DType d, const void* x, const void* w, const void* b, const void* mean,
                      const void* rstd, void* y, ChannelShape s) {
  normalize_all(d, x, w, b, mean, rstd, y, shape(s, 0));
}
void batch_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         bool given) {
  backward(d, g, x, w, mean, rstd, gx, gw, gb, shape(s, 0), given);
}
void group_norm(DType d, const void* x, const void* w, const void* b, void* y, void* mean,
                void* rstd, ChannelShape s, int64_t groups, double eps) {
  forward(d, x, w, b, y, mean, rstd, nullptr, shape(s, groups), eps);
}
void group_norm_backward(DType d, const void* g, const void* x, const void* w, const void* mean,
                         const void* rstd, void* gx, void* gw, void* gb, ChannelShape s,
                         int64_t groups) {
  backward(d, g, x, w, mean, rstd, gx, gw, gb, shape(s, groups), false);
}

}  // namespace rl::cuda
