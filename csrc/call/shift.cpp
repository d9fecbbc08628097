#include "call/shift.h"

namespace rl {

Var Shift::operator()(size_t, const Var& v) {
  if (!v) return v;
  // A number beside the first tensor is one for all elements.
  if (rank_ >= 0 && v.dim() == 0 && !batch_of(v.get())) return v;
  if (rank_ < 0) rank_ = v.dim();
  return hidden_.front(v);
}

Vars Shift::operator()(size_t, const Vars& vars) {
  Vars all;
  for (const Var& v : vars) {
    if (v && rank_ < 0) rank_ = v.dim();
    all.push_back(v ? hidden_.front(v) : v);
  }
  return all;
}

int64_t Shift::operator()(size_t at, int64_t value) { return is_dim(at) ? moved(value) : value; }

std::optional<int64_t> Shift::operator()(size_t at, const std::optional<int64_t>& value) {
  if (!is_dim(at)) return value;
  if (!value) possible_ = false;
  return value ? std::optional(moved(*value)) : value;
}

Ints Shift::operator()(size_t at, const Ints& value) {
  if (signature_.params()[at].name == "size") return hidden_.prefixed(value);
  if (!is_dim(at)) return value;
  return value.empty() && reduces_ ? all_dims() : moved(value);
}

std::optional<Ints> Shift::operator()(size_t at, const std::optional<Ints>& value) {
  if (!is_dim(at)) return value;
  return value && !(value->empty() && reduces_) ? moved(*value) : all_dims();
}

bool Shift::is_dim(size_t at) const {
  return signature_.params()[at].name.compare(0, 3, "dim") == 0;
}

int64_t Shift::moved(int64_t dim) {
  int rank = rank_ + added_;
  if (rank == 0) possible_ = false;
  return wrap_dim(dim, rank, signature_.name().c_str()) + hidden_.count();
}

Ints Shift::moved(const Ints& dims) {
  Ints all;
  for (int64_t d : dims) all.push_back(moved(d));
  return all;
}

Ints Shift::all_dims() {
  if (rank_ == 0) possible_ = false;
  Ints all;
  for (int i = 0; i < rank_; i++) all.push_back(hidden_.count() + i);
  return all;
}

}  // namespace rl
