#include "autograd/forward.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

#include "autograd/inplace.h"
#include "autograd/levels.h"
#include "autograd/region.h"
#include "ops/functions.h"

namespace rl {

int dual_levels = 0;

namespace {

// Who has tangents of each level, so that leaving it frees them.
std::vector<std::unordered_set<Tangents*>>& levels() {
  static auto* all = new std::vector<std::unordered_set<Tangents*>>;
  return *all;
}

Tangents* find(const Tensor* t) {
  if (!t->extra) return nullptr;
  if (t->extra->tangents) return t->extra->tangents;
  const Tensor* base = t->extra->base;
  return base && base->extra ? base->extra->tangents : nullptr;
}

void hold(Tensor* t, Tangents* tangents) {
  tangents->holders++;
  release(std::exchange(extra(t).tangents, tangents));
}

// Those that a write to t changes.
Tangents& own(Tensor* t) {
  if (Tangents* found = find(t)) return *found;
  Tensor* root = is_view(t) ? t->extra->base : t;
  hold(root, new Tangents(alias(root)));
  return *root->extra->tangents;
}

Var* find_value(Tangents& tangents, int level) {
  for (auto& one : tangents.list)
    if (one.level == level) return &one.value;
  return nullptr;
}

void put_value(Tangents& tangents, int level, const Var& value) {
  if (Var* found = find_value(tangents, level)) {
    *found = value;
    return;
  }
  auto at = tangents.list.begin();
  while (at != tangents.list.end() && at->level < level) ++at;
  tangents.list.insert(at, {level, value});
  levels()[size_t(level)].insert(&tangents);
}

// Tangents of integers, and of bytes read as something else, do not exist.
bool reads(const Tensor* t, const Tensor* whole) {
  return is_differentiable(t->dtype) && real_of(t->dtype) == real_of(whole->dtype);
}

Levels all_levels(const Tensor* t) {
  const Tangents* tangents = find(t);
  Levels found = 0;
  if (tangents && reads(t, tangents->whole.get()))
    for (const auto& one : tangents->list) found |= Levels(1) << one.level;
  return found;
}

bool is_whole(const Tensor* t, const Tensor* whole) {
  return t->dtype == whole->dtype && t->offset == whole->offset && t->sizes == whole->sizes &&
         t->strides == whole->strides;
}

bool is_constant(const Var& v) { return !requires_grad(v.get()) && !levels_of(v.get()); }

// Writes a part of `whole` where nobody would notice.
bool overwrite(const Tensor* t, const Tangents& tangents, Var& whole, const Var& value) {
  if (t->dtype != tangents.whole.dtype() || !tangents.whole->contiguous || !whole->contiguous ||
      !is_exclusive(whole.get()) || !is_constant(whole) || !is_constant(value) ||
      !lies_in(tangents.whole.get(), t->sizes, t->strides, t->offset))
    return false;
  Region r = region_in(tangents.whole.get(), t->sizes, t->strides, t->offset);
  Var part = alias(whole.get(), r.sizes, r.strides, whole->offset + r.offset);
  ops::copy_data(part.get(), value.get());
  return true;
}

Var zeros_like(const Tensor* t) { return ops::zeros(t->sizes, t->dtype, t->storage->device); }

// Gives `to` the history of `from`.
void follow(Tensor* to, Tensor* from) {
  if (!requires_grad(from) || !is_differentiable(from->dtype)) return;
  Edge edge = gradient_edge(from);
  to->grad_fn = edge.node;
  to->output_nr = edge.nr;
  if (edge.node && edge.node->leads_to_python) mark(to);
}

// Another tensor with the memory and the history of t, and its tangents of these levels.
Var with_levels(const Var& t, Levels wanted) {
  Var other = alias(t.get());
  other->wrapped_number = t->wrapped_number;
  follow(other.get(), t.get());
  if (!wanted) return other;
  const Tangents& all = *find(t.get());
  auto* kept = new Tangents(all.whole);
  hold(other.get(), kept);
  for (const auto& one : all.list)
    if (wanted >> one.level & 1) put_value(*kept, one.level, one.value);
  return other;
}

}  // namespace

Tangents::~Tangents() {
  for (const One& one : list)
    if (size_t(one.level) < levels().size()) levels()[size_t(one.level)].erase(this);
}

void release(Tangents* tangents) {
  if (tangents && --tangents->holders == 0) delete tangents;
}

Levels levels_slow(const Tensor* t) { return modes.inference ? 0 : all_levels(t) & modes.levels; }

Var tangent_of(const Var& t, int level) {
  if (!(levels_of(t.get()) >> level & 1)) return {};
  Tangents& tangents = *find(t.get());
  const Var& value = *find_value(tangents, level);
  if (is_whole(t.get(), tangents.whole.get())) return value;
  return Part(t.get(), tangents.whole.get()).read(value);
}

Var below(const Var& t, int level) {
  Levels all = t && dual_levels ? all_levels(t.get()) : 0;
  return all >> level ? with_levels(t, all & ((Levels(1) << level) - 1)) : t;
}

void set_tangent(Tensor* t, int level, const Var& given) {
  Var value = ops::to(below(given, level), t->dtype);
  if (!(value.sizes() == t->sizes)) value = ops::expand(value, t->sizes);
  Tangents& tangents = own(t);
  if (is_whole(t, tangents.whole.get())) return put_value(tangents, level, value);
  Var* whole = find_value(tangents, level);
  if (whole && overwrite(t, tangents, *whole, value)) return;
  Var before = whole ? *whole : zeros_like(tangents.whole.get());
  put_value(tangents, level, Part(t, tangents.whole.get()).written(before, value));
}

void replace_tangents(Tensor* t, const Var& now) {
  for (Levels rest = levels_of(t) | levels_of(now.get()); rest; rest &= rest - 1) {
    Var value = tangent_of(now, lowest(rest));
    set_tangent(t, lowest(rest), value ? value : zeros_like(t));
  }
}

void share_tangents(Tensor* to, Tensor* from) { hold(to, &own(from)); }

void separate_tangents(Tensor* t) { hold(t, new Tangents(alias(t))); }

Var tangents_alone(Tensor* t) {
  if (!dual_levels || !is_differentiable(t->dtype)) return {};
  Tangents& tangents = own(t);
  Var place = alias(tangents.whole.get(), t->sizes, t->strides, t->offset);
  place->dtype = t->dtype;
  hold(place.get(), &tangents);
  return place;
}

Var with_tangents(const Var& t, const Var& from) {
  Var other = alias(t.get());
  follow(other.get(), t.get());
  for (Levels rest = levels_of(from.get()); rest; rest &= rest - 1)
    set_tangent(other.get(), lowest(rest), tangent_of(from, lowest(rest)));
  return other;
}

Var stand_in(Tensor* t) {
  Var copy = lazy_clone(t);
  follow(copy.get(), t);
  for (Levels rest = levels_of(t); rest; rest &= rest - 1)
    set_tangent(copy.get(), lowest(rest), tangent_of(Var(t), lowest(rest)));
  return copy;
}

void take_over(Tensor* t, const Var& written) {
  if (!written) return;
  if (written->grad_fn) rebase_history(t, {written->grad_fn, written->output_nr});
  replace_tangents(t, written);
}

static Levels revealed = 0;  // levels that entering made visible
static Levels entered = 0;   // of all threads; dual_levels is one more than the highest
static thread_local Levels entered_here = 0;

static int highest(Levels all) { return all ? 63 - std::countl_zero(uint64_t(all)) : -1; }

bool in_dual_level(int level) { return entered >> level & 1; }

int current_dual_level() {
  entered_here &= entered;
  return highest(entered_here ? entered_here : entered);
}

// Above the levels that this thread is in, so that inner ones are higher.
int enter_dual_level() {
  entered_here &= entered;
  int level = highest(entered_here) + 1;
  while (level < kMaxLevels && entered >> level & 1) level++;
  check(level < kMaxLevels, "forward AD: at most ", kMaxLevels, " dual levels may be nested");
  if (levels().size() <= size_t(level)) levels().resize(size_t(level) + 1);
  Levels bit = Levels(1) << level;
  entered |= bit;
  entered_here |= bit;
  dual_levels = highest(entered) + 1;
  // Also where outer levels are out of sight: inside the forward of a custom Function.
  if (!(modes.levels & bit)) revealed |= bit;
  modes.levels |= bit;
  return level;
}

// The tangents are let go when no list is being walked any more: they may own other tangents.
void exit_dual_level() {
  int level = current_dual_level();
  if (level < 0) return;
  std::vector<Var> dead;
  for (Tangents* tangents : std::exchange(levels()[size_t(level)], {})) {
    auto one = std::find_if(tangents->list.begin(), tangents->list.end(),
                            [&](const auto& it) { return it.level == level; });
    dead.push_back(std::move(one->value));
    tangents->list.erase(one);
  }
  Levels bit = Levels(1) << level;
  entered &= ~bit;
  entered_here &= ~bit;
  dual_levels = highest(entered) + 1;
  if (revealed & bit) modes.levels &= ~bit;
  revealed &= ~bit;
}

Var make_dual(const Var& primal, const Var& tangent, int level) {
  check(!(levels_of(primal.get()) >> level & 1),
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
        "level ",
        level, " is not supported.");
  check(!(levels_of(tangent.get()) >> level & 1),
        "Setting a forward grad that itself has a forward gradient at the same level ", level,
        " is not supported.");
  check(tangent.sizes() == primal.sizes(),
        "Trying to set a forward gradient that has a different size than that of the original "
        "Tensor, this is not supported. Tensor is of size ",
        primal.sizes(), " while the given forward gradient is of size ", tangent.sizes(), ".");
  check(is_complex(primal.dtype()) || !is_complex(tangent.dtype()),
        "make_dual: the tangent of a real tensor is real, got ", name(tangent.dtype()), " for ",
        name(primal.dtype()));
  Var dual;
  {
    VisibleLevels none(0);
    // Elements that share memory may move apart.
    dual = has_distinct_elements(primal.sizes(), primal->strides) ? ops::alias_view(primal)
                                                                  : ops::clone(primal);
  }
  if (modes.inference || !(modes.levels >> level & 1)) return dual;
  separate_tangents(dual.get());
  set_tangent(dual.get(), level, tangent);
  for (Levels rest = levels_of(primal.get()) | levels_of(tangent.get()); rest; rest &= rest - 1) {
    int other = lowest(rest);
    Var one = tangent_of(primal, other);
    if (other < level) {
      if (one) set_tangent(dual.get(), other, one);
      continue;
    }
    Var two = tangent_of(tangent, other);
    if (!one) one = zeros_like(primal.get());
    set_tangent(dual.get(), other, two ? make_dual(one, ops::to(two, one.dtype()), level) : one);
  }
  return dual;
}

Var primal_of(const Var& dual, int level) {
  Levels all = levels_of(dual.get());
  Var primal;
  {
    VisibleLevels none(0);
    primal = ops::alias_view(dual);
  }
  separate_tangents(primal.get());
  for (Levels rest = all & ~(Levels(1) << level); rest; rest &= rest - 1) {
    Var one = tangent_of(dual, lowest(rest));
    set_tangent(primal.get(), lowest(rest), lowest(rest) > level ? primal_of(one, level) : one);
  }
  return primal;
}

Var full_tangent_of(const Var& dual, int level) {
  Var tangent = tangent_of(dual, level);
  for (Levels rest = levels_of(dual.get()) >> level >> 1 << level << 1; rest; rest &= rest - 1) {
    Var mixed = full_tangent_of(tangent_of(dual, lowest(rest)), level);
    if (!mixed) continue;
    tangent = tangent ? with_levels(tangent, levels_of(tangent.get())) : zeros_like(dual.get());
    set_tangent(tangent.get(), lowest(rest), mixed);
  }
  return tangent;
}

void refuse_out(const char* op) {
  fail_as(PyExc_NotImplementedError, "Trying to use forward AD with ", op,
          "_out that does not support it because it is an out= function");
}

}  // namespace rl
