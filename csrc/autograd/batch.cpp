#include "autograd/batch.h"

#include <map>

#include "autograd/node.h"
#include "call/batch.h"
#include "ops/functions.h"

namespace rl {

int64_t batched_tensors = 0;
thread_local std::vector<VmapLevel> vmap_levels;

namespace {

// A key with this bit is a level; others number sets of several levels, in a table.
constexpr uint32_t kOneLevel = 1u << 31;

std::map<std::vector<int64_t>, uint32_t>& keys() {
  static auto* all = new std::map<std::vector<int64_t>, uint32_t>;
  return *all;
}
std::vector<std::vector<int64_t>>& known_levels() {
  static auto* all = new std::vector<std::vector<int64_t>>{{}};
  return *all;
}

bool contains(const std::vector<int64_t>& levels, int64_t level) {
  for (int64_t l : levels)
    if (l == level) return true;
  return false;
}

int index_of(const Ints& levels, int64_t level) {
  for (int i = 0; i < levels.size(); i++)
    if (levels[i] == level) return i;
  return -1;
}

template <class Keep>
Var sum_levels(Var grad, const Keep& keep) {
  while (const Batch* batch = batch_of(grad.get())) {
    int64_t left = -1, size = 0;
    for (int i = 0; i < batch->levels.size() && left < 0; i++)
      if (!keep(batch->levels[i])) {
        left = batch->levels[i];
        size = batch->sizes[i];
      }
    if (left < 0) break;
    grad = ops::sum(ops::remove_batch_dim(grad, left, size, 0), {0}, false);
  }
  return grad;
}

}  // namespace

void set_batch(Tensor* t, const Batch& batch) {
  Extra& e = extra(t);
  drop_batch(&e);
  e.batch = new Batch(batch);
  batched_tensors++;
}

void drop_batch(Extra* extra) {
  if (!extra->batch) return;
  delete std::exchange(extra->batch, nullptr);
  batched_tensors--;
}

uint32_t batch_key(const Tensor* t) {
  const Batch* batch = batch_of(t);
  if (!batch) return 0;
  if (batch->levels.size() == 1 && batch->levels[0] < kOneLevel)
    return kOneLevel | uint32_t(batch->levels[0]);
  std::vector<int64_t> levels(batch->levels.begin(), batch->levels.end());
  auto [at, fresh] = keys().try_emplace(levels, uint32_t(known_levels().size()));
  if (fresh) known_levels().push_back(levels);
  return at->second;
}

// Called where a level is entered: sets of levels that no tensor and no node can have any more.
void forget_level_sets() {
  if (batched_tensors || live_nodes || known_levels().size() == 1) return;
  keys().clear();
  known_levels().resize(1);
}

bool is_entered(int64_t level) {
  for (const VmapLevel& l : vmap_levels)
    if (l.id == level) return true;
  return false;
}

HiddenDims random_levels() {
  HiddenDims different;
  for (const VmapLevel& level : vmap_levels) {
    check(level.randomness != VmapLevel::Error,
          "vmap: called random operation while in randomness error mode. Please either use the "
          "'same' or 'different' randomness flags on vmap or perform the randomness operation out "
          "of vmap");
    if (level.randomness != VmapLevel::Different) continue;
    different.levels.push_back(level.id);
    different.sizes.push_back(level.size);
  }
  return different;
}

void give_samples(Tensor* t, const HiddenDims& hidden) {
  check(is_exclusive(t), "vmap: a tensor that is not batched (sizes ", t->sizes,
        ") cannot be filled with numbers that differ between samples; make it inside, or from a "
        "batched tensor");
  Var all = empty(hidden.prefixed(t->sizes), t->dtype, t->device());
  std::swap(t->storage, all->storage);
  int n = hidden.count();
  t->offset = 0;
  t->strides = Ints(all->strides.data() + n, t->dim());
  t->contiguous = is_contiguous(t->sizes, t->strides);
  set_batch(t, {hidden.levels, hidden.sizes, Ints(all->strides.data(), n)});
}

void HiddenDims::add_tensor(const Tensor* t) {
  const Batch* batch = batch_of(t);
  if (!batch) return;
  for (int i = 0; i < batch->levels.size(); i++) {
    int64_t level = batch->levels[i];
    int at = 0;
    while (at < levels.size() && levels[at] < level) at++;
    if (at < levels.size() && levels[at] == level) {
      check(sizes[at] == batch->sizes[i], "vmap: a level has two sizes: ", sizes[at], " and ",
            batch->sizes[i]);
      continue;
    }
    levels.insert(at, level);
    sizes.insert(at, batch->sizes[i]);
  }
}

Ints HiddenDims::prefixed(const Ints& own) const {
  Ints all = sizes;
  for (int64_t s : own) all.push_back(s);
  return all;
}

Var HiddenDims::front(const Var& v, int ones) const {
  const Batch* batch = batch_of(v.get());
  Ints all = sizes, strides;
  for (int64_t level : levels) {
    int at = batch ? index_of(batch->levels, level) : -1;
    strides.push_back(at < 0 ? 0 : batch->strides[at]);
  }
  for (int i = 0; i < ones; i++) {
    all.push_back(1);
    strides.push_back(0);
  }
  for (int i = 0; i < v.dim(); i++) {
    all.push_back(v->sizes[i]);
    strides.push_back(v->strides[i]);
  }
  Var plain = alias(v.get(), std::move(all), std::move(strides), v->offset);
  drop_batch(&extra(plain.get()));
  plain->wrapped_number = v->wrapped_number && plain.dim() == 0;
  return plain;
}

Var HiddenDims::front_if(const Var& v) const { return batch_of(v.get()) ? front(v) : v; }

Var HiddenDims::flat(const Var& v) const { return ops::reshape(front(v), prefixed({v.numel()})); }

Var HiddenDims::hide(const Var& physical) const {
  int n = count();
  Batch batch;
  batch.levels = levels;
  Ints own, strides;
  for (int i = 0; i < physical.dim(); i++) {
    (i < n ? batch.sizes : own).push_back(physical->sizes[i]);
    (i < n ? batch.strides : strides).push_back(physical->strides[i]);
  }
  Var sample = alias(physical.get(), std::move(own), std::move(strides), physical->offset);
  set_batch(sample.get(), batch);
  return sample;
}

Var HiddenDims::sample(const Var& v, int64_t n) const {
  const Batch* batch = batch_of(v.get());
  if (!batch) return v;
  if (samples() == 0) return ops::zeros(v.sizes(), v.dtype(), v.device());
  int64_t offset = v->offset;
  for (int i = count() - 1; i >= 0; n /= sizes[i], i--) {
    int at = index_of(batch->levels, levels[i]);
    if (at >= 0) offset += n % sizes[i] * batch->strides[at];
  }
  Var plain = alias(v.get(), v->sizes, v->strides, offset);
  drop_batch(&extra(plain.get()));
  return plain;
}

Var HiddenDims::join(const char* op, const std::vector<Var>& results) const {
  const Ints& own = results[0].sizes();
  if (samples() == 0) return empty(prefixed(own), results[0].dtype(), results[0].device());
  for (const Var& v : results)
    check(v.sizes() == own, "vmap: ", op, " gives samples results of different shapes, ", own,
          " and ", v.sizes(), ": operators that can output dynamic shape cannot be batched then");
  return ops::reshape(ops::stack(results, 0), prefixed(own));
}

Var sum_left_levels(const Var& grad, uint32_t key) {
  return sum_levels(grad, [&](int64_t level) {
    if (is_entered(level)) return true;
    return key & kOneLevel ? level == (key & ~kOneLevel) : contains(known_levels()[key], level);
  });
}

Var sum_extra_levels(const Var& grad, const Tensor* leaf) {
  const Batch* batch = batch_of(leaf);
  return sum_levels(grad, [&](int64_t level) { return batch && batch->levels.contains(level); });
}

void check_batched_write(const Tensor* into, const Tensor* src) {
  HiddenDims own, all;
  own.add_tensor(into);
  all.add_tensor(into);
  all.add_tensor(src);
  check(own.count() == all.count(), "vmap: a tensor that is not batched (sizes ", into->sizes,
        ") cannot be written in place with values that differ between samples: all of them would "
        "write the same memory. Use an operation that is not in place, or make the tensor from a "
        "batched one, as new_zeros and zeros_like do.");
}

void copy_batched(Tensor* into, const Tensor* src) {
  check_batched_write(into, src);
  HiddenDims own;
  own.add_tensor(into);
  int ones = std::max(0, into->dim() - src->dim());
  ops::copy_data(own.front(Var(into)).get(), own.front(Var(const_cast<Tensor*>(src)), ones).get());
}

Var all_samples(const Tensor* t) {
  HiddenDims own;
  own.add_tensor(t);
  return own.front(Var(const_cast<Tensor*>(t)));
}

void refuse_batched(const char* what) {
  fail("vmap: ", what,
       " is not possible on a batched tensor: there is one value for each sample. ");
}

}  // namespace rl
