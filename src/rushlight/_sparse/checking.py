"""gradcheck of functions of sparse tensors."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight._sparse.table import is_sparse
from rushlight._structured.base import content, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def has_sparse(inputs: Any) -> bool:
    return any(map(is_sparse, inputs if isinstance(inputs, (tuple, list)) else (inputs,)))


def on_values(func: Callable[..., Any], inputs: Any, masked: bool) -> tuple[Any, Any]:
    """The function and the inputs in ordinary tensors: the values of the sparse ones, or all of
    their elements where those that are not stored vary too."""
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    patterns = []
    plain: list[Any] = []
    for x in given:
        if is_sparse(x):
            x = x.coalesce() if x._pattern.is_coo else x
            patterns.append(x._pattern)
            values = content(x).detach().clone()
            plain.append(values.requires_grad_(x.requires_grad))
        else:
            patterns.append(None)
            plain.append(x)

    def outputs(result: Any) -> Any:
        if is_sparse(result):
            return content(result) if masked else result.to_dense()
        if isinstance(result, (tuple, list)):
            return tuple(map(outputs, result))
        return result

    def with_values(*args: Any) -> Any:
        made = [
            a if p is None or not isinstance(a, Tensor) else wrap(a, p)
            for a, p in zip(args, patterns, strict=True)
        ]
        return outputs(func(*made))

    return with_values, tuple(plain)
