// Limits. The gradient passes at the limits themselves; a NaN anywhere wins.
#include "call/op.h"
#include "call/pointwise.h"

namespace rl {

using namespace math;

namespace {

struct ClampMinKernel : Hidden<ClampMinKernel, 2> {
  static constexpr auto name = "clamp_min";
  static constexpr auto doc = "clamp_min(x, min): x, but at least min.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V low) {
    return where(either(x < low, isnan(low)), low, x);
  }
  template <class V> static V partial0(V x, V low, V) { return where(x >= low, V(1), V(0)); }
  template <class V> static V partial1(V x, V low, V) { return where(x < low, V(1), V(0)); }
};
RL_POINTWISE(ClampMinKernel)

struct ClampMaxKernel : Hidden<ClampMaxKernel, 2> {
  static constexpr auto name = "clamp_max";
  static constexpr auto doc = "clamp_max(x, max): x, but at most max.";
  static constexpr Types types = Types::RealBool;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::A | Save::B, Save::A | Save::B};
  template <class V> static V value(V x, V high) {
    return where(either(x > high, isnan(high)), high, x);
  }
  template <class V> static V partial0(V x, V high, V) { return where(x <= high, V(1), V(0)); }
  template <class V> static V partial1(V x, V high, V) { return where(x > high, V(1), V(0)); }
};
RL_POINTWISE(ClampMaxKernel)

struct ClampKernel : Hidden<ClampKernel, 3> {
  static constexpr auto name = "clamp";
  static constexpr auto signature = "_clamp(Tensor input, Tensor min, Tensor max)";
  static constexpr auto doc = "clamp(x, min, max): x, but at least min and at most max.";
  static constexpr Types types = Types::Real;
  static constexpr bool selects = true;
  static constexpr Save all = Save::A | Save::B | Save::C;
  static constexpr Save saves[] = {all, all, all};
  template <class V> static V value(V x, V low, V high) {
    return ClampMaxKernel::value(ClampMinKernel::value(x, low), high);
  }
  template <class V> static V partial0(V x, V low, V high, V) {
    return where(both(x >= low, x <= high), V(1), V(0));
  }
  template <class V> static V partial1(V x, V low, V high, V) {
    return where(both(x < low, low < high), V(1), V(0));
  }
  template <class V> static V partial2(V x, V low, V high, V) {
    return where(either(x > high, high < low), V(1), V(0));
  }
};
RL_POINTWISE(ClampKernel)

// torch names the node after the op and the kind of the limits.
enum Limits { Both, Low, High, LowOnly, HighOnly };
const Pointwise& kernel(Limits limits, bool numbers) {
  const Pointwise &both = pointwise_info<ClampKernel>(), &low = pointwise_info<ClampMinKernel>(),
                  &high = pointwise_info<ClampMaxKernel>();
  static const Pointwise kernels[][2] = {
      {renamed(both, "ClampBackward0"), renamed(both, "ClampBackward1")},
      {renamed(low, "ClampBackward0"), renamed(low, "ClampBackward1")},
      {renamed(high, "ClampBackward0"), renamed(high, "ClampBackward1")},
      {renamed(low, "ClampMinBackward1"), renamed(low, "ClampMinBackward0")},
      {renamed(high, "ClampMaxBackward1"), renamed(high, "ClampMaxBackward0")},
  };
  return kernels[limits][numbers];
}

Var limit(Limits limits, const Var& input, const Var& a, const Var& b, Tensor* into, bool inplace) {
  const Var in[] = {input, a, b};
  bool numbers = true;
  for (const Var& v : in) {
    if (!v) continue;
    if (is_complex(v.dtype()))
      fail_as(PyExc_NotImplementedError, "clamp is not supported for complex types, got ",
              name(v.dtype()));
    numbers = numbers && (&v == in || v->wrapped_number);
  }
  return run_pointwise(kernel(limits, numbers), in, nullptr, into, inplace);
}

struct Clamp : Composite {
  static constexpr auto signature =
      "clamp(Tensor input, Tensor|Number? min=None, Tensor|Number? max=None)";
  static constexpr auto doc =
      "clamp(x, min, max): x, but at least min and at most max; each a number, a tensor or None.";
  static constexpr bool inplace = true;
  static Var run(const Var& input, const Var& min, const Var& max, Tensor* into, bool inplace) {
    check(min || max, "torch.clamp: At least one of 'min' or 'max' must not be None");
    if (!max) return limit(Low, input, min, {}, into, inplace);
    if (!min) return limit(High, input, max, {}, into, inplace);
    return limit(Both, input, min, max, into, inplace);
  }
  static Var forward(const Var& input, const Var& min, const Var& max) {
    return run(input, min, max, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& min, const Var& max) {
    run(input, min, max, into, inplace);
  }
};
RL_OP(Clamp)

struct Clip : Clamp {
  static constexpr auto signature =
      "clip(Tensor input, Tensor|Number? min=None, Tensor|Number? max=None)";
};
RL_OP(Clip)

struct ClampMin : Composite {
  static constexpr auto signature = "clamp_min(Tensor input, Tensor|Number min)";
  static constexpr auto doc = "clamp_min(x, min): x, but at least min.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& min) {
    return limit(LowOnly, input, min, {}, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& min) {
    limit(LowOnly, input, min, {}, into, inplace);
  }
};
RL_OP(ClampMin)

struct ClampMax : Composite {
  static constexpr auto signature = "clamp_max(Tensor input, Tensor|Number max)";
  static constexpr auto doc = "clamp_max(x, max): x, but at most max.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input, const Var& max) {
    return limit(HighOnly, input, max, {}, nullptr, false);
  }
  static void into(Tensor* into, bool inplace, const Var& input, const Var& max) {
    limit(HighOnly, input, max, {}, into, inplace);
  }
};
RL_OP(ClampMax)

}  // namespace
}  // namespace rl
