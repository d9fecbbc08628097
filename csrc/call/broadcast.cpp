#include "call/broadcast.h"

namespace rl {

Ints broadcast(const Ints& a, const Ints& b) {
  const Ints& longer = a.size() >= b.size() ? a : b;
  const Ints& shorter = a.size() >= b.size() ? b : a;
  Ints sizes = longer;
  int lead = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); i++) {
    int64_t x = longer[lead + i], y = shorter[i];
    if (x == y) continue;
    if (x == 1) sizes[lead + i] = y;
    else if (y != 1)
      fail("The size of tensor a (", &longer == &a ? x : y, ") must match the size of tensor b (",
           &longer == &a ? y : x, ") at non-singleton dimension ", lead + i, " (shapes ", a,
           " and ", b, ")");
  }
  return sizes;
}

Ints broadcast_strides(const Tensor* t, const Ints& sizes) {
  Ints strides(sizes.size());
  int lead = sizes.size() - t->dim();
  for (int i = 0; i < t->dim(); i++)
    strides[lead + i] = t->sizes[i] == 1 && sizes[lead + i] != 1 ? 0 : t->strides[i];
  return strides;
}

bool can_expand(const Ints& from, const Ints& to) {
  if (from.size() > to.size()) return false;
  int lead = to.size() - from.size();
  for (int i = 0; i < from.size(); i++)
    if (from[i] != to[lead + i] && from[i] != 1) return false;
  return true;
}

namespace {

int join(int a, DType b) { return a < 0 ? int(b) : int(promote(DType(a), b)); }

// `high` comes from a category that outweighs `low`.
int combine(int high, int low) {
  if (high < 0) return low;
  if (low < 0) return high;
  DType h = DType(high), l = DType(low);
  if (is_complex(h)) return high;
  if (is_floating(h)) return is_complex(l) ? int(complex_of(h)) : high;
  if (is_wide_unsigned(h) && is_complex(l)) return low;
  if (h == DType::Bool || category(l) >= 2) return int(promote(h, l));
  return high;
}

}  // namespace

void Promotion::add(const Tensor* t) {
  DType d = t->dtype;
  if (t->wrapped_number) {
    if (is_complex(d)) d = complex_of(default_dtype());
    else if (is_floating(d)) d = default_dtype();
    wrapped_ = join(wrapped_, d);
  } else if (t->dim() == 0) {
    zero_ = join(zero_, d);
  } else {
    dims_ = join(dims_, d);
  }
}

DType Promotion::result() const { return DType(combine(dims_, combine(zero_, wrapped_))); }

DType result_type(const Tensor* a, const Tensor* b) {
  Promotion p;
  p.add(a);
  p.add(b);
  return p.result();
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to)) return false;
  return !(from != DType::Bool && to == DType::Bool);
}

}  // namespace rl
