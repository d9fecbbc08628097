"""Functions written in Python let objects with ``__torch_function__`` answer, as ops do.

Such a function asks ``type(input) is not Tensor and foreign(input)`` first, which costs next to
nothing for tensors, and hands its arguments over. Subclasses of Tensor answer inside, for the ops.
"""

from __future__ import annotations

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def foreign(value: object) -> bool:
    """Whether an object that is no tensor answers for ops itself."""
    return hasattr(type(value), "__torch_function__") and not isinstance(value, Tensor)


def redirect(function: Callable[..., Any], arguments: dict[str, Any], filled: bool = True) -> Any:
    """The answer of the foreign objects among a function's arguments, which are its locals.

    They see what must be given as positional arguments and the rest as keywords. Without `filled`
    they see positional arguments only, up to the last that is not the default.
    """
    from inspect import signature

    from rushlight.overrides import handle_torch_function

    parameters = signature(function).parameters
    asked = [value for value in arguments.values() if foreign(value)]
    if filled:
        needed = {n for n, p in parameters.items() if p.default is p.empty}
        needed -= {n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
        given = [value for name, value in arguments.items() if name in needed]
        named = {name: value for name, value in arguments.items() if name not in needed}
        return handle_torch_function(function, asked, *given, **named)
    given = [arguments[n] for n in parameters]
    defaults = [p.default for p in parameters.values()]
    while given and given[-1] is defaults[len(given) - 1]:
        given.pop()
    return handle_torch_function(function, asked, *given)
