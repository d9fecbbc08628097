"""Handles of collectives on CUDA streams, and the thread that watches them."""

from __future__ import annotations

import collections
import ctypes
import threading
import time
from datetime import timedelta

import rushlight
from rushlight.distributed import _nccl
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._work import Work
from rushlight.futures import Future

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed._buffers import Call
    from rushlight.distributed._nccl_engine import Nccl

_EVERY = 0.02  # seconds between two looks
_PATIENCE = 1.0  # seconds in which the program may find a failure by itself


class Point:
    """The end of a collective in its stream, as MPI's requests say it."""

    event: Any = None  # none yet: the host is still in the call

    def Test(self, status: Any = None) -> bool:
        """Whether the device has come there."""
        return self.event is not None and bool(self.event.query())


class StreamWork(Work):
    """A collective in a stream: ``wait`` makes the current stream wait, and not the host.

    ``wait(timeout)`` and ``is_completed`` ask whether the device has done it.
    """

    def __init__(
        self, call: Call, engine: Nccl, stream: Any, result: Any, status: Any, by_host: bool
    ) -> None:
        self._point = Point()
        super().__init__(call, [self._point], None, result, call._keep, status)
        self._engine, self._stream, self._by_host = engine, stream, by_host
        self._from = rushlight.cuda.current_stream()
        self.thread = threading.get_ident()

    def mark(self) -> None:
        """All of it is in the stream."""
        if rushlight.cuda.is_current_stream_capturing():
            self._requests.clear()  # the graph will run it
            self._done()
        else:
            self._point.event = self._stream.record_event()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """What follows on the current stream comes after it. With a timeout the host waits."""
        self._engine.check()
        if timeout is not None or self._by_host:
            return super().wait(timeout)
        current = rushlight.cuda.current_stream(self._stream.device)
        if self._point.event is not None:
            self._point.event.wait(current)
        if current == self._from:
            self._keep = None  # memory of this stream is used again only after it
        return True

    def _run(self, seconds: float | None = None) -> None:
        """The host waits."""
        try:
            super()._run(seconds)
        except DistBackendError as error:
            self._engine.fail(error)
            self._engine.check()

    def get_future(self) -> Any:
        """A ``torch.futures.Future`` of the list of tensors; what follows it runs in the stream."""
        future = StreamFuture(self._stream, self._engine)
        future.set_result(self._result)
        return future


class StreamFuture(Future):
    """A result that a stream has after what it has to do now."""

    def __init__(self, stream: Any, engine: Nccl) -> None:
        super().__init__()
        self._stream, self._engine = stream, engine

    def wait(self) -> Any:
        """The result; the current stream waits for it, and not the host."""
        from rushlight.utils._pytree import tree_leaves

        self._engine.check()
        current = rushlight.cuda.current_stream(self._stream.device)
        current.wait_stream(self._stream)
        value = super().wait()
        for leaf in tree_leaves(value):
            if isinstance(leaf, rushlight.Tensor) and leaf.is_cuda:
                leaf.record_stream(current)
        return value

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what ``callback(self)`` returns, which is called with the stream current."""
        following = StreamFuture(self._stream, self._engine)

        def run(future: Future[Any]) -> None:
            try:
                with rushlight.cuda.stream(self._stream):
                    result = callback(future)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following


class _Watch:
    """A thread that ends collectives that cannot end by themselves, and says why."""

    def __init__(self) -> None:
        self._works: collections.deque[StreamWork] = collections.deque()
        self._new = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, work: StreamWork) -> None:
        self._works.append(work)
        self._new.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="rushlight-nccl", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        _nccl.ask_while_recording()
        while True:
            self._new.wait()
            self._new.clear()
            while self._works:
                time.sleep(_EVERY)
                works = [self._works.popleft() for _ in range(len(self._works))]
                self._works.extend(work for work in works if not self._ended(work))

    def _ended(self, work: StreamWork) -> bool:
        engine = work._engine
        if engine.error is not None or work._poll():
            return True
        try:
            if (trouble := engine.trouble()) is not None:
                raise DistBackendError(
                    f"{work._what}: NCCL failed on rank {work._group._world.rank}, called at "
                    f"{work._call.line()}: {trouble}"
                )
            work._group._check(work, time.monotonic() - work._since, None)
        except DistBackendError as error:
            engine.fail(error)
            threading.Thread(target=_tell, args=(work, error), daemon=True).start()
            return True
        return False


def _tell(work: StreamWork, error: BaseException) -> None:
    """Raises in the thread that called: without the others' numbers nothing of it may go on."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if work._engine.told:
            return
        time.sleep(0.01)
    work._engine.told = True
    kind = type(error)
    filled = {"__init__": lambda self: kind.__init__(self, *error.args)}
    raised = type(kind.__name__, (kind,), filled)  # the interpreter takes a class, and calls it
    raised.__module__ = kind.__module__
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(work.thread), ctypes.py_object(raised)
    )


watch = _Watch()
