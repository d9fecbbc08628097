// How gamma and beta variates move with their parameters: derivatives of the distribution function
// over the density. Both are integrals from the variate outwards, away from the mode, of the
// density's derivative; in log t (or the logit of t) the integrand falls off smoothly, and the
// rule of Mori for half-lines gives 11 digits or more with these nodes.
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/variates.h"

namespace rl::cpu {
namespace {

constexpr int kNodes = 97;
struct Nodes {
  double at[kNodes], weight[kNodes];
  Nodes() {
    const double step = 1.0 / 12;
    for (int i = 0; i < kNodes; i++) {
      double t = (i - 43) * step, e = std::exp(-t);
      at[i] = std::exp(t - e);
      weight[i] = step * at[i] * (1 + e);
    }
  }
};
const Nodes& nodes() {
  static const Nodes all;
  return all;
}

// The length over which exp(-slope * s - curvature * s * s / 2) falls.
double fall(double slope, double curvature) {
  slope = std::fmax(slope, 0);
  return 2 / (slope + std::sqrt(slope * slope + 2 * curvature));
}

// polygamma(m, a + 1) - polygamma(m, a)
double psi_step(int m, double a) {
  double term = 1 / a;
  for (int i = 1; i <= m; i++) term *= -i / a;
  return term;
}

struct GammaSlope {
  int order;
  double psi[kSlopeOrder];

  double ratio(double log_t) const {
    if (order == 1) return log_t - psi[0];
    return density_ratio<double>(order, 0,
                                 [&](int p, int) { return p == 1 ? log_t - psi[0] : -psi[p - 1]; });
  }
  double integral(double a, double x) const {
    double sign = x <= a ? -1 : 1, scale = fall(std::fabs(a - x), x), log_x = std::log(x);
    double sum = 0;
    for (int i = 0; i < kNodes; i++) {
      double s = sign * scale * nodes().at[i], e = std::exp(a * s - x * std::expm1(s));
      if (e > 0) sum += nodes().weight[i] * e * ratio(log_x + s);
    }
    return -sign * x * scale * sum;
  }
  // Near 0 with a shape below 1 the integral is over many scales: F(a) is F(a + 1) and a rest.
  double value(double a, double x) {
    if (!(a > 0 && x > 0 && std::isfinite(a) && std::isfinite(x))) return x == 0 && a > 0 ? 0 : NAN;
    if (a >= 1 || x >= 1) return integral(a, x);
    for (int m = 0; m < order; m++) psi[m] += psi_step(m, a);
    return x / a * (integral(a + 1, x) + ratio(std::log(x)));
  }
};

struct BetaSlope {
  int j, k;
  double psi_a[kSlopeOrder], psi_b[kSlopeOrder], psi_sum[kSlopeOrder];

  double ratio(double log_t, double log_rest) const {
    if (j == 1 && k == 0) return log_t - psi_a[0] + psi_sum[0];
    if (j == 0 && k == 1) return log_rest - psi_b[0] + psi_sum[0];
    return density_ratio<double>(j, k, [&](int p, int q) {
      double l = psi_sum[p + q - 1];
      if (q == 0) l -= psi_a[p - 1];
      if (p == 0) l -= psi_b[q - 1];
      return l + (p == 1 && q == 0 ? log_t : 0) + (p == 0 && q == 1 ? log_rest : 0);
    });
  }
  double integral(double a, double b, double x, double y) const {
    double scale = fall(a * y - b * x, (a + b) * x * y);
    double log_x = std::log(x), log_y = std::log(y), sum = 0;
    for (int i = 0; i < kNodes; i++) {
      double s = scale * nodes().at[i], z = std::log1p(x * std::expm1(-s));
      double e = std::exp(-a * (s + z) - b * z);
      if (e > 0) sum += nodes().weight[i] * e * ratio(log_x - s - z, log_y - z);
    }
    return x * y * scale * sum;
  }
  // From 0 to x = 1 - y.
  double lower(double a, double b, double x, double y) {
    if (a >= 1) return integral(a, b, x, y);
    // F(a, b) is F(a + 1, b) and a rest, whose logarithm has the psi of a + 1 beside those of a + b.
    for (int m = 0; m < j; m++) psi_a[m] += psi_step(m, a);
    double rest = ratio(std::log(x), std::log(y));
    for (int m = 0; m < j + k; m++) psi_sum[m] += psi_step(m, a + b);
    return x * (a + b) / a * integral(a + 1, b, x, y) + x * y / a * rest;
  }
  double value(double a, double b, double x) {
    if (!(a > 0 && b > 0 && x >= 0 && x <= 1 && std::isfinite(a + b))) return NAN;
    if (x == 0 || x == 1) return 0;
    if (x <= a / (a + b) || (a < 1 && x < 0.5 && x * (a + b) < 1)) return lower(a, b, x, 1 - x);
    std::swap(j, k);
    std::swap(psi_a, psi_b);
    return -lower(b, a, 1 - x, x);
  }
};

constexpr int64_t kElements = 128;  // of a task: an element costs microseconds

}  // namespace

void gamma_slope(int order, const double* a, const double* x, const double* const* psi, double* out,
                 int64_t n) {
  parallel_for(n, kElements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      GammaSlope slope{order, {}};
      for (int m = 0; m < order; m++) slope.psi[m] = psi[m][i];
      out[i] = slope.value(a[i], x[i]);
    }
  });
}

void beta_slope(int j, int k, const double* x, const double* a, const double* b,
                const double* const* psi_a, const double* const* psi_b,
                const double* const* psi_sum, double* out, int64_t n) {
  parallel_for(n, kElements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      BetaSlope slope{j, k, {}, {}, {}};
      for (int m = 0; m < j + k; m++) {
        slope.psi_a[m] = psi_a[m][i];
        slope.psi_b[m] = psi_b[m][i];
        slope.psi_sum[m] = psi_sum[m][i];
      }
      out[i] = slope.value(a[i], b[i], x[i]);
    }
  });
}

}  // namespace rl::cpu
