// Losses of a choice among classes.
#include "kernels/kernels.h"

#include <cmath>

#include "call/around.h"
#include "call/broadcast.h"
#include "call/pointwise.h"
#include "ops/loss/loss.h"

namespace rl {

namespace {

// Scores as [outer, n, inner] around the classes.
struct ClassShape : Around {
  int dim;  // that of the classes
  explicit ClassShape(const Ints& sizes) : ClassShape(sizes, sizes.size() == 1 ? 0 : 1) {}

 private:
  ClassShape(const Ints& sizes, int dim) : Around(sizes, dim), dim(dim) {}
};

void check_target(const Var& input, const Var& target, const Var& weight) {
  int n = input.dim();
  if (n < 1) fail_as(PyExc_ValueError, "Expected 1 or more dimensions (got ", n, ")");
  Ints wanted = input.sizes();
  wanted.erase(n == 1 ? 0 : 1);
  if (n > 1 && target.dim() > 0 && input.size(0) != target.size(0))
    fail_as(PyExc_ValueError, "Expected input batch_size (", input.size(0),
            ") to match target batch_size (", target.size(0), ").");
  bool one = n == 1 && target.numel() == 1 && target.dim() <= 1;
  if (n <= 2)
    check(target.dim() <= 1,
          "0D or 1D target tensor expected, multi-target not supported: input "
          "has shape ",
          input.sizes(), " and target ", target.sizes());
  if (n == 1 && target.dim() == 1 && !one)
    fail_as(PyExc_ValueError,
            "For 1D input, 1D target must have size 1, but got target size: ", target.size(0));
  check(one || target.sizes() == wanted, "Expected target size ", wanted, ", got ", target.sizes());
  check(target.dtype() == DType::I64 || target.dtype() == DType::U8,
        "expected target dtype to be Long or Byte, but got ", info(target.dtype()).tensor_name,
        ". Class indices: use target.long()");
  int64_t classes = input.size(n == 1 ? 0 : 1);
  check(
      !weight || (weight.dim() <= 1 && weight.numel() == classes),
      "weight tensor should be defined either for all ", classes,
      " classes or no classes but got weight tensor of shape: ", weight ? weight.sizes() : Ints());
  check(!weight || weight.dtype() == input.dtype(), "expected scalar type ",
        info(input.dtype()).tensor_name, " but found ",
        weight ? info(weight.dtype()).tensor_name : "", " (the weight of the classes)");
  check(!weight || !is_tracked(weight.get()),
        "The function 'nll_loss_forward' is not differentiable with respect to argument 'weight'. "
        "This input cannot have requires_grad True.");
}

// Targets as the kernels read them.
Var dense_target(const Var& target) { return ops::contiguous(ops::to(target, DType::I64)); }
[[noreturn]] void fail_target(const Var& target, kernel::Outside bad, int64_t classes) {
  int64_t at = bad.at;
  Ints position(target.dim());
  for (int i = target.dim() - 1; i >= 0; i--) {
    position[i] = at % target.size(i);
    at /= target.size(i);
  }
  fail_as(PyExc_IndexError, "Target ", bad.value, " is out of bounds. (target", position, ", with ",
          classes, " classes: expected 0 to ", classes - 1, ")");
}

// The same, each a class or ignored: also what a node saved may have been overwritten since.
Var class_targets(const Var& target, const ClassShape& shape, int64_t ignore_index) {
  Var t = dense_target(target);
  kernel::Outside bad = on(t).find_bad_target(t->data<int64_t>(), t.numel(), shape.n, ignore_index);
  if (bad) fail_target(t, bad, shape.n);
  return t;
}
Var dense(const Var& x) { return x ? ops::contiguous(x) : x; }
const char* data_of(const Var& x) { return x ? x->data() : nullptr; }

Ints loss_sizes(const Ints& input) {
  Ints sizes = input;
  sizes.erase(sizes.size() == 1 ? 0 : 1);
  return sizes;
}

// What the sum of the losses is multiplied by: a number, which the device knows. Given targets, that
// of the derivative, which is 0 when all of them are ignored.
Var factor_of(Reduce reduce, const Var& total, const Var& target, int64_t ignore_index) {
  Var factor = empty({}, DType::F64, total.device());
  if (reduce == Reduce::Mean) {
    GradMode off(false);
    Var t = target ? dense_target(target) : target;
    on(total).mean_factor(total->data<double>(), t ? t->data<int64_t>() : nullptr,
                          t ? t.numel() : 0, ignore_index, factor->data<double>());
  } else {
    ops::fill_data(factor.get(), 1);
  }
  factor->wrapped_number = true;
  return factor;
}

Var sum_losses(const Var& each, Reduce reduce, const Var& total) {
  Var out = empty({}, each.dtype(), each.device()), factor = factor_of(reduce, total, Var(), 0);
  on(each).sum_times(each.dtype(), each->data(), out->data(), each.numel(), factor->data<double>());
  return out;
}

// The gradient of every single loss, as the kernels read it: given, or the same for all.
Var each_gradient(const Var& g, Reduce reduce, const Var& factor, const Ints& sizes) {
  if (reduce == Reduce::None) return ops::contiguous(g);
  Var one = g * factor, all = empty(sizes, g.dtype(), g.device());
  ops::copy_data(all.get(), one.get());
  return all;
}
// The same to be multiplied with the scores, recorded.
Var score_gradient(const Var& g, Reduce reduce, const Var& factor, int dim) {
  return reduce == Reduce::None ? ops::unsqueeze(g, dim) : g * factor;
}

// The tangent of the loss from what each score contributes to it.
Var push_scores(const Var& each, Reduce reduce, int dim, const Var& factor) {
  return reduce == Reduce::None ? ops::sum(each, {dim}, false) : ops::sum_all(each) * factor;
}

// What each log probability counts in the loss.
Var weights_of(const Ints& sizes, DType dtype, const Var& target, const Var& weight,
               int64_t ignore_index, double smoothing) {
  GradMode off(false);
  DType wide = compute_type(dtype);
  ClassShape shape(sizes);
  Var all = empty(sizes, wide, target.device()), t = class_targets(target, shape, ignore_index),
      w = weight;
  if (w) w = ops::contiguous(ops::to(w, wide));
  on(t).class_weights(wide, t->data<int64_t>(), data_of(w), ignore_index, smoothing, all->data(),
                      shape.outer, shape.n, shape.inner);
  return all;
}

// From scores to the loss at once: log_softmax and nll_loss in one node.
template <bool Spatial>
struct CrossEntropyOf : General {
  static constexpr auto signature =
      "_cross_entropy(Tensor input, Tensor target, Tensor? weight, int reduction, "
      "int ignore_index, float label_smoothing)";
  static constexpr auto grad_name = Spatial ? "NllLoss2DBackward0" : "NllLossBackward0";
  static constexpr auto saves = "input target weight out1 out2";
  static constexpr bool spares = true;

  // The loss, log(sum(exp(scores))) for the backward, and what a mean is divided by.
  static std::array<Var, 3> forward(const Var& input, const Var& target, const Var& weight,
                                    int64_t reduction, int64_t ignore_index, double smoothing) {
    ClassShape shape(input.sizes());
    Var x = ops::contiguous(input), t = dense_target(target), w = dense(weight);
    Ints sizes = loss_sizes(x.sizes());
    Var each = empty(sizes, x.dtype(), x.device()),
        lse = empty(sizes, compute_type(x.dtype()), x.device());
    Var total = empty({}, DType::F64, input.device());
    kernel::Outside bad;
    {
      Launch launch(double(x.numel()) * 3,
                    {x.get(), t.get(), w.get(), each.get(), lse.get(), total.get()});
      bad = on(x).cross_entropy(x.dtype(), x->data(), t->data<int64_t>(), data_of(w), ignore_index,
                                smoothing, each->data(), lse->data(), total->data<double>(),
                                shape.outer, shape.n, shape.inner);
    }
    if (bad) fail_target(t, bad, shape.n);
    if (Reduce(reduction) == Reduce::None) return {each, lse, total};
    return {sum_losses(each, Reduce(reduction), total), lse, total};
  }

  static void vjp(Back& b, const In& input, const In& target, const In& weight, int64_t reduction,
                  int64_t ignore_index, double smoothing) {
    if (!b.wants(0)) return;
    Reduce reduce = Reduce(reduction);
    ClassShape shape(input.sizes());
    Var factor = factor_of(reduce, b.out(2), *target, ignore_index);
    Var w;
    if (weight) w = *weight;
    if (b.create_graph()) {
      Var counts = weights_of(input.sizes(), input.dtype(), *target, w, ignore_index, smoothing);
      Var all = ops::sum(counts, {shape.dim}, true);
      Var g = score_gradient(b.g(), reduce, factor, shape.dim);
      b[0] = g * (ops::softmax(*input, shape.dim) * all - counts);
      return;
    }
    Var x = dense(*input), t = class_targets(*target, shape, ignore_index), lse = b.out(1),
        gx = empty(x.sizes(), x.dtype(), x.device());
    w = dense(w);
    Var g = each_gradient(b.g(), reduce, factor, lse.sizes());
    Launch launch(double(x.numel()) * 3, {g.get(), x.get(), lse.get(), t.get(), w.get(), gx.get()});
    on(g).cross_entropy_backward(x.dtype(), g->data(), x->data(), lse->data(), t->data<int64_t>(),
                                 data_of(w), ignore_index, smoothing, gx->data(), shape.outer,
                                 shape.n, shape.inner);
    b[0] = gx;
  }

  // The other outputs never leave the op.
  static void jvp(Push& p, const Var& input, const Var& target, const Var& weight,
                  int64_t reduction, int64_t ignore_index, double smoothing) {
    Reduce reduce = Reduce(reduction);
    ClassShape shape(input.sizes());
    Var counts = weights_of(input.sizes(), input.dtype(), target, weight, ignore_index, smoothing);
    Var slope = ops::softmax(input, shape.dim) * ops::sum(counts, {shape.dim}, true) - counts;
    p[0] = push_scores(p.t(0) * slope, reduce, shape.dim,
                       factor_of(reduce, p.out(2), target, ignore_index));
  }
};

template <bool Spatial>
struct NllLossOf : General {
  static constexpr auto signature =
      "_nll_loss(Tensor input, Tensor target, Tensor? weight, int reduction, int ignore_index)";
  static constexpr auto grad_name = Spatial ? "NllLoss2DBackward0" : "NllLossBackward0";
  static constexpr auto saves = "target weight out1";
  static constexpr bool whole_history = true;

  // The loss and what a mean is divided by.
  static std::array<Var, 2> forward(const Var& input, const Var& target, const Var& weight,
                                    int64_t reduction, int64_t ignore_index) {
    ClassShape shape(input.sizes());
    Var x = ops::contiguous(input), t = class_targets(target, shape, ignore_index);
    Var w = dense(weight);
    Var each = empty(loss_sizes(x.sizes()), x.dtype(), x.device()),
        total = empty({}, DType::F64, input.device());
    on(x).nll_loss(x.dtype(), x->data(), t->data<int64_t>(), data_of(w), ignore_index, each->data(),
                   total->data<double>(), shape.outer, shape.n, shape.inner);
    if (Reduce(reduction) == Reduce::None) return {each, total};
    return {sum_losses(each, Reduce(reduction), total), total};
  }

  static void vjp(Back& b, const In& input, const In& target, const In& weight, int64_t reduction,
                  int64_t ignore_index) {
    if (!b.wants(0)) return;
    Reduce reduce = Reduce(reduction);
    ClassShape shape(input.sizes());
    Var factor = factor_of(reduce, b.out(1), *target, ignore_index);
    Var w;
    if (weight) w = *weight;
    if (b.create_graph()) {
      Var counts = weights_of(input.sizes(), input.dtype(), *target, w, ignore_index, 0);
      // What is not chosen has no gradient, whatever that of the loss is.
      Var g = score_gradient(b.g(), reduce, factor, shape.dim) * counts;
      b[0] = math::where(counts == Var(0), Var(0), ops::neg(g));
      return;
    }
    Var t = class_targets(*target, shape, ignore_index), g = ops::contiguous(b.g());
    w = dense(w);
    Var gx = empty(input.sizes(), g.dtype(), g.device());
    on(g).nll_loss_backward(g.dtype(), g->data(), reduce == Reduce::None, factor->data<double>(),
                            t->data<int64_t>(), data_of(w), ignore_index, gx->data(), shape.outer,
                            shape.n, shape.inner);
    b[0] = gx;
  }

  static void jvp(Push& p, const Var& input, const Var& target, const Var& weight,
                  int64_t reduction, int64_t ignore_index) {
    Reduce reduce = Reduce(reduction);
    ClassShape shape(input.sizes());
    Var counts = weights_of(input.sizes(), input.dtype(), target, weight, ignore_index, 0);
    p[0] = push_scores(ops::neg(p.t(0) * counts), reduce, shape.dim,
                       factor_of(reduce, p.out(1), target, ignore_index));
  }
};

// The target gives a probability for every class.
Var soft_cross_entropy(const Var& input, Var target, const Var& weight, Reduce reduce,
                       int64_t ignore_index, double smoothing) {
  int dim = input.dim() == 1 ? 0 : 1;
  check(is_floating(target.dtype()),
        "Expected floating point type for target with class probabilities, got ",
        info(target.dtype()).tensor_name,
        ". (A target of class indices has one dimension less than "
        "the input of shape ",
        input.sizes(), ".)");
  check(ignore_index < 0, "ignore_index is not supported for floating point target");
  int64_t classes = input.size(dim);
  check(
      !weight || (weight.dim() == 1 && weight.numel() == classes),
      "cross_entropy: weight tensor should be defined either for all ", classes,
      " classes or no classes but got weight tensor of shape: ", weight ? weight.sizes() : Ints());
  if (smoothing > 0) target = target * Var(1 - smoothing) + Var(smoothing / double(classes));
  Var each = ops::log_softmax(input, dim) * target;
  if (weight) {
    Ints sizes(input.dim(), 1);
    sizes[dim] = classes;
    each = each * ops::reshape(weight, sizes);
  }
  if (reduce == Reduce::None) return ops::neg(ops::sum(each, {dim}, false));
  Var sum = ops::neg(reduced(each, Reduce::Sum));
  if (reduce == Reduce::Sum) return sum;
  double count = 1;
  for (int i = 0; i < input.dim(); i++)
    if (i != dim) count *= double(input.size(i));
  static const Pointwise by_number = renamed(find_pointwise("div"), "DivBackward1");
  const Var quotient[] = {sum, Var(count)};
  return run_pointwise(by_number, quotient, nullptr);
}

// The same made of public ops, for batched tensors: the kernels read classes as plain numbers.
Var plain_nll(const Var& scores, const Var& target, const Var& weight, Reduce how,
              int64_t ignore_index, double smoothing) {
  int dim = scores.dim() == 1 ? 0 : 1;
  Var counts = target != Var(double(ignore_index));
  Var safe = ops::masked_fill(target, target == Var(double(ignore_index)),
                              ops::zeros({}, target.dtype(), target.device()));
  Var classes = ops::unsqueeze(safe, dim);
  Var picked = ops::gather(scores, dim, classes);
  picked = ops::select(picked, dim, 0);
  Var each_weight = ops::to(counts, scores.dtype());
  if (weight) each_weight = each_weight * ops::index(weight, {safe});
  Var each = ops::neg(picked * each_weight);
  if (smoothing > 0) {
    Ints along(scores.dim(), 1);
    along[dim] = scores.size(dim);
    Var all = weight ? scores * ops::reshape(weight, along) : scores;
    Var smooth = ops::neg(ops::sum(all, {dim}, false)) * ops::to(counts, scores.dtype());
    each = each * Var(1 - smoothing) + smooth * Var(smoothing / double(scores.size(dim)));
  }
  if (how == Reduce::None) return each;
  Var total = ops::sum_all(each);
  return how == Reduce::Sum ? total : total / ops::sum_all(each_weight);
}

bool any_batched(const Var& a, const Var& b, const Var& c) {
  return batch_of(a.get()) || batch_of(b.get()) || batch_of(c.get());
}

struct CrossEntropy : Composite {
  static constexpr auto signature =
      "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
      "int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0)";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "cross_entropy(scores, target): the negative log-probability, under softmax, of the target "
      "classes; target holds class indices or probabilities.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Loss;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& target, const Var& weight,
                     std::optional<bool> size_average, int64_t ignore_index,
                     std::optional<bool> reduce, const std::string& reduction, double smoothing) {
    Reduce how = reduction_of(reduction, size_average, reduce);
    check(smoothing >= 0 && smoothing <= 1,
          "label_smoothing must be between 0.0 and 1.0. Got: ", smoothing);
    if (input.sizes() == target.sizes())
      return soft_cross_entropy(input, target, weight, how, ignore_index, smoothing);
    if (input.dim() > 0 && !is_floating(input.dtype()))
      fail_as(PyExc_NotImplementedError,
              "\"log_softmax_lastdim_kernel_impl\" not implemented for '",
              info(input.dtype()).tensor_name, "'");
    check_target(input, target, weight);
    if (any_batched(input, target, weight))
      return plain_nll(ops::log_softmax(input, input.dim() == 1 ? 0 : 1), target, weight, how,
                       ignore_index, smoothing);
    if (input.dim() > 2) return run<true>(input, target, weight, how, ignore_index, smoothing);
    return run<false>(input, target, weight, how, ignore_index, smoothing);
  }
  template <bool Spatial>
  static Var run(const Var& input, const Var& target, const Var& weight, Reduce how,
                 int64_t ignore_index, double smoothing) {
    return call<CrossEntropyOf<Spatial>>(input, target, weight, int64_t(how), ignore_index,
                                         smoothing)[0];
  }
};
RL_OP(CrossEntropy)

struct NllLoss : Composite {
  static constexpr auto signature =
      "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
      "int ignore_index=-100, bool? reduce=None, str reduction='mean')";
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc =
      "nll_loss(log_probabilities, target): minus the value of the target class.";
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Loss;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Var& target, const Var& weight,
                     std::optional<bool> size_average, int64_t ignore_index,
                     std::optional<bool> reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, size_average, reduce);
    check_target(input, target, weight);
    if (!is_floating(input.dtype()))
      fail_as(PyExc_NotImplementedError, "\"nll_loss_out_frame\" not implemented for '",
              info(input.dtype()).tensor_name, "'");
    if (any_batched(input, target, weight))
      return plain_nll(input, target, weight, how, ignore_index, 0);
    if (input.dim() > 2)
      return call<NllLossOf<true>>(input, target, weight, int64_t(how), ignore_index)[0];
    return call<NllLossOf<false>>(input, target, weight, int64_t(how), ignore_index)[0];
  }
};
RL_OP(NllLoss)

}  // namespace
}  // namespace rl
