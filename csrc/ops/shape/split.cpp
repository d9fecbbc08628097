// Several views of one tensor at once.
#include "call/op.h"

namespace rl {

namespace {

// Several views at once; the gradients that arrive are laid side by side.
void cat_grads(Back& b, const In& input, int64_t dim, int count) {
  Vars parts;
  for (int i = 0; i < count; i++) parts.push_back(b.g_or_zeros(i));
  if (b.create_graph()) {
    b[0] = ops::cat(parts, dim);
    return;
  }
  Var whole = empty(input.sizes(), input.dtype(), input.device());  // the parts cover it
  int64_t start = 0;
  for (const Var& part : parts) {
    Var region = ops::slice(whole, dim, start, start + part.size(int(dim)), 1);
    ops::copy_data(region.get(), part.get());
    start += part.size(int(dim));
  }
  b[0] = whole;
}

Vars split_by(const Var& input, const Ints& lengths, int d) {
  Vars parts;
  int64_t start = 0;
  for (int64_t n : lengths) {
    Ints sizes = input.sizes();
    sizes[d] = n;
    parts.push_back(
        alias(input.get(), sizes, input->strides, input->offset + start * input->strides[d]));
    start += n;
  }
  return parts;
}

Ints even_lengths(const Var& input, int64_t size, int d) {
  int64_t n = input.sizes()[d];
  check(size > 0 || (size == 0 && n == 0),
        "split expects split_size be non-negative, but got "
        "split_size=",
        size);
  Ints lengths;
  for (int64_t start = 0; start < n; start += size) lengths.push_back(std::min(size, n - start));
  if (lengths.empty()) lengths.push_back(0);
  return lengths;
}

struct Split : View {
  static constexpr auto signature = "split(Tensor input, int split_size, int dim=0)";
  static constexpr auto doc = "split(x, split_size, dim): pieces of a size; the last is shorter.";
  static Vars forward(const Var& input, int64_t split_size, int64_t dim) {
    check(input.dim() > 0, "split expects at least a 1-dimensional tensor");
    int d = int(wrap_dim(dim, input.dim()));
    check(split_size >= 0,
          "split expects split_size be non-negative, but got split_size=", split_size);
    return split_by(input, even_lengths(input, split_size, d), d);
  }
  static void vjp(Back& b, const In& input, int64_t split_size, int64_t dim) {
    int64_t d = wrap_dim(dim, input.dim()), n = input.size(int(d));
    cat_grads(b, input, d, n == 0 ? 1 : int((n + split_size - 1) / split_size));
  }
};
RL_OP(Split)

struct SplitWithSizes : View {
  static constexpr auto signature = "split(Tensor input, int[] split_size, int dim=0)";
  static constexpr auto grad_name = "SplitWithSizesBackward0";
  static constexpr auto doc = "split(x, sizes, dim): pieces of the given sizes.";
  static Vars forward(const Var& input, const Ints& split_size, int64_t dim) {
    check(input.dim() > 0, "split expects at least a 1-dimensional tensor");
    int d = int(wrap_dim(dim, input.dim()));
    int64_t total = 0;
    for (int64_t n : split_size) {
      check(n >= 0,
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            "split_sizes=",
            split_size);
      total += n;
    }
    check(total == input.sizes()[d], "split_with_sizes expects split_sizes to sum exactly to ",
          input.sizes()[d], " (input tensor's size at dimension ", d,
          "), but got split_sizes=", split_size);
    return split_by(input, split_size, d);
  }
  static void vjp(Back& b, const In& input, const Ints& split_size, int64_t dim) {
    cat_grads(b, input, wrap_dim(dim, input.dim()), split_size.size());
  }
};
RL_OP(SplitWithSizes)

struct Chunk : Composite {
  static constexpr auto signature = "chunk(Tensor input, int chunks, int dim=0)";
  static constexpr auto doc = "chunk(x, chunks, dim): about that many pieces of equal size.";
  static constexpr bool out = false;
  static Vars forward(const Var& input, int64_t chunks, int64_t dim) {
    check(input.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    check(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
    int d = int(wrap_dim(dim, input.dim()));
    int64_t n = input.sizes()[d], size = (n + chunks - 1) / chunks;
    if (n == 0) return call<SplitWithSizes>(input, Ints(int(chunks), 0), dim);
    return call<Split>(input, size, dim);
  }
};
RL_OP(Chunk)

struct Unbind : View {
  static constexpr auto signature = "unbind(Tensor input, int dim=0)";
  static constexpr auto doc = "unbind(x, dim): every slice of a dimension, as a tuple.";
  static Vars forward(const Var& input, int64_t dim) {
    if (input.dim() == 0)
      fail_as(PyExc_IndexError, "Dimension specified as ", dim, " but tensor has no dimensions");
    int d = int(wrap_dim(dim, input.dim()));
    Vars parts;
    for (int64_t i = 0; i < input.sizes()[d]; i++) {
      Ints sizes = input.sizes(), strides = input->strides;
      int64_t offset = input->offset + i * strides[d];
      sizes.erase(d);
      strides.erase(d);
      parts.push_back(alias(input.get(), std::move(sizes), std::move(strides), offset));
    }
    return parts;
  }
  static void vjp(Back& b, const In& input, int64_t dim) {
    int64_t d = wrap_dim(dim, input.dim());
    Vars parts;
    for (int i = 0; i < int(input.size(int(d))); i++)
      parts.push_back(ops::unsqueeze(b.g_or_zeros(i), d));
    b[0] = parts.empty() ? ops::zeros(input.sizes(), input.dtype(), input.device())
                         : ops::cat(parts, d);
  }
};
RL_OP(Unbind)

}  // namespace
}  // namespace rl
