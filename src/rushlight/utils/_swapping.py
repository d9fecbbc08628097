"""Two tensors that change places."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight._C import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Each becomes the other: memory, class, attributes, gradient; who holds one sees the other.

    >>> import rushlight as torch
    >>> a, b = torch.zeros(2), torch.ones(3, dtype=torch.int64)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1, 1, 1]), tensor([0., 0.]))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if not tensor.is_leaf:
            raise RuntimeError(
                f"Cannot swap {name} because it is no leaf: its history belongs to it; swap "
                "detached tensors"
            )
    if t1 is t2:
        return
    facts = [(t.data, t.grad, t.requires_grad, type(t), dict(t.__dict__)) for t in (t1, t2)]
    for tensor in (t1, t2):
        tensor.grad = None
        tensor.requires_grad_(False)
    for tensor, (data, grad, requires_grad, kind, attributes) in zip(
        (t1, t2), reversed(facts), strict=True
    ):
        tensor.data = data
        tensor.__class__ = kind
        tensor.requires_grad_(requires_grad)
        tensor.grad = grad
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
