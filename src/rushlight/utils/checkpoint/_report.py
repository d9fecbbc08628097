"""What a region saved, and the error that tells how a recomputation differs from it."""

from __future__ import annotations

import linecache
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight import _C

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.autograd.graph import SavedTensorInfo

_AROUND = 3  # saved tensors shown before and after the first difference


class CheckpointError(RuntimeError):
    """A recomputation did not save what the forward pass had saved.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import CheckpointError, checkpoint
    >>> steps = [torch.sin, torch.cos]
    >>> x = torch.ones(2, requires_grad=True)
    >>> y = checkpoint(lambda t: steps.pop()(t), x, use_reentrant=False)
    >>> try:
    ...     y.sum().backward()
    ... except CheckpointError:
    ...     print("the two runs differ")
    the two runs differ
    """


class Unfollowable(CheckpointError):
    """Recorded calls no longer give what they gave; running the function may."""

    kept = False  # a kept result is the cause


class Overwritten(Unfollowable):
    """A tensor that a recomputation starts from is not what it was."""

    def __init__(self, tensor: Any, version: int, kept: bool) -> None:
        what = "a recomputation reads what has changed"
        if kept:
            what = "Tensor cached during selective activation checkpoint has been mutated"
        super().__init__(
            f"torch.utils.checkpoint: {what}: one of the variables needed for gradient "
            f"computation has been modified by an inplace operation: [{tensor.dtype} "
            f"{list(tensor.shape)}] is at version {tensor._version}; expected version {version} "
            "instead."
        )
        self.kept = kept


class Mark(NamedTuple):
    """A saved tensor as an error may have to describe it."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any
    version: int
    checksum: int | None
    node: str
    argument: str
    line: tuple[str, int, str] | None

    def metadata(self) -> dict[str, Any]:
        return {"shape": self.shape, "dtype": self.dtype, "device": self.device}

    def text(self) -> str:
        kind = f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"
        text = f"{kind} saved as {self.argument or 'a tensor'} by {self.node or 'an op'}"
        if self.line is None:
            return text
        file, number, _ = self.line
        source = linecache.getline(file, number).strip()
        return f"{text} at {file}:{number}" + (source and f": {source}")


def _checksum(tensor: Any) -> int:
    return zlib.crc32(_C._bytes(tensor.detach().contiguous()))


def describe_saved(tensor: Any, info: SavedTensorInfo | Mark, with_checksum: bool) -> Mark:
    return Mark(
        tensor.shape,
        tensor.dtype,
        tensor.device,
        0 if tensor._is_view() else tensor._version,  # others may write beside a view
        _checksum(tensor) if with_checksum else None,
        info.node,
        info.argument,
        info.line,
    )


def _listing(marks: Sequence[Mark], around: int | None) -> str:
    if around is None:
        first, last = 0, len(marks)
    else:
        first, last = max(0, around - _AROUND), min(len(marks), around + _AROUND + 1)
    lines = [f"  {i}: {marks[i].text()}" for i in range(first, last)]
    if last < len(marks):
        lines.append(f"  ... and {len(marks) - last} more")
    return "\n".join(lines) or "  nothing"


def difference(kind: str, before: Sequence[Mark], now: Sequence[Mark], debug: bool) -> str:
    """Both lists of saved tensors, around the first that differs; whole in debug mode."""
    at = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if not agree(a, b)), -1)
    if at < 0:
        at = min(len(before), len(now))
    around = None if debug else at
    return (
        f"torch.utils.checkpoint: {kind}\n\n"
        f"The first difference is at saved tensor {at}.\n"
        f"Saved by the forward pass:\n{_listing(before, around)}\n"
        f"Saved by the recomputation:\n{_listing(now, around)}\n"
        "A checkpointed function must do the same work each time it is called: look for state "
        "that it changes or reads (counters, caches, buffers, `.training`), and for parameters "
        "changed between forward and backward."
    )


def agree(before: Mark, now: Mark) -> bool:
    """Whether a recomputed tensor can stand for the one that the forward pass saved."""
    return before[:-1] == now[:-1]


def different_count(before: Sequence[Mark], now: Sequence[Mark], debug: bool) -> CheckpointError:
    kind = (
        "A different number of tensors was saved during the original forward and recomputation.\n"
        f"Number of tensors saved during forward: {len(before)}\n"
        f"Number of tensors saved during recomputation: {len(now)}."
    )
    return CheckpointError(difference(kind, before, now, debug))


def too_many(before: Sequence[Mark], now: Sequence[Mark], debug: bool) -> CheckpointError:
    kind = "trying to save more tensors during recomputation than during the original forward pass."
    return CheckpointError(difference(kind, before, now, debug))


def different_tensor(before: Sequence[Mark], now: Sequence[Mark], debug: bool) -> CheckpointError:
    at = len(now) - 1
    a, b = before[at], now[at]
    if (a.node, a.argument) != (b.node, b.argument):
        kind = (
            "Recomputed values for the following tensors were saved by another operation than "
            f"during the forward pass.\ntensor at position {at}: saved as {a.argument} by "
            f"{a.node}, recomputed as {b.argument} by {b.node}"
        )
    elif a.metadata() == b.metadata() and a.version != b.version:
        kind = (
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: tensor at position {at} was saved at version {a.version} by the forward "
            f"pass, and is at version {b.version} in the recomputation."
        )
    elif a.metadata() == b.metadata():
        kind = (
            "Recomputed values for the following tensors differ from those of the forward pass.\n"
            f"tensor at position {at}: checksum {a.checksum}, recomputed {b.checksum}"
        )
    else:
        kind = (
            "Recomputed values for the following tensors have different metadata than during the "
            f"forward pass.\ntensor at position {at}:\nsaved metadata: {a.metadata()}\n"
            f"recomputed metadata: {b.metadata()}"
        )
    return CheckpointError(difference(kind, before, now, debug))


def different_value(before: Sequence[Mark], at: int, value: Any, debug: bool) -> Exception | None:
    """What is wrong with the bits of a value that was computed for saved tensor `at`, if any."""
    now = before[at]._replace(checksum=_checksum(value))
    return None if now == before[at] else different_tensor(before, [*before[:at], now], debug)
