"""Why a tensor has, or has not, a gradient."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def _place(where: Any) -> str:
    return f"{where[0]}:{where[1]}" if where else "an unknown line"


def _kind(tensor: Any) -> str:
    dtype = str(tensor.dtype).rsplit(".", 1)[-1]
    return f"a {dtype} tensor of shape {list(tensor.shape)}"


def grad_status(tensor: Any) -> str:
    """Why ``tensor.grad`` is what it is, in one sentence."""
    if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:
        return "it has a gradient: the sum of what backward passes added since it was last cleared"
    if not tensor.requires_grad:
        cut = _C._cut(tensor)
        if cut:
            return f"it does not require grad, because its history was cut: {cut[2]}"
        return "it does not require grad: requires_grad_() makes it a leaf that takes gradients"
    if not tensor.is_leaf:
        if tensor.retains_grad:
            return "retain_grad() was called, but no backward pass has reached it yet"
        return (
            f"it is not a leaf: {tensor.grad_fn.name()} made it at "
            f"{_place(tensor.grad_fn._where)}. Only leaves keep gradients; call retain_grad() on "
            "it before backward()"
        )
    return (
        "it is a leaf that requires grad, but no backward pass has reached it since its gradient "
        "was last cleared: either backward() was not called, or nothing it was called on depends "
        "on it"
    )


def explain(tensor: Any) -> str:
    """Says where a tensor comes from and what becomes of its gradient.

    >>> import rushlight as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> "no_grad" in torch.explain(y)
    True
    """
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"explain() takes a Tensor, got {type(tensor).__name__}")
    lines = [_kind(tensor)]
    if tensor.grad_fn is not None:
        lines.append(
            f"recorded: output {tensor.output_nr} of {tensor.grad_fn.name()}, made at "
            f"{_place(tensor.grad_fn._where)}"
        )
    elif tensor.requires_grad:
        lines.append("a leaf: gradients are added to its .grad")
        if cut := _C._cut(tensor):
            lines.append(f"no gradient goes further back: {cut[2]}")
    else:
        cut = _C._cut(tensor)
        lines.append(
            f"outside the graph: {cut[2]}"
            if cut
            else "outside the graph: nothing it was computed from requires grad"
        )
    lines.append(f"its .grad: {grad_status(tensor)}")
    return "\n  ".join(lines)
