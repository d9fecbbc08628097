"""Taking calls of ops into one's own hands: ``__torch_function__`` of subclasses, and modes.

A subclass of Tensor that defines the class method ``__torch_function__(cls, func, types, args,
kwargs)`` is asked whenever one of its objects is an argument of an op. A mode is asked for every op
called within its ``with`` block:

>>> import rushlight as torch
>>> from rushlight.overrides import TorchFunctionMode
>>> class Names(TorchFunctionMode):
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         print(func.__name__)
...         return func(*args, **(kwargs or {}))
>>> with Names():
...     x = torch.ones(3).exp() * 2
ones
exp
mul
"""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode(_C._Scope):
    """Calls its ``__torch_function__`` for every op while it is entered.

    Modes nest; the innermost is asked first, and while it answers it is not in force itself, so an
    op it calls reaches the next mode or the op proper. Modes belong to the thread that enters them.

    >>> import rushlight as torch
    >>> class Log(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, function, types, args=(), kwargs=None):
    ...         print(function.__name__)
    ...         return function(*args, **(kwargs or {}))
    >>> with Log():
    ...     _ = torch.sin(torch.ones(2))
    ones
    sin
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __new__(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        self = super().__new__(cls)
        self._set_parts(("function_mode", None))
        return self

    def __init__(self) -> None:
        pass


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that does what would be done without it.

    >>> import rushlight as torch
    >>> with torch.overrides.BaseTorchFunctionMode():
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _own_override(value: object) -> bool:
    method = getattr(type(value), "__torch_function__", None)
    if method is None or method is _C._disabled_torch_function_impl:
        return False
    base = Tensor.__torch_function__
    return getattr(method, "__func__", method) is not getattr(base, "__func__", base)


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Whether an argument's class answers for ops itself.

    >>> import rushlight as torch
    >>> class Mine(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return super().__torch_function__(func, types, args, kwargs)
    >>> x = torch.ones(2)
    >>> [torch.overrides.has_torch_function((each,)) for each in (x, x.as_subclass(Mine))]
    [False, True]
    """
    return any(map(_own_override, relevant_args))


def has_torch_function_unary(relevant_arg: object) -> bool:
    """``has_torch_function`` of one argument.

    >>> import rushlight as torch
    >>> torch.overrides.has_torch_function_unary(torch.ones(2))
    False
    """
    return _own_override(relevant_arg)


def has_torch_function_variadic(*relevant_args: object) -> bool:
    """``has_torch_function`` of arguments that are no list.

    >>> import rushlight as torch
    >>> torch.overrides.has_torch_function_variadic(torch.ones(2), 3)
    False
    """
    return any(map(_own_override, relevant_args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Asks the arguments that define ``__torch_function__``, subclasses first.

    For functions written in Python that want to be overridable like ops.

    >>> import rushlight as torch
    >>> class Answer:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of {args}"
    >>> torch.overrides.handle_torch_function(torch.sin, (Answer(),), 1, 2)
    'sin of (1, 2)'
    """
    asked: list[Any] = []
    for value in relevant_args:
        if not _own_override(value) or any(type(a) is type(value) for a in asked):
            continue
        at = next((i for i, a in enumerate(asked) if issubclass(type(value), type(a))), len(asked))
        asked.insert(at, value)
    types = tuple(map(type, asked))
    for value in asked:
        result = type(value).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for '{resolve_name(public_api)}' on types that implement "
        f"__torch_function__: {[t.__name__ for t in types]}"
    )


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a Python function overridable; `dispatcher` picks the arguments that are asked.

    >>> import rushlight as torch
    >>> class Answer:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return "mine"
    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return 2 * x
    >>> double(4), double(Answer())
    (8, 'mine')
    """
    from functools import wraps

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(value: object) -> bool:
    """A tensor, or an object whose class defines ``__torch_function__``.

    >>> import rushlight as torch
    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like(1.0)
    (True, False)
    """
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` comes from the Tensor class.

    >>> import rushlight as torch
    >>> is_method = torch.overrides.is_tensor_method_or_property
    >>> is_method(torch.Tensor.sin), is_method(torch.sin)
    (True, False)
    """
    name = getattr(func, "__name__", None)
    return name == "__get__" or (name is not None and vars(Tensor).get(name) is func)


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Getters of other tensors, whose results subclasses give back as they are.

    >>> import rushlight as torch
    >>> len(torch.overrides.get_default_nowrap_functions())
    3
    """
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}  # type: ignore


def resolve_name(func: Callable[..., Any]) -> str | None:
    """A readable full name: ``rushlight.exp``, ``rushlight.Tensor.exp``.

    >>> import rushlight as torch
    >>> torch.overrides.resolve_name(torch.exp), torch.overrides.resolve_name(torch.Tensor.exp)
    ('rushlight.exp', 'rushlight.Tensor.exp')
    """
    from rushlight._missing import public

    name = getattr(func, "__name__", None)
    if name is None:
        return None
    if name == "__get__":  # of an attribute
        return f"{public('rushlight.Tensor')}.{func.__self__.__name__}.__get__"  # type: ignore
    if is_tensor_method_or_property(func):
        return f"{public('rushlight.Tensor')}.{name}"
    return f"{public(getattr(func, '__module__', None) or 'rushlight')}.{name}"
