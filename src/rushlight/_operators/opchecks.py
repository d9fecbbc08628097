"""What ``torch.library.opcheck`` tries of an op."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.utils._pytree import tree_leaves, tree_map_only

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight._operators.custom import Record


class OpCheckError(Exception):
    """An op does not keep to what is said of it."""


def _copies(tree: Any) -> Any:
    def copied(t: Tensor) -> Tensor:
        return t.detach().clone().requires_grad_(t.requires_grad)

    return tree_map_only(Tensor, copied, tree)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _schema(record: Record, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """Only what the signature names is written to, and no result shares memory with an input."""
    from rushlight._operators.binding import check

    args, kwargs = tree_map_only(Tensor, Tensor.detach, _copies((args, kwargs)))
    named = check(record.schema, args, kwargs)
    before = {name: _tensors(_copies(value)) for name, value in named.items()}
    result = record.run(args, kwargs)
    for name, value in named.items():
        pairs = list(zip(_tensors(value), before[name], strict=True))
        same = all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)
        if not same and name not in record.schema.written():
            raise OpCheckError(
                f"Argument {name} is not defined as mutable but was mutated: name it in "
                f"mutates_args of {record.name}"
            )
    for out in _tensors(result):
        if any(out._is_same_storage(t) for t in _tensors(named)) and not record.schema.is_mutable:
            raise OpCheckError(f"A result of {record.name} shares memory with an argument")


def _fake(record: Record, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """On the meta device, results have the shape, strides and dtype of the real ones."""
    args, kwargs = tree_map_only(Tensor, Tensor.detach, _copies((args, kwargs)))
    on_meta = tree_map_only(Tensor, lambda t: t.to("meta"), (args, kwargs))
    found = _tensors(record.run(*on_meta))
    expected = _tensors(record.run(args, kwargs))
    for got, real in zip(found, expected, strict=True):
        for fact in ("shape", "dtype"):
            a, b = getattr(got, fact), getattr(real, fact)
            if a != b:
                raise OpCheckError(f"The fake impl of {record.name} gives {fact} {a}, not {b}")


def _registration(record: Record, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """An op of tensors that require grad has a derivative that is not its kernel's."""
    needed = any(t.requires_grad for t in _tensors((args, kwargs)))
    if needed and record.backward is None and not record.schema.is_mutable:
        composed = {"Autograd", "CompositeImplicitAutograd"} & record.kernels.keys()
        if not composed:
            raise OpCheckError(
                f"{record.name} has no derivative: add one with torch.library.register_autograd"
            )


def _gradients(record: Record, args: Any, kwargs: Any, **tolerance: Any) -> None:
    """The fake impl works, and a backward pass gives gradients of the right shapes."""
    _fake(record, args, kwargs)
    args, kwargs = _copies((args, kwargs))
    leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    outputs = [t for t in _tensors(record.call(*args, **kwargs)) if t.requires_grad]
    if not leaves or not outputs:
        return
    weights = [torch.ones_like(t) for t in outputs]
    grads = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    for grad, leaf in zip(grads, leaves, strict=True):
        if grad is not None and grad.shape != leaf.shape:
            raise OpCheckError(
                f"The derivative of {record.name} has shape {list(grad.shape)} for an argument of "
                f"shape {list(leaf.shape)}"
            )


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _schema,
    "test_autograd_registration": _registration,
    "test_faketensor": _fake,
    "test_aot_dispatch_static": _gradients,
    "test_aot_dispatch_dynamic": _gradients,
}


def run(
    record: Record,
    args: Any,
    kwargs: Any,
    names: str | Sequence[str],
    raises: bool,
    atol: float | None,
    rtol: float | None,
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in (names,) if isinstance(names, str) else names:
        if name not in _TESTS:
            raise ValueError(f"opcheck: unknown test_utils {name!r}; there are {list(_TESTS)}")
        try:
            _TESTS[name](record, args, kwargs, atol=atol, rtol=rtol)
        except Exception as error:
            if raises:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results
