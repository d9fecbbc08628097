"""Files as samples, and checks of the functions that pipes call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["StreamWrapper", "validate_input_col"]


class StreamWrapper:
    """A file that closes when the last pipe has forgotten it.

    >>> import io
    >>> from rushlight.utils.data.datapipes.utils.common import StreamWrapper
    >>> StreamWrapper(io.StringIO("text"), name="a.txt")
    StreamWrapper<a.txt>
    """

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def close(self) -> None:
        """Closes the file. Calling it again does nothing."""
        if not self.closed:
            self.closed = True
            self.file_obj.close()

    def __del__(self) -> None:
        if "closed" in self.__dict__:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name or repr(self.file_obj)}>"


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Raises where ``fn`` can't be called with as many arguments as there are columns.

    >>> from rushlight.utils.data.datapipes.utils.common import validate_input_col
    >>> validate_input_col(lambda a, b: a, None)
    Traceback (most recent call last):
        ...
    ValueError: The function <lambda> takes 2 positional parameters, but 1 are required.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # built in, without a signature
        return
    name = getattr(fn, "__name__", repr(fn))
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    kinds = inspect.Parameter
    places = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    needed = [p for p in places if p.default is kinds.empty]
    keywords = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.default is kinds.empty]
    if keywords:
        raise ValueError(
            f"The function {name} takes {len(keywords)} non-default keyword-only parameters, which "
            "is not allowed."
        )
    if len(needed) > count:
        raise ValueError(
            f"The function {name} takes {len(needed)} positional parameters, but {count} are "
            "required."
        )
    if len(places) < count and not any(p.kind is kinds.VAR_POSITIONAL for p in parameters):
        raise ValueError(
            f"The function {name} takes {len(places)} parameters, but {count} are required."
        )
