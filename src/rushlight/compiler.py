"""``torch.compile`` and what goes with it. For now compiling gives back an equal callable.

Results, gradients and state are those of the function or module itself, which already runs with
little overhead; a program that compiles runs unchanged and its first call costs nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F")

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

_MODES = (
    "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite",
)  # fmt: skip


@overload
def compile(model: None = None, **options: Any) -> Callable[[F], F]: ...
@overload
def compile(model: F, **options: Any) -> F: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **others: Any,
) -> Any:
    """The function or module itself, which computes what a compiled one would.

    >>> import rushlight as torch
    >>> @torch.compile(mode="reduce-overhead")
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "compile: Either mode or options can be specified, but both can't be specified at the "
            "same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(
            f"compile: Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}"
        )
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"compile: backend must be a name or a callable, got {backend!r}")
    if model is None:
        return lambda function: compile(
            function,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if not callable(model):
        raise RuntimeError(f"compile: Expected a callable or a module, got {model!r}")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keeps a function out of compilation: the function itself; a decorator with or without ().

    >>> import rushlight as torch
    >>> torch.compiler.disable(torch.sin)(torch.zeros(1))
    tensor([0.])
    """
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """Lets a function stay opaque to compilation: the function itself.

    >>> import rushlight as torch
    >>> torch.compiler.allow_in_graph(torch.sin) is torch.sin
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """States that a function returns the same each time: the function itself.

    >>> import rushlight as torch
    >>> @torch.compiler.assume_constant_result
    ... def size():
    ...     return 3
    >>> size()
    3
    """
    return fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """States what stands in for a function when compiling: a decorator that changes nothing.

    >>> import rushlight as torch
    >>> @torch.compiler.substitute_in_graph(abs)
    ... def absolute(x):
    ...     return x if x > 0 else -x
    >>> absolute(-2)
    2
    """
    return lambda function: function


def wrap_numpy(fn: Any) -> Any:
    """A function on NumPy arrays as one on tensors.

    >>> import numpy, rushlight as torch
    >>> torch.compiler.wrap_numpy(numpy.cumsum)(torch.tensor([1.0, 2.0]))
    tensor([1., 3.])
    """
    import functools

    import rushlight

    def outward(value: Any) -> Any:
        return value.numpy() if isinstance(value, rushlight.Tensor) else value

    def inward(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(inward(item) for item in value)
        return rushlight.as_tensor(value) if hasattr(value, "__array_interface__") else value

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        named = {name: outward(value) for name, value in kwargs.items()}
        return inward(fn(*map(outward, args), **named))

    return wrapped


class set_stance:
    """How calls of compiled functions are treated: remembered, without effect.

    Works as a function, a context manager and a decorator.

    >>> import rushlight as torch
    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.compile(torch.neg)(torch.ones(2))
    tensor([-1., -1.])
    """

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __call__(self, fn: Any) -> Any:
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def is_compiling() -> bool:
    """False: functions run as they are.

    >>> import rushlight as torch
    >>> torch.compiler.is_compiling()
    False
    """
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Nothing to forget.

    >>> import rushlight as torch
    >>> torch.compiler.reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark.

    >>> import rushlight as torch
    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """An empty list: there are no backends to choose from.

    >>> import rushlight as torch
    >>> torch.compiler.list_backends()
    []
    """
    return []
