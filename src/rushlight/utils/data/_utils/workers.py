"""The loader's side of worker processes: handing out work, receiving batches, ending."""

from __future__ import annotations

import atexit
import math
import multiprocessing
import os
import select
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import rushlight
from rushlight.utils.data._utils import pipes
from rushlight.utils.data._utils.transport import LoaderEnd, Message, connection
from rushlight.utils.data._utils.worker import CHECK_INTERVAL, Resume, WorkerTask, worker_loop
from rushlight.utils.data.dataloader import DataLoader, _BaseDataLoaderIter

_PATIENCE = 5.0  # seconds that workers get to finish what they do when they are to end


_FORK_WARNS = sys.version_info >= (3, 12)  # where other threads are alive


@contextmanager
def _quiet_fork(process: Any) -> Iterator[None]:
    """Without Python's warning of forks beside threads: it does not hold here.

    The core's threads hold no locks that a child would wait for: it starts its own.
    """
    if not _FORK_WARNS or getattr(process, "_start_method", None) not in (None, "fork"):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        yield


@contextmanager
def _holding_ctrl_c() -> Iterator[None]:
    """A process started here takes no notice of Ctrl-C until it unblocks the signal itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker:
    """A worker process and the connection to it."""

    def __init__(self, context: Any, task: WorkerTask) -> None:
        self.end: LoaderEnd
        self.end, theirs = connection()
        self.active = True
        self.tasks = 0
        try:
            self.process = context.Process(target=worker_loop, args=(task, theirs), daemon=True)
            with _quiet_fork(self.process), _holding_ctrl_c():
                self.process.start()
        except BaseException:
            self.end.close()
            raise
        finally:
            theirs.close()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """One pass over a loader with workers; with persistent ones, pass after pass.

    Batches are numbered as they are requested. ``_where`` says which worker owes a number,
    ``_ready`` keeps what came before its turn.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.is_shut_down = False
        self._workers: list[Worker] = []
        self._owner = os.getpid()
        super().__init__(loader)
        if self._shared_seed is not None:  # PyTorch draws one more here: later numbers are its own
            pipes.shared_seed(loader.generator)
        self._prefetch_factor = loader.prefetch_factor or 0
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 when there are workers")
        self._in_order = loader.in_order
        context = loader.multiprocessing_context or multiprocessing.get_context()
        _live.add(self)
        try:
            for i in range(self._num_workers):
                self._workers.append(Worker(context, self._task(loader, i)))
        except BaseException:
            self._shutdown_workers()
            raise
        self._poll = select.poll()
        self._by_descriptor: dict[int, Worker] = {}
        for worker in self._workers:
            self._by_descriptor[worker.end.sock.fileno()] = worker
            self._poll.register(worker.end.sock, select.POLLIN)
        self._begin()

    def _task(self, loader: DataLoader[Any], number: int) -> WorkerTask:
        return WorkerTask(
            dataset_kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=self._base_seed,
            shared_seed=self._shared_seed,
            process=pipes.place(),
            init_fn=loader.worker_init_fn,
            worker_id=number,
            num_workers=self._num_workers,
            prefetch=self._prefetch_factor,
            torch_streams=getattr(rushlight.default_generator, "_torch", False),
        )

    # -- a pass

    def _begin(self) -> None:
        self._requested = 0  # the number of the next request
        self._where: dict[int, Worker] = {}
        self._ready: dict[int, Message] = {}
        self._turns = cycle(self._workers)
        for worker in self._workers:
            worker.active, worker.tasks = True, 0
        for _ in range(self._prefetch_factor * self._num_workers):
            self._request()

    def _reset(self, loader: DataLoader[Any]) -> None:
        super()._reset(loader)
        self._where.clear()
        self._ready.clear()
        waiting = len(self._workers)
        for worker in self._workers:
            worker.end.send((-1, Resume(self._shared_seed)))
        while waiting:  # what is left of an abandoned pass comes first
            waiting -= sum(message.kind == "resumed" for message in self._receive())
        self._begin()

    def _request(self) -> None:
        """Hands the next index to the next worker that can take it."""
        worker = self._next_worker()
        if worker is None:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        worker.end.send((self._requested, index))
        worker.tasks += 1
        self._where[self._requested] = worker
        self._requested += 1

    def _next_worker(self) -> Worker | None:
        """The next one in turn; where order does not matter, the next of those least busy."""
        if not any(worker.active for worker in self._workers):
            return None
        if not self._in_order:
            least = min(worker.tasks for worker in self._workers if worker.active)
            return next(w for w in self._turns if w.active and w.tasks == least)
        return next(worker for worker in self._turns if worker.active)

    def _next_data(self) -> Any:
        while True:
            message = self._next_message()
            worker = self._where[message.number]
            if message.kind == "end":
                self._retire(worker)
                continue
            del self._where[message.number]
            worker.tasks -= 1
            self._request()
            data = message.value()
            if message.kind == "error":
                data.reraise()
            return data

    def _retire(self, worker: Worker) -> None:
        """The stream of a worker has ended: what else was asked of it goes to the others."""
        worker.active = False
        numbers = [number for number, owner in self._where.items() if owner is worker]
        for number in numbers:
            del self._where[number]
            self._ready.pop(number, None)
        if not self._persistent_workers:
            self._poll.unregister(worker.end.sock)
            worker.end.close()
        for _ in numbers:
            self._request()

    def _next_message(self) -> Message:
        """The result whose turn it is; StopIteration when all were handed out."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            if not self._where:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            turn = min(self._where) if self._in_order else next(iter(self._ready), -1)
            if turn in self._ready:
                return self._ready.pop(turn)
            for message in self._receive(deadline):
                if message.number in self._where:
                    self._ready[message.number] = message

    def _receive(self, deadline: float | None = None) -> list[Message]:
        """Waits until something arrives. RuntimeError when a worker dies or the time is up."""
        while True:
            if self.is_shut_down:
                raise RuntimeError("the workers of this DataLoader iterator have been shut down")
            for worker in self._workers:
                if worker.end.wants_write and not worker.end.closed:
                    self._poll.modify(worker.end.sock, select.POLLIN | select.POLLOUT)
            left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
            events = self._poll.poll(min(left, CHECK_INTERVAL) * 1000)
            messages = [m for descriptor, event in events for m in self._handle(descriptor, event)]
            if messages:
                return messages
            if not events:
                self._check_alive()
                if left <= CHECK_INTERVAL:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _check_alive(self) -> None:
        """A dead worker's connection stays open when a process that it started holds it."""
        for worker in self._workers:
            if worker.active and not worker.process.is_alive():
                self._report_dead(worker)

    def _handle(self, descriptor: int, event: int) -> list[Message]:
        worker = self._by_descriptor[descriptor]
        if event & select.POLLOUT:
            worker.end.flush()
            if not worker.end.wants_write:
                self._poll.modify(descriptor, select.POLLIN)
        if event & ~select.POLLOUT:
            try:
                return worker.end.receive()
            except EOFError:
                self._report_dead(worker)
        return []

    def _report_dead(self, worker: Worker) -> None:
        worker.process.join(1.0)
        dead = [w for w in self._workers if w.process.exitcode is not None and w.active]
        dead = dead or [worker]
        pids = ", ".join(str(w.process.pid) for w in dead)
        codes = {w.process.exitcode for w in dead}
        self._shutdown_workers()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {pids}) exited unexpectedly"
            + "".join(_explain_exit(code) for code in sorted(codes, key=str))
        )

    # -- the end

    def _shutdown_workers(self) -> None:
        """Ends the workers: asks by closing the connections, then insists."""
        if self.is_shut_down or self._owner != os.getpid():
            return
        self.is_shut_down = True
        _live.discard(self)
        for worker in self._workers:
            worker.end.close()
        deadline = time.monotonic() + _PATIENCE
        processes = [worker.process for worker in self._workers]
        try:
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()
            for process in processes:
                process.join(1.0)
                if process.is_alive():
                    process.kill()
                    process.join()

    def __del__(self) -> None:
        self._shutdown_workers()


def _explain_exit(code: int | None) -> str:
    if code is None:
        return ": it closed the connection, but still runs"
    if code >= 0:
        return f" with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f": killed by signal {name}{hint}"


_live: weakref.WeakSet[_MultiProcessingDataLoaderIter] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for iterator in list(_live):
        iterator._shutdown_workers()
