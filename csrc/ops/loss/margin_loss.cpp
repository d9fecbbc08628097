// Losses of pairs, triplets and margins, and of distributions.
#include <cmath>
#include <numbers>

#include "autograd/batch.h"
#include "call/broadcast.h"
#include "call/pointwise.h"
#include "ops/loss/loss.h"
#include "ops/matrix/distance.h"

namespace rl {

namespace {

using namespace math;

using Flag = std::optional<bool>;

struct MarginLoss : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto module = "nn.functional";
  static constexpr Family family = Family::Loss;
  static constexpr bool out = false;
};

struct CosineEmbeddingLoss : MarginLoss {
  static constexpr auto signature =
      "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "cosine_embedding_loss(x1, x2, target, margin): 1 - cosine of pairs that should be alike "
      "(target 1), the cosine beyond the margin of those that should not (target -1).";
  static Var forward(const Var& x1, const Var& x2, const Var& target, double margin, Flag average,
                     Flag reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    check(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported: got ",
          target.sizes());
    int dim = target.dim();
    check(x1.dim() == dim + 1 && x2.dim() == dim + 1, dim, "D target tensor expects ", dim + 1,
          "D input tensors, but found inputs with sizes ", x1.sizes(), " and ", x2.sizes(), ".");
    auto inner = [&](const Var& a, const Var& b) { return ops::sum(a * b, {dim}, false); };
    constexpr double eps = 1e-12;
    Var cosine = inner(x1, x2) / sqrt((inner(x1, x1) + Var(eps)) * (inner(x2, x2) + Var(eps)));
    Var alike = where(target == Var(1), Var(1) - cosine, Var(0));
    Var apart = where(target == Var(-1), at_least(cosine - Var(margin), 0), Var(0));
    return reduced(alike + apart, how);
  }
};
RL_OP(CosineEmbeddingLoss)

struct HingeEmbeddingLoss : MarginLoss {
  static constexpr auto signature =
      "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "hinge_embedding_loss(x, target, margin): x where target is 1, max(0, margin - x) where it "
      "is -1.";
  static Var forward(const Var& input, const Var& target, double margin, Flag average, Flag reduce,
                     const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    Var apart = where(target != Var(1), at_least(Var(margin) - input, 0), Var(0));
    Var alike = where(target != Var(-1), input, Var(0));
    return reduced(apart + alike, how);
  }
};
RL_OP(HingeEmbeddingLoss)

struct MarginRankingLoss : MarginLoss {
  static constexpr auto signature =
      "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "margin_ranking_loss(x1, x2, target, margin): max(0, margin - target (x1 - x2)); target 1 "
      "says that x1 should rank higher.";
  static Var forward(const Var& x1, const Var& x2, const Var& target, double margin, Flag average,
                     Flag reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    check(x1.dim() == x2.dim() && x1.dim() == target.dim(),
          "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
          "input1: ",
          size_text(x1.sizes()), ", input2: ", size_text(x2.sizes()),
          ", target: ", size_text(target.sizes()));
    return reduced(at_least(-target * (x1 - x2) + Var(margin), 0), how);
  }
};
RL_OP(MarginRankingLoss)

void check_triplet(const Var& anchor, const Var& positive, const Var& negative, double margin) {
  check(anchor.dim() == positive.dim() && positive.dim() == negative.dim(),
        "The anchor, positive, and negative tensors are expected to have the same number of "
        "dimensions, but got: anchor ",
        anchor.dim(), "D, positive ", positive.dim(), "D, and negative ", negative.dim(),
        "D inputs");
  if (!(margin > 0)) fail_as(PyExc_ValueError, "margin must be greater than 0, got ", margin);
}

// The loss from a distance of two tensors.
template <class Distance>
Var triplet_loss(const Var& anchor, const Var& positive, const Var& negative, double margin,
                 bool swap, Reduce how, const Distance& distance) {
  Var near = distance(anchor, positive), far = distance(anchor, negative);
  if (swap) far = call_pointwise("minimum", {far, distance(positive, negative)});
  return reduced(at_least(Var(margin) + near - far, 0), how);
}

struct TripletMarginLoss : MarginLoss {
  static constexpr auto signature =
      "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
      "float p=2, float eps=1e-06, bool swap=False, bool? size_average=None, bool? reduce=None, "
      "str reduction='mean')";
  static constexpr auto doc =
      "triplet_margin_loss(anchor, positive, negative, margin, p): max(0, margin + d(anchor, "
      "positive) - d(anchor, negative)), d the p-norm of the difference.";
  static Var forward(const Var& anchor, const Var& positive, const Var& negative, double margin,
                     double p, double eps, bool swap, Flag average, Flag reduce,
                     const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    check_triplet(anchor, positive, negative, margin);
    return triplet_loss(
        anchor, positive, negative, margin, swap, how,
        [&](const Var& a, const Var& b) { return pairwise_distance(a, b, p, eps, false); });
  }
};
RL_OP(TripletMarginLoss)

struct TripletMarginWithDistanceLoss : MarginLoss {
  static constexpr Autocast autocast = Autocast::None;
  static constexpr auto signature =
      "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, "
      "object? distance_function=None, float margin=1.0, bool swap=False, str reduction='mean')";
  static constexpr auto doc =
      "triplet_margin_with_distance_loss(anchor, positive, negative, distance_function, margin): "
      "triplet_margin_loss with a distance of one's own.";
  static Var forward(const Var& anchor, const Var& positive, const Var& negative,
                     PyObject* function, double margin, bool swap, const std::string& reduction) {
    if (reduction != "mean" && reduction != "sum" && reduction != "none")
      fail_as(PyExc_ValueError, reduction, " is not a valid value for reduction");
    Reduce how = reduction_of(reduction, std::nullopt, std::nullopt);
    check_triplet(anchor, positive, negative, margin);
    auto distance = [&](const Var& a, const Var& b) {
      return function == Py_None ? pairwise_distance(a, b, 2, 1e-6, false) : ask(function, a, b);
    };
    return triplet_loss(anchor, positive, negative, margin, swap, how, distance);
  }
  static Var ask(PyObject* function, const Var& a, const Var& b) {
    PyObject* result = PyObject_CallFunctionObjArgs(function, a.object(), b.object(), nullptr);
    if (!result) throw PythonError{};
    if (is_tensor(result)) return Var::steal(reinterpret_cast<Tensor*>(result));
    std::string type = Py_TYPE(result)->tp_name;
    Py_DECREF(result);
    fail_as(PyExc_TypeError,
            "triplet_margin_with_distance_loss: distance_function must return a Tensor, not ",
            type);
  }
};
RL_OP(TripletMarginWithDistanceLoss)

struct GaussianNllLoss : MarginLoss {
  static constexpr auto signature =
      "gaussian_nll_loss(Tensor input, Tensor target, Tensor|Number var, bool full=False, "
      "float eps=1e-06, str reduction='mean')";
  static constexpr auto doc =
      "gaussian_nll_loss(mean, target, var): the negative log-likelihood of target under normal "
      "distributions, without its constant unless full.";
  static constexpr Autocast autocast = Autocast::None;
  static Var forward(const Var& input, const Var& target, const Var& var, bool full, double eps,
                     const std::string& reduction) {
    Var spread = checked(input, var);
    if (reduction != "mean" && reduction != "sum" && reduction != "none")
      fail_as(PyExc_ValueError, reduction, " is not valid");
    spread = at_least(spread, eps, true);
    Var apart = input - target;
    Var each = Var(0.5) * (log(spread) + apart * apart / spread);
    if (full) each = each + Var(0.5 * std::log(2 * std::numbers::pi));
    return reduced(each, reduction_of(reduction, std::nullopt, std::nullopt));
  }
  // One variance for each element, or for each row of the last dimension.
  static Var checked(const Var& input, const Var& var) {
    if (has_data(var.get())) {
      Unrecorded once;
      Plain plain;
      Var all = batch_of(var.get()) ? all_samples(var.get()) : alias(var.get());
      Var negative = ops::on_host(ops::sum_all(all < Var(0)));
      if (*negative->host<int64_t>() > 0)
        fail_as(PyExc_ValueError,
                "var has negative entry/entries (gaussian_nll_loss: ", *negative->host<int64_t>(),
                " of ", var.numel(), ")");
    }
    if (var->wrapped_number)
      return ops::full(input.sizes(), scalar(var), input.dtype(), input.device());
    if (var.sizes() == input.sizes()) return var;
    Ints lead = input.sizes();
    if (!lead.empty()) lead.erase(lead.size() - 1);
    if (var.sizes() == lead) return ops::unsqueeze(var, -1);
    check_value(var.dim() == input.dim() && can_expand(var.sizes(), input.sizes()), var, input);
    return var;
  }
  static void check_value(bool ok, const Var& var, const Var& input) {
    if (!ok)
      fail_as(PyExc_ValueError, "var is of incorrect size: gaussian_nll_loss got var of shape ",
              var.sizes(), " for an input of shape ", input.sizes());
  }
  static double scalar(const Var& x) { return ops::number(x); }
};
RL_OP(GaussianNllLoss)

struct PoissonNllLoss : MarginLoss {
  static constexpr auto signature =
      "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, "
      "bool? size_average=None, float eps=1e-08, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "poisson_nll_loss(rate, target, log_input): the negative log-likelihood of counts, without "
      "its constant unless full (then by Stirling's formula); log_input: the rate is exp(input).";
  static Var forward(const Var& input, const Var& target, bool log_input, bool full, Flag average,
                     double eps, Flag reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    Var each = log_input ? exp(input) - target * input : input - target * log(input + Var(eps));
    if (full) {
      Var few = target <= Var(1), count = where(few, Var(2), target);
      Var stirling = count * log(count) - count + Var(0.5) * log(Var(2 * std::numbers::pi) * count);
      each = each + where(few, Var(0), stirling);
    }
    return reduced(each, how);
  }
};
RL_OP(PoissonNllLoss)

struct MultilabelSoftMarginLoss : MarginLoss {
  static constexpr auto signature =
      "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
      "bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "multilabel_soft_margin_loss(x, target): the mean over classes of "
      "binary_cross_entropy_with_logits.";
  static constexpr Autocast autocast = Autocast::None;
  static Var forward(const Var& input, const Var& target, const Var& weight, Flag average,
                     Flag reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    check(input.dim() >= 1,
          "multilabel_soft_margin_loss: expected a dimension of classes, got an "
          "input of shape ",
          input.sizes());
    Var each = -(target * call_pointwise("logsigmoid", {input}) +
                 (Var(1) - target) * call_pointwise("logsigmoid", {-input}));
    if (weight) each = each * weight;
    Var classes = Var(double(input.size(-1)));
    return reduced(ops::sum(each, {-1}, false) / classes, how);
  }
};
RL_OP(MultilabelSoftMarginLoss)

// Scores of classes as rows; a single sample is one row.
struct ClassRows {
  Var scores;
  bool single;
  int64_t rows, classes;
  ClassRows(const Var& input, const char* op) : scores(input), single(input.dim() <= 1) {
    check(input.dim() <= 2 && (input.dim() == 0 || input.size(-1) > 0),
          "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ",
          input.sizes(), " (", op, ")");
    check(is_floating(input.dtype()), "\"", op, "\" not implemented for '",
          info(input.dtype()).tensor_name, "'");
    if (single) scores = ops::reshape(input, {1, input.numel()});
    rows = scores.size(0);
    classes = scores.size(1);
  }
  // A loss for each row; that of a single sample has no dimensions, unless its target has one.
  Var result(const Var& each, Reduce how, bool keeps = false) const {
    if (how == Reduce::None) return single && !keeps ? ops::reshape(each, {}) : each;
    return reduced(each, how);
  }
};

struct MultiMarginLoss : MarginLoss {
  static constexpr auto signature =
      "multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, "
      "Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean')";
  static constexpr auto doc =
      "multi_margin_loss(x, target, p, margin): sum(max(0, margin - x[target] + x[other])**p) over "
      "the other classes, over the number of classes.";
  static Var forward(const Var& input, const Var& target, int64_t p, double margin,
                     const Var& weight, Flag average, Flag reduce, const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    if (p != 1 && p != 2) fail_as(PyExc_ValueError, "only p == 1 and p == 2 supported, got ", p);
    if (weight && weight.dim() != 1) fail_as(PyExc_ValueError, "weight must be one-dimensional");
    ClassRows of(input, "multi_margin_loss");
    check(target.dim() <= 1 && target.numel() == of.rows,
          "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
          "samples (batch size). Expected target size [",
          of.rows, "], but got ", target.sizes(), ". Input has shape ", input.sizes(), ".");
    check(target.dtype() == DType::I64, "expected scalar type Long but found ",
          info(target.dtype()).tensor_name, " (multi_margin_loss: target)");
    check(!weight || !is_tracked(weight.get()),
          "The function 'multi_margin_loss' is not differentiable with respect to argument "
          "'weight'. This input cannot have requires_grad True.");
    check(!weight || weight.numel() == of.classes, "inconsistent weight size, expected ",
          of.classes, " but got ", weight ? weight.sizes() : Ints());
    Var at = ops::contiguous(target);
    kernel::Outside bad = on(at).find_outside(at->data<int64_t>(), of.rows, of.classes);
    check(!bad, "target out of range: multi_margin_loss got target[", bad.at, "] = ", bad.value,
          ", expected 0 to ", of.classes - 1);
    Var index = ops::reshape(at, {of.rows, 1});
    Var over = at_least(Var(margin) - ops::gather(of.scores, 1, index) + of.scores, 0);
    if (p == 2) over = over * over;
    over = ops::scatter(over, 1, index, ops::zeros({of.rows, 1}, over.dtype(), over.device()));
    if (weight)
      over = over *
             ops::reshape(ops::index_select(weight, 0, ops::reshape(at, {of.rows})), {of.rows, 1});
    return of.result(ops::sum(over, {1}, false) * Var(1 / double(of.classes)), how,
                     target.dim() == 1);
  }
};
RL_OP(MultiMarginLoss)

struct MultilabelMarginLoss : MarginLoss {
  static constexpr auto signature =
      "multilabel_margin_loss(Tensor input, Tensor target, bool? size_average=None, "
      "bool? reduce=None, str reduction='mean')";
  static constexpr bool reads_numbers = true;
  static constexpr auto doc =
      "multilabel_margin_loss(x, target): sum(max(0, 1 - x[wanted] + x[other])) over all pairs, "
      "over the number of classes; a row of target lists classes, up to the first -1.";
  static Var forward(const Var& input, const Var& target, Flag average, Flag reduce,
                     const std::string& reduction) {
    Reduce how = reduction_of(reduction, average, reduce);
    ClassRows of(input, "multilabel_margin_loss");
    check(target.sizes() == input.sizes(), "inconsistent target size: ", target.sizes(),
          " for input of size: ", input.sizes());
    check(target.dtype() == DType::I64, "expected scalar type Long but found ",
          info(target.dtype()).tensor_name, " (multilabel_margin_loss: target)");
    Var wanted, other;
    count_targets(target, of, wanted, other);
    Var over = at_least(Var(1) - ops::unsqueeze(of.scores, 2) + ops::unsqueeze(of.scores, 1), 0);
    Var each = over * ops::unsqueeze(wanted, 2) * ops::unsqueeze(other, 1);
    return of.result(ops::sum(each, {1, 2}, false) * Var(1 / double(of.classes)), how);
  }
  // How often a row lists each class, and 1 for those that it does not list.
  static void count_targets(const Var& target, const ClassRows& of, Var& wanted, Var& other) {
    Plain plain;
    Var counts = ops::zeros({of.rows, of.classes}, DType::F64, target.device()),
        list = ops::contiguous(target);
    kernel::Outside bad =
        on(list).count_classes(list->data<int64_t>(), counts->data<double>(), of.rows, of.classes);
    check(!bad, "argument #2 'target' is out of range: multilabel_margin_loss got class ",
          bad.value, " in row ", bad ? bad.at / of.classes : 0, ", expected 0 to ", of.classes - 1,
          ", or -1 for the end");
    wanted = ops::to(counts, of.scores.dtype());
    other = ops::to(counts == Var(0), of.scores.dtype());
  }
};
RL_OP(MultilabelMarginLoss)

// The losses that torch itself has, with the reduction as a number.
std::string reduction_name(int64_t reduction) {
  if (reduction < 0 || reduction > 2)
    fail_as(PyExc_ValueError, reduction,
            " is not a valid value for reduction: 0 is none, 1 mean, 2 sum");
  return reduction == 0 ? "none" : reduction == 1 ? "mean" : "sum";
}

struct PlainLoss : Composite {
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr Family family = Family::Loss;
  static constexpr bool method = false;
  static constexpr bool out = false;
};

struct PlainCosineEmbeddingLoss : PlainLoss {
  static constexpr auto signature =
      "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
      "int reduction=1)";
  static constexpr auto doc = CosineEmbeddingLoss::doc;
  static Var forward(const Var& x1, const Var& x2, const Var& target, double margin,
                     int64_t reduction) {
    return CosineEmbeddingLoss::forward(x1, x2, target, margin, {}, {}, reduction_name(reduction));
  }
};
RL_OP(PlainCosineEmbeddingLoss)

struct PlainHingeEmbeddingLoss : PlainLoss {
  static constexpr auto signature =
      "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, int reduction=1)";
  static constexpr auto doc = HingeEmbeddingLoss::doc;
  static Var forward(const Var& input, const Var& target, double margin, int64_t reduction) {
    return HingeEmbeddingLoss::forward(input, target, margin, {}, {}, reduction_name(reduction));
  }
};
RL_OP(PlainHingeEmbeddingLoss)

struct PlainMarginRankingLoss : PlainLoss {
  static constexpr auto signature =
      "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
      "int reduction=1)";
  static constexpr auto doc = MarginRankingLoss::doc;
  static Var forward(const Var& x1, const Var& x2, const Var& target, double margin,
                     int64_t reduction) {
    return MarginRankingLoss::forward(x1, x2, target, margin, {}, {}, reduction_name(reduction));
  }
};
RL_OP(PlainMarginRankingLoss)

struct PlainTripletMarginLoss : PlainLoss {
  static constexpr auto signature =
      "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
      "float p=2.0, float eps=1e-06, bool swap=False, int reduction=1)";
  static constexpr auto doc = TripletMarginLoss::doc;
  static Var forward(const Var& anchor, const Var& positive, const Var& negative, double margin,
                     double p, double eps, bool swap, int64_t reduction) {
    return TripletMarginLoss::forward(anchor, positive, negative, margin, p, eps, swap, {}, {},
                                      reduction_name(reduction));
  }
};
RL_OP(PlainTripletMarginLoss)

struct PlainPoissonNllLoss : PlainLoss {
  static constexpr auto signature =
      "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, "
      "int reduction)";
  static constexpr auto doc = PoissonNllLoss::doc;
  static Var forward(const Var& input, const Var& target, bool log_input, bool full, double eps,
                     int64_t reduction) {
    return PoissonNllLoss::forward(input, target, log_input, full, {}, eps, {},
                                   reduction_name(reduction));
  }
};
RL_OP(PlainPoissonNllLoss)

}  // namespace
}  // namespace rl
