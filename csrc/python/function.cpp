// Applying a custom autograd Function: forward runs unrecorded, its results become the outputs of one
// node.
#include "python/function.h"
#include "autograd/batch.h"
#include "autograd/engine.h"
#include "autograd/forward.h"
#include "autograd/hooks.h"
#include "autograd/inplace.h"
#include "autograd/writes.h"
#include "ops/functions.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/tensor_type.h"

namespace rl {

namespace {

bool in_tuple(PyObject* tuple, PyObject* item) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
    if (PyTuple_GET_ITEM(tuple, i) == item) return true;
  return false;
}

class Application {
 public:
  Application(PyObject* cls, PyObject* const* args, Py_ssize_t count)
      : cls_(cls), args_(args), count_(count) {}

  PyObject* run() {
    Held backward_class(PyObject_GetAttrString(cls_, "_backward_cls"));
    Held ctx(PyObject_CallNoArgs(backward_class.p));
    if (!PyObject_TypeCheck(ctx.p, &FunctionNodeType))
      fail_as(PyExc_TypeError, "_backward_cls must derive from BackwardCFunction");
    self_ = as_function(ctx.p);
    // They hold results, whose history is this node; also when a hook stops the saving.
    struct Forgotten {
      FunctionNode* node;
      ~Forgotten() {
        Py_CLEAR(node->to_save);
        Py_CLEAR(node->dirty);
        Py_CLEAR(node->non_differentiable);
      }
    } forgotten{self_};
    read_arguments();
    Held output(call_forward(ctx.p));
    check_untouched();
    bool single = !PyTuple_Check(output.p);
    Held outputs(single ? PyTuple_Pack(1, output.p) : new_reference(output.p));
    PyObject* result = wrap(outputs.p);
    if (records_) {
      note_stashed(self_);
      created(self_);
    }
    if (levels_) {
      Held held(result);
      push(ctx.p, outputs.p, result);
      held.p = nullptr;
    }
    if (single) {
      PyObject* one = new_reference(PyTuple_GET_ITEM(result, 0));
      Py_DECREF(result);
      return one;
    }
    return result;
  }

 private:
  void read_arguments() {
    Held needs(PyTuple_New(count_));
    int tensors = 0;
    for (Py_ssize_t i = 0; i < count_; i++) {
      bool tensor = is_tensor(args_[i]);
      bool need = tensor && modes.records() && requires_grad(as_tensor(args_[i]));
      self_->is_tensor_argument->push_back(tensor);
      tensors += tensor;
      records_ |= need;
      if (tensor) levels_ |= levels_of(as_tensor(args_[i]));
      PyTuple_SET_ITEM(needs.p, i, new_reference(need ? Py_True : Py_False));
    }
    self_->needs_input_grad = std::exchange(needs.p, nullptr);
    if (tensors > 3) self_->edges = new Edge[size_t(tensors)];
    self_->edge_count = uint32_t(tensors);
    int edge = 0;
    if (records_)
      for (Py_ssize_t i = 0; i < count_; i++)
        if (is_tensor(args_[i])) {
          versions_.push_back(as_tensor(args_[i])->storage->version);
          set_edge(self_, edge++, as_tensor(args_[i]));
        }
  }

  // An input that forward wrote to without saying so would keep the history of its old values.
  void check_untouched() {
    size_t at = 0;
    for (Py_ssize_t i = 0; i < count_ && records_; i++) {
      if (!is_tensor(args_[i])) continue;
      Tensor* t = as_tensor(args_[i]);
      uint32_t before = versions_[at++];
      if (t->storage->version == before || !requires_grad(t) || in_tuple(self_->dirty, args_[i]))
        continue;
      fail(Py_TYPE(self_)->tp_name, ": forward modified its argument ", i,
           " in place (a tensor of shape ", t->sizes, ", by ",
           t->storage->writer_op ? t->storage->writer_op : "a write", " at ",
           t->storage->writer.text_with_source(),
           ") without ctx.mark_dirty, so its gradient would be wrong.\nFix: call "
           "ctx.mark_dirty(argument) and return it, or work on a clone().");
    }
  }

  PyObject* call_forward(PyObject* ctx) {
    Plain plain;
    Held separate(PyObject_GetAttrString(cls_, "_has_setup_context"));
    Held forward(PyObject_GetAttrString(cls_, "forward"));
    if (PyObject_IsTrue(separate.p)) {
      PyObject* output = PyObject_Vectorcall(forward.p, args_, size_t(count_), nullptr);
      if (!output) throw PythonError{};
      Held inputs(PyTuple_New(count_));
      for (Py_ssize_t i = 0; i < count_; i++)
        PyTuple_SET_ITEM(inputs.p, i, new_reference(args_[i]));
      PyObject* done = PyObject_CallMethod(cls_, "setup_context", "OOO", ctx, inputs.p, output);
      if (!done) {
        Py_DECREF(output);
        throw PythonError{};
      }
      Py_DECREF(done);
      return output;
    }
    std::vector<PyObject*> all{ctx};
    all.insert(all.end(), args_, args_ + count_);
    PyObject* output = PyObject_Vectorcall(forward.p, all.data(), all.size(), nullptr);
    if (!output) throw PythonError{};
    return output;
  }

  bool is_input(PyObject* o) const {
    for (Py_ssize_t i = 0; i < count_; i++)
      if (args_[i] == o) return true;
    return false;
  }

  // Gives the outputs their history; returns the tuple that the caller sees.
  PyObject* wrap(PyObject* outputs) {
    Py_ssize_t n = PyTuple_GET_SIZE(outputs);
    check_dirty(outputs);
    self_->output_count = uint32_t(n ? n : 1);
    if (n > 1) self_->more_outputs = new TensorMeta[size_t(n) - 1];
    Held result(PyTuple_New(n));
    for (Py_ssize_t i = 0; i < n; i++) {
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      // A result that is no tensor gets no gradient: its place is marked by a dtype without any.
      if (!is_tensor(o)) (i == 0 ? self_->output : self_->more_outputs[i - 1]).dtype = DType::Bool;
      PyTuple_SET_ITEM(result.p, i,
                       is_tensor(o) ? wrap_one(outputs, result.p, i) : new_reference(o));
    }
    if (records_) save(outputs, result.p);
    return std::exchange(result.p, nullptr);
  }

  void check_dirty(PyObject* outputs) {
    if (!self_->dirty) return;
    // Forward may have written where no counter sees it.
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self_->dirty); i++) {
      PyObject* o = PyTuple_GET_ITEM(self_->dirty, i);
      if (is_tensor(o) && !as_tensor(o)->storage->inference) as_tensor(o)->storage->version++;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self_->dirty); i++)
      check_is_input(PyTuple_GET_ITEM(self_->dirty, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self_->dirty); i++)
      if (!in_tuple(outputs, PyTuple_GET_ITEM(self_->dirty, i)))
        fail(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function.");
  }

  // The history of a view of an input is not forward's to rewrite.
  void check_is_input(PyObject* dirty) const {
    if (!is_tensor(dirty) || is_input(dirty)) return;
    for (Py_ssize_t i = 0; i < count_; i++)
      if (is_tensor(args_[i]) && as_tensor(args_[i])->storage == as_tensor(dirty)->storage)
        fail(Py_TYPE(self_)->tp_name, ": ctx.mark_dirty() received a view of argument ", i,
             ", not the argument itself, which has been used in an in-place operation.\nFix: mark "
             "and return the argument, or apply the Function to the view.");
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors "
                     "that have been mutated should be passed to ctx.mark_dirty().",
                     1) < 0)
      throw PythonError{};
  }

  PyObject* wrap_one(PyObject* outputs, PyObject* wrapped, Py_ssize_t i) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    Tensor* t = as_tensor(o);
    // What forward returned twice is one result, the latter of the two.
    for (Py_ssize_t k = 0; k < i && !is_input(o); k++)
      if (PyTuple_GET_ITEM(outputs, k) == o) {
        PyObject* same = PyTuple_GET_ITEM(wrapped, k);
        if (as_tensor(same)->grad_fn == self_) set_history(as_tensor(same), self_, int(i));
        else set_output_meta(self_, int(i), t);
        return new_reference(same);
      }
    bool dirty = in_tuple(self_->dirty, o);
    bool plain = in_tuple(self_->non_differentiable, o) || !is_differentiable(t->dtype);
    if (dirty && records_) check_inplace(t, Py_TYPE(self_)->tp_name);
    if (!records_ || plain) {
      set_output_meta(self_, int(i), t);
      // What requires grad stays as it is: the result is another tensor, which does not.
      if (is_input(o) && (!dirty || requires_grad(t))) {
        Var same = same_kind(o);
        if (self_->passes) set_view(same.get(), t, Creation::Default);
        return reinterpret_cast<PyObject*>(same.release());
      }
      if (plain && !is_input(o) && requires_grad(t))
        return reinterpret_cast<PyObject*>(alias(t).release());
      return new_reference(o);
    }
    if (dirty) {
      set_output_meta(self_, int(i), t);
      rebase_history(t, {self_, uint32_t(i)});
      return new_reference(o);
    }
    Var out;
    if (is_input(o)) {
      out = same_kind(o);
      Creation creation = self_->passes ? Creation::Default : Creation::CustomFunction;
      set_view(out.get(), t, creation);
      out->extra->creation = creation;
    } else if (t->grad_fn || t->requires_grad || (t->extra && t->extra->base)) {
      // Computed inside with gradients on, or a view of something: only the data counts.
      out = alias(t);
      if (t->extra && t->extra->base) {
        set_view(out.get(), t, Creation::CustomFunction);
        out->extra->creation =
            Creation::CustomFunction;  // not what it was inside, without recording
      }
    } else {
      out = Var(t);
    }
    set_history(out.get(), self_, int(i));
    if (is_view(out.get())) out->extra->view_version = out->storage->version;
    return reinterpret_cast<PyObject*>(out.release());
  }

  // Another tensor on the memory of an input, of its class where the user made that.
  static Var same_kind(PyObject* o) {
    Tensor* t = as_tensor(o);
    if (!is_subclass(o) || !modes.grad) return alias(t);
    return Var::steal(on_same_memory(Py_TYPE(o), t));
  }

  void save(PyObject* outputs, PyObject* wrapped) {
    PyObject* list = self_->to_save;
    if (!list) return;
    node_in_making = self_;
    self_->saved = new std::vector<SavedTensor>(size_t(PyTuple_GET_SIZE(list)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i++) {
      PyObject* o = PyTuple_GET_ITEM(list, i);
      if (o == Py_None) continue;
      if (!is_tensor(o))
        fail_as(PyExc_TypeError, "save_for_backward can only save variables, but argument ", i,
                " is of type ", Py_TYPE(o)->tp_name);
      SavedTensor& saved = (*self_->saved)[size_t(i)];
      Py_ssize_t output = -1;
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outputs); k++)
        if (PyTuple_GET_ITEM(outputs, k) == o) output = k;
      // The history of a dirty view leads to this node by way of its base.
      bool is_output =
          output >= 0 && (as_tensor(PyTuple_GET_ITEM(wrapped, output))->grad_fn == self_ ||
                          (in_tuple(self_->dirty, o) && is_view(as_tensor(o))));
      if (is_output)
        saved.save_output(as_tensor(PyTuple_GET_ITEM(wrapped, output)), uint32_t(output));
      else saved.save_input(as_tensor(o));
      if (is_view(as_tensor(o))) track(as_tensor(o));  // its base may be an output of this node
    }
    Py_CLEAR(self_->to_save);
  }

  // Gives the results their tangents: jvp is called for each level, the lowest first.
  void push(PyObject* ctx, PyObject* outputs, PyObject* results) {
    bool any = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); i++) {
      if (!takes_tangent(outputs, results, i)) continue;
      any = true;
      PyObject* o = PyTuple_GET_ITEM(outputs, i);
      Tensor* result = as_tensor(PyTuple_GET_ITEM(results, i));
      if (is_view(result) && !in_tuple(self_->dirty, o)) separate_tangents(result);
    }
    if (!any) return;
    name_results(outputs, results);
    for (Levels rest = levels_; rest; rest &= rest - 1) {
      self_->pushing = lowest(rest);
      try {
        push_level(ctx, outputs, results, lowest(rest));
      } catch (...) {
        self_->pushing = -1;
        throw;
      }
    }
    self_->pushing = -1;
    Py_CLEAR(self_->saved_for_forward);  // may hold results, whose history is this node
  }

  bool takes_tangent(PyObject* outputs, PyObject* results, Py_ssize_t i) const {
    PyObject* o = PyTuple_GET_ITEM(results, i);
    return is_tensor(o) && is_differentiable(as_tensor(o)->dtype) &&
           !in_tuple(self_->non_differentiable, PyTuple_GET_ITEM(outputs, i));
  }

  // What was saved for jvp of the results is what the caller sees of them.
  void name_results(PyObject* outputs, PyObject* results) {
    PyObject* saved = self_->saved_for_forward;
    if (!saved) return;
    Held named(PyTuple_New(PyTuple_GET_SIZE(saved)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved); i++) {
      PyObject* o = PyTuple_GET_ITEM(saved, i);
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outputs); k++)
        if (PyTuple_GET_ITEM(outputs, k) == o && !is_input(o)) o = PyTuple_GET_ITEM(results, k);
      PyTuple_SET_ITEM(named.p, i, new_reference(o));
    }
    Py_SETREF(self_->saved_for_forward, std::exchange(named.p, nullptr));
  }

  PyObject* tangent_argument(PyObject* o, int level) const {
    if (!is_tensor(o) || !is_differentiable(as_tensor(o)->dtype)) return new_reference(Py_None);
    Tensor* t = as_tensor(o);
    Var tangent = tangent_of(Var(t), level);
    if (!tangent && self_->materialize) tangent = ops::zeros(t->sizes, t->dtype, t->device());
    return tangent ? reinterpret_cast<PyObject*>(tangent.release()) : new_reference(Py_None);
  }

  void push_level(PyObject* ctx, PyObject* outputs, PyObject* results, int level) {
    Held tangents(PyTuple_New(count_));
    for (Py_ssize_t i = 0; i < count_; i++)
      PyTuple_SET_ITEM(tangents.p, i, tangent_argument(args_[i], level));
    Held jvp(PyObject_GetAttrString(ctx, "_run_jvp"));
    VisibleLevels lower((Levels(1) << level) - 1);
    Held returned(PyObject_CallObject(jvp.p, tangents.p));
    Held moved(PyTuple_Check(returned.p) ? new_reference(returned.p) : PyTuple_Pack(1, returned.p));
    Py_ssize_t n = PyTuple_GET_SIZE(results);
    if (PyTuple_GET_SIZE(moved.p) != n)
      fail("Function's jvp returned an invalid number of forward gradients (expected ", n,
           " but got ", PyTuple_GET_SIZE(moved.p), "): ", Py_TYPE(ctx)->tp_name);
    for (Py_ssize_t i = 0; i < n; i++) {
      if (!takes_tangent(outputs, results, i)) continue;
      Tensor* result = as_tensor(PyTuple_GET_ITEM(results, i));
      PyObject* o = PyTuple_GET_ITEM(moved.p, i);
      if (o != Py_None && !is_tensor(o))
        fail("expected Variable or None (got ", Py_TYPE(o)->tp_name, ") for grad output ", i, ".");
      Var tangent = is_tensor(o) ? Var(as_tensor(o))
                                 : ops::zeros(result->sizes, result->dtype, result->device());
      check(tangent.sizes() == result->sizes,
            "Trying to set a forward gradient that has a different size than that of the original "
            "Tensor, this is not supported. Tensor is of size ",
            result->sizes, " while the given forward gradient is of size ", tangent.sizes(), ". (",
            Py_TYPE(ctx)->tp_name, ", result ", i, ")");
      set_tangent(result, level, tangent);
    }
  }

  PyObject* cls_;
  PyObject* const* args_;
  Py_ssize_t count_;
  FunctionNode* self_ = nullptr;
  std::vector<uint32_t> versions_;  // of the tensor arguments before forward
  Levels levels_ = 0;
  bool records_ = false;
};

}  // namespace

// _function_apply(cls, *args)
PyObject* function_apply(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count < 1) fail_as(PyExc_TypeError, "_function_apply needs a class");
    if (batched_tensors) [[unlikely]]
      for (Py_ssize_t i = 1; i < count; i++)
        if (is_tensor(args[i]) && batch_of(as_tensor(args[i]))) {
          Held module(PyImport_ImportModule("rushlight.func._function"));
          Held apply(PyObject_GetAttrString(module.p, "apply_batched"));
          return PyObject_Vectorcall(apply.p, args, size_t(count), nullptr);
        }
    return Application(args[0], args + 1, count - 1).run();
  });
}

// _function_run(cls, *args): the same for arguments that the Function itself takes as they are.
PyObject* function_run(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count < 1) fail_as(PyExc_TypeError, "_function_run needs a class");
    return Application(args[0], args + 1, count - 1).run();
  });
}

}  // namespace rl
