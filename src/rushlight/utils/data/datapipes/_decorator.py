"""Decorators of classes of pipes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_deterministic = False


class functional_datapipe:
    """Makes a class of pipes a method of all pipes of its kind.

    >>> from rushlight.utils.data import functional_datapipe
    >>> functional_datapipe("batch")
    <rushlight.utils.data.datapipes._decorator.functional_datapipe object at ...>
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: type) -> type:
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError(f"functional_datapipe: expected a class of IterDataPipes, got {cls!r}")


class guaranteed_datapipes_determinism:
    """A context in which no pipe is made that may give its samples in another order each time.

    >>> from rushlight.utils.data import guaranteed_datapipes_determinism
    >>> from rushlight.utils.data.datapipes.iter import FileLister
    >>> with guaranteed_datapipes_determinism():
    ...     FileLister(".", non_deterministic=True)
    Traceback (most recent call last):
        ...
    TypeError: FileListerIterDataPipe is non-deterministic, ...
    """

    def __init__(self) -> None:
        global _deterministic
        self.prev = _deterministic
        _deterministic = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        global _deterministic
        _deterministic = self.prev


class non_deterministic:
    """Marks a class of pipes whose order may differ, always or where a function says so.

    >>> from rushlight.utils.data import IterDataPipe, non_deterministic
    >>> @non_deterministic
    ... class Network(IterDataPipe):
    ...     pass
    >>> isinstance(Network(), IterDataPipe)
    True
    """

    def __new__(cls, arg: Any) -> Any:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                    f"{arg.__name__} is found"
                )
            return _refusing(arg, lambda *args, **kwargs: True)
        if not callable(arg):
            raise TypeError(f"{arg!r} can not be decorated with non_deterministic")
        return lambda pipe: _refusing(pipe, arg)


def _refusing(pipe: type, differs: Callable[..., bool]) -> type:
    initialize = pipe.__init__  # type: ignore[misc]

    @functools.wraps(initialize)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if _deterministic and differs(self, *args, **kwargs):
            raise TypeError(
                f"{type(self).__name__} is non-deterministic, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                "DataPipe if that is acceptable for your application"
            )
        initialize(self, *args, **kwargs)

    pipe.__init__ = __init__  # type: ignore[misc]
    return pipe
