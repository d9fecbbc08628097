#include "autograd/saved.h"

#include <cctype>

#include "autograd/forward.h"
#include "autograd/node.h"

namespace rl {

thread_local SavedHooks saved_hooks;

namespace {

// Calls hook(tensor) with recording off.
PyObject* call_hook(PyObject* hook, PyObject* argument) {
  GradMode off(false);
  PyObject* result = PyObject_CallOneArg(hook, argument);
  if (!result) throw PythonError{};
  return result;
}

}  // namespace

bool SavedTensor::pack(Tensor* t, bool is_output) {
  if (!saved_hooks.pack) [[likely]]
    return false;
  PyObject* hook = saved_hooks.pack;
  Py_INCREF(hook);
  uint32_t before = t->storage->version;
  PyObject* content;
  try {
    content = call_hook(hook, reinterpret_cast<PyObject*>(t));
  } catch (...) {
    Py_DECREF(hook);
    throw;
  }
  Py_DECREF(hook);
  if (t->storage->version != before) {
    Py_DECREF(content);
    fail(
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
        "pack hook can not be modified by in-place operations as this can lead to unexpected "
        "side-effects. Please open an issue if you need to perform in-place operations on the "
        "input to a pack hook.");
  }
  Py_INCREF(saved_hooks.unpack);
  packed_ = new Packed{content, saved_hooks.unpack, t->output_nr, is_output, hold_tangents(t)};
  kind_ = Kind::Packed;
  // What was packed may lead back to the node: the very tensor does when the hook returns it.
  collector_has_work = true;
  if (is_tensor(content)) track(reinterpret_cast<Tensor*>(content));
  return true;
}

void SavedTensor::save_input(Tensor* t) {
  if (t->storage->inference && !modes.inference) [[unlikely]]
    fail(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`.");
  version_ = t->storage->version;
  if (pack(t, false)) return;
  Py_INCREF(t);
  tensor_ = t;
  kind_ = Kind::Input;
}

void SavedTensor::save_output(Tensor* t) {
  // Indices and the like have no history to restore.
  if (!is_differentiable(t->dtype)) return save_input(t);
  version_ = t->storage->version;
  if (pack(t, true)) return;
  tensor_ = alias(t).release();
  tensor_->output_nr = t->output_nr;
  if (dual_levels) share_tangents(tensor_, t);
  kind_ = Kind::Output;
}

Var SavedTensor::unpack(Node* owner) const {
  switch (kind_) {
    case Kind::Empty: return {};
    case Kind::Freed:
      fail(
          "Trying to backward through the graph a second time (or directly access saved tensors "
          "after they have already been freed). Saved intermediate values of the graph are freed "
          "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
          "backward through the graph a second time or if you need to access saved tensors after "
          "calling backward.");
    case Kind::Packed: {
      PyObject* content = call_hook(packed_->unpack, packed_->content);
      if (!is_tensor(content)) {
        const char* got = Py_TYPE(content)->tp_name;
        Py_DECREF(content);
        fail_as(PyExc_TypeError,
                "Output of saved tensor unpack_hook expected to be a Tensor but got "
                "result of type ",
                got);
      }
      Var v = Var::steal(reinterpret_cast<Tensor*>(content));
      if (packed_->tangents) v = with_tangents(v, packed_->tangents);
      if (!packed_->is_output) return v;
      Var out = alias(v.get());
      set_history(out.get(), owner, int(packed_->output_nr));
      if (packed_->tangents) share_tangents(out.get(), v.get());
      return out;
    }
    default: break;
  }
  if (tensor_->storage->version != version_) fail_version(owner);
  if (kind_ == Kind::Input || !modes.grad) return Var(tensor_);
  Var out = alias(tensor_);
  set_history(out.get(), owner, int(tensor_->output_nr));
  if (dual_levels) share_tangents(out.get(), tensor_);
  return out;
}

namespace {

// "add" writes in place as add_.
std::string writer_name(const Storage* s) {
  std::string name = s->writer_op ? s->writer_op : "an in-place operation";
  return std::islower(name.back()) && s->writer_op ? name + "_" : name;
}

}  // namespace

void SavedTensor::fail_version(Node* owner) const {
  const Storage* s = tensor_->storage;
  std::ostringstream text;
  text << "one of the variables needed for gradient computation has been modified by an inplace "
          "operation: [torch."
       << info(tensor_->dtype).tensor_name << "Tensor " << tensor_->sizes << "]";
  Node* maker = kind_ == Kind::Output ? owner : tensor_->grad_fn;
  if (maker) {
    std::string made = Py_TYPE(maker)->tp_name;
    size_t suffix = made.find("Backward");
    text << ", which is output " << tensor_->output_nr << " of " << made.substr(0, suffix) << ",";
  }
  text << " is at version " << s->version << "; expected version " << version_ << " instead.\n"
       << "  saved by " << Py_TYPE(owner)->tp_name << ", the backward of "
       << owner->where.text_with_source() << "\n";
  if (s->writer)
    text << "  overwritten by " << writer_name(s) << " at " << s->writer.text_with_source() << "\n";
  text
      << "Fix: write to a copy (use the out-of-place form of that operation, or clone() the tensor "
         "before the write), or move the write after backward().";
  fail(text.str());
}

void SavedTensor::drop() {
  Kind kind = kind_;
  kind_ = Kind::Empty;
  if (kind == Kind::Input || kind == Kind::Output) {
    Py_DECREF(tensor_);
  } else if (kind == Kind::Packed) {
    Py_DECREF(packed_->content);
    Py_DECREF(packed_->unpack);
    release(packed_->tangents);
    delete packed_;
  }
}

void SavedTensor::free() {
  if (kind_ == Kind::Empty) return;
  drop();
  kind_ = Kind::Freed;
}

}  // namespace rl
