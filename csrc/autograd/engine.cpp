#include "autograd/engine.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "autograd/anomaly.h"
#include "autograd/batch.h"
#include "autograd/deep.h"
#include "autograd/forward.h"
#include "autograd/hooks.h"
#include "autograd/profile.h"
#include "autograd/sharing.h"
#include "autograd/streams.h"
#include "autograd/structured.h"
#include "autograd/zeros.h"
#include "ops/functions.h"

namespace rl {

namespace {

bool later(const Node* a, const Node* b) { return a->sequence < b->sequence; }

// Whether hidden dimensions of vmap take part: fused kernels do not see them, nor tangents.
bool sees_batches(Node* node, const Var* grads, uint32_t outputs) {
  if (!batched_tensors) return false;
  for (uint32_t i = 0; i < outputs; i++)
    if (node->meta(i).batch || (grads[i] && batch_of(grads[i].get()))) return true;
  return false;
}

// What an accumulator does with a gradient that has arrived: the leaf's .grad, then its hooks.
void fill_grad(Tensor* variable, Var grad, bool create_graph) {
  if (variable->grad_fn)
    fail(
        "leaf variable has been moved into the graph interior: since it was used as a leaf, it was "
        "detached and written to with a history of its own. Write to a copy (clone()) instead");
  // A leaf that was told since not to require grad takes none; its hooks see the pass.
  if (requires_grad(variable)) accumulate_grad(variable, std::move(grad), create_graph);
  if (variable->extra && variable->extra->post_accumulate_hooks)
    run_post_accumulate_hooks(variable, create_graph);
}

class Run {
 public:
  explicit Run(Request& request) : request_(request), captured_(request.inputs.size()) {}
  static thread_local Run* active;
  uint32_t number() const { return number_; }
  // Whether the node is part of this run and leads to something that was asked for.
  bool executes(Node* node) {
    if (node->run != this && !overflow_.count(node)) return false;
    return wanted_.empty() || wanted_.count(node) || at(node).needed;
  }

  ~Run() {
    for (Node* node : claimed_) {
      node->scratch.reset();
      node->run = nullptr;
    }
    for (Node* node : claimed_) release_node(node);
    for (auto& [node, scratch] : overflow_) {
      scratch.reset();
      release_node(node);
    }
    for (PyObject* callback : callbacks_) Py_DECREF(callback);
  }

  void queue(PyObject* callback) { callbacks_.push_back(Py_NewRef(callback)); }
  // This run is over: what a callback queues belongs to the run around it.
  void call_back() {
    for (PyObject* callback : callbacks_) {
      PyObject* result = PyObject_CallNoArgs(callback);
      if (!result) throw PythonError{};
      Py_DECREF(result);
    }
  }

  std::vector<Var> go() {
    Active now(this);
    for (const Edge& root : request_.roots)
      if (visit(root.node)) explore(root.node);
    if (streams_used) [[unlikely]]
      streams_.emplace();
    shares_ = derived_ && may_share();
    if (!request_.inputs.empty()) mark_needed();
    for (size_t i = 0; i < request_.roots.size(); i++) {
      if (streams_) streams_->leave();
      const Edge& root = request_.roots[i];
      deliver(root, std::move(request_.grads[i]));
    }
    for (const Edge& root : request_.roots)
      if (at(root.node).waiting == 0 && !queued(root.node)) push(root.node);
    int steps = 0;
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), later);
      Node* node = ready_.back();
      ready_.pop_back();
      process(node);
      if ((++steps & 255) == 0 && PyErr_CheckSignals() < 0) throw PythonError{};
    }
    if (streams_) streams_->finish(captured_);
    GradMode mode(request_.create_graph);
    for (Var& v : captured_)
      if (v) v = for_user(writable(std::move(v)));
    return std::move(captured_);
  }

 private:
  // The run that this thread is in, and the one it interrupted.
  class Active {
   public:
    explicit Active(Run* run)
        : before_(std::exchange(active, run)),
          derives_(std::exchange(modes.derives, run->request_.create_graph)) {
      run->number_ = begin_run();
    }
    ~Active() {
      active = before_;
      modes.derives = derives_;
    }
    Active(const Active&) = delete;

   private:
    Run* before_;
    bool derives_;
  };

  // Takes the node's scratch for this run, or a place of our own when another run has it.
  bool visit(Node* node) {
    if (node->run == this || overflow_.count(node)) return false;
    if (!node->run) {
      claimed_.push_back(node);
      node->run = this;
      node->scratch.waiting = 0;
      node->scratch.needed = true;
      node->scratch.zero = false;
    } else {
      overflow_.try_emplace(node);
    }
    Py_INCREF(node);
    return true;
  }
  Scratch& at(Node* node) {
    return node->run == this ? node->scratch : overflow_.find(node)->second;
  }

  // Counts, for every reachable node, the gradients it will receive.
  void explore(Node* root) {
    std::vector<Node*> stack{root};
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      derived_ |= node->derived;
      for (uint32_t i = 0; i < node->edge_count; i++) {
        Node* next = node->edges[i].node;
        if (!next) continue;
        if (visit(next)) stack.push_back(next);
        at(next).waiting++;
      }
    }
  }

  // A node is needed when it is an input asked for or leads to one. Edges point to older nodes, so
  // one pass by age settles it.
  void mark_needed() {
    std::vector<Node*> nodes = claimed_;
    for (auto& entry : overflow_) nodes.push_back(entry.first);
    std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) {
      return a->edge_count == 0 || b->edge_count == 0 ? a->edge_count < b->edge_count : later(a, b);
    });
    for (uint32_t i = 0; i < request_.inputs.size(); i++) {
      auto [first, is_new] = wanted_.try_emplace(request_.inputs[i].node, i);
      next_wanted_.push_back(is_new ? kNone : std::exchange(first->second, i));
    }
    for (Node* node : nodes) at(node).needed = wanted_.count(node) || leads_on(node);
  }
  bool leads_on(Node* node) {
    for (uint32_t i = 0; i < node->edge_count; i++)
      if (node->edges[i].node && at(node->edges[i].node).needed) return true;
    return false;
  }

  bool queued(Node* node) { return std::find(ready_.begin(), ready_.end(), node) != ready_.end(); }
  void push(Node* node) {
    ready_.push_back(node);
    std::push_heap(ready_.begin(), ready_.end(), later);
  }

  void deliver(const Edge& to, Var grad) {
    if (!grad) return;
    if (streams_) [[unlikely]]
      streams_->hand_over(to.node, grad);
    Var& sum = at(to.node).incoming(to.node, to.nr);
    if (!sum) {
      sum = std::move(grad);
    } else if (structured_type && (is_structured(sum.get()) || is_structured(grad.get()))) {
      GradMode mode(request_.create_graph);
      sum = structured::add(sum, grad);
    } else if (!recorded_ && !batched(sum, grad) && is_exclusive(sum.get()) &&
               sum->dtype == grad->dtype && sum->sizes == grad->sizes &&
               (sum->contiguous || has_distinct_elements(sum->sizes, sum->strides))) {
      ops::accumulate_into(sum.get(), grad.get());
    } else {
      GradMode mode(request_.create_graph);
      Sharing sharing(shares_);
      sum = ops::add(sum, grad);
    }
  }

  void process(Node* node) {
    if (streams_) [[unlikely]]
      streams_->enter(node);
    Scratch& scratch = at(node);
    uint32_t outputs = node->output_count;
    Var one = std::move(scratch.first);
    std::vector<Var> several;
    Var* grads = &one;
    if (outputs > 1) {
      several.resize(outputs);
      several[0] = std::move(one);
      for (uint32_t i = 1; i < outputs && scratch.more; i++)
        several[i] = std::move(scratch.more[i - 1]);
      grads = several.data();
    }
    bool is_leaf = node->cls == &accumulate_class;
    bool zero = scratch.zero && !has_any(grads, outputs);
    if (zero && (is_leaf || node->hooks || is_function(node) || wanted_.count(node))) {
      for (uint32_t i = 0; i < outputs; i++) grads[i] = zeros_of(node->meta(i));
      zero = false;
    }
    if (node->hooks || is_leaf) run_tensor_hooks(node, grads, request_.create_graph);
    bool execute = true;
    if (!wanted_.empty()) {
      execute = capture(node, grads);
      // backward(inputs=[a result]) runs the hooks of the node that made it.
      bool hooked = execute && node->hooks && (node->hooks->pre || node->hooks->post);
      if (!is_leaf) execute = hooked || leads_on(node);
    }
    if (!execute) return;
    if (node->freed && saved_hooks.strict) fail_second_time(node);
    if (is_leaf) {
      if (node->hooks) run_pre_hooks(node, grads, request_.create_graph);
      if (grads[0]) finish_leaf(node, std::move(grads[0]));
      return;
    }
    run(node, grads, outputs, zero);
  }
  static bool has_any(const Var* grads, uint32_t count) {
    return std::any_of(grads, grads + count, [](const Var& g) { return bool(g); });
  }
  static Var zeros_of(const TensorMeta& meta) {
    return ops::zeros(meta.sizes, meta.dtype, meta.device);
  }

  // Collects what was asked for at this node; whether backward() shall fill the .grad of one.
  bool capture(Node* node, Var* grads) {
    auto first = wanted_.find(node);
    if (first == wanted_.end()) return false;
    if (!request_.accumulate || node->cls != &accumulate_class)
      for (uint32_t i = first->second; i != kNone; i = next_wanted_[i])
        captured_[i] = grads[request_.inputs[i].nr];
    return request_.accumulate;
  }

  void finish_leaf(Node* node, Var grad) {
    Profiled event;
    if (modes.profiled) [[unlikely]]
      event.node(node);
    Tensor* variable = accumulated_variable(node);
    const TensorMeta& meta = node->output;
    if (!fits(grad, meta)) conform(node, 0, grad, meta);
    bool watched = node->hooks && node->hooks->post;
    Var seen = watched ? for_user(grad) : Var();
    fill_grad(variable, std::move(grad), request_.create_graph);
    if (watched) run_post_hooks(node, nullptr, 0, &seen, 1, request_.create_graph);
  }

  // `zero`: all of grads are zeros that nobody made; so are the results.
  void run(Node* node, Var* grads, uint32_t outputs, bool zero) {
    if (node->hooks && node->hooks->pre) run_pre_hooks(node, grads, request_.create_graph);
    bool any = has_any(grads, outputs);
    if (structured_type && !is_function(node)) make_dense(grads, outputs);

    uint32_t edges = node->edge_count;
    bool differentiable = recorded_ || sees_batches(node, grads, outputs);
    if (node->cls->deposit && any && !differentiable && !node->hooks && !modes.anomaly &&
        (!streams_ || streams_->together(node, node->edges[0].node))) {
      deposit(node, grads[0]);
      return;
    }
    Var few[3];
    std::vector<Var> many;
    Var* results = few;
    if (edges > 3) {
      many.resize(edges);
      results = many.data();
    }
    Pass pass{request_.create_graph, differentiable, grads, results};
    if (!wanted_.empty()) pass.wanted = wanted_edges(node);
    bool function = is_function(node);
    if (structural_zeros && !function && all_zero(grads, outputs)) [[unlikely]] {
      give_zeros(node, pass);
    } else if (any || function) {
      Sharing sharing(shares_ && !function);
      apply_node(node, pass);
    }
    if (node->hooks && node->hooks->post)
      run_post_hooks(node, results, edges, grads, outputs, request_.create_graph);
    if (!request_.keep_graph) free_saved(node, number_);
    for (uint32_t i = 0; i < outputs; i++) grads[i] = {};  // so that results may be reused in place
    zero |= any && node->cls->gives_zeros;
    for (uint32_t i = 0; i < edges; i++) send(node, i, std::move(results[i]), zero);
  }

  // Rules of ops read the memory of gradients; those of structured tensors are Python's.
  void make_dense(Var* grads, uint32_t count) {
    GradMode mode(request_.create_graph);
    for (uint32_t i = 0; i < count; i++)
      if (is_structured(grads[i].get())) grads[i] = structured::dense(grads[i]);
  }

  uint64_t wanted_edges(Node* node) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < node->edge_count; i++)
      if (node->edges[i].node && at(node->edges[i].node).needed)
        bits |= uint64_t(1) << (i < 63 ? i : 63);
    return bits;
  }

  void send(Node* node, uint32_t i, Var grad, bool zero) {
    const Edge& to = node->edges[i];
    if (!to.node) return;
    Scratch& next = at(to.node);
    if (!next.needed) return;
    next.zero |= zero;
    if (grad) {
      const TensorMeta& meta = to.node->meta(to.nr);
      if (!fits(grad, meta)) conform(node, int(i), grad, meta);
      if (batch_of(grad.get())) [[unlikely]] {
        GradMode mode(request_.create_graph);
        grad = sum_left_levels(grad, meta.batch);
      }
      deliver(to, std::move(grad));
      if (streams_) [[unlikely]]
        streams_->enter(node);
    }
    if (--next.waiting == 0) push(to.node);
  }

  void deposit(Node* node, const Var& grad) {
    Profiled event;
    if (modes.profiled) [[unlikely]]
      event.node(node);
    const Edge& to = node->edges[0];
    if (!request_.keep_graph) free_saved(node, number_);
    if (!to.node) return;
    Scratch& next = at(to.node);
    if (!next.needed) return;
    Var& sum = next.incoming(to.node, to.nr);
    const TensorMeta& meta = to.node->meta(to.nr);
    if (!sum) sum = zeros_of(meta);
    else if (!is_exclusive(sum.get()) || !sum->contiguous) sum = ops::contiguous(ops::clone(sum));
    node->cls->deposit(node, grad, sum);
    if (--next.waiting == 0) push(to.node);
  }

  static bool fits(const Var& grad, const TensorMeta& meta) {
    return grad->sizes == meta.sizes && grad->dtype == meta.dtype &&
           (!devices_mix || grad->device() == meta.device);
  }

  // Sums a broadcast gradient and casts it, so that rules need not.
  void conform(Node* node, int i, Var& grad, const TensorMeta& meta) {
    GradMode mode(request_.create_graph);
    Sharing sharing(shares_);
    try {
      if (grad->sizes != meta.sizes) {
        if (is_structured(grad.get()) || !expandable(meta.sizes, grad->sizes))
          fail("Function ", Py_TYPE(node)->tp_name, " returned an invalid gradient at index ", i,
               " - got ", grad->sizes, " but expected shape compatible with ", meta.sizes);
        grad = ops::sum_to(grad, meta.sizes);
      }
      if (grad->device() != meta.device && grad->dim() == 0 && has_data(grad.get()))
        grad = ops::to(grad, grad.dtype(), meta.device);
      if (grad->device() != meta.device)
        fail("Function ", Py_TYPE(node)->tp_name, " returned an invalid gradient at index ", i,
             " - expected device ", device_text(meta.device), " but got ",
             device_text(grad->device()));
      if (grad->dtype != meta.dtype)
        grad = is_structured(grad.get()) ? structured::to(grad, meta.dtype)
                                         : ops::to(grad, meta.dtype);
    } catch (...) {
      raise_current_exception();
      annotate_error(node);
      throw PythonError{};
    }
  }
  static bool expandable(const Ints& from, const Ints& to) {
    if (from.size() > to.size()) return false;
    int lead = to.size() - from.size();
    for (int i = 0; i < from.size(); i++)
      if (from[i] != to[lead + i] && from[i] != 1) return false;
    return true;
  }

  // Nodes that are kept, and results that nobody counts, times or sees being made.
  bool may_share() const {
    return request_.create_graph && request_.keep_graph && !dual_levels && !modes.anomaly &&
           !modes.watched && !modes.profiled && !modes.autocast && !saved_hooks.stack && !streams_;
  }

  static bool batched(const Var& a, const Var& b) {
    return batched_tensors && (batch_of(a.get()) || batch_of(b.get()));
  }

  Request& request_;
  uint32_t number_ = 0;
  bool recorded_ = request_.create_graph || dual_levels;
  bool derived_ = false;  // a backward pass recorded a part of the graph
  bool shares_ = false;
  std::vector<Node*> claimed_;
  std::unordered_map<Node*, Scratch> overflow_;
  // The inputs asked for: of each node the last one, and of each input the one before it there.
  static constexpr uint32_t kNone = ~uint32_t(0);
  std::unordered_map<Node*, uint32_t> wanted_;
  std::vector<uint32_t> next_wanted_;
  std::vector<Node*> ready_;
  std::vector<Var> captured_;
  std::vector<PyObject*> callbacks_;
  std::optional<RunStreams> streams_;
};

thread_local Run* Run::active = nullptr;

}  // namespace

Var writable(Var v) {
  if (is_structured(v.get())) return v;
  return v->contiguous || has_distinct_elements(v->sizes, v->strides) ? v : ops::clone(v);
}

int64_t current_run() { return Run::active ? int64_t(Run::active->number()) : -1; }

bool will_execute(Node* node) {
  check(Run::active, "there is no backward pass running in this thread");
  return Run::active->executes(node);
}

void queue_callback(PyObject* function) {
  check(Run::active, "Final callbacks can only be installed during backward pass.");
  Run::active->queue(function);
}

void apply_node(Node* node, Pass& pass) {
  Profiled event;
  if (modes.profiled) [[unlikely]]
    event.node(node);
  struct Evaluation {
    Node* before;
    explicit Evaluation(Node* now) : before(std::exchange(evaluated, now)) {}
    ~Evaluation() { evaluated = before; }
  } evaluation(modes.anomaly ? node : nullptr);
  try {
    GradMode mode(pass.create_graph);
    node->cls->apply(node, pass);
    if (modes.anomaly) check_anomaly(node, pass);
  } catch (...) {
    raise_current_exception();
    annotate_error(node);
    throw PythonError{};
  }
}

std::vector<Var> call_node(Node* node, std::vector<Var>& grads) {
  std::vector<Var> results(node->edge_count);
  bool record = modes.records();
  if (node->cls == &accumulate_class) {
    if (grads[0]) fill_grad(accumulated_variable(node), grads[0], record);
    return results;
  }
  bool batches = sees_batches(node, grads.data(), uint32_t(grads.size()));
  Pass pass{record, record || dual_levels || batches, grads.data(), results.data()};
  pass.wanted = 0;
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (node->edges[i].node) pass.wanted |= uint64_t(1) << (i < 63 ? i : 63);
  bool any = is_function(node);
  for (const Var& g : grads) any = any || g;
  if (any) apply_node(node, pass);
  for (uint32_t i = 0; i < node->edge_count; i++) {
    const Edge& to = node->edges[i];
    if (!results[i] || !to.node) continue;
    const TensorMeta& meta = to.node->meta(to.nr);
    if (results[i].sizes() != meta.sizes) results[i] = ops::sum_to(results[i], meta.sizes);
    if (results[i].dtype() != meta.dtype) results[i] = ops::to(results[i], meta.dtype);
  }
  return results;
}

std::vector<Var> run_backward(Request& request) {
  auto go = [&] {
    Run run(request);
    std::vector<Var> grads = run.go();
    run.call_back();
    return grads;
  };
  return Run::active ? deeply(go) : go();
}

Var for_user(Var grad) {
  if (is_structured(grad.get())) return grad;
  if (Node* node = grad->grad_fn) {
    if (node->shared) {  // users get one that serves nobody else
      GradMode on(true);
      grad = ops::clone(grad);
    }
    grad->grad_fn->shown = true;
  }
  if (is_exclusive(grad.get()) || grad->requires_grad) return grad;
  Var copy = lazy_clone(grad.get());
  if (grad->grad_fn) set_history(copy.get(), grad->grad_fn, int(grad->output_nr));
  if (dual_levels) replace_tangents(copy.get(), grad);
  return copy;
}

}  // namespace rl
