"""Loading: each process reads the parts it needs, whoever wrote them."""

from __future__ import annotations

import os

import rushlight
from rushlight._C import Tensor
from rushlight.distributed.checkpoint._entries import flat, part_of
from rushlight.distributed.checkpoint.metadata import Metadata, key_of
from rushlight.distributed.checkpoint.state_dict_saver import (
    CheckpointException,
    _folder,
    together,
)
from rushlight.distributed.checkpoint.stateful import Stateful

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills a state dict from the folder ``checkpoint_id``: tensors in place, other values anew.

    Every process calls it, with its own parts of DTensors; the checkpoint may come from any number
    of processes. Objects with ``load_state_dict`` are given their state. Without a process group
    one process loads whole tensors. With ``DefaultLoadPlanner(allow_partial_load=True)`` as
    ``planner``, what the checkpoint lacks stays as it is.

    >>> import rushlight as torch
    >>> import tempfile
    >>> import rushlight.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> _ = dcp.save({"x": torch.ones(1)}, checkpoint_id=folder)
    >>> state = {"x": torch.zeros(1)}
    >>> dcp.load(state, checkpoint_id=folder)
    >>> state
    {'x': tensor([1.])}
    """
    folder = _folder(checkpoint_id, storage_reader)
    _, _, exchange = together(process_group, no_dist)
    error: BaseException | None = None
    try:
        _load(state_dict, folder, getattr(planner, "allow_partial_load", False))
    except Exception as e:
        error = e
    failures = {r: e for r, e in enumerate(exchange(error)) if e is not None}
    if error is not None:
        raise error
    if failures:
        raise CheckpointException("load", failures)


load_state_dict = load


def _load(state_dict: dict[str, Any], folder: str, partial: bool) -> None:
    metadata = Metadata.read(folder)
    files = _Files(folder)
    objects = {
        key: value for key, value in state_dict.items()
        if not isinstance(value, Tensor) and isinstance(value, Stateful)
    }  # fmt: skip
    target = {**state_dict, **{key: value.state_dict() for key, value in objects.items()}}
    entries = list(flat(target))
    missing = [
        name for name, path, value in entries
        if name not in metadata.tensors and name not in metadata.objects
        and not _is_empty(value)
    ]  # fmt: skip
    if missing and not partial:
        raise RuntimeError(
            f"Missing key in checkpoint state_dict: {', '.join(missing[:10])}"
            f"{' ...' if len(missing) > 10 else ''} ({folder!r} holds "
            f"{len(metadata.tensors) + len(metadata.objects)} entries)"
        )
    for name, path, value in entries:
        if name in metadata.tensors and isinstance(value, Tensor):
            _fill(value, name, metadata, files)
        elif name in metadata.objects:
            _put(target, path, files.read(metadata.objects[name], name))
        elif name in metadata.tensors:
            _put(target, path, _whole(name, metadata, files))
    for key, value in target.items():
        if key in objects:
            objects[key].load_state_dict(value)
        else:
            state_dict[key] = value


def _is_empty(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and not value


class _Files:
    """Opens each file once, and reads of it what is asked for."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.opened: dict[str, Any] = {}

    def read(self, file: str, key: str) -> Any:
        if file not in self.opened:
            path = os.path.join(self.folder, file)
            self.opened[file] = rushlight.load(path, mmap=True)
        return self.opened[file][key]


def _fill(value: Tensor, name: str, metadata: Metadata, files: _Files) -> None:
    shape, part, local = part_of(value)
    saved = tuple(metadata.tensors[name][0])
    if saved != shape:
        raise ValueError(
            f"checkpoint: size mismatch between saved {saved} and current: {shape} for {name}"
        )
    with rushlight.no_grad():
        for other, file in metadata.parts(name):
            common = part.overlap(other)
            if common is None and shape:
                continue
            source = files.read(file, key_of(name, other))
            if common is None:
                local.copy_(source)
            else:
                common.within(local, part).copy_(common.within(source, other))


def _whole(name: str, metadata: Metadata, files: _Files) -> Tensor:
    """A tensor for which the state dict has no place yet."""
    shape, dtype, _ = metadata.tensors[name]
    made = rushlight.empty(tuple(shape), dtype=getattr(rushlight, dtype))
    _fill(made, name, metadata, files)
    return made


def _put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    *outer, last = path
    for key in outer:
        tree = tree[key]
    if isinstance(tree, tuple):
        raise TypeError(
            f"checkpoint: cannot load {'.'.join(map(str, path))} into a tuple: use a list"
        )
    tree[last] = value
