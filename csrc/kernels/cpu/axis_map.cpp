#include "kernels/cpu/kernels.h"

#include <algorithm>

#include "kernels/cpu/planes.h"

namespace rl::cpu {
namespace {

// Outputs [begin, end) of an axis without weights whose windows have one length and one step.
struct Regular {
  int64_t begin = 0, end = 0, length = 0, step = 1;

  explicit Regular(const AxisMap& axis) {
    if (!axis.weight.empty()) return;
    auto size = [&](int64_t j) { return axis.first[size_t(j + 1)] - axis.first[size_t(j)]; };
    auto start = [&](int64_t j) { return axis.index[size_t(axis.first[size_t(j)])]; };
    for (int64_t j = 0; j < axis.output; ++j) length = std::max<int64_t>(length, size(j));
    while (begin < axis.output && size(begin) != length) ++begin;
    end = begin;
    if (length == 0 || begin >= axis.output) return;
    ++end;
    if (end < axis.output && size(end) == length) step = start(end) - start(begin);
    while (end < axis.output && size(end) == length && start(end) - start(end - 1) == step) ++end;
  }
};

template <class C>
struct Axis {
  const AxisMap& map;
  std::vector<C> weight;
  Regular regular;
  bool picks;         // every output is one input
  bool same = false;  // the one at its own place

  explicit Axis(const AxisMap& m)
      : map(m), regular(m), picks(m.weight.empty() && int64_t(m.index.size()) == m.output) {
    for (double w : m.weight) weight.push_back(C(w));
    for (int64_t j = 0; j < m.output; ++j) picks &= m.first[size_t(j)] == j;
    same = picks && m.input == m.output;
    for (int64_t j = 0; same && j < m.output; ++j) same = m.index[size_t(j)] == j;
  }
  C weight_at(int64_t e) const { return weight.empty() ? C(1) : weight[size_t(e)]; }
  C divisor_at(int64_t j) const { return map.divisor.empty() ? C(1) : C(map.divisor[size_t(j)]); }
  int64_t begin(int64_t j) const { return map.first[size_t(j)]; }
  int64_t end(int64_t j) const { return map.first[size_t(j + 1)]; }
  int64_t at(int64_t e) const { return map.index[size_t(e)]; }
};

template <class C>
RL_INLINE void add_steps(const C* __restrict x, int64_t step, int64_t n, C* __restrict y) {
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] += x[j];
  } else if (step == 2) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] += x[2 * j];
  } else {
    for (int64_t j = 0; j < n; ++j) y[j] += x[j * step];
  }
}

template <class C>
RL_INLINE void spread_steps(const C* __restrict y, int64_t step, int64_t n, C* __restrict x) {
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) x[j] += y[j];
  } else {
    for (int64_t j = 0; j < n; ++j) x[j * step] += y[j];
  }
}

template <class C>
RL_INLINE void spread_pairs(const C* __restrict y, int64_t n, C* __restrict x) {
  for (int64_t j = 0; j < n; ++j) {
    x[2 * j] += y[j];
    x[2 * j + 1] += y[j];
  }
}

// Two neighbours for each output, as linear resampling has.
template <class C>
RL_INLINE void blend_pairs(const C* __restrict x, const int32_t* __restrict index,
                           const C* __restrict weight, int64_t n, C* __restrict y) {
  for (int64_t j = 0; j < n; ++j) {
    y[j] = x[index[2 * j]] * weight[2 * j] + x[index[2 * j + 1]] * weight[2 * j + 1];
  }
}

template <class C>
RL_INLINE void pick(const C* __restrict x, const int32_t* __restrict index, int64_t n,
                    C* __restrict y) {
  for (int64_t j = 0; j < n; ++j) y[j] = x[index[j]];
}

template <class C>
RL_INLINE void sum_row(const Axis<C>& axis, const C* x, C* y) {
  int64_t n = axis.map.output;
  if (axis.same) {
    std::copy(x, x + n, y);
    return;
  }
  if (axis.picks) return pick(x, axis.map.index.data(), n, y);
  if (int64_t(axis.weight.size()) == 2 * n) {
    return blend_pairs(x, axis.map.index.data(), axis.weight.data(), n, y);
  }
  const Regular& r = axis.regular;
  auto one = [&](int64_t j) {
    C sum = 0;
    for (int64_t e = axis.begin(j); e < axis.end(j); ++e) sum += axis.weight_at(e) * x[axis.at(e)];
    y[j] = sum;
  };
  for (int64_t j = 0; j < r.begin; ++j) one(j);
  if (r.end > r.begin) {
    std::fill(y + r.begin, y + r.end, C(0));
    const C* from = x + axis.at(axis.begin(r.begin));
    for (int64_t k = 0; k < r.length; ++k) {
      add_steps(from + k, r.step, r.end - r.begin, y + r.begin);
    }
  }
  for (int64_t j = r.end; j < n; ++j) one(j);
}

template <class C>
RL_INLINE void spread_row(const Axis<C>& axis, const C* y, C* x) {
  if (axis.same) {
    std::copy(y, y + axis.map.output, x);
    return;
  }
  const Regular& r = axis.regular;
  std::fill(x, x + axis.map.input, C(0));
  if (axis.picks) {
    for (int64_t j = 0; j < axis.map.output; ++j) x[axis.at(j)] += y[j];
    return;
  }
  auto one = [&](int64_t j) {
    for (int64_t e = axis.begin(j); e < axis.end(j); ++e) x[axis.at(e)] += axis.weight_at(e) * y[j];
  };
  for (int64_t j = 0; j < r.begin; ++j) one(j);
  if (r.end > r.begin) {
    C* to = x + axis.at(axis.begin(r.begin));
    if (r.step == 2 && r.length == 2) {
      spread_pairs(y + r.begin, r.end - r.begin, to);
    } else {
      for (int64_t k = 0; k < r.length; ++k) {
        spread_steps(y + r.begin, r.step, r.end - r.begin, to + k);
      }
    }
  }
  for (int64_t j = r.end; j < axis.map.output; ++j) one(j);
}

template <class C>
RL_INLINE void add_row(const C* __restrict x, C w, int64_t n, C* __restrict sum) {
  if (w == C(1)) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i] * w;
  }
}

template <class C>
RL_INLINE void divide_row(C* x, const C* divisor, C common, int64_t n) {
  if (divisor) {
    for (int64_t i = 0; i < n; ++i) x[i] /= common * divisor[i];
  } else if (common != C(1)) {
    for (int64_t i = 0; i < n; ++i) x[i] /= common;
  }
}

template <class C>
struct Mapper {
  Axis<C> d, h, w;
  std::vector<C> columns;  // the divisors of a row

  explicit Mapper(const AxisMaps& axes) : d(axes[0]), h(axes[1]), w(axes[2]) {
    for (int64_t v : w.map.divisor) columns.push_back(C(v));
  }
  int64_t small() const { return d.map.output * h.map.output * w.map.output; }
  int64_t large() const { return d.map.input * h.map.input * w.map.input; }
  RL_INLINE void divide(C* row, int64_t i, int64_t j) const {
    divide_row<C>(row, columns.empty() ? nullptr : columns.data(),
                  d.divisor_at(i) * h.divisor_at(j), w.map.output);
  }
  // Calls use(row of the input, weight) for each that output row (i, j) is made of.
  template <class F>
  RL_INLINE void each_row(int64_t i, int64_t j, const F& use) const {
    for (int64_t a = d.begin(i); a < d.end(i); ++a) {
      for (int64_t b = h.begin(j); b < h.end(j); ++b) {
        use((d.at(a) * h.map.input + h.at(b)) * w.map.input, d.weight_at(a) * h.weight_at(b));
      }
    }
  }

  // The rows that output row (i, j) is made of, added up; a single one is read in place.
  RL_INLINE const C* sum_of_rows(const C* x, int64_t i, int64_t j, C* sums) const {
    int64_t a = d.begin(i), b = h.begin(j);
    if (d.end(i) == a + 1 && h.end(j) == b + 1 && d.weight_at(a) * h.weight_at(b) == C(1))
      return x + (d.at(a) * h.map.input + h.at(b)) * w.map.input;
    std::fill(sums, sums + w.map.input, C(0));
    each_row(i, j, [&](int64_t at, C weight) { add_row(x + at, weight, w.map.input, sums); });
    return sums;
  }

  RL_CLONES void forward(const C* x, C* y, C* sums) const {
    for (int64_t i = 0; i < d.map.output; ++i) {
      for (int64_t j = 0; j < h.map.output; ++j, y += w.map.output) {
        sum_row(w, sum_of_rows(x, i, j, sums), y);
        divide(y, i, j);
      }
    }
  }

  RL_CLONES void transposed(const C* y, C* x, C* sums, C* row) const {
    std::fill(x, x + large(), C(0));
    for (int64_t i = 0; i < d.map.output; ++i) {
      for (int64_t j = 0; j < h.map.output; ++j, y += w.map.output) {
        std::copy(y, y + w.map.output, row);
        divide(row, i, j);
        spread_row(w, row, sums);
        each_row(i, j, [&](int64_t at, C weight) { add_row(sums, weight, w.map.input, x + at); });
      }
    }
  }
};

}  // namespace

void map_axes(DType d, int64_t planes, const AxisMaps& axes, const void* x, void* y) {
  auto run = [&]<class C>(C) {
    Mapper<C> m(axes);
    each_plane<C>(d, planes, grain(m.large() + m.small()), x, m.large(), y, m.small(), [&] {
      return [&m, sums = std::vector<C>(size_t(m.w.map.input))](
                 int64_t, const C* from, C* to) mutable { m.forward(from, to, sums.data()); };
    });
  };
  if (is_floating(d)) d == DType::F64 ? run(double()) : run(float());
  else run(int64_t());
}

// Gradients are floating.
void map_axes_transposed(DType d, int64_t planes, const AxisMaps& axes, const void* y, void* x) {
  auto run = [&]<class C>(C) {
    Mapper<C> m(axes);
    each_plane<C>(d, planes, grain(m.large() + m.small()), y, m.small(), x, m.large(), [&] {
      return [&m, sums = std::vector<C>(size_t(m.w.map.input)),
              row = std::vector<C>(size_t(m.w.map.output))](int64_t, const C* from, C* to) mutable {
        m.transposed(from, to, sums.data(), row.data());
      };
    });
  };
  d == DType::F64 ? run(double()) : run(float());
}

}  // namespace rl::cpu
