"""What every data pipe is: a dataset whose methods are the steps that may follow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from rushlight.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class DataChunk(list[_T]):
    """Samples of one batch, as a list.

    >>> from rushlight.utils.data import DataChunk
    >>> DataChunk(range(2)), DataChunk("ab").as_str(indent="  ")
    ([0, 1], '  [a, b]')
    """

    def __init__(self, items: Iterable[_T]) -> None:
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent: str = "") -> str:
        """The samples' own texts."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[_T]:
        """The samples themselves, where a subclass iterates over something else."""
        yield from self.items


class _Pipe:
    """Steps that were registered are methods of every pipe."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        step = type(self).functions.get(name)
        if step is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(step, self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    def __repr__(self) -> str:
        return type(self).__qualname__

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a class of pipes a method of all pipes, which are its first argument."""
        if function_name in cls.functions:
            raise Exception(  # the class that programs catch
                f"Unable to add DataPipe function name {function_name} as it is already taken by "
                f"{cls.functions[function_name]!r}"
            )
        cls.functions[function_name] = cls_to_register


class _Turn:
    """One pass over a pipe. It begins at the first sample, and ends the pass before it."""

    def __init__(self, pipe: IterDataPipe[Any], begin: Callable[..., Any]) -> None:
        self._pipe, self._begin = pipe, begin
        self._number: int | None = None
        self._samples: Iterator[Any]

    def __iter__(self) -> _Turn:
        return self

    def __next__(self) -> Any:
        pipe = self._pipe
        if self._number is None:
            self._number = pipe._turn = pipe._turn + 1
            pipe.reset()
            self._samples = iter(()) if (found := self._begin(pipe)) is None else found
        elif pipe._turn != self._number:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from "
                f"the same IterDataPipe: {pipe!r}. A pipe has one pass at a time; use "
                "`.fork(num_instances=2)` for two"
            )
        try:
            return next(self._samples)
        except StopIteration:
            raise
        except Exception as error:
            error.add_note(f"This exception is thrown by __iter__ of {pipe!r}")
            raise


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """A stream of samples, made of the stream before it: subclasses define ``__iter__``.

    ``reset()`` is called when a pass begins. A pipe has one pass at a time, the one begun last.

    >>> from rushlight.utils.data import IterDataPipe, functional_datapipe
    >>> @functional_datapipe("twice")
    ... class Twice(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for x in self.source:
    ...             yield x
    ...             yield x
    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").twice())
    ['a', 'a', 'b', 'b']
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _turn = 0
    _takes_turns = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        begin = vars(cls).get("__iter__")
        if begin is not None and cls._takes_turns and "__next__" not in vars(cls):

            @functools.wraps(begin)
            def __iter__(self: Any) -> Iterator[Any]:
                return _Turn(self, begin)

            cls.__iter__ = __iter__  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[_T_co]:
        self.reset()
        return self  # where a subclass defines __next__ alone

    def reset(self) -> None:
        """Forgets what a pass left behind. Subclasses with buffers define it."""


class DFIterDataPipe(IterDataPipe[_T_co]):
    """The base of pipes of data frames, of which there are none here.

    >>> from rushlight.utils.data import DFIterDataPipe, IterDataPipe
    >>> issubclass(DFIterDataPipe, IterDataPipe)
    True
    """

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """A map from keys to samples, made of the map before it: subclasses define ``__getitem__``.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> pipe = SequenceWrapper("abc").map(str.upper)
    >>> len(pipe), pipe[1]
    (3, 'B')
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
