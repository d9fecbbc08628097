"""A training function on the workers of a Ray cluster, started again from its last checkpoint.

Ray gives the processes and says when one is lost; they talk through MPI or NCCL, as always.
"""

from __future__ import annotations

import os
import time

import rushlight
from rushlight import distributed as dist

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from typing import Any

__all__ = ["Context", "run"]

_PATIENCE = 3.0  # seconds in which the cause of a failure may come after its consequences
_FILE = "checkpoint.pt"


class Context:
    """What a training function is given: its rank, and the place of its checkpoint.

    >>> import tempfile
    >>> import rushlight as torch
    >>> from rushlight.distributed.ray import Context
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> context = Context(0, 1, 0, tempfile.mkdtemp())
    >>> context.load() is None
    True
    >>> context.save({"step": 3, "weight": torch.ones(2)})
    >>> context.load()
    {'step': 3, 'weight': tensor([1., 1.])}
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, rank: int, world_size: int, attempt: int, storage: str | None) -> None:
        self.rank, self.world_size = rank, world_size
        self.attempt = attempt  # how often all were started before
        self.storage = storage

    def _path(self, where: str) -> str:
        if self.storage is None:
            raise ValueError(
                f"Context.{where}: there is no place for checkpoints: run(..., storage='folder'), "
                "which all machines reach"
            )
        return os.path.join(self.storage, _FILE)

    def save(self, state: Any) -> None:
        """Replaces the checkpoint by what rank 0 gives, in one step. All ranks call it.

        For parts that differ between ranks, ``distributed.checkpoint.save`` writes to
        ``context.storage`` in the same way.
        """
        path = self._path("save")
        if self.rank == 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            rushlight.save(state, path)
        dist.barrier()

    def load(self) -> Any:
        """The last checkpoint that was written whole; None if there is none."""
        path = self._path("load")
        return rushlight.load(path, map_location="cpu") if os.path.exists(path) else None


class _Worker:
    """An actor: one rank."""

    def address(self) -> str:
        import ray

        return str(ray.util.get_node_ip_address())

    def port(self) -> int:
        import socket

        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def work(
        self,
        context: Context,
        function: Callable[..., Any],
        args: Sequence[Any],
        environment: dict[str, str],
        options: dict[str, Any],
    ) -> Any:
        os.environ.update(environment)
        dist.init_process_group(**options)
        result = function(context, *args)
        dist.barrier()
        dist.destroy_process_group()
        return result


def run(
    function: Callable[..., Any],
    num_workers: int = 1,
    *,
    args: Sequence[Any] = (),
    storage: str | None = None,
    max_restarts: int = 0,
    backend: str | None = None,
    timeout: timedelta | None = None,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
) -> list[Any]:
    """Calls ``function(context, *args)`` in workers of Ray, which are in a process group.

    When a worker is lost or raises, all are ended and started again, ``max_restarts`` times at
    most; ``context.load()`` then gives what ``context.save(state)`` wrote last. Without a cluster
    (``ray.init``, or ``RAY_ADDRESS``) one is started on this machine, for this call.

    Args:
        function: the training; with its arguments it is pickled.
        num_workers: how many processes.
        args: what it is called with after the context.
        storage: a folder for the checkpoint, which all machines reach.
        max_restarts: how often all are started again.
        backend, timeout: of ``init_process_group``.
        cpus_per_worker, gpus_per_worker: what Ray reserves for each.

    Returns:
        What the function returned, by rank.

    >>> from rushlight.distributed.ray import run
    >>> run(print, num_workers=0)
    Traceback (most recent call last):
        ...
    ValueError: run: num_workers must be at least 1: 0
    """
    if num_workers < 1:
        raise ValueError(f"run: num_workers must be at least 1: {num_workers}")
    try:
        import ray
    except ImportError as error:
        raise RuntimeError(
            f"run: Ray is not installed ({error}): pip install 'rushlight[ray]'"
        ) from None
    own = not ray.is_initialized()
    if own and "RAY_ADDRESS" in os.environ:
        ray.init()
    elif own:
        count = max(os.cpu_count() or 1, int(num_workers * cpus_per_worker + 0.999))
        ray.init(num_cpus=count, include_dashboard=False)
    actor = ray.remote(max_restarts=0, num_cpus=cpus_per_worker, num_gpus=gpus_per_worker)(_Worker)
    options = {"backend": backend, "timeout": timeout}
    folder = None if storage is None else os.path.abspath(storage)
    try:
        for attempt in range(max_restarts + 1):
            contexts = [Context(r, num_workers, attempt, folder) for r in range(num_workers)]
            results, cause = _attempt(actor, contexts, function, args, options)
            if cause is None:
                return results
            if attempt == max_restarts:
                raise cause
            _say(f"attempt {attempt} failed: {_first_line(cause)}: all workers start again")
        raise AssertionError("unreachable")
    finally:
        if own:
            ray.shutdown()


def _attempt(
    actor: Any,
    contexts: list[Context],
    function: Callable[..., Any],
    args: Sequence[Any],
    options: dict[str, Any],
) -> tuple[list[Any], BaseException | None]:
    """One start of all workers: the results, or why they failed."""
    import ray

    workers = [actor.remote() for _ in contexts]
    try:
        hosts = ray.get([worker.address.remote() for worker in workers])
        port = ray.get(workers[0].port.remote())
        calls = [
            worker.work.remote(context, function, args, _environment(context, hosts, port), options)
            for worker, context in zip(workers, contexts, strict=True)
        ]
        waiting = list(calls)
        while waiting:
            done, waiting = ray.wait(waiting)
            if (error := _error(done[0])) is not None:
                return [], _cause(error, waiting)
        return ray.get(calls), None
    except ray.exceptions.RayError as error:  # a worker that did not start
        return [], error
    finally:
        for worker in workers:
            ray.kill(worker)


def _environment(context: Context, hosts: list[str], port: int) -> dict[str, str]:
    """What torchrun puts into the environment of a rank."""
    same = [rank for rank, host in enumerate(hosts) if host == hosts[context.rank]]
    values = {
        "RANK": context.rank, "WORLD_SIZE": context.world_size,
        "LOCAL_RANK": same.index(context.rank), "LOCAL_WORLD_SIZE": len(same),
        "MASTER_ADDR": hosts[0], "MASTER_PORT": port,
        "TORCHELASTIC_RESTART_COUNT": context.attempt,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items()}


def _error(call: Any) -> BaseException | None:
    import ray

    try:
        ray.get(call)
    except ray.exceptions.RayError as error:
        return error
    return None


def _cause(first: BaseException, waiting: list[Any]) -> BaseException:
    """Which failure came first: others may notice a lost worker before Ray does."""
    import ray

    end = time.monotonic() + _PATIENCE
    while waiting and isinstance(first, dist.DistError) and time.monotonic() < end:
        done, waiting = ray.wait(waiting, timeout=end - time.monotonic())
        for call in done:
            error = _error(call)
            if error is not None and not isinstance(error, dist.DistError):
                first = error
    return first


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _say(text: str) -> None:
    import sys

    print(f"rushlight.distributed.ray: {text}", file=sys.stderr)
