#include "python/optim_step.h"

#include <memory>
#include <vector>

#include "autograd/forward.h"
#include "autograd/profile.h"
#include "autograd/writes.h"
#include "kernels/cuda/graph.h"
#include "ops/functions.h"
#include "python/module_type.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {
namespace {

constexpr int64_t kWorthUnlocking = 1 << 16;  // elements

// One parameter's part of a step. The parameters' list and the state keep the tensors alive.
struct Entry {
  Tensor *param, *grad;
  Tensor* slots[kSlots];  // those in use, scalars first
  PyObject* state;        // its dict, where slots are to be put in
  const Hyper* hyper;
  PyObject* group;
  unsigned slot_bits;
  uint8_t scalars, used;
  bool first;
};

// A stand-in for a tensor whose elements do not lie in the order of the parameter's.
struct Copy {
  Tensor* of;
  Var elements;
  bool written;
};

bool same_strides(const Tensor* a, const Tensor* b) {
  if (a->contiguous && b->contiguous) return true;
  for (int i = 0; i < a->dim(); i++)
    if (a->sizes[i] > 1 && a->strides[i] != b->strides[i]) return false;
  return true;
}

// The lists of the thread's last step, kept for the next one.
thread_local std::vector<Entry> spare_entries;
thread_local std::vector<kernel::Step> spare_steps;

class StepRun {
 public:
  StepRun(const Rule& rule, PyObject* state)
      : rule_(rule),
        names_(names_of(rule)),
        all_(state),
        entries_(std::move(spare_entries)),
        steps_(std::move(spare_steps)) {
    entries_.clear();
  }
  ~StepRun() {
    line_.drop();
    spare_entries = std::move(entries_);
    spare_steps = std::move(steps_);
  }
  StepRun(const StepRun&) = delete;

  // False when a parameter needs the formula in Python: it has a tangent or a class of its own.
  bool add_group(PyObject* group, const Hyper& hyper) {
    static PyObject* const params_name = interned("params");
    PyObject* params = item(group, params_name);
    if (!PyList_Check(params))
      fail_as(PyExc_TypeError, rule_.writer, ": 'params' of a group must be a list, got ",
              Py_TYPE(params)->tp_name);
    unsigned used = rule_.used(hyper.values) & ((1u << names_.slot_count) - 1);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); i++) {
      PyObject* o = PyList_GET_ITEM(params, i);
      if (!is_tensor(o))
        fail_as(PyExc_TypeError, rule_.writer, ": a parameter must be a Tensor, got ",
                Py_TYPE(o)->tp_name);
      Tensor* p = as_tensor(o);
      if (!p->extra || !p->extra->grad) continue;
      if (!is_plain(p) || !is_plain(p->extra->grad)) return false;
      if (!entries_.empty() && entries_[0].param->device().type != p->device().type) return false;
      add(p, hyper, used);
      entries_.back().group = group;
    }
    return true;
  }

  void run() {
    if (entries_.empty()) return;
    line_.note();
    on(entries_[0].param);
    if (cuda::capture) [[unlikely]]
      return record();
    if (steps_.size() < entries_.size()) steps_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); i++) prepare(entries_[i], steps_[i]);
    execute();
    Plain plain;
    for (Copy& c : copies_)
      if (c.written) ops::copy_data(c.of, c.elements.get());
  }

 private:
  static bool is_plain(Tensor* t) {
    return !is_subclass(reinterpret_cast<PyObject*>(t)) && !levels_of(t) && has_data(t);
  }

  // An error about a parameter, which the model's name for it makes clear.
  template <class... Parts>
  [[noreturn]] void refuse(const Tensor* p, const Parts&... parts) {
    std::string which = parameter_text(p);
    fail(rule_.writer, ": ", parts..., which.empty() ? "" : " (" + which + ")");
  }

  void add(Tensor* p, const Hyper& hyper, unsigned used) {
    Tensor* g = p->extra->grad;
    if (!is_differentiable(p->dtype)) [[unlikely]]
      refuse(p, "a parameter must be of a floating point or complex dtype, got ", name(p->dtype));
    if (g->sizes != p->sizes) [[unlikely]]
      refuse(p, "the size of the gradient ", g->sizes, " must match the size of its parameter ",
             p->sizes, "; was the parameter's .data replaced after backward()?");
    if (g->device() != p->device()) [[unlikely]]
      refuse(p, "the gradient must be on the device of its parameter, ", device_text(p->device()),
             ", got one on ", device_text(g->device()));
    check_writable(p);
    Entry& e = entries_.emplace_back();
    e.param = p;
    e.grad = g;
    e.hyper = &hyper;
    e.slot_bits = used;
    e.scalars = e.used = 0;
    e.first = false;
    if (used) find_state(e);
  }

  // The dict of a parameter (borrowed); made when there is none.
  PyObject* state_of(Tensor* p) {
    PyObject* key = reinterpret_cast<PyObject*>(p);
    PyObject* found = PyDict_GetItemWithError(all_, key);
    if (found) {
      if (!PyDict_Check(found))
        fail_as(PyExc_TypeError, rule_.writer, ": the state of a parameter must be a dict, got ",
                Py_TYPE(found)->tp_name);
      return found;
    }
    if (PyErr_Occurred()) throw PythonError{};
    PyObject* made = PyDict_New();
    int failed = made ? PyDict_SetItem(all_, key, made) : -1;
    Py_XDECREF(made);
    if (failed < 0) throw PythonError{};
    return made;
  }

  void find_state(Entry& e) {
    e.state = state_of(e.param);
    // SGD's buffer is not there, or is None, until momentum is first used.
    bool lazy = !rule_.slots[0].scalar;
    e.first = PyDict_GET_SIZE(e.state) == 0;
    for (int k = 0; k < names_.slot_count; k++) {
      if (!(e.slot_bits >> k & 1)) continue;
      PyObject* value = nullptr;
      if (!e.first) {
        value = lazy ? PyDict_GetItemWithError(e.state, names_.slots[k])
                     : item(e.state, names_.slots[k]);
        if (!value && PyErr_Occurred()) throw PythonError{};
        if (lazy && (!value || value == Py_None)) e.first = true;
      }
      if (e.first) made_.push_back(fresh_slot(rule_, *e.hyper, k, e.param));
      e.slots[e.used++] = e.first ? made_.back().get() : checked(e, k, value);
      e.scalars += rule_.slots[k].scalar;
    }
  }

  // A tensor of the state that fits its parameter.
  Tensor* checked(const Entry& e, int k, PyObject* value) {
    const Slot& slot = rule_.slots[k];
    if (!is_tensor(value)) {
      if (slot.scalar)
        fail("API has changed, `state_", slot.name,
             "s` argument must contain a list of singleton tensors: ", rule_.writer, " found '",
             slot.name, "' of class ", Py_TYPE(value)->tp_name,
             " in a parameter's state; load_state_dict() converts old ones");
      fail_as(PyExc_TypeError, rule_.writer, ": '", slot.name,
              "' of a parameter's state must be a Tensor, got ", Py_TYPE(value)->tp_name);
    }
    Tensor *t = as_tensor(value), *p = e.param;
    check_writable(t);
    // Counters of steps stay in main memory, or lie with their parameter.
    if (t->device() != p->device() && !(slot.scalar && t->device() == kHost)) [[unlikely]]
      refuse(p, "Expected all tensors to be on the same device: '", slot.name,
             "' of its state is on ", device_text(t->device()), ", the parameter on ",
             device_text(p->device()));
    if (slot.scalar) {
      if (t->numel != 1 || !is_floating(t->dtype)) [[unlikely]]
        refuse(p, "'", slot.name, "' of its state must hold one floating point number, got shape ",
               t->sizes, " and dtype ", name(t->dtype));
    } else if (t->sizes != p->sizes || is_complex(t->dtype) != is_complex(p->dtype)) [[unlikely]] {
      refuse(p, "the size of the state '", slot.name, "' ", t->sizes, " (", name(t->dtype),
             ") must match the size of its parameter ", p->sizes, " (", name(p->dtype),
             "); was the state of another model loaded?");
    }
    if (!has_data(t) && has_data(p)) [[unlikely]]
      refuse(p, "the state '", slot.name, "' has no elements: it is on the meta device");
    return t;
  }

  // What prepare_write does, with one look at the interpreter's frames for the whole step.
  void note_write(Tensor* t) {
    Storage* s = t->storage;
    own_memory(s);
    s->version++;
    if (s->writer.code != line_.code) {
      Py_XINCREF(line_.code);
      Py_XSETREF(s->writer.code, line_.code);
    }
    s->writer.lasti = line_.lasti;
    s->writer_op = rule_.writer;
    if (s->saved) [[unlikely]]
      log_write(t, rule_.writer);
  }

  // The elements of t as one array in the layout of the parameter, through a copy if need be.
  char* array_of(Tensor* t, const Tensor* layout, bool written) {
    if (t->dtype == layout->dtype && same_strides(t, layout)) return t->data();
    return copy_of(t,
                   empty_strided(layout->sizes, layout->strides, layout->dtype, layout->device()),
                   written)
        ->data();
  }
  Tensor* copy_of(Tensor* t, Var elements, bool written) {
    Plain plain;
    ops::copy_data(elements.get(), t);
    copies_.push_back({t, std::move(elements), written});
    return copies_.back().elements.get();
  }

  void prepare(Entry& e, kernel::Step& step) {
    Tensor* p = e.param;
    note_write(p);
    for (int k = 0; k < e.used; k++) note_write(e.slots[k]);
    if (!p->contiguous && !is_dense(p->sizes, p->strides))
      p = copy_of(p, empty(p->sizes, p->dtype, p->device()), true);
    step.n = p->numel * (is_complex(p->dtype) ? 2 : 1);
    step.dtype = real_of(p->dtype);
    step.param = p->data();
    step.grad = array_of(e.grad, p, false);
    for (int k = e.scalars; k < e.used; k++)
      step.state[k - e.scalars] = array_of(e.slots[k], p, true);
    compute_numbers(e, step);
    if (e.first) put_in_dict(e);
  }

  void compute_numbers(Entry& e, kernel::Step& step) {
    Scalar scalars[kSlots];
    bool same =
        last_ && last_hyper_ == e.hyper && last_first_ == e.first && last_->dtype == step.dtype;
    for (int k = 0; k < e.scalars; k++) {
      scalars[k] = {value_of(e.slots[k]), e.slots[k]->dtype == DType::F32};
      same = same && scalars[k].value == before_[k].value && scalars[k].single == before_[k].single;
    }
    if (same) {
      step.kernel = last_->kernel;
      std::copy(last_->numbers, std::end(last_->numbers), step.numbers);
      std::copy(after_, std::end(after_), scalars);
    } else {
      std::copy(scalars, std::end(scalars), before_);
      step.kernel =
          rule_.prepare({on(e.param), e.hyper->values, step.dtype, e.first, scalars, step.numbers});
      std::copy(scalars, std::end(scalars), after_);
      last_ = &step;
      last_hyper_ = e.hyper;
      last_first_ = e.first;
    }
    for (int k = 0; k < e.scalars; k++) put_scalar(e.slots[k], scalars[k].value);
  }

  // A step of a CUDA graph: every launch of the graph reads the groups and advances the scalars as
  // a step does. Recording it does not count as one.
  void record() {
    std::vector<double> before;
    for (Entry& e : entries_) {
      if (e.first)
        refuse(e.param,
               "the first step makes the state and cannot be part of a CUDA graph; take "
               "a step before capturing");
      for (int k = 0; k < e.scalars; k++) before.push_back(value_of(e.slots[k]));
    }
    steps_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); i++) prepare(entries_[i], steps_[i]);
    check(copies_.empty(), rule_.writer,
          ": parameters, gradients and states of a CUDA graph must have the same layout");
    size_t at = 0;
    for (Entry& e : entries_)
      for (int k = 0; k < e.scalars; k++) put_scalar(e.slots[k], before[at++]);
    for (size_t i = 0, end; i < entries_.size(); i = end) {
      for (end = i + 1; end < entries_.size() && entries_[end].group == entries_[i].group;) end++;
      check(end_of_device(i) >= end, rule_.writer,
            ": the parameters of a step in a CUDA graph must lie on one device");
      on(entries_[i].param).run_steps(&steps_[i], end - i);
      cuda::renew_last_steps(renewal(i, end));
    }
  }

  // What computes the numbers of the entries from `begin` to `end`, which share a group.
  cuda::RenewSteps renewal(size_t begin, size_t end) {
    struct Kept {
      Var param;
      std::vector<Var> slots;
      int scalars;
    };
    std::vector<Kept> kept;
    for (size_t i = begin; i < end; i++) {
      Entry& e = entries_[i];
      kept.push_back({Var(e.param), {}, e.scalars});
      for (int k = 0; k < e.used; k++) kept.back().slots.emplace_back(e.slots[k]);
    }
    PyObject* group = entries_[begin].group;
    Py_INCREF(group);
    std::shared_ptr<PyObject> alive(group, Py_DecRef);
    return [kept, alive, rule = &rule_](std::vector<kernel::Step>& steps) {
      Hyper hyper = read_group(*rule, alive.get());
      for (size_t i = 0; i < steps.size(); i++) {
        const Kept& e = kept[i];
        Scalar scalars[kSlots];
        for (int k = 0; k < e.scalars; k++)
          scalars[k] = {value_of(e.slots[size_t(k)].get()),
                        e.slots[size_t(k)].dtype() == DType::F32};
        steps[i].kernel = rule->prepare(
            {on(e.param), hyper.values, steps[i].dtype, false, scalars, steps[i].numbers});
        for (int k = 0; k < e.scalars; k++) put_scalar(e.slots[size_t(k)].get(), scalars[k].value);
        e.param.get()->storage->version++;
      }
    };
  }

  static void put_scalar(Tensor* t, double value) {
    if (t->device() != kHost) ops::fill_data(t, value);
    else if (t->dtype == DType::F32) *t->host<float>() = float(value);
    else if (t->dtype == DType::F64) *t->host<double>() = value;
    else ops::fill_data(t, value);
  }

  void put_in_dict(Entry& e) {
    for (int k = 0, at = 0; k < names_.slot_count; k++)
      if ((e.slot_bits >> k & 1) &&
          PyDict_SetItem(e.state, names_.slots[k], reinterpret_cast<PyObject*>(e.slots[at++])) < 0)
        throw PythonError{};
  }

  // The entries from `begin` to there lie on one device.
  size_t end_of_device(size_t begin) const {
    size_t end = begin + 1;
    while (end < entries_.size() &&
           entries_[end].param->device() == entries_[begin].param->device())
      end++;
    return end;
  }

  void execute() {
    size_t count = entries_.size();
    int64_t work = 0;
    for (size_t i = 0; i < count; i++) work += steps_[i].n;
    if (work < kWorthUnlocking || entries_[0].param->device() != kHost) {
      for (size_t i = 0, end; i < count; i = end) {
        end = end_of_device(i);
        on(entries_[i].param).run_steps(&steps_[i], end - i);
      }
      return;
    }
    // Other threads may run meanwhile, drop a tensor or give it other memory.
    std::vector<Var> tensors;
    std::vector<Storage*> storages;
    auto hold = [&](Tensor* t) {
      tensors.emplace_back(t);
      storages.push_back(retain(t->storage));
    };
    for (Entry& e : entries_) {
      hold(e.param);
      hold(e.grad);
      for (int k = 0; k < e.used; k++) hold(e.slots[k]);
    }
    PyThreadState* thread = PyEval_SaveThread();
    on(entries_[0].param).run_steps(steps_.data(), count);
    PyEval_RestoreThread(thread);
    for (Storage* s : storages) release(s);
    held_ = std::move(tensors);
  }

  const Rule& rule_;
  const Names& names_;
  PyObject* all_;
  Where line_;
  std::vector<Entry> entries_;
  std::vector<kernel::Step> steps_;
  std::vector<Copy> copies_;
  std::vector<Var> made_;  // fresh state, until the dicts have it
  std::vector<Var> held_;  // until the copies are put back
  // The numbers of the parameter before, which mostly are those of the next one too.
  const kernel::Step* last_ = nullptr;
  const Hyper* last_hyper_ = nullptr;
  bool last_first_ = false;
  Scalar before_[kSlots], after_[kSlots];
};

// The row of a step in a profile.
class StepEvent {
 public:
  explicit StepEvent(const Rule& rule) {
    if (!modes.profiled) return;
    in_ = profile;
    event_ = in_->begin(ProfileKind::Range, concat("Optimizer.step#", rule.writer));
  }
  ~StepEvent() {
    if (in_ && in_ == profile) in_->end(event_);
  }
  StepEvent(const StepEvent&) = delete;

 private:
  Profile* in_ = nullptr;
  size_t event_ = 0;
};

}  // namespace

Var fresh_slot(const Rule& rule, const Hyper& hyper, int k, const Tensor* p) {
  double value = rule.initial(hyper.values, k);
  if (rule.slots[k].scalar)
    return ops::full({}, value, default_dtype() == DType::F64 ? DType::F64 : DType::F32, kHost);
  Var made = empty_like(p, p->dtype);
  Plain plain;
  if (is_complex(p->dtype)) ops::fill_data(ops::view_as_real(made).get(), value);
  else ops::fill_data(made.get(), value);
  return made;
}

bool run_optimizer_step(const Rule& rule, PyObject* groups, PyObject* state) {
  StepEvent event(rule);
  // All numbers first: reading one may run a user's code.
  std::vector<Hyper> hyper;
  hyper.reserve(size_t(PyList_GET_SIZE(groups)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
    PyObject* group = PyList_GET_ITEM(groups, i);
    if (!PyDict_Check(group))
      fail_as(PyExc_TypeError, rule.writer, ": a parameter group must be a dict");
    Py_INCREF(group);
    Owned held(group);
    hyper.push_back(read_group(rule, group));
  }
  check(Py_ssize_t(hyper.size()) == PyList_GET_SIZE(groups), rule.writer,
        ": param_groups changed while they were read");
  StepRun run(rule, state);
  for (size_t i = 0; i < hyper.size(); i++)
    if (!run.add_group(PyList_GET_ITEM(groups, Py_ssize_t(i)), hyper[i])) return false;
  run.run();
  return true;
}

}  // namespace rl
