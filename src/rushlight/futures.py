"""Results that are not there yet: ``Future`` and ways to wait for several.

>>> import rushlight as torch
>>> future = torch.futures.Future()
>>> doubled = future.then(lambda f: 2 * f.value())
>>> future.set_result(21)
>>> doubled.wait()
42
"""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that one thread sets and others wait for; ``devices`` is only remembered.

    >>> import rushlight as torch
    >>> future = torch.futures.Future()
    >>> future.done()
    False
    >>> future.set_result("ready")
    >>> future.wait()
    'ready'
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether a result or an exception is there."""
        return self._done

    def wait(self) -> T:
        """Waits for the result and returns it, or raises the exception that was set."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The result, which must be there; an exception that was set is raised."""
        if not self._done:
            raise RuntimeError(
                "Future.value: the future is not completed: wait() for it, or use value() in a "
                "callback of then()"
            )
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback(self)`` will return; an error in it is that future's."""
        following: Future[S] = Future()

        def run(future: Future[T]) -> None:
            try:
                result = callback(future)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls ``callback(self)`` once the future is done; what it raises is printed."""

        def run(future: Future[T]) -> None:
            try:
                callback(future)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(run)

    def set_result(self, result: T) -> None:
        """Completes the future: who waits goes on, callbacks run. It can be done once."""
        self._complete(result, None)

    def set_exception(self, result: Exception) -> None:
        """Completes the future with an error, which ``wait`` and ``value`` raise."""
        if not isinstance(result, Exception):
            raise TypeError(
                f"set_exception: {result!r} is of type {type(result)}, not an Exception"
            )
        self._complete(None, result)

    def _when_done(self, run: Callable[[Future[T]], None]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(run)
                return
        run(self)

    def _complete(self, value: Any, error: Exception | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Future can only be marked completed once: it has a result already"
                )
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for run in callbacks:
            run(self)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these futures, done when all are; an error among them is its own.

    >>> import rushlight as torch
    >>> a, b = torch.futures.Future(), torch.futures.Future()
    >>> both = torch.futures.collect_all([a, b])
    >>> a.set_result(1)
    >>> b.set_result(2)
    >>> [each.value() for each in both.wait()]
    [1, 2]
    """
    futures = list(futures)
    for each in futures:
        if not isinstance(each, Future):
            raise TypeError(f"collect_all(): expected futures, got {type(each).__name__}")
    together: Future[list[Future[Any]]] = Future()
    lock = threading.Lock()
    left = len(futures)

    def one_less(future: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            failed = next((f._error for f in futures if f._error is not None), None)
            together._complete(futures, failed)

    if not futures:
        together.set_result(futures)
    for future in futures:
        future._when_done(one_less)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all; waits for them. The first error is raised.

    >>> import rushlight as torch
    >>> future = torch.futures.Future()
    >>> future.set_result(3)
    >>> torch.futures.wait_all([future])
    [3]
    """
    return [future.wait() for future in collect_all(futures).wait()]
