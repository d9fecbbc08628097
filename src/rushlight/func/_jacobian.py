"""Whole matrices of derivatives: jacrev, jacfwd, hessian."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.autograd.grad_mode import _transform
from rushlight.func._grad import Lifted, pick, pull_back, push_forward, split_aux, strip
from rushlight.func._vmap import Level, vmap
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]


def _basis(tensors: Sequence[Any]) -> list[Any]:
    """One row for every element of all the tensors: for each tensor, what each row has in it."""
    if len(tensors) == 1:
        only = tensors[0]
        unit = _ops["eye"](only.numel(), dtype=only.dtype, device=only.device)
        return [unit if only.dim() == 1 else unit.view((only.numel(), *only.shape))]
    total = sum(t.numel() for t in tensors)
    rows, start = [], 0
    for t in tensors:
        block = _ops["zeros"](total, t.numel(), dtype=t.dtype, device=t.device)
        block.diagonal(-start).fill_(1)
        rows.append(block.view((total, *t.shape)))
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
        outside = _C.is_grad_enabled()
        with _transform():
            lifted = Lifted(args, argnums, "jacrev")
            output, aux = split_aux(func(*lifted.args, **kwargs), has_aux, "jacrev(f)(*args)")
        outputs, out_spec = tree_flatten(output)
        _check(outputs, "jacrev", "output")

        def rows(*cotangents: Any) -> tuple[Any, ...]:
            return tuple(pull_back(outputs, lifted.inputs, cotangents, outside, True))

        # For each input, what every element of all outputs says about it.
        columns = _over(rows, _basis(outputs), "error", chunk_size)
        jacobians, start = [], 0
        for t in outputs:
            n = t.numel()
            own = columns if len(outputs) == 1 else [g.narrow(0, start, n) for g in columns]
            if t.dim() != 1:
                own = [g.reshape((*t.shape, *g.shape[1:])) for g in own]
            jacobians.append(lifted.shaped(own))
            start += n
        jacobian = tree_unflatten(jacobians, out_spec)
        if not has_aux:
            return jacobian
        leaves, aux_spec = tree_flatten(aux)
        return jacobian, tree_unflatten(strip(leaves, lifted.inputs, outside), aux_spec)

    return wrapper


def _over(
    function: Callable[..., Any], basis: list[Any], randomness: str, chunk_size: int | None
) -> Any:
    """A function of directions, for all of them at once or in chunks."""
    if chunk_size is not None:
        return vmap(function, randomness=randomness, chunk_size=chunk_size)(*basis)
    with Level(len(basis[0]), randomness) as level:
        results = function(*[level.hide(b, 0) for b in basis])
        return [level.show(t, 0) for t in results]


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
        out_spec, aux = None, None

        def call(duals: list[Any]) -> Any:
            values = tree_unflatten(duals, in_spec)
            return func(*_replaced(args, numbers, values), **kwargs)

        def push(*directions: Any) -> tuple[Any, ...]:
            nonlocal out_spec, aux
            _, moved, out_spec, aux = push_forward(call, inputs, directions, has_aux=has_aux)
            return tuple(moved)

        rows = _over(push, _basis(inputs), randomness, chunk_size)
        assert out_spec is not None
        jacobians = []
        for t in rows:
            parts, start = [], 0
            for x in inputs:
                n = x.numel()
                part = (t if len(inputs) == 1 else t.narrow(0, start, n)).movedim(0, -1)
                parts.append(part if x.dim() == 1 else part.reshape((*t.shape[1:], *x.shape)))
                start += n
            tree = tree_unflatten(parts, in_spec)
            jacobians.append(tree[0] if single else tuple(tree))
        jacobian = tree_unflatten(jacobians, out_spec)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`: forward over reverse mode.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
