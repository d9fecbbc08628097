"""Names of PyTorch's ``autograd`` that libraries import without being invited to."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def _is_checkpoint_valid() -> bool:
    """True: regions are recomputed in every kind of backward pass."""
    return True


class SavedTensor:
    """A tensor kept for a backward pass: writes to it are noticed when it is unpacked.

    >>> import rushlight as torch
    >>> torch.autograd.SavedTensor(torch.ones(2)).unpack()
    tensor([1., 1.])
    """

    def __init__(self, tensor: Any = None, is_output: bool = False) -> None:
        self._tensor = tensor
        self._version = None if tensor is None else tensor._version
        self._hooks: tuple[Any, Any] | None = None

    def register_hooks(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        """Keeps ``pack(tensor)``; unpacking gives what ``unpack`` makes of it."""
        if self._hooks is not None:
            raise RuntimeError("Setting hooks on a saved tensor that already has hooks is refused")
        self._hooks = (pack(self._tensor), unpack)
        self._tensor = None

    def unpack(self) -> Any:
        """The tensor, if nobody wrote to it."""
        if self._hooks is not None:
            return self._hooks[1](self._hooks[0])
        if self._tensor is not None and self._tensor._version != self._version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: {list(self._tensor.shape)} is at version "
                f"{self._tensor._version}; expected version {self._version}"
            )
        return self._tensor


def _profiler_enabled() -> bool:
    """Whether a profiler records this thread."""
    return bool(_C._mode_state()[0] >> 11 & 1)  # the switch "profiled"


def _disable_profiler() -> NoReturn:
    """Raises: the block that began to record ends it."""
    raise RuntimeError("_disable_profiler: leave the block of the profiler that records")
