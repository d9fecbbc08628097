// Padding: a constant, or elements of the tensor itself.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// The last dimension comes first in `pad`: (left, right, top, bottom, ...).
void check_pad(const Var& input, const Ints& pad) {
  check(pad.size() % 2 == 0, "Padding length must be divisible by 2, got ", pad);
  check(pad.size() <= 2 * input.dim(),
        "Padding length should be less than or equal to two times the input dimension but got "
        "padding length ",
        pad.size(), " and input of dimension ", input.dim());
}

struct ConstantPad : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "constant_pad_nd(Tensor input, int[] pad, Number value=0)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "ConstantPadNdBackward0";
  static constexpr auto doc =
      "constant_pad_nd(x, pad, value): framed by a value; negative widths cut off.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& pad, const Var& value) {
    check_pad(input, pad);
    Ints sizes = input.sizes();
    Var from = input;
    int n = input.dim();
    for (int k = 0; k < pad.size() / 2; k++) {
      int d = n - 1 - k;
      int64_t before = pad[2 * k], after = pad[2 * k + 1], size = sizes[d];
      bool overflow = __builtin_add_overflow(size, before, &sizes[d]) ||
                      __builtin_add_overflow(sizes[d], after, &sizes[d]);
      bool cut_all = before < -size || after < -size;
      check(!overflow && !cut_all && sizes[d] >= 0, "The input size ", size,
            ", plus negative padding ", before, " and ", after,
            " resulted in a negative output size, which is invalid. Check "
            "dimension ",
            d, " of your input.");
    }
    if (only_cuts(pad)) return cropped(input, pad);
    Var y = empty_suggested(input.get(), sizes, input.dtype()), into = y;
    ops::copy_data(y.get(), scalar_of(value, input.dtype(), input.device()).get());
    for (int k = 0; k < pad.size() / 2; k++) {
      int d = n - 1 - k;
      int64_t before = pad[2 * k], after = pad[2 * k + 1];
      int64_t skip = std::max<int64_t>(-before, 0), place = std::max<int64_t>(before, 0);
      int64_t kept = from.sizes()[d] - skip - std::max<int64_t>(-after, 0);
      kept = std::max<int64_t>(kept, 0);
      if (kept == 0) return y;
      from = ops::narrow(from, d, skip, kept);
      into = ops::narrow(into, d, place, kept);
    }
    ops::copy_data(into.get(), from.get());
    return y;
  }
  static bool only_cuts(const Ints& pad) {
    for (int64_t width : pad)
      if (width > 0) return false;
    return true;
  }
  static Var cropped(const Var& input, const Ints& pad) {
    Var part = input;
    for (int k = 0; k < pad.size() / 2; k++) {
      int d = input.dim() - 1 - k;
      part = ops::narrow(part, d, -pad[2 * k], part.sizes()[d] + pad[2 * k] + pad[2 * k + 1]);
    }
    return ops::clone(part);
  }
  static void vjp(Back& b, const In&, const Ints& pad, const In&) {
    Ints back = pad;
    for (int i = 0; i < back.size(); i++) back[i] = -back[i];
    b[0] = call<ConstantPad>(b.g(), back, Var(0));
  }
};
RL_OP(ConstantPad)

enum class Mode { Reflect, Replicate, Circular };

// Which element of a dimension each place of the padded one shows.
std::vector<int64_t> sources(int64_t n, int64_t before, int64_t after, Mode mode) {
  std::vector<int64_t> index;
  // Negative widths cut off; what is left goes round and round.
  int64_t first = std::max<int64_t>(-before, 0), left = n - first + std::min<int64_t>(after, 0);
  for (int64_t i = -before; i < n + after; i++) {
    int64_t at = i;
    if (mode == Mode::Reflect) at = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    if (mode == Mode::Replicate) at = std::clamp<int64_t>(i, 0, n - 1);
    if (mode == Mode::Circular) at = first + ((i - first) % left + left) % left;
    index.push_back(at);
  }
  return index;
}

// The same as a tensor.
Var source_index(int64_t n, int64_t before, int64_t after, Mode mode, Device device) {
  if (device.type == Device::Meta) return empty({n + before + after}, DType::I64, device);
  return ops::integers(sources(n, before, after, mode), device);
}

void check_widths(const Var& input, const Ints& pad, Mode mode) {
  int planes = pad.size() / 2, n = input.dim();
  for (int i = n - planes - 1; i < n; i++)
    check(input.sizes()[i] > 0, "Expected ", planes + 1, "D or ", planes + 2,
          "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
          "input, but got: ",
          input.sizes());
  for (int k = 0; k < planes; k++) {
    int64_t size = input.size(-1 - k), before = pad[2 * k], after = pad[2 * k + 1];
    int64_t most = mode == Mode::Reflect ? size - 1 : mode == Mode::Circular ? size : INT64_MAX;
    if (mode == Mode::Reflect)
      check(before <= most && after <= most,
            "Padding size should be less than the corresponding "
            "input dimension, but got: padding (",
            before, ", ", after, ") at dimension ", n - 1 - k, " of input ", input.sizes());
    check(before <= most && after <= most,
          "Padding value causes wrapping around more than once: "
          "padding (",
          before, ", ", after, ") at dimension ", n - 1 - k, " of input ", input.sizes());
    int64_t total;
    bool empty = mode == Mode::Circular &&
                 size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) <= 0;
    bool overflow = __builtin_add_overflow(size, before, &total) ||
                    __builtin_add_overflow(total, after, &total);
    check(!overflow && total >= 1 && !empty, "input of size ", size, " at dimension ", n - 1 - k,
          " is too small for padding (", before, ", ", after,
          "): Calculated output size: ", overflow ? -1 : total);
  }
}

bool only_adds(const Ints& pad) {
  for (int64_t width : pad)
    if (width < 0) return false;
  return true;
}

// The padded tensor `whole` read without the padding of the dimensions from `first` on, the last
// dimension being 0.
Var inner_part(const Var& whole, const Ints& pad, int first) {
  Var part = whole;
  for (int k = first; k < pad.size() / 2; k++) {
    int64_t total = part.size(-1 - k);
    part = ops::narrow(part, -1 - k, pad[2 * k], total - pad[2 * k] - pad[2 * k + 1]);
  }
  return part;
}

// Calls visit(place, source) with the slices of the frame around dimension k and the slices of
// the inside that they show.
template <class Visit>
void each_border(const Var& whole, const Ints& pad, int k, Mode mode, const Visit& visit) {
  if (!has_data(whole.get())) return;
  Var part = inner_part(whole, pad, k + 1);
  int64_t before = pad[2 * k], after = pad[2 * k + 1], total = part.size(-1 - k);
  std::vector<int64_t> index = sources(total - before - after, before, after, mode);
  for (int64_t i = 0; i < total; i++) {
    if (i >= before && i < total - after) continue;
    int64_t from = before + index[size_t(i)];
    visit(ops::select(part, -1 - k, i), ops::select(part, -1 - k, from));
  }
}

// Along every padded dimension in turn, the last one first, slices are copied to the frame.
Var padded(const Var& input, const Ints& pad, Mode mode) {
  Var y = input;
  if (!only_adds(pad)) {
    for (int k = 0; k < pad.size() / 2; k++)
      y = ops::index_select(
          y, -1 - k,
          source_index(input.size(-1 - k), pad[2 * k], pad[2 * k + 1], mode, input.device()));
    return y;
  }
  Ints sizes = input.sizes();
  for (int k = 0; k < pad.size() / 2; k++)
    sizes[input.dim() - 1 - k] += pad[2 * k] + pad[2 * k + 1];
  y = mode == Mode::Circular ? empty(sizes, input.dtype(), input.device())
                             : empty_suggested(input.get(), sizes, input.dtype());
  ops::copy_data(inner_part(y, pad, 0).get(), input.get());
  for (int k = 0; k < pad.size() / 2; k++)
    each_border(y, pad, k, mode, [](const Var& place, const Var& source) {
      ops::copy_data(place.get(), source.get());
    });
  return y;
}

// The other way round: what was copied is added up.
Var folded(const Var& g, const Ints& sizes, const Ints& pad, Mode mode, bool create_graph) {
  if (!create_graph && only_adds(pad)) {
    Var sum = row_major_copy(g);
    for (int k = pad.size() / 2 - 1; k >= 0; k--)
      each_border(sum, pad, k, mode, [](const Var& place, const Var& source) {
        ops::accumulate_into(source.get(), place.get());
      });
    return row_major_copy(inner_part(sum, pad, 0));
  }
  Var sum = g;
  for (int k = pad.size() / 2 - 1; k >= 0; k--) {
    int d = sizes.size() - 1 - k;
    Var at = source_index(sizes[d], pad[2 * k], pad[2 * k + 1], mode, g.device());
    Ints smaller = sum.sizes();
    smaller[d] = sizes[d];
    sum = ops::index_add(ops::zeros(smaller, g.dtype(), g.device()), d, at, sum);
  }
  return sum;
}

#define RL_PAD(Type, name, grad, mode, policy)                                    \
  struct Type : Linear {                                                          \
    static constexpr Stored stored = Stored::Moved;                               \
    static constexpr Autocast autocast = Autocast::policy;                        \
    static constexpr auto signature = name "(Tensor input, int[] padding)";       \
    static constexpr auto grad_name = grad;                                       \
    static Var forward(const Var& input, const Ints& padding) {                   \
      return padded(input, padding, Mode::mode);                                  \
    }                                                                             \
    static void vjp(Back& b, const In& input, const Ints& padding) {              \
      b[0] = folded(b.g(), input.sizes(), padding, Mode::mode, b.create_graph()); \
    }                                                                             \
  };
RL_PAD(ReflectionPad1d, "reflection_pad1d", "ReflectionPad1DBackward0", Reflect, Full)
RL_PAD(ReflectionPad2d, "reflection_pad2d", "ReflectionPad2DBackward0", Reflect, Full)
RL_PAD(ReflectionPad3d, "reflection_pad3d", "ReflectionPad3DBackward0", Reflect, None)
RL_PAD(ReplicationPad1d, "replication_pad1d", "ReplicationPad1DBackward0", Replicate, Full)
RL_PAD(ReplicationPad2d, "replication_pad2d", "ReplicationPad2DBackward0", Replicate, Full)
RL_PAD(ReplicationPad3d, "replication_pad3d", "ReplicationPad3DBackward0", Replicate, Full)
RL_PAD(CircularPad, "circular_pad", "CopySlices", Circular, None)

struct Pad : Composite {
  static constexpr auto signature =
      "pad(Tensor input, int[] pad, str mode='constant', float? value=None)";
  static constexpr auto doc =
      "pad(x, pad, mode, value): framed, the last dimension's two widths first; mode is "
      "'constant', 'reflect', 'replicate' or 'circular'.";
  static constexpr auto module = "nn.functional";
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& pad, const std::string& mode,
                     std::optional<double> value) {
    check_pad(input, pad);
    if (mode == "constant") return call<ConstantPad>(input, pad, Var(value.value_or(0)));
    check(!value || *value == 0, "Padding mode \"", mode, "\" doesn't take in value argument");
    int planes = pad.size() / 2;
    if (planes < 1 || planes > 3 || (input.dim() != planes + 1 && input.dim() != planes + 2))
      fail_as(PyExc_NotImplementedError, "Padding size ", pad.size(), " is not supported for ",
              input.dim(),
              "D input tensor.\nSupported combinations for non-constant padding:\n"
              "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
              "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
              "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)");
    if (mode == "reflect") {
      check_widths(input, pad, Mode::Reflect);
      return planes == 1   ? call<ReflectionPad1d>(input, pad)
             : planes == 2 ? call<ReflectionPad2d>(input, pad)
                           : call<ReflectionPad3d>(input, pad);
    }
    if (mode == "replicate") {
      check_widths(input, pad, Mode::Replicate);
      return planes == 1   ? call<ReplicationPad1d>(input, pad)
             : planes == 2 ? call<ReplicationPad2d>(input, pad)
                           : call<ReplicationPad3d>(input, pad);
    }
    if (mode == "circular") {
      check_widths(input, pad, Mode::Circular);
      return call<CircularPad>(input, pad);
    }
    fail_as(PyExc_NotImplementedError, "Unrecognised padding mode ", mode);
  }
};
RL_OP(Pad)

}  // namespace
}  // namespace rl
