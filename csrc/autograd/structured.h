// Tensors of a Python class that holds other tensors: sparse, nested, masked. Their own memory says
// nothing, so what the engine does with gradients is asked of the class. See docs/design/sparse.md.
#pragma once

#include "tensor/tensor.h"

namespace rl {

// The class they derive from once it is loaded: until then no tensor is structured.
extern PyTypeObject* structured_type;

inline bool is_structured(const Tensor* t) {
  return structured_type && t && Py_TYPE(t) != &TensorType &&
         PyType_IsSubtype(Py_TYPE(t), structured_type);
}

namespace structured {

// Raises where a tensor holds others: its own memory says nothing.
void refuse_export(const Tensor* t);
// a + b; one of them may be dense.
Var add(const Var& a, const Var& b);
// The elements as an ordinary tensor.
Var dense(const Var& grad);
Var to(const Var& grad, DType dtype);
// What .grad becomes where it was `old`, or nothing: `old` itself where it can be added to.
Var accumulate(const Var& old, const Var& grad, bool anew);
bool has_nan(const Var& grad);
// The gradient of a table whose rows were taken by number, with those rows alone but the padding's.
Var rows(const Var& grad, const Var& ids, int64_t rows, int64_t padding);
// That of a tensor from which `index` picked along a dimension.
Var gathered(const Var& grad, int64_t dim, const Var& index, const Ints& sizes);

}  // namespace structured
}  // namespace rl
