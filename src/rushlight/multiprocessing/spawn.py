"""Starting a number of equal processes and waiting for all; an error in one ends the others."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

_GRACE = 30.0  # seconds that the others get to end after one failed


class ProcessException(Exception):
    """One of the processes failed: ``error_index`` says which, ``error_pid`` is its pid."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process ended with an exception; its traceback is in the text."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        arguments = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), arguments


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the process that started this one got it too
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together.

    >>> import rushlight as torch
    >>> context = torch.multiprocessing.start_processes(range, nprocs=2, join=False)
    >>> while not context.join():
    ...     pass
    >>> [process.exitcode for process in context.processes]
    [0, 0]
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self._errors = errors
        self._sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for processes to end: True when all have. Raises what went wrong in one."""
        if not self._sentinels:
            return True
        failed = None
        for ready in connection.wait(list(self._sentinels), timeout):
            index = self._sentinels.pop(ready)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self._sentinels
        self._end_others(_GRACE if grace_period is None else grace_period)
        self._raise_error(failed)
        return True

    def _end_others(self, grace: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + grace
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise_error(self, index: int) -> None:
        process = self.processes[index]
        try:
            text = self._errors[index].recv()
        except EOFError:
            text = ""  # it had no time to say anything
        if text:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            text = f"process {index} terminated with signal {name}"
            raise ProcessExitedException(text, index, process.pid, code, name)
        text = f"process {index} terminated with exit code {code}"
        raise ProcessExitedException(text, index, process.pid, code)


class SpawnContext(ProcessContext):
    """Processes started by ``spawn``.

    >>> import rushlight as torch
    >>> context = torch.multiprocessing.spawn(range, join=False)
    >>> len(context.pids()), context.join()
    (1, True)
    """


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs ``fn(i, *args)`` in ``nprocs`` processes.

    >>> import rushlight as torch
    >>> done = torch.zeros(2).share_memory_()
    >>> torch.multiprocessing.start_processes(done.__setitem__, args=(1.0,), nprocs=2)
    >>> done
    tensor([1., 1.])
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, i, args, theirs), daemon=daemon)
        process.start()
        theirs.close()
        processes.append(process)
        errors.append(ours)
    started = SpawnContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs ``fn(i, *args)`` in ``nprocs`` fresh processes and waits for them.

    An exception in one is raised here with its traceback, and the others are ended. With
    ``join=False`` a context is returned, whose ``join`` waits.

    >>> import rushlight as torch
    >>> done = torch.zeros(2).share_memory_()
    >>> torch.multiprocessing.spawn(done.__setitem__, args=(1.0,), nprocs=2)
    >>> done
    tensor([1., 1.])
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
