// What blocks set and set back: switches, stacks, levels, entries of dicts.
#include "autograd/autocast_devices.h"
#include "autograd/batch.h"
#include "autograd/context.h"
#include "autograd/cuts.h"
#include "autograd/forward.h"
#include "autograd/levels.h"
#include "autograd/node.h"
#include "autograd/zeros.h"
#include "call/recording.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/profile_api.h"
#include "python/scope.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"

namespace rl {

bool& grad_layout_switch();                        // autograd/accumulate.cpp
int64_t enter_vmap(int64_t size, int randomness);  // python/batch_api.cpp

namespace {

// ---- switches of the thread

bool is_true(PyObject* o, bool& value) {
  int truth = PyObject_IsTrue(o);
  value = truth == 1;
  return truth >= 0;
}

template <bool& (*Switch)()>
bool enter_switch(ScopeEntry& entry, PyObject*, PyObject* value) {
  bool now;
  if (!is_true(value, now)) return false;
  entry.a = std::exchange(Switch(), now);
  return true;
}
template <bool& (*Switch)()>
bool leave_switch(ScopeEntry& entry) {
  Switch() = entry.a;
  return true;
}
template <bool& (*Switch)()>
constexpr ScopeKind switch_kind(const char* name) {
  return {name, enter_switch<Switch>, leave_switch<Switch>};
}

bool& grad() { return modes.grad; }
bool& inference() { return modes.inference; }
bool& strict() { return saved_hooks.strict; }
bool& subclasses() { return modes.subclasses; }
bool& transforms() { return modes.transforms; }

bool& zeros_stay() { return structural_zeros; }

// Modes that belong to the context (autograd/context.h). Turning recording off notes the line, for
// those who ask where a history went.
template <bool& (*Switch)(), bool Off>
bool enter_mode(ScopeEntry& entry, PyObject*, PyObject* value) {
  bool now;
  if (!is_true(value, now)) return false;
  ModeChange change;
  entry.a = std::exchange(Switch(), now);
  if (bool(entry.a) != Off && now == Off) note_grad_off();
  if (change.keep()) return true;
  Switch() = entry.a;
  return false;
}
template <bool& (*Switch)()>
bool leave_mode(ScopeEntry& entry) {
  ModeChange change;
  Switch() = entry.a;
  return change.keep();
}

// That of contexts without modes of their own.
bool enter_thread_grad(ScopeEntry& entry, PyObject*, PyObject* value) {
  bool now, failed = false;
  if (!is_true(value, now)) return false;
  entry.a = ModeChange().set_for_thread(now, &failed);
  return !failed;
}
bool leave_thread_grad(ScopeEntry& entry) {
  bool failed = false;
  ModeChange().set_for_thread(entry.a, &failed);
  return !failed;
}

bool enter_anomaly(ScopeEntry& entry, PyObject*, PyObject* value) {
  int on, check_nan;
  if (!PyArg_ParseTuple(value, "pp", &on, &check_nan)) return false;
  entry.a = std::exchange(modes.anomaly, on);
  entry.b = std::exchange(modes.anomaly_check_nan, check_nan);
  return true;
}
bool leave_anomaly(ScopeEntry& entry) {
  modes.anomaly = entry.a;
  modes.anomaly_check_nan = entry.b;
  return true;
}

bool enter_copy_on_write(ScopeEntry&, PyObject*, PyObject*) {
  if (saved_hooks.copy_on_write) {
    PyErr_SetString(PyExc_RuntimeError,
                    "allow_mutation_on_saved_tensors contexts cannot be nested");
    return false;
  }
  return saved_hooks.copy_on_write = true;
}
bool leave_copy_on_write(ScopeEntry&) {
  saved_hooks.copy_on_write = false;
  return true;
}
PyObject* the_scope(const ScopeEntry&, PyObject* scope) { return new_reference(scope); }

bool enter_visible(ScopeEntry& entry, PyObject*, PyObject* value) {
  entry.a = std::exchange(modes.levels, PyObject_IsTrue(value) == 1 ? ~Levels(0) : 0);
  return true;
}
bool leave_visible(ScopeEntry& entry) {
  modes.levels = entry.a;
  return true;
}

// ---- stacks of the thread: leaving cuts them to the length that they had

bool push(PyObject*& list, ScopeEntry& entry, PyObject* value) {
  if (!list && !(list = PyList_New(0))) return false;
  entry.a = uint64_t(PyList_GET_SIZE(list));
  return PyList_Append(list, value) == 0;
}
void cut(PyObject* list, uint64_t length) {
  if (list && uint64_t(PyList_GET_SIZE(list)) > length &&
      PyList_SetSlice(list, Py_ssize_t(length), PyList_GET_SIZE(list), nullptr) < 0)
    PyErr_Clear();
}
uint64_t length_of(PyObject* list) { return list ? uint64_t(PyList_GET_SIZE(list)) : 0; }

thread_local PyObject* hook_stack = nullptr;  // (pack, unpack, detailed, composes)
thread_local PyObject* refusals = nullptr;    // messages of disable_saved_tensors_hooks
thread_local PyObject* watchers = nullptr;    // of new nodes

void hooks_changed() { saved_hooks.stack = length_of(hook_stack) ? hook_stack : nullptr; }
void watchers_changed() { set_creation_hooks(length_of(watchers) ? watchers : nullptr); }

bool enter_hooks(ScopeEntry& entry, PyObject*, PyObject* value) {
  if (uint64_t n = length_of(refusals)) {
    PyErr_SetObject(PyExc_RuntimeError, PyList_GET_ITEM(refusals, Py_ssize_t(n) - 1));
    return false;
  }
  if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 4) {
    PyErr_SetString(PyExc_TypeError, "expected (pack, unpack, detailed, composes)");
    return false;
  }
  if (!push(hook_stack, entry, value)) return false;
  hooks_changed();
  return true;
}
bool leave_hooks(ScopeEntry& entry) {
  cut(hook_stack, entry.a);
  hooks_changed();
  return true;
}

bool enter_refusal(ScopeEntry& entry, PyObject*, PyObject* message) {
  if (length_of(hook_stack)) {
    PyErr_SetObject(PyExc_RuntimeError, message);
    return false;
  }
  return push(refusals, entry, message);
}
bool leave_refusal(ScopeEntry& entry) {
  cut(refusals, entry.a);
  return true;
}

bool enter_watcher(ScopeEntry& entry, PyObject*, PyObject* hook) {
  if (!push(watchers, entry, hook)) return false;
  watchers_changed();
  return true;
}
bool leave_watcher(ScopeEntry& entry) {
  cut(watchers, entry.a);
  watchers_changed();
  return true;
}

bool enter_function_mode(ScopeEntry& entry, PyObject* scope, PyObject*) {
  entry.a = uint64_t(function_modes());
  return push_function_mode(scope);
}
bool leave_function_mode(ScopeEntry& entry) {
  cut_function_modes(Py_ssize_t(entry.a));
  return true;
}

// All that is entered inside ends with the region, whatever it was entered by.
bool enter_region(ScopeEntry& entry, PyObject*, PyObject*) {
  entry.a = uint64_t(function_modes()) << 32 | length_of(watchers);
  entry.b = length_of(hook_stack);
  return true;
}
bool leave_region(ScopeEntry& entry) {
  cut_function_modes(Py_ssize_t(entry.a >> 32));
  cut(watchers, entry.a & 0xffffffff);
  cut(hook_stack, entry.b);
  watchers_changed();
  hooks_changed();
  return true;
}

// ---- numbered levels

bool enter_dual(ScopeEntry& entry, PyObject*, PyObject*) {
  return guarded_int([&] {
           entry.b = modes.levels;
           entry.a = uint64_t(enter_dual_level());
           return 0;
         }) == 0;
}
bool leave_dual(ScopeEntry& entry) {
  int level = int(entry.a);
  if (!in_dual_level(level)) return true;
  if (current_dual_level() != level) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Trying to exit a forward AD level that was not the last one that was "
                    "created. This is not supported.");
    return false;
  }
  exit_dual_level();
  modes.levels = entry.b;
  return true;
}
PyObject* dual_number(const ScopeEntry& entry, PyObject*) {
  return PyLong_FromUnsignedLongLong(entry.a);
}

bool enter_vmap_level(ScopeEntry& entry, PyObject* scope, PyObject* value) {
  long long size;
  int randomness;
  if (!PyArg_ParseTuple(value, "Li", &size, &randomness)) return false;
  entry.a = vmap_levels.size();
  set_scope_number(scope, enter_vmap(size, randomness));
  return true;
}
bool leave_vmap_level(ScopeEntry& entry) {
  if (vmap_levels.size() > entry.a) vmap_levels.resize(entry.a);
  return true;
}

// ---- mixed precision: (enabled, dtype, cached)

template <bool Cuda>
bool enter_autocast(ScopeEntry& entry, PyObject*, PyObject* value) {
  int enabled, cached;
  PyObject* dtype;
  if (!PyArg_ParseTuple(value, "pOp", &enabled, &dtype, &cached)) return false;
  ModeChange change;
  AutocastState& state = autocast_state;
  DType& target = Cuda ? device_autocast.cuda_dtype : state.dtype;
  bool& on = Cuda ? device_autocast.cuda : device_autocast.host;
  entry.a = uint64_t(modes.autocast) | uint64_t(state.cache) << 1 | uint64_t(on) << 2 |
            uint64_t(target) << 8;
  entry.b = uint64_t(state.nesting++);
  target = dtype_value(dtype);
  state.cache = cached;
  on = enabled;
  modes.autocast = device_autocast.host || device_autocast.cuda;
  return change.keep();
}
template <bool Cuda>
bool leave_autocast(ScopeEntry& entry) {
  ModeChange change;
  autocast_state.nesting = int(entry.b);
  if (entry.b == 0) clear_autocast_cache();
  modes.autocast = entry.a & 1;
  autocast_state.cache = entry.a >> 1 & 1;
  (Cuda ? device_autocast.cuda : device_autocast.host) = entry.a >> 2 & 1;
  (Cuda ? device_autocast.cuda_dtype : autocast_state.dtype) = DType(entry.a >> 8);
  return change.keep();
}

// ---- entries of dicts: ((dict, key, value), ...)

PyObject* absent() {
  static PyObject* mark = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return mark;
}

bool put_item(PyObject* dict, PyObject* key, PyObject* value) {
  if (value == absent())
    return PyDict_CheckExact(dict) ? PyDict_DelItem(dict, key) == 0
                                   : PyObject_DelItem(dict, key) == 0;
  return PyDict_CheckExact(dict) ? PyDict_SetItem(dict, key, value) == 0
                                 : PyObject_SetItem(dict, key, value) == 0;
}

// Sets all entries; those before, in the same form.
PyObject* swap_items(PyObject* items) {
  Py_ssize_t n = PyTuple_Check(items) ? PyTuple_GET_SIZE(items) : -1;
  PyObject* before = n < 0 ? nullptr : PyTuple_New(n);
  if (!before) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "expected a tuple of (dict, key, value)");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *dict, *key, *value;
    bool ok = PyArg_ParseTuple(PyTuple_GET_ITEM(items, i), "OOO", &dict, &key, &value);
    PyObject* old = ok && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, key) : nullptr;
    ok = ok && !PyErr_Occurred();
    PyObject* entry = ok ? PyTuple_Pack(3, dict, key, old ? old : absent()) : nullptr;
    if (!entry || !put_item(dict, key, value)) {
      Py_XDECREF(entry);
      PyObject *type, *error, *trace;
      PyErr_Fetch(&type, &error, &trace);
      for (Py_ssize_t k = i; k-- > 0;) {
        PyObject* e = PyTuple_GET_ITEM(before, k);
        if (!put_item(PyTuple_GET_ITEM(e, 0), PyTuple_GET_ITEM(e, 1), PyTuple_GET_ITEM(e, 2)))
          PyErr_Clear();
      }
      PyErr_Restore(type, error, trace);
      Py_DECREF(before);
      return nullptr;
    }
    PyTuple_SET_ITEM(before, i, entry);
  }
  return before;
}

bool enter_items(ScopeEntry& entry, PyObject*, PyObject* items) {
  entry.object = swap_items(items);
  return entry.object;
}
bool leave_items(ScopeEntry& entry) {
  bool fine = true;
  for (Py_ssize_t i = PyTuple_GET_SIZE(entry.object); i-- > 0;) {
    PyObject* e = PyTuple_GET_ITEM(entry.object, i);
    bool done = put_item(PyTuple_GET_ITEM(e, 0), PyTuple_GET_ITEM(e, 1), PyTuple_GET_ITEM(e, 2));
    if (!done && PyErr_ExceptionMatches(PyExc_KeyError)) {  // gone already
      PyErr_Clear();
      done = true;
    }
    fine &= done;
  }
  return fine;
}

// Mixed precision of devices that the core does not run: their switches in dicts, and the cache.
bool enter_autocast_elsewhere(ScopeEntry& entry, PyObject* scope, PyObject* value) {
  int cached;
  PyObject* items;
  if (!PyArg_ParseTuple(value, "Op", &items, &cached)) return false;
  if (!enter_items(entry, scope, items)) return false;
  ModeChange change;
  entry.a = std::exchange(autocast_state.cache, cached);
  entry.b = uint64_t(autocast_state.nesting++);
  return change.keep();
}
bool leave_autocast_elsewhere(ScopeEntry& entry) {
  autocast_state.nesting = int(entry.b);
  if (entry.b == 0) clear_autocast_cache();
  ModeChange change;
  autocast_state.cache = entry.a;
  return change.keep() & leave_items(entry);
}

// ---- states that are read and set by calls: ((get, put, state), ...), None: as it is now

bool enter_states(ScopeEntry& entry, PyObject*, PyObject* sources) {
  Py_ssize_t n = PyTuple_Check(sources) ? PyTuple_GET_SIZE(sources) : 0;
  PyObject* before = PyTuple_New(n);
  for (Py_ssize_t i = 0; before && i < n; i++) {
    PyObject *get, *put, *state;
    bool ok = PyArg_ParseTuple(PyTuple_GET_ITEM(sources, i), "OOO", &get, &put, &state);
    PyObject* now = ok ? PyObject_CallNoArgs(get) : nullptr;
    PyObject* pair = now ? Py_BuildValue("(ON)", put, now) : nullptr;
    if (!pair) Py_CLEAR(before);
    else PyTuple_SET_ITEM(before, i, pair);
  }
  entry.object = before;
  for (Py_ssize_t i = 0; before && i < n; i++) {
    PyObject* source = PyTuple_GET_ITEM(sources, i);
    PyObject* state = PyTuple_GET_ITEM(source, 2);
    if (state == Py_None) continue;
    PyObject* done = PyObject_CallOneArg(PyTuple_GET_ITEM(source, 1), state);
    if (!done) {
      PyObject *type, *error, *trace;
      PyErr_Fetch(&type, &error, &trace);
      for (Py_ssize_t k = 0; k <= i; k++) {
        PyObject* pair = PyTuple_GET_ITEM(before, k);
        PyObject* undone =
            PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        if (!undone) PyErr_Clear();
        Py_XDECREF(undone);
      }
      PyErr_Restore(type, error, trace);
      return false;
    }
    Py_DECREF(done);
  }
  return before;
}
// An interruption while one is set back: that one again, then the others, then the interruption.
bool leave_states(ScopeEntry& entry) {
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entry.object); i++) {
    PyObject* pair = PyTuple_GET_ITEM(entry.object, i);
    for (int attempt = 0; attempt < 2; attempt++) {
      PyObject* done = PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
      Py_XDECREF(done);
      if (done) break;
      Py_CLEAR(type);
      Py_CLEAR(error);
      Py_CLEAR(trace);
      PyErr_Fetch(&type, &error, &trace);
    }
  }
  if (!type) return true;
  PyErr_Restore(type, error, trace);
  return false;
}

bool enter_lock(ScopeEntry& entry, PyObject*, PyObject* lock) {
  PyObject* done = PyObject_CallMethod(lock, "acquire", nullptr);
  Py_XDECREF(done);
  if (done) entry.object = new_reference(lock);
  return done;
}
bool leave_lock(ScopeEntry& entry) {
  PyObject* done = PyObject_CallMethod(entry.object, "release", nullptr);
  Py_XDECREF(done);
  return done;
}

// ---- the profiler: (shapes, stacks, a list that gets the events, one that gets those of memory or
// None), and a named range in it

bool enter_profile(ScopeEntry& entry, PyObject*, PyObject* value) {
  int shapes, stacks;
  PyObject *sink, *blocks;
  if (!PyArg_ParseTuple(value, "ppO!O", &shapes, &stacks, &PyList_Type, &sink, &blocks))
    return false;
  if (!start_profile(shapes, stacks, blocks != Py_None)) return false;
  entry.object = new_reference(value);
  return true;
}
bool leave_profile(ScopeEntry& entry) {
  PyObject* blocks = PyTuple_GET_ITEM(entry.object, 3);
  PyObject* rows = stop_profile(blocks == Py_None ? nullptr : blocks);
  bool fine = rows && PyList_Append(PyTuple_GET_ITEM(entry.object, 2), rows) == 0;
  Py_XDECREF(rows);
  return fine;
}

bool enter_range(ScopeEntry& entry, PyObject*, PyObject* name) {
  entry.object = begin_profile_range(name);
  return entry.object;
}
bool leave_range(ScopeEntry& entry) {
  PyObject* done = end_profile_range(entry.object);
  Py_XDECREF(done);
  return done;
}

PyObject* hook_depth(PyObject*, PyObject*) { return PyLong_FromSize_t(length_of(hook_stack)); }

// _mode_state(): every switch, level and depth of this thread.
PyObject* mode_state(PyObject*, PyObject*) {
  follow_context();
  const Modes& m = modes;
  unsigned switches = 0;
  for (bool on : {m.grad,
                  m.inference,
                  m.anomaly,
                  m.anomaly_check_nan,
                  m.intercepted,
                  m.subclasses,
                  m.watched,
                  m.autocast,
                  m.profiled,
                  m.derives,
                  m.transforms,
                  m.shares,
                  saved_hooks.strict,
                  saved_hooks.copy_on_write,
                  saved_hooks.stack != nullptr,
                  structural_zeros,
                  autocast_state.cache,
                  grad_layout_switch(),
                  device_autocast.host,
                  device_autocast.cuda})
    switches = switches << 1 | on;
  return Py_BuildValue("(IKKKKnKiii)", switches, (unsigned long long)m.levels,
                       (unsigned long long)length_of(hook_stack),
                       (unsigned long long)length_of(refusals),
                       (unsigned long long)length_of(watchers), function_modes(),
                       (unsigned long long)vmap_levels.size(), dual_levels, autocast_state.nesting,
                       int(autocast_state.dtype) | int(device_autocast.cuda_dtype) << 8);
}

// ---- recorded regions

bool enter_recording(ScopeEntry& entry, PyObject*, PyObject*) {
  int failed = guarded_int([&] {
    entry.a = reinterpret_cast<uint64_t>(new Recording);  // it is `recording` from now on
    return 0;
  });
  return failed == 0;
}
bool leave_recording(ScopeEntry& entry) {
  delete reinterpret_cast<Recording*>(entry.a);
  return true;
}

}  // namespace

const ScopeKind scope_kinds[] = {
    {"grad", enter_mode<grad, false>, leave_mode<grad>},
    {"thread_grad", enter_thread_grad, leave_thread_grad, nullptr, true},
    {"inference", enter_mode<inference, true>, leave_mode<inference>},
    switch_kind<zeros_stay>("structural_zeros"),
    switch_kind<strict>("strict"),
    switch_kind<subclasses>("subclasses"),
    switch_kind<transforms>("transforms"),
    switch_kind<grad_layout_switch>("grad_layout"),
    {"anomaly", enter_anomaly, leave_anomaly},
    {"copy_on_write", enter_copy_on_write, leave_copy_on_write, the_scope},
    {"visible_levels", enter_visible, leave_visible},
    {"saved_hooks", enter_hooks, leave_hooks},
    {"no_saved_hooks", enter_refusal, leave_refusal},
    {"node_hook", enter_watcher, leave_watcher, the_scope},
    {"function_mode", enter_function_mode, leave_function_mode, the_scope},
    {"region", enter_region, leave_region},
    {"dual_level", enter_dual, leave_dual, dual_number},
    {"vmap", enter_vmap_level, leave_vmap_level, the_scope},
    {"autocast", enter_autocast<false>, leave_autocast<false>, the_scope},
    {"autocast_cuda", enter_autocast<true>, leave_autocast<true>, the_scope},
    {"autocast_elsewhere", enter_autocast_elsewhere, leave_autocast_elsewhere, the_scope},
    {"items", enter_items, leave_items},
    {"states", enter_states, leave_states},
    {"lock", enter_lock, leave_lock},
    {"recording", enter_recording, leave_recording},
    {"profile", enter_profile, leave_profile, the_scope},
    {"profile_range", enter_range, leave_range, the_scope},
    {nullptr, nullptr, nullptr},
};

PyMethodDef scope_functions[] = {
    {"_saved_hooks_depth", hook_depth, METH_NOARGS, nullptr},
    {"_mode_state", mode_state, METH_NOARGS, nullptr},
    {},
};

}  // namespace rl
