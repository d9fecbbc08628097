#include "call/call_node.h"

#include <cstring>

#include "autograd/history.h"
#include "autograd/inplace.h"
#include "call/arguments.h"
#include "call/values.h"

namespace rl {

namespace {

constexpr int kMaxKeptOutputs = 3;

struct SavedOutputs {
  SavedTensor outs[kMaxKeptOutputs];
};

SavedOutputs* outputs_of(char* block) { return reinterpret_cast<SavedOutputs*>(block); }
char* arguments_of(char* block) { return block + sizeof(SavedOutputs); }
char*& block_of(Node* node) { return node->payload<char*>(); }

KeptTensor& kept_tensor(const OpRecord& op, char* kept, int i) {
  return *reinterpret_cast<KeptTensor*>(kept + op.kept_places[i]);
}
std::vector<KeptTensor>& kept_tensors(const OpRecord& op, char* kept, int i) {
  return *reinterpret_cast<std::vector<KeptTensor>*>(kept + op.kept_places[i]);
}

void drop_arguments(const OpRecord& op, char* kept, int count) {
  for (int i = 0; i < count; i++) {
    if (op.holds[i] == Holds::Tensor) kept_tensor(op, kept, i).~KeptTensor();
    else if (op.holds[i] == Holds::Tensors) kept_tensors(op, kept, i).~vector();
    else if (op.types[i]->destroy) op.types[i]->destroy(kept + op.kept_places[i]);
  }
}

char* new_block(const OpRecord& op, Values args) {
  auto* block = static_cast<char*>(::operator new(sizeof(SavedOutputs) + op.kept_size));
  new (block) SavedOutputs;
  char* kept = arguments_of(block);
  int made = 0;
  try {
    for (; made < op.count; made++) {
      char* place = kept + op.kept_places[made];
      if (op.holds[made] == Holds::Tensor) new (place) KeptTensor;
      else if (op.holds[made] == Holds::Tensors) new (place) std::vector<KeptTensor>;
      else op.types[made]->copy(args[made], place);
    }
  } catch (...) {
    drop_arguments(op, kept, made);
    ::operator delete(block);
    throw;
  }
  return block;
}

const OpRecord& op_of(Node* node) { return *node->cls->op; }

void destroy(Node* node) {
  char* block = std::exchange(block_of(node), nullptr);
  if (!block) return;
  const OpRecord& op = op_of(node);
  drop_arguments(op, arguments_of(block), op.count);
  outputs_of(block)->~SavedOutputs();
  ::operator delete(block);
}

SavePlan::Group wanted_saves(const OpRecord& op, Node* node) {
  if (op.plan.groups.size() == 1) return op.plan.groups[0];
  SavePlan::Group all;
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (node->edges[i].node) {
      all.arguments |= op.plan.of(int(i)).arguments;
      all.outputs |= op.plan.of(int(i)).outputs;
    }
  return all;
}

void keep(KeptTensor& kept, const Var& v, bool save) {
  if (!v) return;
  kept.defined = true;
  kept.sizes = v.sizes();
  kept.dtype = v.dtype();
  kept.device = v.device();
  if (save) kept.saved.save_input(v.get());
}

// A view without a rule of its own is taken of an empty tensor to find where its elements lie.
Var same_view(const OpRecord& op, const Var& of, const char* kept) {
  const void* args[kMaxParams];
  args[0] = &of;
  for (int i = 1; i < op.count; i++) args[i] = kept + op.kept_places[i];
  Var view;
  op.forward(op, args, &view);
  return view;
}

void apply(Node* node, Pass& pass) {
  // A tensor may require grad and lead nowhere: then nothing was saved.
  bool wanted = false;
  for (uint32_t i = 0; i < node->edge_count && !wanted; i++)
    wanted = node->edges[i].node && pass.wants(int(i));
  if (!wanted) return;
  const OpRecord& op = op_of(node);
  char *block = block_of(node), *kept = arguments_of(block);
  if (op.vjp) {
    Back back(node, pass, outputs_of(block)->outs);
    op.vjp(back, node, kept);
  } else {
    const KeptTensor& input = kept_tensor(op, kept, 0);
    Var region = [&] {
      Plain plain;
      return same_view(op, empty(input.sizes, input.dtype, input.device), kept);
    }();
    pass.results[0] = ops::embed(pass.grads[0], input.sizes, region->strides, region->offset);
  }
  if (op.whole_history && pass.create_graph)
    for (uint32_t i = 0; i < node->edge_count; i++) bind_history(pass.results[i], node);
}

void deposit(Node* node, const Var& grad, Var& sum) {
  GradMode off(false);
  Var region = same_view(op_of(node), sum, arguments_of(block_of(node)));
  ops::accumulate_into(region.get(), grad.get());
}

void each_saved(Node* node, SavedVisitor& visitor) {
  char* block = block_of(node);
  if (!block) return;
  const OpRecord& op = op_of(node);
  char* kept = arguments_of(block);
  for (int k = 0; k < op.tensor_count; k++) {
    int i = op.tensors[k];
    if (!(op.saved >> i & 1)) continue;
    const char* name = op.signature.params()[size_t(i)].name.c_str();
    if (op.holds[i] == Holds::Tensor) visitor.visit(kept_tensor(op, kept, i).saved, name);
    else
      for (KeptTensor& one : kept_tensors(op, kept, i)) visitor.visit(one.saved, name);
  }
  static const char* const names[kMaxKeptOutputs] = {"result", "result1", "result2"};
  for (int i = 0; i < kMaxKeptOutputs; i++)
    if (op.saved_outputs >> i & 1) visitor.visit(outputs_of(block)->outs[i], names[i]);
}

// _saved_dim, _saved_self_sym_sizes and the like.
PyObject* attribute(Node* node, const char* name) {
  if (std::strncmp(name, "_saved_", 7) != 0 || !block_of(node)) return nullptr;
  name += 7;
  const OpRecord& op = op_of(node);
  char* kept = arguments_of(block_of(node));
  const std::vector<Param>& params = op.signature.params();
  for (int i = 0; i < op.count; i++) {
    const std::string& own = params[size_t(i)].name;
    if (op.holds[i] == Holds::Tensor && (own == "input" ? "self" : own) + "_sym_sizes" == name)
      return attribute_value(kept_tensor(op, kept, i).sizes);
  }
  for (int i = 0; i < op.count; i++)
    if (params[size_t(i)].name == name) return op.types[i]->attribute(kept + op.kept_places[i]);
  return nullptr;
}

}  // namespace

NodeRef prepare_call(const OpRecord& op, size_t outputs, Values args) {
  int edges = 0;
  each_tensor(op, args, [&](const Var&) { edges++; });
  Node* node = new_node(op.node, edges, int(outputs));
  NodeRef hold = NodeRef::steal(node);
  char* block = block_of(node) = new_block(op, args);
  int at = 0;
  each_tensor(op, args, [&](const Var& v) { set_edge(node, at++, v.get()); });
  node_in_making = node;
  std::optional<Spared> spared;
  if (op.spares) spared.emplace(true);
  uint32_t saved = wanted_saves(op, node).arguments;
  char* kept = arguments_of(block);
  for (int t = 0; t < op.tensor_count; t++) {
    int i = op.tensors[t];
    bool save = saved >> i & 1;
    if (op.holds[i] == Holds::Tensor) {
      keep(kept_tensor(op, kept, i), tensor(args[i]), save);
    } else {
      std::vector<KeptTensor>& all = kept_tensors(op, kept, i);
      all.resize(tensors(args[i]).size());
      for (size_t k = 0; k < all.size(); k++) keep(all[k], tensors(args[i])[k], save);
    }
  }
  return hold;
}

void finish_call(const OpRecord& op, Node* node, Var* results, size_t count) {
  SavedOutputs& kept = *outputs_of(block_of(node));
  SavePlan::Group group = wanted_saves(op, node);
  node_in_making = node;
  std::optional<Spared> spared;
  if (op.spares) spared.emplace(true);
  for (size_t i = 0; i < count; i++) {
    if (!is_differentiable(results[i].dtype())) {
      set_output_meta(node, int(i), results[i].get());
    } else {
      set_history(results[i].get(), node, int(i));
      if (op.is_view) results[i]->extra->view_version = results[i]->storage->version;
    }
    if (i < kMaxKeptOutputs && group.outputs >> i & 1)
      kept.outs[i].save_output(results[i].get(), uint32_t(i));
  }
  created(node);
}

NodeClass node_class(const OpRecord& op) {
  NodeClass cls{};
  cls.name = op.grad_name ? op.grad_name : backward_name(op.name);
  cls.apply = apply;
  cls.each_saved = each_saved;
  cls.destroy = destroy;
  cls.attribute = attribute;
  if (op.is_view && !op.vjp) cls.deposit = deposit;
  cls.payload = sizeof(char*);
  cls.op = &op;
  return cls;
}

}  // namespace rl
