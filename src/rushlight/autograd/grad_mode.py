"""Switches for recording, as context managers and decorators."""

from __future__ import annotations

import functools

from rushlight import _C, _scopes

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def _is_generator_function(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


def _wrap_generator(
    make_context: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The mode holds while the generator's own code runs, not while its consumer does."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        try:
            with make_context():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make_context():
                        generator.close()
                    raise
                except BaseException as error:
                    with make_context():
                        response = generator.throw(error)
                else:
                    with make_context():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapped


class _Mode(_scopes.Block):
    """A context manager that also decorates functions, generators and classes' methods."""

    def clone(self) -> _Mode:
        """Another of its kind, in the same mode."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if isinstance(function, type):
            import warnings

            warnings.warn(
                f"Decorating classes is deprecated: of {function.__name__}, only the construction "
                f"runs in {type(self).__name__}. Decorate the methods that should.",
                FutureWarning,
                stacklevel=2,
            )
        make = self.clone
        if _is_generator_function(function):
            return _wrap_generator(make, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with make():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class _PlainMode(_Mode):
    """A mode that may decorate without parentheses: ``@no_grad``."""

    if TYPE_CHECKING:

        def __new__(cls, function: Any = None) -> Any: ...


class no_grad(_PlainMode):
    """Operations inside are not recorded.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _parts_of = (("grad", False),)


class enable_grad(_PlainMode):
    """Operations inside are recorded, even within ``no_grad``.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     with torch.enable_grad():
    ...         y = 2 * x
    >>> y.requires_grad
    True
    """

    _parts_of = (("grad", True),)


class set_grad_enabled(_Mode):
    """Switches recording on or off, at once; as a context manager it is undone at the end.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     y = 2 * x
    >>> y.requires_grad
    False
    """

    _at_once = True

    @staticmethod
    def _parts_of(mode: bool) -> Any:
        return (("grad", mode), ("thread_grad", mode))

    @property
    def mode(self) -> bool:
        """Whether operations are recorded inside."""
        return self._value

    def clone(self) -> set_grad_enabled:
        """Another of its kind, in the same mode."""
        return set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        self.__exit__()
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """No recording, no version counting: the tensors made inside never take part in a graph.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.inference_mode():
    ...     y = 2 * x
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    @staticmethod
    def _parts_of(mode: Any = True) -> Any:
        return (("inference", True),) if mode else (("inference", False), ("grad", True))

    @property
    def mode(self) -> bool:
        """Whether the block is one of inference."""
        return self._value

    def clone(self) -> inference_mode:
        """Another of its kind, in the same mode."""
        return inference_mode(self.mode)


class _transform(_Mode):
    """What a transform of ``func`` runs in, also inside ``inference_mode``."""

    @staticmethod
    def _parts_of(recorded: bool = True) -> Any:
        return (("inference", False), ("grad", recorded), ("transforms", True))


class set_multithreading_enabled(_Mode):
    """Accepted for compatibility: backward always runs on the calling thread.

    >>> import rushlight as torch
    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.ones(1, requires_grad=True).exp().backward()
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> set_multithreading_enabled:
        """Another of its kind, in the same mode."""
        return set_multithreading_enabled(self.mode)


class enforce_grad_layout_policy(_scopes.Block):
    """Whether gradients take the strides of their parameters (the default), in this thread.

    It acts when made; as a context manager it is undone at the end.

    >>> import rushlight as torch
    >>> x = torch.ones(2, 3).t().requires_grad_()
    >>> with torch.autograd.grad_mode.enforce_grad_layout_policy(False):
    ...     (x * torch.ones(3, 2)).sum().backward()
    >>> x.stride(), x.grad.stride()
    ((1, 3), (2, 1))
    """

    _at_once = True

    @staticmethod
    def _parts_of(enable: bool = True) -> Any:
        return (("grad_layout", enable),)


class _force_original_view_tracking(_Mode):
    """Accepted for compatibility: views are tracked in one way only."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> _force_original_view_tracking:
        """Another of its kind, in the same mode."""
        return _force_original_view_tracking(self.mode)


class _unsafe_preserve_version_counter(_Mode):
    """Hides the writes inside from the version counters of ``tensors``.

    For writes that restore what was there before; any other makes gradients wrong, silently.
    """

    def __init__(self, tensors: Any) -> None:
        self.tensors = (tensors,) if isinstance(tensors, _C.Tensor) else tuple(tensors)
        self._before = [tensor._version for tensor in self.tensors]

    def clone(self) -> _unsafe_preserve_version_counter:
        """Another of its kind, in the same mode."""
        return _unsafe_preserve_version_counter(self.tensors)

    def __exit__(self, *error: Any) -> None:
        for tensor, version in zip(self.tensors, self._before, strict=True):
            tensor._version = version
