"""Saving: each process writes its part, and the checkpoint appears in one step.

The files of a checkpoint have names of their own. When every process has written its file, rank 0
replaces ``.metadata``, which says what belongs together; then the old files go. Whatever is
interrupted before leaves the old checkpoint as it was.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from functools import partial

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.checkpoint._entries import Part, flat, part_of
from rushlight.distributed.checkpoint.metadata import NAME, Metadata, key_of

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import Any

__all__ = ["async_save", "save", "save_state_dict"]

_ENDING = ".distcp"


class CheckpointException(RuntimeError):
    """Some processes could not save or load; ``failures`` has the error of each rank.

    >>> from rushlight.distributed.checkpoint import CheckpointException, save
    >>> CheckpointException("save", {1: OSError("disk full")}).failures[1]
    OSError('disk full')
    """

    def __init__(self, what: str, failures: dict[int, BaseException]) -> None:
        told = "; ".join(f"rank {r}: {e}" for r, e in failures.items())
        super().__init__(f"checkpoint: {what} failed, ranks: {sorted(failures)}: {told}")
        self.failures = failures


def together(group: Any, alone: bool) -> tuple[int, int, Callable[[Any], list[Any]]]:
    """(rank, world size, a function that tells everyone everyone's value)."""
    if alone or not dist.is_initialized():
        return 0, 1, lambda value: [value]

    def exchange(value: Any) -> list[Any]:
        if isinstance(value, BaseException):
            value = RuntimeError(f"{type(value).__name__}: {value}")  # others may lack its class
        everyone: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(everyone, value, group=group)
        return everyone

    return dist.get_rank(group), dist.get_world_size(group), exchange


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a state dict to the folder ``checkpoint_id``; every process calls it.

    Parts of DTensors are written by those who have them, whole tensors by one process each. Any
    number of processes can load the result. The folder may hold an older checkpoint: it stays
    until the new one is whole.

    >>> import rushlight as torch
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> import rushlight.distributed.checkpoint as dcp
    >>> _ = dcp.save({"model": {"weight": torch.ones(2)}, "epoch": 3}, checkpoint_id=folder)
    >>> state = {"model": {"weight": torch.zeros(2)}, "epoch": 0}
    >>> dcp.load(state, checkpoint_id=folder)
    >>> state
    {'model': {'weight': tensor([1., 1.])}, 'epoch': 3}
    """
    folder = _folder(checkpoint_id, storage_writer)
    entries = list(flat(state_dict))
    return _save(entries, folder, process_group, no_dist, _overwrites(storage_writer))


save_state_dict = save


def _folder(checkpoint_id: Any, storage: Any) -> str:
    place = storage.path if checkpoint_id is None and storage is not None else checkpoint_id
    if place is None:
        raise RuntimeError("checkpoint: say where: checkpoint_id, storage_writer or storage_reader")
    return os.fspath(place)


def _overwrites(storage: Any) -> bool:
    return getattr(storage, "overwrite", True)


def _save(
    entries: list[tuple[str, Any, Any]], folder: str, group: Any, alone: bool, overwrite: bool
) -> Metadata:
    rank, world, exchange = together(group, alone)
    mine, described = _described(entries)
    token = secrets.token_hex(4)
    everyone = exchange((token, described))
    token = everyone[0][0]
    files = [f"__{r}_{token}{_ENDING}" for r in range(world)]
    metadata, writers = _planned([d for _, d in everyone], files)
    error: BaseException | None = None
    try:
        if not overwrite and os.path.exists(os.path.join(folder, NAME)):
            raise RuntimeError(f"Checkpoint already exists and overwrite=False: {folder!r}")
        os.makedirs(folder, exist_ok=True)
        content = {key: mine[key]() for key, writer in writers.items() if writer == rank}
        if content:
            rushlight.save(content, os.path.join(folder, files[rank]))
    except Exception as e:
        error = e
    failures = {r: e for r, e in enumerate(exchange(error)) if e is not None}
    if not failures and rank == 0:
        try:
            metadata.write(folder)
            _remove_others(folder, metadata.files())
        except Exception as e:
            error = e
    if failures:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, files[rank]))
        raise CheckpointException("save", failures) from error
    failures = {r: e for r, e in enumerate(exchange(error)) if e is not None}
    if failures:
        raise CheckpointException("save", failures) from error
    return metadata


def _described(
    entries: list[tuple[str, Any, Any]],
) -> tuple[dict[str, Callable[[], Any]], list[tuple[Any, ...]]]:
    """What this process can write, by key, and what everyone is told of it."""
    mine: dict[str, Callable[[], Any]] = {}
    described: list[tuple[Any, ...]] = []
    for name, _, value in entries:
        if isinstance(value, Tensor):
            shape, part, local = part_of(value)
            dtype = str(local.dtype).removeprefix("torch.")
            described.append((name, shape, dtype, part.offsets, part.sizes, local.element_size()))
            mine[key_of(name, part)] = partial(_own, local)
        else:
            described.append((name, None))
            mine[name] = partial(_itself, value)
    return mine, described


def _own(local: Tensor) -> Tensor:
    return local.contiguous().clone()  # a view would be saved with all of its memory


def _itself(value: Any) -> Any:
    return value


def _planned(
    everyone: list[list[tuple[Any, ...]]], files: list[str]
) -> tuple[Metadata, dict[str, int]]:
    """Who writes what: the least loaded of those who have a part."""
    holders: dict[str, list[int]] = {}
    facts: dict[str, tuple[Any, ...]] = {}
    for rank, described in enumerate(everyone):
        for fact in described:
            key = fact[0] if fact[1] is None else key_of(fact[0], Part(fact[3], fact[4]))
            holders.setdefault(key, []).append(rank)
            facts.setdefault(key, fact)
    metadata, writers, load = Metadata(), {}, [0] * len(everyone)
    for key, fact in facts.items():
        name = fact[0]
        if fact[1] is None:
            writers[key] = holders[key][0]
            metadata.objects[name] = files[writers[key]]
            continue
        _, shape, dtype, offsets, sizes, width = fact
        known = metadata.tensors.setdefault(name, (shape, dtype, []))
        if known[:2] != (shape, dtype):
            raise ValueError(
                f"checkpoint: processes have different tensors of the name {name!r}: "
                f"{known[1]} of shape {known[0]}, and {dtype} of shape {shape}"
            )
        count = 1
        for n in sizes:
            count *= n
        if count == 0 and 0 not in shape:
            continue  # a process without a part
        writer = min(holders[key], key=load.__getitem__)
        load[writer] += count * width
        writers[key] = writer
        known[2].append((offsets, sizes, files[writer]))
    return metadata, writers


def _remove_others(folder: str, kept: set[str]) -> None:
    """Removes files of older checkpoints and of interrupted ones."""
    for file in os.listdir(folder):
        if file.endswith(_ENDING) and file not in kept:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, file))


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """``save`` in a thread, of the numbers as they are now; the Future ends when it is whole.

    The thread makes collectives: give it a ``process_group`` of its own if training makes some
    meanwhile.

    >>> import rushlight as torch
    >>> import tempfile
    >>> import rushlight.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> future = dcp.async_save({"x": torch.ones(1)}, checkpoint_id=folder)
    >>> list(future.result().tensors)
    ['x']
    """
    from concurrent.futures import ThreadPoolExecutor

    folder = _folder(checkpoint_id, storage_writer)
    entries = [
        (name, path, _copied(value) if isinstance(value, Tensor) else value)
        for name, path, value in flat(state_dict)
    ]
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        return pool.submit(
            _save, entries, folder, process_group, no_dist, _overwrites(storage_writer)
        )
    finally:
        pool.shutdown(wait=False)


def _copied(value: Any) -> Any:
    with rushlight.no_grad():
        return value.detach().clone()
