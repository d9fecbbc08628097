"""Handles of collectives under way: polled while waited for, and by a thread otherwise."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from datetime import timedelta

from rushlight import _C
from rushlight.distributed._errors import DistBackendError

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed._buffers import Call

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BRIEF, _LONG = 60, 2000  # tests of a request in vain before other processes get the core
_AGAIN = 3  # and after each sleep
_MOVES = 3e-6  # seconds: a test that takes longer, and twice as long as others, has moved data
_LOOKS = 0.02  # seconds between looks at the other processes, although data moves
_SHORTEST, _LONGEST = 0.00001, 0.0005  # seconds of sleep between tests
_SLEEP, _WHILE = 0.0002, 0.1  # the same for the thread, and when it looks without being told
_LATE = 0.0005  # a sleep that takes that much longer had to wait for the core
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_THIS_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Patience:
    """How long a wait tests before it sleeps: longer while nobody else wants the core.

    Who sleeps wakes late, and who waits for him sleeps meanwhile; but who polls where others want
    the core has used his share up when the message comes, and is kept waiting.
    """

    tests = _BRIEF
    neighbours = 1  # processes of the program on this machine, with this one

    @staticmethod
    def disturbances() -> int:
        """How often this thread has lost its core to others."""
        return resource.getrusage(_THIS_THREAD).ru_nivcsw

    @classmethod
    def learn(cls, disturbed: bool) -> None:
        """Told after each wait that has used it up."""
        if disturbed or cls.neighbours * _C.get_num_threads() > _CORES:
            cls.tests = max(_BRIEF, cls.tests // 4)
        else:
            cls.tests = min(_LONG, cls.tests * 2)


def user_site() -> tuple[str, int]:
    """The file and the line of the program that called."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class Work:
    """A collective under way. ``wait`` ends it; the tensors must not be touched before.

    >>> import rushlight as torch
    >>> isinstance(None, torch.distributed.Work)
    False
    """

    def __init__(
        self,
        call: Call,
        requests: list[Any],
        finish: Callable[[], None] | None = None,
        result: Any = None,
        keep: Any = None,
        status: Any = None,
    ) -> None:
        self._call = call
        self._group = call.group
        self._what = call.name
        self._requests = requests
        self._finish = finish
        self._result = result
        self._keep = keep  # what MPI reads and writes must stay alive
        self._status = status
        self._lock = threading.RLock()  # what follows a future may ask for it
        self._error: BaseException | None = None
        self._future: Any = None
        self._since = time.monotonic()

    def _poll(self) -> bool:
        """Whether it is done; runs what follows the communication, once."""
        if not self._requests:
            return True
        with self._lock:
            requests = self._requests
            while requests:
                try:
                    arrived = requests[-1].Test(self._status)
                except Exception as error:
                    requests.clear()
                    self._error = DistBackendError(f"{self._what}: MPI failed: {error}")
                    self._done()
                    return True
                if not arrived:
                    return False
                requests.pop()
                if not requests:
                    self._complete()
        return True

    def _complete(self) -> None:
        try:
            if self._finish is not None:
                self._finish()
        except Exception as error:
            self._error = error
        self._done()

    def _done(self) -> None:
        progress.remove(self)
        self._keep = self._finish = None
        if self._future is not None:
            self._settle()

    def _settle(self) -> None:
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)

    def _run(self, seconds: float | None = None) -> None:
        """Waits, with an eye on the clock and on the other processes."""
        clock = time.monotonic
        before = looked = clock()
        idle, patience, quickest = 0, Patience.tests, 1.0
        disturbances = -1
        while not self._poll():
            now = clock()
            took = now - before
            quickest = min(quickest, took)
            idle = 0 if took > max(_MOVES, 2 * quickest) else idle + 1
            if idle >= patience or now - looked > _LOOKS:
                looked = now
                self._group._check(self, now - self._since, seconds)
            if disturbances < 0:
                disturbances = Patience.disturbances()
            elif idle >= patience:
                rest = min(max(_SHORTEST, (now - self._since) * 0.03), _LONGEST)
                time.sleep(rest)
                late, now = clock() - now - rest, clock()
                if patience == Patience.tests:
                    Patience.learn(late > _LATE or Patience.disturbances() > disturbances)
                patience = _BRIEF
                idle = patience - _AGAIN
            before = now
        if self._error is not None:
            raise self._error

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            if not self._requests:
                return
            self._group._abandon((self._requests, self._keep))
            self._requests = []
            self._error = error
            self._done()
        raise error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end; True. Raises what went wrong."""
        seconds = None
        if timeout is not None:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
            seconds = None if seconds <= 0 else time.monotonic() - self._since + seconds
        self._run(seconds)
        return True

    def synchronize(self) -> None:
        """The same as ``wait``."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._poll()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._poll() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return self._error

    def result(self) -> Any:
        """The tensors that were written, in a list."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """Where a received tensor came from."""
        self.wait()
        if self._status is None:
            raise RuntimeError("source_rank: only a Work of irecv has one")
        return int(self._group._ranks[self._status.Get_source()])

    def get_future(self) -> Any:
        """A ``torch.futures.Future`` of the list of tensors."""
        from rushlight.futures import Future

        with self._lock:
            if self._future is None:
                self._future = Future()
                if not self._requests:
                    self._settle()
        return self._future

    def __repr__(self) -> str:
        state = "under way" if self._requests else "failed" if self._error else "done"
        return f"<Work: {self._what}, {state}>"


class _Progress:
    """A thread that moves collectives on while the program computes."""

    def __init__(self) -> None:
        self._works: dict[Work, None] = {}
        self._new = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0

    def add(self, work: Work, soon: bool = True) -> None:
        """Not ``soon``: only what is still under way after a while, since nobody waits for it."""
        self._works[work] = None
        if soon:
            self._new.set()
        if self._thread is None or self._process != os.getpid():
            self._process = os.getpid()
            self._thread = threading.Thread(
                target=self._loop, name="rushlight-progress", daemon=True
            )
            self._thread.start()

    def remove(self, work: Work) -> None:
        self._works.pop(work, None)

    def _loop(self) -> None:
        while True:
            self._new.wait(_WHILE)
            self._new.clear()
            while self._works:
                time.sleep(_SLEEP)  # what is short ends before, without this thread
                for work in list(self._works):
                    work._poll()


progress = _Progress()
