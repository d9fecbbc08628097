"""Names of settings that other engines read."""

from __future__ import annotations

import enum
import os

from rushlight.distributed._reductions import ReduceOp, kind

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class DebugLevel(enum.Enum):
    """How much PyTorch checks; rushlight compares collectives at every level."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_level: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """The level that ``TORCH_DISTRIBUTED_DEBUG`` or ``set_debug_level`` sets.

    >>> import rushlight as torch
    >>> torch.distributed.get_debug_level().name
    'OFF'
    """
    if not _level:
        set_debug_level_from_env()
    return _level[0]


def set_debug_level(level: DebugLevel) -> None:
    """Sets the level; checks are made at each.

    >>> import rushlight as torch
    >>> torch.distributed.set_debug_level(torch.distributed.DebugLevel.OFF)
    """
    _level[:] = [level]


def set_debug_level_from_env() -> None:
    """Reads the level from ``TORCH_DISTRIBUTED_DEBUG``.

    >>> import rushlight as torch
    >>> torch.distributed.set_debug_level_from_env()
    """
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, got {name}")
    set_debug_level(DebugLevel[name])


def supports_complex(reduceOp: Any) -> bool:
    """Whether PyTorch's engines combine complex numbers so.

    >>> import rushlight as torch
    >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.SUM)
    True
    """
    adds = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)
    return reduceOp in adds or kind(reduceOp, "supports_complex") in adds
