#include "kernels/cpu/correlation.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/correlation_kernels.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

int64_t Axis::reach() const {
  int64_t far = 0;
  for (const Tap& tap : taps) far = std::max(far, tap.offset);
  return far;
}

Correlation correlation_of(const Convolution& c) {
  Correlation r{c.in, c.out, {}, c.in * volume(c.kernel), volume(c.kernel), c.kernel};
  for (int i = 0; i < 3; ++i) {
    r.axes[i] = {c.output[i], c.stride[i], c.padding[i], c.input[i], 0, 1, c.output[i], {}};
    for (int64_t k = 0; k < c.kernel[i]; ++k) r.axes[i].taps.push_back({k, k * c.dilation[i]});
  }
  return r;
}

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The inputs i with (i + padding) % stride == residue: input stride * q + residue - padding gathers
// from the outputs q - (k * dilation - residue) / stride.
Axis transposed_axis(const Convolution& c, int i, int64_t residue) {
  int64_t s = c.stride[i], lag = residue - c.padding[i];
  int64_t begin = -floor_div(lag, s), end = floor_div(c.input[i] - 1 - lag, s) + 1;
  Axis axis{
      std::max<int64_t>(end - begin, 0), 1, 0, c.output[i], begin * s + lag, s, c.input[i], {}};
  for (int64_t k = 0; k < c.kernel[i]; ++k) {
    int64_t ahead = k * c.dilation[i] - residue;
    if (ahead % s == 0) axis.taps.push_back({k, begin - ahead / s});
  }
  for (const Axis::Tap& tap : axis.taps) axis.lead = std::max(axis.lead, -tap.offset);
  for (Axis::Tap& tap : axis.taps) tap.offset += axis.lead;
  return axis;
}

}  // namespace

std::vector<Correlation> transposed_correlations(const Convolution& c) {
  std::vector<Correlation> parts;
  for (int64_t r0 = 0; r0 < c.stride[0]; ++r0)
    for (int64_t r1 = 0; r1 < c.stride[1]; ++r1)
      for (int64_t r2 = 0; r2 < c.stride[2]; ++r2) {
        Correlation part{c.out, c.in, {}, volume(c.kernel), c.in * volume(c.kernel), c.kernel};
        int64_t r[] = {r0, r1, r2};
        for (int i = 0; i < 3; ++i) part.axes[i] = transposed_axis(c, i, r[i]);
        if (part.axes[0].count && part.axes[1].count && part.axes[2].count) parts.push_back(part);
      }
  return parts;
}

namespace {

constexpr int64_t kTasks = 4;                   // at least, of a large convolution
constexpr int64_t kTaskWork = 1 << 18;          // multiplications worth a thread's while
constexpr int64_t kSourceBytes = 256 << 10;     // of padded source in a task: it stays in L2
constexpr int64_t kPanelBytes = 32 << 10;       // of weights between reloads of the sums: L1
constexpr int64_t kWays = 8, kSetBytes = 1024;  // channels this far apart share few cache lines
constexpr int64_t kPixels = 128;                // whose sums are kept together

int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

double work_of(const Correlation& c) {
  return double(c.in * c.out * c.taps()) *
         double(c.axes[0].count * c.axes[1].count * c.axes[2].count);
}

template <class T>
class Runner {
 public:
  Runner(const Correlation& c, const T* w, int64_t w_group, int64_t groups, const T* bias,
         int64_t images)
      : c_(c), groups_(groups), bias_(bias) {
    double padded = double(c.in);
    for (const Axis& a : c.axes) padded *= double((a.count - 1) * a.step + a.reach() + 1);
    if (padded > kMostElements) throw std::bad_alloc();
    depth_ = c.in * c.taps();
    wide_ = pixels_wide(c);
    split_axis_ = c.axes[0].count > 1 ? 0 : c.axes[1].count > 1 ? 1 : 2;
    choose_split(images);
    place_source();
    pack(w, w_group);
  }

  int64_t splits() const { return splits_; }

  // One task: some outputs of one image and group.
  void run(const T* source, int64_t group, int64_t split, T* result) const {
    const Axis& axis = c_.axes[split_axis_];
    int64_t begin = split * axis.count / splits_, end = (split + 1) * axis.count / splits_;
    if (begin == end) return;
    Box box{{0, 0, 0}, {c_.axes[0].count, c_.axes[1].count, c_.axes[2].count}};
    box.begin[split_axis_] = begin, box.count[split_axis_] = end - begin;
    const T* padded = source;
    if (direct_) {
      for (int i = 0; i < 3; ++i) padded += box.begin[i] * c_.axes[i].step * pitch_[i];
    } else {
      padded = pad(source, box);
    }
    if (wide_) run_pixels(padded, box, group, result);
    else run_channels(padded, box, group, result);
  }

 private:
  struct Box {
    Extent begin, count;
  };

  bool pixels_wide(const Correlation& c) const {
    const Axis& row = c.axes[2];
    if (row.step != 1) return false;
    double pixels = double(row.count) / double(blocks_of(row.count, lanes_) * lanes_);
    double channels = double(c.out) / double(blocks_of(c.out, lanes_) * lanes_);
    // A single vector of channels makes a load for every multiplication.
    if (c.out <= lanes_) channels *= 0.7;
    return pixels * double(c.out) / double(blocks_of(c.out, fit_.pixel_rows) * fit_.pixel_rows) >=
           channels;
  }

  void choose_split(int64_t images) {
    const Axis& axis = c_.axes[split_axis_];
    int64_t bytes = c_.in * int64_t(sizeof(T));
    for (const Axis& a : c_.axes) bytes *= (a.count - 1) * a.step + a.reach() + 1;
    splits_ = blocks_of(bytes, kSourceBytes);
    if (work_of(c_) >= double(kTasks * kTaskWork)) splits_ = std::max(splits_, kTasks / images);
    splits_ = std::clamp<int64_t>(splits_, 1, axis.count);
    if (split_axis_ == 2) splits_ = std::min(splits_, std::max<int64_t>(axis.count / 64, 1));
  }

  void place_source() {
    direct_ = true;
    for (const Axis& a : c_.axes)
      direct_ &= a.lead == 0 && (a.count - 1) * a.step + a.reach() < a.source;
    if (wide_) direct_ &= c_.axes[2].count % lanes_ == 0 && splits_at_lanes();
    int64_t whole = int64_t(sizeof(T));
    for (const Axis& a : c_.axes) whole *= a.source;
    direct_ &= c_.in <= kWays || whole % kSetBytes != 0 || c_.axes[2].step > 1;
    const Axis& axis = c_.axes[split_axis_];
    int64_t most = blocks_of(axis.count, splits_);
    for (int i = 0; i < 3; ++i) {
      const Axis& a = c_.axes[i];
      int64_t count = i == split_axis_ ? most : a.count;
      length_[i] = direct_ ? a.source : (count - 1) * a.step + a.reach() + 1;
    }
    pitch_ = {length_[1] * length_[2], length_[2], 1};
    plane_ = length_[0] * pitch_[0];
    if (!direct_ && plane_ * int64_t(sizeof(T)) % kSetBytes == 0) plane_ += lanes_;
    for (int64_t ch = 0; ch < c_.in; ++ch)
      for (const Axis::Tap& a : c_.axes[0].taps)
        for (const Axis::Tap& b : c_.axes[1].taps)
          for (const Axis::Tap& d : c_.axes[2].taps)
            offsets_.push_back(ch * plane_ + a.offset * pitch_[0] + b.offset * pitch_[1] +
                               d.offset);
  }
  bool splits_at_lanes() const { return split_axis_ != 2 || splits_ == 1; }

  // Weights in the order the kernels read them: panels of `rows` outputs, padded with zeros.
  void pack(const T* w, int64_t w_group) {
    int64_t most = wide_ ? fit_.pixel_rows : fit_.channel_vectors * lanes_,
            unit = wide_ ? 1 : lanes_;
    int64_t units = blocks_of(c_.out, unit);
    panels_ = blocks_of(units * unit, most);
    starts_.resize(size_t(panels_ + 1));
    for (int64_t p = 0; p <= panels_; ++p) starts_[size_t(p)] = p * units / panels_ * unit;
    int64_t across = starts_[size_t(panels_)];
    weights_.resize(size_t(groups_ * across * depth_ + 1));
    std::vector<int64_t> taps;
    for (const Axis::Tap& a : c_.axes[0].taps)
      for (const Axis::Tap& b : c_.axes[1].taps)
        for (const Axis::Tap& d : c_.axes[2].taps)
          taps.push_back((a.index * c_.kernel[1] + b.index) * c_.kernel[2] + d.index);
    int64_t count = int64_t(taps.size());
    // Whether the weights of an output lie as they are read: then a panel is a transpose.
    bool in_order = c_.w_in == count;
    for (int64_t t = 0; t < count; ++t) in_order = in_order && taps[size_t(t)] == t;
    parallel_for(groups_ * panels_, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        int64_t g = i / panels_, p = i % panels_, m0 = starts_[size_t(p)],
                width = starts_[size_t(p + 1)] - m0;
        T* out = weights_.data() + (g * across + m0) * depth_;
        int64_t real = std::clamp<int64_t>(c_.out - m0, 0, width);
        if (real < width) std::fill(out, out + width * depth_, T(0));
        const T* rows = w + g * w_group + m0 * c_.w_out;
        if (in_order) {
          constexpr int64_t item = sizeof(T);
          move2d(item, reinterpret_cast<char*>(out), width * item, item,
                 reinterpret_cast<const char*>(rows), item, c_.w_out * item, depth_, real);
          continue;
        }
        for (int64_t m = 0; m < real; ++m) {
          const T* row = rows + m * c_.w_out;
          T* to_row = out + m;
          for (int64_t ch = 0; ch < c_.in; ++ch, row += c_.w_in)
            for (int64_t t = 0; t < count; ++t, to_row += width) *to_row = row[taps[size_t(t)]];
        }
      }
    });
  }
  const T* panel(int64_t group, int64_t p) const {
    return weights_.data() + (group * starts_.back() + starts_[size_t(p)]) * depth_;
  }

  const T* pad(const T* source, const Box& box) const {
    T* padded = workspace<T>(0).reserve(plane_ * c_.in + lanes_);
    const Axis* a = c_.axes;
    Extent from;
    for (int i = 0; i < 3; ++i) from[i] = box.begin[i] * a[i].step - a[i].lead;
    int64_t head = std::clamp<int64_t>(-from[2], 0, length_[2]);
    int64_t stop = std::clamp<int64_t>(a[2].source - from[2], head, length_[2]);
    int64_t lines = length_[0] * length_[1];
    // With what is read behind the last row.
    std::memset(padded, 0, size_t(plane_ * c_.in + lanes_) * sizeof(T));
    for (int64_t ch = 0; ch < c_.in && head < stop; ++ch) {
      T* to = padded + ch * plane_ + head;
      for (int64_t line = 0; line < lines; ++line, to += length_[2]) {
        int64_t y = from[0] + line / length_[1], x = from[1] + line % length_[1];
        if (y < 0 || y >= a[0].source || x < 0 || x >= a[1].source) continue;
        const T* row = source + ((ch * a[0].source + y) * a[1].source + x) * a[2].source;
        std::memcpy(to, row + from[2] + head, size_t(stop - head) * sizeof(T));
      }
    }
    return padded;
  }

  int64_t plane_of_result() const { return c_.axes[0].count * c_.axes[1].count * c_.axes[2].count; }
  // The first element of the box's rows from `row` on: rows of a box follow each other.
  int64_t place(const Box& box, int64_t row) const {
    return (box.begin[0] * c_.axes[1].count + box.begin[1] + row) * c_.axes[2].count + box.begin[2];
  }

  // Lanes are neighbouring pixels of a row.
  void run_pixels(const T* padded, const Box& box, int64_t group, T* result) const {
    const Axis* a = c_.axes;
    int64_t plane = plane_of_result();
    int64_t segments = blocks_of(box.count[2], lanes_), rows = box.count[0] * box.count[1];
    int64_t total = rows * segments;
    for (int64_t t = 0; t < total; t += fit_.pixel_vectors) {
      int vectors = int(std::min<int64_t>(fit_.pixel_vectors, total - t));
      PixelTile<T> tile;
      for (int v = 0; v < vectors; ++v) {
        int64_t row = (t + v) / segments, w = (t + v) % segments * lanes_;
        int64_t d = row / box.count[1], h = row % box.count[1];
        tile.in[v] = padded + d * a[0].step * pitch_[0] + h * a[1].step * pitch_[1] + w;
        tile.out[v] = result + place(box, row) + w;
        tile.lanes[v] = std::min(lanes_, box.count[2] - w);
      }
      tile.plane = plane;
      for (int64_t p = 0; p < panels_; ++p) {
        int64_t m = starts_[size_t(p)], height = starts_[size_t(p + 1)] - m;
        T start[kMostRows];
        for (int64_t r = 0; r < height; ++r)
          start[r] = bias_ ? bias_[group * c_.out + m + r] : T(0);
        pixel_kernel<T>(fit_.wide, int(height), vectors)(depth_, panel(group, p), offsets_.data(),
                                                         start, tile, m * plane);
      }
    }
  }

  // Lanes are channels of the result; the pixels of a row are broadcast.
  void run_channels(const T* padded, const Box& box, int64_t group, T* result) const {
    int64_t rows = box.count[0] * box.count[1], across = box.count[2];
    int64_t together = std::max<int64_t>(kPixels / across, 1);
    for (int64_t p = 0; p < panels_; ++p) {
      int64_t m = starts_[size_t(p)], width = starts_[size_t(p + 1)] - m;
      T start[kMostVectors * kMostBytes / int64_t(sizeof(T))];
      for (int64_t i = 0; i < width; ++i)
        start[i] = bias_ && m + i < c_.out ? bias_[group * c_.out + m + i] : T(0);
      T* sums = workspace<T>(1).reserve(together * across * width);
      for (int64_t r = 0; r < rows; r += together) {
        int64_t stop = std::min(r + together, rows);
        multiply(padded, box, group, p, r, stop, start, sums);
        turn_out<T>(sums, width, (stop - r) * across, std::min(width, c_.out - m),
                    result + m * plane_of_result() + place(box, r), plane_of_result());
      }
    }
  }

  void multiply(const T* padded, const Box& box, int64_t group, int64_t p, int64_t r, int64_t stop,
                const T* start, T* sums) const {
    const Axis* a = c_.axes;
    int64_t width = starts_[size_t(p + 1)] - starts_[size_t(p)], across = box.count[2];
    int vectors = int(width / lanes_);
    int64_t slab = std::max<int64_t>(kPanelBytes / (width * int64_t(sizeof(T))), 16);
    int64_t slabs = blocks_of(depth_, slab);
    int64_t tiles = blocks_of(across, fit_.channel_pixels(vectors));
    for (int64_t s = 0; s < slabs; ++s) {
      int64_t k = s * depth_ / slabs, depth = (s + 1) * depth_ / slabs - k;
      const T* w = panel(group, p) + k * width;
      for (int64_t row = r; row < stop; ++row) {
        const T* in = padded + row / box.count[1] * a[0].step * pitch_[0] +
                      row % box.count[1] * a[1].step * pitch_[1];
        for (int64_t t = 0; t < tiles; ++t) {
          int64_t x = t * across / tiles, pixels = (t + 1) * across / tiles - x;
          channel_kernel<T>(fit_.wide, int(pixels), vectors, a[2].step == 1)(
              depth, in + x * a[2].step, a[2].step, offsets_.data() + k, w,
              s == 0 ? start : nullptr, sums + ((row - r) * across + x) * width);
        }
      }
    }
    if (slabs == 0)
      for (int64_t i = 0; i < (stop - r) * across; ++i)
        std::copy(start, start + width, sums + i * width);
  }

  Blocks fit_{register_bytes() == 64 ? 64 : 32};
  int64_t lanes_ = fit_.bytes / int64_t(sizeof(T));
  Correlation c_;
  int64_t groups_, depth_, panels_ = 0, splits_ = 1, plane_ = 0;
  const T* bias_;
  bool wide_, direct_ = false;
  int split_axis_;
  Extent length_, pitch_;
  std::vector<int64_t> offsets_, starts_;
  AlignedVector<T> weights_;
};

// Puts the rows of parts that share all but their columns where they belong.
template <class T>
void interleave(const Correlation* parts, size_t count, const T* const* from, T* result) {
  const Axis *a = parts[0].axes, &row = a[2];
  bool pairs = count == 2 && row.stride == 2;
  for (int64_t i = 0; i < parts[0].out * a[0].count * a[1].count; ++i) {
    int64_t h = i % a[1].count, d = i / a[1].count % a[0].count, m = i / (a[1].count * a[0].count);
    T* to = result + ((m * a[0].size + a[0].first + d * a[0].stride) * a[1].size + a[1].first +
                      h * a[1].stride) *
                         row.size;
    if (pairs) {
      size_t even = row.first == 0 ? 0 : 1;
      const Axis &e = parts[even].axes[2], &o = parts[1 - even].axes[2];
      zip_rows(from[even] + i * e.count, from[1 - even] + i * o.count, o.count, to);
      if (e.count > o.count) to[2 * o.count] = from[even][i * e.count + o.count];
    } else {
      for (size_t k = 0; k < count; ++k) {
        const Axis& column = parts[k].axes[2];
        for (int64_t j = 0; j < column.count; ++j)
          to[column.first + j * column.stride] = from[k][i * column.count + j];
      }
    }
  }
}

// Parts of a result in steps: each is computed by itself, then all columns of a row are dealt out.
template <class T>
class Strided {
 public:
  Strided(const std::vector<Correlation>& parts, const T* w, int64_t w_group, int64_t groups,
          const T* bias)
      : parts_(parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const Axis *a = parts[i].axes, *before = parts[i ? i - 1 : 0].axes;
      if (i == 0 || a[0].first != before[0].first || a[1].first != before[1].first)
        starts_.push_back(i);
      runners_.emplace_back(parts[i], w, w_group, groups, bias, kTasks);
    }
    starts_.push_back(parts.size());
  }
  int64_t count() const { return int64_t(starts_.size()) - 1; }

  void run(const T* source, int64_t group, int64_t at, T* result) const {
    size_t begin = starts_[size_t(at)], end = starts_[size_t(at) + 1];
    std::vector<int64_t> sizes;
    int64_t total = 0;
    for (size_t i = begin; i < end; ++i) {
      const Axis* a = parts_[i].axes;
      sizes.push_back(parts_[i].out * a[0].count * a[1].count * a[2].count);
      total += sizes.back();
    }
    T* to = workspace<T>(2).reserve(total);
    std::vector<const T*> rows;
    for (size_t i = begin; i < end; ++i) {
      for (int64_t k = 0; k < runners_[i].splits(); ++k) runners_[i].run(source, group, k, to);
      rows.push_back(to);
      to += sizes[i - begin];
    }
    interleave(&parts_[begin], end - begin, rows.data(), result);
    workspace<T>(2).trim();
  }

 private:
  const std::vector<Correlation>& parts_;
  std::vector<Runner<T>> runners_;
  std::vector<size_t> starts_;  // of parts with the same rows
};

}  // namespace

int register_bytes() {
#if defined(__x86_64__)
  return level() == 4 ? 64 : level() == 3 ? 32 : 0;
#else
  return 0;
#endif
}

template <class T>
void correlate(const std::vector<Correlation>& parts, int64_t batch, int64_t groups,
               const T* source, const T* w, int64_t w_group, const T* bias, T* result) {
  const Axis* a = parts[0].axes;
  int64_t in_plane = parts[0].in * a[0].source * a[1].source * a[2].source;
  int64_t out_plane = parts[0].out * a[0].size * a[1].size * a[2].size, images = batch * groups;
  double work = 0;
  for (const Correlation& part : parts) work += work_of(part);
  auto split = [&](int64_t each, const auto& run) {
    int64_t grain = std::max<int64_t>(1, int64_t(double(kTaskWork) / (work / double(each) + 1)));
    parallel_for(images * each, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t image = i / each;
        run.run(source + image * in_plane, image % groups, i % each, result + image * out_plane);
      }
    });
  };
  if (a[0].stride == 1 && a[1].stride == 1 && a[2].stride == 1) {
    Runner<T> runner(parts[0], w, w_group, groups, bias, images);
    split(runner.splits(), runner);
  } else {
    Strided<T> strided(parts, w, w_group, groups, bias);
    split(strided.count(), strided);
  }
}

template void correlate(const std::vector<Correlation>&, int64_t, int64_t, const float*,
                        const float*, int64_t, const float*, float*);
template void correlate(const std::vector<Correlation>&, int64_t, int64_t, const double*,
                        const double*, int64_t, const double*, double*);

}  // namespace rl::cpu
