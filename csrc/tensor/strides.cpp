#include "tensor/strides.h"

#include <utility>

namespace rl {

namespace {

// Below 0: `inner` belongs inside `outer`; above 0: the other way round; 0: nothing is known.
// Of equal strides the smaller size goes inside, as it does in torch.
int compare(int inner, int outer, const Ints& sizes, const Ints* operands, int count) {
  for (int k = 0; k < count; k++) {
    int64_t a = operands[k][inner], b = operands[k][outer];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[inner] > sizes[outer]) return 1;
  }
  return 0;
}

}  // namespace

Ints ordered_strides(const Ints& sizes, const Ints* operands, int count) {
  int n = sizes.size();
  Ints order(n);  // from the innermost dimension to the outermost
  for (int i = 0; i < n; i++) order[i] = n - 1 - i;
  for (int i = 1; i < n; i++)
    for (int j = i - 1, at = i; j >= 0; j--) {
      int known = compare(int(order[j]), int(order[at]), sizes, operands, count);
      if (known < 0) break;
      if (known == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  bool rows = true;
  for (int i = 0; i < n; i++) rows &= order[i] == n - 1 - i;
  if (rows) return contiguous_strides(sizes);
  Ints strides(n);
  int64_t step = 1;
  for (int64_t d : order) {
    strides[int(d)] = step;
    step = wrapping_product(step, sizes[int(d)]);
  }
  return strides;
}

}  // namespace rl
