"""What the engine asks about gradients that are structured tensors (csrc/autograd/structured.h)."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._structured.base import Structured, is_structured, overwrite

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def add(a: Any, b: Any) -> Any:
    """The sum of two gradients of one tensor."""
    return a + b if is_structured(b) or not is_structured(a) else b + a


def dense(grad: Structured) -> Tensor:
    return grad._to_dense()


def to(grad: Structured, dtype: Any) -> Any:
    return grad.to(dtype)


def accumulate(old: Any, grad: Any, anew: bool) -> Any:
    """What ``.grad`` becomes. Sparse ones are added in place, so that it stays the same object."""
    if old is None:
        return grad if anew and grad.requires_grad else grad.detach()
    if anew or not is_structured(old):
        return add(old, grad)
    if not is_structured(grad):
        return add(grad, old)
    with _C._Scope(("grad", False)):
        return overwrite(old, old + grad)


def has_nan(grad: Structured) -> bool:
    return bool(grad._raw.isnan().any())


def rows(grad: Tensor, ids: Tensor, rows: int, padding: int) -> Any:
    """The gradient of a table of which rows were taken: those rows alone."""
    from rushlight._sparse.pattern import Pattern
    from rushlight._structured.base import wrap

    ids = ids.reshape(-1).long()
    width = grad.shape[-1]
    values = grad.reshape(-1, width) if ids.numel() else grad.reshape(0, width)
    if padding >= 0:
        kept = (ids != padding).nonzero().reshape(-1)
        if kept.numel() < ids.numel():
            ids, values = ids[kept], values.index_select(0, kept)
    return wrap(values, Pattern.coo(ids.unsqueeze(0), (rows, width), 1, ids.numel() < 1))


def gathered(grad: Tensor, dim: int, index: Tensor, size: tuple[int, ...]) -> Any:
    """The gradient of a tensor from which ``gather(..., sparse_grad=True)`` picked elements."""
    from rushlight._sparse.pattern import Pattern, grid
    from rushlight._structured.base import wrap

    places = grid(index.shape)
    dim = dim % len(size)
    places[dim] = index.reshape(-1).long()
    return wrap(grad.reshape(-1), Pattern.coo(_C._namespaces[""]["stack"](places), size))
