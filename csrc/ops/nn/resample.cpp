#include "ops/nn/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {

namespace {

// Input elements for each output element.
template <class R>
R ratio(int64_t input, int64_t output, bool align_corners, std::optional<double> scale) {
  if (align_corners) return output > 1 ? R(input - 1) / R(output - 1) : R(0);
  return scale && *scale > 0 ? R(1 / *scale) : R(input) / R(output);
}

// Where the middle of output j lies in the input.
template <class R>
R source(R step, int64_t j, bool align_corners) {
  return align_corners ? step * R(j) : step * (R(j) + R(0.5)) - R(0.5);
}

template <class R>
void add_linear(kernel::AxisMap& axis, R at) {
  at = std::max(at, R(0));
  int64_t low = std::min(int64_t(at), axis.input - 1), high = std::min(low + 1, axis.input - 1);
  R share = std::clamp(at - R(low), R(0), R(1));
  axis.add(low, double(R(1) - share));
  axis.add(high, double(share));
}

// Keys' cubic kernel with parameter a.
template <class R>
R cubic(R x, R a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : R(0);
}

template <class R>
void add_cubic(kernel::AxisMap& axis, R at) {
  R low = std::floor(at), t = at - low;
  for (int k = -1; k <= 2; k++)
    axis.add(std::clamp<int64_t>(int64_t(low) + k, 0, axis.input - 1),
             double(cubic(R(k) - t, R(-0.75))));
}

template <class R>
R lanczos(R x) {
  if (x == 0) return 1;
  if (std::abs(x) >= 3) return 0;
  R p = x * std::numbers::pi_v<R>;
  return 3 * std::sin(p) * std::sin(p / 3) / (p * p);
}

template <class R>
R filter(Resampling how, R x) {
  if (how == Resampling::LinearAa) return std::max(R(1) - std::abs(x), R(0));
  return how == Resampling::CubicAa ? cubic(x, R(-0.5)) : lanczos(x);
}

// A filter that widens with the step, so that no input element is skipped.
template <class R>
void add_filtered(kernel::AxisMap& axis, Resampling how, R step, int64_t j) {
  R reach = how == Resampling::LinearAa ? R(1) : how == Resampling::CubicAa ? R(2) : R(3);
  R widened = std::max(step, R(1)), support = reach * widened, center = step * (R(j) + R(0.5));
  int64_t begin = std::max<int64_t>(int64_t(center - support + R(0.5)), 0);
  int64_t end = std::min<int64_t>(int64_t(center + support + R(0.5)), axis.input);
  R total = 0;
  for (int64_t i = begin; i < end; i++) total += filter(how, (R(i) - center + R(0.5)) / widened);
  for (int64_t i = begin; i < end; i++) {
    R weight = filter(how, (R(i) - center + R(0.5)) / widened);
    axis.add(i, double(total != 0 ? weight / total : weight));
  }
}

template <class R>
kernel::AxisMap resampled(Resampling how, int64_t input, int64_t output, bool align_corners,
                          std::optional<double> scale) {
  kernel::AxisMap axis(input, output);
  R step = ratio<R>(input, output, align_corners, scale);
  for (int64_t j = 0; j < output; j++) {
    if (how <= Resampling::NearestExact) {
      R at = how == Resampling::Nearest ? step * R(j) : step * (R(j) + R(0.5));
      int64_t i = std::min(int64_t(std::floor(float(at))), input - 1);
      axis.add_window(i, i + 1);
      continue;
    }
    R at = source(step, j, align_corners);
    if (how == Resampling::Linear) add_linear(axis, at);
    else if (how == Resampling::Cubic) add_cubic(axis, at);
    else add_filtered(axis, how, step, j);
    axis.close();
  }
  return axis;
}

}  // namespace

kernel::AxisMap resampling(Resampling how, int64_t input, int64_t output, bool align_corners,
                           std::optional<double> scale, bool precise) {
  auto make = precise ? resampled<double> : resampled<float>;
  return make(how, input, output, align_corners, scale);
}

}  // namespace rl
