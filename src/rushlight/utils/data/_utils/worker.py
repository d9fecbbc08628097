"""What runs in a worker process."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import rushlight
import rushlight.random
from rushlight.utils.data._utils import pipes

CHECK_INTERVAL = 5.0  # seconds after which a waiting worker looks whether its loader lives


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader: its id, the number of workers, its seed and its copy of the
    dataset. In the main process: None.

    >>> from rushlight.utils.data import get_worker_info
    >>> print(get_worker_info())
    None
    """
    return _worker_info


class ExceptionWrapper:
    """An exception on its way to another process: its class and its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.exc_type: Any = type(error)
        self.exc_name = type(error).__name__
        self.exc_msg = "".join(traceback.format_exception(error))
        self.where = where

    def __getstate__(self) -> dict[str, Any]:
        """The class goes as a pickle of its own: where it can't travel, the text still does."""
        kind = None
        with contextlib.suppress(Exception):
            kind = pickle.dumps(self.exc_type)
        return {**self.__dict__, "exc_type": kind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        kind, self.exc_type = self.exc_type, None
        with contextlib.suppress(Exception):
            self.exc_type = pickle.loads(kind)

    def reraise(self) -> None:
        """Raises an exception of the same class, or a RuntimeError where that can't be made."""
        text = f"Caught {self.exc_name} {self.where}.\nOriginal {self.exc_msg}"
        message: Any = text
        if self.exc_type is KeyError:
            message = _Text(text)  # a KeyError shows the repr of its argument
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(message) if self.exc_type else RuntimeError(text)
        except Exception:
            error = RuntimeError(text)
        try:
            raise error from None
        finally:
            del error  # or the exception would keep this frame, and with it the loader


class _Text(str):
    """A string whose repr is the text itself."""

    def __repr__(self) -> str:
        return str(self)


@dataclass
class WorkerTask:
    """What a worker is told when it starts."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    shared_seed: int | None  # of a data pipe
    process: tuple[int, int]  # the number of the loader's process in its group, and their number
    init_fn: Any
    worker_id: int
    num_workers: int
    prefetch: int
    torch_streams: bool


def _set_seeds(base_seed: int, worker_id: int) -> int:
    seed = base_seed + worker_id
    random.seed(seed)
    rushlight.manual_seed(seed)
    if "numpy" in sys.modules:
        import numpy

        words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
        numpy.random.seed(numpy.random.SeedSequence(words).generate_state(4))  # noqa: NPY002
    return seed


def _set_signals() -> None:
    """Ctrl-C reaches the whole group of processes: the loader decides what becomes of it.

    A handler that does nothing, since ignoring the signal would pass on to programs that a dataset
    starts. Handlers that the main program set are not for workers. The loader blocked the signal
    for the time until here.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def worker_loop(task: WorkerTask, sock: socket.socket) -> None:
    """Serves requests until the loader closes the connection."""
    from rushlight.utils.data._utils.transport import WorkerEnd, close_inherited

    _set_signals()
    close_inherited()
    rushlight.set_num_threads(1)
    if task.torch_streams:
        rushlight.random.torch_streams()
    seed = _set_seeds(task.base_seed, task.worker_id)
    global _worker_info
    _worker_info = WorkerInfo(task.worker_id, task.num_workers, seed, task.dataset)
    try:
        _serve(task, WorkerEnd(sock, task.prefetch))
    except (EOFError, BrokenPipeError, ConnectionError):
        pass  # the loader is gone or has no more use for this worker
    finally:
        sock.close()


def _serve(task: WorkerTask, end: Any) -> None:
    where = f"in DataLoader worker process {task.worker_id}"
    failure: ExceptionWrapper | None = None
    fetcher: Any = None
    try:
        if task.shared_seed is not None:
            pipes.set_seed(task.dataset, task.shared_seed)
        if pipes.is_pipe(task.dataset):  # among processes first, then among their workers
            rank, size = task.process
            parts = task.num_workers * size
            pipes.divide(task.dataset, parts, task.worker_id * size + rank)
        if task.init_fn is not None:
            task.init_fn(task.worker_id)
        fetcher = _create_fetcher(task)
    except Exception as error:
        failure = ExceptionWrapper(error, where)
    ended = False
    parent = os.getppid()
    while True:
        try:
            request = end.receive(CHECK_INTERVAL)
        except TimeoutError:
            if os.getppid() != parent:
                return
            continue
        number, index = request
        if isinstance(index, Resume):
            ended = False
            if failure is None:
                try:
                    if index.shared_seed is not None:
                        pipes.set_seed(task.dataset, index.shared_seed)
                    fetcher = _create_fetcher(task)
                except Exception as error:
                    failure = ExceptionWrapper(error, where)
            end.send("resumed", number, None)
        elif ended:
            end.send("end", number, None)
        elif failure is not None:
            end.send("error", number, failure)
        else:
            ended = _answer(end, fetcher, number, index, task.dataset_kind == 1, where)


@dataclass(frozen=True)
class Resume:
    """The request to begin anew, with the seed of a data pipe."""

    shared_seed: int | None


def _create_fetcher(task: WorkerTask) -> Any:
    from rushlight.utils.data.dataloader import _DatasetKind

    return _DatasetKind.create_fetcher(
        task.dataset_kind, task.dataset, task.auto_collation, task.collate_fn, task.drop_last
    )


def _answer(end: Any, fetcher: Any, number: int, index: Any, stream: bool, where: str) -> bool:
    """Fetches and sends a batch; True when the stream of the dataset has ended."""
    try:
        data = fetcher.fetch(index)
    except Exception as error:
        if stream and isinstance(error, StopIteration):
            end.send("end", number, None)
            return True
        end.send("error", number, ExceptionWrapper(error, where))
        return False
    try:
        end.send("data", number, data)
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        end.send("error", number, ExceptionWrapper(error, f"{where}, sending its batch"))
    return False
