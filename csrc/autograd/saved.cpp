#include "autograd/saved.h"

#include <cctype>
#include <cstring>

#include "autograd/cuts.h"
#include "autograd/deep.h"
#include "autograd/forward.h"
#include "autograd/modes.h"
#include "autograd/node.h"
#include "autograd/sharing.h"
#include "autograd/writes.h"
#include "ops/functions.h"
#include "python/module_type.h"

namespace rl {

constinit thread_local SavedHooks saved_hooks;

namespace {

PyObject* as_object(Tensor* t) { return reinterpret_cast<PyObject*>(t); }

// Calls a hook with recording off.
Var call_unpack(PyObject* hook, Var content) {
  GradMode off(false);
  Sharing alone(false);
  // A checkpointed region may need the inputs of the region around it, and so on outwards.
  PyObject* result = deeply([&] { return PyObject_CallOneArg(hook, content.object()); });
  if (!result) throw PythonError{};
  return Var::steal(reinterpret_cast<Tensor*>(result));
}

class NameFinder : public SavedVisitor {
 public:
  explicit NameFinder(const SavedTensor* what) : what_(what) {}
  std::string name;
  void visit(SavedTensor& saved, const char* called) override {
    if (&saved == what_) name = std::strcmp(called, "input") == 0 ? "self" : called;
  }

 private:
  const SavedTensor* what_;
};

// pack(tensor), or pack(tensor, node's name, argument, is_output, (file, line, function)) for hooks
// that want the details.
Var call_pack(PyObject* hook, bool detailed, Var content, const SavedTensor* saved,
              bool is_output) {
  GradMode off(false);
  PyObject* result;
  if (detailed) {
    Node* node = node_in_making;
    NameFinder finder(saved);
    if (node && node->cls->each_saved) node->cls->each_saved(node, finder);
    PyObject* where = node && node->where
                          ? Py_BuildValue("(sis)", node->where.file().c_str(), node->where.line(),
                                          node->where.function().c_str())
                          : (Py_INCREF(Py_None), Py_None);
    result = where ? PyObject_CallFunction(hook, "OssON", content.object(),
                                           node ? Py_TYPE(node)->tp_name : "", finder.name.c_str(),
                                           is_output ? Py_True : Py_False, where)
                   : nullptr;
  } else {
    result = PyObject_CallOneArg(hook, content.object());
  }
  if (!result) throw PythonError{};
  return Var::steal(reinterpret_cast<Tensor*>(result));
}

Var call_pack_checked(PyObject* hook, bool detailed, const Var& content, const SavedTensor* saved,
                      bool is_output) {
  uint32_t before = content->storage->version;
  Var packed = call_pack(hook, detailed, content, saved, is_output);
  if (content->storage->version != before)
    fail(
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
        "pack hook can not be modified by in-place operations as this can lead to unexpected "
        "side-effects. Please open an issue if you need to perform in-place operations on the "
        "input to a pack hook.");
  return packed;
}

// What a hook returned may lead back to the node: the very tensor does.
void note_packed(PyObject* content) {
  collector_has_work = true;
  if (is_tensor(content)) track(reinterpret_cast<Tensor*>(content));
}

// An empty tensor that knows whose gradient it takes.
Var empty_stand_in(Tensor* t) {
  if (!requires_grad(t) || !is_differentiable(t->dtype)) return {};
  Edge edge = gradient_edge(t);
  if (!edge.node) return {};
  Var v = empty({0}, t->dtype, t->device());
  v->grad_fn = edge.node;
  v->output_nr = edge.nr;
  if (edge.node->leads_to_python) mark(v.get());
  return v;
}

}  // namespace

// The innermost pair packs the tensor. Where it composes, the next one packs what came out, if that
// is a tensor.
void SavedTensor::pack(Tensor* t, bool is_output, uint32_t nr) {
  PyObject* stack = saved_hooks.stack;
  Var hold_stack = Var::steal(reinterpret_cast<Tensor*>(PyList_AsTuple(stack)));
  if (!hold_stack) throw PythonError{};
  Var content(t);
  Py_ssize_t depth = PyTuple_GET_SIZE(hold_stack.object()), used = 0;
  bool goes_on = true;
  while (used < depth && goes_on && is_tensor(content.object())) {
    PyObject* pair = PyTuple_GET_ITEM(hold_stack.object(), depth - 1 - used++);
    goes_on = PyTuple_GET_ITEM(pair, 3) == Py_True;
    content = call_pack_checked(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 2) == Py_True,
                                content, this, is_output);
  }
  PyObject* unpacks = PyTuple_New(used);
  if (!unpacks) throw PythonError{};
  for (Py_ssize_t i = 0; i < used; i++) {
    PyObject* unpack = PyTuple_GET_ITEM(PyTuple_GET_ITEM(hold_stack.object(), depth - 1 - i), 1);
    Py_INCREF(unpack);
    PyTuple_SET_ITEM(unpacks, i, unpack);
  }
  note_packed(content.object());
  Var input = is_output ? Var() : empty_stand_in(t);
  packed_ = new Packed{as_object(content.release()), unpacks, input.release(), nr, is_output,
                       tangents_alone(t).release()};
  kind_ = Kind::Packed;
}

void SavedTensor::register_hooks(Node* owner, PyObject* hook, PyObject* unpack) {
  if (kind_ == Kind::Freed) fail_freed(owner);
  check(kind_ != Kind::Empty,
        "Calling register_hooks on a saved tensor with value None is forbidden");
  check(kind_ != Kind::Packed,
        "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only "
        "one pair of hooks is allowed at a time.");
  check_version(owner);
  bool is_output = kind_ == Kind::Output;
  Var detached = alias(tensor_), input = is_output ? Var() : empty_stand_in(tensor_);
  Var content = call_pack_checked(hook, false, detached, this, is_output);
  PyObject* unpacks = PyTuple_Pack(1, unpack);
  if (!unpacks) throw PythonError{};
  uint32_t nr = tensor_->output_nr;
  Var tangents = tangents_alone(tensor_);
  drop();
  note_packed(content.object());
  packed_ = new Packed{
      as_object(content.release()), unpacks, input.release(), nr, is_output, tangents.release()};
  kind_ = Kind::Packed;
  track(owner);
}

// Memory that NumPy and the like can reach: a copy tells at unpacking whether it was changed.
void SavedTensor::save_guarded(Tensor* t, bool is_output, uint32_t nr) {
  Var copy;
  {
    Plain plain;
    copy = ops::clone(alias(t));
  }
  Py_INCREF(t);
  packed_ = new Packed{as_object(copy.release()),  PyTuple_New(0), t, nr, is_output,
                       tangents_alone(t).release()};
  kind_ = Kind::Packed;
  track(t);
}

void SavedTensor::save_slowly(Tensor* t, bool is_output, uint32_t nr) {
  if (saved_hooks.stack) return pack(t, is_output, nr);
  bool foreign = t->storage->exported || t->storage->owner;
  bool spares = saved_hooks.spares && !saved_hooks.strict && !foreign && !dual_levels;
  if (!saved_hooks.copy_on_write && !spares) {
    if (saved_hooks.strict && foreign) return save_guarded(t, is_output, nr);
    t->storage->saved = true;
    tensor_ = is_output ? alias(t).release() : Var(t).release();
    if (is_output) tensor_->output_nr = nr;
    if (is_output && dual_levels) share_tangents(tensor_, t);
    kind_ = is_output ? Kind::Output : Kind::Input;
    return;
  }
  if (is_output) {
    // The tangents of an output come after it was saved, and a write would change them.
    if (dual_levels)
      fail_as(PyExc_NotImplementedError,
              "allow_mutation_on_saved_tensors is not implemented inside a dual level, for an "
              "operation that saves its result");
    tensor_ = stand_in(t).release();
    release_node(std::exchange(tensor_->grad_fn, nullptr));
    tensor_->output_nr = nr;
    kind_ = Kind::Output;
  } else {
    tensor_ = stand_in(t).release();
    kind_ = Kind::Input;
  }
  version_ = tensor_->storage->version;
}

namespace {

std::string made_at(const Tensor* t) {
  const Cut* cut = find_cut(t->cut);
  return cut ? "\n  the tensor: " + cut_text(*cut) : "";
}

}  // namespace

void SavedTensor::save_input(Tensor* t) {
  if (t->storage->inference && !modes.inference && !modes.transforms) [[unlikely]]
    fail(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`.",
        made_at(t));
  version_ = t->storage->version;
  if (saved_hooks.active() && !t->wrapped_number) [[unlikely]]
    return save_slowly(t, false, 0);
  t->storage->saved = true;
  Py_INCREF(t);
  tensor_ = t;
  kind_ = Kind::Input;
}

void SavedTensor::save_output(Tensor* t, uint32_t nr) {
  // Indices and the like have no history to restore.
  if (!is_differentiable(t->dtype)) return save_input(t);
  version_ = t->storage->version;
  if (saved_hooks.active()) [[unlikely]]
    return save_slowly(t, true, nr);
  t->storage->saved = true;
  tensor_ = alias(t).release();
  tensor_->output_nr = nr;
  if (dual_levels) share_tangents(tensor_, t);
  kind_ = Kind::Output;
}

Var SavedTensor::unpack(Node* owner) const {
  switch (kind_) {
    case Kind::Empty: return {};
    case Kind::Freed: fail_freed(owner);
    case Kind::Packed: {
      // Hooks may free the graph: what they need stays alive meanwhile.
      Packed p = *packed_;
      Var unpacks(reinterpret_cast<Tensor*>(p.unpacks)), input(p.input);
      Var v(reinterpret_cast<Tensor*>(p.content));
      for (Py_ssize_t i = PyTuple_GET_SIZE(p.unpacks); i-- > 0;) {
        v = call_unpack(PyTuple_GET_ITEM(p.unpacks, i), std::move(v));
        if (!is_tensor(v.object()))
          fail_as(PyExc_TypeError,
                  "Output of saved tensor unpack_hook expected to be a Tensor but got "
                  "result of type ",
                  Py_TYPE(v.object())->tp_name);
      }
      bool guarded = PyTuple_GET_SIZE(p.unpacks) == 0;
      if (guarded) {
        Plain plain;
        Var then = ops::on_host(ops::contiguous(v)),
            now = ops::on_host(ops::contiguous(alias(p.input)));
        size_t bytes = size_t(then->numel * itemsize(then->dtype));
        if (has_data(then.get()) && std::memcmp(then->data(), now->data(), bytes) != 0)
          fail("a tensor of shape ", p.input->sizes, " saved by ", Py_TYPE(owner)->tp_name,
               ", the backward of ", owner->where.text_with_source(),
               ", was modified outside rushlight: its memory is shared with NumPy, DLPack, a "
               "buffer or .data.\nFix: write to a copy, or move the write after backward().");
        if (!p.is_output) return input;
      }
      Var tangents(p.tangents);
      if (tangents) v = with_tangents(v, tangents);
      if (!p.is_output && (!p.input || !modes.grad)) return v;
      Var out = alias(v.get());
      if (p.is_output) set_history(out.get(), owner, int(p.output_nr));
      else set_history(out.get(), p.input->grad_fn, int(p.input->output_nr));
      if (p.tangents) share_tangents(out.get(), v.get());
      return out;
    }
    default: break;
  }
  check_version(owner);
  if (kind_ == Kind::Input || !modes.grad) return Var(tensor_);
  Var out = alias(tensor_);
  set_history(out.get(), owner, int(tensor_->output_nr));
  if (dual_levels) share_tangents(out.get(), tensor_);
  return out;
}

namespace {

// "SGD.step" rather than an op.
bool is_method(const char* op) { return op && std::strchr(op, '.'); }

// "add" writes in place as add_.
std::string writer_name(const char* op) {
  std::string name = op ? op : "an in-place operation";
  return op && !is_method(op) && std::islower(name.back()) ? name + "_" : name;
}

}  // namespace

void SavedTensor::check_version(Node* owner) const {
  const Storage* s = tensor_->storage;
  if (s->version == version_) [[likely]]
    return;
  Overwrite written = find_overwrite(tensor_, version_);
  if (!written.found) return;
  std::string text = concat(
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: [torch.",
      info(tensor_->dtype).tensor_name, "Tensor ", tensor_->sizes, "]");
  Node* maker = kind_ == Kind::Output ? owner : tensor_->grad_fn;
  if (maker) {
    std::string made = Py_TYPE(maker)->tp_name;
    made.resize(std::min(made.size(), made.find("Backward")));
    text += concat(", which is output ", tensor_->output_nr, " of ", made, ",");
  }
  text += concat(" is at version ", s->version, "; expected version ", version_, " instead.\n");
  if (std::string parameter = parameter_text(tensor_); !parameter.empty())
    text += "  it is " + parameter + "\n";
  text += concat("  saved by ", Py_TYPE(owner)->tp_name, ", the backward of ",
                 owner->where.text_with_source(), "\n");
  if (*written.where)
    text += concat("  overwritten by ", writer_name(written.op), " at ",
                   written.where->text_with_source(), "\n");
  if (is_method(written.op))
    fail(text, "Fix: call ", written.op, "() after backward(), or compute the loss anew after it.");
  fail(text,
       "Fix: write to a copy (use the out-of-place form of that operation, or clone() the tensor "
       "before the write), or move the write after backward().");
}

void fail_changed(Node* owner, const Tensor* t, uint32_t expected, const char* what) {
  const Storage* s = t->storage;
  fail(what, " of ", Py_TYPE(owner)->tp_name, " (a tensor of shape ", t->sizes,
       ") was modified by an inplace operation after forward: it is at version ", s->version,
       "; expected version ", expected, " instead.\n  kept by the Function applied at ",
       owner->where.text_with_source(), "\n  overwritten by ", writer_name(s->writer_op), " at ",
       s->writer.text_with_source(),
       "\nFix: keep a clone() of it, or move the write after backward().");
}

void SavedTensor::fail_freed(Node* owner) const { fail_second_time(owner); }

void SavedTensor::drop() {
  Kind kind = kind_;
  kind_ = Kind::Empty;
  if (kind == Kind::Input || kind == Kind::Output) {
    Py_DECREF(tensor_);
  } else if (kind == Kind::Packed) {
    Py_DECREF(packed_->content);
    Py_DECREF(packed_->unpacks);
    Py_XDECREF(packed_->input);
    Py_XDECREF(packed_->tangents);
    delete packed_;
  }
}

void SavedTensor::free() {
  if (kind_ == Kind::Empty) return;
  drop();
  kind_ = Kind::Freed;
}

}  // namespace rl
