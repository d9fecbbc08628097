// Distinct values.
#include <algorithm>
#include <numeric>

#include "call/broadcast.h"
#include "call/op.h"
#include "kernels/kernels.h"

namespace rl {

namespace {

// values, inverse, counts
using Distinct = std::array<Var, 3>;

void refuse_complex(const Var& input, const char* op) {
  if (is_complex(input.dtype()))
    fail_as(PyExc_NotImplementedError, op, "(): not implemented for '",
            info(input.dtype()).tensor_name, "'");
}

// Numbers the runs of equal neighbours among n items taken in `order` (or as they come): the
// group of each item goes to `inverse`, the first item of each group and its size to the others.
template <class Equal>
void number_runs(int64_t n, const int64_t* order, const Equal& equal, int64_t* inverse,
                 std::vector<int64_t>& first, std::vector<int64_t>& sizes) {
  int64_t last = -1;
  for (int64_t i = 0; i < n; i++) {
    int64_t item = order ? order[i] : i;
    if (i == 0 || !equal(last, item)) {
      first.push_back(item);
      sizes.push_back(0);
    }
    sizes.back()++;
    inverse[item] = int64_t(first.size()) - 1;
    last = item;
  }
}

// Compares and copies items, each of `width` elements of type T.
template <class T>
struct Items {
  const T* data;
  int64_t width;
  bool equal(int64_t a, int64_t b) const {
    return std::equal(data + a * width, data + (a + 1) * width, data + b * width,
                      [](T x, T y) { return x == y; });
  }
  bool less(int64_t a, int64_t b) const {
    for (int64_t k = 0; k < width; k++) {
      T x = data[a * width + k], y = data[b * width + k];
      if (x < y) return true;
      if (y < x) return false;
    }
    return false;
  }
};

// The distinct ones among n items of x. Without `order` only neighbours are compared.
Distinct distinct(const Var& x, int64_t n, int64_t width, const int64_t* order,
                  const Ints& inverse_sizes) {
  Var inverse = empty(inverse_sizes, DType::I64, x.device());
  std::vector<int64_t> first, sizes;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Items<T> items{x->host<T>(), width};
    number_runs(
        n, order, [&](int64_t a, int64_t b) { return items.equal(a, b); }, inverse->host<int64_t>(),
        first, sizes);
  });
  Var values = empty({int64_t(first.size()), width}, x.dtype(), x.device());
  int64_t bytes = width * itemsize(x.dtype());
  for (size_t i = 0; i < first.size(); i++)
    std::memcpy(values->data() + int64_t(i) * bytes, x->data() + first[i] * bytes, size_t(bytes));
  return {values, inverse, ops::integers(sizes, x.device())};
}

// The same on the device that the elements were read from.
Distinct on_device(Distinct found, Device device) {
  for (Var& v : found) v = ops::to(v, v.dtype(), device);
  return found;
}

Distinct distinct_elements(const Var& input, bool sorted, const char* op) {
  refuse_complex(input, op);
  if (input.device().type == Device::CUDA)
    return on_device(distinct_elements(ops::on_host(input), sorted, op), input.device());
  Var x = ops::contiguous(input), order;
  if (sorted && x.numel() > 0) {
    Var values = empty(x.sizes(), x.dtype(), x.device());
    order = empty(x.sizes(), DType::I64, input.device());
    Launch launch(double(x.numel()) * 20, {x.get(), values.get(), order.get()});
    on(x).sort_rows(x.dtype(), x->data(), values->data(), order->data<int64_t>(), 1, x.numel(),
                    false);
  }
  Distinct d = distinct(x, x.numel(), 1, order ? order->host<int64_t>() : nullptr, x.sizes());
  d[0] = ops::reshape(d[0], {d[0].numel()});
  return d;
}

Distinct distinct_slices(const Var& input, int64_t dim, bool sorted, const char* op) {
  refuse_complex(input, op);
  if (input.device().type == Device::CUDA)
    return on_device(distinct_slices(ops::on_host(input), dim, sorted, op), input.device());
  if (input.dim() == 0)
    fail_as(PyExc_IndexError, op, "(): Dimension specified as ", dim,
            " but tensor has no dimensions");
  int64_t d = wrap_dim(dim, input.dim(), op), n = input.size(int(d));
  check(n == 0 || input.numel() > 0, op,
        "(): There are 0 sized dimensions, and they aren't "
        "selected, so unique cannot be applied. (shape ",
        input.sizes(), ", dim ", dim, ")");
  Ints front{d}, back;  // slices are compared in the order of the other dimensions
  for (int i = 0; i < input.dim(); i++)
    if (i != d) front.push_back(i);
  for (int i = 0; i < input.dim(); i++) back.push_back(i == d ? 0 : i < d ? i + 1 : i);
  Var x = ops::contiguous(ops::permute(input, front));
  int64_t width = n ? x.numel() / n : 0;
  std::vector<int64_t> order(static_cast<size_t>(sorted ? n : 0));
  std::iota(order.begin(), order.end(), 0);
  if (width > 0)
    visit(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, c64> && !std::is_same_v<T, c128>) {
        Items<T> items{x->host<T>(), width};
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return items.less(a, b); });
      }
    });
  Distinct result = distinct(x, n, width, sorted ? order.data() : nullptr, {n});
  Ints sizes = x.sizes();
  sizes[0] = result[0].size(0);
  result[0] = ops::contiguous(ops::permute(ops::reshape(result[0], sizes), back));
  return result;
}

[[noreturn]] void refuse_gradient(const char* op) {
  fail_as(PyExc_NotImplementedError, "the derivative for '", op,
          "' is not implemented. Take the distinct values of x.detach() where no gradient is "
          "meant");
}

struct UniqueElements : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature = "_unique2(Tensor input)";
  static constexpr auto grad_name = "Unique2Backward0";
  static constexpr auto doc = "_unique2(x): the distinct elements, their numbers and counts.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Distinct forward(const Var& input) { return distinct_elements(input, true, "unique"); }
  static void vjp(Back&, const In&) { refuse_gradient("_unique2"); }
  static void jvp(Push&, const Var&) { refuse_gradient("_unique2"); }
};
RL_OP(UniqueElements)

struct UniqueSlices : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature = "_unique_dim(Tensor input, int dim)";
  static constexpr auto grad_name = "UniqueDimBackward0";
  static constexpr auto doc = "_unique_dim(x, dim): the distinct slices, their numbers and counts.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Distinct forward(const Var& input, int64_t dim) {
    return distinct_slices(input, dim, true, "unique");
  }
  static void vjp(Back&, const In&, int64_t) { refuse_gradient("unique_dim"); }
  static void jvp(Push&, const Var&, int64_t) { refuse_gradient("unique_dim"); }
};
RL_OP(UniqueSlices)

struct UniqueNeighbours : General {
  static constexpr Stored stored = Stored::Ordered;
  static constexpr auto signature = "_unique_consecutive(Tensor input, int? dim)";
  static constexpr auto doc =
      "_unique_consecutive(x, dim): runs of equal elements or slices, their numbers and counts.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Distinct forward(const Var& input, std::optional<int64_t> dim) {
    return dim ? distinct_slices(input, *dim, false, "unique_consecutive")
               : distinct_elements(input, false, "unique_consecutive");
  }
  static void vjp(Back&, const In&, std::optional<int64_t>) {
    refuse_gradient("unique_consecutive");
  }
  static void jvp(Push&, const Var&, std::optional<int64_t>) {
    refuse_gradient("unique_consecutive");
  }
};
RL_OP(UniqueNeighbours)

TensorOrTuple select(const Distinct& d, bool inverse, bool counts) {
  TensorOrTuple asked{{d[0]}, inverse || counts};
  if (inverse) asked.vars.push_back(d[1]);
  if (counts) asked.vars.push_back(d[2]);
  return asked;
}

struct Unique : Composite {
  static constexpr auto signature =
      "unique(Tensor input, bool sorted=True, bool return_inverse=False, "
      "bool return_counts=False, int? dim=None)";
  static constexpr auto doc =
      "unique(x, dim=None): the distinct elements (or slices) in order; on request the number of "
      "each element among them, and how often each occurs.";
  static constexpr Family family = Family::Sort;
  static constexpr bool out = false;
  static TensorOrTuple forward(const Var& input, bool, bool return_inverse, bool return_counts,
                               std::optional<int64_t> dim) {
    return select(dim ? call<UniqueSlices>(input, *dim) : call<UniqueElements>(input),
                  return_inverse, return_counts);
  }
};
RL_OP(Unique)

struct UniqueConsecutive : Composite {
  static constexpr auto signature =
      "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, "
      "int? dim=None)";
  static constexpr auto doc =
      "unique_consecutive(x, dim=None): x without repetitions of neighbours; on request the number "
      "of each element's run, and how long each is.";
  static constexpr Family family = Family::Sort;
  static constexpr bool out = false;
  static TensorOrTuple forward(const Var& input, bool return_inverse, bool return_counts,
                               std::optional<int64_t> dim) {
    return select(call<UniqueNeighbours>(input, dim), return_inverse, return_counts);
  }
};
RL_OP(UniqueConsecutive)

}  // namespace
}  // namespace rl
