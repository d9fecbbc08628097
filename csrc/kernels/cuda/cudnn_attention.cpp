// Attention as a graph that the library recognises and computes by one kernel: no matrix of scores.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/kernels.h"

namespace rl::cuda {

using kernel::AttentionShape;
using kernel::Heads;
using namespace dnn;

namespace {

using Four = std::array<int64_t, 4>;

// What has an address, or a value, when the graph runs.
enum Place {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kScale,
  kNothing,  // minus infinity
  kG,
  kGq,
  kGk,
  kGv,
  kSums,
  kQueriesSum,
  kOne,
  kBetween
};
enum Mode {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kAtLeast = 303,
  kIndex = 501,
  kSelect = 601
};
enum Reduce { kSum = 0, kMax = 3 };

// A tensor of the graph: its description and how long it is.
struct Part {
  const Object* object;
  Four sizes;
};

class Sketch {
 public:
  explicit Sketch(int type) : type_(type) {}

  Part real(int64_t place, int type, const Four& sizes, const Four& strides) {
    return part(place, type, sizes, strides, 0);
  }
  Part number(int64_t place) { return part(place, kFloat32, {1, 1, 1, 1}, {1, 1, 1, 1}, kByValue); }
  Part between(const Four& sizes, int type = kFloat32) {
    return part(next_++, type, sizes, packed(sizes), kVirtual);
  }
  static Four packed(const Four& n) { return {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1}; }

  void pointwise(int mode, Part x, const Part* b, Part y, const Part* condition = nullptr,
                 int64_t axis = -1) {
    Object rule(kPointwise);
    rule.set(0, kPointwiseMode, mode).set(1, kData, mode == kAtLeast ? kBoolean : kFloat32);
    if (axis >= 0) rule.set(9, axis);
    Object operation(kPointwiseOperation);
    operation.set(750, drawing.part(std::move(rule))).set(751, *x.object).set(753, *y.object);
    if (b) operation.set(752, *b->object);
    if (condition) operation.set(758, *condition->object);
    drawing.operation(std::move(operation));
  }
  Part pointwise(int mode, Part x, Part b) {
    Part y = between(x.sizes);
    pointwise(mode, x, &b, y);
    return y;
  }
  Part pointwise(int mode, Part x) {
    Part y = between(x.sizes);
    pointwise(mode, x, nullptr, y);
    return y;
  }
  void multiply(Part a, Part b, Part c) {
    Object rule(kMatmul);
    rule.set(1500, kData, kFloat32);
    Object operation(kMatmulOperation);
    operation.set(1523, drawing.part(std::move(rule)));
    operation.set(1520, *a.object).set(1521, *b.object).set(1522, *c.object);
    drawing.operation(std::move(operation));
  }
  Part multiply(Part a, Part b) {
    Part c = between({a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[3]});
    multiply(a, b, c);
    return c;
  }
  // Over the last dimension.
  Part reduce(int mode, Part x) {
    Object rule(kReduction);
    rule.set(1600, kReductionMode, mode).set(1601, kData, kFloat32);
    Part y = between({x.sizes[0], x.sizes[1], x.sizes[2], 1});
    Object operation(kReductionOperation);
    operation.set(1612, drawing.part(std::move(rule)));
    operation.set(1610, *x.object).set(1611, *y.object);
    drawing.operation(std::move(operation));
    return y;
  }
  // As halves, the last two dimensions exchanged.
  Part turned(Part x) {
    const Four& n = x.sizes;
    Part y = part(next_++, type_, {n[0], n[1], n[3], n[2]},
                  {n[1] * n[2] * n[3], n[2] * n[3], 1, n[3]}, kVirtual);
    Object operation(kReshapeOperation);
    operation.set(2200, *x.object).set(2201, *y.object);
    drawing.operation(std::move(operation));
    return y;
  }
  // Scores of keys behind their query count for nothing.
  Part causal(Part scores) {
    Part rows = between(scores.sizes, kInt32), columns = between(scores.sizes, kInt32),
         seen = between(scores.sizes, kBoolean), masked = between(scores.sizes);
    pointwise(kIndex, scores, nullptr, rows, nullptr, 2);
    pointwise(kIndex, scores, nullptr, columns, nullptr, 3);
    pointwise(kAtLeast, rows, &columns, seen);
    Part nothing = number(kNothing);
    pointwise(kSelect, scores, &nothing, masked, &seen);
    return masked;
  }

  Drawing drawing;

 private:
  enum Kept { kVirtual = 907, kByValue = 908 };
  Part part(int64_t id, int type, const Four& sizes, const Four& strides, int kept) {
    Object t(kTensor);
    t.set(901, kData, type).set(902, kInt, 4, sizes.data()).set(903, kInt, 4, strides.data());
    t.set(906, id).set(900, int64_t(16));
    bool yes = true;
    if (kept) t.set(kept, kBool, 1, &yes);
    return {&drawing.part(std::move(t)), sizes};
  }
  int type_;
  int64_t next_ = kBetween;
};

Four strides_of(const Heads& x) { return {x.batch, x.head, x.row, 1}; }
Four turned(const Four& x) { return {x[0], x[1], x[3], x[2]}; }

// The graphs' sizes, and their parts that both directions have.
struct Problem {
  const AttentionShape& s;
  int type;
  Four by_query{s.batch, s.heads, s.queries, s.width}, by_key{s.batch, s.heads, s.keys, s.width},
      one{s.batch, s.heads, s.queries, 1};

  Part rows(Sketch& sketch, int64_t place, const Four& sizes, const Heads& x) const {
    return sketch.real(place, type, sizes, strides_of(x));
  }
  Part columns(Sketch& sketch, int64_t place, const Four& sizes, const Heads& x) const {
    return sketch.real(place, type, rl::cuda::turned(sizes), rl::cuda::turned(strides_of(x)));
  }
  Part line(Sketch& sketch, int64_t place) const {
    return sketch.real(place, kFloat32, one, Sketch::packed(one));
  }

  Drawing forward(const Heads& q, const Heads& k, const Heads& v, const Heads& out) const {
    Sketch sketch(type);
    Part scores = sketch.multiply(rows(sketch, kQ, by_query, q), columns(sketch, kK, by_key, k));
    scores = sketch.pointwise(kMultiply, scores, sketch.number(kScale));
    if (s.causal) scores = sketch.causal(scores);
    Part most = sketch.reduce(kMax, scores);
    Part powers = sketch.pointwise(kExp, sketch.pointwise(kSubtract, scores, most));
    Part sum = sketch.reduce(kSum, powers), logs = sketch.pointwise(kLog, sum);
    sketch.pointwise(kAdd, most, &logs, line(sketch, kLse));
    Part shares = sketch.between(powers.sizes, type);
    sketch.pointwise(kDivide, powers, &sum, shares);
    sketch.multiply(shares, rows(sketch, kV, by_key, v), rows(sketch, kOut, by_query, out));
    return std::move(sketch.drawing);
  }

  Drawing backward(const Heads& g, const Heads& q, const Heads& k, const Heads& v, const Heads& out,
                   const Heads& gq, const Heads& gk, const Heads& gv) const {
    Sketch sketch(type);
    Part gradient = rows(sketch, kG, by_query, g), queries = rows(sketch, kQ, by_query, q),
         keys = columns(sketch, kK, by_key, k), scale = sketch.number(kScale),
         sums = line(sketch, kSums), one = sketch.number(kOne);
    Part products = sketch.pointwise(kMultiply, gradient, rows(sketch, kOut, by_query, out));
    sketch.pointwise(kMultiply, sketch.reduce(kSum, products), &one, sums);
    Part scores = sketch.pointwise(kMultiply, sketch.multiply(queries, keys), scale);
    scores = sketch.pointwise(kSubtract, scores, line(sketch, kLse));
    if (s.causal) scores = sketch.causal(scores);
    Part shares = sketch.pointwise(kExp, scores);
    sketch.multiply(sketch.turned(shares), gradient, rows(sketch, kGv, by_key, gv));
    Part of_shares = sketch.multiply(gradient, columns(sketch, kV, by_key, v));
    of_shares = sketch.pointwise(kSubtract, of_shares, sums);
    of_shares = sketch.pointwise(kMultiply, of_shares, shares);
    of_shares = sketch.pointwise(kMultiply, of_shares, scale);
    sketch.multiply(sketch.turned(of_shares), queries, rows(sketch, kGk, by_key, gk));
    Part added = sketch.real(kQueriesSum, kFloat32, by_query, Sketch::packed(by_query));
    sketch.multiply(of_shares, sketch.turned(keys), added);
    sketch.pointwise(kIdentity, added, nullptr, rows(sketch, kGq, by_query, gq));
    return std::move(sketch.drawing);
  }
};

constexpr size_t kLayouts = 8;
using AttentionPlans = Plans<6 + 3 * kLayouts, 64>;

AttentionPlans::Key key_of(DType d, const AttentionShape& s, std::initializer_list<Heads> all) {
  AttentionPlans::Key key{s.batch, s.heads, s.queries,
                          s.keys,  s.width, int64_t(d) | int64_t(s.causal) << 8};
  size_t at = 6;
  for (const Heads& x : all)
    for (int64_t stride : {x.batch, x.head, x.row}) key[at++] = stride;
  return key;
}

// Short ones are as quick by our own kernel; older libraries want more of a graph. The library adds
// the gradients of queries up in any order.
bool suits(const AttentionShape& s, std::initializer_list<Heads> all) {
  bool good = cudnn_switches.attention && !repeats() && s.heads == s.key_heads &&
              s.queries >= 128 && s.keys >= 128 && handle() && cudnn_version() >= 91000;
  for (const Heads& x : all) good = good && x.batch > 0 && x.head > 0 && x.row > 0;
  return good;
}

constexpr float kOneValue = 1, kNothingValue = -std::numeric_limits<float>::infinity();

}  // namespace

bool attend_by_library(DType d, const AttentionShape& s, Heads q, Heads k, Heads v, Heads out,
                       void* lse) {
  int type;
  if (!suits(s, {q, k, v, out}) || !type_of(d, type)) return false;
  static auto* plans = new AttentionPlans;
  Plan* plan = plans->get(key_of(d, s, {q, k, v, out}), d,
                          [&] { return Problem{s, type}.forward(q, k, v, out); });
  float scale = float(s.scale);
  static constexpr int64_t ids[] = {kQ, kK, kV, kOut, kLse, kScale, kNothing};
  const void* places[] = {q.data, k.data, v.data, out.data, lse, &scale, &kNothingValue};
  return plan && plan->run(ids, places, s.causal ? 7 : 6);
}

bool attend_backward_by_library(DType d, const AttentionShape& s, Heads g, Heads q, Heads k,
                                Heads v, Heads out, const void* lse, Heads gq, Heads gk, Heads gv) {
  int type;
  if (!suits(s, {g, q, k, v, out, gq, gk, gv}) || !type_of(d, type)) return false;
  static auto* plans = new AttentionPlans;
  Plan* plan = plans->get(key_of(d, s, {g, q, k, v, out, gq, gk, gv}), d,
                          [&] { return Problem{s, type}.backward(g, q, k, v, out, gq, gk, gv); });
  if (!plan) return false;
  float scale = float(s.scale);
  int64_t lines = s.batch * s.heads * s.queries;
  Scratch sums(lines * 4), added(lines * s.width * 4);
  static constexpr int64_t ids[] = {kQ,  kK,  kV,  kOut,  kLse,        kScale, kG,
                                    kGq, kGk, kGv, kSums, kQueriesSum, kOne,   kNothing};
  const void* places[] = {q.data,     k.data,      v.data,     out.data,      lse,
                          &scale,     g.data,      gq.data,    gk.data,       gv.data,
                          sums.get(), added.get(), &kOneValue, &kNothingValue};
  return plan->run(ids, places, s.causal ? 14 : 13);
}

}  // namespace rl::cuda
