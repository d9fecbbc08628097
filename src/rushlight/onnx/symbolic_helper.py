"""What libraries decorate the functions with that say how an op would be exported."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that gives back the function: nothing is exported, so nothing calls it.

    >>> from rushlight.onnx.symbolic_helper import parse_args
    >>> @parse_args("v", "i")
    ... def symbolic(g, x, n):
    ...     return g.op("Pool", x, size_i=n)
    >>> symbolic.__name__
    'symbolic'
    """
    return lambda function: function
