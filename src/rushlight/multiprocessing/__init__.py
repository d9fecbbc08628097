"""Python's ``multiprocessing`` with tensors: those in shared memory stay shared when sent.

``Tensor.share_memory_()`` moves a tensor to memory that every process sees; other tensors are sent
by value.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *
from multiprocessing import connection as connection
from multiprocessing import pool as pool
from multiprocessing import queues as queues

from rushlight.multiprocessing._sharing import register as _register
from rushlight.multiprocessing.spawn import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += _multiprocessing.__all__

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted for compatibility: memory is always shared by descriptors, which leave no files.

    >>> import rushlight as torch
    >>> torch.multiprocessing.set_sharing_strategy("file_system")
    >>> torch.multiprocessing.get_sharing_strategy()
    'file_system'
    >>> torch.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}"
        )
    _strategy = new_strategy


def get_sharing_strategy() -> str:
    """The strategy that was set.

    >>> import rushlight as torch
    >>> torch.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy


def get_all_sharing_strategies() -> set[str]:
    """The names that ``set_sharing_strategy`` takes.

    >>> import rushlight as torch
    >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)


_register()
