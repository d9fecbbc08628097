"""Whole matrices of derivatives: jacrev, jacfwd, hessian."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.func._grad import jvp, pick, vjp
from rushlight.func._vmap import vmap
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]


def _basis(tensors: Sequence[Any]) -> list[Any]:
    """One row for every element of all the tensors: for each tensor, what each row has in it."""
    total = sum(t.numel() for t in tensors)
    rows, start = [], 0
    for t in tensors:
        block = _ops["zeros"](total, t.numel(), dtype=t.dtype)
        block.diagonal(-start).fill_(1)
        rows.append(block.view(total, *t.shape))
        start += t.numel()
    return rows


def _check(tensors: Sequence[Any], what: str, role: str) -> None:
    if not tensors:
        raise RuntimeError(f"{what}: Expected f to have at least one {role} Tensor")
    for t in tensors:
        if not isinstance(t, _C.Tensor):
            raise RuntimeError(
                f"{what}: Expected all {role}s to be Tensors, got {type(t).__name__}"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by rows: one backward pass over all of them.

    >>> import rushlight as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = pick(args, argnums, "jacrev")

        def of_chosen(*values: Any) -> Any:
            return func(*_replaced(args, numbers, values), **kwargs)

        result = vjp(of_chosen, *(args[n] for n in numbers), has_aux=has_aux)
        output, pull = result[:2]
        outputs, out_spec = tree_flatten(output)
        _check(outputs, "jacrev", "output")
        rows = vmap(lambda *g: pull(tree_unflatten(g, out_spec)), chunk_size=chunk_size)(
            *_basis(outputs)
        )
        # From (inputs) of (all rows) to outputs of inputs.
        inputs, in_spec = tree_flatten(list(rows))
        jacobians, start = [], 0
        for t in outputs:
            parts = [g.narrow(0, start, t.numel()).reshape(*t.shape, *g.shape[1:]) for g in inputs]
            tree = tree_unflatten(parts, in_spec)
            jacobians.append(tree[0] if isinstance(argnums, int) else tuple(tree))
            start += t.numel()
        jacobian = tree_unflatten(jacobians, out_spec)
        return (jacobian, result[2]) if has_aux else jacobian

    return wrapper


def _replaced(args: tuple[Any, ...], numbers: list[int], values: Sequence[Any]) -> list[Any]:
    replaced = list(args)
    for n, value in zip(numbers, values, strict=True):
        replaced[n] = value
    return replaced


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by columns: one forward pass over all of them.

    >>> import rushlight as torch
    >>> torch.func.jacfwd(lambda x: x.sum())(torch.zeros(3))
    tensor([1., 1., 1.])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        single = isinstance(argnums, int)
        numbers = pick(args, argnums, "jacfwd")
        inputs, in_spec = tree_flatten([args[n] for n in numbers])
        _check(inputs, "jacfwd", "input")
        kept: list[Any] = []

        def push(*directions: Any) -> Any:
            def of_chosen(*leaves: Any) -> Any:
                values = tree_unflatten(leaves, in_spec)
                return func(*_replaced(args, numbers, values), **kwargs)

            result = jvp(of_chosen, tuple(inputs), tuple(directions), has_aux=has_aux)
            kept[:] = result[2:]
            return result[1]

        columns = vmap(push, randomness=randomness, chunk_size=chunk_size)(*_basis(inputs))
        outputs, out_spec = tree_flatten(columns)
        jacobians = []
        for t in outputs:
            parts, start = [], 0
            for x in inputs:
                part = t.narrow(0, start, x.numel()).movedim(0, -1)
                parts.append(part.reshape(*t.shape[1:], *x.shape))
                start += x.numel()
            tree = tree_unflatten(parts, in_spec)
            jacobians.append(tree[0] if single else tuple(tree))
        jacobian = tree_unflatten(jacobians, out_spec)
        return (jacobian, kept[0]) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`: forward over reverse mode.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
